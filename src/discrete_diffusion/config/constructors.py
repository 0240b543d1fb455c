"""Checks of config values by the signatures of constructors and by defaults.

Signatures of our own classes are read from the source code, so that torch is not imported.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from inspect import Parameter
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, get_origin

from discrete_diffusion.config.plugins import LazyEntry, Registry, own_packages
from discrete_diffusion.config.values import (
    Checked,
    Names,
    Signature,
    check_value,
    imported_signature,
    is_a,
    is_number,
)

if TYPE_CHECKING:
    from omegaconf import DictConfig

_HELD = (bool, int, float, str, list, tuple, dict, type(None))
"""Types of values that a config can hold."""


def _takes_any(signature: Signature) -> bool:
    """True if a signature has unknown arguments."""
    return any(parameter.kind is parameter.VAR_KEYWORD for parameter in signature.values())


def signature_of(build: Callable[..., Any]) -> Signature:
    """Return the arguments of a class, function or ``LazyEntry``.

    ``**options: Unpack[D]`` gives the keys of the ``TypedDict`` D, unless only type checkers know
    its name."""
    if isinstance(build, LazyEntry):
        read = _read_callable(build.__module__, build.__qualname__)
        return imported_signature(build.load()) if read is None else read
    return imported_signature(build)


def defaults_of(build: Callable[..., Any]) -> dict[str, Any]:
    """Defaults of the arguments of ``build`` that a config can hold.

    Defaults of base classes are included if ``build`` passes arguments on to them."""
    # defaults of the bases, then of the class itself
    known = signature_of(build)
    hands_on = _takes_any(known)
    bases = inspect.getmro(build) if inspect.isclass(build) else ()
    found: dict[str, Any] = {}
    for function in [*(base.__init__ for base in reversed(bases)), build]:  # type: ignore[misc]
        for name, parameter in inspect.signature(function).parameters.items():
            if name in known or hands_on:
                found[name] = parameter.default
    return {name: value for name, value in found.items() if isinstance(value, _HELD)}


def check_options(
    section: str,
    name: str,
    build: Callable[..., Any],
    options: Mapping[str, Any],
    *,
    given: int = 0,
    also: tuple[str, ...] = (),
    names_alone: bool = False,
) -> None:
    """Raise ``ValueError`` for unknown or missing options of ``build``, and for wrong values.

    A message is ``mdlm has no setting 'block_size'; it has time_sampling, ...``. ``section``:
    section of the config, ``algo`` for ``algo.time_sampling``. ``given``: leading parameters that
    do not count as options; ``also``: names of further parameters that are not options.
    ``names_alone``: do not check the values, as ``build`` does.
    """
    known = dict(list(signature_of(build).items())[given:])
    if _takes_any(known):
        return
    known = {key: parameter for key, parameter in known.items() if key not in also}
    for key, value in options.items():
        if key not in known:
            settings = ", ".join(sorted(known)) or "none"
            raise ValueError(f"{name} has no setting '{key}'; it has {settings}")
        if not names_alone:
            check_value(f"{section}.{key}", value, known[key].annotation)
    # settings that are missing
    for key, parameter in known.items():
        if parameter.default is parameter.empty and key not in options:
            raise ValueError(f"{name} needs {section}.{key}=...")


def check_keys(config: DictConfig, annotations: Mapping[str, Any]) -> None:
    """Apply ``check_value`` to the keys of a config that exist and are not null."""
    from omegaconf import OmegaConf

    for key, annotation in annotations.items():
        if (value := OmegaConf.select(config, key)) is not None:
            check_value(key, value, annotation)


def build_part(
    section: str, registry: Registry[Any], config: Mapping[str, Any], *given: Any
) -> Any:
    """Build the part ``config["name"]`` of a registry.

    Its arguments are ``given`` and the other keys. Raises ``ValueError`` for an unknown name, and
    as ``check_options``."""
    options = dict(config)
    name = options.pop("name")
    build = registry.find(name)
    checks_itself = isinstance(build, type) and issubclass(build, Checked)
    check_options(section, name, build, options, given=len(given), names_alone=checks_itself)
    return build(*given, **options)


# --- signatures read off the source, without an import ---


@cache
def _statements_of_module(module: str) -> dict[str, ast.stmt]:
    """Top-level statements of a module by the name that each defines or imports."""
    # the file, without importing the packages that it is in
    package, *parts = module.split(".")
    spec = find_spec(package)
    place = Path((spec and spec.origin) or "").parent.joinpath(*parts)
    names = (place.with_suffix(".py"), place / "__init__.pyi", place / "__init__.py")
    file = next((each for each in names if each.is_file()), None)
    if file is None:
        return {}
    found: dict[str, ast.stmt] = {}
    todo: list[ast.stmt] = ast.parse(file.read_text(encoding="utf-8")).body
    for node in todo:
        # imports under TYPE_CHECKING count too
        if isinstance(node, ast.If):
            todo += node.body
        elif isinstance(node, ast.ImportFrom):
            # relative imports are in the stub of a package
            if node.level:
                node.module = f"{module}.{node.module}"
            found |= {alias.asname or alias.name: node for alias in node.names}
        elif isinstance(node, ast.ClassDef | ast.FunctionDef):
            found[node.name] = node
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {target.id: node for target in targets if isinstance(target, ast.Name)}
    return found


def _definition(module: str, name: str) -> tuple[str, ast.stmt | None]:
    """Follow the imports of a name to the defining module; return the module and definition."""
    node = _statements_of_module(module).get(name)
    while isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in own_packages():
        (alias,) = (each for each in node.names if name in (each.asname, each.name))
        module, name = str(node.module), alias.name
        node = _statements_of_module(module).get(name)
    return module, node


class _NamesOfSource(Names):
    """Constants of a module, read from its source, and names imported from ``config``."""

    def __init__(self, module: str) -> None:
        super().__init__()
        self.module = module

    def __missing__(self, name: str) -> Any:
        module, node = _definition(self.module, name)
        if module.startswith("discrete_diffusion.config."):
            return getattr(import_module(module), name)
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Dict):
            return {ast.literal_eval(key): None for key in node.value.keys if key is not None}
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            return _NamesOfSource(module).read(node.value)
        raise NameError(name)

    def read(self, node: ast.expr | None) -> Any:
        return Parameter.empty if node is None else self.evaluated(ast.unparse(node))

    def parameter(self, name: str, default: ast.expr | None, hint: ast.expr | None) -> Parameter:
        """Make a keyword argument with its default and annotation."""
        value, annotation = self.read(default), self.read(hint)
        return Parameter(name, Parameter.KEYWORD_ONLY, default=value, annotation=annotation)


def _read_callable(module: str, name: str) -> Signature | None:
    """Read the arguments of our class or function; None if its source does not list all."""
    module, node = _definition(module, name)
    if isinstance(node, ast.FunctionDef):
        return _read_function(module, node.args, skip=0)
    if not isinstance(node, ast.ClassDef):
        return None
    for each in node.body:
        if isinstance(each, ast.FunctionDef) and each.name == "__init__":
            return _read_function(module, each.args, skip=1)
    # without a constructor: arguments of the first base, and fields of a dataclass
    bases = [base.value if isinstance(base, ast.Subscript) else base for base in node.bases]
    named = [base.id for base in bases if isinstance(base, ast.Name)]
    found = next((read for base in named if (read := _read_callable(module, base))), {})
    decorators = [each.func if isinstance(each, ast.Call) else each for each in node.decorator_list]
    if any(isinstance(each, ast.Name) and each.id == "dataclass" for each in decorators):
        return found | _read_fields(module, node)
    return found


def _read_fields(module: str, node: ast.ClassDef) -> Signature:
    """Read the fields of a dataclass, or the keys of a ``TypedDict``."""
    names = _NamesOfSource(module)
    found: Signature = {}
    for each in node.body:
        if not isinstance(each, ast.AnnAssign) or not isinstance(each.target, ast.Name):
            continue
        field = names.parameter(each.target.id, each.value, each.annotation)
        init = "init=False" not in ast.unparse(each)
        if init and ClassVar not in (get_origin(field.annotation), field.annotation):
            found[field.name] = field
    return found


def _read_function(module: str, args: ast.arguments, *, skip: int) -> Signature | None:
    """Read the arguments of a function, without the first ``skip``."""
    names = _NamesOfSource(module)
    # arguments with their defaults
    positional = [*args.posonlyargs, *args.args]
    missing = [None] * (len(positional) - len(args.defaults))
    pairs = [
        *list(zip(positional, [*missing, *args.defaults], strict=True))[skip:],
        *zip(args.kwonlyargs, args.kw_defaults, strict=True),
    ]
    found: Signature = {
        each.arg: names.parameter(each.arg, default, each.annotation) for each, default in pairs
    }
    if args.kwarg is None:
        return found
    # **options: Unpack[D]
    text = "" if args.kwarg.annotation is None else ast.unparse(args.kwarg.annotation)
    owner, node = _definition(module, text.removeprefix("Unpack[").removesuffix("]"))
    if not text.startswith("Unpack[") or not isinstance(node, ast.ClassDef):
        return None
    for key, parameter in _read_fields(owner, node).items():
        found[key] = parameter.replace(default=None)
    return found


# --- types of values compared with defaults ---

_MAY_BE_NULL = ("trainer.", "callbacks.ema_decay", "init.", "resume", "size_tolerance")
"""Prefixes of keys for which null means "off"."""

_OF_CONSTRUCTORS = ("algo.", "forward_process.", "schedule.", "sampling.")
"""Prefixes of keys whose values are checked by a signature."""

_OF_SEVERAL_KINDS = ("trainer.devices", "compile")
"""Keys that may be a number or a text, checked where they are read."""


def check_kinds(config: DictConfig, defaults: DictConfig, *, described: bool = False) -> None:
    """Apply ``check_kinds_of`` to composed configs.

    ``described``: True to leave out keys that are checked by signatures."""
    from omegaconf import OmegaConf

    plain: list[Any] = [OmegaConf.to_container(each, resolve=False) for each in (config, defaults)]
    for group in _OF_CONSTRUCTORS if described else ():
        plain[0].pop(group.rstrip("."), None)
    check_kinds_of(*plain)


def check_kinds_of(given: Any, expected: Any) -> None:
    """Raise ``ValueError`` for the first value in a plain config that has a wrong type.

    It must have the type of its default in ``expected``. Any value is right if the default is null
    or an interpolation; a number is right if the default is text (``trainer.devices=2``)."""
    for key, value, default in _default_pairs("", given, expected):
        off = value is None and key.startswith(_MAY_BE_NULL)
        off |= (
            value is None
            and key.startswith(_OF_CONSTRUCTORS)
            and _value_kind(default) == "a number"
        )
        if not off and key not in _OF_SEVERAL_KINDS:
            check_kind(key, value, default)


def check_kind(key: str, value: Any, default: Any) -> None:
    """Raise ``ValueError`` unless a value has the type of its default, which may be null."""
    wanted, got = _value_kind(default), _value_kind(value)
    if default is None or got == wanted or (wanted, got) == ("text", "a number"):
        return
    shown = "null" if value is None else value
    usual = str(default).lower() if isinstance(default, bool) else default
    raise ValueError(f"{key}={shown}: expected {wanted}, as in the default {key}={usual}")


def _default_pairs(key: str, given: Any, default: Any) -> Iterator[tuple[str, Any, Any]]:
    """Yield (key, value, default) of the leaves in both configs, if the default has a type."""
    if isinstance(given, dict) and isinstance(default, dict):
        for name in given.keys() & default.keys():
            yield from _default_pairs(
                f"{key}.{name}" if key else str(name), given[name], default[name]
            )
    elif isinstance(given, list) and isinstance(default, list):
        for k, value in enumerate(given if default else []):
            yield from _default_pairs(f"{key}[{k}]", value, default[min(k, len(default) - 1)])
    elif default is not None:
        texts = [value for value in (given, default) if isinstance(value, str)]
        # an interpolation has the type of the value that it refers to
        if not any("${" in text for text in texts):
            yield key, given, default


def _value_kind(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, int | float):
        return "a number"
    if isinstance(value, str):
        return "text"
    return "a list" if isinstance(value, list) else "keys"


def leaves(
    config: Mapping[str, Any], prefix: str = "", *, empty: bool = False
) -> Iterator[tuple[str, Any]]:
    """Yield the values of a nested config with their dotted keys: ``("algo.name", "mdlm")``, ...

    ``empty``: True if an empty section is a value too."""
    for key, value in config.items():
        if isinstance(value, Mapping) and (value or not empty):
            yield from leaves(value, f"{prefix}{key}.", empty=empty)
        else:
            yield f"{prefix}{key}", value


def set_derived(config: MutableMapping[str, Any], section: str, values: Mapping[str, Any]) -> None:
    """Write ``values`` that the data decides into a ``section`` of a config.

    Raises ``ValueError`` for a key that has another value."""
    for key, value in values.items():
        if config.get(key) not in (None, value):
            raise ValueError(
                f"{section}.{key}={config[key]}, but the data has {value}; leave it out"
            )
        config[key] = value


def check_scaling(what: str, preset: Mapping[str, Any]) -> None:
    """Raise ``ValueError`` unless ``scales_with`` of a model preset names keys of whole numbers.

    ``what``: name of the preset in the message."""
    named = preset.get("scales_with") or ()
    sizes = [key for key, value in leaves(preset) if is_a(Integral, value) and key != "parameters"]
    for key in [named] if isinstance(named, str) else named:
        if key not in sizes:
            raise ValueError(
                f"{what}: scales_with names {key!r}, expected a key of it that holds a whole "
                f"number: {', '.join(sizes) or 'it has none'}"
            )


def check_share(key: str, value: Any, *, whole: bool = False) -> None:
    """Raise ``ValueError`` unless ``value`` is a number between 0 and 1, or 1 if ``whole``."""
    if not (is_number(value) and (0 < value < 1 or (whole and value == 1))):
        raise ValueError(f"{key}={value}: expected a share between 0 and 1, e.g. {key}=0.5")
