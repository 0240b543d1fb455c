"""Categorical distributions in log space: restrict, temper, sample, thin.

Samples are taken in float64. A float32 Gumbel or inverse-CDF sample rounds away the tails and
silently lowers the temperature of every sample (Zheng et al., arXiv 2409.02908).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor


def neg_inf(dtype: torch.dtype) -> float:
    """The finite stand-in for log 0 in ``dtype``: its exponential is exactly 0, and sums of a few
    of them stay finite, so ``0 * log 0`` is 0 and never NaN."""
    return -3.0e4 if dtype == torch.float16 else -1.0e9


def mask_logits(logits: Tensor, support: Tensor) -> Tensor:
    """``logits`` (..., V) with every id outside ``support`` (broadcastable Bool) at log 0."""
    return logits.masked_fill(~support, neg_inf(logits.dtype))


def log_softmax_on(logits: Tensor, support: Tensor) -> Tensor:
    """Log-probabilities (..., V) normalised over ``support``; ids outside it get log 0."""
    return mask_logits(torch.log_softmax(mask_logits(logits, support), dim=-1), support)


def log_one_hot(ids: Tensor, vocab_size: int, dtype: torch.dtype) -> Tensor:
    """Log of a point mass: ids Int[...] -> Float[..., V], 0 at the id and log 0 elsewhere."""
    log_probs = torch.full((*ids.shape, vocab_size), neg_inf(dtype), dtype=dtype, device=ids.device)
    return log_probs.scatter_(-1, ids.unsqueeze(-1), 0.0)


def temper(log_probs: Tensor, temperature: float) -> Tensor:
    """Normalised p^(1/temperature) for log_probs (..., V); log 0 stays log 0."""
    if temperature == 1.0:
        return log_probs
    least = neg_inf(log_probs.dtype)
    support = log_probs > least / 2
    behind = log_probs - log_probs.amax(dim=-1, keepdim=True)  # <= 0, so no temperature overflows
    scaled = behind / max(temperature, torch.finfo(torch.float32).tiny)
    return log_softmax_on(scaled.clamp(min=least / 4), support)


def nucleus(log_probs: Tensor, top_p: float) -> Tensor:
    """Keep the smallest set of ids whose probability reaches ``top_p`` and renormalise (..., V).

    Holtzman et al., arXiv 1904.09751. The most likely id always stays.
    """
    if top_p >= 1.0:
        return log_probs
    ordered, order = log_probs.sort(dim=-1, descending=True)
    mass_before = ordered.exp().cumsum(dim=-1) - ordered.exp()
    keep = torch.zeros_like(log_probs, dtype=torch.bool).scatter_(-1, order, mass_before < top_p)
    keep &= log_probs > neg_inf(log_probs.dtype) / 2
    return log_softmax_on(log_probs, keep)


def uniform_draws(
    shape: tuple[int, ...], generator: torch.Generator, device: torch.device | str | None = None
) -> Tensor:
    """Uniform Float64 numbers in [0, 1), made where the generator lives, then moved to
    ``device``."""
    draws = torch.rand(shape, generator=generator, device=generator.device, dtype=torch.float64)
    return draws if device is None else sent(draws, device)


def sent(x: Tensor, device: torch.device | str) -> Tensor:
    """x on ``device``; what the host sends to another device it does not wait for."""
    return x.to(device, non_blocking=x.device.type == "cpu")


def sample_categorical(log_probs: Tensor, generator: torch.Generator) -> Tensor:
    """One id per row of log_probs (..., V), by inverting the cumulative sum in float64.

    An id of probability 0 is never chosen: the chosen id is the first whose cumulative
    probability exceeds a uniform u < 1 of the row's total. The rows need not be normalised.
    """
    return pick(log_probs, uniform_draws(tuple(log_probs.shape[:-1]), generator, log_probs.device))


def pick(log_probs: Tensor, u: Tensor) -> Tensor:
    """``sample_categorical`` with its uniform numbers ``u``, Float64[...] in [0, 1).

    Rows that hold NaN or no probability give some id in 0..V-1."""
    cumulative = log_probs.double().exp().cumsum(dim=-1)
    threshold = u.unsqueeze(-1) * cumulative[..., -1:]
    return (cumulative[..., :-1] <= threshold).sum(dim=-1)


def log_prob_at(ids: Tensor, log_probs: Tensor) -> Tensor:
    """Float64[...]: the log-probability of ids Int[...], log_probs Float[..., V]."""
    return log_probs.gather(-1, ids.unsqueeze(-1)).squeeze(-1).double()


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


def make_generator(*entropy: int, device: torch.device | str = "cpu") -> torch.Generator:
    """A generator whose stream is a function of the integers given, e.g. (seed, step, rank).

    Their number counts too: numpy alone takes (1, 2) and (1, 2, 0) for the same.
    """
    words = [len(entropy), *(abs(int(e)) for e in entropy)]
    state = np.random.SeedSequence(words).generate_state(1, np.uint64)
    generator = torch.Generator(device=device)
    generator.manual_seed(int(state[0] >> np.uint64(1)))
    return generator
