"""FSDP: weights and gradients of which every process holds a part."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import torch.distributed as dist
from lightning.pytorch import Trainer
from lightning.pytorch.plugins.precision import FSDPPrecision
from lightning.pytorch.strategies import FSDPStrategy
from torch import Tensor

if TYPE_CHECKING:
    from torch.distributed.fsdp import FullyShardedDataParallel


class ShardedPrecision(FSDPPrecision):
    """Lightning's, which leaves batches as they are: they hold ids, and are frozen."""

    def convert_input(self, data: Any) -> Any:
        return data


def sharded(trainer: Trainer) -> FullyShardedDataParallel | None:
    """The module if every process holds a part of its weights."""
    if not isinstance(trainer.strategy, FSDPStrategy):
        return None
    from torch.distributed.fsdp import FullyShardedDataParallel

    model = trainer.strategy.model
    assert isinstance(model, FullyShardedDataParallel)
    return model


def whole_weights(trainer: Trainer) -> AbstractContextManager[None]:
    """Inside, every process has all weights, whatever the strategy. All of them enter together."""
    if (model := sharded(trainer)) is None:
        return nullcontext()
    whole: AbstractContextManager[None] = model.summon_full_params(model, writeback=False)
    return whole


def in_any_process(flag: Tensor) -> None:
    """Make ``flag``, 0 or 1, what it is in any process of several. Lightning's ``reduce`` waits for
    the device."""
    if dist.is_available() and dist.is_initialized():
        dist.all_reduce(flag, op=dist.ReduceOp.MAX)
