"""Cells of a comparison as the command plans them; a comparison of two backbones that is made once,
and copies of it."""

from __future__ import annotations

import shutil
from importlib.util import find_spec
from pathlib import Path

import pytest

from discrete_diffusion.api.cells import Cell
from discrete_diffusion.building.measurements import with_terms
from discrete_diffusion.cli import compose
from discrete_diffusion.cli.compare import (
    CompareRequest,
    read_words,
    run_comparison,
    shared_overrides,
)
from discrete_diffusion.cli.compare_planning import plan_cells

SHORT = (
    *("model=bd_tiny", "data.num_plans=200", "data.batch_size=32", "trainer.max_steps=2"),
    *("callbacks.num_samples=0", "eval.num_samples=6", "noise_samples=1", "num_held_out=12"),
    *("logger=none", "schedule=log_linear"),
)
TWO = ("algos=[mdlm]", "backbones=[bd-denoiser,dit]", "seeds=[0]")


def plan(*overrides: str, user_config_dir: str | None = None) -> list[Cell]:
    words = read_words(overrides)
    config = compose("compare", words, user_config_dir=user_config_dir)
    user_dir = None if user_config_dir is None else Path(user_config_dir).absolute()
    return plan_cells(with_terms(config)[0], shared_overrides(words), user_dir)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A comparison of two backbones, in a folder of its own; tests work on copies of it."""
    out = tmp_path_factory.mktemp("finished") / "it's done"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DISCRETE_DIFFUSION_CACHE", str(out.parent / "cache"))
        patch.chdir(out.parent)
        quoted = str(out).replace("'", "\\'")
        results = run_comparison(CompareRequest([*SHORT, *TWO, f"out='{quoted}'"]))
        kept = ["cache"] if find_spec("floor_plans") else []  # random graphs are not kept
        assert sorted(p.name for p in out.parent.iterdir()) == [*kept, "it's done"]  # no litter
    return out, results


@pytest.fixture
def copy(finished, tmp_path):
    shutil.copytree(finished[0], tmp_path / "copy")
    return tmp_path / "copy" / "cells" / "mdlm-dit-seed0"


def again(copy, *overrides: str):
    return run_comparison(CompareRequest([*SHORT, *TWO, *overrides, f"out={copy.parents[1]}"]))
