"""``Sampler``: what every sampler promises, and what they share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor

from discrete_diffusion.algorithms import TokenAlgorithm
from discrete_diffusion.categorical import draw, log_softmax_on, mask_logits, nucleus, temper
from discrete_diffusion.sampling.clamping import check_request
from discrete_diffusion.sampling.draft import Draft
from discrete_diffusion.sampling.guidance import Guidance, check_given
from discrete_diffusion.types import SampleOutput, SampleRequest


class Sampler(ABC):
    """Draws x0 from an algorithm's reverse process.

    Where the algorithm has ``blocks``, positions are filled block after block in ascending order.

    ``temperature``: D^(1/T) before every draw. ``top_p``: nucleus mass kept of D at every draw.
    ``guidance``: of D by the condition, before both, see ``Guidance``. All are 1 for samples of the
    model itself.

    Raises ``ValueError`` for a temperature that is not positive, a top_p outside (0, 1] or a
    negative guidance.
    """

    name: ClassVar[str]
    """What ``sampling=`` calls it."""
    state: ClassVar[str] = "tokens"
    """What it samples."""
    absorbing_only: ClassVar[bool] = False
    """True if it reveals MASKs, and so needs the absorbing process."""
    continuous_time_only: ClassVar[bool] = False
    """True if it asks the network at any time, which a model of discrete steps does not know."""
    algorithms: ClassVar[tuple[str, ...] | None] = None
    """Those it is for, which name it in ``samplers``; None: all that have the right noise."""

    def __init__(
        self, *, temperature: float = 1.0, top_p: float = 1.0, guidance: float = 1.0
    ) -> None:
        if not 0 < temperature < float("inf"):
            raise ValueError(f"sampling.temperature={temperature}: expected a positive number")
        if not 0 < top_p <= 1:
            raise ValueError(f"sampling.top_p={top_p}: expected a number in (0, 1]")
        self.temperature, self.top_p = float(temperature), float(top_p)
        self.guidance = Guidance(guidance)

    def check(self, algorithm: TokenAlgorithm) -> None:
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
        if fitting is None and self.algorithms is not None:
            raise ValueError(
                f"{self.name} sampling needs algo={' or algo='.join(self.algorithms)}, got "
                f"{algorithm.name}; use sampling=ancestral"
            )
        if self.continuous_time_only and algorithm.num_steps is not None:
            raise ValueError(
                f"{algorithm.name} knows discrete times only and cannot be sampled by "
                f"{self.name}; use sampling=ancestral"
            )
        self.guidance.check(algorithm)

    def check_steps(self, algorithm: TokenAlgorithm, steps: int | None) -> None:
        """Raise ``ValueError`` for a number of ``steps`` that it cannot make of this algorithm."""
        if steps is not None and steps < 1:
            raise ValueError(f"steps={steps}: expected at least 1")

    @torch.no_grad()
    def sample(
        self,
        algorithm: TokenAlgorithm,
        real: Tensor,
        *,
        generator: torch.Generator,
        steps: int | None = None,
        clamp: Tensor | None = None,
        support: Tensor | None = None,
        conditions: Mapping[str, Any] | None = None,
        keep_trajectory: bool = False,
    ) -> SampleOutput:
        """Draw one sample per row of ``real``: Bool[B, L], the positions to fill.

        ``steps``: number of time steps, or of network calls for samplers that have none (those that
        choose their own calls refuse it).
        ``clamp``: Int[B, L], ids to hold fixed, -1 where free. Visible from the first network call
        on and never re-noised: the exact conditional for absorbing processes, an approximation for
        others, whose network takes a clamped token for a noisy one. An algorithm with ``blocks``
        sees a clamped token once its block has its turn: exact for clamps that no earlier block
        with free positions precedes (a prefix, if it is autoregressive). At the layout's
        ``num_given`` first positions, which are not real, it is what samples are drawn from: exact
        for every process.
        ``support``: Bool[B, L, V], a narrowing of the legal ids, which is always satisfied. The
        ``log_weights`` of the result, the log of the mass kept at every draw, undo its tilt where
        tokens are drawn one by one in an order that does not read them (``first-hitting``,
        ``autoregressive``, ``margin``, ``entropy``, ``entropy-bounded`` at budget 0), and as steps
        grow of ``ancestral``, and of ``predictor-corrector`` where noise is not absorbing; of other
        samplers they do not.
        ``conditions``: tensors, batch axis first, by name; those that the backbone does not take
        are not read. What it makes of them alone is computed once (``Algorithm.encoded``).
        ``keep_trajectory``: return the states on the way, too.

        The algorithm is put into eval mode while sampling. Raises ``ValueError`` for an algorithm
        that does not fit (``check``), for guidance or a network that is told a condition without
        one, and naming sample and position for a clamp on an illegal id or a support that leaves
        nothing.
        """
        clamp = torch.full_like(real, -1, dtype=torch.long) if clamp is None else clamp
        self.check(algorithm)
        self.check_steps(algorithm, steps)
        check_request(algorithm.layout, real, clamp, support)
        if algorithm.condition_dropout == 0:  # it has never done without
            check_given(algorithm, conditions or {})
        self.guidance.check_conditions(algorithm, conditions or {})
        was_training = algorithm.training
        algorithm.eval()
        try:
            request = SampleRequest(
                real=real,
                clamp=clamp,
                support=support,
                steps=steps,
                generator=generator,
                conditions=algorithm.encoded(conditions),
                keep_trajectory=keep_trajectory,
            )
            draft = Draft.start(algorithm, request)
            self._run(draft)
            return draft.output()
        finally:
            algorithm.train(was_training)

    @abstractmethod
    def _run(self, draft: Draft) -> None:
        """Finish the draft; the request is checked and the algorithm is in eval mode."""

    def _reveal(self, draft: Draft, reveal: Tensor, t: Tensor) -> None:
        """Draw the MASKs ``reveal`` Bool[B, L] from D at times t Float64[B].

        The network is asked about the samples with any, once, and nothing is done without.
        """
        rows = reveal.any(dim=1).nonzero().squeeze(1)
        if rows.numel() == 0:
            return
        here = reveal[rows]
        log_d0, log_kept = self._shaped(*self._ask(draft, rows, here, t[rows]))
        tokens = draw(log_d0, draft.request.generator)
        draft.write(reveal, tokens, log_kept)
        draft.probs[reveal] = log_d0.gather(-1, tokens.unsqueeze(-1)).squeeze(-1).double().exp()

    def _log_d0(self, draft: Draft, rows: Tensor, t: Tensor) -> Tensor:
        """log D Float[R, L, V], guided, of the samples ``rows`` Int[R] at times t Float64[R]."""
        request, algorithm = draft.request, draft.algorithm
        draft.nfe[rows] += self.guidance.calls
        x, real = draft.x[rows], request.real[rows]
        sides = self.guidance.sides(request.conditions_of(rows), x)
        found = [algorithm.denoise(x, t, real, side) for side in sides]
        return self.guidance.mix_log_probs(found, algorithm.layout.support)

    def _ask(
        self, draft: Draft, rows: Tensor, here: Tensor, t: Tensor
    ) -> tuple[Tensor, Tensor | None]:
        """log D Float[N, V] of the samples ``rows`` Int[R] at their N positions ``here`` Bool[R, L]
        and times t Float64[R], and the narrowed support there, Bool[N, V]. One network call, but
        for guidance."""
        log_d0 = self._log_d0(draft, rows, t)  # (R, L, V)
        support = draft.request.support_of(rows)
        if support is not None:
            support = (support & draft.algorithm.layout.support)[here]
        return log_d0[here], support

    def _shaped(self, log_d0: Tensor, support: Tensor | None) -> tuple[Tensor, Tensor]:
        """log D Float[..., V] tempered, then narrowed, then cut to its nucleus, as in
        ``TokenAlgorithm.predict``; and the log of the mass that narrowing kept, Float[...]."""
        log_d0 = temper(log_d0, self.temperature)
        log_kept = torch.zeros_like(log_d0[..., 0])
        if support is not None:
            log_kept = torch.logsumexp(mask_logits(log_d0, support), dim=-1)
            log_d0 = log_softmax_on(log_d0, support)
        return nucleus(log_d0, self.top_p), log_kept
