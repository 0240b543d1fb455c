"""``Algorithm``: a backbone, a forward process and the objective that ties them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from discrete_diffusion.categorical import (
    log_one_hot,
    log_softmax_on,
    mask_logits,
    nucleus,
    temper,
)
from discrete_diffusion.forward_process import ForwardProcess
from discrete_diffusion.types import Batch, LossOutput, Prediction


class Algorithm(nn.Module, ABC):
    """What every algorithm offers: ``loss`` to train with, two distributions to sample with.

    Two different objects must not be exchanged:
    * D, ``denoise``: the leave-one-out prediction of x0_l from everything but the noisy token at
      l. It goes into the bound and the sampling posterior.
    * P, ``log_prob_x0``: the ordinary posterior p(x0_l | x_t), proportional to
      D(x0) q_t(z_l | x0). It is what a user means by "what does the model think is here".

    ``time_conditioning=False`` hands the backbone ``sigma=None``.
    """

    def __init__(
        self, backbone: nn.Module, process: ForwardProcess, *, time_conditioning: bool = True
    ) -> None:
        super().__init__()
        self.backbone, self.process = backbone, process
        self.time_conditioning = time_conditioning

    @property
    def layout(self) -> Any:
        """The ``TokenLayout`` of the data."""
        return self.process.layout

    @abstractmethod
    def loss(self, batch: Batch, generator: torch.Generator, draw: str | None = None) -> LossOutput:
        """Training loss and an unbiased draw of each sample's NELBO; ``draw`` names how t is
        drawn (default: the one the algorithm was built with)."""

    @property
    @abstractmethod
    def evaluation_draw(self) -> str:
        """The draw of least variance, for reported bounds."""

    def denoise(
        self,
        x_t: Tensor,
        t: Tensor,
        real: Tensor,
        conditions: Mapping[str, Tensor] | None = None,
    ) -> Tensor:
        """log D: Float[B, L, V], normalised over each position's legal ids.

        ``x_t``: Int[B, L]; ``t``: Float[B]; ``real``: Bool[B, L].
        """
        sigma = self.process.sigma(t, real) if self.time_conditioning else None
        logits = self.backbone(x_t=x_t, sigma=sigma, **(conditions or {}))
        return log_softmax_on(logits.float(), self.layout.support)

    def predict(
        self,
        x_t: Tensor,
        t: Tensor,
        s: Tensor,
        real: Tensor,
        support: Tensor | None = None,
        *,
        temperature: float = 1.0,
        top_p: float = 1.0,
        conditions: Mapping[str, Tensor] | None = None,
    ) -> Prediction:
        """p(x_s | x_t) per position for s < t, and the mass that ``support`` kept of D.

        ``x_t``: Int[B, L]; ``t``, ``s``: Float[B]; ``real``: Bool[B, L], False where x_t stays.
        ``support``: Bool[B, L, V], a narrowing of the legal ids. D is tempered, then narrowed, then
        cut to its nucleus ``top_p``. At s = 0 this is the ordinary posterior p(x0 | x_t).
        """
        log_d0 = temper(self.denoise(x_t, t, real, conditions), temperature)
        log_kept = torch.zeros(x_t.shape, dtype=log_d0.dtype, device=log_d0.device)
        if support is not None:
            support = support & self.layout.support
            log_kept = torch.logsumexp(mask_logits(log_d0, support), dim=-1).masked_fill(~real, 0.0)
            log_d0 = log_softmax_on(log_d0, support)
        log_probs = self.process.posterior_log_probs(x_t, nucleus(log_d0, top_p), t, s)
        unchanged = log_one_hot(x_t, log_probs.shape[-1], log_probs.dtype)
        return Prediction(torch.where(real.unsqueeze(-1), log_probs, unchanged), log_kept)

    def log_prob_step(
        self, x_t: Tensor, t: Tensor, s: Tensor, real: Tensor, support: Tensor | None = None
    ) -> Tensor:
        """log p(x_s | x_t): Float[B, L, V]; a point mass on x_t where ``real`` is False."""
        return self.predict(x_t, t, s, real, support).log_probs

    def log_prob_x0(
        self, x_t: Tensor, t: Tensor, real: Tensor, support: Tensor | None = None
    ) -> Tensor:
        """log P(x0 | x_t): Float[B, L, V], normalised over the (narrowed) support.

        Uniform on the legal ids where ``real`` is False.
        """
        log_probs = self.predict(x_t, t, torch.zeros_like(t), real, support).log_probs
        log_uniform = self.layout.uniform_log_probs().to(log_probs)
        return torch.where(real.unsqueeze(-1), log_probs, log_uniform)
