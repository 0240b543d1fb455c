"""``TokenSampler``, the base of samplers of tokens: requests, network calls, sampling of tokens."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, ClassVar

import torch
from torch import Tensor

from discrete_diffusion.algorithms.base import eval_mode
from discrete_diffusion.algorithms.block_reader import BlockReader, reason_against_cache
from discrete_diffusion.algorithms.many_ids import LazyLogD
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
from discrete_diffusion.config.values import Count, NotNegative, Positive, Share
from discrete_diffusion.contracts import Conditions, SampleOutput
from discrete_diffusion.runtime import progress
from discrete_diffusion.sampling.base import Guidance, Sampler, check_given
from discrete_diffusion.sampling.partial_samples import (
    Narrowing,
    PartialSamples,
    check_request,
    keeps_shapes,
)

logger = logging.getLogger(__name__)


@dataclass(kw_only=True)
class TokenSampler(Sampler[TokenAlgorithm]):
    """Base class of samplers of tokens: samples x0 from an algorithm's reverse process.

    A subclass defines ``run``, which finishes ``PartialSamples``. It samples ``free`` positions
    with ``reveal`` or ``sample_at``, which apply the settings of the request. If the algorithm has
    ``blocks``, they are filled in ascending order (``PartialSamples.blocks``). Samples follow the
    model itself if all arguments are 1. D is the network's distribution of clean tokens.

    Args:
        temperature: T > 0; every token is sampled from D^(1/T), normalised.
        top_p: mass of the nucleus of D from which every token is sampled.
        guidance: weight of the guidance of D by the condition, applied first, see ``Guidance``.
        refresh: r > 1: of r network calls one computes all columns, the others few; approximate,
            see ``ColumnReader``.

    Raises:
        ValueError: the temperature is not positive, ``top_p`` lies outside (0, 1], the guidance is
            negative, or ``refresh`` is below 1.
    """

    state = "tokens"
    absorbing_only: ClassVar[bool] = False
    """True if the sampler reveals MASKs, and so needs the absorbing process."""
    continuous_time_only: ClassVar[bool] = False
    """True if the sampler calls the network at times that a model of discrete steps lacks."""
    takes_no_steps: ClassVar[str] = ""
    """Refusal of ``steps``, by a sampler that chooses its own number of calls."""

    temperature: Positive = 1.0
    top_p: Share = 1.0
    guidance: NotNegative = 1.0
    refresh: Count = 1

    def __post_init__(self) -> None:
        self._guidance = Guidance(self.guidance)

    def check(self, algorithm: TokenAlgorithm, steps: int | None = None) -> None:
        # steps, noise and times must fit, and guidance needs a model trained for it
        if steps is not None and self.takes_no_steps:
            raise ValueError(self.takes_no_steps.format(steps=steps))
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
        if self.refresh > 1:
            from discrete_diffusion.algorithms.column_reader import check_refresh

            check_refresh(algorithm, self.refresh)

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
            steps: number of time steps, or of network calls for samplers without steps; None: the
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
                (``first-hitting``, ``autoregressive``, ``margin``, ``entropy``,
                ``entropy-bounded`` at budget 0), and as steps grow of ``ancestral``, and of
                ``predictor-corrector`` where noise is not absorbing; of other samplers they do not.
            narrowing: a narrowing that reads the tokens sampled so far. It is always satisfied, but
                for samples of weight 0: the tokens of one call are sampled one after the other from
                their D, so that they heed each other. The weights undo its tilt as they do that of
                ``support``. It is refused with noise that leaves no MASK, and orders that read the
                tokens sampled.
            keep_trajectory: return the states on the way, too.

        Returns:
            The samples, their network calls and weights, and the trajectory if it was requested.

        Raises:
            ValueError: as for ``Sampler``, and, naming sample and position, for a clamp on an
                illegal id or a support that leaves nothing.
        """
        # check the request
        clamp = torch.full_like(real, -1, dtype=torch.long) if clamp is None else clamp
        self.check(algorithm, steps)
        if narrowing is not None:
            self._check_narrowing(algorithm)
        check_request(algorithm.layout, real, clamp, support)
        if algorithm.condition_dropout == 0:  # trained with a condition always
            check_given(algorithm, conditions)
        self._guidance.check_conditions(algorithm, conditions)
        # start from the prior, and run
        with eval_mode(algorithm), progress.calls(each=self._guidance.calls) as calls:
            samples = PartialSamples.start(algorithm, real, clamp, generator)
            samples.calls = calls
            samples.steps, samples.support, samples.narrowing = steps, support, narrowing
            samples.refresh = self.refresh
            if narrowing is not None:
                narrowing.start(samples.x)
            samples.conditions = algorithm.encoded(conditions)
            samples.frames = [samples.x.clone()] if keep_trajectory else None
            if algorithm.blocks is not None:
                _log_computed(reason_against_cache(algorithm, samples.conditions))
            self.run(samples)
        return samples.output()

    def _check_narrowing(self, algorithm: TokenAlgorithm) -> None:
        """Raise ``ValueError`` unless noise is absorbing: MASK marks what is not sampled yet."""
        if not algorithm.process.absorbing:
            raise ValueError(
                f"{algorithm.name} with {algorithm.process.name} noise: a narrowing by the tokens "
                "sampled so far needs absorbing noise, which shows them; train with algo=mdlm"
            )

    @abstractmethod
    def run(self, samples: PartialSamples) -> None:
        """Sample clean tokens at all positions ``samples.free``.

        Afterwards ``samples.x`` Int[B, L] holds them. The request is checked; the algorithm is in
        eval mode, without gradients.

        Args:
            samples: the samples so far, and the request.
        """

    def reveal(
        self, samples: PartialSamples, where: Tensor, t: Tensor, counts: Tensor | None = None
    ) -> None:
        """Sample MASKs from D, independently of each other.

        Takes one network call for the samples that have positions ``where``, and none if no sample
        has any. With ``has_fixed_shapes`` the call is for all samples.

        Args:
            samples: the samples so far.
            where: Bool[B, L], positions to sample, all MASK.
            t: Float64[B], times.
            counts: Int[B] on the host, number of positions ``where`` of each sample; None: unknown.
        """
        if samples.has_fixed_shapes:
            log_d0 = self._log_d0_of_all(samples, where.any(dim=1), t)
            self._sample_grid(samples, where, log_d0, counts)
            return
        rows = where.any(dim=1).nonzero().squeeze(1)
        if rows.numel() == 0:
            return
        self.sample_at(samples, where, self.log_d0(samples, rows, t[rows], here=where[rows]))

    def sample_at(self, samples: PartialSamples, where: Tensor, log_d0: Tensor) -> None:
        """Sample tokens at N positions from D, modified by temperature, narrowing and ``top_p``.

        Tokens and weights are written into the samples. If the tokens are given
        (``samples.known``), they are scored instead: their log-probabilities are the weights.

        Args:
            samples: the samples so far.
            where: Bool[B, L], the N positions.
            log_d0: Float[N, V], the network's log D there, row by row.
        """
        # known tokens are scored instead
        if samples.known is not None:
            known = samples.known[where]
            samples.write(where, known, log_prob_at(known, self.adjusted(log_d0, None)[0]))
            return
        u = self.uniform(samples, where)
        # with a narrowing one after the other
        if samples.narrowing is not None:
            from discrete_diffusion.sampling.narrowed import NarrowedTokens

            NarrowedTokens(samples, samples.narrowing, self.adjusted).sample(where, log_d0, u)
            return
        support = None
        if samples.support is not None:
            support = samples.legal_at(*where.nonzero(as_tuple=True))
        log_d0, log_kept = self.adjusted(log_d0, support)
        tokens = pick(log_d0, u)
        samples.write(where, tokens, log_kept)
        samples.is_nan[where] = log_prob_at(tokens, log_d0).isnan()

    def _sample_grid(
        self, samples: PartialSamples, where: Tensor, log_d0: Tensor, counts: Tensor | None = None
    ) -> None:
        """Sample as ``sample_at`` does, with masks, so that nothing is read back from the device.

        ``where``: Bool[B, L]; ``log_d0``: Float[B, L, V]. ``counts``: Int[B] on the host, number of
        positions of each row. If it is given, the random numbers are those of rows sampled one by
        one, and only as many columns as the largest count are computed.
        """
        most = where.shape[1] if counts is None else int(counts.max()) if len(counts) else 0
        if most == 0:
            return
        # the first M positions of each row, those to sample first
        position = where.byte().argsort(dim=1, descending=True, stable=True)[:, :most]  # (B, M)
        taken = where.gather(1, position)
        ids = position.unsqueeze(-1).expand(-1, -1, log_d0.shape[-1])
        support = None
        if samples.support is not None:
            support = samples.algorithm.layout.support[position] & samples.support.gather(1, ids)
        # sample them all, and keep those that are taken
        log_d0, log_kept = self.adjusted(log_d0.gather(1, ids), support)
        tokens = pick(log_d0, self._uniform_grid(samples, taken, counts))
        is_nan = log_prob_at(tokens, log_d0).isnan()
        for old, new in ((samples.x, tokens), (samples.is_nan, is_nan)):
            old.scatter_(1, position, torch.where(taken, new, old.gather(1, position)))
        samples.log_weights += log_kept.double().masked_fill(~taken, 0.0).sum(dim=1)

    def _uniform_grid(
        self, samples: PartialSamples, taken: Tensor, counts: Tensor | None
    ) -> Tensor:
        """Random numbers in [0, 1) for the entries ``taken`` Bool[B, M]: Float64[B, M].

        ``counts``: number of entries of each row; if it is given, no number is sampled elsewhere.
        """
        if counts is None:
            every = torch.ones(taken.shape, dtype=torch.bool)
            return self.uniform(samples, every).view(taken.shape)
        turn = torch.arange(taken.shape[1])
        u = self.uniform(samples, turn < counts.unsqueeze(1))  # row by row
        place = (taken.flatten().cumsum(dim=0) - 1).clamp(min=0)
        return u[place].view(taken.shape)

    def uniform(self, samples: PartialSamples, where: Tensor) -> Tensor:
        """Sample uniform random numbers for N positions from the samples' generator.

        Args:
            samples: the samples so far.
            where: Bool[B, L], the N positions, or any mask with as many True in each row; on any
                device.

        Returns:
            Float64[N] in [0, 1), row by row, on the device of the samples.
        """
        return uniform_draws((int(where.sum()),), samples.generator, samples.x.device)

    def log_d0(
        self, samples: PartialSamples, rows: Tensor, t: Tensor, here: Tensor | None = None
    ) -> Tensor:
        """Return log D with guidance; takes one network call, or two with guidance.

        With ``here`` a network that keeps finished blocks computes the block in work alone.

        Args:
            samples: the samples so far.
            rows: Int[R], indices of samples.
            t: Float64[R], times.
            here: Bool[R, L], the N positions to predict; None: all.

        Returns:
            Float[R, L, V], or Float[N, V] at the positions ``here``.

        Raises:
            ValueError: ``refresh`` above 1 without ``here``.
        """
        if here is not None:
            return self._lazy_log_d0(samples, rows, t, here)(slice(None))
        if self.refresh > 1:
            raise ValueError(
                f"sampling.refresh={self.refresh}: {self.name} predicts all positions in every "
                "call; leave it out"
            )
        return self._dense_log_d0(samples, rows, t, 1, samples.conditions_of(rows))

    def _lazy_log_d0(
        self, samples: PartialSamples, rows: Tensor, t: Tensor, here: Tensor
    ) -> Callable[[Any], Tensor]:
        """Call the network as ``log_d0`` does; return log D at the positions ``here``, by rows.

        The result takes an index of n of the N positions and returns Float[n, V].
        """
        samples.begin_call()
        samples.nfe[rows] += self._guidance.calls
        if samples.keeps_blocks or samples.refresh > 1:
            # a reader for each call of the guidance
            if samples.read_under is not samples.conditions:
                samples.columns += sum(reader.num_columns for reader in samples.readers)
                samples.read_under = samples.conditions
                inputs = self._guidance.inputs(samples.conditions, samples.x)
                start = (samples.algorithm, samples.x, samples.real)
                kind: Callable[..., BlockReader] = BlockReader
                if samples.refresh > 1:
                    from discrete_diffusion.algorithms.column_reader import ColumnReader

                    kind = partial(ColumnReader, refresh=samples.refresh)
                samples.readers = [kind(*start, given) for given in inputs]
            parts = [each.lazy_log_d0(rows, samples.x[rows], t, here) for each in samples.readers]
        else:
            samples.columns[rows] += self._guidance.calls * here.shape[1]
            inputs = self._guidance.inputs(samples.conditions_of(rows), here)
            parts = [self._unguided_log_d0(samples, rows, t, here, given) for given in inputs]
        if len(parts) == 1:
            return parts[0].read
        return lambda some: self._guidance.mix_log_probs(
            [part.read(some) for part in parts], parts[0].support[parts[0].position[some]]
        )

    def _log_d0_of_all(self, samples: PartialSamples, counted: Tensor, t: Tensor) -> Tensor:
        """``log_d0`` of all samples, in fixed shapes; ``nfe`` grows by one where ``counted``."""
        given = samples.conditions
        if samples.on_host is not None and samples.on_host.packing is not None:
            given = {**given, "packing": samples.on_host.packing}
        return self._dense_log_d0(samples, slice(None), t, counted, given)

    def _dense_log_d0(
        self, samples: PartialSamples, rows: Any, t: Tensor, counted: Any, conditions: Conditions
    ) -> Tensor:
        samples.begin_call()
        samples.nfe[rows] += counted * self._guidance.calls
        x, algorithm = samples.x[rows], samples.algorithm
        samples.columns[rows] += self._guidance.calls * x.shape[1]
        inputs = self._guidance.inputs(conditions, x)
        predictions = [algorithm.denoise(x, t, samples.real[rows], given) for given in inputs]
        return self._guidance.mix_log_probs(predictions, algorithm.layout.support)

    def _unguided_log_d0(
        self, samples: PartialSamples, rows: Tensor, t: Tensor, here: Tensor, given: dict[str, Any]
    ) -> LazyLogD:
        """``lazy_log_d0`` of the algorithm, for one row if all are equal, as at the first step."""
        x, real = samples.x[rows], samples.real[rows]
        if given or not are_alike(x, t, real):
            return samples.algorithm.lazy_log_d0(x, t, real, here, given)
        # the positions of any row, and the place of each of the N among them
        some = here.any(dim=0)
        place = (some.cumsum(dim=0) - 1)[here.nonzero(as_tuple=True)[1]]
        lazy = samples.algorithm.lazy_log_d0(x[:1], t[:1], real[:1], some.unsqueeze(0))
        return lazy._replace(values=lazy.values[place], position=lazy.position[place])

    def adjusted(self, log_d0: Tensor, support: Tensor | None) -> tuple[Tensor, Tensor]:
        """Apply temperature, narrowing and ``top_p`` to log D, as in ``TokenAlgorithm.predict``.

        Args:
            log_d0: Float[..., V].
            support: Bool[..., V], or None.

        Returns:
            log D, Float[..., V], and the log of the mass that narrowing kept, Float[...].
        """
        log_d0 = temper(log_d0, self.temperature)
        log_kept = torch.zeros_like(log_d0[..., 0])
        if support is not None:
            # a support that keeps all mass changes no bit
            cuts = (~support & (log_d0 > neg_inf(log_d0.dtype) / 2)).any(dim=-1)
            kept = torch.logsumexp(mask_logits(log_d0, support), dim=-1)
            log_kept = torch.where(cuts, kept, log_kept)
            log_d0 = torch.where(cuts.unsqueeze(-1), log_softmax_on(log_d0, support), log_d0)
        return nucleus(log_d0, self.top_p), log_kept


@cache
def _log_computed(reason: str | None) -> None:
    """Log once why every call computes all columns; nothing if it does not."""
    if reason is not None:
        logger.info("no cache of finished blocks, each call computes all columns: %s", reason)


def are_alike(*tensors: Tensor) -> bool:
    """Return True if all rows of each tensor are equal, and comparing is cheap, as on the CPU."""
    if any(keeps_shapes(tensor.device) for tensor in tensors):
        return False
    return all(bool((tensor == tensor[:1]).all()) for tensor in tensors)
