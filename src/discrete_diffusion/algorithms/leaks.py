"""Test for leaks: if some tokens change, logits that must not depend on them must stay the same."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from discrete_diffusion.algorithms.base import Algorithm
from discrete_diffusion.algorithms.block_reader import BlockReader, reason_against_cache
from discrete_diffusion.algorithms.many_ids import legal_at
from discrete_diffusion.algorithms.token_algorithm import TokenAlgorithm
from discrete_diffusion.layout.token_layout import TokenLayout
from discrete_diffusion.models.calling import described

logger = logging.getLogger(__name__)

TOLERANCE = 1e-5
"""A change of logits below this share of the largest logit counts as rounding."""

MOST_LOGITS = 2**26
"""Most logits of a call that are looked at; of more, the last states that they are made of are."""


@dataclass(frozen=True)
class ProbedCall:
    """A call of an algorithm's backbone, which can be repeated with other tokens."""

    algorithm: Algorithm
    x_t: Tensor
    sigma: Tensor | None
    conditions: Mapping[str, Any]

    def answer(self) -> Tensor:
        """Output of the backbone, as it returns it."""
        algorithm = self.algorithm
        return algorithm.call(algorithm.backbone, self.x_t, self.sigma, self.conditions)

    @property
    def layout(self) -> TokenLayout:
        """Token layout of the algorithm, which must be a ``TokenAlgorithm``."""
        assert isinstance(self.algorithm, TokenAlgorithm)
        return self.algorithm.layout

    def logits(self, x_t: Tensor | None = None, context: Tensor | None = None) -> Tensor:
        """Logits Float[B, L, V], 0 at illegal ids, with other tokens if given. For a mixture, the
        logits of its first component; with the condition ``states`` the states, Float[B, L, D].

        The seed is fixed: a network with random numbers returns the same in every call.
        """
        call = self if x_t is None else replace(self, x_t=x_t)
        if context is not None:
            call = replace(call, conditions={**self.conditions, "context": context})
        torch.manual_seed(0)
        output = call.answer().float()
        if "states" in call.conditions:
            return output
        output = output if output.ndim == 3 else output[:, 0]
        return output.masked_fill(~self.layout.support[: output.shape[1]], 0.0)

    @property
    def of_states(self) -> ProbedCall:
        """The same call for the last states instead of logits."""
        return replace(self, conditions={**self.conditions, "states": True})

    def first_columns(self) -> ProbedCall:
        """The same call of the first columns alone, of ``MOST_LOGITS`` logits at most."""
        num, length = self.x_t.shape
        kept = max(1, MOST_LOGITS // (num * self.layout.vocab_size))

        def cut(x: Any) -> Any:
            by_column = isinstance(x, Tensor) and x.ndim == 2 and x.shape[1] == length
            return x[:, :kept] if by_column else x

        given = {name: cut(x) for name, x in self.conditions.items() if name != "packing"}
        return replace(self, x_t=cut(self.x_t), conditions=given)


def check_leaks(call: ProbedCall, real: Tensor, causal: bool) -> None:
    """Check that logits do not depend on tokens hidden from them in an exact likelihood.

    If ``causal``, logits at position l must not depend on tokens after l. With ``context`` and
    blocks, logits of a block must depend neither on the clean tokens of this block and later ones,
    nor on noisy tokens of other blocks. With the cache of ``new_cache`` predictions must be those
    without. Raises ``ValueError`` naming the positions. Logs a warning if logits at ``real``
    positions, Bool[B, L], depend on PAD. Many new networks return 0 for every
    input, so parameters that are all 0 hold random numbers during the check.
    """
    algorithm = call.algorithm
    assert isinstance(algorithm, TokenAlgorithm)
    # nothing to check where every token may be read
    blocks = algorithm.blocks if "context" in call.conditions else None
    padded = ~real & ~algorithm.layout.is_real(call.x_t)
    own = ("context", "group_idxs", "packing", "states")
    given = {name: x for name, x in call.conditions.items() if name not in own}
    cached = reason_against_cache(algorithm, given) is None
    if not (causal or cached or blocks is not None or padded.any()):
        return

    def check(before: Tensor) -> None:
        if causal:
            _check_causal(call, before, real)
        if blocks is not None:
            _check_blocks(call, before, real, blocks)
        if cached:
            _check_cache(call, real, given)
        if padded.any():
            _check_pad(call, before, real, padded)

    # with the parameters as they are, if random ones give no finite numbers
    with random_where_zero(algorithm.backbone):
        before = call.logits()
        if before.isfinite().all():
            check(before)
            return
    check(call.logits())


@contextmanager
def random_where_zero(network: nn.Module) -> Iterator[None]:
    """Set parameters that are all 0 to random numbers, as in a new layer, during a context."""
    # parameters that are all 0, and their values
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
                std = 0.2 if p.ndim < 2 else p[0].numel() ** -0.5
                p.normal_(std=std, generator=generator)
        yield
    finally:
        with torch.no_grad():
            for p, values in zip(empty, kept, strict=True):
                p.copy_(values)


def _check_causal(call: ProbedCall, before: Tensor, real: Tensor) -> None:
    place = torch.arange(real.shape[1], device=real.device)
    others = _other_ids(call)

    def changed(where: Tensor) -> Tensor:
        return call.logits(torch.where(where & real, others, call.x_t))

    # change all tokens from a cut on: logits before it must stay
    columns = real.any(dim=0).nonzero().squeeze(1).tolist()
    for cut in _cuts(columns[1:]):
        behind = place >= cut
        if leak := _find_leak(call, before, changed, real & ~behind, behind):
            moved, by = leak
            raise ValueError(
                f"{described(call.algorithm.backbone)} is registered as causal, but its logits at "
                f"position {moved} move with the token at position {by}; mask the attention, or "
                f"make it one-directional, or register it without causal=True: {_consequence(call)}"
            )


def _check_blocks(call: ProbedCall, before: Tensor, real: Tensor, blocks: Tensor) -> None:
    """Check the blocks of a network that evaluates all blocks in one call."""
    x_t, context, mask_id = call.x_t, call.conditions["context"], call.layout.mask_id
    clean = _other_ids(replace(call, x_t=context))
    noisy = torch.where(x_t == mask_id, _other_ids(call), mask_id)

    def refuse(leak: tuple[int, int], kind: str, rule: str) -> None:
        moved, by = leak
        raise ValueError(
            f"{described(call.algorithm.backbone)}: the logits at position {moved} (block "
            f"{int(blocks[moved])}) move with the {kind} token at position {by} (block "
            f"{int(blocks[by])}); {rule}: {_consequence(call)}"
        )

    def other_context(where: Tensor) -> Tensor:
        return call.logits(context=torch.where(where & real, clean, context))

    def other_noise(where: Tensor) -> Tensor:
        return call.logits(torch.where(where & real, noisy, x_t))

    # clean tokens of a block and later ones: logits up to the block must stay
    for cut in _cuts(blocks[real.any(dim=0)].unique().tolist()):
        allowed = real & (blocks <= cut)
        if leak := _find_leak(call, before, other_context, allowed, blocks >= cut):
            refuse(leak, "clean", "of context, a block may read earlier blocks only")
    # noisy tokens of every other block: logits of the rest must stay
    for odd in (0, 1):
        changed = blocks % 2 == odd
        if leak := _find_leak(call, before, other_noise, real & ~changed, changed):
            refuse(leak, "noisy", "of x_t, a block may read itself only, context has the others")


def _check_cache(call: ProbedCall, real: Tensor, given: Mapping[str, Any]) -> None:
    """Check a cache block by block, the last time after tokens of a finished block are flipped."""
    algorithm, mask_id = call.algorithm, call.layout.mask_id
    assert isinstance(algorithm, TokenAlgorithm)
    assert algorithm.blocks is not None
    blocks, x = algorithm.blocks, torch.where(real, _other_ids(call), call.x_t)
    t = torch.full((len(x),), 0.5, dtype=torch.float64, device=x.device)
    reader = BlockReader(algorithm, x, real, given)
    cuts = _cuts(blocks[real.any(dim=0)].unique().tolist()) or [-1]
    middle, last = cuts[len(cuts) // 2], cuts[-1]
    for cut, flipped in ((middle, False), (last, False), (last, True)):
        if flipped:
            others = _other_ids(replace(call, x_t=x))
            x = torch.where(real & (blocks == middle) & (blocks < last), others, x)
        state, here = x.masked_fill(real & (blocks >= cut), mask_id), real & (blocks == cut)
        rows = here.any(dim=1).nonzero().squeeze(1)
        if not len(rows):
            return
        found = reader.lazy_log_d0(rows, state[rows], t[rows], here[rows]).read()
        expected = algorithm.denoise_at(state, t, real, here, given)
        if not (gap := float((found.exp() - expected.exp()).abs().max())) <= 1e-4:
            raise ValueError(
                f"{described(algorithm.backbone)}: probabilities in block {cut} with the cache of "
                f"new_cache differ by {gap:.2g} from those of a call with all columns; see "
                "models.KeyValueCache, or leave new_cache out"
            )


def _consequence(call: ProbedCall) -> str:
    return (
        f"{call.algorithm.name} would report likelihoods that cannot be; preflight=false "
        "trains it nevertheless"
    )


def _find_leak(
    call: ProbedCall,
    before: Tensor,
    changed: Callable[[Tensor], Tensor],
    still: Tensor,
    positions: Tensor,
) -> tuple[int, int] | None:
    """Find a position in ``still`` Bool[B, L] whose logits depend on tokens at ``positions``
    Bool[L]; return it and the position of one such token, or None. ``changed``: function from
    positions to the logits after their tokens are changed."""
    moved = _moved_positions(before, changed(positions)) & still
    # a network that differs from call to call shows nothing
    if not moved.any() or _moved_positions(before, call.logits()).any():
        return None
    # halve the changed tokens until one is left
    sample, position = moved.nonzero()[0].tolist()
    suspects = positions.nonzero().squeeze(1)
    while len(suspects) > 1:
        half = suspects[: len(suspects) // 2]
        where = torch.zeros_like(positions)
        where[half] = True
        guilty = _moved_positions(before, changed(where))[sample, position]
        suspects = half if guilty else suspects[len(half) :]
    return position, int(suspects[0])


def _moved_positions(before: Tensor, after: Tensor) -> Tensor:
    """Bool[B, L]: positions whose logits differ."""
    # ids that the network masks out, by logits of 10,000 or more, do not set the scale
    size = before.abs()
    largest = size.masked_fill(size >= 1e4, 0.0).max()
    return (before - after).abs().amax(dim=-1) > TOLERANCE * largest


def _cuts(places: Sequence[int]) -> list[int]:
    """First of ``places``, two in the middle, and the last."""
    num = len(places)
    return [places[k] for k in sorted({0, num // 2, num // 2 + 1, num - 1}) if 0 <= k < num]


def _other_ids(call: ProbedCall) -> Tensor:
    """Int[B, L]: at every position a legal id that differs from x_t; MASK if there is none."""
    x_t, legal = call.x_t, legal_at(call.layout.support, slice(None)).to(torch.uint8)
    first = legal.argmax(dim=1).expand_as(x_t)
    last = (legal.shape[1] - 1 - legal.flip(1).argmax(dim=1)).expand_as(x_t)
    other = torch.where(x_t == first, last, first)
    return torch.where(other == x_t, call.layout.mask_id, other)


def _check_pad(call: ProbedCall, before: Tensor, real: Tensor, padded: Tensor) -> None:
    """Warn if logits at real positions depend on the embedding of PAD, or on the number of PADs.

    The embedding is the row of PAD in a weight of ``_id_tables``. A weight is skipped if this
    row also changes logits of samples without PAD, since it is then not a table of embeddings."""
    layout, network = call.layout, call.algorithm.backbone
    moved = _moved_by_length(call, real, padded)
    # change the row of PAD in each table
    whole = call.x_t.masked_fill(padded, layout.mask_id)
    tables = _id_tables(network, layout.vocab_size)
    without = call.logits(whole) if tables else before
    for row in (table[layout.pad_id] for table in tables):
        kept = row.clone()
        try:
            row += 1 + kept.abs().max()
            if not _moved_positions(without, call.logits(whole)).any():
                moved |= _moved_positions(before, call.logits()) & real
        finally:
            row.copy_(kept)
    if moved.any() and not _moved_positions(before, call.logits()).any():
        sample, position = moved.nonzero()[0].tolist()
        logger.warning(
            "%s: the logits at real positions move with PAD, first those of sample %d at position "
            "%d, so a prediction depends on how much PAD there is; keep PAD out of the keys of "
            "attention (src_key_padding_mask=x_t == pad_id) and of what is summed over positions",
            *(described(network), sample, position),
        )


def _id_tables(network: nn.Module, vocab_size: int) -> list[Tensor]:
    """At most four weight matrices with a row for each id; those with a column are transposed."""
    tables = {
        id(module.weight): module.weight.detach()
        for module in network.modules()
        if isinstance(module, nn.Embedding) and module.num_embeddings >= vocab_size
    }
    # matrices with one row or column per id
    for p in network.parameters():
        if p.ndim == 2 and p.is_floating_point() and vocab_size in p.shape and id(p) not in tables:
            tables[id(p)] = p.detach() if p.shape[0] == vocab_size else p.detach().T
    return list(tables.values())[:4]


def _moved_by_length(call: ProbedCall, real: Tensor, padded: Tensor) -> Tensor:
    """Bool[B, L]: positions of the sample with most PAD whose logits change if the PAD at its end
    is left out; all False if the network needs a fixed length, or conditions."""
    moved = torch.zeros_like(real)
    row = int(padded.sum(dim=1).argmax())
    length = int((~padded[row]).nonzero().max()) + 1 if not padded[row].all() else 0
    if length in (0, real.shape[1]) or call.conditions.keys() - {"packing", "states"}:
        return moved
    # the sample alone, with all of its PAD and with less
    sigma = None if call.sigma is None else call.sigma[row : row + 1]
    alone = ProbedCall(call.algorithm, call.x_t[row : row + 1], sigma, {})
    alone = alone.of_states if "states" in call.conditions else alone
    with suppress(RuntimeError, ValueError, IndexError, AssertionError):
        shorter = alone.logits(alone.x_t[:, :length])
        moved[row, :length] = (
            _moved_positions(alone.logits()[:, :length], shorter)[0] & real[row, :length]
        )
    return moved
