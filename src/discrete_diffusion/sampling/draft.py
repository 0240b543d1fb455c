"""``Draft``: samples in the making."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from discrete_diffusion.algorithms import TokenAlgorithm
from discrete_diffusion.types import SampleOutput, SampleRequest


class Turn(NamedTuple):
    """A block's turn, or everything's: ``free`` Bool[B, L], the positions to draw; ``clock``
    Bool[B, L], the real positions whose noise level t is that of."""

    free: Tensor
    clock: Tensor


@dataclass(frozen=True)
class Draft:
    """The state of a batch of samples; a sampler changes its tensors in place.

    ``x``: Int[B, L]. ``free``: Bool[B, L], the positions that are drawn: real and not clamped.
    ``probs``: Float64[B, L], what D gave to the token that ``Sampler._reveal`` last drew at a
        position, hidden again or not; 0 where it drew none.
    ``nfe``: Int[B] network calls so far. ``log_weights``: Float64[B] log importance weights so far.
    ``frames``: the states to keep, the first one included, or None.
    """

    algorithm: TokenAlgorithm
    request: SampleRequest
    x: Tensor
    free: Tensor
    probs: Tensor
    nfe: Tensor
    log_weights: Tensor
    frames: list[Tensor] | None

    @classmethod
    def start(cls, algorithm: TokenAlgorithm, request: SampleRequest) -> Draft:
        """x1 ~ prior with the clamped ids already in place."""
        prior = algorithm.process.prior_sample(request.real, request.generator)
        x = torch.where(request.clamp >= 0, request.clamp, prior)
        num, device = x.shape[0], x.device
        return cls(
            algorithm=algorithm,
            request=request,
            x=x,
            free=request.real & (request.clamp < 0),
            probs=torch.zeros(x.shape, dtype=torch.float64, device=device),
            nfe=torch.zeros(num, dtype=torch.long, device=device),
            log_weights=torch.zeros(num, dtype=torch.float64, device=device),
            frames=[x.clone()] if request.keep_trajectory else None,
        )

    @property
    def turns(self) -> list[Turn]:
        """Those of the algorithm's blocks, in ascending order."""
        blocks, real = self.algorithm.blocks, self.request.real
        if blocks is None:
            return [Turn(self.free, real)]
        return [Turn(self.free & (blocks == b), real & (blocks == b)) for b in blocks.unique()]

    @property
    def masked(self) -> Tensor:
        """Bool[B, L]: where MASK stands."""
        return self.x == self.algorithm.layout.mask_id

    def at(self, t: float) -> Tensor:
        """Float64[B]: the time t for every sample."""
        return torch.full(self.nfe.shape, t, dtype=torch.float64, device=self.x.device)

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
        return SampleOutput(
            tokens=self.x,
            nfe=self.nfe,
            log_weights=self.log_weights,
            trajectory=None if self.frames is None else torch.stack(self.frames),
        )
