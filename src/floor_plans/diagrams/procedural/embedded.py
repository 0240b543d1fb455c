"""Plans of ``data=bubble_diagrams``, the default of commands without plans."""

from __future__ import annotations

from discrete_diffusion.config import shipped_config
from floor_plans.diagrams.diagram import BubbleDiagram
from floor_plans.diagrams.procedural.generator import cached_plans


def embedded_plans() -> tuple[str, list[BubbleDiagram]]:
    """Title of the embedded plans, and the plans, as configured."""
    config = shipped_config("data", "bubble_diagrams")
    plans = cached_plans(config["num_plans"], seed := config["plan_seed"])
    title = f"the embedded plans: {len(plans):,} of seed {seed} (data=bubble_diagrams)"
    return title, plans.to_diagrams()
