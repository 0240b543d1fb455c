"""Another number of parameters for a network: the value of a key that gives it."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import torch
from omegaconf import DictConfig, OmegaConf

from discrete_diffusion.building.algorithm import build_algorithm
from discrete_diffusion.domains.registry import complete_data

_ENOUGH = 0.1
"""A search ends early at this share of the tolerance."""

_TRIES = 128
"""Values around a guess, at most, of which one must be legal."""

_REFUSED = (ValueError, TypeError, AssertionError, RuntimeError, ArithmeticError)
"""Errors that networks raise for impossible sizes, such as heads that do not divide a width."""


def apart(size: int, other: int | None) -> float:
    """|log(size / other)|; infinite where a size is unknown."""
    return abs(math.log(size / other)) if size and other else math.inf


def are_equal(size: int, other: int | None, tolerance: float | None) -> bool:
    """True if two sizes are at most the ``tolerance`` apart; None of either is any."""
    return other is None or tolerance is None or abs(size / other - 1) <= tolerance


def parameter_counts(config: DictConfig, key: str) -> Callable[[int], int]:
    """Value of ``model.key`` -> parameters of the algorithm of a ``train`` config, built without
    memory for its weights; 0 for a value that the network refuses."""
    completed = complete_data(config)

    @cache
    def count(value: int) -> int:
        each = completed.copy()
        OmegaConf.update(each, f"model.{key}", value)
        try:
            with torch.device("meta"):
                return build_algorithm(each).num_parameters
        except _REFUSED:
            return 0

    return count


def value_for(target: int, count: Callable[[int], int], start: int, tolerance: float) -> int | None:
    """The whole number of which ``count`` is nearest to the ``target``, or next to it by a tenth of
    the ``tolerance``; None if ``count`` does not grow with it.

    ``count``: 0 for values that are not legal, of which ``start`` is none. From ``start`` the value
    is doubled or halved until the target lies between two of them; then the interval shrinks, by a
    power law and by halves in turn, until no legal value is left in it.
    """
    bracket = _bracket(target, count, start)
    if bracket is None:
        return None
    low, high = bracket
    by_law = True
    while True:
        best = min((low, high), key=lambda value: apart(count(value), target))
        if apart(count(best), target) <= _ENOUGH * tolerance:
            return best
        guess = _between(low, high, target, count) if by_law else (low + high) // 2
        middle = _nearest_legal(guess, low, high, count)
        if middle is None:
            return best
        low, high = (middle, high) if count(middle) < target else (low, middle)
        by_law = not by_law


def _bracket(target: int, count: Callable[[int], int], start: int) -> tuple[int, int] | None:
    """Two legal values, one on each side of the target or both the one nearest to it; None if
    ``count`` does not grow with the value."""
    value = previous = start
    upwards = count(start) < target
    while (count(value) < target) == upwards and count(value) != target:
        low, high = (value, 4 * value) if upwards else (0, value)
        further = _nearest_legal(2 * value if upwards else value // 2, low, high, count)
        if further is None:
            return (value, value) if value != start else None
        if count(further) == count(value) or (count(further) > count(value)) != upwards:
            return None
        previous, value = value, further
    return (previous, value) if upwards else (value, previous)


def _between(low: int, high: int, target: int, count: Callable[[int], int]) -> int:
    """Value at which ``count`` is the target if it is a power of the value between two of them."""
    below, above = math.log(count(low) or 1), math.log(count(high) or 1)
    if above <= below:
        return (low + high) // 2
    share = (math.log(target) - below) / (above - below)
    return round(low * (high / low) ** min(max(share, 0.0), 1.0))


def _nearest_legal(guess: int, low: int, high: int, count: Callable[[int], int]) -> int | None:
    """The legal value nearest to the guess strictly between two others."""
    inside = sorted(range(low + 1, high), key=lambda value: abs(value - guess))
    return next((value for value in inside[:_TRIES] if count(value)), None)
