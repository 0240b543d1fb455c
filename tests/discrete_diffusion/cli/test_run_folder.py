"""The processes of torchrun and srun agree on a folder whose name holds a time stamp."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from torch.distributed import TCPStore

from discrete_diffusion.cli.main import sort_out
from discrete_diffusion.cli.run_folders import run_folder, shared_time_stamp

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
    overrides, _, _ = sort_out("train", words)
    assert overrides[-1] == override
    assert sort_out("sample", ["out=a"])[0] == ["out=a"]
