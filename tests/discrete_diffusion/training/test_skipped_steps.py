"""A step whose loss or gradient is not finite changes nothing, is counted, and ends a run if more
follow."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from lightning.pytorch import Callback, Trainer
from lightning.pytorch.plugins.precision import MixedPrecision

from discrete_diffusion.checkpoints.files import read_training_file
from discrete_diffusion.training import EMA
from discrete_diffusion.training.callbacks import ValidationLine
from discrete_diffusion.training.run_checkpoints import RunCheckpoints
from toy_training import ToyData, fit, make_module, streams

INFO = {"config": {}, "size_counts": [1, 2]}


def infinite_loss(loss, weight):
    """With a gradient that is finite: it does not come through what overflows."""
    return loss + torch.inf


def lost_gradient(loss, weight):
    """The loss as it was, and a gradient of one weight that is 0 times infinity."""
    return loss + 0 * weight[0, 0].mul(0).sqrt()


def huge_gradient(loss, weight):
    """Finite, but not its square, which AdamW keeps."""
    return loss + (weight[0, 0] - weight[0, 0].detach()) * 1e30


pytestmark = pytest.mark.filterwarnings(  # of a first step that a GradScaler skips
    "ignore:Detected call of `lr_scheduler.step:UserWarning"
)
MUON = {"_target_": "discrete_diffusion.training.MuonAdamW", "weight_decay": 0.1}
SGD = {"_target_": "torch.optim.SGD", "momentum": 0.9, "weight_decay": 0.1}
HALF = {"precision": "bf16-mixed", "gradient_clip_val": 0.1}


def failing(steps, how=infinite_loss, *, turns=(0,), **options):
    """A module whose loss fails in some steps, in these of the batches that make up a step."""
    module = make_module(checkpoint_info=INFO, **options)
    loss, seen = module.algorithm.loss, []

    def failing_loss(batch, generator, *draw):
        output = loss(batch, generator, *draw)
        if not module.training:
            return output
        seen.append(module.global_step)
        if module.global_step not in steps or seen.count(module.global_step) - 1 not in turns:
            return output
        return replace(output, loss=how(output.loss, module.algorithm.backbone.head.weight))

    module.algorithm.loss = failing_loss
    return module


class Watch(Callback):
    """Weights, moments and averages after every step."""

    def __init__(self, ema):
        self.ema, self.states = ema, {}

    def on_train_batch_end(self, trainer, module, *_):
        moments = trainer.optimizers[0].state_dict()["state"].values()
        averages = self.ema._average_model.module.parameters()
        numbers = [*module.parameters(), *averages, *(x for m in moments for x in m.values())]
        self.states[trainer.global_step] = torch.cat([x.detach().flatten() for x in numbers])


def train(module, folder, *, steps=8, callbacks=(), log_every_n_steps=1, **options):
    """``fit`` with a trainer of any precision and clipping."""
    trainer = Trainer(
        default_root_dir=folder,
        accelerator="cpu",
        max_steps=steps,
        max_epochs=-1,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        log_every_n_steps=log_every_n_steps,
        val_check_interval=steps * options.get("accumulate_grad_batches", 1),
        check_val_every_n_epoch=None,
        callbacks=list(callbacks),
        **options,
    )
    trainer.fit(module, *streams(ToyData(), batch_size=32))
    return trainer


@pytest.mark.parametrize(
    ("how", "optimizer", "options"),
    [
        (infinite_loss, {}, {}),
        (lost_gradient, {}, {"gradient_clip_val": 0.1}),
        (huge_gradient, {}, {}),
        (huge_gradient, {}, HALF),
        (lost_gradient, {}, {"accumulate_grad_batches": 2}),
        (huge_gradient, {}, {"plugins": 1.0}),
        (infinite_loss, MUON, {}),  # not fused, as SGD
        (infinite_loss, SGD, HALF),
    ],
)
def test_a_skipped_step_changes_nothing(tmp_path, how, optimizer, options):
    if "plugins" in options:
        options = {"plugins": [scaled(options["plugins"])]}
    ema = EMA(decay=0.9)
    watch, module = Watch(ema), failing((0, 2, 3, 6), how, **optimizer)
    trainer = train(module, tmp_path, callbacks=[ema, watch], **options)
    assert set(watch.states) >= set(range(1, 9))
    same = {step for step in range(3, 9) if torch.equal(watch.states[step], watch.states[step - 1])}
    assert same == {3, 4, 7}
    assert all(state.isfinite().all() for state in watch.states.values())
    assert module.skipped_steps.total == 4
    assert trainer.callback_metrics["train/skipped_steps"] == 4
    assert trainer.callback_metrics["val/nelbo"].isfinite()


def test_a_later_batch_of_a_step_spoils_all_of_it(tmp_path):
    module = failing((1,), turns=(1,))
    train(module, tmp_path, steps=3, accumulate_grad_batches=3)
    assert module.skipped_steps.total == 1
    assert all(p.isfinite().all() for p in module.parameters())


def test_too_many_in_a_row_end_the_run(tmp_path, caplog):
    """The files of the run hold what was good."""
    module = failing(range(6, 99), max_skipped_steps=3, lr=0.25)
    kept = RunCheckpoints(tmp_path)
    with pytest.raises(ValueError, match="3 steps in a row") as error:
        fit(module, tmp_path, [EMA(decay=0.9), kept, ValidationLine()], steps=40)
    for word in ("mdlm", "step 9", "optim.lr (now 0.25)", "trainer.gradient_clip_val", "warmup"):
        assert word in str(error.value)
    assert f"init.checkpoint={tmp_path / 'last.ckpt'}" in str(error.value)
    assert "trainer.precision" not in str(error.value)  # which is not the cause in float32
    for name in ("last", "best"):
        state = read_training_file(tmp_path / f"{name}.ckpt")
        moments = [
            m for one in state["optimizer_states"][0]["state"].values() for m in one.values()
        ]
        numbers = [*state["state_dict"].values(), *state["current_model_state"].values(), *moments]
        assert all(torch.as_tensor(x).isfinite().all() for x in numbers)
        assert state["global_step"] <= 8
    assert "2 of 8 steps so far had a loss or gradient that is not finite" in caplog.text


def test_no_step_is_taken_after_too_many_even_if_that_is_noticed_later(tmp_path):
    """The counts are read where the loss is logged, the losses are finite again before that."""
    ema = EMA(decay=0.9)
    watch, module = Watch(ema), failing(range(2, 5), max_skipped_steps=3)
    with pytest.raises(ValueError, match="3 steps in a row, by step 10"):
        train(module, tmp_path, steps=12, callbacks=[ema, watch], log_every_n_steps=10)
    assert not torch.equal(watch.states[2], watch.states[1])
    assert all(torch.equal(watch.states[step], watch.states[2]) for step in range(3, 10))
    assert module.skipped_steps.total == 3


def scaled(initial):
    return MixedPrecision("16-mixed", "cpu", torch.amp.GradScaler("cpu", init_scale=initial))


def test_a_loss_that_is_not_finite_is_counted_at_any_scale(tmp_path):
    plugin, module = scaled(2.0**10), failing((2, 5), turns=(1,))
    train(module, tmp_path, steps=8, plugins=[plugin], accumulate_grad_batches=2)
    assert plugin.scaler.get_scale() == 2.0**8
    assert module.skipped_steps.total == 2


def test_failures_that_are_apart_do_not_end_it(tmp_path, caplog):
    module = failing((0, 1, 3, 4, 6, 7), max_skipped_steps=3)
    fit(module, tmp_path, [ValidationLine()], steps=12)
    assert module.skipped_steps.total == 6
    assert caplog.text.count("optim.max_skipped_steps") == 1  # one warning is enough


def test_the_count_goes_on_with_a_resumed_run(tmp_path):
    fit(failing((1,)), tmp_path, [RunCheckpoints(tmp_path)], steps=4)
    module = failing((5,))
    fit(module, tmp_path, [RunCheckpoints(tmp_path)], steps=8, ckpt_path=tmp_path / "last.ckpt")
    assert module.skipped_steps.total == 2


def test_the_overflows_of_a_scale_too_large_are_no_failures(tmp_path):
    """A ``GradScaler`` halves it until the gradient fits; a loss that fails still ends the run."""
    found, plugin = [], scaled(2.0**127)

    class Scales(Callback):
        def on_train_batch_end(self, *_):
            found.append(plugin.scaler.get_scale())

    module = failing((), max_skipped_steps=2)
    train(module, tmp_path, steps=60, callbacks=[Scales()], plugins=[plugin])
    assert sum(a > b for a, b in pairwise(found)) > 2
    assert module.skipped_steps.total == 0
    with pytest.raises(ValueError, match=r"2 steps in a row.*trainer\.precision=32-true"):
        train(failing(range(99), max_skipped_steps=2), tmp_path, steps=60, plugins=[scaled(8.0)])
    with pytest.raises(ValueError, match=r"optim\.max_skipped_steps=0: expected a whole number"):
        make_module(max_skipped_steps=0)


@pytest.mark.parametrize(("bound", "first"), [(math.nan, True), (-math.inf, False)])
def test_a_validation_that_is_not_finite_is_never_the_best(tmp_path, caplog, bound, first):
    module = failing(())

    class Spoil(Callback):
        def on_validation_end(self, trainer, module):
            if not trainer.sanity_checking and trainer.global_step == (4 if first else 8):
                trainer.callback_metrics["val/nelbo"].fill_(bound)

    kept = RunCheckpoints(tmp_path)
    fit(module, tmp_path, [Spoil(), kept], steps=8)
    assert kept.best_step == (8 if first else 4)
    assert math.isfinite(kept.best_score)
    assert read_training_file(tmp_path / "best.ckpt")["global_step"] == kept.best_step
    assert f"val/nelbo is {bound}" in caplog.text
    assert ("there is none yet" if first else "stays that of step 4") in caplog.text
