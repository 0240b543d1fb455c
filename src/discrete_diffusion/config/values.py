"""Values of a config: names, numbers, bounds, and checks whose errors name the user's key.

Annotations of a constructor state names, types, bounds and defaults of its arguments:

    steps: Count = 100
    grid: Literal["auto", "uniform", "quadratic"] = "auto"
    eta: Annotated[float, Bounds(above=0, most=1)] = 0.1

``Checked`` reads them when an object is made, ``constructors`` when a config is composed.
"""

from __future__ import annotations

import difflib
import inspect
import math
import sys
import types
import typing
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from inspect import Parameter
from numbers import Integral, Real
from typing import Annotated, Any, ClassVar, Literal, get_args, get_origin

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
    """Allowed string values (``words``), such as the keys of a table. In an annotation:
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


# --- signatures of constructors ---

_TYPING = {
    **{name: getattr(typing, name) for name in typing.__all__},
    **{each.__name__: each for each in (bool, int, float, str, tuple, list, dict)},
    **{"field": lambda **keys: keys.get("default", ...), "tuple": tuple},
}
"""Names in annotations and defaults that are not defined in our modules."""

Signature = dict[str, Parameter]
"""Arguments by name, with evaluated annotations, or ``Any`` if that fails. It contains ``**`` if
further arguments are unknown."""


class _SignatureOfInit:
    """Descriptor by which ``inspect`` finds a class's signature in spite of ``Checked.__new__``."""

    def __get__(self, made: Any, cls: type) -> inspect.Signature:
        if made is not None:
            raise AttributeError("__signature__")
        if cls.__init__ is object.__init__:  # type: ignore[misc]
            return inspect.Signature()
        signature = inspect.signature(cls.__init__)  # type: ignore[misc]
        return signature.replace(parameters=list(signature.parameters.values())[1:])


class Checked:
    """Base class that checks its arguments against their annotations before ``__init__`` runs.

    ``section``: config section, for the key in the message."""

    section: ClassVar[str] = ""
    __signature__ = _SignatureOfInit()

    def __new__(cls, *args: Any, **options: Any) -> Any:
        """Make the object; raise ``ValueError`` for arguments of wrong type or out of bounds."""
        known = _of_class(cls)
        for key, value in [*zip(known, args, strict=False), *options.items()]:
            if key in known:
                name = f"{cls.section}.{key}" if cls.section else key
                check_value(name, value, known[key].annotation)
        return super().__new__(cls)


_of_class: Callable[[Any], Signature] = cache(lambda cls: imported_signature(cls))


def check_value(key: str, value: Any, annotation: Any) -> None:
    """Raise ``ValueError`` for a value that its annotation does not allow.

    Annotations of numbers, bool or strings are checked; other annotations allow any value."""
    limit = Limit.of(annotation)
    if limit is None or (limit.optional and value is None):
        return
    if limit.words:
        if isinstance(value, str) or not limit.others:
            check_name(key, value, limit.words)
    elif not is_a(KINDS[limit.kind][0], value) or not limit.bounds.admit(value):
        shown = "null" if value is None else value
        raise ValueError(f"{key}={shown}: expected {limit.text}")


@dataclass(frozen=True)
class Limit:
    """Values that an annotation allows.

    ``kind``: type of number, within ``bounds``; ``words``: allowed strings; ``others``: types that
    are not checked; ``optional``: True if null is allowed."""

    kind: Any
    bounds: Bounds
    words: tuple[str, ...]
    others: bool
    optional: bool

    @classmethod
    def of(cls, annotation: Any) -> Limit | None:
        """Read an annotation; None if it allows any value."""
        # members of a union, null apart
        union = get_origin(annotation) in (typing.Union, types.UnionType)
        members = get_args(annotation) if union else (annotation,)
        some = [member for member in members if member is not type(None)]
        kind, bounds, words, others = None, Bounds(), list[str](), False
        for member in some:
            # Annotated[kind, Bounds or OneOf], or Literal
            kind, *more = get_args(member) if get_origin(member) is Annotated else [member]
            bounds = next((each for each in more if isinstance(each, Bounds)), Bounds())
            named = [word for each in more if isinstance(each, OneOf) for word in each.words]
            named += get_args(kind) if get_origin(kind) is Literal else ()
            words += [word for word in named if word not in words]
            others |= not named
        number = len(some) == 1 and kind in (int, float, bool)
        if not words and not number:
            return None
        optional = len(members) > len(some)
        return cls(kind if number else None, bounds, tuple(words), others, optional)

    @property
    def text(self) -> str:
        """Describe the allowed values: ``a whole number, at least 1``."""
        said = " | ".join(self.words) or KINDS[self.kind][1] + self.bounds.text
        comma = "," * (self.bounds != Bounds())
        return said + f"{comma} or null" * self.optional


def imported_signature(build: Callable[..., Any]) -> Signature:
    """Return the arguments of an imported class or function, with evaluated annotations."""
    bases = inspect.getmro(build) if isinstance(build, type) else (build,)
    modules = [sys.modules.get(getattr(each, "__module__", None) or "") for each in bases]
    names = Names(*(vars(module) for module in modules if module is not None))
    names.update(getattr(inspect.unwrap(build), "__globals__", {}))
    found: Signature = {}
    for name, parameter in inspect.signature(build).parameters.items():
        annotation = names.evaluated(parameter.annotation)
        unpacked = get_origin(annotation) is typing.Unpack
        if not (unpacked and parameter.kind is parameter.VAR_KEYWORD):
            found[name] = parameter.replace(annotation=annotation)
            continue
        # **options: Unpack[D], keys of the TypedDict D
        (keys,) = get_args(annotation)
        own = Names(vars(sys.modules[keys.__module__]))
        for key, hint in keys.__annotations__.items():
            hint = own.evaluated(hint)
            found[key] = Parameter(key, Parameter.KEYWORD_ONLY, default=None, annotation=hint)
    return found


class Names(dict[str, Any]):
    """Names that annotations may use, including names of ``typing``."""

    def __init__(self, *known: Mapping[str, Any]) -> None:
        super().__init__()
        for names in (_TYPING, *reversed(known)):
            self.update(names)

    def evaluated(self, text: Any) -> Any:
        """Evaluate an annotation or default; return ``Any`` if it has unknown names."""
        text = text.__forward_arg__ if isinstance(text, typing.ForwardRef) else text
        if not isinstance(text, str):
            return text
        try:
            return eval(text, {"__builtins__": {}}, self)
        except (NameError, TypeError, AttributeError, SyntaxError):
            return Any
