"""Signatures of constructors: names, types, bounds and defaults of their arguments.

Annotations of a constructor state all of them:

    steps: Count = 100
    grid: Literal["auto", "uniform", "squared"] = "auto"
    eta: Annotated[float, Bounds(above=0, most=1)] = 0.1

``Checked`` reads them when an object is made, ``constructors`` when a config is composed.
"""

from __future__ import annotations

import inspect
import sys
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from inspect import Parameter
from typing import Annotated, Any, ClassVar, Literal, get_args, get_origin

from discrete_diffusion.config.values import KINDS, Bounds, OneOf, check_name, is_a

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
    """Raise ``ValueError`` for a value that its annotation does not admit.

    Annotations of int, float, bool or words, also with bounds or null, are checked; others admit
    any value."""
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
    """Values that an annotation admits.

    ``kind``: type of number, within ``bounds``; ``words``: admitted words; ``others``: types that
    are not checked; ``optional``: True if null is admitted."""

    kind: Any
    bounds: Bounds
    words: tuple[str, ...]
    others: bool
    optional: bool

    @classmethod
    def of(cls, annotation: Any) -> Limit | None:
        """Read an annotation; None for one that admits anything."""
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
        """Describe the admitted values: ``a whole number, at least 1``."""
        said = " | ".join(self.words) or KINDS[self.kind][1] + self.bounds.text
        comma = "," * (self.bounds != Bounds())
        return said + f"{comma} or null" * self.optional


def takes_any(signature: Signature) -> bool:
    """True if a signature has unknown arguments."""
    return any(parameter.kind is parameter.VAR_KEYWORD for parameter in signature.values())


def imported_signature(build: Callable[..., Any]) -> Signature:
    """Return the arguments of an imported class or function.

    Annotations that are strings are evaluated with the names in the modules of its bases."""
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
