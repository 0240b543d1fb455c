"""The page of sharing runs as it stands, with a Hub that has nothing yet."""

from __future__ import annotations

import json
import shutil

import pytest

from discrete_diffusion.hub import CARD
from guide_code import run_python

METRICS = {"valid": 0.97, "step": 7}


@pytest.mark.slow
def test_the_page_of_sharing_says_what_works(untrained, hub, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs" / "first" / "checkpoints").mkdir(parents=True)
    shutil.copy(untrained, tmp_path / "runs" / "first" / "checkpoints" / "best.ckpt")
    (tmp_path / "runs" / "first" / "metrics.json").write_text(json.dumps(METRICS))
    monkeypatch.setenv("HF_TOKEN", "hf_none")
    run_python("commands.md", word="save_pretrained")
    assert "me/first" in hub.models
    assert "| valid | 0.97 |" in (tmp_path / "first" / CARD).read_text()
