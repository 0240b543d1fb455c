"""Checkpoints ``last.ckpt`` and ``best.ckpt`` of a run: writing them, and resuming the run."""

from __future__ import annotations

import logging
import math
import shutil
import signal
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from lightning.fabric.plugins.io import TorchCheckpointIO
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import Checkpoint
from torch import Tensor

from discrete_diffusion.checkpoints.files import (
    INFO_KEY,
    check_readable,
    read_training_file,
    write_weights_file,
)
from discrete_diffusion.runtime.atomic_files import UNFINISHED, atomic_write
from discrete_diffusion.runtime.processes import Stop, StopSignals

logger = logging.getLogger(__name__)

_SCORE = "val/nelbo"

_OF_WRITING = ("inline_container", "PytorchStreamWriter")
"""Words by which torch's errors of writing a file differ from errors of a GPU."""


class CheckpointFiles(TorchCheckpointIO):
    """Writing and reading of checkpoints, each with a ``.safetensors`` of the averaged weights.

    A file is never partial. Lightning would write into the system's temporary folder, from where
    copying to another disk can be interrupted."""

    def save_checkpoint(
        self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None
    ) -> None:
        check_readable(checkpoint)
        with atomic_write(Path(path)) as unfinished:
            try:
                torch.save(checkpoint, unfinished)
            except RuntimeError as error:  # torch's only error for a full disk
                if not any(word in str(error) for word in _OF_WRITING):
                    raise
                raise OSError(f"{path} cannot be written: is the disk full?") from error
        if INFO_KEY in checkpoint:
            _write_averaged_weights(Path(path), checkpoint)

    def load_checkpoint(
        self, path: Any, map_location: Any = None, weights_only: bool | None = None
    ) -> dict[str, Any]:
        """Read a checkpoint onto the CPU without running code; other arguments are ignored."""
        return read_training_file(path)


class AnyProcess:
    """Asks all processes of a run whether one of them wants something, such as to stop.

    All processes call it together. The flags are added on the CPU while the next step is computed,
    so a call at every step does not wait for a device. The answer is therefore one call old."""

    def __init__(self) -> None:
        self._group: dist.ProcessGroup | None = None
        self._asked: tuple[Tensor, dist.Work] | None = None

    def ask(self, wanted: bool, *, now: bool = False) -> bool:
        """Return True if any process wanted it at the last call, or wants it ``now``, waiting."""
        if not (dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1):
            return wanted
        if self._group is None:
            self._group = dist.new_group(backend="gloo")
        # the flags are added up while the next step is computed
        answer, flag = self._answer(), torch.tensor([int(wanted)])
        work = dist.all_reduce(flag, group=self._group, async_op=True)
        assert work is not None  # only of processes outside the group
        self._asked = flag, work
        return self._answer() if now else answer

    def _answer(self) -> bool:
        if self._asked is None:
            return False
        (flag, work), self._asked = self._asked, None
        work.wait()
        return bool(flag)


def _check_moments(trainer: Trainer) -> None:
    """Raise ``ValueError`` for moments of a wrong shape, which a fused step does not check."""
    for optimizer in trainer.optimizers:
        for group in optimizer.param_groups:
            for parameter in group["params"] if group.get("fused") else ():
                for name, value in optimizer.state.get(parameter, {}).items():
                    # the step is a number, moments have the shape of weights
                    shape = () if name == "step" else parameter.shape
                    dense = isinstance(value, Tensor) and value.layout is torch.strided
                    strides = (parameter.stride(), torch.empty(shape, device="meta").stride())
                    if not dense or value.shape != shape or value.stride() not in strides:
                        raise ValueError(
                            f"optimizer_states holds {name} in another shape than {tuple(shape)}"
                        )


class RunCheckpoints(Checkpoint):
    """Callback that keeps ``last.ckpt`` (newest) and ``best.ckpt`` (lowest ``val/nelbo``).

    ``last`` is written before every validation, after it, and after the step in which ``signals``
    were received, before ``Stop`` ends the run. A signal ends a validation at once. After a
    validation ``last`` names the best score and step, and is written *before* its copy ``best``: if
    the process is killed between the two, the resumed run sees that ``last`` is the best and copies
    it. If ``last`` was written before a validation, the resumed run begins with the validation.
    The last step is always validated, so that ``best`` is chosen among all steps of the run.

    ``holds_run``: True once ``last`` belongs to this run, not to an earlier run in the folder."""

    def __init__(self, folder: Path, *, signals: StopSignals | None = None) -> None:
        self.last, self.best = folder / "last.ckpt", folder / "best.ckpt"
        self.signals = signals or StopSignals()
        self.best_score: float | None = None
        self.best_step: int | None = None
        self.holds_run = False
        self._saved_step: int | None = None
        self._validation_due = False
        self._reopened = False
        self._stopping = False
        self._is_checked = False
        self._any_process = AnyProcess()

    def state_dict(self) -> dict[str, Any]:
        best = {"best_score": self.best_score, "best_step": self.best_step}
        return {**best, "validation_due": self._validation_due}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.best_score, self.best_step = state_dict["best_score"], state_dict["best_step"]
        self._validation_due = state_dict.get("validation_due", False)

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Remove unfinished files of a killed run."""
        if trainer.is_global_zero:
            for litter in self.last.parent.glob(f".*{UNFINISHED}*"):
                litter.unlink(missing_ok=True)

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if trainer.ckpt_path is None:
            return
        # copy the files of the resumed run into this folder
        if trainer.is_global_zero:
            self._adopt_checkpoints(Path(trainer.ckpt_path))
        self.holds_run = True
        # Lightning would skip a run that has taken all its steps
        if trainer.max_steps > 0:
            trainer.fit_loop.epoch_loop.max_steps += 1
            self._reopened = True

    def on_sanity_check_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.signals.install()  # on top of Lightning's, which end a run without a checkpoint

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if self._reopened:
            trainer.fit_loop.epoch_loop.max_steps -= 1
            self._reopened = False
        if self.holds_run:
            _check_moments(trainer)
            self._saved_step = trainer.global_step
        self.signals.install()
        self.signals.finish_step = True
        if self._validation_due:
            _validate_before_step(trainer)

    def on_train_batch_start(
        self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int
    ) -> None:
        # here and not at the end of the step, whose metrics are logged by now
        if self._stopping:
            raise self._stop()

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        # states of all classes are there after the first step
        if not self._is_checked:
            self._is_checked = True
            check_readable(
                {
                    "optimizer_states": [each.state_dict() for each in trainer.optimizers],
                    "callbacks": {each.state_key: each.state_dict() for each in trainer.callbacks},  # type: ignore[attr-defined]
                }
            )
        asked = self._any_process.ask(self.signals.received is not None)

        # the last step is validated; Lightning's should_stop would log the step too
        loop = trainer.fit_loop
        whole: Any = loop.epoch_progress.current
        epochs = whole.processed + loop.epoch_loop.batch_progress.is_last_batch
        ends = trainer.global_step == trainer.max_steps or epochs == loop.max_epochs
        if ends:
            trainer.val_check_batch, trainer.check_val_every_n_epoch = 1, None
            trainer._val_check_time_interval = None  # type: ignore[attr-defined]
        if not (asked or ends):
            return
        # a stop waits for the end of a step without a validation, which Lightning would skip
        at_epoch_end = loop.epoch_loop.batch_progress.is_last_batch
        between_steps = at_epoch_end or (loop.batch_idx + 1) % trainer.accumulate_grad_batches == 0
        assert loop._data_fetcher is not None  # a batch has just come out of it
        validates = loop.epoch_loop._should_check_val_fx(loop._data_fetcher)  # no public way
        if between_steps and not validates:
            self._save(trainer)
            self._stopping = asked

    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if trainer.sanity_checking:
            return
        # a run that begins with this validation has the file already
        if not self._validation_due:
            self._validation_due = True
            self._save(trainer)
        self._stop_if_asked()
        self.signals.stop_at_once()

    def on_validation_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Delay signals: from here on the validation is both logged and saved, or neither."""
        if not trainer.sanity_checking:
            self.signals.finish_step = True

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if trainer.sanity_checking:
            return
        self._validation_due = False
        score, improved = float(trainer.callback_metrics[_SCORE]), self.is_best(trainer)
        # a bound that is not finite is never the best
        if not math.isfinite(score) and trainer.is_global_zero:
            kept = "there is none yet"
            if self.best_step is not None:
                kept = f"{self.best} stays that of step {self.best_step}"
            logger.warning(
                "%s is %s at step %d, so this is not the best checkpoint; %s",
                *(_SCORE, score, trainer.global_step, kept),
            )

        # write ``last`` first, then copy it if it is the best
        if improved:
            self.best_score, self.best_step = score, trainer.global_step
        self._save(trainer)
        if improved and trainer.is_global_zero:
            self._copy_last_to_best()
        self._stop_if_asked()

    def is_best(self, trainer: Trainer) -> bool:
        """Return True if this validation has a lower score than all earlier validations."""
        score = float(trainer.callback_metrics[_SCORE])
        return math.isfinite(score) and (self.best_score is None or score < self.best_score)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if self._saved_step != trainer.global_step:
            self._save(trainer)
        if self.best_step is None and trainer.is_global_zero:  # no validation, or none was finite
            self._copy_last_to_best()
        self.signals.finish_step = False
        self._stop_if_asked()

    def on_exception(
        self, trainer: Trainer, pl_module: LightningModule, exception: BaseException
    ) -> None:
        self.signals.finish_step = False

    def _save(self, trainer: Trainer) -> None:
        # files of an earlier run in this folder
        if self.best_step is None and trainer.is_global_zero:
            self.best.unlink(missing_ok=True)
            self.best.with_suffix(".safetensors").unlink(missing_ok=True)
        trainer.save_checkpoint(self.last)
        self._saved_step, self.holds_run = trainer.global_step, True

    def _copy_last_to_best(self) -> None:
        for suffix in (".ckpt", ".safetensors"):
            source = self.last.with_suffix(suffix)
            if source.exists():
                _copy_checkpoint(source, self.best.with_suffix(suffix))

    def _stop_if_asked(self) -> None:
        if self._any_process.ask(self.signals.received is not None, now=True):
            raise self._stop()

    def _stop(self) -> Stop:
        return Stop(self.signals.received or signal.SIGINT, self.last)

    def _adopt_checkpoints(self, resumed: Path) -> None:
        """Copy the last and the best checkpoint of the resumed run into the folder."""
        # the last checkpoint, with its averaged weights
        elsewhere = resumed.resolve().parent != self.last.resolve().parent
        if elsewhere:
            _copy_checkpoint(resumed, self.last)
        # a run killed between the two files left the weights of an earlier step
        if elsewhere or resumed.name == self.last.name:
            _write_averaged_weights(self.last, read_training_file(self.last))
        if self.best_step is None:
            return
        # the best checkpoint so far, in this folder or in that of the resumed run
        candidates = (self.best, resumed, resumed.with_name("best.ckpt"))
        best = next((path for path in candidates if self._holds_best(path)), None)
        if best is None:
            logger.warning(
                "the best checkpoint so far, of step %d, is not in the folder of %s; the next one "
                "counts as the best",
                *(self.best_step, resumed),
            )
            self.best_score = self.best_step = None
            return
        if best != self.best:
            _copy_checkpoint(best, self.best)
        _write_averaged_weights(self.best, read_training_file(self.best))

    def _holds_best(self, path: Path) -> bool:
        """Return True if a file holds the best checkpoint of this run so far."""
        try:
            state = read_training_file(path)
        except (FileNotFoundError, ValueError):  # missing, or cut short
            return False
        seen = state.get("callbacks", {}).get(self.state_key, {})
        score = seen.get("best_score")
        return state.get("global_step") == self.best_step and score == self.best_score


def _validate_before_step(trainer: Trainer) -> None:
    """Validate before the first step of a resumed run, as Lightning validates after a step."""
    loop, connector = trainer.fit_loop.epoch_loop.val_loop, trainer._logger_connector
    first = connector._first_loop_iter
    # Lightning's state before and after a validation
    trainer.validating = True
    loop.run()
    trainer.training = True
    connector._first_loop_iter = first
    loop._has_run = False  # as in a run that is resumed after a validation


def _copy_checkpoint(source: Path, target: Path) -> None:
    with atomic_write(target) as unfinished:
        shutil.copyfile(source, unfinished)


def _write_averaged_weights(path: Path, checkpoint: dict[str, Any]) -> None:
    """Write the ``.safetensors`` of a ``.ckpt`` next to it, replacing an earlier file."""
    write_weights_file(path.with_suffix(".safetensors"), checkpoint)
