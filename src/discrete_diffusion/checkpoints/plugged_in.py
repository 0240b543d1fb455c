"""What a checkpoint needs that is not of this package, by the package or module that has it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from importlib.metadata import packages_distributions
from typing import Any

_OURS = __name__.partition(".")[0]


_OF_MODELS = ("domain", "backbone", "algorithm", "noise schedule", "forward process")
"""The nouns of what a model consists of; another sampler can be named."""


def plugged_in(config: Mapping[str, Any]) -> list[dict[str, str]]:
    """The parts of a config's model, data and sampler that others registered: ``noun`` and
    ``name``, the ``module`` that has it and, of an installed package, the ``package``."""
    found = []
    for noun, name, find in _parts(config):
        module = getattr(find(name), "__module__", _OURS)  # a partial function has none
        top = module.partition(".")[0]
        if top != _OURS:
            part = {"noun": noun, "name": name, "module": module}
            packages = packages_distributions().get(top, [])
            found.append({**part, "package": packages[0]} if packages else part)
    return found


def modules_of(info: Mapping[str, Any]) -> list[str]:
    """The modules that a checkpoint's info remembers: those of its ``plugins=[...]``, and those of
    its parts that no package has."""
    named = [str(module) for module in info["config"].get("plugins") or ()]
    parts = [p["module"] for p in info.get("plugins", ()) if "package" not in p]
    return list(dict.fromkeys([*named, *(module for module in parts if module != "__main__")]))


def missing_plugin(info: Mapping[str, Any], nouns: Collection[str] = _OF_MODELS) -> str | None:
    """The first of the parts of these ``nouns`` in a checkpoint's info that nobody has registered
    here, and what to do about it; None if there is none."""
    finders = {noun: find for noun, _, find in _parts(info["config"])}
    for part in info.get("plugins", ()):
        noun, name, module = part["noun"], part["name"], part["module"]
        if noun not in nouns:
            continue
        try:
            finders[noun](name)
        except ValueError:
            if "package" in part:
                package = part["package"]
                return f"needs the package {package}, which has its {noun} '{name}'; install it"
            if module == "__main__":
                return (
                    f"needs its {noun} '{name}', which a script or notebook registered; put that "
                    "into a module and add plugins=[MODULE]"
                )
            return f"needs the module {module}, which has its {noun} '{name}': plugins=[{module}]"
    return None


def _parts(config: Mapping[str, Any]) -> Iterator[tuple[str, str, Callable[[str], Any]]]:
    """Noun, name, and what finds the function or class of that name or raises ``ValueError``."""
    from discrete_diffusion.algorithms import ALGORITHMS
    from discrete_diffusion.domains import get_domain
    from discrete_diffusion.forward_process import PROCESSES
    from discrete_diffusion.models.registry import backbone_builder
    from discrete_diffusion.noise_schedules import SCHEDULES
    from discrete_diffusion.sampling import SAMPLERS

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
