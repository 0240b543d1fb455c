"""GIDD: generalised interpolating discrete diffusion (von Ruette et al., arXiv 2503.04482)."""

from __future__ import annotations

from typing import Literal, Unpack

import torch
from torch import Tensor, nn

from discrete_diffusion.algorithms.base import AlgorithmOptions
from discrete_diffusion.algorithms.continuous_time import ContinuousTime, Parameterization
from discrete_diffusion.algorithms.draws import WeightedDraw
from discrete_diffusion.categorical import neg_inf
from discrete_diffusion.forward_process.base import ForwardProcess
from discrete_diffusion.forward_process.hybrid import Hybrid


class GIDD(ContinuousTime):
    """The bound of the hybrid process, trained with the paper's weight on each position's
    KL(q || Q) + q(z)/Q(z) - 1 - log(q(z)/Q(z)):

        elbo       rate(z) / q_t(z | x0)
        dynamic    2 at a MASK, 1 at a wrong token, b(z) / (alpha + b(z)) at an untouched one

    (section 4.3). The dynamic weight keeps the few corrupted tokens near t = 0 from drowning the
    rest. It is the elbo weight times a function of z and t alone, so the best D is the same. The
    reported NELBO always has the elbo weight.

    Deviation: for an untouched token the paper has (B / V) exp(-gamma/2 log SNR), which is
    b / (alpha + b) where C is near 1; with it the best D would shift.

    ``weighting``: ``dynamic`` or ``elbo``. ``draw``: of training times; the dynamic weight is
    bounded and needs no importance draw.

    Raises ``ValueError`` for an unknown ``weighting``, and as ``ContinuousTime`` does.
    """

    name = "gidd"
    processes = ("hybrid",)
    process: Hybrid

    def __init__(
        self,
        backbone: nn.Module,
        process: ForwardProcess,
        *,
        draw: WeightedDraw = "low_discrepancy",
        parameterization: Parameterization = "leave_one_out",
        weighting: Literal["dynamic", "elbo"] = "dynamic",
        **options: Unpack[AlgorithmOptions],
    ) -> None:
        super().__init__(backbone, process, draw=draw, parameterization=parameterization, **options)
        self.weighting = weighting

    def training_weight(self, xt: Tensor, x0: Tensor, t: Tensor) -> Tensor | float:
        """dynamic weight / elbo weight: b(z) / rate(z), twice that at a MASK; Float[B, L]."""
        if self.weighting == "elbo":
            return 1.0
        log_rate, at_mask = self.process.log_rate_at(xt, t), xt == self.layout.mask_id
        ratio = (self.process.log_noise_at(xt, t) - log_rate).exp()
        return torch.where(log_rate > neg_inf(log_rate.dtype) / 2, (1 + at_mask) * ratio, 0.0)
