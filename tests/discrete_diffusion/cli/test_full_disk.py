"""Commands that write by themselves on a full disk: nothing new, and what was there as it was."""

from __future__ import annotations

from pathlib import Path

import pytest

from discrete_diffusion.cli import main
from full_disk import FullDisk

late = pytest.mark.parametrize("late", [False, True], ids=["no room", "told late"])


@late
def test_new_leaves_no_part_of_a_package(late, failure):
    with FullDisk(None if late else 300):
        said = failure("new", "plan_net")
    assert "plan_net" in said
    assert ("No space" if late else "too large") in said
    assert [*Path().iterdir()] == []
    main(["new", "plan_net"])
    assert Path("plan_net", "pyproject.toml").exists()


@pytest.mark.slow
@late
def test_export_leaves_the_file_that_was_there(late, untrained, failure):
    pytest.importorskip("onnxruntime", reason="it runs the file")
    pytest.importorskip("onnxscript", reason="it writes the file")
    words = ["export", f"checkpoint={untrained}", "out=net.onnx"]
    Path("net.onnx").write_text("old")
    with FullDisk(None if late else 1000):
        said = failure(*words, "overwrite=true")
    assert "net.onnx" in said
    assert ("No space" if late else "too large") in said
    assert Path("net.onnx").read_text() == "old"
    assert [path.name for path in Path().iterdir()] == ["net.onnx"]
