"""ReMDM: masked diffusion that hides tokens again, to revise them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from discrete_diffusion.algorithms.token_algorithm import TokenAlgorithm
from discrete_diffusion.config.values import Share
from discrete_diffusion.forward_process.absorbing import Absorbing
from discrete_diffusion.sampling.ancestral import GridSampler
from discrete_diffusion.sampling.base import Law
from discrete_diffusion.sampling.calls import time_of_masked_share
from discrete_diffusion.sampling.draft import Block, Draft


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
