"""Single values of a config: whole numbers, shares, divisors; errors name the user's key."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Annotated, Any

KINDS: dict[Any, tuple[type, str]] = {
    int: (Integral, "a whole number"),
    float: (Real, "a number"),
    bool: (bool, "true or false"),
}
"""Kinds of values, and words for them."""


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """Bounds of a finite number, which ``above`` and ``below`` leave out; in an annotation,
    ``Annotated[float, Bounds(above=0, most=1)]``."""

    least: float = -math.inf
    above: float = -math.inf
    most: float = math.inf
    below: float = math.inf

    def admit(self, value: float) -> bool:
        """True for a number within."""
        return self.least <= value <= self.most and self.above < value < self.below

    @property
    def text(self) -> str:
        """The end of a sentence: ``, at least 1``, `` above 0``, `` in (0, 1]``."""
        low, high = max(self.least, self.above), min(self.most, self.below)
        if self == Bounds():
            return ""
        if high == math.inf:
            return f" above {low}" if self.above == low else f", at least {low}"
        left, right = "[" if self.least == low else "(", "]" if self.most == high else ")"
        return f" in {left}{low}, {high}{right}"


@dataclass(frozen=True)
class OneOf:
    """Texts that may be: the ``words``, or keys of a table; in an annotation,
    ``Annotated[str, OneOf(SCORES)]``."""

    words: Collection[str]

    def __post_init__(self) -> None:
        object.__setattr__(self, "words", tuple(self.words))


Count = Annotated[int, Bounds(least=1)]
"""Whole number from 1."""
CountOrZero = Annotated[int, Bounds(least=0)]
"""Whole number from 0."""
Positive = Annotated[float, Bounds(above=0)]
"""Number above 0, and finite."""
NotNegative = Annotated[float, Bounds(least=0)]
"""Number from 0, and finite."""
Share = Annotated[float, Bounds(above=0, most=1)]
"""Share above 0, up to all."""


def check_whole_number(key: str, value: Any, *, least: int, most: int | None = None) -> None:
    """Raise ``ValueError`` unless ``value`` is a whole number between the bounds; true and false
    are none."""
    if not is_a(Integral, value) or value < least or (most is not None and value > most):
        bounds = f"at least {least}" + ("" if most is None else f" and at most {most}")
        raise ValueError(f"{key}={value}: expected a whole number, {bounds}")


def check_divides(num: int, width: int, what: str, *, key: str = "n_heads") -> None:
    """Raise ``ValueError`` with the numbers that would do, unless ``num`` divides ``width``.

    ``key``, ``what``: what the number and the width are called."""
    if num < 1 or width % num:
        divisors = ", ".join(str(k) for k in range(1, width + 1) if width % k == 0)
        raise ValueError(f"{key}={num} does not divide {what}; choose {divisors}")


def check_share(key: str, value: Any) -> None:
    """Raise ``ValueError`` unless ``value`` is a number between 0 and 1."""
    if not (is_number(value) and 0 < value < 1):
        raise ValueError(f"{key}={value}: expected a share between 0 and 1, e.g. {key}=0.5")


REDUCE_OVERHEAD = "reduce-overhead"
"""What ``compile`` may say beside true and false: PyTorch's mode that records CUDA graphs."""


def check_compile(value: Any) -> None:
    """``ValueError`` for a value that the option ``compile`` does not have."""
    if not isinstance(value, bool) and value != REDUCE_OVERHEAD:
        raise ValueError(
            f"compile={value}: expected true, false, or {REDUCE_OVERHEAD}, CUDA graphs on a GPU"
        )


def are_whole_numbers(values: Any) -> bool:
    """True for a list, or another sequence, of whole numbers."""
    listed = isinstance(values, Iterable) and not isinstance(values, str | bytes | Mapping)
    return listed and all(is_a(Integral, value) for value in values)


def is_number(value: Any) -> bool:
    """True for a number; true and false are none."""
    return is_a(Real, value)


def is_a(kind: type, value: Any) -> bool:
    """True for a value of the kind; a bool is a number to Python, not to a user."""
    return isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
