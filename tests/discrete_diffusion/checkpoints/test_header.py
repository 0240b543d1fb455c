"""Whatever stands in the info of a checkpoint, it loads or is one error that names file and key."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch

from discrete_diffusion import load
from discrete_diffusion.checkpoints import read_checkpoint
from discrete_diffusion.checkpoints.files import (
    INFO_KEY,
    algorithm_weights,
    check_header,
    with_new_digest,
    write_weights_file,
)
from discrete_diffusion.config.constructors import leaves
from made_checkpoints import training_state

FILE = Path("some/model.ckpt")
DEEP: list[Any] = []
for _ in range(1_500):
    DEEP = [DEEP]
ODD = {
    "null": None,
    "minus": -1,
    "huge": 10**30,
    "NaN": math.nan,
    "infinite": math.inf,
    "text": "text",
    "empty": "",
    "a path": "../../../etc/passwd",
    "missing": "???",
    "list": [],
    "nested list": [[1], None],
    "keys": {},
    "nested keys": {"a": {"b": [{}]}},
    "deep": DEEP,
    "bytes": b"bytes",
    "tensor": torch.zeros(2),
}
GROUPS = ("data", "algo", "model", "schedule", "forward_process", "sampling")


@pytest.fixture(scope="module")
def state(config) -> dict[str, Any]:
    return training_state(config)


def places(info: dict[str, Any]) -> list[str]:
    """Keys of the info and of its config."""
    return [*(key for key in info if key != "digest"), *(f"config.{key}" for key in info["config"])]


def changed(info: dict[str, Any], place: str, value: Any) -> dict[str, Any]:
    """The info with another value at a place."""
    *parents, last = place.split(".")
    found = inside = dict(info)
    for key in parents:
        inside[key] = dict(inside[key])
        inside = inside[key]
    inside[last] = value
    return found


def refusals(info: dict[str, Any], where: list[str]) -> dict[str, set[str]]:
    """The names of the odd values that are refused, by place; checks what the errors say."""
    refused: dict[str, set[str]] = {place: set() for place in where}
    for place in where:
        for name, value in ODD.items():
            found = changed(info, place, value)
            try:
                check_header(found if name == "deep" else with_new_digest(found, {}), {}, FILE)
            except ValueError as error:
                text = str(error)
                assert str(FILE) in text
                assert "\n" not in text
                top = name in ("deep", "bytes", "tensor", "missing")  # no config, whatever the key
                assert place.split(".")[0 if top else -1] in text, (place, name, text)
                refused[place].add(name)
    assert all({"deep", "bytes", "tensor"} <= names for names in refused.values())
    return refused


def test_any_value_of_any_key_is_refused_by_name_or_read(state):
    check_header(state[INFO_KEY], algorithm_weights(state["state_dict"]), FILE)
    refused, everything = refusals(state[INFO_KEY], places(state[INFO_KEY])), {*ODD}
    assert refused["vocabulary"] == refused["machine"] == everything - {"keys", "nested keys"}
    assert refused["size_counts"] == everything
    assert refused["step"] == everything
    assert refused["config.sampling"] == everything
    assert refused["config.plugins"] == everything - {"null", "text", "empty", "a path", "list"}


@pytest.mark.slow
def test_any_setting_of_a_part_is_refused_by_name_or_loads(state, tmp_path):
    """By the header, or where only the model itself can judge."""
    groups = {group: state[INFO_KEY]["config"][group] for group in GROUPS}
    where = [key for key, _ in leaves(groups, "config.")]
    refused = refusals(state[INFO_KEY], where)
    assert refused["config.algo.name"] >= {"null", "minus", "list", "keys", "nested keys"}
    assert refused["config.data.max_nodes"] >= {"null", "huge", "text", "empty", "list", "keys"}
    loaded, texts = 0, []
    for place in [*places(state[INFO_KEY]), *where]:
        for name in ("null", "minus", "NaN", "empty", "list", "keys", "nested list"):
            try:
                read_back({**state, INFO_KEY: changed(state[INFO_KEY], place, ODD[name])}, tmp_path)
                loaded += 1
            except ValueError as error:
                texts.append(str(error))
    assert loaded > 30
    assert all(str(tmp_path / "model.ckpt") in text for text in texts)


@pytest.mark.parametrize(
    ("kind", "digest"), [("ckpt", "absent"), ("ckpt", None), ("safetensors", "absent")]
)
def test_a_file_without_its_digest_is_refused(state, tmp_path, kind, digest):
    info = {key: value for key, value in state[INFO_KEY].items() if key != "digest"}
    if digest != "absent":
        info["digest"] = digest
    path, given = tmp_path / f"model.{kind}", {**state, INFO_KEY: info}
    torch.save(given, path) if kind == "ckpt" else write_weights_file(path, given)
    with pytest.raises(ValueError, match=rf"model\.{kind} is .*digest"):
        load(path)


SEVERAL = ["text"] * 10
for _ in range(9):
    SEVERAL = [SEVERAL] * 10


@pytest.mark.parametrize(
    ("place", "value", "says"),
    [
        ("config.model.d_model", 2**40, "model.d_model is .*65536"),
        ("config.model.head_widths", [64, 2**17], "model.head_widths is .*65536"),
        ("vocabulary.n_max", 2**30, "vocabulary.n_max is .*65536"),
        ("plugins", [{"noun": 1, "name": "a", "module": "b"}], "plugins is .*; expected a list"),
        ("plugins", [{"noun": "backbone"}], "plugins is .*; expected a list of parts"),
        ("machine", {"more": SEVERAL}, "machine holds more values"),  # few lists, many times
        ("config.model", {"more": SEVERAL}, "config holds more values"),
    ],
)
def test_what_the_header_refuses_by_key(state, place, value, says):
    info = changed(state[INFO_KEY], place, value)
    many = "more values" in says
    info = {**info, "digest": "any"} if many else with_new_digest(info, {})
    with pytest.raises(ValueError, match=rf"model\.ckpt: {says}"):
        check_header(info, {}, FILE)


@pytest.mark.parametrize(
    ("place", "value", "num_weights"),
    [
        ("config.data.num_plans", 2**40, 0),  # not sizes of tensors
        ("step", 2**40, 0),
        ("config.model.d_model", 2**17, 2**17),
    ],
)
def test_what_is_no_size_or_has_its_weights_may_be_large(state, place, value, num_weights):
    weights = {"weight": torch.zeros(num_weights)}
    info = with_new_digest(changed(state[INFO_KEY], place, value), weights)
    check_header(info, weights, FILE)


def read_back(state: dict[str, Any], folder: Path) -> None:
    """Load a checkpoint whose author knew the digest."""
    info = with_new_digest(state[INFO_KEY], algorithm_weights(state["state_dict"]))
    torch.save({**state, INFO_KEY: info}, folder / "model.ckpt")
    read_checkpoint(folder / "model.ckpt")


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"config.model.d_model": math.nan}, "model.d_model=nan"),
        ({"config.model.n_layers": 7}, "model.n_layers=7"),
        ({"config.model.n_layers": 2**15}, "larger than its weights.*model.n_layers=32768"),
        ({"config.model.mlp_ratio": 2.0**20}, "larger than its weights.*model.mlp_ratio=1048576"),
        ({"size_counts": [0] * 9 + [1]}, "size_counts .*expected 1 to 8"),
        ({"size_counts": [2, 1]}, "size_counts .*expected 1 to 8"),  # a graph of no nodes
        ({"config.data.max_nodes": 5000, "vocabulary.n_max": 5000}, "n_max=5000: .*at most 4,096"),
    ],
)
def test_what_only_the_model_can_judge_names_the_setting(state, changes, says, tmp_path):
    info = state[INFO_KEY]
    for place, value in changes.items():
        info = changed(info, place, value)
    with pytest.raises(ValueError, match=rf"model\.ckpt.*{says}"):
        read_back({**state, INFO_KEY: info}, tmp_path)


ODD_WEIGHTS = {
    "sparse": lambda value: value.to_sparse(),
    "without numbers": lambda value: value.to("meta"),
    "one number for all": lambda value: value[:1, :1].expand(10**6, 10**6),
    "conjugate": lambda value: value.to(torch.complex64).conj(),
    "negated": lambda value: torch._neg_view(value),
}


@pytest.mark.parametrize(
    ("kind", "part"),
    [*((kind, "state_dict") for kind in ODD_WEIGHTS), ("sparse", "current_model_state")],
)
def test_weights_that_are_not_there_number_by_number(state, kind, part, tmp_path):
    name = next(key for key, value in state[part].items() if value.dim() == 2)
    odd = ODD_WEIGHTS[kind](state[part][name])
    weights = {**state[part], name: odd, 7: torch.zeros(2)}  # a name that is no text is left out
    torch.save({**state, part: weights}, tmp_path / "model.ckpt")
    with pytest.raises(ValueError, match=rf"model\.ckpt: {part} holds .* without its numbers"):
        read_checkpoint(tmp_path / "model.ckpt")
