"""Soft guidance towards a constraint: a baseline for exact conditional samples."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from discrete_diffusion.categorical import sample_categorical
from discrete_diffusion.config import is_number
from discrete_diffusion.sampling import Draft, Steered


@dataclass(kw_only=True)
class SoftGuidance(Steered):
    """First-hitting sampling whose every token is tilted towards ``constraint``, and no more.

    With h(C | x with v) the chance that a sample meets C, token by token,

        r(v) proportional to D_l(v) max(h(x with v), doubt)^gamma.

    There are no weights, nothing is resampled and nothing rejected: samples may break C, and those
    that meet it are not distributed as p given C. This is guidance by a classifier of unfinished
    samples (Dhariwal and Nichol, arXiv 2105.05233; of graphs, Vignac et al., arXiv 2209.14734,
    section 4.3), with h in place of a trained one. ``doubt``: a trained classifier is never certain
    that C is out of reach; 0 rules out what h rules out, but where that is all that D allows, D
    alone draws. ``gamma=0`` is the model itself.

    ``log_weights`` of the result are 0. Raises ``ValueError`` for a ``gamma`` below 0 or a
    ``doubt`` outside [0, 1].
    """

    gamma: float = 1.0
    doubt: float = 0.01

    def __post_init__(self) -> None:
        super().__post_init__()
        if not is_number(self.gamma) or not 0 <= self.gamma < math.inf:
            raise ValueError(f"gamma={self.gamma}: expected a number, 0 or more")
        if not 0 <= self.doubt <= 1:
            raise ValueError(f"doubt={self.doubt}: expected a share, 0 to 1")

    def run(self, draft: Draft) -> None:
        call, t = self.plan(draft)
        left = call.amax(dim=1) + 1
        num_calls = int(left.max()) if len(left) else 0
        draft.calls.expect(num_calls)
        for k in range(num_calls):
            rows = (left > k).nonzero().squeeze(1)
            position = (call[rows] == k).int().argmax(dim=1)
            log_d, log_h = self._outlook(draft, rows, position, t[rows, k])
            tilt = self.gamma * log_h.clamp(min=math.log(self.doubt) if self.doubt else -math.inf)
            log_r = log_d + (torch.zeros_like(tilt) if self.gamma == 0 else tilt)
            none = log_r.amax(dim=-1, keepdim=True) == -torch.inf
            log_r = torch.where(none, log_d, log_r).log_softmax(dim=-1)
            draft.x[rows, position] = sample_categorical(log_r, draft.generator)
            draft.record()
            if self.on_sampled is not None:
                self.on_sampled(len(rows))
