"""Categorical distributions in log space: restrict, temper, sample, thin.

Samples are taken in float64. A float32 Gumbel or inverse-CDF sample rounds away the tails and
silently lowers the temperature of every sample (Zheng et al., arXiv 2409.02908).
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor


def neg_inf(dtype: torch.dtype) -> float:
    """Finite stand-in for log 0 in ``dtype``: its exponential is exactly 0, and sums of a few of
    them stay finite, so ``0 * log 0`` is 0 and never NaN."""
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
    # differences to the largest are <= 0, so no temperature overflows
    least = neg_inf(log_probs.dtype)
    support = log_probs > least / 2
    behind = log_probs - log_probs.amax(dim=-1, keepdim=True)
    scaled = behind / max(temperature, torch.finfo(torch.float32).tiny)
    return log_softmax_on(scaled.clamp(min=least / 4), support)


def nucleus(log_probs: Tensor, top_p: float) -> Tensor:
    """Keep the smallest set of ids whose probability reaches ``top_p`` and renormalise (..., V).

    Holtzman et al., arXiv 1904.09751. The most likely id always stays.
    """
    if top_p >= 1.0:
        return log_probs
    # the probability of all likelier ids decides
    ordered, order = log_probs.sort(dim=-1, descending=True)
    mass_before = ordered.exp().cumsum(dim=-1) - ordered.exp()
    keep = torch.zeros_like(log_probs, dtype=torch.bool).scatter_(-1, order, mass_before < top_p)
    keep &= log_probs > neg_inf(log_probs.dtype) / 2
    return log_softmax_on(log_probs, keep)


def uniform_draws(
    shape: tuple[int, ...], generator: torch.Generator, device: torch.device | str | None = None
) -> Tensor:
    """Uniform Float64 numbers in [0, 1), sampled on the generator's device, then moved to
    ``device``."""
    draws = torch.rand(shape, generator=generator, device=generator.device, dtype=torch.float64)
    return draws if device is None else send(draws, device)


def send(x: Tensor, device: torch.device | str) -> Tensor:
    """Send x to ``device``, without a wait if the host sends it."""
    return x.to(device, non_blocking=x.device.type == "cpu")


def sample_categorical(log_probs: Tensor, generator: torch.Generator) -> Tensor:
    """One id per row of log_probs (..., V), by inverting the cumulative sum in float64.

    An id of probability 0 is never chosen: the chosen id is the first whose cumulative
    probability exceeds a uniform u < 1 of the row's total. The rows need not be normalised.
    """
    return pick(log_probs, uniform_draws(tuple(log_probs.shape[:-1]), generator, log_probs.device))


def pick(log_probs: Tensor, u: Tensor) -> Tensor:
    """``sample_categorical`` with given uniform numbers ``u``, Float64[...] in [0, 1).

    Rows that hold NaN or no probability give some id in 0..V-1."""
    # the number of ids whose cumulative probability is at most u of the total
    cumulative = log_probs.double().exp().cumsum(dim=-1)
    threshold = u.unsqueeze(-1) * cumulative[..., -1:]
    return (cumulative[..., :-1] <= threshold).sum(dim=-1)


def log_prob_at(ids: Tensor, log_probs: Tensor) -> Tensor:
    """Float64[...]: the log-probability of ids Int[...], log_probs Float[..., V]."""
    return log_probs.gather(-1, ids.unsqueeze(-1)).squeeze(-1).double()


def effective_number(log_weights: Tensor) -> float:
    """Effective sample size (sum w)^2 / sum w^2 of weights Float64[N]; 0 if all are 0.

    The weighted samples are worth this number of independent samples without weights.
    """
    if not log_weights.isfinite().any():
        return 0.0
    # from logarithms, so that large weights do not overflow
    log_sum, log_squares = log_weights.logsumexp(dim=0), (2 * log_weights).logsumexp(dim=0)
    return float((2 * log_sum - log_squares).exp())


def log_mean(log_weights: Tensor) -> float:
    """The log of the mean weight of Float64[N]."""
    return float(log_weights.logsumexp(dim=0)) - math.log(len(log_weights))


def make_generator(*entropy: int, device: torch.device | str = "cpu") -> torch.Generator:
    """A generator whose stream is a function of the given integers, e.g. (seed, step, rank).

    The number of integers matters too; numpy alone treats (1, 2) and (1, 2, 0) alike.
    """
    words = [len(entropy), *(abs(int(e)) for e in entropy)]
    state = np.random.SeedSequence(words).generate_state(1, np.uint64)
    generator = torch.Generator(device=device)
    generator.manual_seed(int(state[0] >> np.uint64(1)))
    return generator
