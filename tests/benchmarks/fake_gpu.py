"""A GPU that is the CPU: ``torch.device("cuda")`` is taken, tensors stay where they are, the
functions of ``torch.cuda`` answer, and autocast leaves float32, which every CPU multiplies. What a
script does for a GPU alone runs, and its names exist."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

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
    """Inside, a GPU seems to be there; how often each function of ``torch.cuda`` was called."""
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
