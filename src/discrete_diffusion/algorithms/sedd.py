"""SEDD: score entropy discrete diffusion (Lou et al., arXiv 2310.16834)."""

from __future__ import annotations

from typing import Unpack

import torch
from torch import Tensor, nn

from discrete_diffusion.algorithms.base import AlgorithmOptions
from discrete_diffusion.algorithms.continuous_time import ContinuousTime
from discrete_diffusion.algorithms.time_sampling import (
    MASK_DRAWS,
    WEIGHTED_DRAWS,
    MaskDraw,
    WeightedDraw,
    sample_masks,
)
from discrete_diffusion.categorical import log_prob_at, log_softmax_on, mask_logits
from discrete_diffusion.config.values import check_name
from discrete_diffusion.contracts import Batch, Conditions, LossOutput
from discrete_diffusion.forward_process.base import EVERYWHERE, ForwardProcess
from discrete_diffusion.forward_process.interpolating import Absorbing, InterpolatingProcess

LARGEST_LOG_TOTAL = 10.0
"""Largest log S at which S is the exponential; a trained network has S near 1."""


class SEDD(ContinuousTime):
    """Learn the ratios s(y) = p_t(xt_l -> y) / p_t(xt) freely, without normalising them:

        G(y) = exp(logit(y)) / K_l  on the legal ids,  0 elsewhere
        log s(y) = log(b(y) + alpha G(y)) - log(b(z) + alpha G(z)),    z = xt_l

    s is positive, exactly 1 at y = z, and of bounded scale at every t. The loss, the denoising
    score entropy, is ``general_bound`` with G instead of D. For the absorbing process

        log s = logit - log K - log(exp(sigma) - 1)
        loss  = sum over masked  w (S - 1 - log G(x0)),   S = sum_y G(y),  w = -alpha'/(1 - alpha)

    which is MDLM's with D = softmax(logit), plus w (S - 1 - log S) >= 0.

    Sampling takes D into the posterior of every other algorithm. The scores fix alpha G + b up to a
    factor only, so that is what is normalised:

        Q = (alpha G + b) / (1 + alpha (S - 1))
        D = (Q - b) / alpha, proportional to G / S - (1 - 1 / S) b

    clipped at 0; for absorbing noise D is softmax(logit).

    Deviation: log S is that of the formula up to ``LARGEST_LOG_TOTAL``; beyond, S goes on along its
    tangent, linear in the logits. The scores are as free as before, and neither the loss nor its
    gradient overflows where the exponential of a logit would.

    Deviation: the paper's network returns log s itself; zero logits then have an infinite bound
    under absorbing noise. Here they cost sum_l log K_l.

    ``draw``: of training times or masks; None takes the one of least variance for the process.

    Raises ``ValueError`` for a ``draw`` that the process does not have, and as ``ContinuousTime``
    does.
    """

    name = "sedd"
    processes = ("absorbing", "uniform")
    process: InterpolatingProcess

    def __init__(
        self,
        backbone: nn.Module,
        process: ForwardProcess,
        *,
        draw: WeightedDraw | MaskDraw | None = None,
        **options: Unpack[AlgorithmOptions],
    ) -> None:
        super().__init__(backbone, process, **options)
        self.evaluation_draw = "forced_mask" if process.absorbing else "importance"
        self.draw = draw or self.evaluation_draw
        draws = MASK_DRAWS if process.absorbing else WEIGHTED_DRAWS
        check_name(f"algo.draw for {process.name} noise", self.draw, draws)

    def log_prediction(
        self, x_t: Tensor, t: Tensor, real: Tensor, conditions: Conditions | None = None
    ) -> Tensor:
        """log G: Float[B, L, V]."""
        return self.prediction_of(self.logits(x_t, t, real, conditions), x_t, t)

    @property
    def reads_logits(self) -> bool:
        return type(self).log_prediction is SEDD.log_prediction

    def prediction_of(
        self, logits: Tensor, x_t: Tensor, t: Tensor, positions: slice = EVERYWHERE
    ) -> Tensor:
        """log G of the logits at some positions, Float[B, N, V]."""
        # log G = logit - log K on the legal ids
        log_k = self.layout.num_legal[positions].log().unsqueeze(-1)
        support = self.layout.support[positions]
        log_g = mask_logits(logits - log_k, support)
        # beyond LARGEST_LOG_TOTAL S grows linearly
        excess = (log_g.logsumexp(dim=-1, keepdim=True) - LARGEST_LOG_TOTAL).clamp(min=0)
        return mask_logits(log_g + (excess.log1p() - excess), support)

    def denoise(
        self, x_t: Tensor, t: Tensor, real: Tensor, conditions: Conditions | None = None
    ) -> Tensor:
        log_g = self.log_prediction(x_t, t, real, conditions)
        if self.process.absorbing:
            return log_softmax_on(log_g, self.layout.support)
        # G / S - (1 - 1 / S) b, clipped at 0
        log_s = log_g.double().logsumexp(dim=-1, keepdim=True).clamp(min=-600)
        d0 = (log_g.double() - log_s).exp() - (1 - (-log_s).exp()) * self.process.noise(t)
        d0 = d0.clamp(min=torch.finfo(torch.float64).tiny)
        return log_softmax_on(d0.log(), self.layout.support)

    def loss(self, batch: Batch, generator: torch.Generator, draw: str | None = None) -> LossOutput:
        if not isinstance(self.process, Absorbing):
            return super().loss(batch, generator, draw)
        masked = sample_masks(draw or self.draw, self.process, batch, generator)

        def entropy(log_g: Tensor, samples: slice, positions: slice) -> Tensor:
            x0, counted = batch.x0[samples, positions], masked.weight[samples, positions] > 0
            # visible tokens are not trained: their predictions must not overflow
            log_g = log_g.double().where(counted.unsqueeze(-1), 0.0)
            return (log_g.exp().sum(dim=-1) - 1 - log_prob_at(x0, log_g)) * counted

        total, terms = self.summed(masked.xt, masked.t, batch, masked.weight, entropy)
        loss = (total / len(batch)).float() / self.layout.length
        return self.output((masked.weight * terms).sum(dim=1), batch, loss)
