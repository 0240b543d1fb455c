"""D3PM: diffusion in T discrete steps (Austin et al., arXiv 2107.03006)."""

from __future__ import annotations

from typing import Unpack

import torch
from torch import Tensor, nn

from discrete_diffusion.algorithms.base import AlgorithmOptions
from discrete_diffusion.algorithms.time_sampling import (
    TIME_DRAWS,
    WEIGHTED_DRAWS,
    WeightedDraw,
    sample_times,
)
from discrete_diffusion.algorithms.token_algorithm import TokenAlgorithm
from discrete_diffusion.categorical import log_one_hot
from discrete_diffusion.config.values import Count, unknown_name
from discrete_diffusion.contracts import Batch, LossOutput
from discrete_diffusion.forward_process.base import ForwardProcess


class D3PM(TokenAlgorithm):
    """The bound of T steps t_i = i / T, one of which is sampled per example:

        L_T = sum_i E KL( q(xs | xt, x0) || p(xs | xt) ),    s = (i - 1) / T, t = i / T

    Both are the process's sampling posterior, q with a point mass on x0 instead of D. The last
    step (s = 0) costs -log P(x0), and the prior term is 0 because alpha(1) = 0. L_T is a bound for
    every T. Absorbing noise: (alpha_s - alpha_t) / (1 - alpha_t) * -log D(x0) at each MASK.

    ``num_steps``: T. ``time_sampling``: how the steps of a training batch are sampled;
    ``importance`` samples i = ceil(T v^2) with v of low discrepancy, since steps with little noise
    weigh most.

    Deviation: no auxiliary cross-entropy; the loss is the bound, divided by L.

    Raises ``ValueError`` for ``num_steps`` that is not a positive whole number, an unknown
    ``time_sampling``, and as ``TokenAlgorithm`` does.
    """

    name = "d3pm"
    processes = ("absorbing", "uniform", "marginal", "hybrid", "matrix")
    any_process = True
    evaluation_draw = "importance"
    discrete_time = True
    num_steps: int

    def __init__(
        self,
        backbone: nn.Module,
        process: ForwardProcess,
        *,
        num_steps: Count = 1000,
        time_sampling: WeightedDraw = "importance",
        **options: Unpack[AlgorithmOptions],
    ) -> None:
        super().__init__(backbone, process, **options)
        self.num_steps, self.time_sampling = num_steps, time_sampling

    def loss(self, batch: Batch, generator: torch.Generator, draw: str | None = None) -> LossOutput:
        # one step of each sample, and 1 / its probability, Float64[B]
        how, device = draw or self.time_sampling, batch.x0.device
        step, weight = self.sample_steps(how, len(batch), generator, device)
        t, s = step / self.num_steps, (step - 1) / self.num_steps
        # the KL divergence of that step per position, Float[B, L]
        xt = self.process.corrupt(batch.x0, t, batch.real, generator)
        log_d0 = self.denoise(xt, t, batch.real, batch.conditions)
        terms = self.step_terms(xt, batch.x0, log_d0, t, s).masked_fill(~batch.real, 0.0)
        return self.output((weight.unsqueeze(1) * terms).sum(dim=1), batch)

    def step_terms(self, xt: Tensor, x0: Tensor, log_d0: Tensor, t: Tensor, s: Tensor) -> Tensor:
        """KL( q(xs | xt, x0) || p(xs | xt) ) per position: Float[B, L]."""
        process = self.process
        if process.absorbing:
            kept = process.one_minus_alpha(s) / process.one_minus_alpha(t)
            log_p = log_d0.gather(-1, x0.unsqueeze(-1)).squeeze(-1)
            return (kept - 1) * log_p * (xt == process.layout.mask_id)
        # q is the posterior with a point mass on x0
        clean = log_one_hot(x0, log_d0.shape[-1], log_d0.dtype)
        truth = process.posterior_log_probs(xt, clean, t, s)
        model = process.posterior_log_probs(xt, log_d0, t, s)
        return (truth.exp() * (truth - model)).sum(dim=-1)

    def sample_steps(
        self, draw: str, num: int, generator: torch.Generator, device: torch.device
    ) -> tuple[Tensor, Tensor]:
        """Steps 1..T and their weights 1 / probability, both Float64[num]."""
        if draw == "importance":
            # i = ceil(T v^2) has probability sqrt(i / T) - sqrt((i - 1) / T)
            v = sample_times("low_discrepancy", num, generator, device)
            step = (v.square() * self.num_steps).ceil().clamp(min=1)
            root = (step / self.num_steps).sqrt() - ((step - 1) / self.num_steps).sqrt()
            return step, 1 / root
        if draw not in TIME_DRAWS:
            raise ValueError(unknown_name("step draw", draw, WEIGHTED_DRAWS))
        step = (sample_times(draw, num, generator, device) * self.num_steps).ceil().clamp(min=1)
        return step, torch.full_like(step, self.num_steps)
