"""Test that a network reads no token that it must not: some are changed, and no output may move."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from discrete_diffusion.algorithms.base import Algorithm
from discrete_diffusion.algorithms.token_algorithm import TokenAlgorithm
from discrete_diffusion.models.calling import described

logger = logging.getLogger(__name__)

TOLERANCE = 1e-5
"""Share of the largest logit: a smaller change is taken for rounding."""

_MASKED_OUT = 1e4
"""A logit as low as this only says that an id is out of the question."""

_BIAS_STD = 0.2
_MOST_TABLES = 4
_REMEDY = "; check_backbone=false trains it nevertheless"


@dataclass(frozen=True)
class ProbedCall:
    """A call of an algorithm's backbone, which can be repeated with other tokens."""

    algorithm: Algorithm
    x_t: Tensor
    sigma: Tensor | None
    conditions: Mapping[str, Any]

    def answer(self) -> Tensor:
        """Output of the backbone, ``unwrapped``."""
        algorithm = self.algorithm
        return algorithm.call(algorithm.backbone, self.x_t, self.sigma, self.conditions)

    def logits(self, x_t: Tensor | None = None, context: Tensor | None = None) -> Tensor:
        """Float[B, L, V] with other tokens; 0 where an id is not legal. Noise that the network
        draws is the same in every call. Of the components of a mixture, the first."""
        assert isinstance(self.algorithm, TokenAlgorithm)
        call = self if x_t is None else replace(self, x_t=x_t)
        if context is not None:
            call = replace(call, conditions={**self.conditions, "context": context})
        torch.manual_seed(0)
        output = call.answer().float()
        output = output if output.ndim == 3 else output[:, 0]
        return output.masked_fill(~self.algorithm.layout.support[: output.shape[1]], 0.0)


def check_leaks(asked: ProbedCall, real: Tensor, causal: bool) -> None:
    """Hold the network to what its algorithm's likelihood rests on.

    ``causal``: logits at position l do not move with tokens behind l. With ``context`` and blocks:
    logits of a block move neither with the clean tokens of its own block or later ones, nor with
    noisy tokens of other blocks. Both raise ``ValueError`` naming the positions. Logits at real
    positions that move with PAD are warned of. ``real``: Bool[B, L], the positions of data.

    Networks often begin as the function 0, in which nothing moves, so parameters that are all 0
    hold random numbers meanwhile.
    """
    algorithm = asked.algorithm
    assert isinstance(algorithm, TokenAlgorithm)
    blocks = algorithm.blocks if "context" in asked.conditions else None
    padded = ~real & ~algorithm.layout.is_real(asked.x_t)
    if not (causal or blocks is not None or padded.any()):
        return
    with filled(algorithm.backbone):
        before = asked.logits()
        if before.isfinite().all():
            _search(asked, before, real, padded, causal, blocks)
            return
    _search(asked, asked.logits(), real, padded, causal, blocks)


@contextmanager
def filled(network: nn.Module) -> Iterator[None]:
    """Parameters that are all 0 hold random numbers inside, of the size that layers start with."""
    empty = [
        p
        for p in network.parameters()
        if p.requires_grad and p.is_floating_point() and p.numel() and not p.any()
    ]
    kept = [p.detach().clone() for p in empty]
    generator = torch.Generator().manual_seed(0)
    try:
        with torch.no_grad():
            for p in empty:
                std = _BIAS_STD if p.ndim < 2 else p[0].numel() ** -0.5
                p.normal_(std=std, generator=generator)
        yield
    finally:
        with torch.no_grad():
            for p, values in zip(empty, kept, strict=True):
                p.copy_(values)


def _search(
    asked: ProbedCall,
    before: Tensor,
    real: Tensor,
    padded: Tensor,
    causal: bool,
    blocks: Tensor | None,
) -> None:
    if causal:
        _check_causal(asked, before, real)
    if blocks is not None:
        _check_blocks(asked, before, real, blocks)
    if padded.any():
        _check_pad(asked, before, real, padded)


def _check_causal(asked: ProbedCall, before: Tensor, real: Tensor) -> None:
    length = real.shape[1]
    place = torch.arange(length, device=real.device)
    others = _other_ids(asked)
    held = real.any(dim=0).nonzero().squeeze(1).tolist()

    def changed(where: Tensor) -> Tensor:
        return asked.logits(torch.where(where & real, others, asked.x_t))

    for cut in _cuts(held[1:]):
        behind = place >= cut
        if found := _find(asked, before, changed, real & ~behind, behind):
            raise ValueError(
                f"{described(asked.algorithm.backbone)} is registered as causal, but its logits at "
                f"position {found.moved} move with the token at position {found.by}; mask the "
                f"attention, or make it one-directional, or register it without causal=True: "
                f"{_consequence(asked)}"
            )


def _check_blocks(asked: ProbedCall, before: Tensor, real: Tensor, blocks: Tensor) -> None:
    """Check the blocks of a network that scores all of them in one call."""
    algorithm, x_t, context = asked.algorithm, asked.x_t, asked.conditions["context"]
    assert isinstance(algorithm, TokenAlgorithm)
    clean, mask_id = _other_ids(replace(asked, x_t=context)), algorithm.layout.mask_id
    noisy = torch.where(x_t == mask_id, _other_ids(asked), mask_id)

    def refuse(found: _Found, kind: str, rule: str) -> None:
        raise ValueError(
            f"{described(algorithm.backbone)}: the logits at position {found.moved} (block "
            f"{int(blocks[found.moved])}) move with the {kind} token at position {found.by} "
            f"(block {int(blocks[found.by])}); {rule}: {_consequence(asked)}"
        )

    def other_context(where: Tensor) -> Tensor:
        return asked.logits(context=torch.where(where & real, clean, context))

    def other_noise(where: Tensor) -> Tensor:
        return asked.logits(torch.where(where & real, noisy, x_t))

    for cut in _cuts(blocks[real.any(dim=0)].unique().tolist()):
        allowed = real & (blocks <= cut)
        if found := _find(asked, before, other_context, allowed, blocks >= cut):
            refuse(found, "clean", "of context, a block may read earlier blocks only")
    for odd in (0, 1):
        changed = blocks % 2 == odd
        if found := _find(asked, before, other_noise, real & ~changed, changed):
            refuse(found, "noisy", "of x_t, a block may read itself only, context has the others")


def _consequence(asked: ProbedCall) -> str:
    return f"{asked.algorithm.name} would report likelihoods that cannot be{_REMEDY}"


@dataclass(frozen=True)
class _Found:
    """Logits at the position ``moved`` move with the token at the position ``by``."""

    moved: int
    by: int


def _find(
    asked: ProbedCall,
    before: Tensor,
    changed: Callable[[Tensor], Tensor],
    still: Tensor,
    positions: Tensor,
) -> _Found | None:
    """Find a position of ``still`` Bool[B, L] whose logits move when the tokens at ``positions``
    Bool[L] change, and one of these tokens; None if none moves. ``changed(positions)``: the logits
    then."""
    moved = _moved(before, changed(positions)) & still
    if not moved.any() or _moved(before, asked.logits()).any():  # a network that is never the same
        return None
    sample, position = moved.nonzero()[0].tolist()
    suspects = positions.nonzero().squeeze(1)
    while len(suspects) > 1:
        half = suspects[: len(suspects) // 2]
        where = torch.zeros_like(positions)
        where[half] = True
        theirs = _moved(before, changed(where))[sample, position]
        suspects = half if theirs else suspects[len(half) :]
    return _Found(position, int(suspects[0]))


def _moved(before: Tensor, after: Tensor) -> Tensor:
    """Bool[B, L]: positions whose logits are others."""
    size = before.abs()
    largest = size.masked_fill(size >= _MASKED_OUT, 0.0).max()
    return (before - after).abs().amax(dim=-1) > TOLERANCE * largest


def _cuts(places: Sequence[int]) -> list[int]:
    """The first, two in the middle, and the last."""
    num = len(places)
    return [places[k] for k in sorted({0, num // 2, num // 2 + 1, num - 1}) if 0 <= k < num]


def _other_ids(asked: ProbedCall) -> Tensor:
    """Int[B, L]: at every position another legal id than in x_t; MASK if there is none."""
    assert isinstance(asked.algorithm, TokenAlgorithm)
    layout, x_t = asked.algorithm.layout, asked.x_t
    legal = layout.support.to(torch.uint8)
    first = legal.argmax(dim=1).expand_as(x_t)
    last = (legal.shape[1] - 1 - legal.flip(1).argmax(dim=1)).expand_as(x_t)
    other = torch.where(x_t == first, last, first)
    return torch.where(other == x_t, layout.mask_id, other)


def _check_pad(asked: ProbedCall, before: Tensor, real: Tensor, padded: Tensor) -> None:
    """Warn if logits at real positions move with what PAD looks like, or how much of it there is.

    What it looks like is the row of PAD in a table of ids. A table is one of ids if, where there is
    no PAD, nothing moves with that row."""
    algorithm = asked.algorithm
    assert isinstance(algorithm, TokenAlgorithm)
    layout, network = algorithm.layout, algorithm.backbone
    whole = asked.x_t.masked_fill(padded, layout.mask_id)
    moved = _moved_by_number(asked, real, padded)
    tables = _tables(network, layout.vocab_size)
    without = asked.logits(whole) if tables else before
    for row in (table[layout.pad_id] for table in tables):
        kept = row.clone()
        try:
            row += 1 + kept.abs().max()
            if not _moved(without, asked.logits(whole)).any():
                moved |= _moved(before, asked.logits()) & real
        finally:
            row.copy_(kept)
    if moved.any() and not _moved(before, asked.logits()).any():
        sample, position = moved.nonzero()[0].tolist()
        logger.warning(
            "%s: the logits at real positions move with PAD, first those of sample %d at position "
            "%d, so a prediction depends on how much PAD there is; keep PAD out of the keys of "
            "attention (src_key_padding_mask=x_t == pad_id) and of what is summed over positions",
            *(described(network), sample, position),
        )


def _tables(network: nn.Module, vocab_size: int) -> list[Tensor]:
    """Weights with a row (or column, for linear layers of one-hot ids) per id, ids first."""
    found = {
        id(module.weight): module.weight.detach()
        for module in network.modules()
        if isinstance(module, nn.Embedding) and module.num_embeddings >= vocab_size
    }
    for p in network.parameters():
        if p.ndim == 2 and p.is_floating_point() and vocab_size in p.shape and id(p) not in found:
            found[id(p)] = p.detach() if p.shape[0] == vocab_size else p.detach().T
    return list(found.values())[:_MOST_TABLES]


def _moved_by_number(asked: ProbedCall, real: Tensor, padded: Tensor) -> Tensor:
    """Bool[B, L]: what moves, in the sample with most PAD, if columns of PAD at its end are left
    out; nothing if the network takes one length only, or conditions."""
    moved = torch.zeros_like(real)
    row = int(padded.sum(dim=1).argmax())
    length = int((~padded[row]).nonzero().max()) + 1 if not padded[row].all() else 0
    if length in (0, real.shape[1]) or asked.conditions.keys() - {"packing"}:
        return moved
    sigma = None if asked.sigma is None else asked.sigma[row : row + 1]
    alone = ProbedCall(asked.algorithm, asked.x_t[row : row + 1], sigma, {})
    with suppress(RuntimeError, ValueError, IndexError, AssertionError):
        shorter = alone.logits(alone.x_t[:, :length])
        moved[row, :length] = _moved(alone.logits()[:, :length], shorter)[0] & real[row, :length]
    return moved
