"""``TokenSampler``: what samplers of tokens share."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from discrete_diffusion.algorithms.base import eval_mode
from discrete_diffusion.algorithms.token_algorithm import TokenAlgorithm
from discrete_diffusion.categorical import (
    log_prob_at,
    log_softmax_on,
    mask_logits,
    neg_inf,
    nucleus,
    pick,
    temper,
    uniform_draws,
)
from discrete_diffusion.config.values import NotNegative, Positive, Share
from discrete_diffusion.contracts import Conditions, SampleOutput
from discrete_diffusion.runtime import progress
from discrete_diffusion.sampling.base import Sampler
from discrete_diffusion.sampling.draft import Draft, check_request, keeps_shapes
from discrete_diffusion.sampling.guidance import Guidance, check_given
from discrete_diffusion.sampling.narrowing import Narrowing
from discrete_diffusion.sampling.token_draws import FixedDraw, NarrowedDraw


@dataclass(kw_only=True)
class TokenSampler(Sampler[TokenAlgorithm]):
    """Samples x0 from an algorithm's reverse process.

    A sampler of one's own defines ``run``, which finishes a ``Draft``. It samples ``free``
    positions with ``reveal`` or ``sample_at``, which heed the rest of the request. Where the
    algorithm has ``blocks``, positions are filled block after block in ascending order
    (``Draft.blocks``). All arguments are 1 for samples of the model itself.

    Args:
        temperature: D^(1/T) before every token is sampled.
        top_p: nucleus mass kept of D for every token.
        guidance: guidance of D by the condition, before both, see ``Guidance``.

    Raises:
        ValueError: the temperature is not positive, ``top_p`` lies outside (0, 1], or the guidance
            is negative.
    """

    state = "tokens"
    absorbing_only: ClassVar[bool] = False
    """True if it reveals MASKs, and so needs the absorbing process."""
    continuous_time_only: ClassVar[bool] = False
    """True if it calls the network at any time, which a model of discrete steps does not know."""

    temperature: Positive = 1.0
    top_p: Share = 1.0
    guidance: NotNegative = 1.0

    def __post_init__(self) -> None:
        self._guidance = Guidance(self.guidance)

    def check(self, algorithm: TokenAlgorithm, steps: int | None = None) -> None:
        """Check that this sampler samples the model that an algorithm trains.

        Args:
            algorithm: the algorithm.
            steps: the requested number of steps; None for the default.

        Raises:
            ValueError: as for ``Sampler``, and for noise or times that do not fit, or a guidance
                that the algorithm was not trained for.
        """
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
        narrowing: Narrowing | None = None,
        keep_trajectory: bool = False,
    ) -> SampleOutput:
        """Sample once per row of ``real``; see ``Sampler``.

        Args:
            algorithm: the trained algorithm.
            real: Bool[B, L], the positions to fill.
            generator: source of randomness.
            steps: number of time steps, or of network calls for samplers that have none; None: the
                sampler's default.
            clamp: Int[B, L], ids to hold fixed, -1 where free. Visible from the first network call
                on and never re-noised: the exact conditional for absorbing processes, an
                approximation for others, whose network takes a clamped token for a noisy one. An
                algorithm with ``blocks`` sees a clamped token once its block has its turn: exact
                for clamps that no earlier block with free positions precedes (a prefix, if it is
                autoregressive). At the layout's ``num_given`` first positions, which are not real,
                it is the condition of the samples: exact for every process.
            conditions: by name; what the network makes of them alone is computed once
                (``Algorithm.encoded``).
            support: Bool[B, L, V], a narrowing of the legal ids, which is always satisfied. The
                ``log_weights`` of the result, the log of the mass kept at every token, undo its
                tilt where tokens are sampled one by one in an order that does not read them
                (``first-hitting``, ``speculative``, ``autoregressive``, ``margin``, ``entropy``,
                ``entropy-bounded`` at budget 0), and as steps grow of ``ancestral``, and of
                ``predictor-corrector`` where noise is not absorbing; of other samplers they do not.
            narrowing: a narrowing that reads the tokens sampled so far. It is always satisfied, but
                for samples of weight 0: the tokens of one call are sampled one after the other from
                their D, so that they heed each other. The weights undo its tilt as they do that of
                ``support``. It is refused with noise that leaves no MASK, orders that read the
                tokens sampled, and ``speculative``.
            keep_trajectory: return the states on the way, too.

        Returns:
            The samples, their network calls and weights, and the trajectory if it was requested.

        Raises:
            ValueError: as for ``Sampler``, and, naming sample and position, for a clamp on an
                illegal id or a support that leaves nothing.
        """
        clamp = torch.full_like(real, -1, dtype=torch.long) if clamp is None else clamp
        self.check(algorithm, steps)
        if narrowing is not None:
            self._check_narrowing(algorithm)
        check_request(algorithm.layout, real, clamp, support)
        if algorithm.condition_dropout == 0:  # it has never done without
            check_given(algorithm, conditions)
        self._guidance.check_conditions(algorithm, conditions)
        with eval_mode(algorithm), progress.calls(each=self._guidance.calls) as calls:
            draft = Draft.start(algorithm, real, clamp, generator)
            draft.calls = calls
            draft.steps, draft.support, draft.narrowing = steps, support, narrowing
            if narrowing is not None:
                narrowing.start(draft.x)
            draft.conditions = algorithm.encoded(conditions)
            draft.frames = [draft.x.clone()] if keep_trajectory else None
            self.run(draft)
        return draft.output()

    def _check_narrowing(self, algorithm: TokenAlgorithm) -> None:
        """Raise ``ValueError`` if a narrowing cannot read which tokens are sampled."""
        if not algorithm.process.absorbing:
            raise ValueError(
                f"{algorithm.name} with {algorithm.process.name} noise: a narrowing by the tokens "
                "sampled so far needs absorbing noise, which shows them; train with algo=mdlm"
            )

    @abstractmethod
    def run(self, draft: Draft) -> None:
        """Finish the draft: sample clean tokens at all positions ``draft.free``.

        Afterwards ``draft.x`` Int[B, L] holds them. The request is checked; the algorithm is in
        eval mode, without gradients.

        Args:
            draft: the samples so far, and the request.
        """

    def reveal(self, draft: Draft, where: Tensor, t: Tensor, counts: Tensor | None = None) -> None:
        """Sample MASKs from D, independently of each other.

        One network call for the samples that have any; none if no sample has. Of a draft that is
        ``fixed`` a call for all samples.

        Args:
            draft: the samples so far.
            where: Bool[B, L], positions to sample, all MASK.
            t: Float64[B], times.
            counts: Int[B] on the host, how many of each sample's they are, where that is known.
        """
        if draft.fixed:
            log_d0 = self.log_d0_of_all(draft, where.any(dim=1), t)
            FixedDraw(draft, self.shaped, self.uniform).at(where, log_d0, counts)
            return
        rows = where.any(dim=1).nonzero().squeeze(1)
        if rows.numel() == 0:
            return
        here = where[rows]
        self.sample_at(draft, where, self.log_d0(draft, rows, t[rows])[here])

    def sample_at(self, draft: Draft, where: Tensor, log_d0: Tensor) -> None:
        """Sample the tokens at N positions from their D, which is tempered, narrowed and cut here.

        The draft gets them with their weights and probabilities; of tokens that are known
        (``Draft.known``) the log of their probabilities.

        Args:
            draft: the samples so far.
            where: Bool[B, L], the N positions.
            log_d0: Float[N, V], the network's log D there, row by row.
        """
        if draft.known is not None:
            known = draft.known[where]
            draft.write(where, known, log_prob_at(known, self.shaped(log_d0, None)[0]))
            return
        u = self.uniform(draft, where)
        if draft.narrowing is not None:
            NarrowedDraw(draft, draft.narrowing, self.shaped).at(where, log_d0, u)
            return
        support = None if draft.support is None else draft.legal_at(*where.nonzero(as_tuple=True))
        log_d0, log_kept = self.shaped(log_d0, support)
        tokens = pick(log_d0, u)
        draft.write(where, tokens, log_kept)
        draft.probs[where] = log_prob_at(tokens, log_d0).exp()

    def uniform(self, draft: Draft, where: Tensor) -> Tensor:
        """Uniform random numbers for N positions, of the draft's generator.

        Args:
            draft: the samples so far.
            where: Bool[B, L], the N positions, or as many True in each row; on any device.

        Returns:
            Float64[N] in [0, 1), row by row, on the device of the draft.
        """
        return uniform_draws((int(where.sum()),), draft.generator, draft.x.device)

    def log_d0(self, draft: Draft, rows: Tensor, t: Tensor, x: Tensor | None = None) -> Tensor:
        """log D, guided: one network call, two with guidance.

        Args:
            draft: the samples so far.
            rows: Int[R], indices of samples.
            t: Float64[R], times.
            x: Int[R, L], tokens to show the network instead of the samples', in which case a sample
                may have several rows.

        Returns:
            Float[R, L, V].
        """
        draft.begin_call()
        draft.nfe.index_add_(0, rows, torch.full_like(rows, self._guidance.calls))
        x, real = draft.x[rows] if x is None else x, draft.real[rows]
        return self._guided(draft.algorithm, x, t, real, draft.conditions_of(rows))

    def log_d0_of_all(self, draft: Draft, counted: Tensor, t: Tensor) -> Tensor:
        """``log_d0`` of all samples, in shapes that are the same in every call.

        Args:
            draft: the samples so far, ``fixed``.
            counted: Bool[B], those that need the call, in whose ``nfe`` it counts.
            t: Float64[B], times.

        Returns:
            Float[B, L, V].
        """
        draft.begin_call()
        draft.nfe += counted * self._guidance.calls
        given = draft.conditions
        if draft.on_host is not None and draft.on_host.packing is not None:
            given = {**given, "packing": draft.on_host.packing}
        return self._guided(draft.algorithm, draft.x, t, draft.real, given)

    def _guided(
        self, algorithm: TokenAlgorithm, x: Tensor, t: Tensor, real: Tensor, conditions: Conditions
    ) -> Tensor:
        inputs = self._guidance.inputs(conditions, x)
        found = [self.denoised(algorithm, x, t, real, given) for given in inputs]
        return self._guidance.mix_log_probs(found, algorithm.layout.support)

    def denoised(
        self,
        algorithm: TokenAlgorithm,
        x: Tensor,
        t: Tensor,
        real: Tensor,
        conditions: dict[str, Any],
    ) -> Tensor:
        """``algorithm.denoise``, computed once where all samples are alike.

        They are before the first token of a size is sampled.

        Args:
            algorithm: the trained algorithm.
            x: Int[R, L], noisy ids.
            t: Float64[R], times.
            real: Bool[R, L], positions that carry data.
            conditions: conditions by name.

        Returns:
            Float[R, L, V].
        """
        if conditions or not are_alike(x, t, real):
            return algorithm.denoise(x, t, real, conditions)
        return algorithm.denoise(x[:1], t[:1], real[:1]).expand(len(x), -1, -1)

    def shaped(self, log_d0: Tensor, support: Tensor | None) -> tuple[Tensor, Tensor]:
        """log D tempered, then narrowed, then cut to its nucleus, as in ``TokenAlgorithm.predict``.

        Args:
            log_d0: Float[..., V].
            support: Bool[..., V], or None.

        Returns:
            log D, Float[..., V], and the log of the mass that narrowing kept, Float[...].
        """
        log_d0 = temper(log_d0, self.temperature)
        log_kept = torch.zeros_like(log_d0[..., 0])
        if support is not None:
            # what keeps all mass changes no bit
            cuts = (~support & (log_d0 > neg_inf(log_d0.dtype) / 2)).any(dim=-1)
            kept = torch.logsumexp(mask_logits(log_d0, support), dim=-1)
            log_kept = torch.where(cuts, kept, log_kept)
            log_d0 = torch.where(cuts.unsqueeze(-1), log_softmax_on(log_d0, support), log_d0)
        return nucleus(log_d0, self.top_p), log_kept


def are_alike(*tensors: Tensor) -> bool:
    """True if all rows of each tensor are equal and it is cheap to know, as on the CPU.

    Args:
        *tensors: tensors with a batch axis.

    Returns:
        True if they are.
    """
    if any(keeps_shapes(tensor.device) for tensor in tensors):
        return False
    return all(bool((tensor == tensor[:1]).all()) for tensor in tensors)
