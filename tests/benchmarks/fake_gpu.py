"""A GPU that is the CPU: ``torch.device("cuda")`` is taken, tensors stay where they are, and the
functions of ``torch.cuda`` answer. What a script does for a GPU alone runs, and its names exist."""

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


class _Redirected(TorchFunctionMode):
    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if func is Tensor.pin_memory:
            return args[0]
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
    autocast, generator = torch.autocast, torch.Generator
    with pytest.MonkeyPatch.context() as patch, _Redirected():
        for name, answer in answers.items():
            patch.setattr(torch.cuda, name, answering(name, answer))
        patch.setattr(torch, "autocast", lambda kind, **given: autocast(_on_cpu(kind), **given))
        patch.setattr(torch, "Generator", lambda device="cpu": generator(_on_cpu(device)))
        yield calls
