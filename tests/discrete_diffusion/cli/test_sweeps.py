"""Folders of runs and sweeps, which all processes agree on, and the jobs of a sweep."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from torch.distributed import TCPStore

from discrete_diffusion.cli import main
from discrete_diffusion.cli.main import sort_arguments
from discrete_diffusion.cli.run_folders import (
    Sweep,
    check_launcher,
    jobs_of,
    run_folder,
    shared_time_stamp,
)
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
        with Sweep(4).job(2), progress.task("training", 30, "steps"):
            assert progress.where() == "job 2 of 4: training, 0 of 30 steps"
        with Sweep(None).job(1):  # the sweeper decides as it goes
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


PATTERN = "runs/${now:%Y-%m-%d_%H-%M-%S}"


@pytest.fixture
def torchrun(monkeypatch):
    """The variables and the store of an agent; gives what makes this process one of its ranks."""
    agent = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    common = {"TORCHELASTIC_RUN_ID": "1", "LOCAL_WORLD_SIZE": "2", "WORLD_SIZE": "2"}
    where = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(agent.port)}
    for name, value in (common | where | {"TORCHELASTIC_USE_AGENT_STORE": "True"}).items():
        monkeypatch.setenv(name, value)
    yield lambda rank: monkeypatch.setenv("RANK", str(rank))
    del agent


@pytest.fixture
def time_zone(monkeypatch):
    """Sets that of this process."""

    def set_zone(name: str) -> None:
        monkeypatch.setenv("TZ", name)
        time.tzset()

    yield set_zone
    monkeypatch.undo()
    time.tzset()


def test_torchrun_s_processes_take_the_time_of_the_first(torchrun, time_zone, monkeypatch):
    torchrun(0)
    time_zone("UTC")
    first = shared_time_stamp(PATTERN)
    assert re.fullmatch(r"runs/\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d", first)
    torchrun(1)
    time_zone("UTC-3")  # that of another machine
    assert shared_time_stamp(PATTERN) == first
    monkeypatch.setenv("TORCHELASTIC_USE_AGENT_STORE", "False")
    with pytest.raises(ValueError, match=r"name one with hydra\.run\.dir=DIR"):
        shared_time_stamp(PATTERN)


def test_a_command_is_given_the_folder(torchrun):
    torchrun(0)
    folder, (override,) = run_folder(["seed=1"], None, sweeps=False)
    assert override == f"hydra.run.dir='{folder}'"
    assert re.fullmatch(r"runs/[\d_-]+", str(folder))
    folder, (override,) = run_folder(["seed=1,2"], None, sweeps=True)
    assert override == f"hydra.sweep.dir='{folder}'"
    assert re.fullmatch(r"hydra.sweep.dir='runs/sweep_[\d_-]+'", override)
    own = "hydra.run.dir='it\\'s/${now:%H}'"
    folder, (override,) = run_folder([own], None, sweeps=False)
    assert re.fullmatch(r"it's/\d\d", str(folder))
    (parsed,) = OverridesParser.create().parse_overrides([override])
    assert parsed.value() == str(folder)


def test_srun_s_processes_take_the_numbers_of_job_and_step(monkeypatch):
    variables = {"SLURM_STEP_ID": "2", "SLURM_JOB_ID": "77", "SLURM_NTASKS": "2"}
    for name, value in (variables | {"SLURM_PROCID": "1"}).items():
        monkeypatch.setenv(name, value)
    assert shared_time_stamp(PATTERN) == "runs/slurm_77_2"
    _, overrides = run_folder([], None, sweeps=False)
    assert overrides == ["hydra.run.dir='runs/slurm_77_2'"]


def test_a_command_by_itself_has_the_folder_that_its_config_says():
    words = ["seed=3", "hydra.run.dir=mine_${seed}"]
    assert shared_time_stamp(PATTERN) == PATTERN
    folder = Path("mine_3")
    assert run_folder(words, None, sweeps=False) == (folder, [f"hydra.run.dir='{folder}'"])
    words = ["seed=1,2", "hydra.sweep.dir=mine_${seed}"]  # which only a job knows
    assert run_folder(words, None, sweeps=True)[1] == ["hydra.sweep.dir='mine_${seed}'"]


@pytest.mark.parametrize(
    ("words", "override"),
    [
        (["out=a b"], "hydra.run.dir=a b"),
        (["out=runs", "--multirun"], "hydra.sweep.dir=runs"),
        (["resume=old", "out=new"], "hydra.run.dir=new"),
    ],
)
def test_out_names_the_folder_of_a_run_or_a_sweep(words, override):
    overrides, _, _ = sort_arguments("train", words)
    assert overrides[-1] == override
    assert sort_arguments("sample", ["out=a"])[0] == ["out=a"]
