"""Many bubble diagrams as a few flat arrays, so that metrics are vector operations.

Axes: ``M`` diagrams, ``R`` rooms of all diagrams, ``E`` listed relations of all diagrams.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from discrete_diffusion.data.bubble_diagrams.diagram import BubbleDiagram

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class DiagramArrays:
    """``num_rooms``: Int[M]. ``rooms``: Int[R] room type codes, diagram after diagram.

    ``owner``: Int[R], the diagram of each room.
    ``source``, ``target``: Int[E], the ends i and j of each relation, numbered *within* their
        diagram; ``relation``: Int[E], its code 0..9; ``diagram``: Int[E], where it belongs.
    """

    num_rooms: Ints
    rooms: Ints
    owner: Ints
    source: Ints
    target: Ints
    relation: Ints
    diagram: Ints

    @classmethod
    def pack(cls, diagrams: Sequence[BubbleDiagram]) -> DiagramArrays:
        """Raises ``ValueError`` without a diagram: no share or histogram is defined then."""
        if len(diagrams) == 0:
            raise ValueError("no diagrams to measure: metrics need at least one")
        num_rooms = np.array([len(d.rooms) for d in diagrams], dtype=np.int64)
        num_relations = [len(d.relations) for d in diagrams]
        rooms = np.fromiter(chain.from_iterable(d.rooms for d in diagrams), dtype=np.int64)
        triples = chain.from_iterable(chain.from_iterable(d.relations for d in diagrams))
        edges = np.fromiter(triples, dtype=np.int64).reshape(-1, 3)
        index = np.arange(len(diagrams))
        return cls(
            num_rooms=num_rooms,
            rooms=rooms,
            owner=index.repeat(num_rooms),
            source=edges[:, 0],
            target=edges[:, 1],
            relation=edges[:, 2],
            diagram=index.repeat(num_relations),
        )

    def __len__(self) -> int:
        return len(self.num_rooms)

    @property
    def source_type(self) -> Ints:
        """Int[E]: room type of the end i of each relation."""
        return self.rooms[self._first_room[self.diagram] + self.source]

    @property
    def target_type(self) -> Ints:
        """Int[E]: room type of the end j of each relation."""
        return self.rooms[self._first_room[self.diagram] + self.target]

    @property
    def _first_room(self) -> Ints:
        return self.num_rooms.cumsum() - self.num_rooms

    def count_rooms(self, room_type: int) -> Ints:
        """Int[M]: rooms of one type in each diagram."""
        return np.bincount(self.owner[self.rooms == room_type], minlength=len(self))

    def adjacency(self, source: Ints, target: Ints, diagram: Ints) -> NDArray[np.bool_]:
        """Bool[M, n, n] with n the largest room count: True where an arc source -> target is."""
        size = int(self.num_rooms.max())
        arcs = np.zeros((len(self), size, size), dtype=bool)
        arcs[diagram, source, target] = True
        return arcs


def reachable(arcs: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Transitive closure of Bool[M, n, n]: True where a path of one or more arcs leads i to j."""
    closure = arcs.copy()
    for k in range(arcs.shape[1]):
        closure |= closure[:, :, k, None] & closure[:, k, None, :]
    return closure
