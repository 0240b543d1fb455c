"""Values of a config, checked against a constructor or a default; errors name the user's key."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import suppress
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

from discrete_diffusion.config.values import is_a

if TYPE_CHECKING:
    from omegaconf import DictConfig

_KINDS: dict[str, tuple[type, str]] = {
    "int": (Integral, "a whole number"),
    "float": (Real, "a number"),
    "bool": (bool, "true or false"),
}

_PLAIN = (bool, int, float, str, list, tuple, dict, type(None))
"""Types of values that a config holds."""


def check_options(
    section: str,
    name: str,
    build: Callable[..., Any],
    options: Mapping[str, Any],
    *,
    given: int = 0,
) -> None:
    """Raise ``ValueError`` for an option that ``build`` does not take, lacks, or declares to be of
    another kind: ``mdlm has no setting 'block_size'; it has draw, time_conditioning``.

    ``section``: where the config holds the options, ``algo`` for ``algo.draw``. ``given``: how many
    leading parameters of ``build`` are no options. Annotations int, float and bool are checked,
    with or without ``| None``; others pass.
    """
    known = dict(list(_parameters(build).items())[given:])
    if any(p.kind is p.VAR_KEYWORD for p in known.values()):
        return
    for key, value in options.items():
        if key not in known:
            settings = ", ".join(sorted(known)) or "none"
            raise ValueError(f"{name} has no setting '{key}'; it has {settings}")
        _check_kind(f"{section}.{key}", value, known[key].annotation)
    for key, parameter in known.items():
        if parameter.default is parameter.empty and key not in options:
            raise ValueError(f"{name} needs {section}.{key}=...")


def _parameters(build: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """Parameters by name; in the place of ``**options: Unpack[D]`` the keys of the ``TypedDict`` D,
    unless its name is known to type checkers alone."""
    found = {}
    for name, parameter in inspect.signature(build).parameters.items():
        found[name] = parameter
        if parameter.kind is parameter.VAR_KEYWORD and "Unpack[" in str(parameter.annotation):
            function = build.__init__ if isinstance(build, type) else build  # type: ignore[misc]
            with suppress(NameError):
                (keys,) = get_args(get_type_hints(function)[name])
                del found[name]
                found |= {
                    key: parameter.replace(
                        name=key, kind=parameter.KEYWORD_ONLY, default=None, annotation=hint
                    )
                    for key, hint in get_type_hints(keys).items()
                }
    return found


def constructor_defaults(build: Callable[..., Any]) -> dict[str, Any]:
    """Defaults of the named arguments of ``build`` that a config can hold: numbers, text, null,
    lists and keys; of a class also of what it hands on to its bases."""
    known = _parameters(build)
    hands_on = any(p.kind is p.VAR_KEYWORD for p in known.values())
    bases = inspect.getmro(build) if inspect.isclass(build) else ()
    found: dict[str, Any] = {}
    for function in [*(base.__init__ for base in reversed(bases)), build]:  # type: ignore[misc]
        for name, parameter in inspect.signature(function).parameters.items():
            if name in known or hands_on:
                found[name] = parameter.default
    return {name: value for name, value in found.items() if isinstance(value, _PLAIN)}


def check_scaling(what: str, preset: Mapping[str, Any]) -> None:
    """Raise ``ValueError`` unless ``scales_with`` of a model preset, ``what``, is absent or names
    keys of it that hold whole numbers."""
    named = preset.get("scales_with") or ()
    sizes = [key for key, value in leaves(preset) if is_a(Integral, value) and key != "parameters"]
    for key in [named] if isinstance(named, str) else named:
        if key not in sizes:
            raise ValueError(
                f"{what}: scales_with names {key!r}, expected a key of it that holds a whole "
                f"number: {', '.join(sizes) or 'it has none'}"
            )


def _check_kind(key: str, value: Any, annotation: Any) -> None:
    """``annotation``: a type, or its text."""
    text = annotation.__name__ if isinstance(annotation, type) else str(annotation)
    wanted, _, optional = text.partition(" | ")
    if wanted not in _KINDS or (optional == "None" and value is None):
        return
    kind, words = _KINDS[wanted]
    if optional in ("", "None") and not is_a(kind, value):
        or_null = " or null" if optional else ""
        raise ValueError(f"{key}={'null' if value is None else value}: expected {words}{or_null}")


def set_derived(config: MutableMapping[str, Any], section: str, values: Mapping[str, Any]) -> None:
    """Write into a ``section`` of a config what follows from the data. Raise ``ValueError`` for a
    key that is set to something else."""
    for key, value in values.items():
        if config.get(key) not in (None, value):
            raise ValueError(
                f"{section}.{key}={config[key]}, but the data has {value}; leave it out"
            )
        config[key] = value


def leaves(config: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every value of a nested config with its dotted key: ``("algo.name", "mdlm")``, ..."""
    for key, value in config.items():
        if isinstance(value, Mapping):
            yield from leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


_MAY_BE_NULL = ("trainer.", "callbacks.ema_decay", "init.", "resume", "size_tolerance")
"""Beginnings of keys whose value null means "off"."""

_OF_CONSTRUCTORS = ("algo.", "forward_process.", "noise.", "sampling.")
"""Beginnings of keys whose numbers ``check_options`` compares with a constructor's annotations."""

_OF_SEVERAL_KINDS = ("trainer.devices", "compile")
"""A number or text, checked where it is read."""


def check_kinds(config: DictConfig, defaults: DictConfig) -> None:
    """``check_kinds_of`` for composed configs."""
    from omegaconf import OmegaConf

    check_kinds_of(*(OmegaConf.to_container(each, resolve=False) for each in (config, defaults)))


def check_kinds_of(given: Any, expected: Any) -> None:
    """Raise ``ValueError`` for the first value of a plain config that is not of the kind of its
    default in ``expected``: a number, true or false, text, a list, keys.

    Anything passes where the default is null or an interpolation, a number where it is text
    (``trainer.devices=2``), and null for a constructor's number, which ``check_options`` checks.
    """
    for key, value, default in _pairs("", given, expected):
        wanted, got = _kind(default), _kind(value)
        off = got == "null" and key.startswith(_MAY_BE_NULL)
        off |= (wanted, got) == ("a number", "null") and key.startswith(_OF_CONSTRUCTORS)
        if not off and key not in _OF_SEVERAL_KINDS:
            check_kind(key, value, default)


def check_kind(key: str, value: Any, default: Any) -> None:
    """Raise ``ValueError`` unless a value is of the kind of its default, which may be null."""
    wanted, got = _kind(default), _kind(value)
    if default is None or got == wanted or (wanted, got) == ("text", "a number"):
        return
    shown = "null" if value is None else value
    usual = str(default).lower() if isinstance(default, bool) else default
    raise ValueError(f"{key}={shown}: expected {wanted}, as in the default {key}={usual}")


def _pairs(key: str, given: Any, default: Any) -> Iterator[tuple[str, Any, Any]]:
    """(key, value, default) of every leaf that both have and whose default has a kind."""
    if isinstance(given, dict) and isinstance(default, dict):
        for name in given.keys() & default.keys():
            yield from _pairs(f"{key}.{name}" if key else str(name), given[name], default[name])
    elif isinstance(given, list) and isinstance(default, list):
        for k, value in enumerate(given if default else []):
            yield from _pairs(f"{key}[{k}]", value, default[min(k, len(default) - 1)])
    elif default is not None:
        texts = [value for value in (given, default) if isinstance(value, str)]
        if not any("${" in text for text in texts):  # interpolated: of the kind it points to
            yield key, given, default


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, int | float):
        return "a number"
    if isinstance(value, str):
        return "text"
    return "a list" if isinstance(value, list) else "keys"
