"""A sweep says which job of how many it is at."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest

from discrete_diffusion.cli import main
from discrete_diffusion.cli.run_folders import check_launcher, job_of_sweep, jobs_of
from discrete_diffusion.runtime import progress


def test_jobs_are_counted():
    for words, num in (
        (["seed=range(4)", "algo=mdlm,udlm", "optim.lr=1e-3"], 8),
        (["data.batch_size=16", "hydra.sweep.dir=x"], 1),
    ):
        assert len(jobs_of("train", words, None)) == num


@pytest.mark.parametrize(
    "words", [["train", "-m", "seed=0,1"], ["compare", "algos=[mdlm,udlm]", "seeds=[0]"]]
)
def test_slurm_is_asked_for_where_its_programs_are(words, failure, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    error = failure(*words, "hydra/launcher=submitit_slurm")
    for word in ("hydra/launcher=submitit_slurm: ", "srun", "sbatch", "login", "submitit_local"):
        assert word in error
    for name in ("sbatch", "srun"):
        (tmp_path / name).touch(mode=0o755)
    check_launcher(["hydra/launcher=submitit_slurm"])


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["train", "algo=mdlm,mdml"], ["job 2 of 2", "algo=mdml", "'mdlm'", "no job was run"]),
        (["train", "trainer.max_steps=2,-3"], ["job 2 of 2", "trainer.max_steps=-3", "at least"]),
        (["train", "model.d_modell=8,16"], ["job 1 of 2", "d_modell", "d_model"]),
        (
            ["sample", "checkpoint=MODEL", "num_samples=2,-3", "out=${num_samples}"],
            ["job 2 of 2", "num_samples=-3", "at least 1", "no job was run"],
        ),
        (
            ["sample", "checkpoint=a,b", "out=${hydra:job.num}"],
            ["job 1 of 2", "checkpoint=a: no checkpoint at", "no job was run"],
        ),
        (
            ["evaluate", "checkpoint=MODEL", "precision=32-true,8", "out=${precision}"],
            ["job 2 of 2", "precision=8", "32-true"],
        ),
        (
            ["sample", "checkpoint=MODEL", "seed=0,1", "out=made"],
            ["out=made", "jobs 1 and 2", "'out=made/${hydra:job.num}'"],
        ),
    ],
)
def test_all_jobs_are_checked_before_the_first(words, named, untrained, tmp_path, capsys):
    with pytest.raises(SystemExit):
        main([words[0], "-m", *(word.replace("MODEL", str(untrained)) for word in words[1:])])
    error = capsys.readouterr().err
    assert all(word in error for word in named), error
    assert "--- job" not in error
    assert not list(tmp_path.iterdir())


def test_jobs_with_folders_of_their_own_run(untrained, tmp_path):
    words = [f"checkpoint={untrained}", "seed=0,1", "num_samples=2", "threads=1"]
    main(["sample", "-m", *words, "out=made/${hydra:job.num}"])
    assert sorted(path.parent.name for path in tmp_path.glob("made/*/samples.jsonl")) == ["0", "1"]


def test_a_job_is_a_task_and_a_line_of_the_log(caplog):
    caplog.set_level("INFO")
    with progress.shown(lambda line: None, bar=False):
        with job_of_sweep(1, 4), progress.task("training", 30, "steps"):
            assert progress.where() == "job 2 of 4: training, 0 of 30 steps"
        with job_of_sweep(0, None):  # the sweeper decides as it goes
            assert progress.where() == "job 1"
    assert "job 2 of 4" in caplog.text


@pytest.mark.slow
def test_a_sweep_whose_jobs_are_other_processes_says_that_it_was_stopped(tmp_path):
    pytest.importorskip("hydra_plugins.hydra_joblib_launcher")
    words = ["hydra/launcher=joblib", "hydra.launcher.n_jobs=2", "seed=0,1", "threads=1"]
    words += ["model=bd_tiny", "model.d_model=16", "model.cond_dim=16", "data.num_plans=200"]
    words += ["trainer.max_steps=1000000", "trainer.val_check_interval=1000000", "logger=none"]
    words += ["callbacks.num_samples=0", f"hydra.sweep.dir={tmp_path}/sweep"]
    log = tmp_path / "log"
    with log.open("w") as file:
        sweep = subprocess.Popen(
            [sys.executable, "-m", "discrete_diffusion", "train", "-m", *words],
            stdout=file,
            stderr=subprocess.PIPE,
            text=True,
        )
    end = time.monotonic() + 300
    while sweep.poll() is None and time.monotonic() < end and "--- job 2" not in log.read_text():
        time.sleep(0.1)
    sweep.send_signal(signal.SIGTERM)
    _, error = sweep.communicate(timeout=60)  # jobs hold its stderr: it ends when they have ended
    assert sweep.returncode == 143
    assert error.splitlines()[-1:] == ["discrete-diffusion: stopped by SIGTERM"]


def test_a_job_that_fails_is_named_and_the_others_run(tmp_path, monkeypatch, capsys):
    ran = []

    def run(config) -> None:
        ran.append(config.seed)
        if config.seed == 1:
            raise ValueError("my optimiser broke")

    monkeypatch.setattr("discrete_diffusion.cli.train.run", run)
    with pytest.raises(SystemExit) as ended:
        main(["train", "-m", "seed=0,1,2", f"hydra.sweep.dir={tmp_path}/sweep"])
    assert ended.value.code == 1
    assert ran == [0, 1, 2]
    said = capsys.readouterr().err.splitlines()
    assert "discrete-diffusion: job 2: my optimiser broke" in said
    assert said[-1] == "discrete-diffusion: 1 of 3 jobs failed: 2"
