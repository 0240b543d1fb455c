"""Ancestral sampling: the reverse process on a grid of times."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor

from discrete_diffusion.algorithms import Algorithm
from discrete_diffusion.categorical import draw
from discrete_diffusion.naming import unknown_name
from discrete_diffusion.sampling.base import Sampler
from discrete_diffusion.types import SampleOutput, SampleRequest

GRIDS = ("auto", "uniform", "squared")


class Ancestral(Sampler):
    """x_s ~ p(x_s | x_t) down a grid of T = ``steps`` times from 1 to 0; works for every process.

    ``grid``: ``uniform``, t = i / T; ``squared``, t = (i / T)^2, finer near t = 0; ``auto`` takes
    the first for absorbing processes and the second for the others, which decide most there. A
    model of discrete steps is asked at its own times only, i / ``num_steps``, the nearest ones.

    All positions of a step are drawn independently, so the samples approach the model's
    distribution like 1 / T as T grows. A sample takes part only while it has free tokens, and for
    an absorbing process only while one of them is masked. With ``blocks`` every block has the whole
    grid to itself.
    """

    name = "ancestral"

    def __init__(
        self,
        *,
        default_steps: int = 100,
        grid: str = "auto",
        temperature: float = 1.0,
        top_p: float = 1.0,
    ) -> None:
        super().__init__(temperature=temperature, top_p=top_p)
        if grid not in GRIDS:
            raise ValueError(unknown_name("grid", grid, GRIDS))
        self.default_steps, self.grid = default_steps, grid

    def times(self, algorithm: Algorithm, steps: int) -> Tensor:
        """Float64[T + 1]: the grid, from 1 down to 0."""
        t = torch.linspace(1, 0, steps + 1, dtype=torch.float64)
        if self.grid == "squared" or (self.grid == "auto" and not algorithm.process.absorbing):
            t = t.square()
        if algorithm.num_steps is None:
            return t
        own = (t * algorithm.num_steps).round() / algorithm.num_steps
        return own.unique().flip(0)

    def _run(self, algorithm: Algorithm, request: SampleRequest) -> SampleOutput:
        steps = self.default_steps if request.steps is None else request.steps
        if steps < 1:
            raise ValueError(f"steps={steps}: expected at least 1")
        num, device = request.real.shape[0], request.real.device
        x = self._start(algorithm, request)
        nfe = torch.zeros(num, dtype=torch.long, device=device)
        log_weights = torch.zeros(num, dtype=torch.float64, device=device)
        trajectory = [x.clone()] if request.keep_trajectory else []
        times = self.times(algorithm, steps).to(device)
        for turn in self._turns(algorithm, request):
            for t, s in pairwise(times):
                waiting = turn
                if algorithm.process.absorbing:
                    waiting = turn & (x == algorithm.layout.mask_id)
                rows = waiting.any(dim=1).nonzero().squeeze(1)
                if rows.numel() == 0:
                    break
                x[rows], step_weights = self._step(algorithm, request, x[rows], rows, turn, t, s)
                log_weights[rows] += step_weights
                nfe[rows] += 1
                if request.keep_trajectory:
                    trajectory.append(x.clone())
        return SampleOutput(
            tokens=x,
            nfe=nfe,
            log_weights=log_weights,
            trajectory=torch.stack(trajectory) if trajectory else None,
        )

    @staticmethod
    def _turns(algorithm: Algorithm, request: SampleRequest) -> list[Tensor]:
        """Bool[B, L] for each block: the free positions that are drawn in its turn."""
        free = request.real & (request.clamp < 0)
        if algorithm.blocks is None:
            return [free]
        return [free & (algorithm.blocks == block) for block in algorithm.blocks.unique()]

    def _step(
        self,
        algorithm: Algorithm,
        request: SampleRequest,
        x_t: Tensor,
        rows: Tensor,
        turn: Tensor,
        t: Tensor,
        s: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """x_s Int[R, L] of the samples ``rows``, and their log importance weights, Float64[R]."""
        prediction = algorithm.predict(
            x_t,
            t.expand(len(rows)),
            s.expand(len(rows)),
            request.real[rows],
            request.support_of(rows),
            temperature=self.temperature,
            top_p=self.top_p,
            conditions=request.conditions_of(rows),
        )
        x_s = torch.where(turn[rows], draw(prediction.log_probs, request.generator), x_t)
        if prediction.log_weights is None:
            return x_s, torch.zeros(len(rows), dtype=torch.float64, device=x_s.device)
        by_outcome = prediction.log_weights.gather(-1, x_s.unsqueeze(-1)).squeeze(-1)
        return x_s, torch.where(turn[rows], by_outcome, 0.0).double().sum(dim=1)
