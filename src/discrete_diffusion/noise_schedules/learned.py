"""Polynomial exponents that are learned."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from discrete_diffusion.layout import TokenLayout
from discrete_diffusion.naming import unknown_name
from discrete_diffusion.noise_schedules.powers import Powers

SHARED_BY = ("group", "token")


class Learned(Powers):
    """1 - alpha_l(t) = t^(w_l) with learned w_l (MELD, arXiv 2505.16790).

    w depends on the position or its group alone, never on data, so a MASK carries no evidence and
    the absorbing bound holds for every w. Only the *order* in which positions are masked counts,
    a change of time common to all of them does not: the mean of log w over the positions is 0,

        log w_l = c_l - mean c,    c = b tanh(theta / b),    b = log(largest_ratio) / 2

    and no two exponents differ by more than the factor ``largest_ratio``. All w are 1 at first.

    ``per``: ``group`` has one theta per group of the layout, right where the positions of a group
    are exchangeable; ``token`` one per position. None: ``group`` if there are several groups, else
    ``token``.

    Deviation: the paper has a network give every atom and bond its rate; here the exponents are
    plain parameters.

    Raises ``ValueError`` for another ``per``, a ratio not above 1, or a layout with a single group
    and ``per=group``, which leaves nothing to learn.
    """

    learned = True
    index: Tensor

    def __init__(
        self, layout: TokenLayout, *, per: str | None = None, largest_ratio: float = 16.0
    ) -> None:
        super().__init__()
        num_groups = len(layout.group_names)
        per = per or ("group" if num_groups > 1 else "token")
        if per not in SHARED_BY:
            raise ValueError(unknown_name("way to share exponents", per, SHARED_BY))
        if not 1 < largest_ratio < float("inf"):
            raise ValueError(f"largest_ratio={largest_ratio}: expected a number above 1")
        if per == "group" and num_groups < 2:
            raise ValueError(
                "noise.per=group learns one exponent per group, but this layout has one group "
                f"({layout.group_names[0]}); set noise.per=token"
            )
        self.bound = math.log(largest_ratio) / 2
        device = layout.group.device
        index = layout.group if per == "group" else torch.arange(layout.length, device=device)
        self.register_buffer("index", index, persistent=False)
        size = num_groups if per == "group" else layout.length
        self.theta = nn.Parameter(torch.zeros(size, device=device))

    def exponents(self) -> Tensor:
        bounded = self.bound * torch.tanh(self.theta.double() / self.bound)
        per_position = bounded[self.index]
        return (per_position - per_position.mean()).exp()
