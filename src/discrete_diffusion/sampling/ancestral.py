"""Ancestral sampling: the reverse process on a grid of times."""

from __future__ import annotations

from itertools import pairwise

import torch

from discrete_diffusion.algorithms import Algorithm
from discrete_diffusion.categorical import draw
from discrete_diffusion.sampling.base import Sampler
from discrete_diffusion.types import SampleOutput, SampleRequest


class Ancestral(Sampler):
    """x_s ~ p(x_s | x_t) for t = 1, 1 - 1/T, ..., 1/T; works for every process.

    All positions of a step are drawn independently, so the samples approach the model's
    distribution like 1 / T as ``steps`` = T grows. A sample of an absorbing process is left alone
    once none of its tokens is masked.
    """

    def __init__(
        self, *, default_steps: int = 100, temperature: float = 1.0, top_p: float = 1.0
    ) -> None:
        super().__init__(temperature=temperature, top_p=top_p)
        self.default_steps = default_steps

    def _run(self, algorithm: Algorithm, request: SampleRequest) -> SampleOutput:
        steps = self.default_steps if request.steps is None else request.steps
        if steps < 1:
            raise ValueError(f"steps={steps}: expected at least 1")
        real, clamp = request.real, request.clamp
        num, device = real.shape[0], real.device
        x = self._start(algorithm, request)
        nfe = torch.zeros(num, dtype=torch.long, device=device)
        log_weights = torch.zeros(num, dtype=torch.float64, device=device)
        trajectory = [x] if request.keep_trajectory else []
        times = torch.linspace(1, 0, steps + 1, dtype=torch.float64, device=device)
        absorbing, mask_id = algorithm.process.absorbing, algorithm.layout.mask_id
        rows = torch.arange(num, device=device)
        for t, s in pairwise(times):
            if absorbing:
                rows = ((x == mask_id) & real).any(dim=1).nonzero().squeeze(1)
                if rows.numel() == 0:
                    break
            x_t = x[rows]
            prediction = algorithm.predict(
                x_t,
                t.expand(len(rows)),
                s.expand(len(rows)),
                real[rows],
                request.support_of(rows),
                temperature=self.temperature,
                top_p=self.top_p,
                conditions=request.conditions_of(rows),
            )
            drawn = draw(prediction.log_probs, request.generator)
            x_s = torch.where(clamp[rows] >= 0, x_t, drawn)
            log_weights[rows] += torch.where(x_s != x_t, prediction.log_kept, 0.0).double().sum(1)
            x = x.index_copy(0, rows, x_s)
            nfe[rows] += 1
            if request.keep_trajectory:
                trajectory.append(x)
        return SampleOutput(
            tokens=x,
            nfe=nfe,
            log_weights=log_weights,
            trajectory=torch.stack(trajectory) if trajectory else None,
        )
