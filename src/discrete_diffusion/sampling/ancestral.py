"""Ancestral sampling: the reverse process on a grid of times; and what else goes down a grid."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import torch
from torch import Tensor

from discrete_diffusion.algorithms.token_algorithm import Shaping, TokenAlgorithm
from discrete_diffusion.categorical import pick, sample_categorical, uniform_draws
from discrete_diffusion.config.values import Count, CountOrZero, Share
from discrete_diffusion.forward_process.interpolating import Absorbing
from discrete_diffusion.sampling.base import Law
from discrete_diffusion.sampling.draft import Block, Draft, time_of_masked_share
from discrete_diffusion.sampling.token_draws import FixedDraw
from discrete_diffusion.sampling.tokens import TokenSampler


@dataclass(kw_only=True)
class GridSampler(TokenSampler):
    """Works for every process, on a grid of T = ``steps`` times from 1 to 0.

    ``grid``: ``uniform``, t = i / T; ``squared``, t = (i / T)^2, finer near t = 0; ``auto`` takes
    the first for absorbing processes and the second for the others, which decide most there. A
    model of discrete steps is called at its own times only, i / ``num_steps``: the nearest ones,
    and all of them if ``steps`` is ``num_steps`` or more.

    Which MASKs a step of an absorbing process reveals does not depend on the network, so that is
    sampled first: a step that would change nothing costs no call. With ``blocks`` every block has
    the whole grid to itself.
    """

    steps: Count = 100
    grid: Literal["auto", "uniform", "squared"] = "auto"

    @property
    def calls_per_step(self) -> int:
        """Network calls of a step, at most."""
        return 1

    def times(self, algorithm: TokenAlgorithm, steps: int) -> Tensor:
        """Float64[T + 1]: the grid, from 1 down to 0; T is at most ``algorithm.num_steps``."""
        num_steps = algorithm.num_steps
        steps = steps if num_steps is None else min(steps, num_steps)
        t = torch.linspace(0, 1, steps + 1, dtype=torch.float64)
        if self.grid == "squared" or (self.grid == "auto" and not algorithm.process.absorbing):
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

    def run(self, draft: Draft) -> None:
        steps = self.steps if draft.steps is None else draft.steps
        times = self.times(draft.algorithm, steps).tolist()
        blocks = draft.blocks
        done, num_steps = 0, len(blocks) * (len(times) - 1)
        for block in blocks:
            for t, s in pairwise(times):
                draft.calls.come(done / num_steps, (num_steps - done) * self.calls_per_step)
                done += 1
                self.step(draft, block, t, s)
                draft.record()

    @abstractmethod
    def step(self, draft: Draft, block: Block, t: float, s: float) -> None:
        """One step of the positions ``block.free`` from t to s <= t."""

    @staticmethod
    def bernoulli(draft: Draft, share: Tensor) -> Tensor:
        """Bool[B, L]: True with probability ``share``, Float[B, 1] or Float[B, L]."""
        return uniform_draws(tuple(draft.x.shape), draft.generator, draft.x.device) < share

    def resample(self, draft: Draft, block: Block, t: float, s: float) -> None:
        """Draw x_s at the positions ``block.free`` from the sampling posterior; one network call,
        but for guidance."""
        if draft.fixed:
            self._resample_all(draft, block, t, s)
            return
        rows = block.free.any(dim=1).nonzero().squeeze(1)
        if rows.numel() == 0:
            return
        support = None if draft.support is None else draft.support[rows]
        prediction = draft.algorithm.step(
            self.log_d0(draft, rows, draft.at(t)[rows]),
            draft.x[rows],
            draft.at(t)[rows],
            draft.at(s)[rows],
            draft.real[rows],
            Shaping(support, self.temperature, self.top_p),
        )
        here = block.free[rows]
        tokens = sample_categorical(prediction.log_probs[here], draft.generator)
        by_outcome = prediction.log_weights
        if by_outcome is not None:
            by_outcome = by_outcome[here].gather(-1, tokens.unsqueeze(-1)).squeeze(-1)
        draft.write(block.free, tokens, by_outcome)

    def _resample_all(self, draft: Draft, block: Block, t: float, s: float) -> None:
        """``resample`` of all samples, with the same random numbers."""
        if block.num is None or not block.num.any():
            return
        at_t, shaping = draft.at(t), Shaping(draft.support, self.temperature, self.top_p)
        prediction = draft.algorithm.step(
            self.log_d0_of_all(draft, block.free.any(dim=1), at_t),
            *(draft.x, at_t, draft.at(s), draft.real, shaping),
        )
        draw = FixedDraw(draft, self.shaped, self.uniform)
        tokens = pick(prediction.log_probs, draw.numbers(block.free, block.num))
        by_outcome = prediction.log_weights
        if by_outcome is not None:
            by_outcome = by_outcome.gather(-1, tokens.unsqueeze(-1)).squeeze(-1)
        draft.write_grid(block.free, tokens, by_outcome)


class Ancestral(GridSampler):
    """Ancestral sampling: the reverse process on a grid of times.

    x_s ~ p(x_s | x_t) from each time t of the grid to the next, s (D3PM, arXiv 2107.03006). All
    positions of a step are sampled independently, so the samples approach the model's distribution
    like 1 / T as T grows.
    """

    name = "ancestral"
    law = Law.GRID

    def work(self, num: int, algorithm: TokenAlgorithm | None = None) -> int:
        most = super().work(num, algorithm)
        once = self.calls_per_step == 1 and algorithm is not None and algorithm.process.absorbing
        return min(most, num * num) if once else most  # a step that reveals nothing makes no call

    def step(self, draft: Draft, block: Block, t: float, s: float) -> None:
        process = draft.algorithm.process
        if not process.absorbing:
            self.resample(draft, block, t, s)
            return
        stays = process.one_minus_alpha(draft.at(s)) / process.one_minus_alpha(draft.at(t))
        masked = block.free & draft.masked
        self.reveal(draft, masked & ~self.bernoulli(draft, stays), draft.at(t))


@dataclass(kw_only=True)
class PredictorCorrector(Ancestral):
    """Predictor-corrector sampling: after every step, go back up and come down again.

    The ancestral step from t to s, then ``corrections`` times: x_t ~ q(x_t | x_s), and the
    ancestral step from t to s again (the forward-backward corrector of Campbell et al., arXiv
    2205.14987, in steps of finite size).

    q(x_t | x_s) leaves the data's own marginals at s and t as they are, and so does the exact
    reverse step: a correction moves samples towards them and approaches the model's distribution
    like ``Ancestral`` as T grows. The first step has none, since q(x_1 | x_s) forgets x_s, and the
    last has none to go back from: T steps cost at most T + (T - 2) ``corrections`` calls.
    """

    name = "predictor-corrector"
    law = Law.APPROXIMATE

    corrections: CountOrZero = 1
    steps: Count = 50

    @property
    def calls_per_step(self) -> int:
        return 1 + self.corrections

    def step(self, draft: Draft, block: Block, t: float, s: float) -> None:
        super().step(draft, block, t, s)
        process = draft.algorithm.process
        for _ in range(self.corrections if s > 0 and t < 1 else 0):
            draft.record()
            draft.x = process.corrupt_further(
                draft.x, draft.at(s), draft.at(t), block.free, draft.generator
            )
            super().step(draft, block, t, s)


class Renoise(GridSampler):
    """Re-noising: predict clean data, corrupt it again, a little less each time.

    x0 ~ P(x0 | x_t), then x_s ~ q_s(x_s | x0), from each time t of the grid to the next, s
    (simple iterative denoising, SID, arXiv 2505.21592; MaskPredict, arXiv 1904.09324).

    Every token can be revised until the end, which ancestral sampling of an absorbing process never
    does. Approximate however fine the grid: tokens of one step are sampled independently, and all
    of them at once.

    Of an absorbing process the positions that stay visible are sampled first, and only those that
    were MASK cost a call.
    """

    name = "renoise"
    law = Law.APPROXIMATE

    def step(self, draft: Draft, block: Block, t: float, s: float) -> None:
        process = draft.algorithm.process
        if not process.absorbing:
            self.resample(draft, block, t, 0.0)
            draft.x = process.corrupt(draft.x, draft.at(s), block.free, draft.generator)
            return
        hide = block.free & self.bernoulli(draft, process.one_minus_alpha(draft.at(s)))
        self.reveal(draft, block.free & draft.masked & ~hide, draft.at(t))
        draft.x.masked_fill_(hide, draft.algorithm.layout.mask_id)


@dataclass(kw_only=True)
class ReMDM(GridSampler):
    """ReMDM: masked diffusion that hides tokens again, to revise them.

    From t to s a visible token is hidden with probability sigma_l, and a MASK revealed with

        (alpha_s - (1 - sigma_l) alpha_t) / (1 - alpha_t),
        sigma_l <= s_max = min(1, (1 - alpha_s) / alpha_t)

    (Wang et al., arXiv 2503.00307); sigma = 0 is ancestral sampling. A sigma that is the same for
    MASKs leaves the marginals of the absorbing process as they are. ``strategy``:

        cap         sigma = min(eta, s_max)
        rescale     sigma = eta s_max
        confidence  sigma_l = eta s_max softmax(-p)_l over the visible tokens, p the probability
                    that D gave a token when it was last sampled; 0 at MASKs, so that more tokens
                    are hidden than the schedule has
        loop        from t = 1 to ``loop_from`` ordinary steps take alpha to ``loop_alpha``; until
                    ``loop_until`` it stays there, and tokens are hidden and redrawn as by ``cap``;
                    from there ordinary steps take it to 1

    Deviation: with ``confidence`` the network is given the time of the masked share.

    ``steps``: one call each, except where nothing is revealed. Clamped tokens stay.

    Raises ``ValueError`` for an unknown strategy, an ``eta`` or ``loop_alpha`` outside (0, 1], or
    loop times that are not 0 <= until < from <= 1.
    """

    name = "remdm"
    law = Law.APPROXIMATE
    absorbing_only = True

    strategy: Literal["cap", "rescale", "confidence", "loop"] = "cap"
    eta: Share = 0.1
    loop_from: float = 0.55
    loop_until: float = 0.05
    loop_alpha: Share = 0.9

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.loop_until < self.loop_from <= 1:
            raise ValueError(
                f"sampling.loop_from={self.loop_from}, sampling.loop_until={self.loop_until}: "
                "expected 0 <= loop_until < loop_from <= 1"
            )

    def times(self, algorithm: TokenAlgorithm, steps: int) -> Tensor:
        """Float64[T + 1]: from 1 down to 0; a loop stays where alpha is ``loop_alpha``."""
        grid = super().times(algorithm, steps)
        if self.strategy != "loop":
            return grid
        hidden = 1 - self.loop_alpha
        before = hidden + (1 - hidden) * (grid - self.loop_from) / max(1 - self.loop_from, 1e-9)
        after = hidden * grid / max(self.loop_until, 1e-9)
        share = torch.where(grid < self.loop_until, after, before.clamp(min=hidden))
        process, layout = algorithm.process, algorithm.layout
        assert isinstance(process, Absorbing)
        share = share.to(layout.support.device)
        everywhere = share.new_ones(len(share), layout.length, dtype=torch.bool)
        t = process.time_of_share(share, everywhere).cpu()
        if algorithm.num_steps is not None:
            t = (t * algorithm.num_steps).round().clamp(min=1) / algorithm.num_steps
        t[0], t[-1] = 1.0, 0.0
        stays = (share == hidden).cpu()
        keep = (t.diff() < 0) | (stays[1:] & stays[:-1])  # rounded times stay in the loop only
        return torch.cat([t[:1], t[1:][keep]])

    def step(self, draft: Draft, block: Block, t: float, s: float) -> None:
        process, at_t = draft.algorithm.process, draft.at(t)
        masked = block.free & draft.masked
        visible = block.free & ~masked
        alpha_t, hidden_t = process.alpha(at_t), process.one_minus_alpha(at_t)
        hidden_s = process.one_minus_alpha(draft.at(s))
        most = (hidden_s / alpha_t.clamp(min=1e-12)).clamp(max=1.0)
        sigma = self._sigma(draft, most, visible, looping=t == s)
        stays = torch.where(masked, (hidden_s - sigma * alpha_t) / hidden_t, 1 - sigma)
        changes = block.free & ~self.bernoulli(draft, stays)
        if self.strategy == "confidence":
            at_t = time_of_masked_share(draft.algorithm, draft.masked, block.real)
        self.reveal(draft, changes & masked, at_t)
        draft.x.masked_fill_(changes & visible, draft.algorithm.layout.mask_id)

    def _sigma(self, draft: Draft, most: Tensor, visible: Tensor, *, looping: bool) -> Tensor:
        """Probability of hiding each token, broadcastable to [B, L]; ``most``: the largest one."""
        if self.strategy == "rescale":
            return self.eta * most
        if self.strategy == "confidence":
            share = (-draft.probs).masked_fill(~visible, -torch.inf).softmax(dim=1)
            return (self.eta * most * share.nan_to_num(0.0)).masked_fill(~visible, 0.0)
        if self.strategy == "loop" and not looping:
            return torch.zeros_like(most)
        return most.clamp(max=self.eta)
