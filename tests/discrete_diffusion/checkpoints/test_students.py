"""The function of a student is in its file: the directions of its mixture too, digest included."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from discrete_diffusion.checkpoints import read_checkpoint
from discrete_diffusion.checkpoints.contents import info_with_digest
from discrete_diffusion.checkpoints.files import INFO_KEY, write_weights_file
from discrete_diffusion.checkpoints.start import initialise, read_starting_weights
from discrete_diffusion.cli import compose
from discrete_diffusion.config.files import plain
from discrete_diffusion.models.mixtures import ComponentHead
from made_checkpoints import MACHINE, training_state

TINY = ["algo=distill", "algo.components=4", "model.d_model=16", "model.cond_dim=16"]
PLANS = [*TINY, "model=bd_tiny", "data.max_nodes=4", "data.num_rooms=[4]"]
NAMES = {f"backbone.denoiser.{kind}_components.directions" for kind in ("node", "edge")}


@pytest.fixture(scope="module")
def state() -> dict[str, Any]:
    return training_state(compose("train", PLANS))


@pytest.fixture(params=["ckpt", "safetensors"])
def write(request, tmp_path) -> Callable[[dict[str, Any]], Path]:
    def run(state: dict[str, Any]) -> Path:
        path = tmp_path / f"student.{request.param}"
        if request.param == "ckpt":
            torch.save(state, path)
        else:
            write_weights_file(path, state)
        return path

    return run


def changed(state: dict[str, Any], **directions: Any) -> dict[str, Any]:
    """With other directions by ``node`` and ``edge``, or none (None), under a digest of its own."""
    found = dict(state)
    for part in ("state_dict", "current_model_state"):
        found[part] = dict(state[part])
        for kind, value in directions.items():
            name = f"algorithm.backbone.denoiser.{kind}_components.directions"
            if value is None:
                del found[part][name]
            else:
                found[part][name] = value
    kept = {k: v for k, v in state[INFO_KEY].items() if k not in ("step", "machine", "digest")}
    found[INFO_KEY] = info_with_digest(kept, found["state_dict"], step=7, machine=MACHINE)
    return found


def says(path: Path, *, ema: bool = True) -> Tensor:
    """log D of every component of a half-hidden plan."""
    algorithm = read_checkpoint(path, ema=ema).algorithm
    x_t = torch.full((1, algorithm.layout.length), algorithm.layout.mask_id)
    x_t[0, :2] = 3
    real = torch.ones_like(x_t, dtype=torch.bool)
    with torch.no_grad():
        return algorithm.component_logits(x_t, torch.tensor([0.8]), real)[0].float()


def test_they_are_what_the_file_says_and_its_digest_covers_them(state, write, monkeypatch):
    path = write(state)
    before, drawn = says(path), ComponentHead._sample_directions
    monkeypatch.setattr(ComponentHead, "_sample_directions", lambda head: 1 + drawn(head))
    assert torch.equal(says(path), before)  # whatever is drawn at load
    turned = state["state_dict"][f"algorithm.{min(NAMES)}"].flip(0)
    other = changed(state, edge=turned)
    assert float((says(write(other)) - before).abs().max()) > 0.1
    with pytest.raises(ValueError, match="do not match its digest"):
        says(write({**other, INFO_KEY: state[INFO_KEY]}))


def test_they_are_the_same_numbers_whatever_the_default_type_is():
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    drawn = ComponentHead(2, 2, 1).directions
    torch.set_default_dtype(before)
    expected = torch.tensor([[[0.3923, -0.2236]], [[-0.3195, -1.2050]]], dtype=torch.float32)
    torch.testing.assert_close(drawn, expected, atol=1e-4, rtol=0)


@pytest.mark.parametrize("ema", [True, False])
def test_an_earlier_student_without_them_is_the_same_function(state, tmp_path, ema):
    names = [f"algorithm.{name}" for name in NAMES]
    kept = {name: state["state_dict"][name] for name in names}  # training leaves them alone
    now = {**state, "current_model_state": {**state["current_model_state"], **kept}}
    torch.save(now, tmp_path / "now.ckpt")
    torch.save(changed(state, node=None, edge=None), tmp_path / "then.ckpt")
    assert torch.equal(says(tmp_path / "then.ckpt", ema=ema), says(tmp_path / "now.ckpt", ema=ema))


def test_another_student_starts_from_either(state, tmp_path):
    """Of an earlier one the directions that are drawn are its own."""
    config = compose("train", PLANS)
    read = {}
    for name, each in (("now", state), ("then", changed(state, node=None, edge=None))):
        torch.save(each, tmp_path / f"{name}.ckpt")
        fresh = read_checkpoint(tmp_path / "now.ckpt").algorithm.backbone
        for value in fresh.parameters():
            value.data.zero_()
        start = read_starting_weights(tmp_path / f"{name}.ckpt")
        initialise(fresh, start, config=plain(config))
        read[name] = fresh.state_dict()
    for name, value in read["now"].items():
        assert torch.equal(read["then"][name], value)
