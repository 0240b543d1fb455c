"""Weights that several processes hold in parts, put together where all of them are needed."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch.distributed as dist
from lightning.pytorch import Trainer
from lightning.pytorch.plugins.precision import FSDPPrecision
from lightning.pytorch.strategies import FSDPStrategy
from torch import Tensor


class ShardedPrecision(FSDPPrecision):
    """Lightning's, which leaves batches as they are: they hold ids, and are frozen."""

    def convert_input(self, data: Any) -> Any:
        return data


def whole_weights(trainer: Trainer) -> AbstractContextManager[None]:
    """Inside, every process has all weights, whatever the strategy. All of them enter together."""
    if not isinstance(trainer.strategy, FSDPStrategy):
        return nullcontext()
    from torch.distributed.fsdp import FullyShardedDataParallel

    assert trainer.strategy.model is not None
    whole: AbstractContextManager[None] = FullyShardedDataParallel.summon_full_params(
        trainer.strategy.model, writeback=False
    )
    return whole


def on_any_shard(trainer: Trainer, flag: Tensor) -> None:
    """Make ``flag``, 0 or 1, what it is in any process, where each has a part of the gradient."""
    if isinstance(trainer.strategy, FSDPStrategy):
        in_any_process(flag)


def in_any_process(flag: Tensor) -> None:
    """Make ``flag``, 0 or 1, what it is in any process of several."""
    if dist.is_available() and dist.is_initialized():
        dist.all_reduce(flag, op=dist.ReduceOp.MAX)


def clip_sharded_gradients(trainer: Trainer, max_norm: float | None) -> bool:
    """Clip the norm of a gradient of which every process has a part; False if each has all of it.

    The sum of squares runs over the parts of all processes, which torch's ordinary clipping does
    not know of.
    """
    if not isinstance(trainer.strategy, FSDPStrategy):
        return False
    from torch.distributed.fsdp import FullyShardedDataParallel

    model = trainer.strategy.model
    assert isinstance(model, FullyShardedDataParallel)
    if max_norm:
        model.clip_grad_norm_(max_norm)
    return True
