"""The table of distances has a row for every sampler measured, and the reasons of the others."""

from __future__ import annotations

import pytest
import torch

from discrete_diffusion.sampling import FirstHitting, build_sampler
from discrete_diffusion.sampling.registry import SAMPLERS
from record import Part, Record
from sampler_distances import FIGURE, SHOWN, STEPS, figures, letters, requests, sections, world_of


def row(name: str, column: str, calls: float, distance: float, noise: str = "masks"):
    keys = {key for _, key in SHOWN}
    return {
        **{"name": name, "noise": noise, "column": column, "refused": "", "calls": calls},
        **{"cpu_seconds": 1.25, "distances": {key: [distance, distance] for key in keys}},
    }


@pytest.fixture
def record():
    world = {
        "floor": {key: [0.002, 0.0021, 0.0022] for _, key in SHOWN},
        "rows": [
            row("a stranger's", "4", 4.0, 0.25),
            row("a stranger's", "8", 8.0, 0.0022),
            row("a stranger's", "default", 128.0, 0.0025),
            row("ancestral", "16", 15.2, 0.01, "uniform"),
        ],
        "refused": [{**row("entropy", "2", 0, 0), "refused": "entropy needs masks; use ancestral"}],
    }
    worlds = {name: world for name, _ in SHOWN}
    facts = {"samples": 1024, "floor_seeds": 3, "letters": 128, "nodes": 17}
    command = "python benchmarks/sampler_distances.py --text x"
    return Record("sampler_distances", command, 0, "a processor", {**facts, "worlds": worlds})


def test_the_table_marks_what_is_as_near_as_exact_draws(record):
    text = sections(record)[Part.SAMPLERS, "sampler distances"]
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()]
    rows = {tuple(line[:2]): line[2:] for line in lines if line}
    assert len(rows) == 2 + 3 * len(SHOWN)
    for title in SHOWN.values():
        assert rows[title, "exact draws"][-2] == "0.0021 ± 0.0001"
        stranger = ["", "0.250", "0.0022 =", "", "0.0025 (128)", "1.2"]
        assert rows[title, "a stranger's"] == stranger
        assert rows[title, "ancestral, uniform"] == ["", "", "", "0.0100 (15.2)", "", ""]
    assert "* `entropy`: masks, it needs masks\n" in text
    assert "1,024 samples per seed; 3 seeds of exact draws, 2 of order 1" in text


@pytest.mark.slow
def test_the_figure_is_drawn_from_the_record(record, tmp_path):
    ((name, draw),) = figures(record).items()
    assert name == FIGURE
    draw(tmp_path / name)
    assert (tmp_path / name).stat().st_size > 0


def test_every_sampler_of_tokens_has_its_runs(monkeypatch):
    monkeypatch.setitem(SAMPLERS.builders, "theirs", type("Theirs", (FirstHitting,), {}))
    for name in (*SAMPLERS.names(), "theirs"):
        for _, sampling, _ in (runs := requests("order 1", name)):
            build_sampler(sampling)
        assert [column for column, _, _ in runs if column != "default"] in (
            [],
            [str(number) for number in STEPS],
        )


def test_letters_are_ids_and_worlds_have_their_transition_counts():
    text = letters("Ab,  c? zz")
    assert text.tolist() == [1, 2, 0, 3, 0, 26, 26]
    for name in ("order 1", "order 2", "hidden", "trees"):
        world = world_of(name, text, True, quick=True)
        x_t = torch.zeros(2, world.length, dtype=torch.long)
        log_d = world(x_t, torch.tensor([0.5, 2.0]))
        torch.testing.assert_close(log_d.exp().sum(-1), torch.ones_like(log_d[..., 0]))
