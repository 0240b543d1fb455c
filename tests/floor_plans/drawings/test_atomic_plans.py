"""Every writer of plans, on a disk that is full: the old file or the new one, never half."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from floor_plans import generate_plans, write_diagrams
from floor_plans.diagrams.files import graph_formats
from floor_plans.diagrams.pictures.diagram_pictures import plot_grid
from floor_plans.diagrams.pictures.trajectory import Palette, write_gif
from floor_plans.drawings.realised_files import FORMATS, write_plan
from floor_plans.plans.floor_plan import FloorPlan
from full_disk import check_old_or_new

PLANS = generate_plans(12, seed=1)
NOISE = np.random.default_rng(0)


def write_frames(path: Path) -> None:
    frames = NOISE.integers(0, 255, (3, 20, 20, 3), dtype=np.uint8)
    write_gif(path, frames, Palette(frames), [0.1, 0.2, 0.3])


def whole_plan(path: Path) -> FloorPlan:
    return FloorPlan.of(PLANS[0], "pixels")


WRITERS: dict[str, Callable[[Path], object]] = {
    "plans.jsonl": lambda path: write_diagrams(path, PLANS),
    "plans.json": lambda path: graph_formats.write_json_list(path, PLANS),
    "plan.graphml": lambda path: graph_formats.write_graphml(path, PLANS[0]),
    "plans.png": lambda path: plot_grid(PLANS[:2], path),
    "plans.svg": lambda path: plot_grid(PLANS[:2], path),
    "steps.gif": write_frames,
    **{
        f"plan{each.suffix}": lambda path, name=name: write_plan(path, whole_plan(path), name)
        for name, each in FORMATS.items()
    },
}


@pytest.mark.parametrize("late", [False, True], ids=["no room", "told late"])
@pytest.mark.parametrize("name", WRITERS)
def test_the_old_file_of_plans_or_the_new_one(tmp_path, name, late):
    check_old_or_new(tmp_path / name, WRITERS[name], late=late)
