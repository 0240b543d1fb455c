"""Steps that are not taken, because their loss or gradient is not finite."""

from __future__ import annotations

import logging
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from torch import Tensor
from torch.nn.utils import get_total_norm
from torch.optim import Optimizer

from discrete_diffusion.config.values import check_whole_number
from discrete_diffusion.training.run_checkpoints import RunCheckpoints
from discrete_diffusion.training.sharding import in_any_process, sharded

logger = logging.getLogger(__name__)


class SkippedSteps(Callback):
    """Skips every step whose loss or gradient, or its square in the second moment, is not finite:
    weights, moments and averages stay what they were; buffers that a network updates in its forward
    pass do not. ``most_in_a_row`` of them, one after the other, end the run.

    Steps are judged and counted on the device; an optimiser that is not fused waits for that. The
    counts are read where the loss is logged, so a run may go on for some steps more, which are all
    skipped. A float16 ``GradScaler`` overflows
    until it has found its scale: such steps are skipped and not counted.

    Raises ``ValueError`` for a number below 1, and with what to try when that many were skipped.
    """

    def __init__(self, most_in_a_row: int) -> None:
        check_whole_number("optim.max_skipped_steps", most_in_a_row, least=1)
        self.most_in_a_row = most_in_a_row
        self.now: Tensor | None = None
        """1 if the step last taken was skipped, else 0; None before the first one."""
        self._counts: Tensor | None = None  # failed steps, those in a row now, the longest row
        self._lost: Tensor | None = None  # whether a loss of this step was not finite
        self._before, self._known, self._read_at = 0, 0, -1

    @property
    def total(self) -> int:
        """Steps skipped since the run began, those before it was resumed included; waits for the
        device."""
        return self._before + (0 if self._counts is None else int(self._counts[0]))

    def state_dict(self) -> dict[str, Any]:
        return {"total": self.total}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self._before = state_dict["total"]

    def spread_failure(self, loss: Tensor) -> Tensor:
        """The loss, and NaN with a gradient that is NaN throughout where it is not finite: it stays
        so when gradients of several batches and processes add up, so all of them find the same."""
        lost = ~loss.detach().isfinite()
        self._lost = lost if self._lost is None else self._lost | lost
        return loss * torch.where(lost, torch.nan, 1.0)

    def on_before_optimizer_step(
        self, trainer: Trainer, pl_module: LightningModule, optimizer: Optimizer
    ) -> None:
        parameters = (p for group in optimizer.param_groups for p in group["params"])
        norm = get_total_norm([p.grad for p in parameters if p.grad is not None])
        if self._counts is None:
            self._counts = torch.zeros(3, device=pl_module.device)
        total, row, longest = self._counts
        failed = (~norm.isfinite()).float().to(pl_module.device)
        if sharded(trainer) is not None:  # each process has a part of the gradient
            in_any_process(failed)
        self.now = torch.maximum(failed, (longest >= self.most_in_a_row).float())
        scaler = getattr(trainer.precision_plugin, "scaler", None)
        if scaler is None:
            self._withhold(optimizer, self.now)
        else:
            for found in scaler._found_inf_per_device(optimizer).values():
                torch.maximum(found, self.now, out=found)
            lost = torch.zeros_like(failed) if self._lost is None else self._lost.float()
            in_any_process(lost)
            unscaled = scaler._get_scale_async() <= 1  # its public form waits
            failed = torch.maximum(failed * unscaled, lost)
        self._lost = None
        row = (row + 1) * failed
        self._counts = torch.stack([total + failed, row, longest.maximum(row)])

    @staticmethod
    def _withhold(optimizer: Optimizer, skipped: Tensor) -> None:
        """Let an optimiser change nothing in this step if ``skipped`` is 1."""
        if all(group.get("fused") for group in optimizer.param_groups):
            optimizer.found_inf = skipped  # type: ignore[attr-defined]
        elif skipped:  # waits for the device; no optimiser changes what has no gradient
            for parameter in (p for group in optimizer.param_groups for p in group["params"]):
                parameter.grad = None

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        every: int = trainer.log_every_n_steps  # type: ignore[attr-defined]
        step = trainer.global_step
        if every and step % every == 0 and step != self._read_at:
            self._read(trainer, pl_module)
            pl_module.log("train/skipped_steps", float(self._before + self._known))

    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._read(trainer, pl_module)

    on_train_end = on_validation_start

    def _read(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if self._counts is None:
            return
        total, _, longest = (int(count) for count in self._counts.tolist())
        if total and not self._known and trainer.is_global_zero:
            logger.warning(
                "%d of %d steps so far had a loss or gradient that is not finite and were skipped; "
                "%d in a row end the run (optim.max_skipped_steps)",
                *(self._before + total, trainer.global_step, self.most_in_a_row),
            )
        self._known, self._read_at = total, trainer.global_step
        if longest >= self.most_in_a_row:
            raise ValueError(_what_to_try(trainer, pl_module, longest))


def _what_to_try(trainer: Trainer, pl_module: LightningModule, longest: int) -> str:
    kept = trainer.checkpoint_callback
    saved = ""
    if isinstance(kept, RunCheckpoints) and kept.holds_run:
        saved = f", which init.checkpoint={kept.last} starts from"
    algorithm: Any = pl_module.algorithm
    clip, precision = trainer.gradient_clip_val, trainer.precision
    mixed = "" if precision == "32-true" else f", trainer.precision=32-true (now {precision})"
    clipping = "trainer.gradient_clip_val=1 (now off)"
    if clip:
        clipping = f"a lower trainer.gradient_clip_val (now {clip})"
    return (
        f"{algorithm.name}: the loss or its gradient was not finite in {longest} steps in a row, "
        f"by step {trainer.global_step}; the weights are those before them{saved}. Try a lower "
        f"optim.lr (now {pl_module.lr}), a longer optim.warmup_steps (now "
        f"{pl_module.warmup_steps}) or {clipping}{mixed}; optim.max_skipped_steps is how many in a "
        "row end a run"
    )
