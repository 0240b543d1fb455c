"""Where commands compute: what is refused, who started what, strategies, bfloat16."""

from __future__ import annotations

import json
import logging
import warnings
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch
from omegaconf import OmegaConf
from torch.nn.modules.module import register_module_forward_hook

from composed import composed
from discrete_diffusion.categorical import make_generator, sample_categorical
from discrete_diffusion.cli import compose, config_dir, main
from discrete_diffusion.cli.sample import Computing, check_computing, choose_devices
from discrete_diffusion.cli.train import check_strategy
from discrete_diffusion.domains import complete_data
from discrete_diffusion.runtime import devices
from discrete_diffusion.runtime.devices import trainer_devices
from discrete_diffusion.runtime.processes import (
    Started,
    cluster_environment,
    is_first,
    silence_nonzero_ranks,
    started,
)
from made_checkpoints import training_state

BASE = OmegaConf.load(config_dir() / "sample.yaml")
TORCHRUN = {"TORCHELASTIC_RUN_ID": "none", "RANK": "5", "LOCAL_RANK": "1"}
TORCHRUN |= {"LOCAL_WORLD_SIZE": "4", "WORLD_SIZE": "8"}
SRUN = {"SLURM_STEP_ID": "0", "SLURM_JOB_NAME": "job", "SLURM_NTASKS": "6"}
SRUN |= {"SLURM_NNODES": "2", "SLURM_PROCID": "4", "SLURM_LOCALID": "1"}
STEP = {"SLURM_STEP_NUM_TASKS": "5", "SLURM_STEP_NUM_NODES": "1"}


@pytest.fixture(autouse=True)
def _environment(monkeypatch):
    """Nothing of what may have started the tests."""
    for name in (*TORCHRUN, *SRUN, *STEP, "NODE_RANK"):
        monkeypatch.delenv(name, raising=False)


def set_all(monkeypatch, variables: dict[str, str], **others: str) -> None:
    for name, value in {**variables, **others}.items():
        monkeypatch.setenv(name, value)


def config_with(**values):
    return OmegaConf.merge(BASE, values)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"accelerator": "gpus"}, "unknown accelerator 'gpus'"),
        ({"devices": 0}, "devices=0: "),
        ({"devices": "two"}, "devices=two: "),
        ({"num_nodes": 0}, "num_nodes=0: "),
    ],
)
def test_values_are_refused(values, message):
    with pytest.raises(ValueError, match=message):
        check_computing(config_with(**values))


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ("sample checkpoint=there precision=bf16-true", ["choose one of 32-true, bf16-mixed"]),
        ("evaluate checkpoint=there precision=bf16-true", ["choose one of 32-true, bf16-mixed"]),
        ("sample checkpoint=there num_nodes=2", ["num_nodes=2: ", "torchrun", "srun"]),
        ("sample checkpoint=missing.ckpt devices=2", ["no checkpoint at"]),
        ("evaluate samples=there devices=2", ["devices=2: ", "leave devices out"]),
        (
            "sample -m checkpoint=there devices=2 seed=0,1 out=${seed}",
            ["devices=2 does not go with --multirun"],
        ),
    ],
)
def test_commands_refuse_before_anything_is_read(words, named, failure):
    Path("there").touch()
    error = failure(*words.split())
    assert [name for name in named if name not in error] == []


def test_more_processes_than_gpus_are_refused(monkeypatch):
    config = config_with(devices=3, accelerator="cuda")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    for name in ("cuda", "gpu"):
        with pytest.raises(ValueError, match=f"accelerator={name}: "):
            choose_devices(OmegaConf.merge(config, {"accelerator": name}))
    assert choose_devices(config_with(devices="auto")).per_node == 1
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with pytest.raises(ValueError, match=r"devices=3: .*; take devices=1, or ac"):
        choose_devices(config)
    assert choose_devices(config_with(accelerator="cpu", devices=3)).device == "cpu"
    assert choose_devices(config_with()) == Computing("cuda", 1, 1, "32-true", None)


def test_every_process_has_a_gpu_of_its_own(monkeypatch):
    chosen: list[int] = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "set_device", chosen.append)
    set_all(monkeypatch, SRUN)
    for num_gpus, device in ((3, "cuda:1"), (1, "cuda:0")):  # 1: a task that sees its own only
        monkeypatch.setattr(torch.cuda, "device_count", lambda num=num_gpus: num)
        assert choose_devices(config_with()).device == device
    assert chosen == [1, 0]
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    with pytest.raises(ValueError, match="devices=3: there are 2 GPUs here"):
        choose_devices(config_with())


def test_torchrun_and_srun_say_how_many(monkeypatch):
    assert started() is None
    assert is_first()
    with monkeypatch.context() as patch:
        set_all(patch, TORCHRUN)
        assert started() == Started("torchrun", rank=5, per_node=4, num_nodes=2)
        assert not is_first()
        here = choose_devices(config_with(devices=4, accelerator="cpu"))
        assert (here.per_node, here.num_nodes) == (4, 2)
        for key, value in (("devices", 2), ("num_nodes", 1)):
            with pytest.raises(ValueError, match=f"{key}={value}: torchrun .* 4 processes"):
                choose_devices(config_with(accelerator="cpu", **{key: value}))
    set_all(monkeypatch, SRUN)
    assert started() == Started("srun", rank=4, per_node=3, num_nodes=2)
    with monkeypatch.context() as patch:  # a step that is smaller than its job
        set_all(patch, STEP)
        assert started() == Started("srun", rank=4, per_node=5, num_nodes=1)
        patch.setenv("SLURM_STEP_NUM_TASKS", "1")
        assert started() is None
    monkeypatch.setenv("SLURM_JOB_NAME", "bash")
    assert started() is None
    monkeypatch.setenv("SLURM_JOB_NAME", "job")
    monkeypatch.delenv("SLURM_STEP_ID")  # the batch script itself
    assert started() is None


def test_only_the_first_process_speaks(monkeypatch, caplog):
    disabled = logging.root.manager.disable
    logger = logging.getLogger("discrete_diffusion")
    try:
        with warnings.catch_warnings():
            silence_nonzero_ranks()
            logger.warning("first")
            set_all(monkeypatch, TORCHRUN)
            silence_nonzero_ranks()
            logger.warning("second")
            warnings.warn("an error, unless hushed", stacklevel=1)
    finally:
        logging.disable(disabled)
    assert caplog.messages == ["first"]


def test_bfloat16_is_for_the_network():
    here = Computing("cpu", 1, 1, "bf16-mixed", None)
    a, p = torch.rand(3, 3), torch.rand(5, 4).log()
    with here.shared() as shard:
        assert shard.world_size == 1
        assert (a @ a).dtype == torch.bfloat16
        for x in (p, p.double()):
            for y in (x.softmax(-1), x.log_softmax(-1), x.exp().cumsum(-1), x.logsumexp(-1)):
                assert y.dtype == x.dtype
        drawn = sample_categorical(p, make_generator(0))
    assert torch.equal(drawn, sample_categorical(p, make_generator(0)))
    assert (a @ a).dtype == torch.float32
    with Computing("cpu", 1, 1, "32-true", None).shared():
        assert (a @ a).dtype == torch.float32


@pytest.mark.slow
def test_samples_of_a_network_in_bfloat16(monkeypatch):
    small = ["model=bd_tiny", "model.d_model=16", "model.cond_dim=16", "data=graphs"]
    config = complete_data(compose("train", [*small, "data.max_nodes=8"]))
    torch.save(training_state(config), "model.ckpt")
    monkeypatch.setattr(devices, "multiplies_bfloat16", lambda: True)  # slowly, where it does not
    kinds: set[torch.dtype] = set()

    def see(module, inputs, output) -> None:
        if isinstance(output, torch.Tensor):
            kinds.add(output.dtype)

    hook = register_module_forward_hook(see)
    found = {}
    try:
        for name in ("32-true", "bf16-mixed"):
            words = ["num_samples=4", "nodes_per_graph=3", f"precision={name}", f"out={name}"]
            kinds.clear()
            main(["sample", "checkpoint=model.ckpt", *words])
            found[name] = torch.bfloat16 in kinds
    finally:
        hook.remove()
    assert found == {"32-true": False, "bf16-mixed": True}
    lines = Path("bf16-mixed/samples.jsonl").read_text().splitlines()
    assert [json.loads(line)["n"] for line in lines] == [3] * 4


# --- where a run computes ---


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


def test_torchrun_has_chosen_the_numbers_of_a_run(monkeypatch):
    set_all(monkeypatch, TORCHRUN)
    cpu = "trainer.accelerator=cpu"
    for more in ([], ["trainer.devices=4", "trainer.num_nodes=2"], ["trainer=ddp"]):
        found = settled(cpu, *more)
        assert (found["devices"], found["num_nodes"]) == (4, 2)
    with pytest.raises(ValueError, match=r"4 processes on each of 2 machines"):
        settled(cpu, "trainer.devices=3")


def test_srun_starts_the_processes_or_nobody_does(monkeypatch):
    with monkeypatch.context() as patch:  # a batch script
        set_all(patch, {name: SRUN[name] for name in SRUN if name != "SLURM_STEP_ID"})
        assert settled("trainer.accelerator=cpu")["devices"] == 1
        assert type(cluster_environment()).__name__ == "LightningEnvironment"
    set_all(monkeypatch, SRUN | {"SLURM_JOB_NAME": "train"})
    monkeypatch.delenv("SLURM_NTASKS_PER_NODE", raising=False)
    with pytest.raises(ValueError, match=r"srun: .*--ntasks-per-node="):
        cluster_environment()
