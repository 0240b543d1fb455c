"""Predictor-corrector sampling: after every step, go back up and come down again."""

from __future__ import annotations

from discrete_diffusion.options import check_whole_number
from discrete_diffusion.sampling.draft import Draft, Turn
from discrete_diffusion.sampling.grid import GridSampler


class PredictorCorrector(GridSampler):
    """The ancestral step from t to s, then ``corrections`` times: x_t ~ q(x_t | x_s), and the
    ancestral step from t to s again (the forward-backward corrector of Campbell et al., arXiv
    2205.14987, in steps of finite size).

    q(x_t | x_s) leaves the data's own marginals at s and t as they are, and so does the exact
    reverse step: a correction moves samples towards them and approaches the model's distribution
    like ``Ancestral`` as T grows. The first step has none, since q(x_1 | x_s) forgets x_s, and the
    last has none to go back from: T steps cost at most T + (T - 2) ``corrections`` calls.
    """

    name = "predictor-corrector"

    def __init__(
        self,
        *,
        corrections: int = 1,
        default_steps: int = 50,
        grid: str = "auto",
        temperature: float = 1.0,
        top_p: float = 1.0,
        guidance: float = 1.0,
    ) -> None:
        super().__init__(
            default_steps=default_steps,
            grid=grid,
            temperature=temperature,
            top_p=top_p,
            guidance=guidance,
        )
        check_whole_number("sampling.corrections", corrections, least=0)
        self.corrections = corrections

    def _step(self, draft: Draft, turn: Turn, t: float, s: float) -> None:
        super()._step(draft, turn, t, s)
        process, generator = draft.algorithm.process, draft.request.generator
        for _ in range(self.corrections if s > 0 and t < 1 else 0):
            draft.record()
            noisier = process.corrupt_further(
                draft.x, draft.at(s), draft.at(t), turn.free, generator
            )
            draft.x.copy_(noisier)
            super()._step(draft, turn, t, s)
