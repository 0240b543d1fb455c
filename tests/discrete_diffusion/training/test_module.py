"""The Lightning module, the average of its weights, samples at validation, lines of the log."""

from __future__ import annotations

import csv
from types import SimpleNamespace

import pytest
import torch
from lightning.pytorch.strategies import FSDPStrategy, ModelParallelStrategy

from discrete_diffusion.categorical import make_generator
from discrete_diffusion.training import EMA, MetricsLog
from discrete_diffusion.training.callbacks import (
    SampleAtValidation,
    TrainingProgress,
    ValidationLine,
)
from discrete_diffusion.training.run_checkpoints import RunCheckpoints
from toy_training import ToyData, fit, make_module


class NoReport:
    """Measures nothing."""

    def measure(self, samples):
        return {}

    def plot(self, samples, path):
        pass


def recorded(module, seen):
    """``seen`` becomes (training, seed of the noise, loss) of every call of the loss."""
    loss = module.algorithm.loss

    def recording(batch, generator, *draw):
        output = loss(batch, generator, *draw)
        seen.append((module.training, generator.initial_seed(), output.loss.item()))
        return output

    module.algorithm.loss = recording


def test_validation_has_its_own_noise_every_time(tmp_path):
    """Two validations of unchanged weights agree to the last bit."""
    seen = []
    module = make_module(lr=1e-30)
    module.on_validation_end = lambda: seen.append(
        module.trainer.callback_metrics["val/nelbo"].item()
    )
    fit(module, tmp_path)
    assert len(set(seen[1:])) == 1  # the first is the sanity check, on fewer batches
    assert len(seen) >= 3


def test_the_noise_of_a_part_is_that_of_its_seed_step_and_number(tmp_path):
    """One process: (seed, stream 0, step, part) in training, (seed, stream 1, batch, 0) after it.
    Runs of earlier versions go on with the same numbers as long as these stand."""

    def seeds(every):
        module, seen = make_module(), []
        recorded(module, seen)
        options = {"steps": 2, "val_check_interval": 2 * every}
        fit(module, tmp_path, accumulate_grad_batches=every, **options)
        return {kind: [s for training, s, _ in seen if training == kind] for kind in (True, False)}

    def expected(*keys):
        return [make_generator(*key).initial_seed() for key in keys]

    plain, accumulated = seeds(1), seeds(2)
    assert plain[True] == expected((0, 0, 0, 0), (0, 0, 1, 0))
    assert accumulated[True] == expected((0, 0, 0, 0), (0, 0, 0, 1), (0, 0, 1, 0), (0, 0, 1, 1))
    assert plain[False][-8:] == expected(*((0, 1, k, 0) for k in range(8)))
    assert accumulated[False] == plain[False]


@pytest.mark.parametrize("rank", [0, 1])
def test_processes_deal_the_parts_of_a_step_out_in_turn(rank):
    """Two processes of three batches a step have the noise of one process of six batches: part 1 is
    the first batch of the second process, part 2 the second batch of the first."""
    module, seen = make_module(), []
    recorded(module, seen)
    module._trainer = SimpleNamespace(
        world_size=2,
        global_rank=rank,
        global_step=5,
        accumulate_grad_batches=3,
        is_last_batch=False,
        log_every_n_steps=0,
    )
    batch = ToyData().splits["train"].batch()
    for index in range(6, 9):
        module.training_step(batch, index)
    expected = [make_generator(0, 0, 5, part).initial_seed() for part in (rank, 2 + rank, 4 + rank)]
    assert [seed for _, seed, _ in seen] == expected


def test_the_logged_loss_is_the_mean_over_the_parts_of_a_step(tmp_path):
    module, seen, logged = make_module(), [], []
    recorded(module, seen)
    module.on_train_batch_end = lambda *_: logged.append(
        module.trainer.callback_metrics.get("train/loss")
    )
    fit(module, tmp_path, steps=2, accumulate_grad_batches=2, val_check_interval=4)
    losses = [loss for training, _, loss in seen if training]
    assert logged[1].item() == pytest.approx((losses[0] + losses[1]) / 2)
    assert logged[3].item() == pytest.approx((losses[2] + losses[3]) / 2)


def test_ema_averages_weights_and_leaves_index_buffers_alone(tmp_path):
    """At decay 0.9999 an averaged integer buffer drifts; ours is copied."""
    module, ema = make_module(), EMA(decay=0.9999)
    history: list[torch.Tensor] = []
    module.on_train_batch_end = lambda *_: history.append(
        module.algorithm.backbone.head.weight.detach().clone()
    )
    fit(module, tmp_path, [ema])
    averaged = history[0].clone()
    for n, weight in enumerate(history[1:], start=1):
        decay = min(0.9999, (1 + n) / (10 + n))
        averaged = decay * averaged + (1 - decay) * weight
    found = module.algorithm.backbone.head.weight.data
    torch.testing.assert_close(found, averaged)
    assert not torch.allclose(found, history[-1])
    assert module.algorithm.backbone.index.tolist() == [7, 11, 13]
    assert ema._average_model.module.algorithm.backbone.index.tolist() == [7, 11, 13]
    with pytest.raises(ValueError, match=r"ema decay=1\.0"):
        EMA(decay=1.0)


@pytest.mark.parametrize("strategy", [FSDPStrategy, ModelParallelStrategy])
def test_ema_refuses_weights_of_which_a_process_has_a_part(strategy):
    trainer = SimpleNamespace(strategy=strategy())
    with pytest.raises(ValueError, match=rf"{strategy.__name__} .* whole ones; .*DDPStrategy"):
        EMA().setup(trainer, make_module(), "fit")


def test_samples_at_validation_come_from_averaged_weights(tmp_path):
    """The callback stands before EMA in the list, so the average is still in place."""
    ema, module, same, trained = EMA(decay=0.9), make_module(), [], []

    def draw(num):
        average = ema._average_model.module.algorithm.backbone.head.weight
        current = module.algorithm.backbone.head.weight
        same.append((module.global_step, current.clone(), average.clone()))
        return torch.zeros(num, 3, dtype=torch.long)

    def fail(num):
        raise RuntimeError("the sampler is broken")

    module.on_train_batch_end = lambda *_: trained.append(
        module.algorithm.backbone.head.weight.detach().clone()
    )
    sampling = SampleAtValidation(draw, NoReport(), num_samples=3, folder=tmp_path)
    fit(module, tmp_path, [sampling, ema])
    step, in_module, set_aside = same[-1]
    assert step == 12
    # during validation the module holds the average and the callback the training weights
    assert torch.equal(set_aside, trained[-1])
    assert not torch.equal(in_module, trained[-1])
    module = make_module()
    sampling = SampleAtValidation(fail, NoReport(), num_samples=3, folder=tmp_path)
    with pytest.raises(RuntimeError, match="the sampler is broken"):
        fit(module, tmp_path, [sampling])
    assert module.global_step == 0  # before the run starts


@pytest.fixture
def log(tmp_path, caplog):
    """Rows of ``metrics.csv`` and lines of the log of a short run."""
    caplog.set_level("INFO", logger="discrete_diffusion")
    kept = RunCheckpoints(tmp_path / "checkpoints")
    table = MetricsLog(str(tmp_path), name="logs", version="", flush_logs_every_n_steps=2)
    callbacks = [TrainingProgress(), ValidationLine(), kept]
    fit(make_module(lr=0.3), tmp_path, callbacks, val_check_interval=3, logger=table)
    with (tmp_path / "logs" / "metrics.csv").open() as file:
        return list(csv.DictReader(file)), [record.getMessage() for record in caplog.records]


def test_a_line_has_the_step_both_bounds_and_marks_the_best_so_far(log):
    rows, messages = log
    lines = [message for message in messages if message.startswith("step ")]
    assert [line.split()[1] for line in lines] == ["3/12", "6/12", "9/12", "12/12"]
    bounds = [float(row["val/nelbo"]) for row in rows if row["val/nelbo"]]
    for k, line in enumerate(lines):
        assert "NELBO train " in line
        assert f"validation {bounds[k]:.3f} ±" in line
        assert ("best so far" in line) == (bounds[k] < min([*bounds[:k], float("inf")]))
    assert len({"best so far" in line for line in lines}) == 2  # else nothing above could fail
    assert messages[-1].startswith("training took ")
    assert ": 12 steps, and " in messages[-1]


def test_numbers_of_one_step_are_one_row(log):
    rows, _ = log
    steps = [row["step"] for row in rows]
    assert steps == sorted({*steps}, key=int)
    assert all(row["train/loss"] for row in rows if row["val/nelbo"])


def test_numbers_logged_apart_are_one_row_before_and_after_they_are_saved(tmp_path):
    table = MetricsLog(str(tmp_path), name="logs", version="")
    for key, step in (("a", 3), ("b", 3), ("a", 5)):
        table.log_metrics({key: 1.0}, step=step)
    table.save()
    table.log_metrics({"c": 2.0}, step=5)
    table.save()
    with (tmp_path / "logs" / "metrics.csv").open() as file:
        rows = [{k: v for k, v in row.items() if v} for row in csv.DictReader(file)]
    assert rows == [{"a": "1.0", "b": "1.0", "step": "3"}, {"a": "1.0", "c": "2.0", "step": "5"}]
