"""The commands as a user runs them, in this process; and the sentences that errors end with."""

from __future__ import annotations

import json
import re
import sys
from functools import partial

import pytest
import torch
import yaml

from discrete_diffusion import load
from discrete_diffusion.cli import main
from discrete_diffusion.runtime import devices
from discrete_diffusion.runtime.progress import shown

TINY = ["model=bd_tiny", "debug=smoke", "data.num_plans=200"]
QUICK = ["logger=none", "callbacks.num_samples=0", "eval.num_samples=2"]
"""Without what ``test_a_run_folder_is_complete`` looks at."""


@pytest.fixture(scope="module")
def finished_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("finished") / "run"
    main(["train", *TINY, f"hydra.run.dir={folder}"])
    return folder


@pytest.mark.slow
def test_a_run_folder_is_complete(finished_run):
    for name in ("config.yaml", "metrics.json", "samples.jsonl", "samples.png"):
        assert (finished_run / name).stat().st_size > 0
    for name in ("best", "last"):
        torch.load(finished_run / "checkpoints" / f"{name}.ckpt", weights_only=True)
    assert list((finished_run / "pictures").glob("step_*.png"))
    assert (finished_run / "logs" / "metrics.csv").exists()
    metrics = json.loads((finished_run / "metrics.json").read_text())
    assert {"nelbo_ordered_fixed", "nelbo_unordered", "nelbo_blind"} <= set(metrics)
    lines = (finished_run / "samples.jsonl").read_text().splitlines()
    assert len(lines) == metrics["num_samples"] == 8
    config = yaml.safe_load((finished_run / "config.yaml").read_text())
    assert config["algo"]["backbone"] == "bd-denoiser"


@pytest.mark.slow
@pytest.mark.parametrize("length", ["trainer.max_steps=3", "trainer.max_epochs=1"])
def test_runs_too_short_for_a_validation_leave_both_checkpoints(length, tmp_path, capsys):
    words = ["model=bd_tiny", "data.num_plans=120", "eval.num_samples=2", "eval.noise_samples=1"]
    main(["train", *words, length, "hydra.run.dir=run", "logger=none", "callbacks.num_samples=2"])
    for name in ("best", "last"):
        load(tmp_path / "run" / "checkpoints" / f"{name}.ckpt")
    number = r"([\d.]+)"
    pattern = f"nelbo_unordered {number} .*untrained {number}; of one order {number}, {number}\\)"
    bound, untrained, _, start = map(float, re.search(pattern, capsys.readouterr().out).groups())
    assert bound == pytest.approx(start, rel=0.02)  # three steps change little
    found = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert untrained == pytest.approx(found["nelbo_uniform"], abs=0.01)


@pytest.mark.slow
def test_without_a_terminal_lines_say_how_far_training_and_sampling_are(monkeypatch, capsys):
    told = partial(shown, first=0.0, every=0.01)
    monkeypatch.setattr(sys.modules["discrete_diffusion.cli.main"], "shown", told)
    words = ["trainer.max_steps=12", "trainer.val_check_interval=6", "eval.num_samples=10"]
    main(["train", *TINY, *words, "logger=none", "hydra.run.dir=run"])
    said = capsys.readouterr().out
    assert len(re.findall(r"^training, \d+ of 12 steps.* left$", said, re.MULTILINE)) > 1
    assert re.search(r"^training, \d+ of 12 steps, loss \d\S*, .* left$", said, re.MULTILINE)
    assert re.search(r"^training, 6 of 12 steps: validation", said, re.MULTILINE)
    assert "final measurements: sampling, " in said
    main(["sample", "checkpoint=run/checkpoints/best.ckpt", "num_samples=20", "batch_size=4"])
    assert re.search(r"^sampling, \d+ of 20 samples", capsys.readouterr().out, re.MULTILINE)


@pytest.mark.slow
def test_the_sampler_is_the_one_the_model_was_trained_with(tmp_path, failure):
    short = ["algo=udlm", "trainer.max_steps=1", "logger=none", "eval.num_samples=2"]
    main(["train", *TINY, *short, "sampling.steps=3", "hydra.run.dir=run"])
    words = ["checkpoint=run/checkpoints/last.ckpt", "num_samples=2"]

    def calls(out: str, *overrides: str) -> float:
        main(["sample", *words, *overrides, f"out={out}"])
        metrics = json.loads((tmp_path / out / "metrics.json").read_text())
        return metrics["network_calls_per_sample"]

    assert calls("a") == 3
    assert calls("b", "steps=2", "sampling.temperature=0.8", "sampling.top_p=0.9") == 2
    assert calls("c", "sampling=ancestral") == 100  # as that file has it
    for name in ("run", "a", "b", "c"):
        said = json.loads((tmp_path / name / "metrics.json").read_text())
        assert said["exact"] is False
        assert "sampling=ancestral" in said["approximate_because"]
    error = failure("sample", *words, "sampling=first-hitting")
    assert all(name in error for name in ("udlm", "first-hitting", "absorbing"))
    assert "sampling.steps=few" in failure("sample", *words, "+sampling.steps=few")
    assert "setting of a sampler 'stepps'" in failure("sample", *words, "sampling.stepps=3")


@pytest.mark.slow
def test_sampling_repeats_with_its_seed(finished_run, tmp_path):
    words = ["sample", f"checkpoint={finished_run}/checkpoints/best.ckpt", "num_samples=3"]
    for out, seed in (("a", 1), ("b", 1), ("c", 2)):
        main([*words, f"out={out}", f"seed={seed}"])
    a, b, c = ((tmp_path / name / "samples.jsonl").read_text() for name in "abc")
    assert a == b
    assert a != c


@pytest.mark.slow
def test_mixed_precision_trains_with_clipping_and_a_schedule_per_group(tmp_path, monkeypatch):
    monkeypatch.setattr(devices, "multiplies_bfloat16", lambda: True)  # slowly, where it does not
    words = ["trainer.precision=bf16-mixed", "schedule=per_group", "hydra.run.dir=run"]
    main(["train", *TINY, *QUICK, *words])
    assert (tmp_path / "run" / "metrics.json").exists()


@pytest.mark.slow
def test_multirun_resolves_a_preset_for_every_job(tmp_path, capsys):
    words = ["debug=smoke", "data.num_plans=60", "trainer.max_steps=1", *QUICK]
    main(["train", *words, "-m", "algo.backbone=bd-denoiser,dit", "hydra.sweep.dir=sweep"])
    names = [
        yaml.safe_load((tmp_path / f"sweep/{k}/config.yaml").read_text())["model"]["name"]
        for k in range(2)
    ]
    assert names == ["bd_small", "dit_small"]
    said = capsys.readouterr().out
    assert [f"--- job {k} of 2" in said for k in (1, 2, 3)] == [True, True, False]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("flag", "words"), [("-m", ["optim.lr=abc,b"]), ("--multi", ["model=nope"])]
)
def test_a_refused_sweep_leaves_nothing_behind(words, flag, tmp_path):
    with pytest.raises(SystemExit) as stop:
        main(["train", flag, *words])
    assert stop.value.code == 1
    assert [path for path in tmp_path.rglob("*") if "cache" not in str(path)] == []
    (tmp_path / "sweep" / "mine").mkdir(parents=True)
    with pytest.raises(SystemExit):
        main(["train", flag, *words, "hydra.sweep.dir=sweep"])
    assert [path.name for path in (tmp_path / "sweep").rglob("*")] == ["mine"]


def test_help_and_the_composed_config(capsys):
    for words in ([], ["--help"]):
        main(words)
        assert "discrete-diffusion train" in capsys.readouterr().out
    main(["train", "algo.backbone=dit", "--cfg", "job"])
    shown = yaml.safe_load(capsys.readouterr().out)
    assert shown["model"]["name"] == "dit_small"
    main(["--cfg", "job"])  # no command: train
    assert yaml.safe_load(capsys.readouterr().out)["algo"]["name"] == "mdlm"
    main(["--version"])
    assert capsys.readouterr().out.strip()


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ("evaluate checkpoint=a sampling=ancestrl", "did you mean 'ancestral'?"),
        ("train data=graphs data.skip_invlid=true", "did you mean 'skip_invalid'?"),
        ("train model=bd_tiny trainer.precision=bf16-true", "choose one of 32-true, bf16-mixed"),
        ("train eval.noise_samples=0", "eval.noise_samples=0: "),
        ("train callbacks.num_samples=-1", "callbacks.num_samples=-1"),
        ("train threads=0", "threads=0"),
        ("train seed=abc", "seed=abc: "),
        ("train seed=1.5", "seed=1.5: expected a whole number"),
        ("train foo", "'foo' is neither key=value nor a flag; see discrete-diffusion train"),
        ("train seed = 3", "'seed' is neither key=value nor a flag; leave no spaces"),
        ("sample checkpoint=a nodes_per_graph=[5, 6]", "leave no spaces inside key="),
        ("sample .", "did you mean checkpoint=.?"),
        ("train --overwrite", "--overwrite: keys have no dashes; write overwrite=..."),
        ("train --trainer.max_steps=3", "write trainer.max_steps=..."),
        ("sample --num-samples=4", "write num_samples=..."),
        ("train steps=30", "'steps'; did you mean trainer.max_steps=...?"),
        ("train precision=32", "'precision'; did you mean trainer.precision="),
        ("train optim.dropout=0", "'optim.dropout'; did you mean model.drop"),
        ("train run_dir=mine", "'run_dir'; did you mean out=FOLDER?"),
        ("train sede=3", "'sede'; did you mean 'seed'?"),
        ("train seed=1,2", "seed=[1,2]; to run each, add --multirun"),
        ("train compile=yes", "compile=yes: expected true, false, or reduce-overhead"),
        ("sample checkpoint=a compile=1", "compile=1: expected true, false"),
        ("sample checkpoint=a nodes_per_graph=5,6", "stands in brackets, nodes_per_graph=[5,6]"),
        ("sample checkpoint=a algo=mdlm", "algo is a key of train"),
        ("evaluate checkpoint=a +model.d_model=3", "model is a key of train"),
        ("sample checkpoint=a +num_sample=3", "sample takes no new keys"),
        ("sample checkpoint=a sampling.temperature=hot", "sampling.temperature=hot"),
        ("train --config-dir nowhere", "--config-dir nowhere: "),
        ("train out=a hydra.run.dir=b", "out= and hydra.run.dir= are one setting"),
        ("train model=bd_tiny data.node_order=sorted", "unknown node order 'sorted'"),
        ("compare", "algos=["),
        ("compare --multirun seeds=[0,1]", "leave --multirun out"),
        ("evaluate", "checkpoint=FILE"),
        ("smaple", "did you mean 'sample'"),
    ],
)
def test_refusals_name_the_key_and_the_remedy(failure, words, named):
    assert named in failure(*words.split())


@pytest.mark.slow
def test_damaged_and_foreign_checkpoints(failure, finished_run, tmp_path):
    good = (finished_run / "checkpoints" / "best.ckpt").read_bytes()
    torch.save({"weights": torch.zeros(2)}, "other.ckpt")
    torch.save({"state_dict": {}}, "plain.ckpt")
    (tmp_path / "cut.ckpt").write_bytes(good[: len(good) // 2])
    (tmp_path / "text.ckpt").write_text("not a checkpoint")
    (tmp_path / "empty.ckpt").write_bytes(b"")
    for name in ("other", "plain", "cut", "text", "empty"):
        error = failure("sample", f"checkpoint={name}.ckpt")
        assert f"{name}.ckpt" in error
        assert "checkpoint" in error
    assert "cut.ckpt is not a readable checkpoint" in failure("train", *TINY, "resume=cut.ckpt")
    words = [*TINY, "model.d_model=32", f"resume={finished_run}/checkpoints/last.ckpt"]
    assert "model.d_model 64 -> 32" in failure("train", *words)
    assert "is a folder" in failure("sample", f"checkpoint={finished_run}/pictures")


def test_the_trace_is_one_variable_away(monkeypatch):
    monkeypatch.setenv("HYDRA_FULL_ERROR", "1")
    with pytest.raises(ValueError, match="top_p=2"):
        main(["train", "sampling.top_p=2"])


NO_MEMORY = {
    "torch": RuntimeError(
        "[enforce fail at alloc_cpu.cpp:127] DefaultCPUAllocator: can't allocate memory: you tried "
        "to allocate 4398046511104 bytes. Error code 12 (Cannot allocate memory)"
    ),
    "torch on Windows": RuntimeError("DefaultCPUAllocator: not enough memory: you tried"),
    "a GPU": torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"),
    "Python": MemoryError(),
    "the system": OSError(12, "Cannot allocate memory"),
}


@pytest.mark.parametrize("source", NO_MEMORY)
def test_a_lack_of_memory_ends_with_a_remedy(failure, monkeypatch, source):
    monkeypatch.setattr("discrete_diffusion.cli.sample.run", raising(NO_MEMORY[source]))
    error = failure("sample", "num_samples=2")
    assert ("the GPU" in error) == (source == "a GPU")
    assert all(word in error for word in ("out of memory", "batch_size", "num_samples", "model"))


def test_other_errors_of_torch_keep_their_trace(monkeypatch, capsys):
    reason = "mat1 and mat2 shapes cannot be multiplied"
    monkeypatch.setattr("discrete_diffusion.cli.sample.run", raising(RuntimeError(reason)))
    with pytest.raises(SystemExit):  # of Hydra, which prints it
        main(["sample", "num_samples=2"])
    error = capsys.readouterr().err
    assert reason in error
    assert "discrete-diffusion: " not in error


def test_a_sentence_holds_nothing_that_a_terminal_obeys(failure, monkeypatch):
    odd = ValueError("a.ckpt is of \x1b[31mred")
    monkeypatch.setattr("discrete_diffusion.cli.sample.run", raising(odd))
    assert r"of \x1b[31mred" in failure("sample", "num_samples=2")


def raising(error: Exception):
    """Stand-in for the body of a command."""

    def run(config):
        raise error

    return run
