"""``list`` says what fits what, ``--help`` every key with its meaning."""

from __future__ import annotations

import re
from collections import defaultdict
from importlib import import_module
from pathlib import Path

import pytest
import torch

from discrete_diffusion.algorithms import ALGORITHMS, build_algorithm
from discrete_diffusion.algorithms.registry import algorithm_state
from discrete_diffusion.cli import compose, main
from discrete_diffusion.cli.help import yaml_comments, yaml_header
from discrete_diffusion.cli.listing import print_listing, sampled_by
from discrete_diffusion.domains import complete_data
from discrete_diffusion.domains.registry import available_domains, get_domain
from discrete_diffusion.models.registry import available_backbones, register_backbone
from discrete_diffusion.sampling.registry import SAMPLERS
from listed_parts import listed
from toy_samplers import fitting_samplers

SMALL = {
    "tokens": ["algo.backbone=dit", "model=dit_tiny"],
    "features": ["data.num_windows=10", "data.num_motifs=2"],
    "field": [],
    "latent": [],
}

DATA_SETS = [name for domain in available_domains() for name in get_domain(domain).data_sets]


@pytest.mark.slow
def test_the_listing_names_the_algorithms_that_each_sampler_accepts():
    accepted = defaultdict(set)
    for name in ALGORITHMS.names():  # each with its default noise, absorbing where it can be
        config = compose("train", [f"algo={name}", *SMALL[algorithm_state(name)]])
        built = build_algorithm(complete_data(config))
        if built.processes:
            assert built.process.absorbing == ("absorbing" in built.processes)
        for sampler in fitting_samplers(built):
            accepted[sampler].add(name)
    assert {name: sampled_by(name) for name in SAMPLERS.names()} == {
        name: sorted(algorithms) for name, algorithms in accepted.items()
    }


@pytest.mark.usefixtures("clean_registry")
def test_every_part_stands_under_its_state(capsys):
    register_backbone("my-field", state="field")(lambda config, size: torch.nn.Identity())
    states = listed(capsys, 80)
    assert states["field"]["algo.backbone="][-1] == "my-field"
    everything = {
        "data=": DATA_SETS,
        "algo.backbone=": available_backbones(),
        "algo=": ALGORITHMS.names(),
        "sampling=": SAMPLERS.names(),
    }
    for head, names in everything.items():
        found = [name for tables in states.values() for name in tables.get(head, [])]
        assert sorted(found) == sorted(names)


def test_a_kind_of_parts_is_one_table_with_the_defaults_marked(capsys, failure):
    for kind, head, name in (
        ("samplers", "sampling=", "first-hitting*"),
        ("experiments", "experiment=", "planar"),
    ):
        main(["list", kind])
        words = [line.split()[0] for line in capsys.readouterr().out.splitlines() if line.strip()]
        assert words[0] == head
        assert name in words
    assert "did you mean 'samplers'?" in failure("list", "sampler")


def test_the_table_of_samplers_says_where_their_distances_are(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    main(["list", "samplers"])
    said = " ".join(capsys.readouterr().out.split())
    (page, section), name = re.findall(r'(docs/\S+), "([^"]+)"', said)[0], said.split()[-1]
    assert f"## {section}\n" in (Path(__file__).parents[3] / page).read_text()
    module, _, function = name.rpartition(".")
    assert callable(getattr(import_module(module), function))


def test_processes_and_schedules_are_shown_with_what_fits_them(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    print_listing()
    lines = capsys.readouterr().out.splitlines()
    rows = {
        words[0].removesuffix("*"): words[1:] for line in reversed(lines) if (words := line.split())
    }
    fitting = ["ar,", "bd3lm,", "ctmc,", "d3pm,", "distill,", "mdlm,", "meld,", "reward_tuning,"]
    assert rows["absorbing"][:10] == [*fitting, "sedd", "any"]
    assert rows["hybrid"][:3] == ["ctmc,", "d3pm,", "gidd"]
    assert rows["cosine"][0] == "any"
    assert rows["learned"][0] == "meld"
    processes = ["absorbing,", "uniform,", "marginal,", "hybrid,", "matrix,"]
    assert rows["d3pm"] == [*processes, "any", "other", "any"]


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
    assert yaml_comments(YAML) == {
        "size": "of the whole",
        "part": "a section",
        "part.rate": "a share, and the rest of its comment",
        "next.rate": "of the other",
    }
    assert yaml_header(YAML) == "A title, and more of it."


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
    assert "room slots" in shown["data.max_nodes=8"]
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
