"""BD3LM: block diffusion (Arriola et al., arXiv 2503.09573)."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from discrete_diffusion.algorithms.base import Dropout
from discrete_diffusion.algorithms.many_ids import passes_states
from discrete_diffusion.algorithms.time_sampling import MaskDraw, sample_blocks, sample_masks
from discrete_diffusion.algorithms.token_algorithm import TokenAlgorithm
from discrete_diffusion.config.values import Count, are_whole_numbers
from discrete_diffusion.contracts import Batch, Conditions, LossOutput
from discrete_diffusion.forward_process.base import ForwardProcess
from discrete_diffusion.forward_process.interpolating import Absorbing
from discrete_diffusion.layout.token_layout import TokenLayout

logger = logging.getLogger(__name__)

DEFAULT_BLOCK_SIZE = 16


class BD3LM(TokenAlgorithm):
    """Autoregressive over blocks of positions, masked diffusion inside each (eq. 8 of the paper):

        NELBO = sum_b E_t  sum over masked l of block b of
                -alpha_l'(t) / (1 - alpha_l(t)) * -log D_l(x0_l | x_t^b, x0^{< b})

    D sees the noisy tokens of its own block and the clean tokens of earlier ones, so the backbone
    takes the condition ``group_idxs`` (Int[B, L], the block of each position). There are two ways
    to train:

    * The backbone also takes ``context`` (Int[B, L], the clean sequence), and its attention is
      block-causal: a block reads x_t inside itself and ``context`` before. One call trains all
      blocks.
    * The backbone does not take ``context``. Then a call is about one block b: x_t has clean tokens
      in earlier blocks and MASK in later ones. b is sampled uniformly among the N blocks of a
      sample that hold real positions, and its term counts N times, so that the loss has the same
      mean, and more variance.

    The bound holds for any schedule with exact end points, as for MDLM; one block is MDLM, and
    blocks of size 1 with the draw ``uniform_count`` are autoregressive, term by term. The loss is
    the mean NELBO of the batch divided by the constant L.

    ``block_size``, ``block_lengths``: see ``contiguous_blocks``.
    ``time_conditioning``: if off (the default) each block of a sample has its own time; if on, the
    blocks of one call share a time, because a backbone is given one sigma per sample.
    ``time_sampling``: how the masks of a training batch are sampled, a ``MaskDraw``.

    Clamped tokens are honoured exactly in the block being sampled or before it; a clamp in a later
    block is not seen until that block is sampled.

    Deviation: the paper clips t during training to lower the variance; ``uniform_count`` bounds it
    without leaving anything out.

    Raises ``ValueError`` for a process that is not absorbing, an unknown ``time_sampling``, a
    causal backbone, both ``block_size`` and ``block_lengths``, and as ``contiguous_blocks`` and
    ``Algorithm`` do.
    """

    name = "bd3lm"
    processes = ("absorbing",)
    backbone_needs = ("group_idxs",)
    provided_conditions = ("group_idxs",)
    is_block_causal = True
    evaluation_draw = "uniform_count"
    process: Absorbing
    block_of: Tensor

    def __init__(
        self,
        backbone: nn.Module,
        process: ForwardProcess,
        *,
        block_size: Count | None = None,
        block_lengths: Sequence[int] | None = None,
        time_conditioning: bool = False,
        condition_dropout: Dropout = 0.0,
        time_sampling: MaskDraw = "uniform_count",
    ) -> None:
        super().__init__(
            backbone,
            process,
            time_conditioning=time_conditioning,
            condition_dropout=condition_dropout,
        )
        if getattr(backbone, "causal", False):
            raise ValueError(
                "bd3lm needs attention that is block-causal, not causal; "
                "set algo.causal_attention=false"
            )
        self.time_sampling = time_sampling
        blocks = contiguous_blocks(self.layout, block_size, block_lengths)
        if not blocks.is_meta and int(blocks[-1]) == 0:
            logger.warning("bd3lm: one block of %d positions, which is mdlm", len(blocks))
        self.num_blocks = None if blocks.is_meta else int(blocks[-1]) + 1
        self.register_buffer("block_of", blocks, persistent=False)

    @property
    def blocks(self) -> Tensor:
        return self.block_of

    def loss(self, batch: Batch, generator: torch.Generator, draw: str | None = None) -> LossOutput:
        # mask every block; a shared time is sampled as if there were one block
        all_at_once = self.takes("context")
        blocks = None if self.time_conditioning and all_at_once else self.blocks
        masked = sample_masks(
            draw or self.time_sampling, self.process, batch, generator, blocks, self.num_blocks
        )
        xt, t, weight = masked.xt, masked.t, masked.weight
        # all blocks with the clean sequence as context, or one random block per sample
        if all_at_once:
            conditions = self.teacher_forcing(batch)
        else:
            conditions = batch.conditions
            block, num = sample_blocks(batch.real, self.blocks, self.num_blocks, generator)
            # its time, its noisy tokens in context, and its weights, which count N times
            own = self.blocks == block.unsqueeze(1)  # (B, L)
            t = t.gather(1, own.long().argmax(dim=1, keepdim=True)).squeeze(1)
            xt = self._one_block_noisy(xt, batch.x0, batch.real, block)
            weight = weight * own * num.unsqueeze(1)
        # weighted cross-entropy, Float[B, L]
        nll = self.nll(xt, t, batch, conditions, weight > 0)
        return self.output((weight.to(nll.dtype) * nll).sum(dim=1), batch)

    @passes_states
    def logits(
        self, x_t: Tensor, t: Tensor, real: Tensor, conditions: Conditions | None = None
    ) -> Tensor:
        """Logits of every block, given the clean sequence as the condition ``context``.

        A network that does not take ``context`` is called once per block. Without the condition,
        the logits are right only for the first block that is not clean.
        """
        given = {**(conditions or {}), "group_idxs": self.blocks.expand_as(x_t)}
        if self.takes("context"):
            return super().logits(x_t, t, real, given)
        clean = given.pop("context", None)
        if clean is None:
            # the first block of each sample that has masks, Int[B]
            waiting = (x_t == self.layout.mask_id) & real
            block = torch.where(waiting, self.blocks, self.blocks[-1]).amin(dim=1)
            return super().logits(self._one_block_noisy(x_t, x_t, real, block), t, real, given)
        # one call per block; each keeps the logits of its own positions
        logits = None
        for block in self.blocks.unique():
            x_b = self._one_block_noisy(x_t, clean, real, block.expand(len(x_t)))
            of_block = super().logits(x_b, t, real, given)
            own = (self.blocks == block).unsqueeze(-1)
            logits = of_block if logits is None else torch.where(own, of_block, logits)
        assert logits is not None  # there is a block
        return logits

    def _one_block_noisy(self, x_t: Tensor, clean: Tensor, real: Tensor, block: Tensor) -> Tensor:
        """Int[B, L]: x_t in the ``block`` Int[B] of a sample, ``clean`` before, MASK after."""
        place = self.blocks - block.unsqueeze(1)  # (B, L)
        hidden = x_t.masked_fill(real, self.layout.mask_id)
        return torch.where(place < 0, clean, torch.where(place > 0, hidden, x_t))


def contiguous_blocks(
    layout: TokenLayout, block_size: int | None = None, block_lengths: Sequence[int] | None = None
) -> Tensor:
    """Int[L]: the block 0, 1, ... of each position, never decreasing.

    ``block_size``: runs of k positions, the last one shorter if k does not divide L.
    ``block_lengths``: the length of every block. If neither is given: the layout's groups if it has
    several, else runs of ``DEFAULT_BLOCK_SIZE``.

    Raises ``ValueError`` for sizes that are not whole numbers, lengths that do not add up to L, or
    groups that are not contiguous.
    """
    length, device = layout.length, layout.group.device
    if block_size is not None and block_lengths is not None:
        raise ValueError(
            f"algo.block_size={block_size} and algo.block_lengths={block_lengths} are both given; "
            "leave one of them null"
        )
    # given lengths
    if block_lengths is not None:
        whole = are_whole_numbers(block_lengths)
        if not whole or min(block_lengths, default=0) < 1 or sum(block_lengths) != length:
            raise ValueError(
                f"algo.block_lengths={block_lengths}: expected a list of positive whole numbers "
                f"that add up to {length} positions"
            )
        lengths = torch.tensor(list(block_lengths), device=device)
        return torch.arange(len(lengths), device=device).repeat_interleave(lengths)
    # the groups of the layout
    if block_size is None and len(layout.group_names) > 1:
        begins = layout.group.diff(prepend=layout.group[:1]) != 0
        blocks = begins.long().cumsum(dim=0)
        if not blocks.is_meta and int(blocks[-1]) + 1 != len(layout.group.unique()):
            raise ValueError(
                f"the groups {', '.join(layout.group_names)} are not contiguous runs of positions, "
                "as blocks must be; set algo.block_size or algo.block_lengths"
            )
        return blocks
    # runs of equal length
    size = DEFAULT_BLOCK_SIZE if block_size is None else block_size
    return torch.arange(length, device=device) // size
