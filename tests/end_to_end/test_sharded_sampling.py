"""Several real processes that draw and measure: the numbers of one, and an end without a hang."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from discrete_diffusion.cli import main
from floor_plans import generate_plans, write_diagrams

TINY = ["model=bd_tiny", "model.d_model=16", "model.cond_dim=16", "debug=smoke", "logger=none"]


@pytest.fixture
def checkpoint(tmp_path, monkeypatch) -> Path:
    """A model of 60 plans, in the working folder of the test."""
    monkeypatch.chdir(tmp_path)
    write_diagrams("plans.jsonl", generate_plans(60, seed=0))
    data = ["data=plans", f"data.path={tmp_path}/plans.jsonl", "data.split=[0.5,0.5,0.0]"]
    short = ["trainer.max_steps=2", "callbacks.num_samples=0", "eval.num_samples=0"]
    main(["train", *TINY, *data, *short, "hydra.run.dir=run"])
    return tmp_path / "run/checkpoints/last.ckpt"


def numbers(folder: str) -> dict:
    found = json.loads(Path(folder, "metrics.json").read_text())
    return {key: value for key, value in found.items() if key != "seconds"}


@pytest.mark.slow
def test_two_processes_draw_and_measure_as_one_does(checkpoint):
    words = [f"checkpoint={checkpoint}", "accelerator=cpu", "num_samples=40", "num_seeds=2"]
    words += [
        "reference_repeats=0",
        "noise_samples=1",
        "time_bins=2",
        "batch_size=8",
        "pictures=false",
    ]
    main(["evaluate", *words, "out=one"])
    before = dict(os.environ)
    main(["evaluate", *words, "out=two", "devices=2", "threads=1"])
    assert dict(os.environ) == before
    assert Path("one/samples.jsonl").read_text() == Path("two/samples.jsonl").read_text()
    assert numbers("one") == numbers("two")


def torchrun(num: int, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={num}"]
    command += ["-m", "discrete_diffusion", *words]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=240, env=environment
    )


@pytest.mark.slow
def test_torchrun(checkpoint):
    words = ["sample", f"checkpoint={checkpoint}", "accelerator=cpu"]
    main([*words, "num_samples=70", "trajectory=3", "out=one"])
    done = torchrun(3, *words, "num_samples=70", "trajectory=3", "out=three")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("70 samples in") == 1
    for name in ("samples.jsonl", "trajectory.gif"):
        assert Path("one", name).read_bytes() == Path("three", name).read_bytes()
    lines = [{"rooms": [None] * 4, "relations": []}, {"rooms": ["Kitchen", None], "relations": []}]
    Path("given.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    main([*words, "given=given.jsonl", "out=a"])
    done = torchrun(2, *words, "given=given.jsonl", "out=b")
    assert done.returncode == 0, done.stderr
    assert Path("a/samples.jsonl").read_text() == Path("b/samples.jsonl").read_text()
    done = torchrun(2, *words, "sampling=ancestral", "steps=0")
    assert done.returncode != 0
    assert done.stderr.count("steps=0: expected a whole number, at least 1") == 1


PROGRAM = """
import os, signal, sys
from discrete_diffusion.cli import main
from discrete_diffusion.sampling import TokenSampler

def broken(self, *arguments, **options):
    if os.environ.get("LOCAL_RANK") == "1":
        if os.environ["HOW"] == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        raise ValueError("the second one dislikes this")
    return sample(self, *arguments, **options)

sample, TokenSampler.sample = TokenSampler.sample, broken
main()
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "sentence"),
    [("error", "the second one dislikes this"), ("killed", "another process of this command has")],
)
def test_what_ends_one_process_ends_all_with_one_sentence(checkpoint, how, sentence):
    Path("program.py").write_text(PROGRAM)
    words = ["sample", f"checkpoint={checkpoint}", "accelerator=cpu", "devices=2", "num_samples=70"]
    done = subprocess.run(
        [sys.executable, "program.py", *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env={**os.environ, "HOW": how, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 1
    (line,) = done.stderr.strip().splitlines()
    assert sentence in line
    assert not Path("samples").exists()
