"""``Draft``: unfinished samples of tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor

from discrete_diffusion.algorithms.token_algorithm import TokenAlgorithm
from discrete_diffusion.layout.token_layout import TokenLayout
from discrete_diffusion.runtime import progress
from discrete_diffusion.sampling.narrowing import Narrowing
from discrete_diffusion.types import SampleOutput


class Block(NamedTuple):
    """Positions that are filled before any of the next block, one of all positions if the algorithm
    has no ``blocks``. ``free``: Bool[B, L], those to sample; ``real``: Bool[B, L], those whose
    noise level t is."""

    free: Tensor
    real: Tensor


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

    @classmethod
    def start(
        cls, algorithm: TokenAlgorithm, real: Tensor, clamp: Tensor, generator: torch.Generator
    ) -> Draft:
        """x1 ~ prior with the ids of ``clamp`` Int[B, L], -1 where free, already in place."""
        prior = algorithm.process.prior_sample(real, generator)
        x = torch.where(clamp >= 0, clamp, prior)
        num, device = x.shape[0], x.device
        return cls(
            algorithm=algorithm,
            real=real,
            free=real & (clamp < 0),
            generator=generator,
            x=x,
            probs=torch.zeros(x.shape, dtype=torch.float64, device=device),
            nfe=torch.zeros(num, dtype=torch.long, device=device),
            log_weights=torch.zeros(num, dtype=torch.float64, device=device),
            num_forced=torch.zeros(num, dtype=torch.long, device=device),
        )

    @property
    def blocks(self) -> list[Block]:
        """Blocks in ascending order."""
        ids = self.algorithm.blocks
        if ids is None:
            return [Block(self.free, self.real)]
        return [Block(self.free & (ids == b), self.real & (ids == b)) for b in ids.unique()]

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
        if not parts:
            return 0
        return int(sum(part.free.sum(dim=1).max() for part in parts if len(part.free)))

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

    def record(self) -> None:
        """Keep the present state, if any are kept and it is a new one."""
        if self.frames is not None and not torch.equal(self.x, self.frames[-1]):
            self.frames.append(self.x.clone())

    def output(self) -> SampleOutput:
        """The finished samples."""
        trajectory = None if self.frames is None else torch.stack(self.frames)
        forced = None if self.narrowing is None else self.num_forced
        return SampleOutput(self.x, self.nfe, self.log_weights, trajectory, self.ancestors, forced)


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
