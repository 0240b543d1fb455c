"""MDLM: masked diffusion (Sahoo et al., arXiv 2406.07524)."""

from __future__ import annotations

import torch
from torch import nn

from discrete_diffusion.algorithms.base import Algorithm
from discrete_diffusion.algorithms.draws import MASK_DRAWS, draw_masks
from discrete_diffusion.forward_process import Absorbing, ForwardProcess
from discrete_diffusion.naming import unknown_name
from discrete_diffusion.types import Batch, LossOutput


class MDLM(Algorithm):
    """Cross-entropy on the masked tokens, weighted so that it is the bound:

        NELBO = E_t E_xt  sum over masked l of  -alpha_l'(t) / (1 - alpha_l(t)) * -log D_l(x0_l)

    with alpha per position if the schedule is (MDLM eq. 10, continuous time). The prior and
    reconstruction terms are exactly 0 because alpha(0) = 1 and alpha(1) = 0.

    The loss is the mean NELBO of the batch divided by the constant L, so that its gradient is the
    gradient of the bound whatever sizes a batch happens to hold.

    ``draw``: how the masks of a training batch are drawn, one of ``MASK_DRAWS``.

    Raises ``ValueError`` if the forward process is not absorbing.
    """

    process: Absorbing
    evaluation_draw = "forced_mask"

    def __init__(
        self,
        backbone: nn.Module,
        process: ForwardProcess,
        *,
        time_conditioning: bool = True,
        draw: str = "forced_mask",
    ) -> None:
        if not isinstance(process, Absorbing):
            raise ValueError(
                f"mdlm needs an absorbing forward process, got {type(process).__name__}; "
                "set forward_process=absorbing"
            )
        if draw not in MASK_DRAWS:
            raise ValueError(unknown_name("mask draw", draw, MASK_DRAWS))
        super().__init__(backbone, process, time_conditioning=time_conditioning)
        self.draw = draw

    def loss(self, batch: Batch, generator: torch.Generator, draw: str | None = None) -> LossOutput:
        masked = draw_masks(draw or self.draw, self.process, batch, generator)
        log_d0 = self.denoise(masked.xt, masked.t, batch.real, batch.conditions)
        x0 = batch.x0.unsqueeze(-1)
        cross_entropy = -log_d0.gather(-1, x0).squeeze(-1).masked_fill(~batch.real, 0.0)  # (B, L)
        nelbo = (masked.weight.to(log_d0.dtype) * cross_entropy).sum(dim=1)  # (B,)
        return LossOutput(
            loss=nelbo.mean() / self.layout.length,
            nelbo=nelbo.detach(),
            num_real=batch.real.sum(dim=1),
        )
