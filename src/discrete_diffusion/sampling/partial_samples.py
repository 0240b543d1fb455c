"""``PartialSamples``: unfinished samples of tokens, their calls and times; ``Narrowing`` rules."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor

from discrete_diffusion.algorithms.block_reader import BlockReader, reason_against_cache
from discrete_diffusion.algorithms.token_algorithm import TokenAlgorithm
from discrete_diffusion.contracts import SampleOutput
from discrete_diffusion.forward_process.interpolating import Absorbing
from discrete_diffusion.layout.token_layout import TokenLayout
from discrete_diffusion.models.calling import ColumnPacking, pack_columns
from discrete_diffusion.runtime import progress


def number_of_calls(tokens_per_call: int, steps: int | None, num: Tensor) -> Tensor:
    """Number of calls that reveal ``num`` Int[B, 1] tokens, Int[B, 1].

    It is ``steps``, but at most one call per token; without ``steps``, as few as
    ``tokens_per_call`` allows. Of C calls, call c = 0, 1, ... reveals the tokens with floor(r C /
    num) = c, r the rank of a token in the order of the sampler: as evenly as possible.
    """
    return -(-num // tokens_per_call) if steps is None else num.clamp(max=steps)


def tokens_by_call(num: Tensor, calls: Tensor) -> Tensor:
    """Number of tokens that each call reveals, Int[C, B], C the largest number of calls.

    ``num``, ``calls``: Int[B, 1], tokens and calls of each sample. After its last call 0.
    """
    most = int(calls.max()) if calls.numel() else 0
    call = torch.arange(most + 1, device=num.device)
    first = -(-call * num // calls.clamp(min=1))  # (B, C + 1), the least rank of a call
    return first.diff(dim=1).masked_fill(call[:-1] >= calls, 0).T


def are_sampled_together(tokens_per_call: int, steps: int | None, num: int) -> bool:
    """Return True if one of the ``number_of_calls`` calls reveals several of ``num`` tokens."""
    return num > steps if steps is not None else min(num, tokens_per_call) > 1


def time_of_masked_share(algorithm: TokenAlgorithm, masked: Tensor, real: Tensor) -> Tensor:
    """Time at which as many positions are masked as now, Float64[B].

    ``masked``: Bool[B, L], counted among ``real`` Bool[B, L]. For a model of discrete steps the
    time is rounded up to the next of the model's times.
    """
    process, num_steps = algorithm.process, algorithm.num_steps
    assert isinstance(process, Absorbing)
    t = process.time_of_masked(masked, real)
    if num_steps is None:
        return t
    # rounding may make a time late by a share of a step
    return (t * num_steps - 1e-9).ceil().clamp(min=1) / num_steps


def keeps_shapes(device: torch.device) -> bool:
    """Return True for a device, such as a GPU, that computes while the host prepares the next call.

    A shape that depends on a value on the device would make the host wait. So samplers compute all
    samples in every call, also finished samples, and select by masks.
    """
    return device.type != "cpu"


class Narrowing(ABC):
    """Rule for the tokens that may still be sampled, given those sampled so far.

    Passed to ``TokenSampler.sample``.

    Let p be the model and r the distribution of the samples. If tokens are sampled one by one in an
    order that does not depend on them, the ``log_weights`` log w of samples add up the log of the
    mass that D kept at each token, with

        p(x) = w(x) r(x)    for every x of which no token is excluded on the way:

    Weighted samples are distributed as p given that no token is excluded, and the mean weight is
    the probability of this.

    It is not known which other ids ``refuses`` would have refused. With ``probes`` it is called for
    one more id y ~ D other than the sampled id v. The mass kept is then estimated as D(v) + (1 -
    D(v)) [y is not refused], which is unbiased for any v, as is its product over all tokens.
    Without ``probes`` every id that was not refused counts as kept, and w is too large.

    One object serves one call of ``sample``; rows are indices into the batch of that call.
    """

    probes: bool = False
    shuffles: bool = False
    """True: the tokens of one call are sampled in random order; False: in order of position."""
    narrows_order: bool = True
    """False: orders that read D, such as ``entropy``, read D before narrowing. For rules that take
    too long for all positions at every call."""

    def start(self, x: Tensor) -> None:
        """Prepare for sampling; raise ``ValueError`` if given tokens of a sample break the rule."""
        for row, why in self.contradictions(x).items():
            raise ValueError(f"clamp, sample {row}: {why}")
        self.begin(x)

    def contradictions(self, x: Tensor) -> dict[int, str]:
        """Reasons, by row, for which no completion of x Int[B, L] can satisfy the rule."""
        return {}

    def begin(self, x: Tensor) -> None:
        """Read x Int[B, L] before the first token: it holds MASK, PAD and clamped tokens."""

    @abstractmethod
    def support(self, x: Tensor, position: Tensor) -> Tensor:
        """Ids that may be sampled at ``position`` Int[R] of the samples x Int[R, L], Bool[R, V].

        x has MASK where nothing is sampled yet. If no id is left, the token is sampled without
        narrowing, and the sample has weight 0, log w = -inf.
        """

    def refuses(self, rows: Tensor, x: Tensor, position: Tensor) -> Tensor:
        """Return True where the token just sampled at ``position`` Int[R] is refused, Bool[R].

        ``x``: Int[R, L], the samples ``rows`` Int[R] with that token. A refused id is removed from
        the support, and another id is sampled. Meant for rules for which ``support`` would take too
        long to compute. The result depends on x alone: the method may be called for tokens that do
        not stay.
        """
        return torch.zeros_like(rows, dtype=torch.bool)


class Block(NamedTuple):
    """Positions that are filled before the next block; all positions for an algorithm without
    ``blocks``.

    ``free``: Bool[B, L], positions to sample; ``real``: Bool[B, L], positions to which the time t
    applies; ``num``: Int[B] on the host, number of free positions.
    """

    free: Tensor
    real: Tensor
    num: Tensor


LONG = 256
"""Fewest positions for which a GPU waits for the host in every call to compute fewer columns; a
choice, not measured."""

COLUMNS_OF_A_CALL = 256
"""Columns of a small network that take as long as what each further call costs (on a CPU)."""


class OnHost(NamedTuple):
    """Copies on the host of tensors on another device, made once when sampling starts.

    ``free``: Bool[B, L]. ``blocks``: Int[L] of the algorithm, or None. ``group``: Int[L] of the
    layout. ``packing``: packing of the columns, on the device; None if the backbone takes none.
    """

    free: Tensor
    blocks: Tensor | None
    group: Tensor
    packing: ColumnPacking | None


@dataclass
class PartialSamples:
    """A request for samples and their state, whose tensors a sampler changes in place.

    ``algorithm``: algorithm whose model is sampled. ``generator``: source of all random numbers.
    ``real``: Bool[B, L], positions to fill. ``free``: Bool[B, L], positions to sample: real and not
    clamped. ``steps``, ``support``, ``narrowing``, ``conditions``: as in ``TokenSampler.sample``.

    ``x``: Int[B, L], tokens. ``is_nan``: Bool[B, L], True where the last token that
        ``TokenSampler.reveal`` sampled has the probability NaN.
    ``nfe``: Int[B] network calls so far. ``log_weights``: Float64[B] log importance weights so far.
    ``num_forced``: Int[B], tokens so far whose first sampled id the narrowing excluded.
    ``frames``: states kept so far, with the first state; None if states are not kept.
    ``ancestors``: Int[B], ancestors of particles, or None.
    ``calls``: network calls as a command shows them; ``begin_call`` counts one.
    ``known``: Int[B, L], clean tokens whose likelihood is measured: ``TokenSampler.sample_at``
        reads a token here and adds the log of its probability to ``log_weights``; None: it samples.
    ``on_host``: copies on the host, see ``keeps_shapes``; None on the CPU.
    ``refresh``: calls of a sample of which one computes all columns; 1: each of them.
    ``readers``: what the network keeps of finished blocks, or of columns, for each call of a guided
        prediction under the conditions ``read_under``.
    ``columns``: Int[B], columns computed so far, those of the readers aside.
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
    refresh: int = 1
    readers: list[BlockReader] = field(default_factory=list)
    read_under: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        self.columns = torch.zeros_like(self.nfe)

    @classmethod
    def start(
        cls, algorithm: TokenAlgorithm, real: Tensor, clamp: Tensor, generator: torch.Generator
    ) -> PartialSamples:
        """Sample x1 ~ prior, with the ids of ``clamp`` Int[B, L] in place, -1 where free."""
        # clamped tokens replace noise
        prior = algorithm.process.prior_sample(real, generator)
        x = torch.where(clamp >= 0, clamp, prior)
        free = real & (clamp < 0)
        # what samplers on a GPU need on the host
        on_host, layout, blocks = None, algorithm.layout, algorithm.blocks
        if keeps_shapes(x.device):
            packed = "packing" in algorithm.call.conditions
            on_host = OnHost(
                free=free.cpu(),
                blocks=None if blocks is None else blocks.cpu(),
                group=layout.group.cpu(),
                packing=pack_columns(layout.is_real(x)) if packed else None,
            )
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
            on_host=on_host,
        )

    @property
    def has_fixed_shapes(self) -> bool:
        """True if no shape may depend on a value on the device.

        False if tokens are known, with a narrowing, which reads the tokens, or if a network keeps
        columns (``refresh``) or finished blocks of long samples.
        """
        fixed = self.on_host is not None and self.narrowing is None and self.known is None
        fixed &= self.refresh == 1
        return fixed and not (self.x.shape[1] >= LONG and self.keeps_blocks)

    @property
    def keeps_blocks(self) -> bool:
        """True if the network is called with the block in work alone (``BlockReader``).

        Samples whose PAD differs take a call each: of many such short samples all columns are
        computed instead.
        """
        if self.known is not None or reason_against_cache(self.algorithm, self.conditions):
            return False
        return (len(self.patterns[0]) - 1) * COLUMNS_OF_A_CALL <= self.x.numel()

    @cached_property
    def patterns(self) -> tuple[Tensor, Tensor]:
        """Sets of columns that are not PAD, Bool[K, L], and the set of each sample, Int[B]."""
        columns = self.algorithm.layout.is_real(self.x)
        return torch.unique(columns, dim=0, return_inverse=True)

    @property
    def blocks(self) -> list[Block]:
        """Blocks in ascending order."""
        return self._parts([None])

    @property
    def blocks_and_groups(self) -> list[Block]:
        """Groups of the layout, block by block; ``Block.real`` has all positions of the block."""
        return self._parts(range(len(self.algorithm.layout.group_names)))

    def _parts(self, groups: Sequence[int | None]) -> list[Block]:
        """Positions of each block and group; a group None: of all groups."""
        host, blocks, group_of = self.on_host, self.algorithm.blocks, self.algorithm.layout.group
        ids = blocks if host is None else host.blocks
        parts = []
        for block in [None] if ids is None else ids.unique().tolist():
            real = self.real if block is None else self.real & (blocks == block)
            for group in groups:
                free = self.free & real
                if group is not None:
                    free = free & (group_of == group)
                counted = free
                # the same on the host, to count without waiting for the device
                if self.has_fixed_shapes and host is not None:
                    counted = host.free if block is None else host.free & (host.blocks == block)
                    counted = counted if group is None else counted & (host.group == group)
                parts.append(Block(free, real, counted.sum(dim=1).cpu()))
        return parts

    @property
    def masked(self) -> Tensor:
        """Bool[B, L]: where MASK stands."""
        return self.x == self.algorithm.layout.mask_id

    def times(self, t: float) -> Tensor:
        """Time t of every sample, Float64[B]."""
        return torch.full(self.nfe.shape, t, dtype=torch.float64, device=self.x.device)

    def begin_call(self) -> None:
        """Count a network call.

        A command that shows progress may now and then read the number of finished tokens from the
        device.
        """
        share = None
        if self.calls.wants_share and self.algorithm.process.absorbing:
            share = 1 - float((self.masked & self.free).sum() / self.free.sum().clamp(min=1))
        self.calls.begin(share)

    def conditions_of(self, rows: Tensor) -> dict[str, Any]:
        """Conditions of the samples ``rows`` Int[R]."""
        return {name: value[rows] for name, value in self.conditions.items()}

    def legal_at(self, rows: Tensor, position: Tensor) -> Tensor:
        """Legal ids at ``position`` Int[N] of ``rows`` Int[N], within ``support``: Bool[N, V]."""
        legal = self.algorithm.layout.support[position]
        return legal if self.support is None else legal & self.support[rows, position]

    def write(self, where: Tensor, tokens: Tensor, log_weights: Tensor | None = None) -> None:
        """Put tokens Int[N] at positions ``where`` Bool[B, L]; add their log weights Float[N]."""
        self.x[where] = tokens
        if log_weights is not None:
            sample = where.nonzero(as_tuple=True)[0]
            self.log_weights.index_add_(0, sample, log_weights.double())

    def write_grid(self, where: Tensor, tokens: Tensor, log_weights: Tensor | None = None) -> None:
        """Do as ``write``, with tokens Int[B, L] and log weights Float[B, L] in fixed shapes."""
        self.x.copy_(torch.where(where, tokens, self.x))
        if log_weights is not None:
            self.log_weights += log_weights.double().masked_fill(~where, 0.0).sum(dim=1)

    def record(self) -> None:
        """Keep the present state, if states are kept and it differs from the last."""
        frames, fixed = self.frames, self.has_fixed_shapes
        if frames is not None and (fixed or not torch.equal(self.x, frames[-1])):
            frames.append(self.x.clone())

    def output(self) -> SampleOutput:
        """Return the finished samples, with -1 for a token whose probability is NaN."""
        trajectory = None if self.frames is None else torch.stack(self.frames)
        if trajectory is not None and self.has_fixed_shapes:  # equal states are still among them
            new = (trajectory.diff(dim=0) != 0).flatten(1).any(dim=1)
            trajectory = torch.cat([trajectory[:1], trajectory[1:][new]])
        forced = None if self.narrowing is None else self.num_forced
        x0 = self.x.masked_fill(self.is_nan, -1)
        columns = sum((reader.num_columns for reader in self.readers), self.columns)
        return SampleOutput(
            *(x0, self.nfe, self.log_weights, trajectory, self.ancestors, forced),
            columns=columns,
        )


def check_request(layout: TokenLayout, real: Tensor, clamp: Tensor, support: Tensor | None) -> None:
    """Check shapes, clamped ids and support of a request.

    Raises ``ValueError``, naming sample and position, for shapes that do not fit, a clamp on an
    illegal id or on PAD (unless the position is given), or a support that leaves no id at a real
    position.
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
