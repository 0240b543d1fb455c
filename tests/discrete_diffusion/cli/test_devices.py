"""Which strategy, devices and machines a run takes, and the sentences for those it cannot have."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
import torch

from composed import composed
from discrete_diffusion.cli import main
from discrete_diffusion.cli.train import check_strategy
from discrete_diffusion.runtime.devices import trainer_devices
from discrete_diffusion.runtime.processes import cluster_environment

TORCHRUN = {"TORCHELASTIC_RUN_ID": "1", "RANK": "1", "LOCAL_WORLD_SIZE": "2", "WORLD_SIZE": "4"}
SRUN = {"SLURM_STEP_ID": "0", "SLURM_NTASKS": "4", "SLURM_NNODES": "2", "SLURM_PROCID": "3"}


def started_by(monkeypatch, variables: dict[str, str]) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)


def settled(*overrides: str) -> dict:
    options = dict(composed("train", overrides).trainer)
    return options | trainer_devices(options)


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        (["trainer.strategy=dpp"], "unknown trainer.strategy 'dpp'; did you mean 'ddp'"),
        (["trainer.devices=0"], "trainer.devices=0: "),
        (["trainer.devices=-2"], "trainer.devices=-2: "),
        (["trainer=ddp", "trainer.devices=two"], "trainer.devices=two: "),
        (["trainer.devices=[1]"], r"trainer.devices=\[1\]: .*, as in CUDA_VISIBLE_DEVICES=1"),
        (["trainer=fsdp", "trainer.accelerator=cpu"], "fsdp is for GPUs; take trainer=ddp"),
        ([], None),
        (["trainer.devices=auto"], None),
        (["trainer=ddp", "trainer.devices=2"], None),
        (["trainer=fsdp", "callbacks.ema_decay=null"], None),
        (["trainer=fsdp"], "each process has a part; set callbacks.ema_decay=null, or .*ddp"),
        (["trainer=fsdp", "callbacks.ema_decay=null", "optim=muon"], "take optim=adamw, or .*ddp"),
        (
            ["trainer=fsdp", "callbacks.ema_decay=null", "+trainer.gradient_clip_algorithm=value"],
            "leave out trainer.gradient_clip_algorithm=value",
        ),
    ],
)
def test_what_cannot_be_is_refused_with_the_fix(overrides, sentence):
    with nullcontext() if sentence is None else pytest.raises(ValueError, match=sentence):
        check_strategy(composed("train", overrides))


def test_more_gpus_than_there_are_or_none_at_all(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    with pytest.raises(ValueError, match=r"devices=3: .*take trainer.devices=1"):
        settled("trainer.devices=3")
    assert settled("trainer=ddp")["devices"] == 1
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ValueError, match="fsdp: torch finds no GPU here"):
        settled("trainer=fsdp", "callbacks.ema_decay=null")
    for name in ("cuda", "gpu"):
        with pytest.raises(ValueError, match=f"accelerator={name}: "):
            settled(f"trainer.accelerator={name}")


def test_one_process_needs_no_strategy_and_more_are_ddp():
    cpu = "trainer.accelerator=cpu"
    assert settled(cpu, "trainer=ddp")["strategy"] == "auto"
    strategy = settled(cpu, "trainer.devices=2")["strategy"]
    assert type(strategy).__name__ == "DDPStrategy"
    assert not strategy._ddp_kwargs["find_unused_parameters"]
    name = "trainer.strategy=ddp_find_unused_parameters_true"
    assert settled(cpu, name, "trainer.devices=2")["strategy"]._ddp_kwargs["find_unused_parameters"]


def test_processes_that_a_command_cannot_start_itself(capsys):
    with pytest.raises(ValueError, match=r"num_nodes=2: start .* and leave trainer.num_nodes out"):
        settled("trainer.accelerator=cpu", "trainer.num_nodes=2")
    with pytest.raises(SystemExit):
        main(["train", "-m", "seed=0,1", "trainer.devices=2", "trainer.accelerator=cpu"])
    assert "trainer.devices=2" in capsys.readouterr().err


@pytest.mark.parametrize("variables", [TORCHRUN, SRUN], ids=["torchrun", "srun"])
def test_torchrun_and_srun_have_chosen_the_numbers(monkeypatch, variables):
    started_by(monkeypatch, variables)
    cpu = "trainer.accelerator=cpu"
    for more in ([], ["trainer.devices=2", "trainer.num_nodes=2"], ["trainer=ddp"]):
        found = settled(cpu, *more)
        assert (found["devices"], found["num_nodes"]) == (2, 2)
    with pytest.raises(ValueError, match=r"2 processes on each of 2 machines"):
        settled(cpu, "trainer.devices=3")


def test_srun_starts_the_processes_or_nobody_does(monkeypatch):
    with monkeypatch.context() as patch:  # a batch script
        started_by(patch, {name: SRUN[name] for name in SRUN if name != "SLURM_STEP_ID"})
        assert settled("trainer.accelerator=cpu")["devices"] == 1
        assert type(cluster_environment()).__name__ == "LightningEnvironment"
    started_by(monkeypatch, SRUN | {"SLURM_JOB_NAME": "train"})
    monkeypatch.delenv("SLURM_NTASKS_PER_NODE", raising=False)
    with pytest.raises(ValueError, match=r"srun: .*--ntasks-per-node=4"):
        cluster_environment()
