"""Checkpoints of MDLM's code in the commands: sampled, measured, trained on, and written."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from discrete_diffusion import load
from discrete_diffusion.cli import compose, main
from guide_code import run_python
from made_checkpoints import training_state
from original_dit import L, V, lightning_file, made_state, original_logits

NETWORK = ["algo.backbone=dit", "model=dit_tiny", "model.hidden_size=16", "model.n_heads=2"]
NETWORK += ["model.cond_dim=8", "model.bias=false", "model.activation=gelu_tanh"]
NETWORK += ["model.sigma_input=sigma", "model.time_scale=1", "algo.time_conditioning=false"]
IDS = ["data=text", "data.token_unit=ids", "data.path=ids.npy", f"data.vocab_size={V}"]


@pytest.fixture(autouse=True)
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lightning_file(Path("theirs.ckpt"), made_state(), made_state(seed=1))
    np.save("ids.npy", np.random.default_rng(0).integers(0, V - 1, 600))


@pytest.mark.slow
def test_it_is_sampled_and_measured():
    main(["sample", f"checkpoint=mdlm:theirs.ckpt?length={L}", "num_samples=3", "out=drawn"])
    lines = Path("drawn/samples.txt").read_text().splitlines()[1::2]
    model = load(f"mdlm:theirs.ckpt?length={L}")
    assert [list(map(int, line.split())) for line in lines] == model.sample(num=3)
    words = [f"checkpoint=mdlm:theirs.ckpt?length={L}", "data.path=ids.npy", "noise_samples=1"]
    main(["evaluate", *words, "out=measured"])
    found = json.loads(Path("measured/metrics.json").read_text())
    assert found["bits_per_token"] > 1
    assert "bits_per_character" not in found


def test_the_example_of_the_page_runs():
    Path("mdlm-owt").mkdir()
    save_file(made_state(), "mdlm-owt/model.safetensors")
    Path("mdlm-owt/config.json").write_text(json.dumps({"model_length": L}))
    found = run_python("text.md", word="mdlm:mdlm-owt")
    assert [len(row) for row in found["ids"]] == [L] * 4


def test_without_data_or_file_the_command_says_what_to_give(failure):
    said = failure("evaluate", f"checkpoint=mdlm:theirs.ckpt?length={L}")
    assert "data.path=FILE.npy" in said
    said = failure("sample", "checkpoint=mdlm:nowhere.ckpt", "out=drawn")
    assert "checkpoint=mdlm:nowhere.ckpt" in said
    assert not Path("drawn").exists()


@pytest.mark.slow
def test_a_run_starts_from_it_and_is_written_as_theirs():
    words = ["debug=smoke", "logger=none", "trainer.max_steps=1", f"data.length={L}"]
    start = "init.checkpoint=mdlm:theirs.ckpt"
    main(["train", *words, *IDS, *NETWORK, start, "optim.lr=1e-9", "hydra.run.dir=run"])
    found = json.loads(Path("run/metrics.json").read_text())
    assert found["bits_per_token"] > 1
    assert 0 <= found["token_tv"] <= 1
    assert Path("run/samples.txt").read_text().splitlines()[1].count(" ") == L - 1
    main(["export", "checkpoint=run", "format=mdlm"])
    content = torch.load("mdlm.ckpt", weights_only=True)
    state = {k.removeprefix("backbone."): v for k, v in content["state_dict"].items()}
    x = torch.arange(L)[None]
    expected = original_logits(made_state(seed=1), x, torch.zeros(1))  # the averaged weights
    torch.testing.assert_close(
        original_logits(state, x, torch.zeros(1)), expected, atol=1e-4, rtol=0
    )
    with torch.no_grad():
        found = load("mdlm:mdlm.ckpt").backbone(x)
    torch.testing.assert_close(found, original_logits(state, x, torch.zeros(1)), atol=1e-5, rtol=0)


def test_another_network_is_told_with_the_settings_to_take(failure):
    words = ["train", *IDS, f"data.length={L}", *NETWORK, "init.checkpoint=mdlm:theirs.ckpt"]
    said = failure(*words, "model.n_blocks=3", "hydra.run.dir=a")
    assert "model.n_blocks=2" in said
    said = failure(*words, "model.bias=true", "hydra.run.dir=b")
    assert "model.bias=False" in said


def test_a_format_that_is_none_is_named(failure):
    assert "did you mean 'mdlm'" in failure("export", "checkpoint=mdlm:theirs.ckpt", "format=mdml")
    torch.save(training_state(compose("train", ["model=bd_tiny"])), "graphs.ckpt")
    said = failure("export", "checkpoint=graphs.ckpt", "format=mdlm")
    assert "algo.backbone=dit" in said
    assert not Path("mdlm.ckpt").exists()
