"""``discrete-diffusion list``: what there is, and what fits what."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from discrete_diffusion.cli.compose import choices, model_presets
from discrete_diffusion.models.registry import available_backbones, backbone_spec

_GROUPS = {
    "algo": "algorithms",
    "noise": "noise schedules",
    "forward_process": "forward processes",
    "sampling": "samplers",
    "data": "data sets",
    "optim": "optimisers",
    "logger": "loggers",
    "experiment": "experiments",
    "debug": "debug recipes",
}


def print_listing() -> None:
    """Print backbones with their state and presets, then the choices of every config group."""
    console = Console()
    presets = model_presets()
    backbones = Table(
        "backbone", "state", "causal", "model presets", box=None, title_justify="left"
    )
    for name in available_backbones():
        spec = backbone_spec(name)
        fitting = [
            f"{preset} ({size:,})" for preset, (fits, size) in presets.items() if name in fits
        ]
        shown = ", ".join(fitting) or spec.default_model or "any"
        backbones.add_row(name, spec.state, "yes" if spec.causal else "no", shown)
    console.print(backbones)
    console.print()
    groups = Table("choose with", "what", "choices", box=None)
    for group, title in _GROUPS.items():
        if names := choices(group):
            groups.add_row(f"{group}=", title, ", ".join(names))
    console.print(groups)
    console.print(
        "\nBackbones of state 'tokens' fit every algorithm and data set above; set one with "
        "algo.backbone=NAME.\nfirst-hitting sampling fits absorbing processes, ancestral all.",
        highlight=False,
    )
