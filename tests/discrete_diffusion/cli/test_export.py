"""``discrete-diffusion export``: a file that is whole, and none that is replaced unasked."""

from __future__ import annotations

import json

import pytest

from discrete_diffusion import load
from discrete_diffusion.cli import main

onnxruntime = pytest.importorskip("onnxruntime", reason="it runs the file")
pytest.importorskip("onnxscript", reason="it writes the file")


@pytest.mark.slow
def test_the_command_writes_a_file_and_replaces_none(untrained, tmp_path, monkeypatch, failure):
    monkeypatch.chdir(tmp_path)
    main(["export", f"checkpoint={untrained}", "out=net.onnx"])
    found = onnxruntime.InferenceSession("net.onnx").get_modelmeta().custom_metadata_map
    assert json.loads(found["pad_id"]) == load(untrained).layout.pad_id
    written = (tmp_path / "net.onnx").read_bytes()
    said = failure("export", f"checkpoint={untrained}", "out=net.onnx")
    assert "overwrite=true" in said
    assert (tmp_path / "net.onnx").read_bytes() == written


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["checkpoint=nowhere.ckpt"], "checkpoint=nowhere.ckpt: no checkpoint at"),
        (["format=onx"], "did you mean 'onnx'"),
    ],
)
def test_wrong_requests_end_with_a_sentence(words, said, tmp_path, monkeypatch, failure):
    monkeypatch.chdir(tmp_path)
    assert said in failure("export", *words)
