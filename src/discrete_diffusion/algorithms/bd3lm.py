"""BD3LM: block diffusion (Arriola et al., arXiv 2503.09573)."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from discrete_diffusion.algorithms.draws import MASK_DRAWS, draw_masks
from discrete_diffusion.algorithms.token_algorithm import TokenAlgorithm
from discrete_diffusion.forward_process import Absorbing, ForwardProcess
from discrete_diffusion.layout import TokenLayout
from discrete_diffusion.naming import check_name
from discrete_diffusion.options import are_whole_numbers, check_whole_number
from discrete_diffusion.types import Batch, Conditions, LossOutput

logger = logging.getLogger(__name__)

DEFAULT_BLOCK_SIZE = 16


def contiguous_blocks(
    layout: TokenLayout, block_size: int | None = None, block_lengths: Sequence[int] | None = None
) -> Tensor:
    """Int[L]: the block 0, 1, ... of each position, never decreasing.

    ``block_size``: runs of k positions, the last one shorter if k does not divide L.
    ``block_lengths``: the length of every block. Neither: the layout's groups if it has several,
    else runs of ``DEFAULT_BLOCK_SIZE``.

    Raises ``ValueError`` for sizes that are no whole numbers, lengths that do not add up to L, or
    groups that are not contiguous.
    """
    length, device = layout.length, layout.group.device
    if block_size is not None and block_lengths is not None:
        raise ValueError(
            f"algo.block_size={block_size} and algo.block_lengths={block_lengths} are both given; "
            "leave one of them null"
        )
    if block_lengths is not None:
        whole = are_whole_numbers(block_lengths)
        if not whole or min(block_lengths, default=0) < 1 or sum(block_lengths) != length:
            raise ValueError(
                f"algo.block_lengths={block_lengths}: expected a list of positive whole numbers "
                f"that add up to {length} positions"
            )
        lengths = torch.tensor(list(block_lengths), device=device)
        return torch.arange(len(lengths), device=device).repeat_interleave(lengths)
    if block_size is None and len(layout.group_names) > 1:
        begins = layout.group.diff(prepend=layout.group[:1]) != 0
        blocks = begins.long().cumsum(dim=0)
        if not blocks.is_meta and int(blocks[-1]) + 1 != len(layout.group.unique()):
            raise ValueError(
                f"the groups {', '.join(layout.group_names)} are not contiguous runs of positions, "
                "as blocks must be; set algo.block_size or algo.block_lengths"
            )
        return blocks
    size = DEFAULT_BLOCK_SIZE if block_size is None else block_size
    check_whole_number("algo.block_size", size, least=1)
    return torch.arange(length, device=device) // size


class BD3LM(TokenAlgorithm):
    """Autoregressive over blocks of positions, masked diffusion inside each (eq. 8 of the paper):

        NELBO = sum_b E_t  sum over masked l of block b of
                -alpha_l'(t) / (1 - alpha_l(t)) * -log D_l(x0_l | x_t^b, x0^{< b})

    D sees the noisy tokens of its own block and the clean tokens of earlier ones, so the backbone
    takes the conditions ``group_idxs`` (Int[B, L], the block of each position; attention is
    block-causal) and ``context`` (Int[B, L], the clean sequence): with it one call trains all
    blocks. The bound holds for any schedule with exact end points, as for MDLM; one block is MDLM,
    and blocks of size 1 with the draw ``forced_mask`` are autoregressive, term by term. The loss is
    the mean NELBO of the batch divided by the constant L.

    ``block_size``, ``block_lengths``: see ``contiguous_blocks``.
    ``time_conditioning``: without it (the default) each block of a sample has a time of its own;
    with it they share one, because a backbone is handed one sigma per sample.
    ``draw``: how the masks of a training batch are drawn, one of ``MASK_DRAWS``.

    Clamped tokens are honoured exactly where they lie in the block being sampled or before it;
    a clamp in a later block is not seen until its turn comes.

    Deviation: the paper clips t during training to lower the variance; ``forced_mask`` bounds it
    without leaving anything out.
    """

    name = "bd3lm"
    processes = ("absorbing",)
    backbone_needs = ("group_idxs", "context")
    gives = ("group_idxs",)
    evaluation_draw = "forced_mask"
    process: Absorbing
    block_of: Tensor

    def __init__(
        self,
        backbone: nn.Module,
        process: ForwardProcess,
        *,
        block_size: int | None = None,
        block_lengths: Sequence[int] | None = None,
        time_conditioning: bool = False,
        condition_dropout: float = 0.0,
        draw: str = "forced_mask",
    ) -> None:
        super().__init__(
            backbone,
            process,
            time_conditioning=time_conditioning,
            condition_dropout=condition_dropout,
        )
        check_name("algo.draw", draw, MASK_DRAWS)
        if getattr(backbone, "causal", False):
            raise ValueError(
                "bd3lm needs attention that is block-causal, not causal; "
                "set algo.causal_attention=false"
            )
        self.draw = draw
        blocks = contiguous_blocks(self.layout, block_size, block_lengths)
        if not blocks.is_meta and int(blocks[-1]) == 0:
            logger.warning("bd3lm: one block of %d positions, which is mdlm", len(blocks))
        self.num_blocks = None if blocks.is_meta else int(blocks[-1]) + 1
        self.register_buffer("block_of", blocks, persistent=False)

    @property
    def blocks(self) -> Tensor:
        """Int[L]: the block of each position, 0, 1, ..."""
        return self.block_of

    def loss(self, batch: Batch, generator: torch.Generator, draw: str | None = None) -> LossOutput:
        blocks = None if self.time_conditioning else self.blocks
        masked = draw_masks(
            draw or self.draw, self.process, batch, generator, blocks, self.num_blocks
        )
        log_d0 = self.denoise(masked.xt, masked.t, batch.real, self.teacher_forcing(batch))
        nelbo = masked.weight.to(log_d0.dtype) * self.cross_entropy(log_d0, batch)  # (B, L)
        return self.output(nelbo.sum(dim=1), batch)

    def logits(
        self, x_t: Tensor, t: Tensor, real: Tensor, conditions: Conditions | None = None
    ) -> Tensor:
        """Without ``context`` among the conditions they are right for the first block that is not
        clean: earlier blocks are read from x_t, later ones are not seen."""
        conditions = {**(conditions or {}), "group_idxs": self.blocks.expand_as(x_t)}
        return super().logits(x_t, t, real, conditions)

    def teacher_forcing(self, batch: Batch) -> dict[str, Any]:
        """The conditions under which ``denoise`` is right for every block at once."""
        return {**batch.conditions, "context": batch.x0}
