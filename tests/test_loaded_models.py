"""``load(...).sample``: what the command writes, as objects."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from hydra.core.global_hydra import GlobalHydra

from discrete_diffusion import load
from discrete_diffusion.cli import main
from floor_plans import BubbleDiagram, PartialDiagram, read_diagrams
from guide_code import blocks
from plan_examples import agrees

PARTIAL = {"rooms": ["LivingRoom", None, "Bathroom"], "relations": [[1, 0, "left-of"]]}


@pytest.fixture(scope="module")
def model(untrained):
    return load(untrained)


def written(untrained, folder, *words):
    main(["sample", f"checkpoint={untrained}", f"out={folder}", "accelerator=cpu", *words])
    return read_diagrams(folder / "samples.jsonl")


@pytest.mark.slow
def test_the_command_writes_the_same_diagrams(untrained, model, tmp_path):
    drawn = model.sample(num=6, seed=0, rooms=7)
    assert drawn == written(untrained, tmp_path, "num_samples=6", "seed=0", "num_rooms=7")
    assert {diagram.num_rooms for diagram in drawn} == {7}
    assert drawn == model.sample(6, num_rooms=7)
    assert model.sample(np.int64(3), rooms=range(1, 3)) == model.sample(3, rooms=[1, 2])
    assert drawn != model.sample(num=6, seed=1, rooms=7)


def test_several_threads_draw_and_leave_the_global_generator_alone(model):
    before = torch.get_rng_state()
    with ThreadPoolExecutor(3) as pool:
        drawn = list(pool.map(lambda seed: model.sample(num=1, seed=seed), range(6)))
    assert drawn == [model.sample(num=1, seed=seed) for seed in range(6)]
    assert not GlobalHydra.instance().is_initialized()
    assert torch.equal(torch.get_rng_state(), before)


def test_the_command_takes_the_same_sampler(untrained, model, tmp_path):
    words = ["sampling=ancestral", "sampling.temperature=0.5", "steps=4", "num_samples=3"]
    settings = {"name": "ancestral", "temperature": 0.5}
    assert model.sample(num=3, steps=4, sampling=settings) == written(untrained, tmp_path, *words)


@pytest.mark.slow
def test_the_command_completes_the_same_plans(untrained, model, tmp_path):
    file = tmp_path / "partial.jsonl"
    file.write_text(json.dumps(PARTIAL) + "\n")
    expected = written(untrained, tmp_path / "out", f"given={file}", "num_completions=3")
    partial = PartialDiagram.from_json(PARTIAL)
    assert all(agrees(partial, each) for each in expected)
    for given in (file, partial, [partial], PARTIAL):
        completed = model.sample(given=given, num_completions=3)
        assert completed == expected
        assert [diagram.metadata for diagram in completed] == [{"given": 1}] * 3


@pytest.mark.slow
@pytest.mark.parametrize("page", ["../README.md", "samplers.md"])
def test_what_the_pages_say(untrained, tmp_path, monkeypatch, page):
    monkeypatch.chdir(tmp_path)
    copy = tmp_path / "runs" / "first" / "checkpoints" / "best.ckpt"
    copy.parent.mkdir(parents=True)
    copy.write_bytes(untrained.read_bytes())
    scope: dict[str, object] = {}
    for block in blocks(page, "python"):
        if "@register" not in block:  # of a network that the reader has
            exec(compile(block, page, "exec"), scope)
    assert all(isinstance(diagram, BubbleDiagram) for diagram in scope["diagrams"])
    assert list(tmp_path.glob("*.svg"))


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"romms": 7}, "did you mean 'rooms'"),
        ({"trajectory": 2}, "'trajectory'"),  # there is no file to draw into
        ({"rooms": 9}, "num_rooms=9"),
        ({"rooms": 5, "num_rooms": 6}, "rooms and num_rooms are one option"),
        ({"num": 0}, "num_samples=0"),
        ({"num": 2, "given": PARTIAL}, "num_completions=2"),
        ({"num_completions": 2}, "given="),
        ({"sampling": "ancestrl"}, "did you mean 'ancestral'"),
        ({"precision": "bf17"}, "precision=bf17"),
    ],
)
def test_what_the_command_refuses(model, options, named):
    with pytest.raises(ValueError, match=named):
        model.sample(**options)


def test_what_is_no_path_is_refused():
    for wrong in (None, 5, ""):
        with pytest.raises(ValueError, match="expected a run folder, a checkpoint or a model's n"):
            load(wrong)
