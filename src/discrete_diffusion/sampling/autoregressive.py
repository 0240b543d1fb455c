"""Left-to-right sampling of autoregressive models, each column computed once."""

from __future__ import annotations

import torch
from torch import Tensor

from discrete_diffusion.algorithms.ar import AR
from discrete_diffusion.algorithms.token_algorithm import TokenAlgorithm
from discrete_diffusion.sampling.base import Law
from discrete_diffusion.sampling.draft import Draft
from discrete_diffusion.sampling.tokens import TokenSampler


class Autoregressive(TokenSampler):
    """Left-to-right sampling of autoregressive models, each column computed once.

    Draw the free positions from left to right, keeping the backbone's keys and values.

    The distribution of ``first-hitting`` on the same algorithm. One call per free position, which
    computes the columns that were not read yet (one, unless clamped ones lie between) and no PAD.
    Samples whose real, clamped and given positions are the same share their calls.

    Clamping is exact for a prefix: a clamp behind a free position is not seen when that is drawn.

    Raises ``ValueError`` for an algorithm other than ``ar``, for a backbone without ``new_cache``,
    or if ``steps`` is given.
    """

    name = "autoregressive"
    law = Law.MODEL
    absorbing_only = True
    algorithms = ("ar",)

    def check(self, algorithm: TokenAlgorithm, steps: int | None = None) -> None:
        if steps is not None:
            raise ValueError("autoregressive sampling makes one call per token; leave steps unset")
        super().check(algorithm, steps)
        if not hasattr(algorithm.backbone, "new_cache"):
            raise ValueError(
                f"autoregressive sampling needs a backbone with new_cache, such as dit; "
                f"{type(algorithm.backbone).__name__} has none: use sampling=first-hitting"
            )

    def work(self, num: int, algorithm: TokenAlgorithm | None = None) -> int:
        return num

    def run(self, draft: Draft) -> None:
        seen = draft.algorithm.layout.is_real(draft.x)
        patterns, kind = torch.unique(
            torch.stack([draft.real, draft.free, seen], dim=1).byte(), dim=0, return_inverse=True
        )
        draft.calls.expect(int(patterns[:, 1].sum()))
        for k in range(len(patterns)):
            self._fill(draft, (kind == k).nonzero().squeeze(1))

    def _fill(self, draft: Draft, rows: Tensor) -> None:
        """Fill the samples ``rows``, whose real, free and given positions are the same."""
        algorithm = draft.algorithm
        assert isinstance(algorithm, AR)
        real = draft.real[rows]
        inputs = self._guidance.inputs(draft.conditions_of(rows), real)
        readers = [
            algorithm.prefix_reader(draft.x[rows], real, conditions) for conditions in inputs
        ]
        is_free = draft.free[rows[0]].tolist()
        for k, position in enumerate(readers[0].columns.tolist()):
            if not is_free[position]:
                continue
            legal = algorithm.layout.support[position]
            draft.begin_call()
            found = [reader.log_d0(draft.x[rows], k) for reader in readers]
            where = torch.zeros_like(draft.free)
            where[rows, position] = True
            self.sample_at(draft, where, self._guidance.mix_log_probs(found, legal))
            draft.nfe[rows] += self._guidance.calls
            draft.record()
