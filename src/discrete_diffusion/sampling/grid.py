"""``GridSampler``: what samplers share that go down a grid of times."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor

from discrete_diffusion.algorithms import TokenAlgorithm
from discrete_diffusion.categorical import draw, uniform_draws
from discrete_diffusion.naming import unknown_name
from discrete_diffusion.options import check_whole_number
from discrete_diffusion.sampling.base import Sampler
from discrete_diffusion.sampling.draft import Draft, Turn

GRIDS = ("auto", "uniform", "squared")


class GridSampler(Sampler):
    """Works for every process, on a grid of T = ``steps`` times from 1 to 0.

    ``grid``: ``uniform``, t = i / T; ``squared``, t = (i / T)^2, finer near t = 0; ``auto`` takes
    the first for absorbing processes and the second for the others, which decide most there. A
    model of discrete steps is asked at its own times only, i / ``num_steps``: the nearest ones, and
    all of them if ``steps`` is ``num_steps`` or more.

    Which MASKs a step of an absorbing process reveals does not depend on the network, so that is
    drawn first: a step that would change nothing costs no call. With ``blocks`` every block has the
    whole grid to itself.
    """

    def __init__(
        self,
        *,
        default_steps: int = 100,
        grid: str = "auto",
        temperature: float = 1.0,
        top_p: float = 1.0,
        guidance: float = 1.0,
    ) -> None:
        super().__init__(temperature=temperature, top_p=top_p, guidance=guidance)
        check_whole_number("sampling.default_steps", default_steps, least=1)
        if grid not in GRIDS:
            raise ValueError(unknown_name("sampling.grid", grid, GRIDS))
        self.default_steps, self.grid = default_steps, grid

    def times(self, algorithm: TokenAlgorithm, steps: int) -> Tensor:
        """Float64[T + 1]: the grid, from 1 down to 0; T is at most ``num_steps``, if there are."""
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

    def _run(self, draft: Draft) -> None:
        steps = draft.request.steps
        steps = self.default_steps if steps is None else steps
        times = self.times(draft.algorithm, steps).tolist()
        for turn in draft.turns:
            for t, s in pairwise(times):
                self._step(draft, turn, t, s)
                draft.record()

    def _step(self, draft: Draft, turn: Turn, t: float, s: float) -> None:
        """One step of the positions ``turn.free`` from t to s <= t: here x_s ~ p(x_s | x_t), every
        position for itself."""
        process = draft.algorithm.process
        if process.absorbing:
            stays = process.one_minus_alpha(draft.at(s)) / process.one_minus_alpha(draft.at(t))
            masked = turn.free & draft.masked
            self._reveal(draft, masked & ~self._coins(draft, stays), draft.at(t))
        else:
            self._redraw(draft, turn, t, s)

    @staticmethod
    def _coins(draft: Draft, heads: Tensor) -> Tensor:
        """Bool[B, L]: True with probability ``heads``, Float[B, 1] or Float[B, L]."""
        shape, device = tuple(draft.x.shape), draft.x.device
        return uniform_draws(shape, draft.request.generator, device) < heads

    def _redraw(self, draft: Draft, turn: Turn, t: float, s: float) -> None:
        """Draw x_s at the positions ``turn.free`` from the sampling posterior; one network call,
        but for guidance."""
        rows = turn.free.any(dim=1).nonzero().squeeze(1)
        if rows.numel() == 0:
            return
        request = draft.request
        prediction = draft.algorithm.step(
            self._log_d0(draft, rows, draft.at(t)[rows]),
            draft.x[rows],
            draft.at(t)[rows],
            draft.at(s)[rows],
            request.real[rows],
            request.support_of(rows),
            temperature=self.temperature,
            top_p=self.top_p,
        )
        here = turn.free[rows]
        tokens = draw(prediction.log_probs[here], request.generator)
        by_outcome = prediction.log_weights
        if by_outcome is not None:
            by_outcome = by_outcome[here].gather(-1, tokens.unsqueeze(-1)).squeeze(-1)
        draft.write(turn.free, tokens, by_outcome)
