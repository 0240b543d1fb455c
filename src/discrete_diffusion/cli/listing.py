"""``discrete-diffusion list``: what there is, and what fits what."""

from __future__ import annotations

import inspect

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
    samplers with the noise they work for, then the choices of every other config group."""
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
        "first.\nEvery algorithm takes every schedule but noise=learned, which is for meld.",
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

    table = Table("algo=", "forward processes", "samplers", "backbones", box=None)
    everything = usable_backbones(())
    for name, algorithm in sorted(_ALGORITHM_BUILDERS.items()):
        usable = usable_backbones(getattr(algorithm, "backbone_needs", ()))
        table.add_row(
            name,
            ", ".join(getattr(algorithm, "processes", ())),
            ", ".join(getattr(algorithm, "samplers", None) or ("by its noise",)),
            "any" if usable == everything else ", ".join(usable) or "none yet",
        )
    return table


def _samplers() -> Table:
    """Of the registry, with what the first lines of their modules say."""
    from discrete_diffusion.sampling import _SAMPLER_BUILDERS

    table = Table("sampling=", "noise", "what it does", box=None)
    for name, sampler in sorted(_SAMPLER_BUILDERS.items()):
        noise = "absorbing" if getattr(sampler, "absorbing_only", False) else "any"
        table.add_row(name, noise, _summary(sampler))
    return table


def _summary(of: object) -> str:
    """The first line of its module's docstring, less the name in front of a colon."""
    documented = inspect.getmodule(of) or of
    first = (inspect.getdoc(documented) or "").partition("\n")[0]
    return (first.partition(": ")[2] or first).removesuffix(".")
