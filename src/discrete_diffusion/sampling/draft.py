"""``Draft``: unfinished samples of tokens; the number of their network calls, and their times."""

from __future__ import annotations

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
from discrete_diffusion.sampling.narrowing import Narrowing

_ROUNDING = 1e-9
"""Steps that a time may be late by its own rounding."""


def number_of_calls(tokens_per_call: int, steps: int | None, num: Tensor) -> Tensor:
    """Int[B, 1]: in how many calls ``num`` Int[B, 1] tokens are revealed: ``steps``, or as few as
    there can be with ``tokens_per_call``; never more than one per token.

    Call c = 0, 1, ... of C reveals those with floor(r C / num) = c, r the rank of a token in the
    order of the sampler: as evenly as can be.
    """
    return -(-num // tokens_per_call) if steps is None else num.clamp(max=steps)


def tokens_by_call(num: Tensor, calls: Tensor) -> Tensor:
    """Int[C, B]: how many of ``num`` Int[B, 1] tokens each of ``calls`` Int[B, 1] calls reveals, C
    the largest number of calls; 0 behind the last of a sample."""
    most = int(calls.max()) if calls.numel() else 0
    call = torch.arange(most + 1, device=num.device)
    first = -(-call * num // calls.clamp(min=1))  # (B, C + 1), the least rank of a call
    return first.diff(dim=1).masked_fill(call[:-1] >= calls, 0).T


def are_sampled_together(tokens_per_call: int, steps: int | None, num: int) -> bool:
    """True if a call of ``number_of_calls`` reveals several of ``num`` tokens."""
    return num > steps if steps is not None else min(num, tokens_per_call) > 1


def order_of_unmasking(times: Tensor, free: Tensor) -> Tensor:
    """Int[B, L]: the positions ``free`` Bool[B, L] by their unmask times Float64[B, L], latest
    first, then the others."""
    return times.masked_fill(~free, -1.0).argsort(dim=1, descending=True, stable=True)


def time_of_masked_share(algorithm: TokenAlgorithm, masked: Tensor, real: Tensor) -> Tensor:
    """Float64[B]: the time at which as many of the positions ``real`` Bool[B, L] are masked as now
    are, ``masked`` Bool[B, L]; for a model of discrete steps the next later of its own times."""
    process, num_steps = algorithm.process, algorithm.num_steps
    assert isinstance(process, Absorbing)
    t = process.time_of_masked(masked, real)
    if num_steps is None:
        return t
    return (t * num_steps - _ROUNDING).ceil().clamp(min=1) / num_steps


def keeps_shapes(device: torch.device) -> bool:
    """True for a device that works on while the host prepares what comes next, as a GPU does.

    A shape that depends on a value there would make the host wait for it: samplers compute all
    samples in every call, finished ones too, and choose by masks.
    """
    return device.type != "cpu"


class Block(NamedTuple):
    """Positions that are filled before any of the next block, one of all positions if the algorithm
    has no ``blocks``. ``free``: Bool[B, L], those to sample; ``real``: Bool[B, L], those whose
    noise level t is. ``num``: Int[B] on the host, how many are free; None unless ``Draft.fixed``.
    """

    free: Tensor
    real: Tensor
    num: Tensor | None = None


class OnHost(NamedTuple):
    """What the host knows of a draft on another device, read back once at its start.

    ``free``: Bool[B, L]. ``blocks``: Int[L] of the algorithm, or None. ``group``: Int[L] of the
    layout. ``packing``: of the columns, on the device itself; None if the backbone takes none.
    """

    free: Tensor
    blocks: Tensor | None
    group: Tensor
    packing: ColumnPacking | None

    @classmethod
    def of(cls, algorithm: TokenAlgorithm, x: Tensor, free: Tensor) -> OnHost:
        """Of the samples x Int[B, L] at their start."""
        layout, blocks = algorithm.layout, algorithm.blocks
        packed = "packing" in algorithm.call.conditions
        return cls(
            free=free.cpu(),
            blocks=None if blocks is None else blocks.cpu(),
            group=layout.group.cpu(),
            packing=pack_columns(layout.is_real(x)) if packed else None,
        )

    def num_free(self, block: int | None, group: int | None) -> Tensor:
        """Int[B]: how many positions of a block and of a group are free; None: of all."""
        free = self.free
        if block is not None:
            free = free & (self.blocks == block)
        if group is not None:
            free = free & (self.group == group)
        return free.sum(dim=1)


@dataclass
class Draft:
    """A request and the state of its samples, whose tensors a sampler changes in place.

    ``algorithm``: whose model is sampled. ``generator``: of all random numbers.
    ``real``: Bool[B, L] positions to fill. ``free``: Bool[B, L], those that are sampled: real and
    not clamped. ``steps``, ``support``, ``conditions``: of the request, see
    ``TokenSampler.sample``.

    ``x``: Int[B, L]. ``probs``: Float64[B, L], what D gave to the token that
        ``TokenSampler.reveal`` last drew at a position, hidden again or not; 0 where it drew none.
    ``nfe``: Int[B] network calls so far. ``log_weights``: Float64[B] log importance weights so far.
    ``num_forced``: Int[B], tokens so far for which the narrowing excluded what D gave first.
    ``frames``: the states to keep, the first one included, or None. ``ancestors``: Int[B], of
        particles, or None.
    ``calls``: those of the network as a command shows them; ``begin_call`` counts one.
    ``known``: Int[B, L] clean tokens, of a likelihood: what ``TokenSampler.sample_at`` would sample
        it reads here, and adds the log of its probability to ``log_weights``; None: it samples.
    ``on_host``: None on the CPU, see ``keeps_shapes``.
    """

    algorithm: TokenAlgorithm
    real: Tensor
    free: Tensor
    generator: torch.Generator
    x: Tensor
    probs: Tensor
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
    ) -> Draft:
        """x1 ~ prior with the ids of ``clamp`` Int[B, L], -1 where free, already in place."""
        prior = algorithm.process.prior_sample(real, generator)
        x = torch.where(clamp >= 0, clamp, prior)
        num, device = x.shape[0], x.device
        free = real & (clamp < 0)
        return cls(
            algorithm=algorithm,
            real=real,
            free=free,
            generator=generator,
            x=x,
            probs=torch.zeros(x.shape, dtype=torch.float64, device=device),
            nfe=torch.zeros(num, dtype=torch.long, device=device),
            log_weights=torch.zeros(num, dtype=torch.float64, device=device),
            num_forced=torch.zeros(num, dtype=torch.long, device=device),
            on_host=OnHost.of(algorithm, x, free) if keeps_shapes(device) else None,
        )

    @property
    def fixed(self) -> bool:
        """True if no shape may depend on a value on the device. Not where tokens are known, nor
        with a narrowing, which reads them."""
        return self.on_host is not None and self.narrowing is None and self.known is None

    @property
    def blocks(self) -> list[Block]:
        """Blocks in ascending order."""
        return self._parts([None])

    @property
    def blocks_and_groups(self) -> list[Block]:
        """Of each block one group of the layout after the other; ``Block.real`` is the block's."""
        return self._parts(range(len(self.algorithm.layout.group_names)))

    def _parts(self, groups: Sequence[int | None]) -> list[Block]:
        blocks, host = self.algorithm.blocks, self.on_host
        ids = blocks if host is None else host.blocks
        numbers = [None] if ids is None else ids.unique().tolist()
        return [self._part(block, group) for block in numbers for group in groups]

    def _part(self, block: int | None, group: int | None) -> Block:
        real, blocks = self.real, self.algorithm.blocks
        if block is not None:
            real = real & (blocks == block)
        free = self.free & real
        if group is not None:
            free = free & (self.algorithm.layout.group == group)
        if not self.fixed or self.on_host is None:
            return Block(free, real)
        return Block(free, real, self.on_host.num_free(block, group))

    @property
    def masked(self) -> Tensor:
        """Bool[B, L]: where MASK stands."""
        return self.x == self.algorithm.layout.mask_id

    def at(self, t: float) -> Tensor:
        """Float64[B]: the time t for every sample."""
        return torch.full(self.nfe.shape, t, dtype=torch.float64, device=self.x.device)

    def begin_call(self) -> None:
        """A network call begins. A command that shows progress may read here, once in a while, how
        many tokens are finished; nothing else is read from a GPU."""
        share = None
        if self.calls.wants_share and self.algorithm.process.absorbing:
            share = 1 - float((self.masked & self.free).sum() / self.free.sum().clamp(min=1))
        self.calls.begin(share)

    @staticmethod
    def most_calls(parts: Sequence[Block]) -> int:
        """Calls that fill parts one after the other, if each samples a token of every sample that
        has any left there."""
        nums = [part.free.sum(dim=1) if part.num is None else part.num for part in parts]
        return int(sum(num.max() for num in nums if len(num)))

    def conditions_of(self, rows: Tensor) -> dict[str, Any]:
        """The conditions of the samples ``rows`` Int[R]."""
        return {name: value[rows] for name, value in self.conditions.items()}

    def legal_at(self, rows: Tensor, position: Tensor) -> Tensor:
        """The legal ids Bool[N, V] at ``position`` Int[N] of the samples ``rows`` Int[N], narrowed
        by ``support``."""
        legal = self.algorithm.layout.support[position]
        return legal if self.support is None else legal & self.support[rows, position]

    def support_at(self, rows: Tensor, here: Tensor) -> Tensor | None:
        """The narrowed legal ids Bool[N, V] of the samples ``rows`` Int[R] at their N positions
        ``here`` Bool[R, L]; None if nothing narrows them. All that are legal where none is left."""
        narrowing = self.narrowing
        if narrowing is not None and not narrowing.narrows_order:
            narrowing = None
        if self.support is None and narrowing is None:
            return None
        row, position = here.nonzero(as_tuple=True)
        legal = self.legal_at(rows[row], position)
        if narrowing is None:
            return legal
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
        """Keep the present state, if any are kept and it is a new one."""
        if self.frames is not None and (self.fixed or not torch.equal(self.x, self.frames[-1])):
            self.frames.append(self.x.clone())

    def output(self) -> SampleOutput:
        """The finished samples; -1 for a token whose probability is NaN."""
        trajectory = None if self.frames is None else torch.stack(self.frames)
        if trajectory is not None and self.fixed:  # equal states are still among them
            new = (trajectory.diff(dim=0) != 0).flatten(1).any(dim=1)
            trajectory = torch.cat([trajectory[:1], trajectory[1:][new]])
        forced = None if self.narrowing is None else self.num_forced
        x0 = self.x.masked_fill(self.probs.isnan(), -1)
        return SampleOutput(x0, self.nfe, self.log_weights, trajectory, self.ancestors, forced)


def check_request(layout: TokenLayout, real: Tensor, clamp: Tensor, support: Tensor | None) -> None:
    """Raise ``ValueError``, naming sample and position, for shapes that do not fit, a clamp on an
    illegal id or on PAD (unless the position is given), or a support that leaves a real position
    nothing."""
    if real.ndim != 2 or real.shape[1] != layout.length:
        raise ValueError(f"real: expected Bool[B, {layout.length}], got {tuple(real.shape)}")
    if clamp.shape != real.shape:
        raise ValueError(f"clamp: expected {tuple(real.shape)}, got {tuple(clamp.shape)}")
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
