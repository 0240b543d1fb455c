"""Parts of other packages that a checkpoint needs, by the package or module that has them.

Reading a file imports nothing that the file names. A person names modules by ``plugins``, and
installed packages register themselves by their entry points; of all else a message states which
module the file names, that it was not imported, and what to type for one that is trusted.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, distribution, packages_distributions
from typing import Any

from discrete_diffusion.algorithms.registry import ALGORITHMS
from discrete_diffusion.config.files import as_list
from discrete_diffusion.config.plugins import own_packages
from discrete_diffusion.domains.registry import get_domain
from discrete_diffusion.forward_process.registry import PROCESSES
from discrete_diffusion.models.registry import backbone_builder
from discrete_diffusion.noise_schedules.registry import SCHEDULES
from discrete_diffusion.sampling.registry import SAMPLERS

_OF_MODELS = ("domain", "backbone", "algorithm", "noise schedule", "forward process")
"""The nouns of what a model consists of; another sampler can be named."""


def plugged_in(config: Mapping[str, Any]) -> list[dict[str, str]]:
    """The parts of a config's model, data and sampler that others registered: ``noun`` and
    ``name``, the ``module`` that has it and, of an installed package, the ``package``."""
    found = []
    for noun, name, find in _parts(config):
        module = _module_of(find(name))
        top = module.partition(".")[0]
        if top not in own_packages():
            part = {"noun": noun, "name": name, "module": module}
            packages = packages_distributions().get(top, [])
            found.append({**part, "package": packages[0]} if packages else part)
    return found


def modules_of(info: Mapping[str, Any]) -> list[str]:
    """The modules that a checkpoint's info remembers: those of its ``plugins=[...]``, and those of
    its parts that no package has."""
    named = as_list(info["config"].get("plugins"))
    own = [part["module"] for part in info.get("plugins", ()) if "package" not in part]
    return list(dict.fromkeys([*named, *(module for module in own if module != "__main__")]))


def missing_plugin(info: Mapping[str, Any], nouns: Collection[str] = _OF_MODELS) -> str | None:
    """The first of the parts of these ``nouns`` in a checkpoint's info that nobody has registered
    here, those that others have first, and what to do about it; None if there is none.

    A part of theirs that has the name of one of ours is missing too.
    """
    finders = {noun: (name, find) for noun, name, find in _parts(info["config"])}
    for part in info.get("plugins", ()):
        noun, name, module = (part[key] for key in ("noun", "name", "module"))
        used, find = finders.get(noun, (None, None))
        if noun not in nouns or used != name or find is None:
            continue
        try:
            if _module_of(find(name)).partition(".")[0] not in own_packages():
                continue
        except ValueError:
            pass
        package = part.get("package")
        if package is not None and not _is_installed(package):
            return f"needs the package {_shown(package)}, which has its {noun} '{name}'; install it"
        if module == "__main__":
            return (
                f"needs its {noun} '{name}', which a script or notebook registered; put that "
                "into a module and add plugins=[MODULE]"
            )
        own = [each for each in not_imported(info) if each.split(".")[0] == module.split(".")[0]]
        return f"needs its {noun} '{name}', {_how_to_trust(own or [module])}"
    for noun, (name, find) in finders.items():
        try:
            if noun in nouns:
                find(name)
        except ValueError as error:
            return f"cannot be rebuilt: {error}{modules_note(info)}"
    return None


def not_imported(info: Mapping[str, Any]) -> list[str]:
    """The modules in ``plugins`` of a checkpoint's config that were not imported here."""
    return [name for name in as_list(info["config"].get("plugins")) if name not in sys.modules]


def modules_note(info: Mapping[str, Any]) -> str:
    """``; it names the module x, which was not imported, ...``, the end of an error that may have
    this reason; nothing if there is no such module."""
    names = not_imported(info)
    return f"; the file names something of others, {_how_to_trust(names)}" if names else ""


def _how_to_trust(modules: Sequence[str]) -> str:
    """Message about modules that a file names, and how to trust them."""
    shown = [_shown(name) for name in modules]
    noun = "module" if len(shown) == 1 else "modules"
    it = "it" if len(shown) == 1 else "them"
    quoted = ", ".join(f'"{name}"' for name in shown)
    return (
        f"of the {noun} {', '.join(shown)}, not imported because reading a file runs no code; if "
        f"you trust {it}, add plugins=[{','.join(shown)}], in Python load(path, plugins=[{quoted}])"
    )


def _shown(name: Any) -> str:
    """A name that a file gives, without what a terminal would obey."""
    return str(name) if str(name).isprintable() else repr(name)


def _module_of(builder: Any) -> str:
    return str(getattr(builder, "__module__", __name__))  # a partial function has none


def _is_installed(package: str) -> bool:
    try:
        distribution(package)
    except (PackageNotFoundError, ValueError):
        return False
    return True


def _parts(config: Mapping[str, Any]) -> Iterator[tuple[str, str, Callable[[str], Any]]]:
    """Noun, name, and what finds the function or class of that name or raises ``ValueError``."""
    finders: dict[str, tuple[str, str, Callable[[str], Any]]] = {
        "domain": ("data", "domain", lambda name: type(get_domain(name))),
        "backbone": ("algo", "backbone", backbone_builder),
        "algorithm": ("algo", "name", ALGORITHMS.find),
        "noise schedule": ("noise", "name", SCHEDULES.find),
        "forward process": ("forward_process", "name", PROCESSES.find),
        "sampler": ("sampling", "name", SAMPLERS.find),
    }
    for noun, (group, key, find) in finders.items():
        if (name := (config.get(group) or {}).get(key)) is not None:
            yield noun, str(name), find
