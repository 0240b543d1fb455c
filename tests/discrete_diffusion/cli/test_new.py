"""A new package works at once: its tests pass, its backbone trains, its checkpoint loads."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from discrete_diffusion import load
from discrete_diffusion.cli import main
from fake_packages import forget_imports


@pytest.mark.slow
def test_its_backbone_trains_and_comes_back(tmp_path, monkeypatch, clean_registry):
    monkeypatch.chdir(tmp_path)
    main(["new", "plan_net"])
    monkeypatch.chdir(tmp_path / "plan_net")
    monkeypatch.syspath_prepend(tmp_path / "plan_net")
    words = ["plugins=[plan_net]", "--config-dir", "configs", "algo.backbone=plan_net"]
    try:
        main(["train", *words, "debug=default", "hydra.run.dir=run"])
        assert len(load("run").sample(2)) == 2
    finally:
        forget_imports(tmp_path)


@pytest.mark.slow
def test_its_own_tests_pass_and_miss_a_padding_mask(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    main(["new", "plan_net"])
    words = [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider"]
    places = os.pathsep.join([str(tmp_path / "plan_net"), os.environ.get("PYTHONPATH", "")])

    def test(*more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*words, *more],
            cwd=tmp_path / "plan_net",
            env={**os.environ, "PYTHONPATH": places, "PYTEST_ADDOPTS": ""},
            capture_output=True,
            text=True,
        )

    assert (done := test()).returncode == 0, done.stdout[-2000:]
    network = tmp_path / "plan_net" / "plan_net" / "backbone.py"
    lines = network.read_text().splitlines()
    masked = [k for k, line in enumerate(lines) if line.strip().startswith("padding = ")]
    lines[masked[0]] = "        padding = None"
    network.write_text("\n".join(lines))
    assert "1 failed" in test("-k", "padding").stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "new takes one name"),
        (["a-b"], "letters, digits and _"),
        (["class"], "letters, digits and _"),
        (["_x"], "letters, digits and _"),
        (["torch"], "a package of that name is installed"),
        (["dit"], "backbone"),
        (["dit_tiny"], "model="),
        (["here"], "exists; choose another name"),
    ],
)
def test_nothing_is_written_under_a_wrong_name(words, said, tmp_path, monkeypatch, failure):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here").mkdir()
    assert said in failure("new", *words)
    assert [path.name for path in tmp_path.rglob("*")] == ["here"]
