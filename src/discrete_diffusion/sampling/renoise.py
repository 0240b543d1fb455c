"""Re-noising: predict clean data, corrupt it again, a little less each time."""

from __future__ import annotations

from torch import Tensor

from discrete_diffusion.algorithms import Algorithm
from discrete_diffusion.sampling.draft import Draft
from discrete_diffusion.sampling.grid import GridSampler
from discrete_diffusion.types import SampleRequest


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

    def _step(
        self,
        algorithm: Algorithm,
        request: SampleRequest,
        draft: Draft,
        turn: Tensor,
        t: Tensor,
        s: Tensor,
    ) -> None:
        process, generator = algorithm.process, request.generator
        if not process.absorbing:
            self._redraw(algorithm, request, draft, turn, t, s * 0)
            draft.write(turn, process.corrupt(draft.x, s, turn, generator)[turn])
            return
        hide = turn & self._coins(process.one_minus_alpha(s), turn, generator)
        reveal = turn & ~hide & (draft.x == algorithm.layout.mask_id)
        self._reveal(algorithm, request, draft, reveal, t)
        draft.x.masked_fill_(hide, algorithm.layout.mask_id)
