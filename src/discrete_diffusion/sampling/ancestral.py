"""Ancestral sampling: the reverse process on a grid of times."""

from __future__ import annotations

from discrete_diffusion.sampling.grid import GridSampler


class Ancestral(GridSampler):
    """x_s ~ p(x_s | x_t) from each time t of the grid to the next, s (D3PM, arXiv 2107.03006).

    All positions of a step are drawn independently, so the samples approach the model's
    distribution like 1 / T as T grows.
    """

    name = "ancestral"
