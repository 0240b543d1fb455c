"""``Sampler``: what every sampler promises, and the checks they share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor

from discrete_diffusion.algorithms import Algorithm
from discrete_diffusion.categorical import draw, log_softmax_on, mask_logits, nucleus, temper
from discrete_diffusion.types import SampleOutput, SampleRequest


class Sampler(ABC):
    """Draws x0 from an algorithm's reverse process.

    Where the algorithm has ``blocks``, positions are filled block after block in ascending order.

    ``temperature``: D^(1/T) before every draw. ``top_p``: nucleus mass kept of D at every draw.
    Both are 1 for samples of the model itself.

    Raises ``ValueError`` for a temperature that is not positive or a top_p outside (0, 1].
    """

    name: ClassVar[str]
    """What ``sampling=`` calls it, and what algorithms name in ``samplers``."""

    def __init__(self, *, temperature: float = 1.0, top_p: float = 1.0) -> None:
        if not 0 < temperature < float("inf"):
            raise ValueError(f"temperature={temperature}: expected a positive number")
        if not 0 < top_p <= 1:
            raise ValueError(f"top_p={top_p}: expected a number in (0, 1]")
        self.temperature, self.top_p = float(temperature), float(top_p)

    def check(self, algorithm: Algorithm) -> None:
        """Raise ``ValueError``, naming the samplers that do, if this one does not draw from the
        model that the algorithm trains."""
        if self.name not in algorithm.samplers:
            raise ValueError(
                f"{algorithm.name} with {algorithm.process.name} noise cannot be sampled by "
                f"{self.name}; use sampling={' or sampling='.join(algorithm.samplers)}"
            )

    @torch.no_grad()
    def sample(
        self,
        algorithm: Algorithm,
        real: Tensor,
        *,
        generator: torch.Generator,
        steps: int | None = None,
        clamp: Tensor | None = None,
        support: Tensor | None = None,
        conditions: Mapping[str, Tensor] | None = None,
        keep_trajectory: bool = False,
    ) -> SampleOutput:
        """Draw one sample per row of ``real``: Bool[B, L], the positions to fill.

        ``steps``: number of time steps (samplers that choose their own calls refuse it).
        ``clamp``: Int[B, L], ids to hold fixed, -1 where free. Visible from the first network call
        on and never re-noised: the exact conditional for absorbing processes, an approximation for
        others, whose network takes a clamped token for a noisy one. An algorithm with ``blocks``
        sees a clamped token once its block has its turn: exact for clamps that no earlier block
        with free positions precedes (a prefix, if it is autoregressive).
        ``support``: Bool[B, L, V], a narrowing of the legal ids; ``log_weights`` of the result are
        the log importance weights that undo its tilt.

        The algorithm is put into eval mode while sampling. Raises ``ValueError`` for an algorithm
        that does not fit (``check``), and naming sample and position for a clamp on an illegal id
        or a support that leaves nothing.
        """
        clamp = torch.full_like(real, -1, dtype=torch.long) if clamp is None else clamp
        self.check(algorithm)
        self._check_request(algorithm, real, clamp, support)
        request = SampleRequest(
            real=real,
            clamp=clamp,
            support=support,
            steps=steps,
            generator=generator,
            conditions=dict(conditions or {}),
            keep_trajectory=keep_trajectory,
        )
        was_training = algorithm.training
        algorithm.eval()
        try:
            return self._run(algorithm, request)
        finally:
            algorithm.train(was_training)

    @abstractmethod
    def _run(self, algorithm: Algorithm, request: SampleRequest) -> SampleOutput:
        """The sampler itself; the request is checked and the algorithm is in eval mode."""

    @staticmethod
    def _start(algorithm: Algorithm, request: SampleRequest) -> Tensor:
        """x1 ~ prior with the clamped ids already in place: Int[B, L]."""
        prior = algorithm.process.prior_sample(request.real, request.generator)
        return torch.where(request.clamp >= 0, request.clamp, prior)

    def _draw_tokens(
        self, log_d0: Tensor, support: Tensor | None, generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        """Reveal one position per sample: tokens Int[R] drawn from log_d0 Float[R, V] as
        ``Algorithm.predict`` shapes it, and the log of the mass ``support`` Bool[R, V] kept."""
        log_d0 = temper(log_d0, self.temperature)
        log_kept = torch.zeros_like(log_d0[:, 0])
        if support is not None:
            log_kept = torch.logsumexp(mask_logits(log_d0, support), dim=-1)
            log_d0 = log_softmax_on(log_d0, support)
        return draw(nucleus(log_d0, self.top_p), generator), log_kept

    @staticmethod
    def _check_request(
        algorithm: Algorithm, real: Tensor, clamp: Tensor, support: Tensor | None
    ) -> None:
        layout = algorithm.layout
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
        held = clamp >= 0
        ids = clamp.clamp(0, layout.vocab_size - 1)
        legal = allowed.gather(-1, ids.unsqueeze(-1)).squeeze(-1) & (clamp < layout.vocab_size)
        if (bad := (held & ~(legal & real)).nonzero()).numel():
            sample, position = bad[0].tolist()
            raise ValueError(
                f"clamp holds id {int(clamp[sample, position])} at sample {sample}, position "
                f"{position}, where it is not legal"
            )
