"""``new`` writes a package that works; ``export`` a file that is whole; neither replaces any."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from discrete_diffusion import load
from discrete_diffusion.cli import main
from fake_packages import forget_imports
from full_disk import FullDisk

FULL = [(300, "too large"), (None, "No space")]
"""What a disk takes, None: it is told late; and what the system says."""


@pytest.mark.slow
def test_its_backbone_trains_and_comes_back(tmp_path, monkeypatch, clean_registry):
    main(["new", "plan_net"])
    monkeypatch.chdir(tmp_path / "plan_net")
    monkeypatch.syspath_prepend(tmp_path / "plan_net")
    words = ["plugins=[plan_net]", "--config-dir", "configs", "algo.backbone=plan_net"]
    try:
        main(["train", *words, "debug=smoke", "hydra.run.dir=run"])
        assert len(load("run").sample(2)) == 2
    finally:
        forget_imports(tmp_path)


@pytest.mark.slow
def test_its_own_tests_pass_and_miss_a_padding_mask(tmp_path):
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
def test_nothing_is_written_under_a_wrong_name(words, said, tmp_path, failure):
    (tmp_path / "here").mkdir()
    assert said in failure("new", *words)
    assert [path.name for path in tmp_path.rglob("*")] == ["here"]


@pytest.mark.slow
def test_export_writes_a_file_and_replaces_none(untrained, failure):
    onnxruntime = pytest.importorskip("onnxruntime", reason="it runs the file")
    pytest.importorskip("onnxscript", reason="it writes the file")
    words = ["export", f"checkpoint={untrained}", "out=net.onnx"]
    main(words)
    found = onnxruntime.InferenceSession("net.onnx").get_modelmeta().custom_metadata_map
    assert json.loads(found["pad_id"]) == load(untrained).layout.pad_id
    written = Path("net.onnx").read_bytes()
    assert "overwrite=true" in failure(*words)
    for size, named in FULL:
        with FullDisk(size):
            said = failure(*words, "overwrite=true")
        assert "net.onnx" in said
        assert named in said
        assert Path("net.onnx").read_bytes() == written
        assert [path.name for path in Path().iterdir()] == ["net.onnx"]


@pytest.mark.parametrize(("size", "named"), FULL)
def test_new_leaves_no_part_of_a_package_on_a_full_disk(size, named, failure):
    with FullDisk(size):
        said = failure("new", "plan_net")
    assert "plan_net" in said
    assert named in said
    assert [*Path().iterdir()] == []
    main(["new", "plan_net"])
    assert Path("plan_net", "pyproject.toml").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["checkpoint=nowhere.ckpt"], "checkpoint=nowhere.ckpt: no checkpoint at"),
        (["format=onx"], "did you mean 'onnx'"),
    ],
)
def test_wrong_exports_are_refused(words, said, failure):
    assert said in failure("export", *words)
