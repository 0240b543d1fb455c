"""Noise among legal ids: uniform, or as frequent as in the data."""

from __future__ import annotations

import torch
from torch import Tensor

from discrete_diffusion.config.values import Positive
from discrete_diffusion.forward_process.interpolating import InterpolatingProcess
from discrete_diffusion.layout.token_layout import TokenLayout
from discrete_diffusion.noise_schedules.base import Schedule


class Uniform(InterpolatingProcess):
    """b_t(y) = (1 - alpha(t)) / K_l on the K_l legal ids of each position, 0 elsewhere
    (Austin et al., arXiv 2107.03006; UDLM, arXiv 2412.10193).

    Deviation: the papers' prior is uniform on the whole vocabulary; a node type never enters an
    edge slot here, and neither MASK nor PAD is ever drawn.
    """

    name = "uniform"
    rows: Tensor

    def __init__(self, layout: TokenLayout, schedule: Schedule) -> None:
        super().__init__(layout, schedule)
        self.register_buffer("rows", self._uniform(layout), persistent=False)

    @property
    def pi(self) -> Tensor:
        """Float64[L, V]."""
        return self.rows.expand(self.layout.length, -1)

    def prior(self) -> Tensor:
        return self.pi


class Marginal(InterpolatingProcess):
    """b_t(y) = (1 - alpha(t)) pi_g(y), pi_g the token frequencies of a position's group in the
    training data (DiGress, Vignac et al., arXiv 2209.14734).

    ``fit`` estimates pi; until then it is uniform on the legal ids. It is stored in checkpoints.
    ``smoothing``: count added to every legal id, because a legal id that the prior never samples
    would make the ratios of the bound infinite.

    Raises ``ValueError`` if ``smoothing`` is not positive.
    """

    name = "marginal"
    pi: Tensor

    def __init__(
        self, layout: TokenLayout, schedule: Schedule, *, smoothing: Positive = 1.0
    ) -> None:
        super().__init__(layout, schedule)
        self.smoothing = float(smoothing)
        self.register_buffer("pi", layout.uniform_log_probs().exp())

    def prior(self) -> Tensor:
        return self.pi

    def fit(self, x0: Tensor, real: Tensor) -> None:
        """Estimate pi from training tokens: x0 Int[M, L], counted where real Bool[M, L].

        Positions of a group share their counts; each keeps those of its own legal ids.
        """
        layout = self.layout
        counts = torch.stack(
            [
                torch.bincount(
                    x0[:, layout.group == g][real[:, layout.group == g]],
                    minlength=layout.vocab_size,
                )
                for g in range(len(layout.group_names))
            ]
        )  # (groups, V)
        weight = (counts.double() + self.smoothing)[layout.group] * layout.support
        self.pi.copy_(weight / weight.sum(dim=1, keepdim=True))
