"""Ancestral sampling, the reverse process on a grid of times, and other samplers on that grid."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import torch
from torch import Tensor

from discrete_diffusion.algorithms.token_algorithm import SamplingOptions, TokenAlgorithm
from discrete_diffusion.categorical import pick, sample_categorical, uniform_draws
from discrete_diffusion.config.values import Count, CountOrZero, Share
from discrete_diffusion.sampling.base import Exactness
from discrete_diffusion.sampling.partial_samples import Block, PartialSamples
from discrete_diffusion.sampling.tokens import TokenSampler


@dataclass(kw_only=True)
class GridSampler(TokenSampler):
    """Sampler for every noise process, on a grid of T = ``steps`` times from 1 to 0.

    ``grid``: ``uniform``, t = i / T; ``quadratic``, t = (i / T)^2, finer near t = 0; ``auto`` takes
    ``uniform`` for absorbing processes and ``quadratic`` for other processes, whose tokens are
    decided mostly near t = 0. A model of discrete steps is called only at its times i /
    ``num_steps``: at those nearest to the grid, or at all of them if ``steps`` is ``num_steps`` or
    more.

    Which MASKs a step of an absorbing process reveals does not depend on the network. The positions
    are sampled first, and a step that reveals none costs no call. With ``blocks`` the whole grid is
    run through for every block.
    """

    steps: Count = 100
    grid: Literal["auto", "uniform", "quadratic"] = "auto"

    @property
    def calls_per_step(self) -> int:
        """Largest number of network calls of a step."""
        return 1

    def times(self, algorithm: TokenAlgorithm, steps: int) -> Tensor:
        """Grid from 1 down to 0, Float64[T + 1]; T is at most ``algorithm.num_steps``."""
        num_steps = algorithm.num_steps
        steps = steps if num_steps is None else min(steps, num_steps)
        t = torch.linspace(0, 1, steps + 1, dtype=torch.float64)
        # finer near t = 0 where noise is not absorbing
        if self.grid == "quadratic" or (self.grid == "auto" and not algorithm.process.absorbing):
            t = t.square()
        if num_steps is not None:  # the nearest of its own times, each once
            index = torch.arange(steps + 1)
            own = ((t * num_steps).round().long() - index).cummax(dim=0).values + index
            t = own.double() / num_steps
        return t.flip(0)

    def work(self, num: int, algorithm: TokenAlgorithm | None = None) -> int:
        blocks = None if algorithm is None else algorithm.blocks
        times = 1 if blocks is None else len(blocks.unique())
        return num * self.steps * self.calls_per_step * times

    def run(self, samples: PartialSamples) -> None:
        steps = self.steps if samples.steps is None else samples.steps
        times = self.times(samples.algorithm, steps).tolist()
        # every block has the whole grid to itself
        blocks = samples.blocks
        done, num_steps = 0, len(blocks) * (len(times) - 1)
        for block in blocks:
            for t, s in pairwise(times):
                samples.calls.come(done / num_steps, (num_steps - done) * self.calls_per_step)
                done += 1
                self.step(samples, block, t, s)
                samples.record()

    @abstractmethod
    def step(self, samples: PartialSamples, block: Block, t: float, s: float) -> None:
        """Take the positions ``block.free`` from time t to time s <= t."""

    @staticmethod
    def bernoulli(samples: PartialSamples, share: Tensor) -> Tensor:
        """Sample Bool[B, L], True with probability ``share``, Float[B, 1] or Float[B, L]."""
        u = uniform_draws(tuple(samples.x.shape), samples.generator, samples.x.device)
        return u < share

    def resample(self, samples: PartialSamples, block: Block, t: float, s: float) -> None:
        """Sample x_s at ``block.free`` from the posterior: one network call, two with guidance."""
        if not block.num.any():
            return
        # the samples that have free positions, or all of them in fixed shapes
        fixed, some = samples.has_fixed_shapes, block.free.any(dim=1)
        rows: Any = slice(None) if fixed else some.nonzero().squeeze(1)
        at_t, at_s = samples.times(t)[rows], samples.times(s)[rows]
        log_d0 = (
            self._log_d0_of_all(samples, some, at_t) if fixed else self.log_d0(samples, rows, at_t)
        )
        # p(x_s | x_t) of these samples
        support = None if samples.support is None else samples.support[rows]
        prediction = samples.algorithm.step(
            log_d0,
            *(samples.x[rows], at_t, at_s, samples.real[rows]),
            SamplingOptions(support, self.temperature, self.top_p),
        )
        # a token for each of these positions, by the same random numbers either way
        log_probs, log_weights = prediction.log_probs, prediction.log_weights
        if fixed:
            tokens = pick(log_probs, self._uniform_grid(samples, block.free, block.num))
        else:
            here = block.free[rows]
            tokens = sample_categorical(log_probs[here], samples.generator)
            log_weights = None if log_weights is None else log_weights[here]
        if log_weights is not None:
            log_weights = log_weights.gather(-1, tokens.unsqueeze(-1)).squeeze(-1)
        write = samples.write_grid if fixed else samples.write
        write(block.free, tokens, log_weights)


class Ancestral(GridSampler):
    """Ancestral sampling: the reverse process on a grid of times.

    x_s ~ p(x_s | x_t) from each time t of the grid to the next, s (D3PM, arXiv 2107.03006). All
    positions of a step are sampled independently, so the samples approach the model's distribution
    like 1 / T as T grows.
    """

    name = "ancestral"
    exactness = Exactness.GRID

    def work(self, num: int, algorithm: TokenAlgorithm | None = None) -> int:
        most = super().work(num, algorithm)
        once = self.calls_per_step == 1 and algorithm is not None and algorithm.process.absorbing
        return min(most, num * num) if once else most  # a step that reveals nothing makes no call

    def step(self, samples: PartialSamples, block: Block, t: float, s: float) -> None:
        process = samples.algorithm.process
        if not process.absorbing:
            self.resample(samples, block, t, s)
            return
        at_t, at_s = samples.times(t), samples.times(s)
        stays = process.one_minus_alpha(at_s) / process.one_minus_alpha(at_t)
        masked = block.free & samples.masked
        self.reveal(samples, masked & ~self.bernoulli(samples, stays), at_t)


@dataclass(kw_only=True)
class PredictorCorrector(Ancestral):
    """Predictor-corrector sampling: after every step, add noise back and repeat the step.

    After the ancestral step from t to s follow ``corrector_steps`` corrections: sample x_t ~ q(x_t
    | x_s), then take the ancestral step from t to s again (the forward-backward corrector of
    Campbell et al., arXiv 2205.14987, in steps of finite size).

    q(x_t | x_s) turns the data's marginal at s into that at t, and the exact reverse step turns it
    back, so a correction moves samples towards these marginals. The samples approach the model's
    distribution as T grows, as those of ``Ancestral`` do. The first step has no correction, since
    q(x_1 | x_s) forgets x_s, nor has the last, which reaches clean data: T steps cost at most T +
    (T - 2) ``corrector_steps`` calls.
    """

    name = "predictor-corrector"
    exactness = Exactness.APPROXIMATE

    corrector_steps: CountOrZero = 1
    steps: Count = 50

    @property
    def calls_per_step(self) -> int:
        return 1 + self.corrector_steps

    def step(self, samples: PartialSamples, block: Block, t: float, s: float) -> None:
        super().step(samples, block, t, s)
        process = samples.algorithm.process
        for _ in range(self.corrector_steps if s > 0 and t < 1 else 0):
            samples.record()
            samples.x = process.corrupt_further(
                samples.x, samples.times(s), samples.times(t), block.free, samples.generator
            )
            super().step(samples, block, t, s)


class Renoise(GridSampler):
    """Re-noising: predict clean data, then corrupt it again with less noise each time.

    x0 ~ P(x0 | x_t), then x_s ~ q_s(x_s | x0), from each time t of the grid to the next, s
    (simple iterative denoising, SID, arXiv 2505.21592; MaskPredict, arXiv 1904.09324).

    Every token can be revised until the end, which ancestral sampling of an absorbing process does
    not allow. The samples stay approximate however fine the grid is, since each step samples all
    tokens at once, independently.

    For an absorbing process the positions that stay visible are sampled first, and a step costs a
    call only if some of these were MASK.
    """

    name = "renoise"
    exactness = Exactness.APPROXIMATE

    def step(self, samples: PartialSamples, block: Block, t: float, s: float) -> None:
        process, at_s = samples.algorithm.process, samples.times(s)
        if not process.absorbing:
            self.resample(samples, block, t, 0.0)
            samples.x = process.corrupt(samples.x, at_s, block.free, samples.generator)
            return
        hide = block.free & self.bernoulli(samples, process.one_minus_alpha(at_s))
        self.reveal(samples, block.free & samples.masked & ~hide, samples.times(t))
        samples.x.masked_fill_(hide, samples.algorithm.layout.mask_id)


@dataclass(kw_only=True)
class ReMDM(GridSampler):
    """ReMDM: masked diffusion that masks tokens again to revise them.

    From t to s a visible token is hidden with probability sigma, and a MASK revealed with

        (alpha_s - (1 - sigma) alpha_t) / (1 - alpha_t),
        sigma <= s_max = min(1, (1 - alpha_s) / alpha_t)

    (Wang et al., arXiv 2503.00307); sigma = 0 is ancestral sampling. The marginals of the absorbing
    process stay as they are. ``strategy``:

        cap         sigma = min(eta, s_max)
        rescale     sigma = eta s_max

    Each of the ``steps`` costs one call, unless it reveals nothing. Clamped tokens stay.

    Raises ``ValueError`` for an unknown strategy, or an ``eta`` outside (0, 1].
    """

    name = "remdm"
    exactness = Exactness.APPROXIMATE
    absorbing_only = True

    strategy: Literal["cap", "rescale"] = "cap"
    eta: Share = 0.1

    def step(self, samples: PartialSamples, block: Block, t: float, s: float) -> None:
        process, at_t = samples.algorithm.process, samples.times(t)
        masked = block.free & samples.masked
        # probability of hiding a token again, at most s_max
        alpha_t, hidden_t = process.alpha(at_t), process.one_minus_alpha(at_t)
        hidden_s = process.one_minus_alpha(samples.times(s))
        most = (hidden_s / alpha_t.clamp(min=1e-12)).clamp(max=1.0)
        sigma = self.eta * most if self.strategy == "rescale" else most.clamp(max=self.eta)
        # positions that change: MASKs are revealed, visible tokens hidden
        stays = torch.where(masked, (hidden_s - sigma * alpha_t) / hidden_t, 1 - sigma)
        changes = block.free & ~self.bernoulli(samples, stays)
        self.reveal(samples, changes & masked, at_t)
        samples.x.masked_fill_(changes & ~masked, samples.algorithm.layout.mask_id)
