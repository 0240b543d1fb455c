"""Left-to-right sampling of autoregressive models, each column computed once."""

from __future__ import annotations

import torch
from torch import Tensor

from discrete_diffusion.algorithms import AR, Algorithm
from discrete_diffusion.categorical import draw
from discrete_diffusion.sampling.base import Sampler
from discrete_diffusion.sampling.draft import Draft


class Autoregressive(Sampler):
    """Draw the free positions from left to right, keeping the backbone's keys and values.

    The distribution of ``first-hitting`` on the same algorithm. One call per free position, which
    computes the columns that were not read yet (one, unless clamped ones lie between) and no PAD.
    Samples whose real and clamped positions are the same share their calls.

    Clamping is exact for a prefix: a clamp behind a free position is not seen when that is drawn.

    Raises ``ValueError`` for an algorithm other than ``ar``, for a backbone without ``new_cache``,
    or if ``steps`` is given.
    """

    name = "autoregressive"
    absorbing_only = True
    algorithms = ("ar",)

    def check(self, algorithm: Algorithm) -> None:
        super().check(algorithm)
        if not hasattr(algorithm.backbone, "new_cache"):
            raise ValueError(
                f"autoregressive sampling needs a backbone with new_cache, such as dit; "
                f"{type(algorithm.backbone).__name__} has none: use sampling=first-hitting"
            )

    def check_steps(self, algorithm: Algorithm, steps: int | None) -> None:
        if steps is not None:
            raise ValueError("autoregressive sampling makes one call per token; leave steps unset")

    def _run(self, draft: Draft) -> None:
        real = draft.request.real
        patterns, kind = torch.unique(
            torch.stack([real, draft.free], dim=1).byte(), dim=0, return_inverse=True
        )
        for k in range(len(patterns)):
            self._fill(draft, (kind == k).nonzero().squeeze(1))

    def _fill(self, draft: Draft, rows: Tensor) -> None:
        """Fill the samples ``rows``, whose real and free positions are the same."""
        algorithm, request = draft.algorithm, draft.request
        assert isinstance(algorithm, AR)
        reader = algorithm.prefix_reader(request.real[rows], request.conditions_of(rows))
        is_free = draft.free[rows[0]].tolist()
        for k, position in enumerate(reader.columns.tolist()):
            if not is_free[position]:
                continue
            support = None
            if request.support is not None:
                support = request.support[rows, position] & algorithm.layout.support[position]
            log_d0, log_kept = self._shaped(reader.log_d0(draft.x[rows], k), support)
            draft.x[rows, position] = draw(log_d0, request.generator)
            draft.log_weights[rows] += log_kept.double()
            draft.nfe[rows] += 1
            draft.record()
