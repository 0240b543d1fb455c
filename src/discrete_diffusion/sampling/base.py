"""``Sampler``: what every sampler promises, and what they share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor

from discrete_diffusion.algorithms import Algorithm
from discrete_diffusion.categorical import draw, log_softmax_on, mask_logits, nucleus, temper
from discrete_diffusion.sampling.draft import Draft
from discrete_diffusion.sampling.requests import check_request
from discrete_diffusion.types import SampleOutput, SampleRequest


class Sampler(ABC):
    """Draws x0 from an algorithm's reverse process.

    Where the algorithm has ``blocks``, positions are filled block after block in ascending order.

    ``temperature``: D^(1/T) before every draw. ``top_p``: nucleus mass kept of D at every draw.
    Both are 1 for samples of the model itself.

    Raises ``ValueError`` for a temperature that is not positive or a top_p outside (0, 1].
    """

    name: ClassVar[str]
    """What ``sampling=`` calls it."""
    absorbing_only: ClassVar[bool] = False
    """True if it reveals MASKs, and so needs the absorbing process."""

    def __init__(self, *, temperature: float = 1.0, top_p: float = 1.0) -> None:
        if not 0 < temperature < float("inf"):
            raise ValueError(f"temperature={temperature}: expected a positive number")
        if not 0 < top_p <= 1:
            raise ValueError(f"top_p={top_p}: expected a number in (0, 1]")
        self.temperature, self.top_p = float(temperature), float(top_p)

    def check(self, algorithm: Algorithm) -> None:
        """Raise ``ValueError``, naming samplers that do, if this one does not draw from the model
        that the algorithm trains."""
        fitting = algorithm.samplers
        if fitting is not None and self.name not in fitting:
            raise ValueError(
                f"{algorithm.name} cannot be sampled by {self.name}; "
                f"use sampling={' or sampling='.join(fitting)}"
            )
        if self.absorbing_only and not algorithm.process.absorbing:
            raise ValueError(
                f"{algorithm.name} with {algorithm.process.name} noise cannot be sampled by "
                f"{self.name}, which needs absorbing noise; use sampling=ancestral"
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

        ``steps``: number of time steps, or of network calls for samplers that have none (those that
        choose their own calls refuse it).
        ``clamp``: Int[B, L], ids to hold fixed, -1 where free. Visible from the first network call
        on and never re-noised: the exact conditional for absorbing processes, an approximation for
        others, whose network takes a clamped token for a noisy one. An algorithm with ``blocks``
        sees a clamped token once its block has its turn: exact for clamps that no earlier block
        with free positions precedes (a prefix, if it is autoregressive).
        ``support``: Bool[B, L, V], a narrowing of the legal ids; ``log_weights`` of the result are
        the log importance weights that undo its tilt. Of a sampler that revises tokens they are
        those of all tokens drawn, revised ones too.
        ``keep_trajectory``: return the states on the way, too.

        The algorithm is put into eval mode while sampling. Raises ``ValueError`` for an algorithm
        that does not fit (``check``), and naming sample and position for a clamp on an illegal id
        or a support that leaves nothing.
        """
        clamp = torch.full_like(real, -1, dtype=torch.long) if clamp is None else clamp
        self.check(algorithm)
        check_request(algorithm.layout, real, clamp, support)
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
            draft = Draft.start(self._start(algorithm, request), request)
            self._run(algorithm, request, draft)
            return draft.output()
        finally:
            algorithm.train(was_training)

    @abstractmethod
    def _run(self, algorithm: Algorithm, request: SampleRequest, draft: Draft) -> None:
        """Finish the draft; the request is checked and the algorithm is in eval mode."""

    @staticmethod
    def _start(algorithm: Algorithm, request: SampleRequest) -> Tensor:
        """x1 ~ prior with the clamped ids already in place: Int[B, L]."""
        prior = algorithm.process.prior_sample(request.real, request.generator)
        return torch.where(request.clamp >= 0, request.clamp, prior)

    @staticmethod
    def _turns(algorithm: Algorithm, draft: Draft) -> list[Tensor]:
        """Bool[B, L] for each block: the free positions that are drawn in its turn."""
        if algorithm.blocks is None:
            return [draft.free]
        return [draft.free & (algorithm.blocks == block) for block in algorithm.blocks.unique()]

    def _reveal(
        self,
        algorithm: Algorithm,
        request: SampleRequest,
        draft: Draft,
        reveal: Tensor,
        t: Tensor,
    ) -> None:
        """Draw the MASKs ``reveal`` Bool[B, L] from D at times t Float64[B].

        The network is asked about the samples with any, once, and nothing is done without.
        """
        rows = reveal.any(dim=1).nonzero().squeeze(1)
        if rows.numel() == 0:
            return
        x_t, real = draft.x[rows], request.real[rows]
        log_d0 = algorithm.denoise(x_t, t[rows], real, request.conditions_of(rows))  # (R, L, V)
        here = reveal[rows]
        support = None
        if request.support is not None:
            support = (request.support[rows] & algorithm.layout.support)[here]
        log_d0, log_kept = self._shaped(log_d0[here], support)  # (N, V)
        tokens = draw(log_d0, request.generator)
        draft.write(reveal, tokens, log_kept)
        draft.probs[reveal] = log_d0.gather(-1, tokens.unsqueeze(-1)).squeeze(-1).double().exp()
        draft.nfe[rows] += 1

    def _shaped(self, log_d0: Tensor, support: Tensor | None) -> tuple[Tensor, Tensor]:
        """log D Float[..., V] tempered, then narrowed, then cut to its nucleus, as in
        ``Algorithm.predict``; and the log of the mass that narrowing kept, Float[...]."""
        log_d0 = temper(log_d0, self.temperature)
        log_kept = torch.zeros_like(log_d0[..., 0])
        if support is not None:
            log_kept = torch.logsumexp(mask_logits(log_d0, support), dim=-1)
            log_d0 = log_softmax_on(log_d0, support)
        return nucleus(log_d0, self.top_p), log_kept
