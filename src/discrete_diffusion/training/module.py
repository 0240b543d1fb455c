"""``DiffusionModule``: an algorithm under Lightning."""

from __future__ import annotations

import logging
import math
from typing import Any

import torch
from lightning.pytorch import LightningModule
from torch import Tensor
from torch.optim import AdamW
from torch.optim.lr_scheduler import LambdaLR

from discrete_diffusion.algorithms import Algorithm
from discrete_diffusion.categorical import make_generator
from discrete_diffusion.checkpoints import INFO_KEY, sealed
from discrete_diffusion.evaluation import BoundMeter
from discrete_diffusion.naming import unknown_name
from discrete_diffusion.types import Batch

logger = logging.getLogger(__name__)

LR_SCHEDULES = ("constant", "cosine")
_TRAIN_STREAM, _VALIDATION_STREAM = 0, 1


def lr_factor(step: int, *, schedule: str, warmup_steps: int, num_steps: int) -> float:
    """Learning rate at ``step`` as a share of its peak: linear warm-up, then constant or cosine.

    Cosine ends at 0 after ``num_steps``.
    """
    if step < warmup_steps:
        return (step + 1) / warmup_steps
    if schedule == "constant":
        return 1.0
    progress = (step - warmup_steps) / max(num_steps - warmup_steps, 1)
    return 0.5 * (1 + math.cos(math.pi * min(progress, 1.0)))


class DiffusionModule(LightningModule):
    """Trains any ``Algorithm`` with AdamW.

    The noise of step k is a function of (seed, k, rank), validation has noise of its own, the same
    every time, and the draw of least variance. ``bound`` names what the NELBO bounds
    (``TokenDataset.bound``); ``checkpoint_info`` is stored in every checkpoint, see
    ``checkpoints.checkpoint_info``: plain containers only, so that no pickle is needed.
    ``scheduled_steps``: optimiser steps after which the trainer ends; None if it has no end, which
    a cosine learning rate refuses with a ``ValueError``.
    """

    def __init__(
        self,
        algorithm: Algorithm,
        *,
        bound: str,
        seed: int,
        lr: float,
        betas: tuple[float, float] = (0.9, 0.999),
        weight_decay: float = 0.0,
        lr_schedule: str = "cosine",
        warmup_steps: int = 0,
        checkpoint_info: dict[str, Any] | None = None,
    ) -> None:
        super().__init__()
        if lr_schedule not in LR_SCHEDULES:
            raise ValueError(unknown_name("learning-rate schedule", lr_schedule, LR_SCHEDULES))
        if not lr > 0:
            raise ValueError(f"lr={lr}: expected a positive number")
        self.algorithm = algorithm
        self.bound, self.seed = bound, seed
        self.lr, self.betas, self.weight_decay = lr, betas, weight_decay
        self.lr_schedule, self.warmup_steps = lr_schedule, warmup_steps
        self.checkpoint_info = checkpoint_info or {}
        self.scheduled_steps: int | None = None
        self._former_scheduled_steps: int | None = None
        self.meter = BoundMeter()

    def on_train_start(self) -> None:
        """Say what a new length of a resumed run does to a learning rate that falls along it."""
        former, steps = self._former_scheduled_steps, self.scheduled_steps
        if former is None or steps is None or not self.trainer.is_global_zero:
            return
        before, now = (
            self._lr_factor(self.global_step, num_steps) for num_steps in (former, steps)
        )
        if now != before:
            logger.info(
                "the run was to take %d steps and is to take %d: the cosine learning rate goes on "
                "along the new length, here at %.3g of its peak instead of %.3g",
                *(former, steps, now, before),
            )

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        part = batch_idx % self.trainer.accumulate_grad_batches  # of a step over several batches
        generator = make_generator(
            *(self.seed, _TRAIN_STREAM, self.global_step, self.global_rank),
            *((part,) if part else ()),
            device=self.device,
        )
        torch.manual_seed(generator.initial_seed())  # dropout draws from the global generator
        output = self.algorithm.loss(batch, generator)
        self.log("train/loss", output.loss, prog_bar=True, batch_size=len(batch))
        return output.loss

    def on_validation_epoch_start(self) -> None:
        self.meter = BoundMeter()

    def validation_step(self, batch: Batch, batch_idx: int) -> None:
        generator = make_generator(
            self.seed, _VALIDATION_STREAM, batch_idx, self.global_rank, device=self.device
        )
        output = self.algorithm.loss(batch, generator, self.algorithm.evaluation_draw)
        self.meter.add(output.nelbo, output.num_real, batch.log_num_orders)

    def on_validation_epoch_end(self) -> None:
        sums = self.trainer.strategy.reduce(self.meter.sums.to(self.device), reduce_op="sum")
        self.meter.sums = torch.as_tensor(sums).cpu()
        estimate = self.meter.estimate(self.bound)
        values = {
            "val/nelbo": estimate.per_sample,
            "val/nelbo_standard_error": estimate.standard_error,
            "val/nelbo_per_token": estimate.per_token,
        }
        if estimate.unordered is not None:
            values["val/nelbo_unordered"] = estimate.unordered
        values |= {f"val/{name}": x for name, x in self.algorithm.statistics().items()}
        self.log_dict(values, sync_dist=True)  # every process has reduced to the same numbers

    def configure_optimizers(self) -> Any:
        optimizer = AdamW(
            self.algorithm.parameters(),
            lr=self.lr,
            betas=self.betas,
            weight_decay=self.weight_decay,
            fused=self.trainer.precision == "32-true",  # a fused step cannot unscale and clip
        )
        num_steps = self.trainer.estimated_stepping_batches
        self.scheduled_steps = int(num_steps) if math.isfinite(num_steps) else None
        if self.scheduled_steps is None and self.lr_schedule == "cosine":
            raise ValueError(
                "the run has no end along which a cosine learning rate could fall; give "
                "trainer.max_steps or trainer.max_epochs, or optim.lr_schedule=constant"
            )
        end = self.scheduled_steps or 0
        scheduler = LambdaLR(optimizer, lambda step: self._lr_factor(step, end))
        return {
            "optimizer": optimizer,
            "lr_scheduler": {"scheduler": scheduler, "interval": "step"},
        }

    def _lr_factor(self, step: int, num_steps: int) -> float:
        return lr_factor(
            step, schedule=self.lr_schedule, warmup_steps=self.warmup_steps, num_steps=num_steps
        )

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        self._former_scheduled_steps = checkpoint.get(INFO_KEY, {}).get("scheduled_steps")

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        machine = {
            "threads": torch.get_num_threads(),
            "processes": self.trainer.world_size,
            "device": self.device.type,
            "torch": str(torch.__version__),  # a class of torch's own, which is not plain
        }
        checkpoint[INFO_KEY] = sealed(
            self.checkpoint_info,
            checkpoint["state_dict"],
            step=self.trainer.global_step,
            machine=machine,
            scheduled_steps=self.scheduled_steps,
        )
