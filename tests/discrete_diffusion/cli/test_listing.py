"""``list`` says what fits what: the same as the parts themselves, once they are built."""

from __future__ import annotations

from collections import defaultdict

import pytest
import torch

from discrete_diffusion.algorithms import ALGORITHMS, build_algorithm
from discrete_diffusion.algorithms.registry import algorithm_state
from discrete_diffusion.cli import compose, main
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


def test_processes_and_schedules_are_shown_with_what_fits_them(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    print_listing()
    lines = capsys.readouterr().out.splitlines()
    rows = {
        words[0].removesuffix("*"): words[1:] for line in reversed(lines) if (words := line.split())
    }
    fitting = ["ar,", "bd3lm,", "d3pm,", "distill,", "matrix,", "mdlm,", "meld,", "reward,", "sedd"]
    assert rows["absorbing"][:10] == [*fitting, "any"]
    assert rows["hybrid"][:3] == ["d3pm,", "gidd,", "matrix"]
    assert rows["cosine"][0] == "any"
    assert rows["learned"][0] == "meld"
    processes = ["absorbing,", "uniform,", "marginal,", "hybrid,", "matrix,"]
    assert rows["d3pm"] == [*processes, "any", "other", "any"]
