"""``GridSampler``: what samplers share that go down a grid of times."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor

from discrete_diffusion.algorithms import Algorithm
from discrete_diffusion.categorical import draw, uniform_draws
from discrete_diffusion.naming import unknown_name
from discrete_diffusion.options import check_whole_number
from discrete_diffusion.sampling.base import Sampler
from discrete_diffusion.sampling.draft import Draft
from discrete_diffusion.types import SampleRequest

GRIDS = ("auto", "uniform", "squared")


class GridSampler(Sampler):
    """Works for every process, on a grid of T = ``steps`` times from 1 to 0.

    ``grid``: ``uniform``, t = i / T; ``squared``, t = (i / T)^2, finer near t = 0; ``auto`` takes
    the first for absorbing processes and the second for the others, which decide most there. A
    model of discrete steps is asked at its own times only, i / ``num_steps``, the nearest ones.

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
    ) -> None:
        super().__init__(temperature=temperature, top_p=top_p)
        check_whole_number("sampling.default_steps", default_steps, least=1)
        if grid not in GRIDS:
            raise ValueError(unknown_name("grid", grid, GRIDS))
        self.default_steps, self.grid = default_steps, grid

    def times(self, algorithm: Algorithm, steps: int) -> Tensor:
        """Float64[T + 1]: the grid, from 1 down to 0."""
        t = torch.linspace(1, 0, steps + 1, dtype=torch.float64)
        if self.grid == "squared" or (self.grid == "auto" and not algorithm.process.absorbing):
            t = t.square()
        if algorithm.num_steps is None:
            return t
        own = (t * algorithm.num_steps).round() / algorithm.num_steps
        return own.unique().flip(0)

    def _run(self, algorithm: Algorithm, request: SampleRequest, draft: Draft) -> None:
        steps = self.default_steps if request.steps is None else request.steps
        if steps < 1:
            raise ValueError(f"steps={steps}: expected at least 1")
        times = self.times(algorithm, steps).to(draft.x.device)
        num = draft.x.shape[0]
        for turn in self._turns(algorithm, draft):
            for t, s in pairwise(times):
                self._step(algorithm, request, draft, turn, t.expand(num), s.expand(num))
                draft.record()

    def _step(
        self,
        algorithm: Algorithm,
        request: SampleRequest,
        draft: Draft,
        turn: Tensor,
        t: Tensor,
        s: Tensor,
    ) -> None:
        """One step of the positions ``turn`` Bool[B, L] from t to s < t, both Float64[B]: here
        x_s ~ p(x_s | x_t), every position for itself."""
        if algorithm.process.absorbing:
            hidden = algorithm.process.one_minus_alpha(s) / algorithm.process.one_minus_alpha(t)
            masked = turn & (draft.x == algorithm.layout.mask_id)
            reveal = masked & self._coins(1 - hidden, turn, request.generator)
            self._reveal(algorithm, request, draft, reveal, t)
        else:
            self._redraw(algorithm, request, draft, turn, t, s)

    @staticmethod
    def _coins(heads: Tensor, like: Tensor, generator: torch.Generator) -> Tensor:
        """Bool[B, L]: True with probability ``heads``, broadcastable to ``like`` [B, L]."""
        return uniform_draws(tuple(like.shape), generator, like.device) < heads

    def _redraw(
        self,
        algorithm: Algorithm,
        request: SampleRequest,
        draft: Draft,
        turn: Tensor,
        t: Tensor,
        s: Tensor,
    ) -> None:
        """Draw x_s at the positions ``turn`` from the sampling posterior, one network call."""
        rows = turn.any(dim=1).nonzero().squeeze(1)
        if rows.numel() == 0:
            return
        prediction = algorithm.predict(
            draft.x[rows],
            t[rows],
            s[rows],
            request.real[rows],
            request.support_of(rows),
            temperature=self.temperature,
            top_p=self.top_p,
            conditions=request.conditions_of(rows),
        )
        here = turn[rows]
        tokens = draw(prediction.log_probs[here], request.generator)
        by_outcome = prediction.log_weights
        if by_outcome is not None:
            by_outcome = by_outcome[here].gather(-1, tokens.unsqueeze(-1)).squeeze(-1)
        draft.write(turn, tokens, by_outcome)
        draft.nfe[rows] += 1
