"""Keys that messages name: each can be typed as it is printed, without a plus."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from omegaconf import DictConfig, OmegaConf

import discrete_diffusion
from discrete_diffusion.composing.compose import compose_plainly, with_open_keys
from discrete_diffusion.composing.parts import all_choices
from discrete_diffusion.composing.search_path import written
from discrete_diffusion.config.files import shipped_config, shipped_files
from discrete_diffusion.config.renamed_keys import KEYS, with_new_names, with_stand_ins

GROUPS = (
    *("data", "model", "algo", "schedule", "forward_process", "sampling", "optim"),
    *("trainer", "callbacks"),
)
_KEY = re.compile(
    rf"(?<![\w./'-])((?:{'|'.join((*GROUPS, 'eval', 'init'))})\.[a-z][a-z_0-9]*(?:\.[a-z_]+)*)"
)

NOT_KEYS = {"data.mat", "data.pkl", "model.safetensors", "model.sample"}
"""Names of files, and code."""

NAMED_IF_TYPED = {
    *("trainer.limit_train_batches", "trainer.overfit_batches", "trainer.callbacks"),
    *("trainer.gradient_clip_algorithm", "model.length", "model.scale_by_sigma"),
}
"""Keys of the config that a user added, or that a file has, and that no message tells to set."""


def named_keys() -> set[str]:
    """Keys in the texts of the package, docstrings aside."""
    found: set[str] = set()
    for path in Path(discrete_diffusion.__file__).parent.rglob("*.py"):
        nodes = [*ast.walk(ast.parse(path.read_text("utf-8")))]
        alone = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
        for node in nodes:
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found |= set() if id(node) in alone else {*_KEY.findall(node.value)}
    return found - NOT_KEYS - NAMED_IF_TYPED


def has(config: DictConfig, key: str) -> bool:
    section, _, name = key.rpartition(".")
    parent = OmegaConf.select(config, section)
    return isinstance(parent, DictConfig) and name in parent


@pytest.mark.slow
def test_every_key_that_a_message_names_can_be_typed():
    named, typed = named_keys(), set()
    assert {"trainer.limit_val_batches", "callbacks.num_samples", "eval.num_held_out"} <= named
    for choice in [f"{g}={name}" for g in GROUPS for name in all_choices(g)]:
        config = compose_plainly("train", [choice])
        here = {key for key in named - typed if has(config, key)}
        plain = OmegaConf.to_container(config, resolve=True)
        values = {key: OmegaConf.select(OmegaConf.create(plain), key) for key in here}
        words = [
            f"{key}={written(value)}"
            for key, value in values.items()
            if not isinstance(value, DictConfig)
        ]
        if words:
            compose_plainly("train", with_open_keys("train", [choice, *words]))
        typed |= here
    (opened,) = named - typed
    words = with_open_keys("train", [f"{opened}=10"])
    assert OmegaConf.select(compose_plainly("train", words), opened) == 10


def test_new_names_are_those_of_shipped_configs():
    there = {
        group: {key for name in shipped_files(group) for key in shipped_config(group, name)}
        for group in ("data", "model", "sampling", "schedule")
    }
    for group, keys in there.items():
        assert keys >= {*KEYS[group].values()}, group
        assert not keys & {*KEYS[group]} - {*KEYS[group].values()}, group
    student = {"algo": {"name": "distill", "draw": "exact"}}
    earlier = {"sampling": {"name": "ancestral", "default_steps": 7}}
    assert with_new_names(earlier) == {"sampling": {"name": "ancestral", "steps": 7}}
    removed = with_stand_ins({"sampling": {"name": "speculative", "temperature": 0.9, "k": 3}})
    assert removed["sampling"] == shipped_config("sampling", "first-hitting") | {"temperature": 0.9}
    assert with_new_names(student) == {"algo": {"name": "distill", "train_on": "all_calls"}}


def test_settings_of_plug_ins_keep_their_names():
    theirs = {
        "algo": {"name": "a_strangers", "backbone": "a_strangers", "draw": 1},
        "data": {"domain": "a_strangers", "kind": 2, "condition": 3},
        "model": {"pos": 4},
        "sampling": {"name": "a_strangers", "budget": 5},
    }
    assert with_new_names(theirs) == theirs
