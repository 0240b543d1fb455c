"""``TokenSampler``: what samplers of tokens share."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from discrete_diffusion.algorithms import TokenAlgorithm
from discrete_diffusion.algorithms.base import eval_mode
from discrete_diffusion.categorical import draw, log_softmax_on, mask_logits, nucleus, temper
from discrete_diffusion.layout import TokenLayout
from discrete_diffusion.sampling.base import Sampler
from discrete_diffusion.sampling.draft import Draft
from discrete_diffusion.sampling.guidance import Guidance, check_given
from discrete_diffusion.types import Conditions, SampleOutput


@dataclass(kw_only=True)
class TokenSampler(Sampler[TokenAlgorithm]):
    """Draws x0 from an algorithm's reverse process.

    Where the algorithm has ``blocks``, positions are filled block after block in ascending order.

    ``temperature``: D^(1/T) before every draw. ``top_p``: nucleus mass kept of D at every draw.
    ``guidance``: of D by the condition, before both, see ``Guidance``. All are 1 for samples of the
    model itself.

    Raises ``ValueError`` for a temperature that is not positive, a top_p outside (0, 1] or a
    negative guidance.
    """

    state = "tokens"
    absorbing_only: ClassVar[bool] = False
    """True if it reveals MASKs, and so needs the absorbing process."""
    continuous_time_only: ClassVar[bool] = False
    """True if it asks the network at any time, which a model of discrete steps does not know."""

    temperature: float = 1.0
    top_p: float = 1.0
    guidance: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.temperature < float("inf"):
            raise ValueError(f"sampling.temperature={self.temperature}: expected a positive number")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"sampling.top_p={self.top_p}: expected a number in (0, 1]")
        self._guidance = Guidance(self.guidance)

    def check(self, algorithm: TokenAlgorithm, steps: int | None = None) -> None:
        super().check(algorithm, steps)
        if self.absorbing_only and not algorithm.process.absorbing:
            raise ValueError(
                f"{algorithm.name} with {algorithm.process.name} noise cannot be sampled by "
                f"{self.name}, which needs absorbing noise; use sampling=ancestral"
            )
        if self.continuous_time_only and algorithm.num_steps is not None:
            raise ValueError(
                f"{algorithm.name} knows discrete times only and cannot be sampled by "
                f"{self.name}; use sampling=ancestral"
            )
        self._guidance.check(algorithm)

    def sample(
        self,
        algorithm: TokenAlgorithm,
        real: Tensor,
        *,
        generator: torch.Generator,
        steps: int | None = None,
        clamp: Tensor | None = None,
        conditions: Conditions | None = None,
        support: Tensor | None = None,
        keep_trajectory: bool = False,
    ) -> SampleOutput:
        """Draw one sample per row of ``real``: Bool[B, L], the positions to fill; see ``Sampler``.

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
        ``conditions``: what the network makes of them alone is computed once
        (``Algorithm.encoded``).
        ``keep_trajectory``: return the states on the way, too.

        Raises ``ValueError`` also for a missing condition, and, naming sample and position, for a
        clamp on an illegal id or a support that leaves nothing.
        """
        clamp = torch.full_like(real, -1, dtype=torch.long) if clamp is None else clamp
        self.check(algorithm, steps)
        _check_request(algorithm.layout, real, clamp, support)
        if algorithm.condition_dropout == 0:  # it has never done without
            check_given(algorithm, conditions)
        self._guidance.check_conditions(algorithm, conditions)
        with eval_mode(algorithm):
            draft = Draft.start(algorithm, real, clamp, generator)
            draft.steps, draft.support = steps, support
            draft.conditions = algorithm.encoded(conditions)
            draft.frames = [draft.x.clone()] if keep_trajectory else None
            self._run(draft)
        return draft.output()

    @abstractmethod
    def _run(self, draft: Draft) -> None:
        """Finish the draft; the request is checked and the algorithm is in eval mode."""

    def _reveal(self, draft: Draft, reveal: Tensor, t: Tensor) -> None:
        """Draw the MASKs ``reveal`` Bool[B, L] from D at times t Float64[B].

        One network call for the samples that have any; none if no sample has.
        """
        rows = reveal.any(dim=1).nonzero().squeeze(1)
        if rows.numel() == 0:
            return
        here = reveal[rows]
        log_d0 = self._log_d0(draft, rows, t[rows])[here]
        log_d0, log_kept = self._shaped(log_d0, draft.support_at(rows, here))
        tokens = draw(log_d0, draft.generator)
        draft.write(reveal, tokens, log_kept)
        draft.probs[reveal] = log_d0.gather(-1, tokens.unsqueeze(-1)).squeeze(-1).double().exp()

    def _log_d0(self, draft: Draft, rows: Tensor, t: Tensor) -> Tensor:
        """log D Float[R, L, V], guided, of the samples ``rows`` Int[R] at times t Float64[R]: one
        network call, two with guidance."""
        algorithm = draft.algorithm
        draft.nfe[rows] += self._guidance.calls
        x, real = draft.x[rows], draft.real[rows]
        inputs = self._guidance.inputs(draft.conditions_of(rows), x)
        found = [algorithm.denoise(x, t, real, conditions) for conditions in inputs]
        return self._guidance.mix_log_probs(found, algorithm.layout.support)

    def _shaped(self, log_d0: Tensor, support: Tensor | None) -> tuple[Tensor, Tensor]:
        """log D Float[..., V] tempered, then narrowed, then cut to its nucleus, as in
        ``TokenAlgorithm.predict``; and the log of the mass that narrowing kept, Float[...]."""
        log_d0 = temper(log_d0, self.temperature)
        log_kept = torch.zeros_like(log_d0[..., 0])
        if support is not None:
            log_kept = torch.logsumexp(mask_logits(log_d0, support), dim=-1)
            log_d0 = log_softmax_on(log_d0, support)
        return nucleus(log_d0, self.top_p), log_kept


def _check_request(
    layout: TokenLayout, real: Tensor, clamp: Tensor, support: Tensor | None
) -> None:
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
