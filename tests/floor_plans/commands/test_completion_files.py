"""``sample given=FILE`` as a user runs it, with untrained models."""

from __future__ import annotations

import json
import re

import pytest
import torch
from omegaconf import OmegaConf

from discrete_diffusion.cli import compose, main, sample
from discrete_diffusion.domains import complete_data
from floor_plans import BubbleDiagram, PartialDiagram, read_diagrams
from made_checkpoints import training_state
from plan_examples import agrees

LINES = [
    {
        "rooms": ["LivingRoom", None, "Kitchen", "Bathroom"],
        "relations": [[2, 0, "left-of"], [0, 3, "no-edge"], [0, 1, None]],
        "flat": 7,
    },
    {"rooms": [7, 2, 0], "relations": [[0, 1, "above"], [0, 2, "no-edge"], [1, 2, 3]]},
    {"rooms": [None, None]},
]


def write_lines(path, lines):
    """JSON lines; None is a blank one."""
    text = ("" if line is None else json.dumps(line) for line in lines)
    path.write_text("".join(f"{line}\n" for line in text))


def checkpoint(folder, *overrides):
    """The path of an untrained model's checkpoint."""
    path = folder / "model.ckpt"
    small = ["model=bd_tiny", "model.d_model=16", "model.cond_dim=16"]
    if "algo.backbone=dit" in overrides:
        small = ["model=dit_tiny"]
    config = complete_data(compose("train", [*small, *overrides]))
    torch.save(training_state(config), path)
    return path


@pytest.fixture(scope="module")
def defaults():
    return compose("sample")


@pytest.fixture(scope="module")
def mdlm_checkpoint(tmp_path_factory):
    return checkpoint(tmp_path_factory.mktemp("mdlm"))


@pytest.mark.slow
def test_the_command_completes_every_line(mdlm_checkpoint, tmp_path):
    write_lines(tmp_path / "partial.jsonl", LINES)
    words = [f"checkpoint={mdlm_checkpoint}", "given=partial.jsonl", "num_completions=3"]
    main(["sample", *words, "out=a", "trajectory=2", "threads=1"])
    assert sorted(p.name for p in (tmp_path / "a").iterdir()) == [
        "metrics.json",
        "samples.jsonl",
        "samples.png",
        "trajectory.gif",
        "trajectory.png",
    ]
    found = read_diagrams(tmp_path / "a" / "samples.jsonl")
    assert [d.metadata for d in found] == [
        *[{"flat": 7, "given": 1}] * 3,
        *[{"given": 2}] * 3,
        *[{"given": 3}] * 3,
    ]
    for diagram in found:
        partial = PartialDiagram.from_json(LINES[diagram.metadata["given"] - 1])
        assert agrees(partial, diagram)
    assert found[3] == BubbleDiagram((7, 2, 0), ((0, 1, 3), (1, 2, 3)))
    metrics = json.loads((tmp_path / "a" / "metrics.json").read_text())
    assert metrics["network_calls_per_sample"] == (5 + 0 + 3) / 3
    assert 0 < metrics["scoring_calls_per_sample"] <= 60
    assert 0 < metrics["scoring_batches_per_input"] <= 4  # one per given token
    assert metrics["arrangement_errors"] == {}
    assert (metrics["num_inputs"], metrics["completions"], metrics["num_samples"]) == (3, 3, 9)
    assert metrics["exact"] is True
    assert metrics["approximate_because"] is None


def test_a_size_that_was_not_trained_on_is_warned_of_once(mdlm_checkpoint, tmp_path, capsys):
    write_lines(tmp_path / "partial.jsonl", [LINES[1], LINES[2], LINES[1]])
    for k, asked in enumerate(["num_rooms=4", "num_rooms=2", "given=partial.jsonl"]):
        main(["sample", f"checkpoint={mdlm_checkpoint}", asked, "steps=2", f"out={k}"])
    said = [line for line in capsys.readouterr().out.splitlines() if "on none of" in line]
    assert len(said) == 2
    for line, size in zip(said, (4, 3), strict=True):
        assert f"was trained on diagrams of 1, 2 rooms, on none of {size}; samples" in line


def test_lines_that_no_valid_plan_completes_are_named_and_completed(
    mdlm_checkpoint, tmp_path, capsys
):
    two_living = {"rooms": ["LivingRoom", None, "Living"]}
    apart = {"rooms": ["LivingRoom", "Kitchen"], "relations": [[0, 1, "no-edge"]]}
    write_lines(tmp_path / "p.jsonl", [LINES[0], None, two_living, apart])
    main(["sample", f"checkpoint={mdlm_checkpoint}", "given=p.jsonl", "num_completions=1"])
    said = capsys.readouterr().out
    warnings = [line for line in said.splitlines() if "no completion can be valid" in line]
    assert [line.split(": ")[0] for line in warnings] == ["p.jsonl, line 3", "p.jsonl, line 4"]
    assert "rooms[0], rooms[2]" in warnings[0]
    assert "no-edge" in warnings[1]
    assert said.index(warnings[1]) < said.index("3 completions of 3 partial diagrams in ")
    assert len(read_diagrams(tmp_path / "samples" / "samples.jsonl")) == 3


def test_blank_lines_count_but_are_not_completed(mdlm_checkpoint, tmp_path, capsys):
    write_lines(tmp_path / "partial.jsonl", [None, LINES[0], None, LINES[2], None])
    words = [f"checkpoint={mdlm_checkpoint}", "given=partial.jsonl", "max_arrangements=1"]
    main(["sample", *words, "num_completions=2"])
    found = read_diagrams(tmp_path / "samples" / "samples.jsonl")
    assert [diagram.metadata["given"] for diagram in found] == [2, 2, 4, 4]
    assert "the arrangements of line 2 (" in capsys.readouterr().out
    metrics = json.loads((tmp_path / "samples" / "metrics.json").read_text())
    assert list(metrics["arrangement_errors"]) == ["2"]
    assert metrics["exact"] is False


@pytest.mark.slow
def test_other_noise_is_said_to_be_approximate(tmp_path, capsys):
    path = checkpoint(tmp_path, "algo=udlm")
    write_lines(tmp_path / "partial.jsonl", LINES)
    main(["sample", f"checkpoint={path}", "given=partial.jsonl", "num_completions=2", "steps=3"])
    assert "uniform noise" in capsys.readouterr().out
    metrics = json.loads((tmp_path / "samples" / "metrics.json").read_text())
    assert metrics["exact"] is False
    assert "takes given tokens for noisy ones" in metrics["approximate_because"]
    assert metrics["network_calls_per_sample"] == 2  # nothing for the complete line
    for diagram in read_diagrams(tmp_path / "samples" / "samples.jsonl"):
        partial = PartialDiagram.from_json(LINES[diagram.metadata["given"] - 1])
        assert agrees(partial, diagram)


@pytest.mark.slow
@pytest.mark.parametrize("algo", ["ar", "bd3lm"])
def test_models_that_would_not_see_what_is_given_refuse(algo, tmp_path, failure):
    path = checkpoint(tmp_path, f"algo={algo}", "algo.backbone=dit")
    write_lines(tmp_path / "partial.jsonl", [LINES[1], LINES[0]])
    error = failure("sample", f"checkpoint={path}", "given=partial.jsonl")
    assert f"partial.jsonl, line 2: {algo} " in error
    assert "algo=mdlm" in error
    rooms = {"rooms": ["Kitchen", "LivingRoom", "Balcony"], "relations": []}
    write_lines(tmp_path / "rooms.jsonl", [rooms])
    main(["sample", f"checkpoint={path}", "given=rooms.jsonl", "num_completions=2"])
    metrics = json.loads((tmp_path / "samples" / "metrics.json").read_text())
    assert metrics["exact"] is True
    found = read_diagrams(tmp_path / "samples" / "samples.jsonl")
    assert [d.rooms for d in found] == [(2, 0, 9)] * 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["given=p.jsonl", "num_samples=64"], "num_completions=64"),
        (["given=p.jsonl", "num_rooms=4"], "num_rooms=4"),
        (["num_completions=4"], "did you mean num_samples=4?"),
        (["given=p.jsonl", "num_completions=0"], "num_completions=0: "),
        (["trajectory=-1"], "trajectory=-1: "),
        (["max_arrangements=0"], "max_arrangements=0"),
        (["given=nowhere.jsonl"], "nowhere.jsonl"),
        (["given=[a.jsonl,b.jsonl]"], "expected one file"),
        (["given=w.npz"], "docs/floor_plans/briefs.md"),
        (["given=3"], "given=3: "),
        (["given=p.jsonl"], "p.jsonl, line 1, field 'relations[1]': rooms 1 and 0: left-of"),
    ],
)
def test_what_is_refused(mdlm_checkpoint, defaults, tmp_path, words, message):
    line = {"rooms": [0, None], "relations": [[0, 1, "left-of"], [1, 0, "left-of"]]}
    write_lines(tmp_path / "p.jsonl", [line])
    (tmp_path / "w.npz").write_bytes(b"")
    given = OmegaConf.from_dotlist([f"checkpoint={mdlm_checkpoint}", *words])
    with pytest.raises((ValueError, FileNotFoundError)) as error:
        sample.run(OmegaConf.merge(defaults, given))
    assert message in str(error.value)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "samples").exists()


def test_text_has_no_rooms_to_complete(tmp_path, failure):
    (tmp_path / "text.txt").write_text("to be or not to be\n" * 40)
    write_lines(tmp_path / "p.jsonl", [{"rooms": [0, None]}])
    words = ["data=text", "data.path=text.txt", "data.length=16", "algo.backbone=dit"]
    path = checkpoint(tmp_path, *words)
    error = failure("sample", f"checkpoint={path}", "trajectory=2")
    assert re.search(f"trajectory=2: {path} was not trained on diagrams.*; leave it out", error)
    error = failure("sample", f"checkpoint={path}", "given=p.jsonl")
    assert 'p.jsonl, line 1: expected a text, or {"text": "..."}' in error
