"""The Lightning module and its callbacks: schedules, EMA, checkpoints that need no pickle."""

from __future__ import annotations

import logging

import pytest
import torch
from lightning.pytorch import Trainer
from torch import nn

from discrete_diffusion.algorithms import MDLM
from discrete_diffusion.data import BatchStream, Examples, TokenDataset
from discrete_diffusion.forward_process import Absorbing
from discrete_diffusion.noise_schedules import LogLinear
from discrete_diffusion.training import EMA, DiffusionModule, LastCheckpoint
from discrete_diffusion.training.module import lr_factor
from toy_world import PAD, ToyWorld, toy_layout

logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


class TinyBackbone(nn.Module):
    """Embeds, mixes, predicts; with an index buffer that averaging must not touch."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("index", torch.tensor([7, 11, 13]))
        self.embed = nn.Embedding(6, 8)
        self.mix = nn.Linear(24, 24)
        self.head = nn.Linear(8, 6)
        self.drop = nn.Dropout(0.1)

    def forward(self, x_t, sigma=None):
        hidden = self.drop(self.mix(self.embed(x_t).flatten(1)).relu())
        return self.head(hidden.unflatten(1, (3, 8)))


class ToyData(TokenDataset):
    """Samples of the toy world as a data set."""

    def __init__(self, num: int = 256) -> None:
        self.layout, world = toy_layout(), ToyWorld.make()
        rows = torch.multinomial(world.prob, num, True, generator=torch.Generator().manual_seed(0))
        x0 = world.x0[rows]
        examples = Examples(x0, x0 != PAD)
        self.splits = dict.fromkeys(("train", "val", "test"), examples)

    def size_counts(self):
        return [0, 0, 0, 256]

    def real_positions(self, sizes):
        return torch.arange(3) < sizes.unsqueeze(1)

    def summary(self):
        return "toy"


def make_module(**options) -> DiffusionModule:
    torch.manual_seed(0)
    algorithm = MDLM(TinyBackbone(), Absorbing(toy_layout(), LogLinear()))
    return DiffusionModule(
        algorithm, bound="plain", seed=0, **{"lr": 3e-3, "lr_schedule": "constant", **options}
    )


def fit(module, tmp_path, callbacks=(), steps=12, **options):
    data = ToyData()
    trainer = Trainer(
        default_root_dir=tmp_path,
        accelerator="cpu",
        max_steps=steps,
        max_epochs=-1,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        val_check_interval=4,
        check_val_every_n_epoch=None,
        callbacks=list(callbacks),
    )
    train, val = (BatchStream(data, split, batch_size=32, seed=0) for split in ("train", "val"))
    trainer.fit(module, train, val, weights_only=True, **options)
    return trainer


def test_learning_rate_warms_up_then_stays_or_falls():
    cosine = [lr_factor(s, schedule="cosine", warmup_steps=10, num_steps=110) for s in range(111)]
    assert cosine[0] == pytest.approx(0.1)
    assert cosine[9] == cosine[10] == 1.0
    assert cosine[60] == pytest.approx(0.5)
    assert cosine[110] == pytest.approx(0.0)
    assert lr_factor(50, schedule="constant", warmup_steps=10, num_steps=110) == 1.0
    with pytest.raises(ValueError, match="did you mean 'cosine'"):
        make_module(lr_schedule="cosin")
    with pytest.raises(ValueError, match="lr=0"):
        make_module(lr=0)


def test_training_lowers_the_bound(tmp_path):
    module = make_module(lr=1e-2)
    trainer = fit(module, tmp_path, steps=150)
    entropy, start = ToyWorld.make().entropy, ToyWorld.make().sum_log_k
    bound = trainer.callback_metrics["val/nelbo"].item()
    assert entropy - 0.2 < bound < start - 0.5 * (start - entropy)


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


def test_runs_repeat_to_the_last_bit(tmp_path):
    weights = []
    for _ in range(2):
        module = make_module()
        fit(module, tmp_path)
        weights.append(torch.cat([p.flatten() for p in module.parameters()]))
    assert torch.equal(*weights)


def test_ema_averages_weights_and_leaves_index_buffers_alone(tmp_path):
    """At decay 0.9999 an averaged integer buffer drifts; ours is copied."""
    module, trained = make_module(), []
    module.on_train_end = lambda: None
    ema = EMA(decay=0.9999)
    history: list[torch.Tensor] = []
    module.on_train_batch_end = lambda *_: history.append(
        module.algorithm.backbone.head.weight.detach().clone()
    )
    fit(module, tmp_path, [ema])
    averaged = history[0].clone()
    for n, weight in enumerate(history[1:], start=1):
        decay = min(0.9999, (1 + n) / (10 + n))
        averaged = decay * averaged + (1 - decay) * weight
    torch.testing.assert_close(module.algorithm.backbone.head.weight.data, averaged)
    assert module.algorithm.backbone.index.tolist() == [7, 11, 13]
    assert ema._average_model.module.algorithm.backbone.index.tolist() == [7, 11, 13]
    assert not trained
    with pytest.raises(ValueError, match=r"ema decay=1\.0"):
        EMA(decay=1.0)


def test_samples_at_validation_come_from_averaged_weights(tmp_path):
    """The callback stands before EMA in the list, so the average is still in place."""
    from discrete_diffusion.evaluation import SampleReport
    from discrete_diffusion.training import SampleAtValidation

    ema, module, same = EMA(decay=0.9), make_module(), []

    def draw(num):
        average = ema._average_model.module.algorithm.backbone.head.weight
        current = module.algorithm.backbone.head.weight
        same.append((module.global_step, current.clone(), average.clone()))
        return torch.zeros(num, 3, dtype=torch.long)

    sampling = SampleAtValidation(draw, SampleReport(ToyData()), num_samples=3, folder=tmp_path)
    trained = []
    module.on_train_batch_end = lambda *_: trained.append(
        module.algorithm.backbone.head.weight.detach().clone()
    )
    fit(module, tmp_path, [sampling, ema])
    step, in_module, set_aside = same[-1]
    assert step == 12
    # during validation the module holds the average and the callback the training weights
    assert torch.equal(set_aside, trained[-1])
    assert not torch.equal(in_module, trained[-1])


def test_a_failing_sampler_fails_the_run_before_it_starts(tmp_path):
    from discrete_diffusion.evaluation import SampleReport
    from discrete_diffusion.training import SampleAtValidation

    def draw(num):
        raise RuntimeError("the sampler is broken")

    module = make_module()
    sampling = SampleAtValidation(draw, SampleReport(ToyData()), num_samples=3, folder=tmp_path)
    with pytest.raises(RuntimeError, match="the sampler is broken"):
        fit(module, tmp_path, [sampling])
    assert module.global_step == 0


def test_a_resumed_run_ends_like_an_uninterrupted_one(tmp_path):
    """Stopped in the middle of an epoch (8 batches); weights and bound to the last bit."""
    path = tmp_path / "last.ckpt"

    def run(steps, **options):
        module = make_module(checkpoint_info={"size_counts": [1, 2]})
        callbacks = [LastCheckpoint(path), EMA(decay=0.9)]
        trainer = fit(module, tmp_path, callbacks, steps=steps, **options)
        return module, trainer.callback_metrics["val/nelbo"].item()

    whole, bound = run(20)
    run(12)
    state = torch.load(path, weights_only=True)
    assert state["discrete_diffusion"] == {"size_counts": [1, 2]}
    assert state["global_step"] == 12
    assert "current_model_state" in state
    resumed, resumed_bound = run(20, ckpt_path=path)
    for expected, found in zip(whole.parameters(), resumed.parameters(), strict=True):
        assert torch.equal(expected, found)
    assert resumed_bound == bound


def test_ctrl_c_leaves_a_checkpoint(tmp_path):
    path = tmp_path / "last.ckpt"
    module = make_module()

    def stop(*_):
        if module.global_step == 6:
            raise KeyboardInterrupt

    module.on_train_batch_end = stop
    with pytest.raises(SystemExit):
        fit(module, tmp_path, [LastCheckpoint(path)])
    assert torch.load(path, weights_only=True)["global_step"] == 6
