"""``Draft``: unfinished samples of tokens."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor

from discrete_diffusion.algorithms import TokenAlgorithm
from discrete_diffusion.sampling.narrowing import Narrowing
from discrete_diffusion.types import SampleOutput


class Block(NamedTuple):
    """Positions that are filled before any of the next block, one of all positions if the algorithm
    has no ``blocks``. ``free``: Bool[B, L], those to draw; ``real``: Bool[B, L], those whose noise
    level t is."""

    free: Tensor
    real: Tensor


@dataclass
class Draft:
    """A request and the state of its samples, whose tensors a sampler changes in place.

    ``real``: Bool[B, L] positions to fill. ``free``: Bool[B, L], those that are drawn: real and not
    clamped. ``steps``, ``support``, ``conditions``: of the request, see ``TokenSampler.sample``.

    ``x``: Int[B, L]. ``probs``: Float64[B, L], what D gave to the token that
        ``TokenSampler._reveal`` last drew at a position, hidden again or not; 0 where it drew none.
    ``nfe``: Int[B] network calls so far. ``log_weights``: Float64[B] log importance weights so far.
    ``frames``: the states to keep, the first one included, or None. ``ancestors``: Int[B], of
        particles, or None.
    """

    algorithm: TokenAlgorithm
    real: Tensor
    free: Tensor
    generator: torch.Generator
    x: Tensor
    probs: Tensor
    nfe: Tensor
    log_weights: Tensor
    steps: int | None = None
    support: Tensor | None = None
    narrowing: Narrowing | None = None
    conditions: dict[str, Any] = field(default_factory=dict)
    frames: list[Tensor] | None = None
    ancestors: Tensor | None = None

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
        )

    @property
    def blocks(self) -> list[Block]:
        """In ascending order."""
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
        if self.support is None and self.narrowing is None:
            return None
        row, position = here.nonzero(as_tuple=True)
        legal = self.legal_at(rows[row], position)
        if self.narrowing is None:
            return legal
        kept = legal & self.narrowing.support(self.x[rows[row]], position)
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
        return SampleOutput(self.x, self.nfe, self.log_weights, trajectory, self.ancestors)
