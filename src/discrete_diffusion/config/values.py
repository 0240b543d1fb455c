"""Names and numbers of a config: bounds, checks whose errors name the user's key."""

from __future__ import annotations

import difflib
import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Annotated, Any

_TYPES = {int: "a number", float: "a number", bool: "true or false", type(None): "nothing"}


def unknown_name(kind: str, name: Any, known: Iterable[str]) -> str:
    """Message ``unknown noise schedule 'cosin'; did you mean 'cosine'? Available: cosine, ...``.

    A value that is not a string, such as YAML's ``nan``, is shown by its type."""
    names = sorted(known)
    available = f"Available: {', '.join(names)}"
    if not isinstance(name, str):
        got = _TYPES.get(type(name), "a list or keys")
        quoted = f"; write it in quotes of its own, '\"{name}\"'" if str(name) in names else ""
        shown = "null" if name is None else name
        return f"{kind} {shown}: expected a name, but {shown} is {got}{quoted}. {available}"
    close = difflib.get_close_matches(name, names, n=1)
    guess = f"; did you mean '{close[0]}'?" if close else "."
    return f"unknown {kind} '{name}'{guess} {available}"


def check_name(kind: str, name: Any, known: Iterable[str]) -> None:
    """Raise ``ValueError`` with the closest name unless ``name`` is in ``known``."""
    if name not in known:
        raise ValueError(unknown_name(kind, name, known))


def counted(num: int, noun: str) -> str:
    """Format a number with its noun: ``1 sample``, ``1,000 samples``, ``2 summaries``."""
    if num != 1:
        noun = f"{noun[:-1]}ies" if noun.endswith("ry") else f"{noun}s"
    return f"{num:,} {noun}"


KINDS: dict[Any, tuple[type, str]] = {
    int: (Integral, "a whole number"),
    float: (Real, "a number"),
    bool: (bool, "true or false"),
}
"""Abstract type of each type of values, and words for it."""


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """Bounds of a finite number; ``above`` and ``below`` are excluded. In an annotation:
    ``Annotated[float, Bounds(above=0, most=1)]``."""

    least: float = -math.inf
    above: float = -math.inf
    most: float = math.inf
    below: float = math.inf

    def admit(self, value: float) -> bool:
        """True for a finite number within the bounds."""
        return self.least <= value <= self.most and self.above < value < self.below

    @property
    def text(self) -> str:
        """End of a sentence: ``, at least 1``, `` above 0``, `` in (0, 1]``."""
        low, high = max(self.least, self.above), min(self.most, self.below)
        if self == Bounds():
            return ""
        if high == math.inf:
            return f" above {low}" if self.above == low else f", at least {low}"
        left, right = "[" if self.least == low else "(", "]" if self.most == high else ")"
        return f" in {left}{low}, {high}{right}"


@dataclass(frozen=True)
class OneOf:
    """Admitted ``words``, such as the keys of a table. In an annotation:
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
"""Share above 0, at most 1."""


def check_whole_number(key: str, value: Any, *, least: int, most: int | None = None) -> None:
    """Raise ``ValueError`` unless ``value`` is a whole number between the bounds."""
    if not is_a(Integral, value) or value < least or (most is not None and value > most):
        bounds = f"at least {least}" + ("" if most is None else f" and at most {most}")
        raise ValueError(f"{key}={value}: expected a whole number, {bounds}")


def check_divides(num: int, width: int, what: str, *, key: str = "n_heads") -> None:
    """Raise ``ValueError`` with the divisors of ``width`` unless ``num`` is a divisor.

    ``key``: config key of the number; ``what``: name and value of the width."""
    if num < 1 or width % num:
        divisors = ", ".join(str(k) for k in range(1, width + 1) if width % k == 0)
        raise ValueError(f"{key}={num} does not divide {what}; choose {divisors}")


def check_share(key: str, value: Any) -> None:
    """Raise ``ValueError`` unless ``value`` is a number between 0 and 1."""
    if not (is_number(value) and 0 < value < 1):
        raise ValueError(f"{key}={value}: expected a share between 0 and 1, e.g. {key}=0.5")


REDUCE_OVERHEAD = "reduce-overhead"
"""Value of ``compile`` besides true and false: PyTorch's mode that records CUDA graphs."""


def check_compile(value: Any) -> None:
    """Raise ``ValueError`` for an unknown value of the option ``compile``."""
    if not isinstance(value, bool) and value != REDUCE_OVERHEAD:
        raise ValueError(
            f"compile={value}: expected true, false, or {REDUCE_OVERHEAD}, CUDA graphs on a GPU"
        )


def are_whole_numbers(values: Any) -> bool:
    """True for a sequence of whole numbers."""
    listed = isinstance(values, Iterable) and not isinstance(values, str | bytes | Mapping)
    return listed and all(is_a(Integral, value) for value in values)


def is_number(value: Any) -> bool:
    """True for a number; bools do not count."""
    return is_a(Real, value)


def is_a(kind: type, value: Any) -> bool:
    """True for a value of the type; bools do not count as numbers."""
    return isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
