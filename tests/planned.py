"""The cells of a comparison, as the command plans them."""

from __future__ import annotations

from discrete_diffusion.api.cells import Cell
from discrete_diffusion.building.measurements import with_terms
from discrete_diffusion.cli import compose
from discrete_diffusion.cli.compare_planning import plan_cells
from discrete_diffusion.cli.compare_request import read_words, shared_overrides


def plan(*overrides: str, user_config_dir: str | None = None) -> list[Cell]:
    words = read_words(overrides)
    config = compose("compare", words, user_config_dir=user_config_dir)
    return plan_cells(with_terms(config)[0], shared_overrides(words), user_config_dir)
