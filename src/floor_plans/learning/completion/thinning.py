"""Few rows that stand for many weighed ones."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from discrete_diffusion.categorical import uniform_draws


@dataclass(frozen=True)
class Thinned:
    """Result of ``thin``.

    ``rows``: Int64[K], those that are kept, ascending. ``log_chances``: Float64[K], the log of the
    probability with which each was.
    """

    rows: Tensor
    log_chances: Tensor


def thin(log_weights: Tensor, num: int, generator: torch.Generator) -> Thinned:
    """At most ``num`` >= 1 different rows to stand for all, of weights exp(log_weights Float64[M]),
    on the CPU; all of them if there are no more.

    Row i is kept with probability p_i = min(1, w_i / c), c such that these add up to ``num``.
    Whatever is summed over the kept rows, each divided by its p_i, has the sum over all rows for
    its mean; with the least squared error if what is summed is the weights (Fearnhead and Clifford,
    2003, J. R. Statist. Soc. B 65 (4), 887-899). Those lighter than c are sampled systematically,
    by one random number.
    """
    if len(log_weights) <= num:
        return Thinned(torch.arange(len(log_weights)), torch.zeros_like(log_weights))
    weights = (log_weights - log_weights.max()).exp()
    ordered, order = weights.sort(descending=True, stable=True)
    no_heavier = ordered.flip(0).cumsum(0).flip(0)[:num]  # each with all that follow
    left = num - torch.arange(num)
    num_sure = int((ordered[:num] * left <= no_heavier).long().argmax())
    c = no_heavier[num_sure] / left[num_sure]
    rows, light = order[:num_sure], order[num_sure:].sort().values
    if c > 0:
        points = torch.arange(num - num_sure) + uniform_draws((1,), generator, "cpu")
        light = light[weights[light] > 0]  # else rounding at the end could choose one
        found = torch.searchsorted(weights[light].cumsum(0) / c, points, right=True)
        rows = torch.cat([rows, light[found.clamp(max=len(light) - 1)]])
    rows = rows.sort().values
    return Thinned(rows, (weights[rows] / c).clamp(max=1).log())
