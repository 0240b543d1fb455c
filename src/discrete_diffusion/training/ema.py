"""The exponential moving average of the weights."""

from __future__ import annotations

from typing import Any

import torch
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import WeightAveraging
from lightning.pytorch.strategies import FSDPStrategy, ModelParallelStrategy
from torch import nn
from torch.optim.swa_utils import AveragedModel


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
