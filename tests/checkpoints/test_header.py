"""Whatever stands in the info of a checkpoint, it loads or is one error that names file and key."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from made_checkpoints import training_state

from discrete_diffusion import load
from discrete_diffusion.checkpoints import INFO_KEY, read_checkpoint, write_weights_file
from discrete_diffusion.checkpoints.files import algorithm_weights
from discrete_diffusion.checkpoints.header import check_header, with_new_digest
from discrete_diffusion.config.options import leaves

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
GROUPS = ("data", "algo", "model", "noise", "forward_process", "sampling")


@pytest.fixture(scope="module")
def state(config) -> dict[str, Any]:
    return training_state(config)


def places(info: dict[str, Any]) -> list[str]:
    """Keys of the info and of its config."""
    return [*(key for key in info if key != "digest"), *(f"config.{key}" for key in info["config"])]


def settings(info: dict[str, Any]) -> list[str]:
    """Keys of the groups of its config."""
    groups = {group: info["config"][group] for group in GROUPS}
    return [key for key, _ in leaves(groups, "config.")]


def changed(info: dict[str, Any], place: str, value: Any) -> dict[str, Any]:
    """The info with another value at a place."""
    *parents, last = place.split(".")
    found = inside = dict(info)
    for key in parents:
        inside[key] = dict(inside[key])
        inside = inside[key]
    inside[last] = value
    return found


def with_digest(info: dict[str, Any]) -> dict[str, Any]:
    """The info as someone writes it who knows the format, without weights."""
    try:
        return with_new_digest(info, {})
    except RecursionError:
        return info


def refusals(info: dict[str, Any], where: list[str]) -> dict[str, set[str]]:
    """The names of the odd values that are refused, by place; checks what the errors say."""
    refused: dict[str, set[str]] = {place: set() for place in where}
    for place in where:
        for name, value in ODD.items():
            text = error_of(with_digest(changed(info, place, value)))
            if text is not None:
                assert str(FILE) in text
                assert "\n" not in text
                top = name in ("deep", "bytes", "tensor", "missing")  # no config, whatever the key
                assert place.split(".")[0 if top else -1] in text, (place, name, text)
                refused[place].add(name)
    assert all({"deep", "bytes", "tensor"} <= names for names in refused.values())
    return refused


def error_of(info: dict[str, Any]) -> str | None:
    """What ``check_header`` says of it."""
    try:
        check_header(info, {}, FILE)
    except ValueError as error:
        return str(error)
    return None


def test_any_value_of_any_key_is_refused_by_name_or_read(state):
    check_header(state[INFO_KEY], algorithm_weights(state["state_dict"]), FILE)
    refused, everything = refusals(state[INFO_KEY], places(state[INFO_KEY])), {*ODD}
    assert refused["vocabulary"] == refused["machine"] == everything - {"keys", "nested keys"}
    assert refused["size_counts"] == everything - {"list"}
    assert refused["step"] == everything
    assert refused["config.sampling"] == everything
    assert refused["config.plugins"] == everything - {"null", "text", "empty", "a path", "list"}


@pytest.mark.slow
def test_so_is_any_setting_of_a_part(state):
    refused = refusals(state[INFO_KEY], settings(state[INFO_KEY]))
    assert refused["config.algo.name"] >= {"null", "minus", "list", "keys", "nested keys"}
    assert refused["config.data.n_max"] >= {"null", "huge", "text", "empty", "list", "keys"}


@pytest.mark.parametrize("listed", [7, "loose", ["loose"], [{"noun": 1}], [{"noun": "backbone"}]])
def test_a_list_of_parts_that_makes_no_sense(state, listed):
    info = with_new_digest({**state[INFO_KEY], "plugins": listed}, {})
    with pytest.raises(ValueError, match=r"model\.ckpt: plugins is .*; expected a list of parts"):
        check_header(info, {}, FILE)


@pytest.mark.slow
def test_what_the_schema_lets_through_loads_or_is_refused(state, tmp_path):
    """Numbers and texts that only the model itself can judge."""
    path, loaded, refused = tmp_path / "model.ckpt", 0, []
    for place in [*places(state[INFO_KEY]), *settings(state[INFO_KEY])]:
        for name in ("null", "minus", "NaN", "empty", "list", "keys", "nested list"):
            info = changed(state[INFO_KEY], place, ODD[name])
            info = with_new_digest(info, algorithm_weights(state["state_dict"]))
            torch.save({**state, INFO_KEY: info}, path)
            try:
                read_checkpoint(path)
                loaded += 1
            except ValueError as error:
                refused.append(str(error))
    assert loaded > 30
    assert all(str(path) in text for text in refused)


@pytest.mark.slow
def test_a_model_that_cannot_be_built_names_the_settings_that_may_be_wrong(state, tmp_path):
    path = tmp_path / "model.ckpt"
    for key, value in {"d_model": math.nan, "n_layers": 7, "mlp_ratio": math.inf}.items():
        info = changed(state[INFO_KEY], f"config.model.{key}", value)
        info = with_new_digest(info, algorithm_weights(state["state_dict"]))
        torch.save({**state, INFO_KEY: info}, path)
        with pytest.raises(ValueError, match=rf"model\.ckpt .*model\.{key}={value}"):
            load(path)


@pytest.mark.parametrize("kind", ["ckpt", "safetensors"])
@pytest.mark.parametrize("digest", ["absent", None, 7, ""])
def test_a_file_without_its_digest_is_refused(state, tmp_path, kind, digest):
    info = {key: value for key, value in state[INFO_KEY].items() if key != "digest"}
    if digest != "absent":
        info["digest"] = digest
    path, given = tmp_path / f"model.{kind}", {**state, INFO_KEY: info}
    torch.save(given, path) if kind == "ckpt" else write_weights_file(path, given)
    with pytest.raises(ValueError, match=rf"model\.{kind} is .*digest"):
        load(path)
