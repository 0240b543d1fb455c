"""Lightning module of an algorithm: steps, validation, optimiser, checkpoints."""

from __future__ import annotations

import logging
import math
from functools import partial
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule
from lightning.pytorch.plugins.precision import MixedPrecision, Precision
from lightning.pytorch.utilities import GradClipAlgorithmType
from torch import Tensor
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR

from discrete_diffusion.algorithms.base import Algorithm
from discrete_diffusion.categorical import make_generator
from discrete_diffusion.checkpoints.contents import info_with_digest
from discrete_diffusion.checkpoints.files import INFO_KEY
from discrete_diffusion.contracts import Batch
from discrete_diffusion.data.batches import SplitBatches
from discrete_diffusion.evaluation.bound import BoundMeter
from discrete_diffusion.models.acceleration import begin_step, compile_backbone
from discrete_diffusion.runtime.devices import REDUCE_OVERHEAD
from discrete_diffusion.training.callbacks import SkippedSteps, sharded, whole_weights
from discrete_diffusion.training.learning_rate import check_learning_rate, check_length, lr_factor
from discrete_diffusion.training.optimizers import build_optimizer

logger = logging.getLogger(__name__)

_TRAIN_STREAM, _VALIDATION_STREAM = 0, 1


class DiffusionModule(LightningModule):
    """Lightning module that trains any ``Algorithm``.

    A step of W processes with A batches each has A W parts; part ``a W + rank`` is batch a of a
    rank, as in ``BatchStream``. The noise of a part is a function of (seed, step, part), so that
    two processes give the same step as one process that accumulates two batches. The noise of
    validations is the same every time, a function of the batch counted over all processes, and is
    chosen for small variance. ``train/loss`` is the mean over the parts of a step; several
    processes compute it for the steps that are logged.

    ``bound``: quantity that the NELBO bounds (``Dataset.bound``). ``checkpoint_info``: info stored
    in every checkpoint, see ``checkpoints.checkpoint_info``. ``max_skipped_steps``: largest number
    of skipped steps in a row, see ``SkippedSteps``. ``compiled``: True to compile the network by
    ``torch.compile`` when training starts, see ``compile_backbone``.
    ``scheduled_steps``: optimiser steps after which the trainer ends; None if it has no end.
    ``optimizer``: further options of ``build_optimizer``, AdamW's unless ``_target_`` is given.
    ``train_nelbo``: mean NELBO of the latest training batch.

    Raises ``ValueError`` if the learning rate falls towards the end, and the run has no end.
    """

    def __init__(
        self,
        algorithm: Algorithm,
        *,
        bound: str,
        seed: int,
        lr: float,
        lr_schedule: str = "cosine",
        warmup_steps: int = 0,
        decay_steps: float | None = None,
        max_skipped_steps: int = 5,
        checkpoint_info: dict[str, Any] | None = None,
        compiled: bool | str = False,
        **optimizer: Any,
    ) -> None:
        super().__init__()
        check_learning_rate(
            lr=lr, lr_schedule=lr_schedule, warmup_steps=warmup_steps, decay_steps=decay_steps
        )
        self.algorithm = algorithm
        self.bound, self.seed = bound, seed
        self.lr, self.optimizer_options = lr, {"lr": lr, **optimizer}
        self.lr_schedule, self.warmup_steps = lr_schedule, warmup_steps
        self._lr_factor = partial(
            lr_factor, schedule=lr_schedule, warmup_steps=warmup_steps, decay_steps=decay_steps
        )
        self.checkpoint_info = checkpoint_info or {}
        self.compiled = compiled
        self.skipped_steps = SkippedSteps(max_skipped_steps)
        self.scheduled_steps: int | None = None
        self._former_scheduled_steps: int | None = None
        self.meter = BoundMeter()
        self.train_nelbo: Tensor | float = math.nan
        self._losses: list[Tensor] = []

    def configure_callbacks(self) -> list[Callback]:
        return [self.skipped_steps]

    def on_fit_start(self) -> None:
        if self.compiled:
            if self.trainer.is_global_zero:
                logger.info("compiling the network in the first steps: a minute or more")
            compile_backbone(self.algorithm.backbone, self.device, self.compiled)

    def on_train_start(self) -> None:
        """Prepare a run: eval mode of parts that are not trained, and the interval of validations.

        Logs a changed length of a resumed run."""
        self.algorithm.train()  # any earlier, Lightning would have warned of modules in eval mode

        # validations fall between two steps
        every, parts = self.trainer.val_check_batch, self.trainer.accumulate_grad_batches
        whole = math.ceil(every / parts) * parts if isinstance(every, int) else math.inf
        across_epochs = self.trainer.check_val_every_n_epoch is None
        if math.isfinite(whole) and (across_epochs or whole <= self.trainer.num_training_batches):
            self.trainer.val_check_batch = whole

        # another length changes the learning rate of a resumed run
        former, steps = self._former_scheduled_steps, self.scheduled_steps
        if former is None or steps is None or not self.trainer.is_global_zero:
            return
        before, now = (self._lr_factor(self.global_step, num_steps=num) for num in (former, steps))
        if now != before:
            logger.info(
                "the run was to take %d steps and is to take %d: the %s learning rate goes on "
                "along the new length, here at %.3g of its peak instead of %.3g",
                *(former, steps, self.lr_schedule, now, before),
            )

    def on_before_batch_transfer(self, batch: Batch, dataloader_idx: int) -> Batch:
        return self.algorithm.prepare_batch(batch)

    def transfer_batch_to_device(
        self, batch: Batch, device: torch.device, dataloader_idx: int
    ) -> Batch:
        """Move a batch without waiting, which Lightning does for tensors only."""
        if device.type == "cuda" and batch.x0.device.type == "cpu":
            batch = batch.pin_memory()
        return batch.to(device, non_blocking=True)

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        trainer = self.trainer
        if self.compiled == REDUCE_OVERHEAD:
            begin_step()
        # noise of this part of the step, for the algorithm and for dropout
        turn = batch_idx % trainer.accumulate_grad_batches
        part = turn * trainer.world_size + self.global_rank
        generator = make_generator(
            self.seed, _TRAIN_STREAM, self.global_step, part, device=self.device
        )
        # torch.manual_seed would seed all kinds of devices, which takes half a millisecond
        torch.default_generator.manual_seed(generator.initial_seed())
        if self.device.type == "cuda":
            torch.cuda.manual_seed(generator.initial_seed())
        elif self.device.type != "cpu":
            torch.manual_seed(generator.initial_seed())

        # the loss, kept until the step ends
        output = self.algorithm.loss(self.algorithm.drop_conditions(batch, generator), generator)
        self.train_nelbo = output.nelbo.detach().mean()
        self._losses = [*(self._losses if turn else []), output.loss.detach()]
        if turn + 1 == trainer.accumulate_grad_batches or trainer.is_last_batch:
            self._log_loss(len(batch))
        return self.skipped_steps.spread_failure(output.loss)

    def _log_loss(self, batch_size: int) -> None:
        """Log ``train/loss`` of a step; processes wait for each other only if it is logged."""
        trainer = self.trainer
        loss = torch.stack(self._losses).mean()
        if trainer.world_size > 1:
            every: int = trainer.log_every_n_steps  # type: ignore[attr-defined]
            if not every or (self.global_step + 1) % every:
                return
            loss = torch.as_tensor(trainer.strategy.reduce(loss, reduce_op="mean"))
        shown = trainer.progress_bar_callback is not None  # which reads it back in every step
        self.log("train/loss", loss, prog_bar=shown, batch_size=batch_size)

    def on_validation_epoch_start(self) -> None:
        self.meter = BoundMeter()

    def validation_step(self, batch: Batch, batch_idx: int) -> None:
        # noise of the batch, the same in every validation
        part = batch_idx * self.trainer.world_size + self.global_rank
        generator = make_generator(self.seed, _VALIDATION_STREAM, part, 0, device=self.device)
        output = self.algorithm.loss(batch, generator, self.algorithm.evaluation_draw)
        stream = self.trainer.val_dataloaders
        # a repeated batch, which gives all processes equally many calls, does not count
        if isinstance(stream, SplitBatches) and not stream.counts(batch_idx):
            return
        self.meter.add(output.nelbo, output.num_real, batch.log_num_orders)

    def on_validation_epoch_end(self) -> None:
        # with sums over all processes, each has the same estimate
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
        # facts of the algorithm, such as learned schedules
        with whole_weights(self.trainer):
            values |= {f"val/{name}": x for name, x in self.algorithm.statistics().items()}
        self.log_dict(values, sync_dist=True)  # every process has reduced to the same numbers

    def configure_optimizers(self) -> Any:
        fused = self.trainer.precision != "16-mixed"  # a fused step cannot unscale and clip
        optimizer = build_optimizer(self.algorithm, self.optimizer_options, fused=fused)
        # the schedule spans the whole run
        num_steps = self.trainer.estimated_stepping_batches
        self.scheduled_steps = int(num_steps) if math.isfinite(num_steps) else None
        check_length(self.lr_schedule, self.scheduled_steps)
        end = self.scheduled_steps or 0
        scheduler = LambdaLR(optimizer, lambda step: self._lr_factor(step, num_steps=end))
        scheduling = {"scheduler": scheduler, "interval": "step"}
        return {"optimizer": optimizer, "lr_scheduler": scheduling}

    def configure_gradient_clipping(
        self,
        optimizer: Optimizer,
        gradient_clip_val: float | None = None,
        gradient_clip_algorithm: str | None = None,
    ) -> None:
        """Clip gradients as Lightning does, also for a fused optimiser in bfloat16.

        There Lightning would refuse, as it assumes scaled gradients."""
        if (model := sharded(self.trainer)) is not None:  # the norm runs over all processes
            if gradient_clip_val:
                model.clip_grad_norm_(gradient_clip_val)
            return
        # Lightning would unscale gradients that are not scaled
        plugin = self.trainer.precision_plugin
        if isinstance(plugin, MixedPrecision) and plugin.scaler is None:
            kind = GradClipAlgorithmType(gradient_clip_algorithm or "norm")
            Precision.clip_gradients(plugin, optimizer, gradient_clip_val or 0.0, kind)
            return
        self.clip_gradients(optimizer, gradient_clip_val, gradient_clip_algorithm)

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        self._former_scheduled_steps = checkpoint.get(INFO_KEY, {}).get("scheduled_steps")

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        machine = {
            "threads": torch.get_num_threads(),
            "processes": self.trainer.world_size,
            "device": self.device.type,
            "torch": str(torch.__version__),  # a class of torch's own, which is not plain
        }
        checkpoint[INFO_KEY] = info_with_digest(
            self.checkpoint_info,
            checkpoint["state_dict"],
            step=self.trainer.global_step,
            machine=machine,
            scheduled_steps=self.scheduled_steps,
        )
