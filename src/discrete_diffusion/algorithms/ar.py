"""AR: the autoregressive baseline, with the exact likelihood."""

from __future__ import annotations

from typing import Unpack

import torch
from torch import Tensor, nn

from discrete_diffusion.algorithms.base import AlgorithmOptions
from discrete_diffusion.algorithms.many_ids import passes_states
from discrete_diffusion.algorithms.token_algorithm import TokenAlgorithm
from discrete_diffusion.contracts import Batch, Conditions, LossOutput
from discrete_diffusion.forward_process.base import ForwardProcess


class AR(TokenAlgorithm):
    """Autoregressive model of the real positions l_1 < l_2 < ..., from left to right:

        -log p(x0) = sum_k -log p(x0_{l_k} | x0_{l_1}, ..., x0_{l_{k-1}})

    The likelihood is exact: nothing is corrupted, and every ``draw`` gives the same number. The
    loss is the mean over the batch divided by the constant L.

    The backbone is causal and its input is shifted over the real positions: at l_k it has the token
    of l_{k-1}, at l_1 ``begin_id``, by default MASK. Other positions keep their id: PAD, or before
    l_1 an id that is given (``TokenLayout.num_given``).

    ``time_conditioning``: if on, the backbone is given the number n of real tokens as sigma, by
    1 - exp(-sigma) = n / (L + 1); other algorithms' networks see n in the PAD of their input. If
    off, sigma is ``None``.

    ``denoise`` on a partly masked x_t predicts each position from the ones before it in x_t, which
    is right for the first MASK. Clamping is exact for a prefix; a free position is sampled without
    regard to clamps behind it.

    Raises ``ValueError`` for a backbone with ``causal`` False, and a ``begin_id`` that is not an
    id.
    """

    name = "ar"
    processes = ("absorbing",)
    samplers = ("autoregressive", "first-hitting")
    backbone_needs = ("causal",)
    is_block_causal, reads_own_block = True, False
    evaluation_draw = "exact"
    position: Tensor

    def __init__(
        self,
        backbone: nn.Module,
        process: ForwardProcess,
        *,
        begin_id: int | None = None,
        **options: Unpack[AlgorithmOptions],
    ) -> None:
        super().__init__(backbone, process, **options)
        self.begin_id = self.layout.mask_id if begin_id is None else begin_id
        if not 0 <= self.begin_id < self.layout.vocab_size:
            raise ValueError(
                f"algo.begin_id={begin_id} is outside the vocabulary "
                f"0..{self.layout.vocab_size - 1}; null takes MASK"
            )
        if not getattr(backbone, "causal", True):
            raise ValueError(
                f"ar needs a causal backbone, got {type(backbone).__name__} that sees the future; "
                "set algo.causal_attention=true"
            )
        position = torch.arange(self.layout.length, device=self.layout.support.device)
        self.register_buffer("position", position, persistent=False)

    @property
    def blocks(self) -> Tensor:
        return self.position  # every position is a block

    def loss(self, batch: Batch, generator: torch.Generator, draw: str | None = None) -> LossOutput:
        # t is not used
        no_time = torch.zeros(len(batch), device=batch.x0.device)
        nll = self.nll(batch.x0, no_time, batch, batch.conditions)
        return self.output(nll.sum(dim=1), batch)

    @passes_states
    def logits(
        self, x_t: Tensor, t: Tensor, real: Tensor, conditions: Conditions | None = None
    ) -> Tensor:
        """Logits of each position from the real positions before it; t is not used.

        The condition ``context`` (Int[B, L], the clean sequence) is read instead of x_t.
        """
        others = dict(conditions or {})
        x = others.pop("context", x_t)
        return self.apply_backbone(*self.backbone_input(x, t, real), others)

    def backbone_input(self, x_t: Tensor, t: Tensor, real: Tensor) -> tuple[Tensor, Tensor | None]:
        return self.shifted(x_t, real), self.size_sigma(real)

    def shifted(self, x: Tensor, real: Tensor) -> Tensor:
        """Int[B, L]: at each real position the token of the real position before it."""
        # the last real position up to l, then before l; -1 before the first
        latest = torch.where(real, self.position, -1).cummax(dim=1).values
        before = torch.cat([torch.full_like(latest[:, :1], -1), latest[:, :-1]], dim=1)
        # the token there, or begin_id
        tokens = x.gather(1, before.clamp(min=0)).masked_fill(before < 0, self.begin_id)
        return torch.where(real, tokens, x)

    def size_sigma(self, real: Tensor) -> Tensor | None:
        """-log(1 - n / (L + 1)) for n real tokens, Float[B]; None if time conditioning is off."""
        if not self.time_conditioning:
            return None
        share = real.sum(dim=1).float() / (self.layout.length + 1)
        return -torch.log1p(-share)
