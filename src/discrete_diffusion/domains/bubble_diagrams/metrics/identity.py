"""When two diagrams count as the same: up to relabelling, or by their rooms alone.

Keys are bytes, one per diagram, that can be compared between any two sets.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from discrete_diffusion.domains.bubble_diagrams.canonical import canonical_orders
from discrete_diffusion.domains.bubble_diagrams.diagram import BubbleDiagram
from discrete_diffusion.domains.bubble_diagrams.tokens import encode, relabel
from discrete_diffusion.layout import VocabConfig

Keys = NDArray[np.object_]


def canonical_keys(diagrams: Sequence[BubbleDiagram]) -> Keys:
    """Bytes[M]: two diagrams have the same key iff they are equal up to relabelling.

    The key is the tokens under the canonical order, without padding: it holds n rooms and
    n (n - 1) / 2 pairs, so its length gives n. Boxes and metadata are ignored.
    """
    num_rooms = np.array([len(diagram.rooms) for diagram in diagrams])
    keys = np.empty(len(diagrams), dtype=object)
    for n in np.unique(num_rooms).tolist():
        rows = np.flatnonzero(num_rooms == n)
        vocab = VocabConfig(n_max=n)
        encoded = encode([diagrams[row] for row in rows.tolist()], vocab)
        orders = canonical_orders(encoded.x0, encoded.num_rooms, vocab).orders
        tokens = relabel(encoded.x0, encoded.num_rooms, orders, vocab)
        keys[rows] = row_keys(tokens.numpy().astype(np.uint8))
    return keys


def row_keys(table: NDArray[np.generic]) -> Keys:
    """Bytes[M]: the rows of a table (M, K), equal iff the rows are."""
    keys = np.empty(len(table), dtype=object)
    keys[:] = [row.tobytes() for row in np.ascontiguousarray(table)]
    return keys
