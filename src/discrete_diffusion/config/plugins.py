"""Plug-ins: registries of builders by name, entry points of packages, and users' modules."""

from __future__ import annotations

import importlib
import logging
import os
import sys
import sysconfig
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, distribution, entry_points
from importlib.util import find_spec
from pathlib import Path
from traceback import walk_tb
from types import ModuleType
from typing import Any, Generic, TypeVar

from discrete_diffusion.config.values import unknown_name

_Builder = TypeVar("_Builder", bound=Callable[..., Any])
_Registered = TypeVar("_Registered", bound=Callable[..., Any])

logger = logging.getLogger(__name__)

_LOADED: set[tuple[str, str, str]] = set()


class LazyEntry:
    """Built-in class or function, imported when it is first called.

    ``where``: ``module:name``. ``facts``: class attributes that are needed before the import and
    differ from the default; a test compares them with the class.
    """

    def __init__(self, where: str, **facts: Any) -> None:
        self.__module__, _, self.__qualname__ = where.partition(":")
        vars(self).update(facts)

    @classmethod
    def within(cls, package: str | None) -> Callable[..., LazyEntry]:
        """Return a function that makes entries for the modules of a package."""
        return lambda where, **facts: cls(f"{package}.{where}", **facts)

    def load(self) -> Any:
        """Import the class or function."""
        return getattr(import_module(self.__module__), self.__qualname__)

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        return self.load()(*args, **keywords)


class Later(ModuleType):
    """Stand-in for a module, which is imported when one of its names is first used."""

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module(self.__name__), name)


@dataclass(frozen=True)
class Registry(Generic[_Builder]):
    """Builders by name; built-in builders are ``LazyEntry``.

    Builders of the entry-point ``group`` are added when a name is unknown or all are listed."""

    noun: str
    group: str
    builders: dict[str, _Builder | LazyEntry]

    def register(self, name: str) -> Callable[[_Registered], _Registered]:
        """Decorator that registers a builder as ``name``; ``ValueError`` if the name is taken."""

        def enter(builder: _Registered) -> _Registered:
            refuse_taken(self.noun, name, self.builders.get(name), builder)
            self.builders[name] = builder  # type: ignore[assignment]
            return builder

        return enter

    def names(self) -> list[str]:
        """Names of all, plug-ins included; a builder without a name takes its entry point's."""

        def enter(name: str, builder: Any) -> None:
            if not any(known is builder for known in self.builders.values()):
                self.register(name)(builder)

        load_plugins(self.group, self.noun, enter)
        return list(self.builders)

    def all(self) -> dict[str, _Builder]:
        """All builders by name, including plug-ins."""
        return {name: self.find(name) for name in self.names()}

    def entry(self, name: str) -> _Builder | LazyEntry:
        """Return the builder of that name; if it is built-in, its ``LazyEntry`` without an import.

        Raises ``ValueError`` with the closest name for an unknown one."""
        if name not in self.builders and name not in self.names():
            raise ValueError(unknown_name(self.noun, name, self.builders))
        return self.builders[name]

    def find(self, name: str) -> _Builder:
        """Import the builder of that name; raise ``ValueError`` as ``entry``."""
        builder = self.entry(name)
        return builder.load() if isinstance(builder, LazyEntry) else builder


def refuse_taken(noun: str, name: str, known: Any, new: Any) -> None:
    """Raise ``ValueError`` if ``name`` is registered for ``known``, which is not ``new``.

    A module or notebook cell that runs again may register its top-level objects again. ``known`` is
    None if the name is free."""
    again = _origin(known) == _origin(new) and "<" not in _origin(new)
    if known is not None and known is not new and not again:
        raise ValueError(
            f"{noun} {name!r} is already registered by {_origin(known)}; choose another name"
        )


def _origin(builder: Any) -> str:
    name = getattr(builder, "__qualname__", repr(builder))
    return f"{getattr(builder, '__module__', '?')}.{name}"


def import_plugins(modules: Any) -> None:
    """Import the ``modules`` of a config's ``plugins``, so that they register their parts.

    Only for modules that a user typed, never for modules named in a file. Raises ``ValueError``
    naming a module that cannot be imported, and the reason.
    """
    if modules is None:
        return
    # a list of names
    listed = isinstance(modules, Sequence) and not isinstance(modules, str)
    if not listed or not all(isinstance(name, str) for name in modules):
        raise ValueError(f"plugins={modules}: expected a list, as in plugins=[my_package.module]")
    if modules:
        _look_in_this_folder()
    for name in modules:
        _imported("plugins", name)


def _imported(key: str, module: str, path: Any = None) -> ModuleType:
    """Import a module of the user; ``ValueError`` naming the ``key``, and its value ``path``."""
    try:
        return import_module(module)
    except (Exception, SystemExit) as error:  # a user's code may raise anything
        named = f"{key}: {module}" if path is None else f"{key}={path}"
        reason = _reason(error)
        if isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{error.name}."):
            reason += "; name a module that is installed or lies in this folder, without .py"
        raise ValueError(f"{named} cannot be imported: {reason}") from error


def imported_object(key: str, path: Any) -> Callable[..., Any]:
    """Import the class or function ``package.module.Class`` that a config key names.

    Only for names that a user typed. Raises ``ValueError`` naming the key, and the closest name.
    """
    # the module and the name in it
    module, _, name = str(path).rpartition(".")
    if not module or not name.isidentifier():
        shown = "null" if path is None else path
        raise ValueError(f"{key}={shown}: expected package.Class, as in {key}=torch.optim.SGD")
    if find_spec(module.partition(".")[0]) is None:
        _look_in_this_folder()
    found = _imported(key, module, path)
    # a class or function of that name
    if not callable(known := getattr(found, name, None)):
        names = [each for each in vars(found) if callable(getattr(found, each)) and each[0] != "_"]
        raise ValueError(f"{key}: {unknown_name(f'class of {module}', name, names)}")
    return known


def _look_in_this_folder() -> None:
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())


@cache
def own_packages() -> frozenset[str]:
    """Top-level packages of this distribution."""
    ours = __name__.partition(".")[0]
    try:
        entries = distribution("discrete-diffusion").entry_points
    except PackageNotFoundError:  # run from its sources
        return frozenset({ours})
    return frozenset({ours, *(entry.module.partition(".")[0] for entry in entries)})


def packages_of(group: str) -> list[str]:
    """Names of the modules of an entry-point ``group``, which are not imported."""
    return [entry_point.module for entry_point in entry_points(group=group)]


def folders_of(group: str) -> list[Path]:
    """Folders of the packages that an entry-point ``group`` names."""
    specs = map(find_spec, packages_of(group))
    places = (place for spec in specs if spec for place in spec.submodule_search_locations or ())
    return [Path(place) for place in dict.fromkeys(places)]


def load_plugins(
    group: str,
    noun: str,
    register: Callable[[str, Any], None] = lambda name, loaded: None,
    *,
    only: str | None = None,
) -> None:
    """Import the entry points of a ``group`` that are not yet imported, or ``only`` one of them.

    A module registers its parts on import; for other entry points ``register`` is called with name
    and object. A broken entry point is logged as a ``noun`` with its name, and left out.
    """
    for entry_point in entry_points(group=group):
        # each is tried once in a process
        key = (group, entry_point.name, entry_point.value)
        if key in _LOADED or only not in (None, entry_point.name):
            continue
        _LOADED.add(key)
        try:
            loaded = entry_point.load()
            if not isinstance(loaded, ModuleType):
                if not callable(loaded):
                    raise TypeError(f"expected a module or a builder, got {type(loaded).__name__}")
                register(entry_point.name, loaded)
        except Exception as error:  # others' code, which must not break the command
            package = entry_point.dist.name if entry_point.dist else "an unknown package"
            logger.warning(
                "%s plug-in '%s' (%s, from %s) was left out: %s; mend or uninstall it",
                *(noun, entry_point.name, entry_point.value, package, _reason(error)),
            )


def _reason(error: BaseException) -> str:
    """Format an error on one line: ``NameError: name 'x' is not defined (FILE, line 3)``."""
    said = error.msg if isinstance(error, SyntaxError) else str(error)
    reason = f"{type(error).__name__}: {' '.join(said.split())}".removesuffix(": ")
    place = place_of(error)
    return f"{reason} ({place})" if place else reason


def place_of(error: BaseException) -> str:
    """Place ``FILE, line N`` in the user's code that raised an error; "" if unknown."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}, line {error.lineno}"
    ours = (str(Path(__file__).parents[2] / name) for name in own_packages())
    passed = ("<", *ours, str(Path(importlib.__file__).parent))
    # frames outside our packages, preferably outside installed libraries
    places = [(frame.f_code.co_filename, line) for frame, line in walk_tb(error.__traceback__)]
    places = [place for place in places if not place[0].startswith(passed)]
    own = [place for place in places if not place[0].startswith((*sysconfig.get_paths().values(),))]
    return "".join("{}, line {}".format(*place) for place in (own or places)[-1:])
