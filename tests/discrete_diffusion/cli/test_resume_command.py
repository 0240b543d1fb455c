"""``train resume=...`` and stopped runs, as a user sees them."""

from __future__ import annotations

import json
import shlex
import signal
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from lightning.pytorch import Trainer
from omegaconf import OmegaConf

from discrete_diffusion import load
from discrete_diffusion.checkpoints import read_checkpoint
from discrete_diffusion.checkpoints.contents import info_with_digest
from discrete_diffusion.checkpoints.files import (
    algorithm_weights,
    read_training_file,
    with_new_digest,
)
from discrete_diffusion.checkpoints.start import ResumePoint, machine_changes
from discrete_diffusion.cli import compose, main
from discrete_diffusion.domains.registry import DEFAULT, get_domain
from discrete_diffusion.layout import RPLAN_VOCAB_CONFIG

TINY = ["model=bd_tiny", "debug=smoke", "data.num_plans=200", "logger=none"]
SHORT = [*TINY, "trainer.max_steps=4", "callbacks.num_samples=0", "eval.num_samples=2"]

REPORT = type(
    get_domain(DEFAULT).report(SimpleNamespace(vocab=RPLAN_VOCAB_CONFIG), "test", compose("train"))
)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("finished") / "run"
    main(["train", *SHORT, f"hydra.run.dir={folder}"])
    return folder


def stopped(capsys, *arguments: str) -> tuple[int, str]:
    """Exit status and the last line on stderr."""
    with pytest.raises(SystemExit) as stop:
        main(["train", *arguments])
    error = capsys.readouterr().err
    assert "Traceback" not in error
    return stop.value.code, error.strip().splitlines()[-1]


def other_run(finished) -> None:
    """``other.ckpt``, as a machine with more of everything would have written it."""
    state = read_training_file(finished / "checkpoints" / "last.ckpt")
    info = state["discrete_diffusion"]
    info["config"]["optim"]["warmup_steps"] = 2
    state["discrete_diffusion"] = info_with_digest(
        {key: value for key, value in info.items() if key != "digest"},
        state["state_dict"],
        step=info["step"],
        scheduled_steps=info["scheduled_steps"],
        machine=info["machine"] | {"threads": 99, "processes": 4},
    )
    torch.save(state, "other.ckpt")


def replaced(state: dict, *keys, value) -> None:
    for key in keys[:-1]:
        state = state[key]
    state[keys[-1]] = value


STREAM = ("loops", "fit_loop", "state_dict", "combined_loader")
MOMENTS = ("optimizer_states", 0, "state", 0, "exp_avg")
BROKEN_STATES = {
    "moments of another shape": ((*MOMENTS,), torch.zeros(3)),
    "moments that are one number": ((*MOMENTS,), torch.zeros(1, 1).expand(15, 64)),
    "moments that are a text": ((*MOMENTS,), "text"),
    "parameters": (("optimizer_states", 0, "param_groups", 0, "params"), [0]),
    "optimisers": (("optimizer_states",), 3),
    "schedules": (("lr_schedulers",), [{"a": 1}]),
    "weights": (("current_model_state",), [1]),
    "callbacks": (("callbacks",), 3),
    "a callback": (("callbacks", "SkippedSteps"), {"a": 1}),
    "the number of an average": (("callbacks", "EMA", "latest_update_step"), [1]),
    "the best step": (("callbacks", "RunCheckpoints", "best_step"), "text"),
    "the best score": (("callbacks", "RunCheckpoints", "best_score"), [1]),
    "the average": (("averaging_state",), {"n_averaged": "text"}),
    "the step": (("global_step",), "text"),
    "loops": (("loops",), {}),
    "batches": (STREAM, [{"batches": "text"}]),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", BROKEN_STATES)
def test_a_broken_training_state_is_refused_by_its_file(finished, kind, failure):
    state = read_training_file(finished / "checkpoints" / "last.ckpt")
    keys, value = BROKEN_STATES[kind]
    replaced(state, *keys, value=value)
    torch.save(state, "broken.ckpt")
    longer = "trainer.max_steps=6"  # the last of several words counts
    assert "broken.ckpt" in failure("train", *SHORT[:-3], longer, *SHORT[-2:], "resume=broken.ckpt")


@pytest.mark.slow
def test_an_unknown_part_of_the_run_is_refused_by_its_file(finished, failure):
    state = read_training_file(finished / "checkpoints" / "last.ckpt")
    state["discrete_diffusion"]["config"]["algo"]["backbone"] = "unheard-of"
    info = with_new_digest(state["discrete_diffusion"], algorithm_weights(state["state_dict"]))
    torch.save({**state, "discrete_diffusion": info}, "broken.ckpt")
    for words in (("sample", "checkpoint=broken.ckpt"), ("train", "resume=broken.ckpt")):
        error = failure(*words)
        assert "broken.ckpt" in error
        assert "unheard-of" in error


def numbers(folder) -> dict:
    return json.loads((folder / "metrics.json").read_text())


@pytest.mark.slow
def test_a_finished_run_has_both_kinds_of_file(finished):
    kept = finished / "checkpoints"
    assert {p.name for p in kept.iterdir()} == {
        f"{name}.{kind}" for name in ("best", "last") for kind in ("ckpt", "safetensors")
    }
    info = read_training_file(kept / "last.ckpt")["discrete_diffusion"]
    assert info["data_fingerprint"] == numbers(finished)["data_fingerprint"]
    main(["sample", f"checkpoint={kept}/best.safetensors", "num_samples=2", "out=drawn"])
    main(["sample", f"checkpoint={finished}", "num_samples=2", "out=the_same"])
    drawn, the_same = (Path(name) / "samples.jsonl" for name in ("drawn", "the_same"))
    assert the_same.read_text() == drawn.read_text()
    found = json.loads(Path("the_same/metrics.json").read_text())
    assert found["checkpoint"] == str(kept / "best.ckpt")


@pytest.mark.slow
def test_a_finished_run_resumed_is_evaluated_again(finished, tmp_path, capsys):
    main(["train", *SHORT, f"resume={finished}", "hydra.run.dir=again"])
    assert numbers(tmp_path / "again") == numbers(finished)
    said = capsys.readouterr().out
    assert str(finished / "checkpoints" / "last.ckpt") in said
    assert "no training, only the evaluation" in said
    assert f"at step 4, in {tmp_path / 'again'}" in said
    for name in ("best", "last"):
        load(tmp_path / "again" / "checkpoints" / f"{name}.ckpt")


@pytest.mark.slow
def test_metrics_samples_and_best_checkpoint_are_of_one_model(tmp_path):
    """Steps so long make all validations after that of step 2 worse."""
    words = ["optim.lr=1", "optim.lr_schedule=constant", "optim.warmup_steps=0"]
    words = [*SHORT, *words, "callbacks.ema_decay=null", "trainer.val_check_interval=2"]
    main(["train", *words, "trainer.max_steps=2", "hydra.run.dir=short"])
    main(["train", *words, "trainer.max_steps=5", "hydra.run.dir=long"])
    short, long = tmp_path / "short", tmp_path / "long"
    assert read_checkpoint(long / "checkpoints" / "best.ckpt").step == 2
    assert read_checkpoint(long / "checkpoints" / "last.ckpt").step == 5
    assert numbers(long) == numbers(short) | {"steps": 5}
    assert numbers(long)["step"] == 2
    assert (long / "samples.jsonl").read_text() == (short / "samples.jsonl").read_text()
    main(["evaluate", f"checkpoint={long}", "num_samples=2", "quick=true", "out=measured"])
    assert json.loads(Path("measured/metrics.json").read_text())["step"] == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["trainer.max_steps=3"], "step 4, past trainer.max_steps=3"),
        (["seed=3", "optim.lr=0.5"], "seed 0 -> 3, optim.lr 0.001 -> 0.5"),
        (["data.num_plans=210"], "the data (fingerprint"),
        (["trainer.max_steps=null"], "cosine needs a known length; set trainer.max_steps or"),
    ],
)
def test_another_length_setting_or_data_are_refused_by_name(finished, words, named, failure):
    last = finished / "checkpoints" / "last.ckpt"
    assert named in failure("train", *SHORT, *words, f"resume={last}")


@pytest.mark.slow
def test_no_limit_of_steps_is_no_shorter_run(finished, tmp_path, capsys):
    """trainer.max_steps=null: the epochs count, of which one was begun."""
    other_run(finished)
    by_epochs = ["trainer.max_steps=null", "trainer.max_epochs=1", "optim.warmup_steps=2"]
    main(["train", *SHORT, *by_epochs, "resume=other.ckpt", "hydra.run.dir=by_epochs"])
    steps = numbers(tmp_path / "by_epochs")["steps"]
    assert steps > 4
    said = capsys.readouterr().out
    assert f"the run was to take 4 steps and is to take {steps}: the cosine" in said


@pytest.mark.slow
def test_a_diverged_run_leaves_metrics_that_are_json(tmp_path, capsys, monkeypatch):
    measure = REPORT.measure
    monkeypatch.setattr(REPORT, "measure", lambda *a: {**measure(*a), "valid": float("nan")})
    main(["train", *SHORT, "hydra.run.dir=run"])
    text = (tmp_path / "run" / "metrics.json").read_text()
    assert "NaN" not in text
    assert json.loads(text)["valid"] is None
    assert "not finite, so null in metrics.json: valid\n" in capsys.readouterr().out


@pytest.mark.slow
def test_what_changes_the_numbers_is_said(finished, capsys):
    other_run(finished)
    longer = ["trainer.max_steps=5", "optim.warmup_steps=2", "resume=other.ckpt"]
    main(["train", *SHORT, *longer, "hydra.run.dir=longer"])
    said = capsys.readouterr().out
    assert "threads was 99 and is 1: numbers may differ in their last bits" in said
    assert "the run had 4 processes and has 1" in said
    assert "the run was to take 4 steps and is to take 5: the cosine learning rate goes on" in said
    assert "here at 0.25 of its peak instead of 0" in said


def test_threads_that_the_launch_will_divide_are_not_compared():
    point = ResumePoint(Path("last.ckpt"), 1, {}, {"threads": 99, "processes": 2}, None)
    trainers = {n: Trainer(accelerator="cpu", devices=n, logger=False) for n in (1, 2)}
    divided, given = (compose("train", [f"threads={n}"]) for n in ("null", 3))
    assert machine_changes(point, divided, trainers[2]) == []
    for config, num in ((given, 2), (divided, 1), (given, 1)):
        assert machine_changes(point, config, trainers[num])[0].startswith("threads was 99 and is")


def test_a_stopped_job_of_a_sweep_goes_on_by_the_command_that_is_printed(
    finished, tmp_path, capsys, monkeypatch
):
    with monkeypatch.context() as patch:
        patch.setattr(REPORT, "save", lambda *_: signal.raise_signal(signal.SIGTERM))
        status, line = stopped(capsys, "-m", *SHORT, "hydra.sweep.dir=sweep")
    assert status == 128 + signal.SIGTERM
    assert "another hydra.sweep.dir" in line
    command = shlex.split(line.partition("this job: ")[2].partition(";")[0])
    assert command[:2] == ["discrete-diffusion", "train"]
    main(command[1:])
    assert numbers(tmp_path / "sweep" / "0") == numbers(finished)


@pytest.mark.slow
def test_epochs_of_some_of_the_batches(capsys):
    steps = 5
    words = [*TINY, "+trainer.limit_train_batches=0.5", "trainer.max_steps=-1"]
    words += ["callbacks.num_samples=0", "eval.num_samples=0", "optim.lr_schedule=constant"]
    words += ["optim.warmup_steps=0", "trainer.check_val_every_n_epoch=1", "data.batch_size=16"]
    main(["train", *words, "trainer.max_epochs=2", "hydra.run.dir=whole"])
    said = capsys.readouterr().out
    assert f"an epoch is {steps} steps, by trainer.limit_train_batches=0.5" in said
    main(["train", *words, "trainer.max_epochs=1", "hydra.run.dir=half"])
    main(["train", *words, "trainer.max_epochs=2", "resume=half", "hydra.run.dir=rest"])
    taken = read_checkpoint("rest/checkpoints/last.ckpt").step
    assert taken == read_checkpoint("whole/checkpoints/last.ckpt").step == 2 * steps
    whole, rest = (load(Path(run, "checkpoints/last.ckpt")) for run in ("whole", "rest"))
    assert all(map(torch.equal, whole.parameters(), rest.parameters()))


def test_a_run_goes_on_by_its_own_config(finished, tmp_path):
    """Composed from ``resume=`` alone; what is typed is as typed."""
    was = OmegaConf.load(finished / "config.yaml")
    alone = compose("train", [f"resume={finished}"])
    expected = OmegaConf.merge(was, {"resume": str(finished)})
    assert OmegaConf.to_container(alone, resolve=True) == OmegaConf.to_container(expected)
    assert (alone.model.name, alone.trainer.max_steps, alone.data.num_plans) == ("bd_tiny", 4, 200)
    more = compose("train", [f"resume={finished}", "trainer.max_steps=6", "model=bd_tiny"])
    assert (more.trainer.max_steps, more.data.num_plans) == (6, 200)
    other = compose("train", [f"resume={finished}", "model=bd_small", "optim.lr=0.5"])
    assert (other.model.d_model, other.optim.lr) == (compose("train").model.d_model, 0.5)
    by_experiment = compose("train", [f"resume={finished}", "debug=smoke"])
    assert by_experiment.trainer.max_steps == 2


@pytest.mark.slow
def test_resume_alone_repeats_the_whole_run(tmp_path, capsys):
    """Other data, network, noise, sampler, optimiser than the defaults, and keys of one's own."""
    words = [
        *("data=text", "data.length=16", "data.batch_size=8", "algo=udlm", "algo.backbone=dit"),
        *("model=dit_tiny", "schedule=cosine", "optim=muon", "optim.momentum=0.8", "logger=none"),
        *("trainer.val_check_interval=2", "eval.noise_samples=1", "sampling.steps=3", "seed=5"),
    ]
    main(["train", *words, "trainer.max_steps=4", "hydra.run.dir=whole"])
    main(["train", *words, "trainer.max_steps=2", "hydra.run.dir=half"])
    main(["train", "resume=half", "trainer.max_steps=4", "hydra.run.dir=mine"])
    capsys.readouterr()
    whole, mine = (OmegaConf.load(tmp_path / name / "config.yaml") for name in ("whole", "mine"))
    half = OmegaConf.load(tmp_path / "half" / "config.yaml")
    assert mine.eval == half.eval  # amounts are decided once
    assert {**mine, "resume": None, "eval": None, "callbacks": None, "trainer": None} == {
        **whole,
        **{"eval": None, "callbacks": None, "trainer": None},
    }
    same = (load(f"{name}/checkpoints/last.ckpt", ema=False) for name in ("whole", "mine"))
    pairs = zip(*(model.parameters() for model in same), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)
    status, line = stopped(capsys, "resume=half", "algo=mdlm", "trainer.max_steps=4")
    assert status == 1
    assert "algo.name udlm -> mdlm" in line


@pytest.mark.slow
def test_code_is_not_taken_from_a_checkpoint(tmp_path, capsys):
    timer = "callbacks.extra.timer._target_"
    words = [f"+{timer}=lightning.pytorch.callbacks.Timer", "hydra.run.dir=run"]
    main(["train", *SHORT, *words])
    capsys.readouterr()
    main(["train", "resume=run", "hydra.run.dir=again"])
    assert f"+{timer}=lightning.pytorch.callbacks.Timer" in capsys.readouterr().out
    assert not OmegaConf.load(tmp_path / "again" / "config.yaml").callbacks.extra
