"""Callbacks of the trainer: samples, progress, log lines, averaged weights, skipped steps."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.callbacks import WeightAveraging
from lightning.pytorch.plugins.precision import FSDPPrecision
from lightning.pytorch.strategies import FSDPStrategy, ModelParallelStrategy
from torch import Tensor, nn
from torch.nn.utils import get_total_norm
from torch.optim import Optimizer
from torch.optim.swa_utils import AveragedModel

from discrete_diffusion.config.values import check_whole_number, counted
from discrete_diffusion.evaluation.report import Headline, Report
from discrete_diffusion.evaluation.sample_scores import plus_minus
from discrete_diffusion.runtime import progress
from discrete_diffusion.training.run_checkpoints import RunCheckpoints

if TYPE_CHECKING:
    from torch.distributed.fsdp import FullyShardedDataParallel

logger = logging.getLogger(__name__)


class ShardedPrecision(FSDPPrecision):
    """Lightning's precision for FSDP, with unchanged batches: they hold ids, and are frozen."""

    def convert_input(self, data: Any) -> Any:
        return data


def sharded(trainer: Trainer) -> FullyShardedDataParallel | None:
    """Return the FSDP module, whose weights are divided among the processes, or None."""
    if not isinstance(trainer.strategy, FSDPStrategy):
        return None
    from torch.distributed.fsdp import FullyShardedDataParallel

    model = trainer.strategy.model
    assert isinstance(model, FullyShardedDataParallel)
    return model


def whole_weights(trainer: Trainer) -> AbstractContextManager[None]:
    """Context in which every process has all weights; all processes must enter it together."""
    if (model := sharded(trainer)) is None:
        return nullcontext()
    whole: AbstractContextManager[None] = model.summon_full_params(model, writeback=False)
    return whole


def spread_to_all(flag: Tensor) -> None:
    """Set ``flag`` to its maximum over all processes, without a wait for the device."""
    if dist.is_available() and dist.is_initialized():
        dist.all_reduce(flag, op=dist.ReduceOp.MAX)


class SampleAtValidation(Callback):
    """Samples at every validation: metrics to the logger, a picture to ``pictures/``.

    Must stand *before* the EMA callback, which restores the training weights at the end of
    validation. The check before training makes ``num_tried`` samples, so that a failure shows at
    once. ``draw`` gives the same samples in every process; the first measures and plots them."""

    def __init__(
        self,
        draw: Callable[[int], Any],
        report: Report,
        *,
        num_samples: int,
        folder: Path,
        num_tried: int = 4,
    ) -> None:
        self.draw, self.report = draw, report
        self.num_samples, self.num_tried, self.folder = num_samples, num_tried, folder

    def on_validation_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        num = min(self.num_samples, self.num_tried) if trainer.sanity_checking else self.num_samples
        if num == 0 and not trainer.sanity_checking:
            return
        # all processes sample, the first one measures and plots
        with progress.task("samples"):
            with whole_weights(trainer):
                samples = self.draw(num)
            measured = self.report.measure(samples) if trainer.is_global_zero else {}
            if trainer.sanity_checking:
                return
            measured = trainer.strategy.broadcast(measured)
            values = {f"val/{name}": x for name, x in measured.items()}
            pl_module.log_dict(values, sync_dist=True)
            if trainer.is_global_zero:
                self.folder.mkdir(parents=True, exist_ok=True)
                self.report.plot(samples, self.folder / f"step_{trainer.global_step:06d}.png")


class TrainingProgress(Callback):
    """Shows training steps, with the loss, and validations as tasks of ``runtime.progress``.

    Logs at the end how long the steps and the validations took."""

    def __init__(self) -> None:
        self._training, self._validation = ExitStack(), ExitStack()
        self._validating = 0.0

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._began, self._first_step = time.monotonic(), trainer.global_step
        total = _if_finite(trainer.estimated_stepping_batches)
        self._steps = self._training.enter_context(progress.task("training", total, "steps"))
        self._steps.begin_at(trainer.global_step)

    def on_train_batch_start(self, trainer: Trainer, *_: Any) -> None:
        """Correct the step in Lightning's logs, one too small after a resumed validation."""
        trainer.fit_loop.epoch_loop._batches_that_stepped = trainer.global_step

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        self._steps.reach(trainer.global_step)
        # not at every step: reading the loss waits for a GPU
        loss = trainer.callback_metrics.get("train/loss") if self._steps.wants_note else None
        if loss is not None:
            self._steps.note, self._steps.wants_note = f"loss {float(loss):.4g}", False

    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._validation_began = time.monotonic()
        checking = trainer.sanity_checking
        num = sum(trainer.num_sanity_val_batches if checking else trainer.num_val_batches)
        validation = progress.task("validation", _if_finite(num), "batches")
        self._batches = self._validation.enter_context(validation)

    def on_validation_batch_end(self, trainer: Trainer, *_: Any) -> None:
        self._batches.advance()

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._validation.close()
        if not trainer.sanity_checking:
            self._validating += time.monotonic() - self._validation_began

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._training.close()
        steps = trainer.global_step - self._first_step
        if steps and trainer.is_global_zero:
            seconds = time.monotonic() - self._began
            logger.info(
                "training took %.0f s: %s, and %.0f s of validation",
                *(seconds, counted(steps, "step"), self._validating),
            )

    def on_exception(self, trainer: Trainer, *_: Any) -> None:
        self._validation.close()
        self._training.close()


def _if_finite(num: float) -> float | None:
    return num if math.isfinite(num) else None


class ValidationLine(Callback):
    """One line of text per validation, for logs without a progress bar.

    ``step 500/600  NELBO train 24.7, validation 27.2 ± 1.5 nats (0.7551 per token, best so far)``

    ``headlines``: measures of samples that follow in the line.
    """

    def __init__(self, headlines: Sequence[Headline] = ()) -> None:
        self.headlines = headlines

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if trainer.sanity_checking or not trainer.is_global_zero:
            return
        # where the run is
        values = {name: float(torch.as_tensor(v)) for name, v in trainer.callback_metrics.items()}
        total = _if_finite(trainer.estimated_stepping_batches)
        parts = [f"step {trainer.global_step}" + ("" if total is None else f"/{int(total)}")]
        skipped = getattr(pl_module, "skipped_steps", None)
        if skipped is not None and skipped.total:
            parts.append(f"{skipped.total} steps skipped")

        # the bound of the last step's batch, if it is one, and that of the validation split
        nelbo = float(getattr(pl_module, "train_nelbo", math.nan))
        train = f"train {nelbo:.1f}, " if math.isfinite(nelbo) else ""
        bound = plus_minus(values["val/nelbo"], values.get("val/nelbo_standard_error"))
        unit = "token" if getattr(pl_module.algorithm, "state", "") == "tokens" else "value"
        checkpoints = trainer.checkpoint_callback
        is_best = isinstance(checkpoints, RunCheckpoints) and checkpoints.is_best(trainer)
        parts.append(
            f"NELBO {train}validation {bound} nats ({values['val/nelbo_per_token']:.4f} per {unit}"
            + (", best so far)" if is_best else ")")
        )
        # numbers of the samples
        for headline in self.headlines:
            if (value := values.get(f"val/{headline.name}")) is not None:
                parts.append(headline.format(value))
        logger.info("%s", "  ".join(parts))


class MovingAverage(AveragedModel):
    """Average of a module's weights on ``device``, with the number of averaged steps on the CPU."""

    def __init__(self, module: nn.Module, *, device: torch.device, decay: float) -> None:
        super().__init__(module, device=device)
        self.n_averaged = torch.tensor(0)
        self.decay = decay

    @torch.no_grad()
    def update_parameters(self, model: nn.Module) -> None:
        """Update the average with the trained weights of ``model``, and copy its buffers.

        After a skipped step the average stays the same."""
        n = int(self.n_averaged)
        pairs = zip(self.module.parameters(), model.parameters(), strict=True)
        moving = [(own, other) for own, other in pairs if n == 0 or other.requires_grad]
        average: list[Tensor] = [own for own, _ in moving]
        others: list[Tensor] = [other for _, other in moving]

        # the weight of a skipped step is 0; only the device knows whether it was skipped
        weight: Any = 1 - min(self.decay, (1 + n) / (10 + n))
        skipped = getattr(model, "skipped_steps", None)
        if skipped is not None and skipped.now is not None:
            weight = (1 - skipped.now) * weight

        # the first weights are copied exactly, also if the first step was skipped
        if n:
            moves = torch._foreach_sub(others, average)
            torch._foreach_mul_(moves, weight)
            torch._foreach_add_(average, moves)
        else:
            torch._foreach_copy_(average, others)
        for own, other in zip(self.module.buffers(), model.buffers(), strict=True):
            own.copy_(other)
        self.n_averaged += 1


class EMA(WeightAveraging):
    """Lightning's weight averaging with a decay that warms up: min(decay, (1 + n) / (10 + n)).

    After n steps the average spans about n / 10 steps, so the average of a short run does not
    include its start, and a long run reaches ``decay``. Buffers are copied, not averaged: the
    average of an index buffer would be wrong.

    After ``fit`` the module holds the average. Lightning's callback already loads it before the
    last checkpoint is written, which then lacks the training weights.

    Raises ``ValueError`` for a decay outside [0, 1), and for a strategy that divides the weights
    among processes: the average is created before they are divided.
    """

    def __init__(self, *, decay: float = 0.9999) -> None:
        if not 0 <= decay < 1:
            raise ValueError(f"ema decay={decay}: expected a number in [0, 1)")
        self.decay = decay
        super().__init__(use_buffers=False)

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Create the average on the device to which the module is moved later."""
        if isinstance(trainer.strategy, FSDPStrategy | ModelParallelStrategy):
            raise ValueError(
                f"{type(trainer.strategy).__name__} gives each process a part of the weights, and "
                "EMA averages whole ones; leave EMA out, or take DDPStrategy"
            )
        # a copy of the module on the device of training
        if stage == "fit":
            device = trainer.strategy.root_device
            try:
                self._average_model = MovingAverage(pl_module, device=device, decay=self.decay)
            except (TypeError, RuntimeError) as error:  # of copy.deepcopy
                raise ValueError(
                    f"the network cannot be copied for the average of its weights: {error}; keep "
                    "out of its attributes what copy.deepcopy refuses, or set "
                    "callbacks.ema_decay=null"
                ) from error

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Keep the training weights in the module, for the last checkpoint."""

    def on_fit_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._copy_average_to_current(pl_module)


class SkippedSteps(Callback):
    """Skips every step whose loss, gradient, or squared gradient is not finite.

    A skipped step does not change weights, moments and averages, but buffers that the network
    updates in its forward pass. Steps are checked and counted on the device; only an optimiser that
    is not fused waits for the result. The counts are read where the loss is logged, so a run may go
    on for some steps, which are all skipped. Overflows of a float16 ``GradScaler`` do not count.

    Raises ``ValueError`` with advice after ``most_in_a_row`` skipped steps."""

    def __init__(self, most_in_a_row: int) -> None:
        check_whole_number("optim.max_skipped_steps", most_in_a_row, least=1)
        self.most_in_a_row = most_in_a_row
        self.now: Tensor | None = None
        """1 if the latest step was skipped, else 0; None before the first step."""
        self._counts: Tensor | None = None  # failed steps, those in a row now, the longest row
        self._lost: Tensor | None = None  # whether a loss of this step was not finite
        self._before, self._known, self._read_at = 0, 0, -1

    @property
    def total(self) -> int:
        """Number of steps skipped in the whole run, also before it was resumed; waits for the
        device."""
        return self._before + (0 if self._counts is None else int(self._counts[0]))

    def state_dict(self) -> dict[str, Any]:
        return {"total": self.total}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self._before = state_dict["total"]

    def spread_failure(self, loss: Tensor) -> Tensor:
        """Return the loss, or NaN if it is not finite, so that all sums of gradients are NaN."""
        lost = ~loss.detach().isfinite()
        self._lost = lost if self._lost is None else self._lost | lost
        return loss * torch.where(lost, torch.nan, 1.0)

    def on_before_optimizer_step(
        self, trainer: Trainer, pl_module: LightningModule, optimizer: Optimizer
    ) -> None:
        # a step fails if its gradient is not finite; with FSDP each process has a part of it
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        norm = get_total_norm([p.grad for p in parameters if p.grad is not None])
        if self._counts is None:
            self._counts = torch.zeros(3, device=pl_module.device)
        total, row, longest = self._counts
        failed = (~norm.isfinite()).float().to(pl_module.device)
        if sharded(trainer) is not None:
            spread_to_all(failed)
        self.now = torch.maximum(failed, (longest >= self.most_in_a_row).float())

        # a scaler is notified, and its overflows do not count
        scaler = getattr(trainer.precision_plugin, "scaler", None)
        if scaler is None:
            if all(group.get("fused") for group in optimizer.param_groups):
                optimizer.found_inf = self.now  # type: ignore[attr-defined]
            elif self.now:  # waits for the device; parameters without a gradient stay
                for parameter in parameters:
                    parameter.grad = None
        else:
            for overflow in scaler._found_inf_per_device(optimizer).values():
                torch.maximum(overflow, self.now, out=overflow)
            lost = torch.zeros_like(failed) if self._lost is None else self._lost.float()
            spread_to_all(lost)
            unscaled = scaler._get_scale_async() <= 1  # its public form waits
            failed = torch.maximum(failed * unscaled, lost)
        self._lost = None
        # all skipped steps, those in a row, the longest row
        row = (row + 1) * failed
        self._counts = torch.stack([total + failed, row, longest.maximum(row)])

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
        """Read the counts from the device; end the run after too many skipped steps in a row."""
        if self._counts is None:
            return
        # one transfer for all counts
        total, _, longest = (int(count) for count in self._counts.tolist())
        if total and not self._known and trainer.is_global_zero:
            logger.warning(
                "%d of %d steps so far had a loss or gradient that is not finite and were skipped; "
                "%d in a row end the run (optim.max_skipped_steps)",
                *(self._before + total, trainer.global_step, self.most_in_a_row),
            )
        self._known, self._read_at = total, trainer.global_step
        if longest < self.most_in_a_row:
            return

        # advice: the checkpoint to start from, and the settings to change
        checkpoints, saved = trainer.checkpoint_callback, ""
        if isinstance(checkpoints, RunCheckpoints) and checkpoints.holds_run:
            saved = f", which init.checkpoint={checkpoints.last} starts from"
        module: Any = pl_module
        clip, precision = trainer.gradient_clip_val, trainer.precision
        mixed = "" if precision == "32-true" else f", trainer.precision=32-true (now {precision})"
        clipping = "trainer.gradient_clip_val=1 (now off)"
        if clip:
            clipping = f"a lower trainer.gradient_clip_val (now {clip})"
        raise ValueError(
            f"{module.algorithm.name}: the loss or its gradient was not finite in {longest} steps "
            f"in a row, by step {trainer.global_step}; the weights are those before them{saved}. "
            f"Try a lower optim.lr (now {module.lr}), a longer optim.warmup_steps (now "
            f"{module.warmup_steps}) or {clipping}{mixed}; optim.max_skipped_steps is how many in "
            "a row end a run"
        )
