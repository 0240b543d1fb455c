"""The framework without the packages that plug into it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ALONE = Path(__file__).parents[1] / "alone"


def run(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    paths = [*filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    paths = [str(ALONE), *(path for path in paths if Path(path).name != "stand_in")]
    return subprocess.run(
        [sys.executable, *words],
        cwd=cwd,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
    )


@pytest.mark.slow
@pytest.mark.parametrize("package", ["floor_plans", "continuous_states"])
def test_the_others_cannot_be_imported(package, tmp_path):
    assert f"No module named '{package}'" in run("-c", f"import {package}", cwd=tmp_path).stderr


@pytest.mark.slow
def test_commands_work(tmp_path):
    (tmp_path / "text.txt").write_text("to be or not to be\n" * 60)
    command = ("-m", "discrete_diffusion")
    listed = run(*command, "list", cwd=tmp_path)
    assert "bd-denoiser" in listed.stdout
    assert "flow-matching" not in listed.stdout
    helped = run(*command, "--help", cwd=tmp_path)
    assert "studio" not in helped.stdout
    assert "data=text" in helped.stdout
    small = ["algo.backbone=dit", "model=dit_tiny", "debug=smoke", "data.length=16", "threads=1"]
    trained = run(
        *(*command, "train", "data=text", "data.path=text.txt", *small, "hydra.run.dir=run"),
        cwd=tmp_path,
    )
    assert trained.returncode == 0, trained.stderr
    sampled = run(*command, "sample", "checkpoint=run", "num_samples=2", "out=out", cwd=tmp_path)
    assert sampled.returncode == 0, sampled.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "package"),
    [
        (["train"], "floor_plans"),
        (["train", "data=plans"], "floor_plans"),
        (["train", "data=eit"], "continuous_states"),
    ],
)
def test_data_of_the_others_are_refused_with_the_package_that_brings_them(words, package, tmp_path):
    ended = run("-m", "discrete_diffusion", *words, cwd=tmp_path)
    assert ended.returncode == 1
    assert package in ended.stderr
    assert len(ended.stderr.splitlines()) == 1
