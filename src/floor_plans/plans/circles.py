"""``NoCircles``: while a diagram is sampled, no relation is sampled that closes a circle."""

from __future__ import annotations

import torch
from torch import Tensor

from discrete_diffusion.layout import VocabConfig
from discrete_diffusion.sampling import Narrowing
from floor_plans.diagrams.rooms import (
    INSIDE,
    NO_EDGE,
    RELATION_X_ORDER,
    RELATION_Y_ORDER,
    RELATIONS,
    SURROUNDING,
)

_NESTING = [{INSIDE: -1, SURROUNDING: 1}.get(code, 0) for code in range(len(RELATIONS))]

ORDERS = torch.tensor([RELATION_X_ORDER, RELATION_Y_ORDER, _NESTING])
"""Int[3, 11]: what a relation says of room i and room j: -1, i lies left of j, above it, or inside
it; 1, the other way round; 0, neither."""


class NoCircles(Narrowing):
    """Rooms are left of each other, above each other or inside each other in no circle.

    On each of the three, what the relations sampled so far imply is their transitive closure; an id
    of a pair that says the opposite is excluded. One id at least, "no-edge", never is. A diagram
    that is buildable has no circle (its centres follow left and above, its boxes lie strictly
    within each other), so that none is lost.
    """

    def __init__(self, vocab: VocabConfig) -> None:
        self._vocab = vocab
        self._ends = torch.tensor(vocab.endpoints).reshape(-1, 2)

    def support(self, x: Tensor, position: Tensor) -> Tensor:
        first, ends = self._vocab.edge_offset, self._ends.to(x.device)
        allowed = torch.ones(len(x), self._vocab.vocab_size, dtype=torch.bool, device=x.device)
        pair = (position - self._vocab.n_max).clamp(min=0)
        i, j = ends[pair].unbind(dim=1)
        row = torch.arange(len(x), device=x.device)
        signs = ORDERS.to(x.device)
        for order, before in zip(signs, self._implied(x, signs, ends), strict=True):
            forward, backward = before[row, i, j], before[row, j, i]
            opposed = (forward.unsqueeze(1) & (order > 0)) | (backward.unsqueeze(1) & (order < 0))
            allowed[:, first : first + len(order)] &= ~opposed
        allowed[position < self._vocab.n_max] = True
        return allowed

    def _implied(self, x: Tensor, signs: Tensor, ends: Tensor) -> Tensor:
        """Bool[3, R, n, n]: room i is before room j on each of the orders, in the samples x
        Int[R, L]."""
        n_max = self._vocab.n_max
        codes = x[:, n_max:] - self._vocab.edge_offset
        codes = torch.where((codes >= 0) & (codes < NO_EDGE), codes, NO_EDGE)  # MASK and PAD, too
        signs_of = signs[:, codes]  # (3, R, E)
        i, j = ends.unbind(dim=1)
        before = torch.zeros(len(signs), len(x), n_max, n_max, dtype=torch.bool, device=x.device)
        before[..., i, j], before[..., j, i] = signs_of < 0, signs_of > 0
        for k in range(n_max):
            before |= before[..., :, k : k + 1] & before[..., k : k + 1, :]
        return before
