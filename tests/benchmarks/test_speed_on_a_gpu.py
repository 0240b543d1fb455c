"""The speed benchmark as it will run on a GPU, before there is one: every branch for a GPU runs on
a fake one, and the steps of training on the meta device, where nothing can be read back."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, redirect_stdout
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.profiler import ProfilerActivity

import clock
import record
import speed
import speed_account
import speed_training
import speed_variants
from no_read_back import META, Unread
from speed_variants import VARIANTS, Plans, Trainee, usable

_HERE = torch.device("cpu")


def _on_cpu(value: Any) -> Any:
    if isinstance(value, torch.device) and value.type == "cuda":
        return _HERE
    return "cpu" if isinstance(value, str) and value.partition(":")[0] == "cuda" else value


class _Generator(torch.Generator):
    def __new__(cls, device: torch.device | str = "cpu") -> _Generator:
        return super().__new__(cls, _on_cpu(device))


class _Autocast(torch.autocast):
    def __init__(self, device_type: str, *args: Any, **kwargs: Any) -> None:
        super().__init__(_on_cpu(device_type), *args, **{**kwargs, "enabled": False})


class _Redirected(TorchFunctionMode):
    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if func is Tensor.pin_memory:
            return args[0]
        if func is torch.device:
            return func(*args, **(kwargs or {}))
        given = {name: _on_cpu(value) for name, value in (kwargs or {}).items()}
        return func(*map(_on_cpu, args), **given)


@contextmanager
def fake_gpu() -> Iterator[dict[str, int]]:
    """Inside, a GPU that is the CPU: tensors stay where they are, functions of ``torch.cuda``
    answer, and autocast leaves float32. Yields how often each of these was called."""
    calls: dict[str, int] = {}

    def answering(name: str, answer: Any) -> Any:
        def called(*_: Any) -> Any:
            calls[name] = calls.get(name, 0) + 1
            return answer

        return called

    answers = {"synchronize": None, "reset_peak_memory_stats": None}
    answers |= {"memory_allocated": 2**20, "max_memory_allocated": 5 * 2**20}
    with pytest.MonkeyPatch.context() as patch, _Redirected():
        for name, answer in answers.items():
            patch.setattr(torch.cuda, name, answering(name, answer))
        patch.setattr(torch, "autocast", _Autocast)
        patch.setattr(torch, "Generator", _Generator)
        yield calls


CUDA = torch.device("cuda")
TINY = ["model=bd_tiny", "data.num_plans=400", "data.batch_size=32"]


def test_the_processor_and_the_gpu_are_named(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "Some GPU")
    assert ", Some GPU, Python" in record.hardware()


def test_a_gpu_multiplies_large_matrices(monkeypatch):
    monkeypatch.setattr(clock, "_GPU_SIZE", 64)
    with fake_gpu() as calls:
        assert torch.device("cuda") == CUDA
        assert clock.product_rate(CUDA, torch.float32) > 0
        assert clock.product_rows(CUDA) == 64
    assert calls["synchronize"] >= 2 * clock._PRODUCTS


def test_memory_is_that_of_the_allocator():
    with fake_gpu() as calls:
        assert clock.MemoryPeak(CUDA).rise() == 4
    assert calls["reset_peak_memory_stats"] == 1


def test_cuda_graphs_are_measured_on_a_gpu_alone(monkeypatch):
    monkeypatch.setattr(speed_variants, "check_compiler", lambda device: None)
    apart = {v.name for v in usable(VARIANTS, CUDA)[0]} - {
        v.name for v in usable(VARIANTS, torch.device("cpu"))[0]
    }
    assert apart == {"+ CUDA graphs: compile=reduce-overhead"}


@pytest.mark.parametrize("variant", [v for v in VARIANTS if not v.compiled], ids=lambda v: v.name)
def test_a_measured_step_waits_for_nothing(variant, monkeypatch):
    """Nor do tensors of two devices meet."""
    generator, optim = torch.Generator, import_module("torch.optim.optimizer")
    monkeypatch.setattr(torch, "Generator", lambda device: generator())
    monkeypatch.setattr(optim, "_get_fused_kernels_supported_devices", lambda: ["meta"])
    monkeypatch.setattr(speed_variants, "precision", lambda bfloat16, device: nullcontext())
    trainee = Trainee(variant, Plans(TINY, seed=0), META, seed=0)
    with Unread():
        assert trainee.train(trainee.rows(0, 2)) == 64


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of Lightning and the profiler, about a GPU
@pytest.mark.parametrize("part", [part for part in speed.PARTS if part != "students"])
def test_quick_runs_on_a_gpu(part, tmp_path, monkeypatch):
    """``--device cuda --quick``, in this process; without Triton, so ``torch.compile`` is out.
    ``students`` are drawn as ``sampling`` draws."""
    measured = Path(record.RESULTS, "speed_cuda.json").read_bytes()
    accelerators = []
    trainer, profile = speed_training.Trainer, speed_account.profile

    def on_cpu(*, accelerator, **options):
        accelerators.append(accelerator)
        return trainer(accelerator="cpu", **options)

    def profiled(activities):
        assert ProfilerActivity.CUDA in activities
        return profile(activities=[ProfilerActivity.CPU])

    def in_this_process(words, **_):
        said = io.StringIO()
        with monkeypatch.context() as patch, redirect_stdout(said):
            patch.setattr(sys, "argv", words[1:])
            speed.main()
        return SimpleNamespace(stdout=said.getvalue())

    def without_triton(device):
        raise ValueError(f"no compiler for {device.type}")

    monkeypatch.setattr(speed_variants, "check_compiler", without_triton)
    monkeypatch.setattr(speed_training, "Trainer", on_cpu)
    monkeypatch.setattr(speed_account, "profile", profiled)
    monkeypatch.setattr(subprocess, "run", in_this_process)
    monkeypatch.setattr(clock, "_product_rate", lambda *_, **__: 1e15)  # there is none to measure
    words = ["--device", "cuda", "--only", part, "--quick", "--threads", "1"]
    monkeypatch.setattr(sys, "argv", ["speed.py", *words, "--folder", str(tmp_path / "out")])
    with fake_gpu() as calls:
        speed.main()
    found = json.loads((tmp_path / "out" / "quick" / "speed_cuda.json").read_text())["results"]
    assert list(found) == [part]
    command = found[part]["command"]
    assert f"--only {part} --device cuda" in command
    assert command in (tmp_path / "out" / "speed_cuda.md").read_text()
    assert calls.get("synchronize", 0) >= (0 if part == "curves" else 2)
    if part == "memory":
        assert {row["mebibytes"] for row in found[part]["found"]["rows"]} == {4}
    if part == "training":
        assert set(accelerators) == {"cuda"}
        notes = found[part]["found"]["notes"]
        assert notes == ["torch.compile is left out: no compiler for cuda"]
    assert Path(record.RESULTS, "speed_cuda.json").read_bytes() == measured
