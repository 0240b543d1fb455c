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
    assert refused["size_counts"] == everything
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


HUGE = {
    "config.model.d_model": 2**40,
    "config.model.n_layers": 2**17,
    "config.data.n_max": 2**30,
    "config.model.head_widths": [64, 2**17],
    "vocabulary.n_max": 2**30,
}


@pytest.mark.parametrize("place", HUGE)
def test_sizes_for_which_the_file_has_no_weights_are_refused_by_key(state, place):
    info = with_digest(changed(state[INFO_KEY], place, HUGE[place]))
    with pytest.raises(
        ValueError, match=rf"model\.ckpt: {place.removeprefix('config.')} is .*65536"
    ):
        check_header(info, {}, FILE)


@pytest.mark.parametrize(
    "place", ["config.data.plan_seed", "config.data.num_plans", "config.model.parameters", "step"]
)
def test_whole_numbers_that_are_no_sizes_may_be_large(state, place):
    check_header(with_digest(changed(state[INFO_KEY], place, 2**40)), {}, FILE)


def test_a_network_of_many_weights_may_have_large_sizes(state):
    info, weights = state[INFO_KEY], {"weight": torch.zeros(2**17)}
    info = with_new_digest(changed(info, "config.model.d_model", 2**17), weights)
    check_header(info, weights, FILE)


SEVERAL = ["text"] * 10
for _ in range(9):
    SEVERAL = [SEVERAL] * 10


@pytest.mark.parametrize("place", ["machine", "vocabulary", "config.model"])
def test_few_lists_that_stand_for_billions_of_values_are_not_written_out(state, place):
    info = {**changed(state[INFO_KEY], place, {"more": SEVERAL}), "digest": "any"}
    with pytest.raises(ValueError, match=rf"model\.ckpt: {place.split('.')[0]} holds more values"):
        check_header(info, {}, FILE)


def read_back(state: dict[str, Any], path: Path) -> None:
    """Load a checkpoint whose author knew the digest."""
    info = with_new_digest(state[INFO_KEY], algorithm_weights(state["state_dict"]))
    torch.save({**state, INFO_KEY: info}, path)
    read_checkpoint(path)


@pytest.mark.parametrize(
    ("place", "value"),
    [("model.n_layers", 2**15), ("model.mlp_ratio", 2.0**20), ("model.d_model", 2**14)],
)
def test_a_network_that_is_larger_than_its_weights_is_not_built(state, place, value, tmp_path):
    made = {**state, INFO_KEY: changed(state[INFO_KEY], f"config.{place}", value)}
    with pytest.raises(
        ValueError, match=rf"model\.ckpt .*larger than its weights.*{place}={value}"
    ):
        read_back(made, tmp_path / "model.ckpt")


@pytest.mark.parametrize("counts", [[0] * 9 + [1], [2, 1], [0] * 100 + [1]])
def test_counts_of_sizes_that_no_graph_has(state, counts, tmp_path):
    made = {**state, INFO_KEY: {**state[INFO_KEY], "size_counts": counts}}
    with pytest.raises(ValueError, match=r"model\.ckpt: size_counts .*expected 1 to 8"):
        read_back(made, tmp_path / "model.ckpt")


ODD_WEIGHTS = {
    "sparse": lambda value: value.to_sparse(),
    "without numbers": lambda value: value.to("meta"),
    "one number for all": lambda value: value[:1, :1].expand(10**6, 10**6),
    "conjugate": lambda value: value.to(torch.complex64).conj(),
}


@pytest.mark.parametrize("kind", ODD_WEIGHTS)
@pytest.mark.parametrize("part", ["state_dict", "current_model_state"])
def test_weights_that_are_not_there_number_by_number(state, kind, part, tmp_path):
    name = next(key for key, value in state[part].items() if value.dim() == 2)
    odd = ODD_WEIGHTS[kind](state[part][name])
    torch.save({**state, part: {**state[part], name: odd}}, tmp_path / "model.ckpt")
    with pytest.raises(ValueError, match=rf"model\.ckpt: {part} holds .* without its numbers"):
        read_checkpoint(tmp_path / "model.ckpt")


def test_names_of_weights_that_are_no_texts(state, tmp_path):
    weights = {**state["state_dict"], 7: torch.zeros(2)}
    torch.save({**state, "state_dict": weights}, tmp_path / "model.ckpt")
    read_checkpoint(tmp_path / "model.ckpt")


def test_a_graph_of_more_nodes_than_memory_has_pairs_for(state, tmp_path):
    info = changed(changed(state[INFO_KEY], "config.data.n_max", 5000), "vocabulary.n_max", 5000)
    with pytest.raises(ValueError, match=r"model\.ckpt: .*n_max=5000: expected at most 4,096"):
        read_back({**state, INFO_KEY: info}, tmp_path / "model.ckpt")
