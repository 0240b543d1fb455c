"""``list`` says what fits what: the same as the parts themselves, once they are built."""

from __future__ import annotations

import re
from collections import defaultdict

import pytest
import torch

from discrete_diffusion.algorithms import ALGORITHMS, algorithm_state, build_algorithm
from discrete_diffusion.cli import compose
from discrete_diffusion.cli.listing import print_listing, sampled_by
from discrete_diffusion.domains import available_domains, complete_data, get_domain
from discrete_diffusion.models import registry
from discrete_diffusion.models.registry import available_backbones, register_backbone
from discrete_diffusion.sampling import SAMPLERS, fitting_samplers

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


def listed(capsys, width: int = 120) -> dict[str, dict[str, list[str]]]:
    """The first words of the rows of every table, by state and by the head of their column."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", str(width))
        print_listing()
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= width
    states: dict[str, dict[str, list[str]]] = {}
    table: list[str] = []
    for line in out.splitlines():
        word = line[1:].split(" ")[0]
        if heading := re.match(r"(\w+): ", line):
            tables = states.setdefault(heading[1], {})
        elif line.startswith(" choose with"):
            break
        elif word.endswith("="):
            table = tables.setdefault(word, [])
        elif word:
            table.append(word)
    return states


def test_data_says_what_it_comes_with(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")
    print_listing()
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    told = {row[0]: row[-2:] for row in rows if row and row[0] in DATA_SETS}
    expected = {"eit", "eit-levels"}
    assert {name for name, words in told.items() if words == ["condition", "dtn"]} == expected


@pytest.mark.parametrize("width", [80, 120])
def test_every_part_stands_under_its_state(capsys, width):
    states = listed(capsys, width)
    assert list(states) == ["tokens", "features", "field", "latent"]
    assert states["latent"] == {
        "data=": ["dialogue"],
        "algo.backbone=": ["latent-space-model"],
        "algo=": ["latent-seq2seq"],
        "sampling=": ["generate"],
    }
    assert states["features"] == {
        "data=": ["regions"],
        "algo.backbone=": ["get-region"],
        "algo=": ["masked-features"],
        "sampling=": ["row-ancestral"],
    }
    assert states["field"] == {
        "data=": ["eit"],
        "algo.backbone=": ["dtn-regressor", "dtn-unet"],
        "algo=": ["flow-matching", "regression"],
        "sampling=": ["direct", "ode"],
    }
    everything = {
        "data=": DATA_SETS,
        "algo.backbone=": available_backbones(),
        "algo=": ALGORITHMS.names(),
        "sampling=": SAMPLERS.names(),
    }
    for head, names in everything.items():
        found = [name for tables in states.values() for name in tables.get(head, [])]
        assert sorted(found) == sorted(names)


def test_processes_and_schedules_are_shown_with_what_fits_them(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    print_listing()
    lines = capsys.readouterr().out.splitlines()
    rows = {words[0]: words[1:] for line in reversed(lines) if (words := line.split())}
    assert rows["absorbing"][:10] == [
        "ar,",
        "bd3lm,",
        "d3pm,",
        "distill,",
        "matrix,",
        "mdlm,",
        "meld,",
        "reward,",
        "sedd",
        "any",
    ]
    assert rows["hybrid"][:3] == ["d3pm,", "gidd,", "matrix"]
    assert rows["cosine"][0] == "any"
    assert rows["learned"][0] == "meld"
    assert rows["d3pm"] == [
        *("absorbing,", "uniform,", "marginal,", "hybrid,", "matrix,", "any", "other", "any"),
    ]


def test_a_plug_in_backbone_stands_under_its_state(capsys, monkeypatch):
    for known in ("_BACKBONE_BUILDERS", "_REGISTERED"):
        monkeypatch.setattr(registry, known, dict(getattr(registry, known)))
    for name, state in (("my-rows", "features"), ("my-field", "field")):
        register_backbone(name, state=state)(lambda config, size: torch.nn.Identity())
    states = listed(capsys)
    assert states["features"]["algo.backbone="] == ["get-region", "my-rows"]
    assert states["field"]["algo.backbone="] == ["dtn-regressor", "dtn-unet", "my-field"]
    assert "my-rows" not in states["tokens"]["algo.backbone="]
