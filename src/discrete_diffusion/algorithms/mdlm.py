"""MDLM: masked diffusion (Sahoo et al., arXiv 2406.07524).

``sample_masks`` (time_sampling.py) masks a batch; ``TokenAlgorithm.nll`` calls the network.
"""

from __future__ import annotations

from typing import Unpack

import torch
from torch import nn

from discrete_diffusion.algorithms.base import AlgorithmOptions
from discrete_diffusion.algorithms.time_sampling import MaskDraw, sample_masks
from discrete_diffusion.algorithms.token_algorithm import TokenAlgorithm
from discrete_diffusion.contracts import Batch, LossOutput
from discrete_diffusion.forward_process.base import ForwardProcess
from discrete_diffusion.forward_process.interpolating import Absorbing


class MDLM(TokenAlgorithm):
    """Masked diffusion: cross-entropy on the masked tokens, weighted so that it is the bound.

        NELBO = E_t E_xt  sum over masked l of  -alpha_l'(t) / (1 - alpha_l(t)) * -log D_l(x0_l)

    with alpha per position if the schedule has one per position (MDLM, arXiv 2406.07524, eq. 10,
    continuous time). The prior and reconstruction terms are exactly 0 because alpha(0) = 1 and
    alpha(1) = 0.

    The loss is the mean NELBO of the batch divided by the constant L, so that its gradient is the
    gradient of the bound for every mix of sizes in a batch.

    Args:
        backbone: the network, x_t Int[B, L] to logits Float[B, L, V].
        process: an absorbing process.
        time_sampling: how the masks of a training batch are sampled, a ``MaskDraw``.
        **options: ``time_conditioning`` and ``condition_dropout`` of ``Algorithm``.

    Raises:
        ValueError: the process is not absorbing, or ``time_sampling`` is unknown.
    """

    name = "mdlm"
    processes = ("absorbing",)
    process: Absorbing
    evaluation_draw = "uniform_count"

    def __init__(
        self,
        backbone: nn.Module,
        process: ForwardProcess,
        *,
        time_sampling: MaskDraw = "uniform_count",
        **options: Unpack[AlgorithmOptions],
    ) -> None:
        super().__init__(backbone, process, **options)
        self.time_sampling = time_sampling

    def loss(self, batch: Batch, generator: torch.Generator, draw: str | None = None) -> LossOutput:
        # xt Int[B, L] has MASK at some positions; t Float64[B]; weight Float64[B, L], 0 at the rest
        masked = sample_masks(draw or self.time_sampling, self.process, batch, generator)
        # -log D_l(x0_l), Float[B, L]: what the network, seeing xt, says of the clean tokens
        nll = self.nll(masked.xt, masked.t, batch, batch.conditions, masked.weight > 0)
        # the bound of each sample, Float[B]
        nelbo = (masked.weight.to(nll.dtype) * nll).sum(dim=1)
        return self.output(nelbo, batch)
