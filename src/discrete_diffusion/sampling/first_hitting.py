"""First-hitting sampling: exact for absorbing processes, one token per network call."""

from __future__ import annotations

import torch
from torch import Tensor

from discrete_diffusion.algorithms import Algorithm
from discrete_diffusion.categorical import uniform_draws
from discrete_diffusion.forward_process import Absorbing
from discrete_diffusion.sampling.base import Sampler
from discrete_diffusion.types import SampleOutput, SampleRequest


class FirstHitting(Sampler):
    """Reveal one token at a time, at the times at which the reverse process would reveal them.

    Every free masked position l has an unmask time T_l with 1 - alpha_l(T_l) ~ U(0, 1),
    independent of the data. All are drawn at the start and revealed in descending order, the
    network being told t = T_l, per sample. The result has exactly the distribution of ancestral
    sampling with infinitely many steps, for time-conditioned networks and schedules per group
    too (Zheng et al., arXiv 2409.02908). With ``blocks`` the times count inside a block, and a
    block is full before the next one begins.

    A sample costs as many network calls as it has free tokens; samples with the same number left
    share a call, and a sample takes part only while it has any.

    Raises ``ValueError`` for a process that is not absorbing, or if ``steps`` is given.
    """

    name = "first-hitting"

    def check(self, algorithm: Algorithm) -> None:
        super().check(algorithm)
        if not isinstance(algorithm.process, Absorbing):
            raise ValueError(
                "first-hitting sampling needs an absorbing process, got "
                f"{type(algorithm.process).__name__}; use sampling=ancestral"
            )

    def _run(self, algorithm: Algorithm, request: SampleRequest) -> SampleOutput:
        if request.steps is not None:
            raise ValueError("first-hitting sampling makes one call per token; leave steps unset")
        real = request.real
        x = self._start(algorithm, request)
        times, positions = self._order(algorithm, request)
        left = (real & (request.clamp < 0)).sum(dim=1)
        log_weights = torch.zeros(real.shape[0], dtype=torch.float64, device=real.device)
        trajectory = [x.clone()] if request.keep_trajectory else []
        for remaining in range(int(left.max()) if left.numel() else 0, 0, -1):
            rows = (left >= remaining).nonzero().squeeze(1)
            turn = left[rows] - remaining
            position, t = positions[rows, turn], times[rows, turn]  # (R,)
            log_d0 = algorithm.denoise(x[rows], t, real[rows], request.conditions_of(rows))
            support = None
            if request.support is not None:
                support = request.support[rows, position] & algorithm.layout.support[position]
            here = torch.arange(len(rows), device=real.device)
            x[rows, position], log_kept = self._draw_tokens(
                log_d0[here, position], support, request.generator
            )
            log_weights[rows] += log_kept.double()
            if request.keep_trajectory:
                trajectory.append(x.clone())
        return SampleOutput(
            tokens=x,
            nfe=left,
            log_weights=log_weights,
            trajectory=torch.stack(trajectory) if trajectory else None,
        )

    @staticmethod
    def _order(algorithm: Algorithm, request: SampleRequest) -> tuple[Tensor, Tensor]:
        """Unmask times Float64[B, L] and positions Int[B, L] in the order of their reveal: free
        ones by block, then by descending time; the others behind them."""
        real, process = request.real, algorithm.process
        assert isinstance(process, Absorbing)
        free = real & (request.clamp < 0)
        u = uniform_draws(tuple(real.shape), request.generator, real.device)
        times = process.unmask_times(1 - u).masked_fill(~free, -1.0)
        times, positions = times.sort(dim=1, descending=True)
        if algorithm.blocks is not None:
            behind = real.shape[1]
            block = algorithm.blocks.expand_as(positions).masked_fill(~free, behind)
            by_block = block.gather(1, positions).argsort(dim=1, stable=True)
            times, positions = times.gather(1, by_block), positions.gather(1, by_block)
        return times, positions
