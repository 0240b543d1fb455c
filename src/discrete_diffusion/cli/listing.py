"""``discrete-diffusion list``: what there is, and what fits what."""

from __future__ import annotations

import inspect
from collections.abc import Callable

from rich.console import Console
from rich.table import Table

from discrete_diffusion.cli.compose import choices, model_presets
from discrete_diffusion.models.registry import available_backbones, backbone_spec, usable_backbones

_GROUPS = {
    "noise": "noise schedules",
    "forward_process": "forward processes",
    "data": "data sets",
    "optim": "optimisers",
    "logger": "loggers",
    "experiment": "experiments",
    "debug": "debug recipes",
}


def print_listing() -> None:
    """Print backbones with what they read and their presets, algorithms with what fits them,
    samplers with the noise and the algorithms they fit, then the choices of every other config
    group."""
    console = Console()
    console.print(_backbones())
    console.print()
    console.print(_algorithms())
    console.print()
    console.print(_samplers())
    console.print()
    groups = Table("choose with", "what", "choices", box=None)
    for group, title in _GROUPS.items():
        if names := choices(group):
            groups.add_row(f"{group}=", title, ", ".join(names))
    console.print(groups)
    console.print(
        "\nalgo=NAME chooses a forward process and a sampler that fit it; the first process stands "
        "first.\nA sampler fits the algorithms beside it, with forward_process=absorbing if it is "
        "for absorbing noise.\n"
        "Every algorithm takes every schedule but noise=learned, which is for meld.",
        highlight=False,
    )


def _backbones() -> Table:
    presets = model_presets()
    table = Table("backbone", "reads", "causal", "model presets", box=None, title_justify="left")
    for name in available_backbones():
        spec = backbone_spec(name)
        fitting = [
            f"{preset} ({size:,})" for preset, (fits, size) in presets.items() if name in fits
        ]
        shown = ", ".join(fitting) or spec.default_model or "any"
        table.add_row(name, spec.state, "yes" if spec.causal else "no", shown)
    return table


def _algorithms() -> Table:
    """Of the registry; what the classes say of themselves."""
    from discrete_diffusion.algorithms import _ALGORITHM_BUILDERS

    table = Table("algo=", "forward processes", "backbones", box=None)
    everything = usable_backbones(())
    for name, algorithm in sorted(_ALGORITHM_BUILDERS.items()):
        usable = usable_backbones(getattr(algorithm, "backbone_needs", ()))
        table.add_row(
            name,
            ", ".join(getattr(algorithm, "processes", ())),
            "any" if usable == everything else ", ".join(usable) or "none yet",
        )
    return table


def _samplers() -> Table:
    """Of the registry, with what the first lines of their modules say."""
    from discrete_diffusion.algorithms import _ALGORITHM_BUILDERS
    from discrete_diffusion.sampling import _SAMPLER_BUILDERS

    table = Table("sampling=", "noise", "algo=", "what it does", box=None)
    for name, sampler in sorted(_SAMPLER_BUILDERS.items()):
        noise = "absorbing" if getattr(sampler, "absorbing_only", False) else "any"
        fitting = sampled_by(name)
        others = sorted(set(_ALGORITHM_BUILDERS) - set(fitting))
        few = len(others) < 3
        shown = ("any but " if others else "any") * few + ", ".join(others if few else fitting)
        table.add_row(name, noise, shown, _summary(sampler))
    return table


def sampled_by(name: str) -> list[str]:
    """The algorithms that a sampler fits with some forward process, as ``Sampler.check`` has it."""
    from discrete_diffusion.algorithms import _ALGORITHM_BUILDERS
    from discrete_diffusion.sampling import _SAMPLER_BUILDERS

    sampler = _SAMPLER_BUILDERS[name]

    def fits(algorithm: Callable[..., object]) -> bool:
        only = getattr(algorithm, "samplers", None)
        named = name in only if only else not getattr(sampler, "algorithms", None)
        absorbing = "absorbing" in getattr(algorithm, "processes", ())
        in_steps = "num_steps" in inspect.signature(algorithm).parameters
        return (
            named
            and (absorbing or not getattr(sampler, "absorbing_only", False))
            and not (in_steps and getattr(sampler, "continuous_time_only", False))
        )

    return sorted(key for key, algorithm in _ALGORITHM_BUILDERS.items() if fits(algorithm))


def _summary(of: object) -> str:
    """The first line of its module's docstring, less the name in front of a colon."""
    documented = inspect.getmodule(of) or of
    first = (inspect.getdoc(documented) or "").partition("\n")[0]
    return (first.partition(": ")[2] or first).removesuffix(".")
