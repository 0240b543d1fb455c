"""``PartialSamples``: unfinished samples of tokens, their calls and times; ``Narrowing`` rules."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor

from discrete_diffusion.algorithms.token_algorithm import TokenAlgorithm
from discrete_diffusion.contracts import SampleOutput
from discrete_diffusion.forward_process.interpolating import Absorbing
from discrete_diffusion.layout.token_layout import TokenLayout
from discrete_diffusion.models.calling import ColumnPacking, pack_columns
from discrete_diffusion.runtime import progress

_ROUNDING = 1e-9
"""Steps that a time may be late by its own rounding."""


def number_of_calls(tokens_per_call: int, steps: int | None, num: Tensor) -> Tensor:
    """Number of calls that reveal ``num`` Int[B, 1] tokens, Int[B, 1]: ``steps``, or as few as
    there can be with ``tokens_per_call``; never more than one per token.

    Call c = 0, 1, ... of C reveals those with floor(r C / num) = c, r the rank of a token in the
    order of the sampler: as evenly as possible.
    """
    return -(-num // tokens_per_call) if steps is None else num.clamp(max=steps)


def tokens_by_call(num: Tensor, calls: Tensor) -> Tensor:
    """Number of tokens that each call reveals, Int[C, B], C the largest number of calls.

    ``num``: Int[B, 1], tokens of each sample; ``calls``: Int[B, 1], its calls. 0 after the last.
    """
    most = int(calls.max()) if calls.numel() else 0
    call = torch.arange(most + 1, device=num.device)
    first = -(-call * num // calls.clamp(min=1))  # (B, C + 1), the least rank of a call
    return first.diff(dim=1).masked_fill(call[:-1] >= calls, 0).T


def are_sampled_together(tokens_per_call: int, steps: int | None, num: int) -> bool:
    """Return True if a call of ``number_of_calls`` reveals several of ``num`` tokens."""
    return num > steps if steps is not None else min(num, tokens_per_call) > 1


def order_of_unmasking(times: Tensor, free: Tensor) -> Tensor:
    """Positions ``free`` Bool[B, L] by their unmask times Float64[B, L], latest first, then the
    others: Int[B, L]."""
    return times.masked_fill(~free, -1.0).argsort(dim=1, descending=True, stable=True)


def time_of_masked_share(algorithm: TokenAlgorithm, masked: Tensor, real: Tensor) -> Tensor:
    """Time at which as many positions are masked as now, Float64[B].

    ``masked``: Bool[B, L], counted among ``real`` Bool[B, L]. For a model of discrete steps it is
    the next later of its own times.
    """
    process, num_steps = algorithm.process, algorithm.num_steps
    assert isinstance(process, Absorbing)
    t = process.time_of_masked(masked, real)
    if num_steps is None:
        return t
    return (t * num_steps - _ROUNDING).ceil().clamp(min=1) / num_steps


def keeps_shapes(device: torch.device) -> bool:
    """Return True for a device that works on while the host prepares the next call, as a GPU.

    A shape that depends on a value there would make the host wait for it: samplers compute all
    samples in every call, finished ones too, and choose by masks.
    """
    return device.type != "cpu"


class Narrowing(ABC):
    """Rule for the tokens that may still be sampled, given those sampled so far.

    Passed to ``TokenSampler.sample``.

    Let p be the model and r the distribution of the samples. Sampled one by one in an order that
    does not read them, samples have ``log_weights`` log w, the log of the mass that D kept at every
    token, with

        p(x) = w(x) r(x)    for every x of which no token is excluded on the way:

    weighted, they are distributed as p given that, and the mean weight is its probability.

    The ids that ``refuses`` would have refused, had they been sampled, are not known. With
    ``probes`` it is called for one more id y ~ D other than the sampled v: the mass kept is
    then D(v) + (1 - D(v)) [y is not refused], in the mean the right one for any v, and so is its
    product over all tokens. Without, everything not refused counts as kept, and w is too large.

    One object serves one call of ``sample``. Rows are those of its batch.
    """

    probes: bool = False
    shuffles: bool = False
    """True: the tokens of one call are sampled in a random order, else in that of positions."""
    narrows_order: bool = True
    """False: orders that read D, such as ``entropy``, read it as the network gives it. For rules
    that take too long for all positions at every call."""

    def start(self, x: Tensor) -> None:
        """Begin, or raise ``ValueError`` naming a sample whose given tokens make it pointless."""
        for row, why in self.contradictions(x).items():
            raise ValueError(f"clamp, sample {row}: {why}")
        self.begin(x)

    def contradictions(self, x: Tensor) -> dict[int, str]:
        """Reasons by row for which no sample can have the tokens of x Int[B, L], MASK and PAD
        among them, and keep the rule."""
        return {}

    def begin(self, x: Tensor) -> None:
        """Read the samples Int[B, L] before the first token: MASK, PAD and clamped tokens."""

    @abstractmethod
    def support(self, x: Tensor, position: Tensor) -> Tensor:
        """Ids that may be sampled at ``position`` Int[R] of the samples x Int[R, L], Bool[R, V].

        x has MASK where nothing is sampled yet. Where no id is left, the token is sampled without
        narrowing and the sample has weight 0, log w = -inf.
        """

    def refuses(self, rows: Tensor, x: Tensor, position: Tensor) -> Tensor:
        """Return True where the new token at ``position`` Int[R] is refused, Bool[R].

        ``x``: Int[R, L], the samples ``rows`` Int[R]. A refused id is taken out of the support and
        another one sampled; for rules that ``support`` would take too long to compute. A function
        of x: it may be called for tokens that do not stay.
        """
        return torch.zeros_like(rows, dtype=torch.bool)


class Block(NamedTuple):
    """Positions that are filled before the next block; all, for an algorithm without ``blocks``.

    ``free``: Bool[B, L], those to sample; ``real``: Bool[B, L], those whose noise level t is.
    ``num``: Int[B] on the host, how many are free.
    """

    free: Tensor
    real: Tensor
    num: Tensor


class OnHost(NamedTuple):
    """Copies on the host of samples on another device, read back once at their start.

    ``free``: Bool[B, L]. ``blocks``: Int[L] of the algorithm, or None. ``group``: Int[L] of the
    layout. ``packing``: of the columns, on the device itself; None if the backbone takes none.
    """

    free: Tensor
    blocks: Tensor | None
    group: Tensor
    packing: ColumnPacking | None

    @classmethod
    def read(cls, algorithm: TokenAlgorithm, x: Tensor, free: Tensor) -> OnHost:
        """Read back the samples x Int[B, L] at their start."""
        layout, blocks = algorithm.layout, algorithm.blocks
        packed = "packing" in algorithm.call.conditions
        return cls(
            free=free.cpu(),
            blocks=None if blocks is None else blocks.cpu(),
            group=layout.group.cpu(),
            packing=pack_columns(layout.is_real(x)) if packed else None,
        )


@dataclass
class PartialSamples:
    """A request and the state of its samples, whose tensors a sampler changes in place.

    ``algorithm``: whose model is sampled. ``generator``: of all random numbers.
    ``real``: Bool[B, L] positions to fill. ``free``: Bool[B, L], those that are sampled: real and
    not clamped. ``steps``, ``support``, ``conditions``: of the request, see
    ``TokenSampler.sample``.

    ``x``: Int[B, L]. ``is_nan``: Bool[B, L], True where the last token that
        ``TokenSampler.reveal`` sampled has the probability NaN.
    ``nfe``: Int[B] network calls so far. ``log_weights``: Float64[B] log importance weights so far.
    ``num_forced``: Int[B], tokens so far for which the narrowing excluded what D gave first.
    ``frames``: the states to keep, the first one included, or None. ``ancestors``: Int[B], of
        particles, or None.
    ``calls``: network calls as a command shows them; ``begin_call`` counts one.
    ``known``: Int[B, L] clean tokens, of a likelihood: ``TokenSampler.sample_at`` reads a token
        here instead of sampling it, and adds the log of its probability to ``log_weights``; None:
        it samples.
    ``on_host``: None on the CPU, see ``keeps_shapes``.
    """

    algorithm: TokenAlgorithm
    real: Tensor
    free: Tensor
    generator: torch.Generator
    x: Tensor
    is_nan: Tensor
    nfe: Tensor
    log_weights: Tensor
    num_forced: Tensor
    steps: int | None = None
    support: Tensor | None = None
    narrowing: Narrowing | None = None
    conditions: dict[str, Any] = field(default_factory=dict)
    frames: list[Tensor] | None = None
    calls: progress.Calls = field(default_factory=progress.Calls)
    ancestors: Tensor | None = None
    known: Tensor | None = None
    on_host: OnHost | None = None

    @classmethod
    def start(
        cls, algorithm: TokenAlgorithm, real: Tensor, clamp: Tensor, generator: torch.Generator
    ) -> PartialSamples:
        """Sample x1 ~ prior, with the ids of ``clamp`` Int[B, L] in place, -1 where free."""
        # clamped tokens replace noise
        prior = algorithm.process.prior_sample(real, generator)
        x = torch.where(clamp >= 0, clamp, prior)
        free = real & (clamp < 0)
        return cls(
            algorithm=algorithm,
            real=real,
            free=free,
            generator=generator,
            x=x,
            is_nan=torch.zeros_like(free),
            nfe=x.new_zeros(len(x)),
            log_weights=x.new_zeros(len(x), dtype=torch.float64),
            num_forced=x.new_zeros(len(x)),
            on_host=OnHost.read(algorithm, x, free) if keeps_shapes(x.device) else None,
        )

    @property
    def has_fixed_shapes(self) -> bool:
        """True if no shape may depend on a value on the device.

        Not where tokens are known, nor with a narrowing, which reads them.
        """
        return self.on_host is not None and self.narrowing is None and self.known is None

    @property
    def blocks(self) -> list[Block]:
        """Blocks in ascending order."""
        return self._parts([None])

    @property
    def blocks_and_groups(self) -> list[Block]:
        """Groups of the layout in turn, block by block; ``Block.real`` is the block's."""
        return self._parts(range(len(self.algorithm.layout.group_names)))

    def _parts(self, groups: Sequence[int | None]) -> list[Block]:
        blocks, host = self.algorithm.blocks, self.on_host
        ids = blocks if host is None else host.blocks
        numbers = [None] if ids is None else ids.unique().tolist()
        return [self._part(block, group) for block in numbers for group in groups]

    def _part(self, block: int | None, group: int | None) -> Block:
        """Positions of a block and a group; None: of all."""
        algorithm, host = self.algorithm, self.on_host
        real = self.real if block is None else self.real & (algorithm.blocks == block)
        free = self.free & real
        if group is not None:
            free = free & (algorithm.layout.group == group)
        if not self.has_fixed_shapes or host is None:
            return Block(free, real, free.sum(dim=1).cpu())
        # the same on the host, to count without waiting for the device
        counted = host.free
        if block is not None:
            counted = counted & (host.blocks == block)
        if group is not None:
            counted = counted & (host.group == group)
        return Block(free, real, counted.sum(dim=1))

    @property
    def masked(self) -> Tensor:
        """Bool[B, L]: where MASK stands."""
        return self.x == self.algorithm.layout.mask_id

    def times(self, t: float) -> Tensor:
        """Time t of every sample, Float64[B]."""
        return torch.full(self.nfe.shape, t, dtype=torch.float64, device=self.x.device)

    def begin_call(self) -> None:
        """Count a network call.

        A command that shows progress may read here, once in a while, how many tokens are finished;
        nothing else is read from a GPU.
        """
        share = None
        if self.calls.wants_share and self.algorithm.process.absorbing:
            share = 1 - float((self.masked & self.free).sum() / self.free.sum().clamp(min=1))
        self.calls.begin(share)

    @staticmethod
    def most_calls(parts: Sequence[Block]) -> int:
        """Number of calls that fill parts one after the other, one token of a sample per call."""
        return int(sum(part.num.max() for part in parts if len(part.num)))

    def conditions_of(self, rows: Tensor) -> dict[str, Any]:
        """Conditions of the samples ``rows`` Int[R]."""
        return {name: value[rows] for name, value in self.conditions.items()}

    def legal_at(self, rows: Tensor, position: Tensor) -> Tensor:
        """Legal ids at ``position`` Int[N] of the samples ``rows`` Int[N], narrowed by ``support``:
        Bool[N, V]."""
        legal = self.algorithm.layout.support[position]
        return legal if self.support is None else legal & self.support[rows, position]

    def support_at(self, rows: Tensor, here: Tensor) -> Tensor | None:
        """Narrowed legal ids of the samples ``rows`` Int[R] at N positions, Bool[N, V].

        ``here``: Bool[R, L], the positions. All legal ids where none is left; None if nothing
        narrows them.
        """
        narrowing = self.narrowing
        if narrowing is not None and not narrowing.narrows_order:
            narrowing = None
        # nothing narrows
        if self.support is None and narrowing is None:
            return None
        row, position = here.nonzero(as_tuple=True)
        legal = self.legal_at(rows[row], position)
        if narrowing is None:
            return legal
        # all legal ids where the narrowing leaves none
        kept = legal & narrowing.support(self.x[rows[row]], position)
        return torch.where(kept.any(dim=-1, keepdim=True), kept, legal)

    def write(self, where: Tensor, tokens: Tensor, log_weights: Tensor | None = None) -> None:
        """Put tokens Int[N] at the N positions ``where`` Bool[B, L], row by row, and add their log
        weights Float[N]."""
        self.x[where] = tokens
        if log_weights is not None:
            sample = where.nonzero(as_tuple=True)[0]
            self.log_weights.index_add_(0, sample, log_weights.double())

    def write_grid(self, where: Tensor, tokens: Tensor, log_weights: Tensor | None = None) -> None:
        """``write`` in fixed shapes: tokens Int[B, L] and log weights Float[B, L] count at the
        positions ``where`` Bool[B, L]."""
        self.x.copy_(torch.where(where, tokens, self.x))
        if log_weights is not None:
            self.log_weights += log_weights.double().masked_fill(~where, 0.0).sum(dim=1)

    def record(self) -> None:
        """Keep the present state, if states are kept and it is a new one."""
        frames, fixed = self.frames, self.has_fixed_shapes
        if frames is not None and (fixed or not torch.equal(self.x, frames[-1])):
            frames.append(self.x.clone())

    def output(self) -> SampleOutput:
        """Finished samples; -1 for a token whose probability is NaN."""
        trajectory = None if self.frames is None else torch.stack(self.frames)
        if trajectory is not None and self.has_fixed_shapes:  # equal states are still among them
            new = (trajectory.diff(dim=0) != 0).flatten(1).any(dim=1)
            trajectory = torch.cat([trajectory[:1], trajectory[1:][new]])
        forced = None if self.narrowing is None else self.num_forced
        x0 = self.x.masked_fill(self.is_nan, -1)
        return SampleOutput(x0, self.nfe, self.log_weights, trajectory, self.ancestors, forced)


def check_request(layout: TokenLayout, real: Tensor, clamp: Tensor, support: Tensor | None) -> None:
    """Check shapes, clamped ids and support of a request.

    Raises ``ValueError``, naming sample and position, for shapes that do not fit, a clamp on an
    illegal id or on PAD (unless the position is given), or a support that leaves a real position
    nothing.
    """
    if real.ndim != 2 or real.shape[1] != layout.length:
        raise ValueError(f"real: expected Bool[B, {layout.length}], got {tuple(real.shape)}")
    if clamp.shape != real.shape:
        raise ValueError(f"clamp: expected {tuple(real.shape)}, got {tuple(clamp.shape)}")
    # a support leaves every real position an id
    allowed = layout.support.expand(*real.shape, -1)
    if support is not None:
        if support.shape != allowed.shape:
            raise ValueError(
                f"support: expected {tuple(allowed.shape)}, got {tuple(support.shape)}"
            )
        allowed = allowed & support
        if (bad := (real & ~allowed.any(dim=-1)).nonzero()).numel():
            sample, position = bad[0].tolist()
            raise ValueError(f"support leaves no id at sample {sample}, position {position}")
    # a clamped id is allowed where it stands
    ids = clamp.clamp(0, layout.vocab_size - 1)
    legal = allowed.gather(-1, ids.unsqueeze(-1)).squeeze(-1) & (clamp < layout.vocab_size)
    seen = real.clone()
    seen[:, : layout.num_given] = True
    if (bad := ((clamp >= 0) & ~(legal & seen)).nonzero()).numel():
        sample, position = bad[0].tolist()
        raise ValueError(
            f"clamp holds id {int(clamp[sample, position])} at sample {sample}, position "
            f"{position}, where it is not legal"
        )
