"""The plans of ``data=bubble_diagrams``, for commands that are given no others."""

from __future__ import annotations

from omegaconf import OmegaConf

from discrete_diffusion.config.files import config_dir
from discrete_diffusion.domains.bubble_diagrams.diagram import BubbleDiagram
from discrete_diffusion.domains.bubble_diagrams.procedural.generator import cached_plans


def embedded_plans() -> tuple[str, list[BubbleDiagram]]:
    """Title in words of the embedded plans, and all of them, as the config says."""
    config = OmegaConf.load(config_dir() / "data" / "bubble_diagrams.yaml")
    plans = cached_plans(config.num_plans, config.plan_seed)
    title = f"the embedded plans: {len(plans):,} of seed {config.plan_seed} (data=bubble_diagrams)"
    return title, plans.to_diagrams()
