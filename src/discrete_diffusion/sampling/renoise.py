"""Re-noising: predict clean data, corrupt it again, a little less each time."""

from __future__ import annotations

from discrete_diffusion.sampling.draft import Draft, Turn
from discrete_diffusion.sampling.grid import GridSampler


class Renoise(GridSampler):
    """x0 ~ P(x0 | x_t), then x_s ~ q_s(x_s | x0), from each time t of the grid to the next, s
    (simple iterative denoising, SID, arXiv 2505.21592; MaskPredict, arXiv 1904.09324).

    Every token can be revised until the end, which ancestral sampling of an absorbing process never
    does. Approximate however fine the grid: tokens of one step are drawn independently, and all of
    them at once.

    Of an absorbing process the positions that stay visible are drawn first, and only those that
    were MASK cost a call.
    """

    name = "renoise"

    def _step(self, draft: Draft, turn: Turn, t: float, s: float) -> None:
        process, generator = draft.algorithm.process, draft.request.generator
        if not process.absorbing:
            self._redraw(draft, turn, t, 0.0)
            noisy = process.corrupt(draft.x, draft.at(s), turn.free, generator)
            draft.x.copy_(noisy)
            return
        hide = turn.free & self._coins(draft, process.one_minus_alpha(draft.at(s)))
        self._reveal(draft, turn.free & draft.masked & ~hide, draft.at(t))
        draft.x.masked_fill_(hide, draft.algorithm.layout.mask_id)
