"""Callbacks beside the training steps: samples, a line of text, the average of the weights."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.callbacks import WeightAveraging
from lightning.pytorch.strategies import FSDPStrategy, ModelParallelStrategy
from torch import nn
from torch.optim.swa_utils import AveragedModel

from discrete_diffusion.config.values import counted
from discrete_diffusion.evaluation.report import Headline, Report
from discrete_diffusion.evaluation.sample_scores import plus_minus
from discrete_diffusion.runtime import progress
from discrete_diffusion.training.sharding import whole_weights

logger = logging.getLogger(__name__)


class SampleAtValidation(Callback):
    """Samples at every validation: metrics to the logger, a picture to ``pictures/``.

    Must stand *before* the EMA callback, which puts the training weights back at the end of
    validation. The sanity check before training samples ``num_tried``, so that a failure shows at
    once.

    ``draw``: number of samples -> samples, the same in every process. The first process measures
    and plots them with ``report``.
    """

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
        with progress.task("samples"):
            self._sample(trainer, pl_module, num)

    def _sample(self, trainer: Trainer, pl_module: LightningModule, num: int) -> None:
        with whole_weights(trainer):
            samples = self.draw(num)
        measured = self.report.measure(samples) if trainer.is_global_zero else {}
        if trainer.sanity_checking:
            return
        measured = trainer.strategy.broadcast(measured)
        pl_module.log_dict({f"val/{name}": x for name, x in measured.items()}, sync_dist=True)
        if trainer.is_global_zero:
            self.folder.mkdir(parents=True, exist_ok=True)
            self.report.plot(samples, self.folder / f"step_{trainer.global_step:06d}.png")


class TrainingProgress(Callback):
    """The steps of the whole run as a task, with the loss; validations are tasks inside it."""

    def __init__(self) -> None:
        self._training = ExitStack()
        self._validation = ExitStack()

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        total = _if_finite(trainer.estimated_stepping_batches)
        self._steps = self._training.enter_context(progress.task("training", total, "steps"))
        self._steps.begin_at(trainer.global_step)

    def on_train_batch_start(self, trainer: Trainer, *_: Any) -> None:
        """Correct the step of Lightning's logs, one short after a resumed validation that another
        ``val_check_interval`` does not repeat."""
        trainer.fit_loop.epoch_loop._batches_that_stepped = trainer.global_step

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        self._steps.reach(trainer.global_step)
        loss = trainer.callback_metrics.get("train/loss") if self._steps.wants_note else None
        if loss is not None:  # not at every step: to read it is to wait for a GPU
            self._steps.note, self._steps.wants_note = f"loss {float(loss):.4g}", False

    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        checking = trainer.sanity_checking
        num = sum(trainer.num_sanity_val_batches if checking else trainer.num_val_batches)
        validation = progress.task("validation", _if_finite(num), "batches")
        self._batches = self._validation.enter_context(validation)

    def on_validation_batch_end(self, trainer: Trainer, *_: Any) -> None:
        self._batches.advance()

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._validation.close()

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._training.close()

    def on_exception(self, trainer: Trainer, *_: Any) -> None:
        self._validation.close()
        self._training.close()


def _if_finite(num: float) -> float | None:
    return num if math.isfinite(num) else None


LEAST_LOGGED = 10.0
"""Seconds of measuring that are worth a line if they are more than those of the steps."""


class TimeOfMeasuring(Callback):
    """Says once that validations take more time than the steps, and at the end that the final
    measurements do, with the keys that make them fewer or smaller.

    ``num_samples``: taken at a validation. ``clock``: gives seconds."""

    def __init__(self, num_samples: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.num_samples, self.clock = num_samples, clock
        self._validating = self._drawing = self._stepping = 0.0
        self._num, self._logged = 0, False

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._began, self._first_step = self.clock(), trainer.global_step

    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._validation_began = self._bound_ended = self.clock()

    def on_validation_batch_end(self, trainer: Trainer, *_: Any) -> None:
        self._bound_ended = self.clock()

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if trainer.sanity_checking:
            return
        now = self.clock()
        self._num += 1
        self._validating += now - self._validation_began
        self._drawing += now - self._bound_ended
        self._stepping = now - self._began - self._validating
        if not self._logged and LEAST_LOGGED <= self._validating > self._stepping:
            self._logged = True
            keys = self._keys(trainer.global_step - self._first_step)
            self._log_time(counted(self._num, "validation"), self._validating, keys)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._stepping = self.clock() - self._began - self._validating

    def measured(self, seconds: float) -> None:
        """The final measurements took so long."""
        if LEAST_LOGGED <= seconds > self._stepping > 0:
            keys = "a smaller eval.num_samples, eval.bound_samples or eval.bound_draws"
            self._log_time("the final measurements", seconds, keys)

    def _keys(self, steps: int) -> str:
        """Keys that make the validations of so many steps cheaper."""
        mostly_drawing = self.num_samples and 2 * self._drawing > self._validating
        smaller = "callbacks.num_samples" if mostly_drawing else "trainer.limit_val_batches"
        if self._num == 1:
            return f"a smaller {smaller}"
        often = f"every {counted(steps // self._num, 'step')} now"
        return f"a larger trainer.val_check_interval ({often}) or a smaller {smaller}"

    def _log_time(self, what: str, seconds: float, keys: str) -> None:
        logger.info(
            "%s took %.0f s, the steps %.0f s; %s would shorten the run",
            *(what, seconds, self._stepping, keys),
        )


class ValidationLine(Callback):
    """One line of text per validation, for logs that no progress bar reaches.

    ``headlines``: numbers of samples that the line has."""

    def __init__(self, headlines: Sequence[Headline] = ()) -> None:
        self.headlines = headlines

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if trainer.sanity_checking or not trainer.is_global_zero:
            return
        values = {name: float(torch.as_tensor(v)) for name, v in trainer.callback_metrics.items()}
        parts = [f"step {trainer.global_step}"]
        if "train/loss" in values:
            parts.append(f"train loss {values['train/loss']:.4f}")
        skipped = getattr(pl_module, "skipped_steps", None)
        if skipped is not None and skipped.total:
            parts.append(f"{skipped.total} steps skipped")
        bound = plus_minus(values["val/nelbo"], values.get("val/nelbo_standard_error"))
        part = "token" if getattr(pl_module.algorithm, "state", "") == "tokens" else "value"
        parts.append(f"val NELBO {bound} nats, {values['val/nelbo_per_token']:.4f} per {part}")
        for headline in self.headlines:
            if (value := values.get(f"val/{headline.name}")) is not None:
                parts.append(headline.format(value))
        logger.info("%s", "  ".join(parts))


class MovingAverage(AveragedModel):
    """The average of a module's weights on ``device``, its count on the host: torch's own reads
    the count back from the device in every step."""

    def __init__(self, module: nn.Module, *, device: torch.device, decay: float) -> None:
        super().__init__(module, device=device)
        self.n_averaged = torch.tensor(0)
        self.decay = decay

    @torch.no_grad()
    def update_parameters(self, model: nn.Module) -> None:
        """Take in the weights of ``model`` that are trained, unless its last step was skipped, and
        copy its buffers."""
        n = int(self.n_averaged)
        pairs = zip(self.module.parameters(), model.parameters(), strict=True)
        moving = [(own, other) for own, other in pairs if n == 0 or other.requires_grad]
        weight: Any = 1 - min(self.decay, (1 + n) / (10 + n))
        skipped = getattr(model, "skipped_steps", None)
        if skipped is not None and skipped.now is not None:
            weight = (1 - skipped.now) * weight  # on the device, where it is known
        average: list[torch.Tensor] = [own for own, _ in moving]
        others: list[torch.Tensor] = [other for _, other in moving]
        if n:
            moves = torch._foreach_sub(others, average)
            torch._foreach_mul_(moves, weight)
            torch._foreach_add_(average, moves)
        else:  # exactly: a first step that was skipped has changed nothing
            torch._foreach_copy_(average, others)
        for own, other in zip(self.module.buffers(), model.buffers(), strict=True):
            own.copy_(other)
        self.n_averaged += 1


class EMA(WeightAveraging):
    """Lightning's weight averaging with a decay that warms up: min(decay, (1 + n) / (10 + n)).

    After n steps the average spans about n / 10 of them, so a run of a thousand steps is not
    averaged with its own start, and a long one reaches ``decay``. Buffers are copied, never
    averaged: an averaged index buffer drifts.

    After ``fit`` the module holds the average. Lightning's own puts it there at the end of
    training, before the last checkpoint is written, which then has lost the training weights.

    Raises ``ValueError`` for a decay outside [0, 1), and under a strategy that gives each process
    a part of the weights: the average is made of whole ones, before they are divided.
    """

    def __init__(self, *, decay: float = 0.9999) -> None:
        if not 0 <= decay < 1:
            raise ValueError(f"ema decay={decay}: expected a number in [0, 1)")
        self.decay = decay
        super().__init__(use_buffers=False)

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Make the average where the module will be: it is moved there later."""
        if isinstance(trainer.strategy, FSDPStrategy | ModelParallelStrategy):
            raise ValueError(
                f"{type(trainer.strategy).__name__} gives each process a part of the weights, and "
                "EMA averages whole ones; leave EMA out, or take DDPStrategy"
            )
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
        """Leave the training weights where they are, for the last checkpoint."""

    def on_fit_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._copy_average_to_current(pl_module)
