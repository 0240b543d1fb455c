"""Every kind of data is trained on evenly: what a run shows of each data set, sample by sample."""

from __future__ import annotations

import json
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
import torch
from omegaconf import OmegaConf
from torch import Tensor

from discrete_diffusion.config.files import shipped_files
from discrete_diffusion.data import BatchStream, Dataset, Examples
from discrete_diffusion.data.base import ExamplesOnDisk
from discrete_diffusion.data.graph_tokens import decode_graphs
from discrete_diffusion.domains import build_data, complete_data
from discrete_diffusion.layout import RPLAN_VOCAB_CONFIG as VOCAB
from toy_graphs import random_graphs

SMALL: dict[str, dict[str, Any]] = {
    "bubble_diagrams": {"num_plans": 60},
    "plans": {"path": "plans.jsonl"},
    "cubigraph": {"path": "cubigraph.jsonl"},
    "text": {"path": "text.txt", "length": 16},
    "tokens": {"path": "ids.npy", "length": 4},
    "regions": {"num_windows": 30, "num_motifs": 2},
    "eit": {"num_samples": 20, "size": 16, "mesh_rings": 4, "num_boundary": 12},
    "eit-levels": {"num_samples": 20, "size": 16, "mesh_rings": 4, "num_boundary": 12},
    "dialogue": {"num_samples": 40},
    "dialogue-tokens": {"num_samples": 40},
    "graphs": {"path": "paths.jsonl"},
    "molecules": {"path": "chains.smi"},
    "qm9": {"path": "chains.smi"},
    "zinc": {"path": "chains.smi"},
}
OF_PACKAGES = {
    "floor_plans": {"plans", "cubigraph"},
    "continuous_states": {"regions", "eit", "eit-levels", "dialogue", "dialogue-tokens"},
}
"""Those that are there with a package that plugs in."""
CASES = [
    *((name, {}) for name in shipped_files("data")),
    ("graphs", {"node_order": "bfs"}),
]
if "plans" in shipped_files("data"):
    CASES += [
        ("plans", {"symmetry": "mirror"}),
        ("plans", {"symmetry": "square", "node_order": "random"}),
        ("plans", {"node_order": "given"}),
    ]
BATCH_SIZE = 7


def test_every_data_set_is_here():
    absent = [names for package, names in OF_PACKAGES.items() if find_spec(package) is None]
    assert {*shipped_files("data")} == {*SMALL}.difference(*absent)


@pytest.fixture
def build(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DISCRETE_DIFFUSION_CACHE", str(tmp_path / "cache"))
    plans = [
        {
            "rooms": [VOCAB.node_types[k] for k in nodes],
            "relations": [[i, j, VOCAB.edge_types[r]] for i, j, r in edges],
        }
        for nodes, edges in decode_graphs(random_graphs(45, seed=4).x0, VOCAB)
    ]
    (tmp_path / "plans.jsonl").write_text("\n".join(map(json.dumps, plans)))
    rooms = ["Entrance", "Bedroom", "Kitchen", "Outdoor"]
    flats = [
        {"rooms": rooms[:2] * n, "relations": [[k, k + 1, "door"] for k in range(n)]}
        for n in range(1, 11)
    ]
    flats += [{**flat, "rooms": rooms[2:] * (len(flat["rooms"]) // 2)} for flat in flats]
    (tmp_path / "cubigraph.jsonl").write_text("\n".join(map(json.dumps, flats)))
    paths = [{"n": n, "edges": [[k, k + 1] for k in range(n - 1)]} for n in range(1, 47)]
    (tmp_path / "paths.jsonl").write_text("\n".join(map(json.dumps, paths)))
    chains = ["C" * n + end for n in range(1, 9) for end in ("", "O", "N", "F", "=O", "C(=O)O")]
    (tmp_path / "chains.smi").write_text("\n".join(c for c in chains if len(c) <= 12))
    np.save(tmp_path / "ids.npy", np.arange(251) % 9)
    (tmp_path / "text.txt").write_text("to be or not to be, that is the question. " * 21)

    def build(name: str, changes: dict[str, Any]) -> Dataset:
        config = OmegaConf.load(shipped_files("data")[name])
        config = OmegaConf.merge(config, {"split": [0.8, 0.1, 0.1]}, SMALL[name], changes)
        return build_data(complete_data(OmegaConf.create({"data": config})))

    return build


def numbered(examples: Examples) -> Examples:
    """The same, each with its row number as a condition."""

    def with_rows(some: Examples, rows: Tensor) -> Examples:
        return replace(some, conditions={**some.conditions, "row": rows})

    if isinstance(examples, ExamplesOnDisk):
        return ExamplesOnDisk(lambda rows: with_rows(examples[rows], rows), examples.sizes)
    return with_rows(examples, torch.arange(len(examples)))


@pytest.mark.parametrize(("name", "changes"), CASES, ids=str)
def test_every_training_sample_is_shown_equally_often(build, monkeypatch, name, changes):
    """By two processes with two batches a step each, over fifty epochs."""
    data = build(name, changes)
    train = data.splits["train"]
    num, asked = len(train), []
    assert num % BATCH_SIZE, "some samples are to be left over"
    data.splits["train"] = numbered(train)
    original = data.augment

    def recording(examples, generator):
        asked.append(examples.conditions.pop("row"))
        return original(examples, generator)

    monkeypatch.setattr(data, "augment", recording)
    options = {"batch_size": BATCH_SIZE, "seed": 0, "world_size": 2, "accumulate": 2}
    streams = [BatchStream(data, rank=rank, **options) for rank in range(2)]
    epochs = [[len(batch) for batch in stream] for stream in streams for _ in range(50)]
    assert {size for epoch in epochs for size in epoch} == {BATCH_SIZE}
    counts = torch.bincount(torch.cat(asked), minlength=num)
    assert counts.max() - counts.min() <= 2
    assert counts.min() >= 25  # an epoch is about a pass, and at least a step
