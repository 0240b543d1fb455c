"""One polynomial exponent per group of positions."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from discrete_diffusion.layout import TokenLayout
from discrete_diffusion.noise_schedules.powers import Powers
from discrete_diffusion.options import is_number


class PerGroup(Powers):
    """1 - alpha_l(t) = t^(w_g) for a position l of group g; alpha is Float[B, L].

    ``exponents`` maps group names of the layout to w > 0. A larger exponent keeps a group clean
    for longer going forward, so it is revealed *earlier* when sampling: with node 2 and edge 1,
    nodes tend to appear before their edges.

    Raises ``ValueError`` if the names are not exactly the layout's groups or a w is not positive.
    """

    exponent: Tensor

    def __init__(self, layout: TokenLayout, *, exponents: Mapping[str, float]) -> None:
        super().__init__()
        if set(exponents) != set(layout.group_names):
            wanted = ",".join(f"{name}:1" for name in layout.group_names)
            raise ValueError(
                f"noise.exponents names the groups {', '.join(map(str, exponents)) or 'none'}, but "
                f"this data has {', '.join(layout.group_names)}: give each of them one exponent, "
                f"'~noise.exponents' '+noise.exponents={{{wanted}}}', or take another schedule, "
                "such as noise=log_linear"
            )
        for name, w in exponents.items():
            if not is_number(w) or not 0 < w < float("inf"):
                raise ValueError(f"noise.exponents.{name}={w}: expected a positive number")
        values = torch.tensor([exponents[name] for name in layout.group_names], dtype=torch.float64)
        group = layout.group.to(values.device)
        self.register_buffer("exponent", values[group], persistent=False)

    def exponents(self) -> Tensor:
        return self.exponent
