"""Left-to-right sampling of autoregressive models."""

from __future__ import annotations

import torch

from discrete_diffusion.algorithms.token_algorithm import TokenAlgorithm
from discrete_diffusion.sampling.base import Exactness
from discrete_diffusion.sampling.partial_samples import PartialSamples
from discrete_diffusion.sampling.tokens import TokenSampler


class Autoregressive(TokenSampler):
    """Left-to-right sampling of autoregressive models that computes each column once.

    Sample the free positions from left to right, keeping the backbone's keys and values.

    The samples are distributed as those of ``first-hitting`` on the same algorithm. There is one
    call per free position; it computes only new columns (one, unless clamped tokens lie between)
    and no PAD. Samples whose real, clamped and given positions are the same share their calls.

    Clamping is exact for a prefix: a free position is sampled without seeing clamps to its right.

    Raises ``ValueError`` for an algorithm other than ``ar``, for a backbone without ``new_cache``,
    or if ``steps`` is given.
    """

    name = "autoregressive"
    exactness = Exactness.MODEL
    absorbing_only = True
    algorithms = ("ar",)
    takes_no_steps = "autoregressive sampling makes one call per token; leave steps unset"

    def check(self, algorithm: TokenAlgorithm, steps: int | None = None) -> None:
        super().check(algorithm, steps)
        if not hasattr(algorithm.backbone, "new_cache"):
            raise ValueError(
                f"autoregressive sampling needs a backbone with new_cache, such as dit; "
                f"{type(algorithm.backbone).__name__} has none: use sampling=first-hitting"
            )

    def work(self, num: int, algorithm: TokenAlgorithm | None = None) -> int:
        return num

    def run(self, samples: PartialSamples) -> None:
        # samples with equal columns share their calls
        patterns, kind = samples.patterns
        alike = kind == torch.arange(len(patterns), device=kind.device).unsqueeze(1)  # (K, B)
        positions = [samples.free[rows].any(dim=0).nonzero().squeeze(1).tolist() for rows in alike]
        samples.calls.expect(sum(map(len, positions)))
        for k, of_kind in enumerate(positions):
            for position in of_kind:
                rows = (alike[k] & samples.free[:, position]).nonzero().squeeze(1)
                where = torch.zeros_like(samples.free)
                where[rows, position] = True
                t = samples.times(0.0)[rows]  # not used
                log_d0 = self.log_d0(samples, rows, t, here=where[rows])
                self.sample_at(samples, where, log_d0)
                samples.record()
