"""Checkpoints come back exactly, or end with one sentence; none of them ever runs code."""

from __future__ import annotations

import logging
import os
import pickle
import random
import re
import shutil
import zipfile
from collections import defaultdict, deque
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from discrete_diffusion import load
from discrete_diffusion.algorithms import build_algorithm
from discrete_diffusion.checkpoints import read_checkpoint
from discrete_diffusion.checkpoints.contents import FORMAT
from discrete_diffusion.checkpoints.files import (
    INFO_KEY,
    check_readable,
    checkpoint_file,
    read_training_file,
    write_weights_file,
)
from discrete_diffusion.checkpoints.start import initialise, read_starting_weights
from discrete_diffusion.config.files import plain
from made_checkpoints import training_state

KINDS = ("ckpt", "safetensors")


def sentence(path: Path, **options) -> str:
    """The one-sentence error of a file that is refused."""
    with pytest.raises((ValueError, FileNotFoundError)) as caught:
        read_checkpoint(path, **options)
    text = str(caught.value)
    assert "\n" not in text
    assert path.name in text
    return text


def written(path: Path, state: dict) -> Path:
    if path.suffix == ".ckpt":
        torch.save(state, path)
    else:
        write_weights_file(path, state)
    return path


def test_a_run_folder_means_one_of_its_files(files, tmp_path, caplog):
    kept = tmp_path / "run" / "checkpoints"
    kept.mkdir(parents=True)
    shutil.copy(files["ckpt"], kept / "last.ckpt")
    with pytest.raises(ValueError, match=r"without best\.ckpt.*; it has .*last\.ckpt$"):
        load(tmp_path / "run")
    assert checkpoint_file(tmp_path / "run", "last.ckpt") == kept / "last.ckpt"
    shutil.copy(files["ckpt"], kept / "best.ckpt")
    caplog.set_level(logging.INFO)
    for folder in (tmp_path / "run", kept):
        assert checkpoint_file(folder) == kept / "best.ckpt"
        assert read_starting_weights(folder).path == kept / "best.ckpt"
    assert str(kept / "best.ckpt") in caplog.text
    assert checkpoint_file(tmp_path / "nowhere.ckpt") == tmp_path / "nowhere.ckpt"
    # one that was being written is none
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / ".last.7aae.unfinished.ckpt").touch()
    with pytest.raises(ValueError, match=r"without last\.ckpt .*train anew") as found:
        checkpoint_file(tmp_path, "last.ckpt")
    assert "unfinished" not in str(found.value)


@pytest.mark.parametrize("kind", KINDS)
def test_either_file_gives_the_averaged_weights_and_the_facts(files, config, kind):
    found, expected = read_checkpoint(files[kind]), training_state(config)["state_dict"]
    weights = found.algorithm.state_dict()
    assert {f"algorithm.{name}" for name in weights} == set(expected)
    assert all(torch.equal(weights[k], expected[f"algorithm.{k}"]) for k in weights)
    assert found.config == config
    assert found.size_counts == [0, 3, 4]
    assert (found.step, found.data_fingerprint) == (7, "f" * 16)
    assert not found.algorithm.training
    assert type(load(files[kind])) is type(found.algorithm)


@pytest.mark.parametrize("kind", KINDS)
def test_files_with_the_earlier_names_of_keys_are_read(config, tmp_path, kind):
    earlier = plain(config)
    earlier["noise"] = earlier.pop("schedule")
    earlier["algo"] |= {"draw": "forced_mask"}
    del earlier["algo"]["time_sampling"]
    earlier["data"]["n_max"] = earlier["data"].pop("max_nodes")
    state = training_state(config, format=1, config=earlier)
    found = read_checkpoint(written(tmp_path / f"x.{kind}", state))
    assert found.config == config


def test_newer_formats_and_other_vocabularies_are_named(config, tmp_path):
    path = tmp_path / "x.ckpt"
    newer = training_state(config, format=FORMAT + 1, version="9.0")
    assert "written by version 9.0" in sentence(written(path, newer))
    assert "upgrade" in sentence(path)
    words = training_state(config)[INFO_KEY]["vocabulary"]
    (key,) = (key for key, names in words.items() if "LivingRoom" in str(names))
    other = training_state(config, vocabulary={**words, key: ["Attic", *words[key][1:]]})
    assert "number 0 is Attic there and LivingRoom here" in sentence(written(path, other))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("changed", ["weight", "type", "config", "format"])
def test_a_change_under_correct_checksums_is_noticed(config, tmp_path, kind, changed):
    """As if somebody had written the file anew: the digest of weights and info differs."""
    state = training_state(config)
    weights, name = state["state_dict"], "algorithm.backbone.denoiser.node_head.weight"
    if changed == "config":
        state[INFO_KEY]["config"]["model"]["n_heads"] = 2
    elif changed == "type":  # integers of the same bytes would fit the model
        weights[name] = weights[name].view(torch.int32)
    else:
        weights[name][0, 0] += 1e-6
    if changed != "format":
        assert "digest" in sentence(written(tmp_path / f"a.{kind}", state))
    for number in (0, None) if changed == "format" else ():  # none switches the digest off
        state[INFO_KEY]["format"] = number
        text = sentence(written(tmp_path / f"{number}.{kind}", state))
        assert "is not a checkpoint of discrete_diffusion" in text


def test_models_that_this_version_cannot_build_and_weights_that_do_not_fit(config, tmp_path):
    path, settings = tmp_path / "x.ckpt", training_state(config)[INFO_KEY]["config"]
    for group, key, value, says in (
        ("algo", "backbone", "bd-denoisr", "cannot be rebuilt.*did you mean 'bd-denoiser'"),
        ("model", "d_model", 32, "do not fit"),
    ):
        other = {**settings, group: {**settings[group], key: value}}
        assert re.search(says, sentence(written(path, training_state(config, config=other))))


def test_foreign_files_end_with_a_sentence(files, tmp_path):
    contents = {
        "empty.ckpt": b"",
        "empty.safetensors": b"",
        "text.ckpt": b"not a checkpoint",
        "text.safetensors": b"12345678{not a checkpoint",
        "brace.ckpt": b"12345678{}",
        "bare.ckpt": pickle.dumps({"state_dict": {}}),
        "cut.ckpt": files["ckpt"].read_bytes()[:5000],
        "cut.safetensors": files["safetensors"].read_bytes()[:5000],
    }
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    torch.save({"weights": torch.zeros(2)}, tmp_path / "dict.ckpt")
    torch.save([1, 2], tmp_path / "list.ckpt")
    torch.save({"state_dict": {}, INFO_KEY: {"config": 3, "size_counts": 1}}, tmp_path / "odd.ckpt")
    save_file({"weights": torch.zeros(2)}, tmp_path / "someone.safetensors")
    save_file({"w": torch.zeros(2)}, tmp_path / "odd.safetensors", metadata={INFO_KEY: "[1"})
    with zipfile.ZipFile(tmp_path / "zip.ckpt", "w") as archive:
        archive.writestr("holiday.txt", "sunny")
    with zipfile.ZipFile(tmp_path / "bomb.ckpt", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("bomb/data.pkl", b"\0" * 10_000_000)
    for path in sorted(tmp_path.iterdir()):
        assert "checkpoint" in sentence(path)
    assert "is a folder" in sentence(tmp_path)
    assert "no checkpoint at" in sentence(tmp_path / "nowhere.ckpt")


class Malice:
    def __reduce__(self):
        return os.mkdir, ("executed",)


def test_a_pickle_that_wants_code_is_refused_and_never_run(files, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    state = torch.load(files["ckpt"], weights_only=True)
    torch.save({**state, "extra": Malice()}, "malice.ckpt")
    assert "would run code" in sentence(Path("malice.ckpt"))
    torch.save({**state, "extra": Malice()}, "old.ckpt", _use_new_zipfile_serialization=False)
    sentence(Path("old.ckpt"))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["malice.ckpt", "old.ckpt"]


def mutated(content: bytes, chance: random.Random) -> bytes:
    """A copy with a bit flipped, cut off, or blocks swapped."""
    data, size = bytearray(content), len(content)
    kind = chance.randrange(4)
    near_an_end = chance.choice([chance.randrange(3000), size - 1 - chance.randrange(3000)])
    if kind < 2:
        data[chance.randrange(size) if kind else near_an_end] ^= 1 << chance.randrange(8)
    elif kind == 2:
        del data[chance.randrange(size) :]
    else:
        block = chance.choice([64, 512, 4096])
        a, b = (chance.randrange(0, size - block, block) for _ in range(2))
        data[a : a + block], data[b : b + block] = content[b : b + block], content[a : a + block]
    return bytes(data)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_mutated_checkpoints_are_refused_or_unharmed(files, tmp_path, kind):
    """100 of each kind: one sentence, or exactly the same weights and config."""
    content, chance = files[kind].read_bytes(), random.Random(0)
    original, path, refused = read_checkpoint(files[kind]), tmp_path / f"x.{kind}", 0
    for _ in range(100):
        path.write_bytes(mutated(content, chance))
        try:
            found = read_checkpoint(path)
        except (ValueError, FileNotFoundError):
            sentence(path)
            refused += 1
            continue
        assert found.config == original.config
        assert found.size_counts == original.size_counts
        weights = zip(found.algorithm.parameters(), original.algorithm.parameters(), strict=True)
        assert all(torch.equal(a, b) for a, b in weights)
    assert refused > 60


def test_damage_to_what_only_training_reads_is_noticed(config, tmp_path):
    """The digest is of the averaged weights; the moments of the optimiser have the zip's sums."""
    path, state = tmp_path / "x.ckpt", training_state(config)
    state["optimizer_states"] = [{"state": {0: {"exp_avg": torch.full((64,), 0.7071)}}}]
    content = written(path, state).read_bytes()
    moments = torch.full((64,), 0.7071).numpy().tobytes()
    assert content.count(moments) == 1
    assert read_training_file(path)["global_step"] == 7
    damaged = bytearray(content)
    damaged[content.index(moments) + 5] ^= 1
    path.write_bytes(damaged)
    with pytest.raises(ValueError, match=r"x\.ckpt is not a readable checkpoint"):
        read_training_file(path)


@pytest.mark.parametrize("value", [np.float64(1), deque([1]), defaultdict(int), Path("a")])
def test_what_a_checkpoint_could_not_give_back_is_named(value):
    plain = {"a": [torch.ones(2), {"b": (1, 2.0, "c", None, b"d", torch.float32, {1})}]}
    check_readable(plain)
    with pytest.raises(ValueError, match=rf"more\[1\]\.it, a .*{type(value).__name__}, .*code"):
        check_readable({**plain, "more": [0, {"it": value}]})


def test_a_whole_backbone_of_a_file(config, files):
    for kind, ema in (("ckpt", True), ("ckpt", False), ("safetensors", True)):
        algorithm = build_algorithm(config)
        start = read_starting_weights(files[kind], ema=ema)
        done = initialise(algorithm.backbone, start, config=plain(config))
        assert done.missing == done.unused == ()
        state = torch.load(files["ckpt"], weights_only=True)
        saved = state["state_dict" if ema else "current_model_state"]
        for name, value in algorithm.backbone.state_dict().items():
            assert torch.equal(value, saved[f"algorithm.backbone.{name}"])
    assert "needs the .ckpt" in sentence(files["safetensors"], ema=False)
