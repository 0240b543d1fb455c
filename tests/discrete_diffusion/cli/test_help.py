"""``--help`` of a command: groups with their choices, keys with the comments of the YAML."""

from __future__ import annotations

import re

import pytest

from discrete_diffusion.cli.help import comments, header
from discrete_diffusion.cli.main import main

YAML = """\
# @package _global_
# A title, and
# more of it.
defaults:
  - other

size: 3 # of the whole
part: # a section
  rate: 0.5 # a share, and the rest
  # of its comment
  plain: true
  # of nothing
next:
  rate: 1.0 # of the other
"""


@pytest.fixture
def helped(capsys, monkeypatch):
    """The rows of the tables of a command's help: its first column -> the second, in one line."""
    monkeypatch.setenv("COLUMNS", "120")

    def rows(*words: str) -> dict[str, str]:
        main([*words, "--help"])
        found: dict[str, str] = {}
        for line in capsys.readouterr().out.splitlines():
            if match := re.match(r" (\S+=\S*) *(.*)", line):
                last = match[1]
                found[last] = match[2].strip()
            elif line.startswith("   ") and found:
                found[last] += f" {line.strip()}"
        return found

    return rows


def test_comments_belong_to_the_key_before_them():
    assert comments(YAML) == {
        "size": "of the whole",
        "part": "a section",
        "part.rate": "a share, and the rest of its comment",
        "next.rate": "of the other",
    }
    assert header(YAML) == "A title, and more of it."


@pytest.mark.parametrize("command", ["train", "sample", "evaluate", "compare"])
def test_every_key_has_a_meaning(helped, command):
    assert not [key for key, said in helped(command).items() if not said]


def test_a_key_of_several_kinds_of_data_says_what_it_means_for_each(capsys):
    main(["sample", "--help"])
    said = capsys.readouterr().out
    for title in ("graphs", "molecules"):
        (own,) = re.findall(rf"^Keys for {title} alone.*?\n\s*\n", said, re.M | re.S)
        assert "given=" in own


def test_groups_are_shown_with_their_choices_and_the_keys_of_the_chosen_ones(helped, failure):
    shown = helped("train")
    assert "mdlm" in shown["algo=mdlm"].split(", ")
    assert "room slots" in shown["data.n_max=8"]
    assert "data.path=" not in shown
    shown = helped("train", "data=graphs", "trainer=ddp", "trainer.max_steps=5", "algo=d3pm")
    assert "data=graphs" in shown
    assert "data.path=" in shown
    assert "every GPU" in shown["trainer.devices=auto"]
    assert "optimiser steps" in shown["trainer.max_steps=3000"]  # of the base of trainer=ddp
    assert shown["algo.num_steps=1000"].endswith("(a whole number, at least 1)")  # of a signature
    assert shown["seed=0"].endswith("(a whole number, at least 0)")  # which no constructor has
    assert "'graphs'" in failure("train", "data=graph", "--help")


def test_commands_with_a_checkpoint_have_no_groups_of_training(helped):
    shown = helped("sample")
    assert "ancestral" in shown["sampling="]
    assert not [key for key in shown if key.startswith(("trainer.", "optim.", "model.", "algo="))]
    assert "(auto): 64" in shown["num_samples=(auto)"]
    assert not [said for said in shown.values() if "null is" in said]
