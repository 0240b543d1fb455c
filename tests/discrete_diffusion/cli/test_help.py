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


def test_groups_are_shown_with_their_choices_and_the_keys_of_the_chosen_ones(helped):
    shown = helped("train")
    assert "mdlm" in shown["algo=mdlm"].split(", ")
    assert "room slots" in shown["data.n_max=8"]
    assert "data.path=" not in shown
    shown = helped("train", "data=graphs", "trainer=ddp", "trainer.max_steps=5")
    assert "data=graphs" in shown
    assert "data.path=" in shown
    assert "every GPU" in shown["trainer.devices=auto"]
    assert "optimiser steps" in shown["trainer.max_steps=3000"]  # of the base of trainer=ddp


@pytest.mark.parametrize("command", ["sample", "evaluate"])
def test_commands_with_a_checkpoint_have_no_groups_of_training(helped, command):
    shown = helped(command)
    groups = {key.split("=")[0] for key in shown} & {"algo", "data", "model", "optim", "trainer"}
    assert groups <= {"data"}  # a key of one kind of data
    assert "ancestral" in shown["sampling="]
    assert not [key for key in shown if key.startswith(("trainer.", "optim.", "model."))]


def test_a_key_of_several_kinds_of_data_says_what_it_means_for_each(capsys):
    main(["sample", "--help"])
    said = capsys.readouterr().out
    for title in ("graphs", "molecules"):
        (own,) = re.findall(rf"^Keys for {title} alone.*?\n\s*\n", said, re.M | re.S)
        assert "given=" in own


def test_an_unknown_choice_is_refused(capsys):
    with pytest.raises(SystemExit):
        main(["train", "data=graph", "--help"])
    assert "'graphs'" in capsys.readouterr().err


def test_numbers_are_shown_with_the_bounds_that_refuse_them(helped):
    """Of a signature, and of a key that no constructor has."""
    rows = helped("train", "sampling=ancestral", "algo=d3pm")
    assert rows["sampling.steps=100"].endswith("(a whole number, at least 1)")
    assert rows["algo.num_steps=1000"].endswith("(a whole number, at least 1)")
    assert rows["seed=0"].endswith("(a whole number, at least 0)")


def test_null_is_shown_by_what_it_does(helped):
    rows = helped("sample")
    assert "(auto): 64" in rows["num_samples=(auto)"]
    assert rows["given="]
    assert not [said for said in rows.values() if "null is" in said]
