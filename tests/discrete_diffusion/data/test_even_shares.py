"""Kinds of data are trained on evenly, sample by sample."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from omegaconf import OmegaConf
from torch import Tensor

from discrete_diffusion.config.files import shipped_files
from discrete_diffusion.data import BatchStream, Dataset, Examples
from discrete_diffusion.data.base import ExamplesOnDisk
from discrete_diffusion.domains import build_data, complete_data

BATCH_SIZE = 7


@pytest.fixture
def build(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    paths = [{"n": n, "edges": [[k, k + 1] for k in range(n - 1)]} for n in range(1, 47)]
    (tmp_path / "paths.jsonl").write_text("\n".join(map(json.dumps, paths)))
    np.save(tmp_path / "ids.npy", np.arange(251) % 9)
    (tmp_path / "text.txt").write_text("to be or not to be, that is the question. " * 21)

    def build(name: str, changes: dict[str, Any]) -> Dataset:
        config = OmegaConf.load(shipped_files("data")[name])
        config = OmegaConf.merge(config, {"split": [0.8, 0.1, 0.1]}, changes)
        return build_data(complete_data(OmegaConf.create({"data": config})))

    return build


def numbered(examples: Examples) -> Examples:
    """The same, each with its row number as a condition."""

    def with_rows(some: Examples, rows: Tensor) -> Examples:
        return replace(some, conditions={**some.conditions, "row": rows})

    if isinstance(examples, ExamplesOnDisk):
        return ExamplesOnDisk(lambda rows: with_rows(examples[rows], rows), examples.sizes)
    return with_rows(examples, torch.arange(len(examples)))


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        pytest.param("graphs", {"path": "paths.jsonl"}, id="relabelled at random"),
        pytest.param("graphs", {"path": "paths.jsonl", "node_order": "bfs"}, id="searched"),
        pytest.param("text", {"path": "text.txt", "length": 16}, id="in memory, as it is"),
        pytest.param("tokens", {"path": "ids.npy", "length": 4}, id="on the disk"),
    ],
)
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
