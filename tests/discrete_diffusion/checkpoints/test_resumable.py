"""A run goes on only as the run that wrote the checkpoint."""

from __future__ import annotations

import pytest
import torch
from omegaconf import open_dict

from discrete_diffusion import load
from discrete_diffusion.algorithms import build_algorithm
from discrete_diffusion.checkpoints.files import INFO_KEY
from discrete_diffusion.checkpoints.start import check_resumable
from discrete_diffusion.cli import compose
from discrete_diffusion.config.files import plain
from made_checkpoints import training_state


@pytest.fixture
def check(files, config):
    """Check against the config with changes; ``fingerprint``: of the data at hand."""

    def run(*, path=files["ckpt"], fingerprint="f" * 16, algorithm=None, **changes):
        settings = plain(config)
        for key, value in changes.items():
            *parents, leaf = key.split("__")
            node = settings
            for parent in parents:
                node = node[parent]
            node[leaf] = value
        algorithm = build_algorithm(config) if algorithm is None else algorithm
        return check_resumable(path, algorithm, config=settings, data_fingerprint=fingerprint)

    return run


def test_the_same_run_goes_on(check):
    point = check(
        trainer__max_steps=99,
        trainer__val_check_interval=1,
        eval__num_samples=1,
        threads=7,
        logger={},
        sampling__temperature=0.5,
        callbacks__num_samples=3,
        optim__max_skipped_steps=3,
        data__num_plans=5,  # how the data is found; what it is, its fingerprint says
    )
    assert (point.step, point.stream) == (7, {"epoch": 1, "position": 2})
    assert point.machine["threads"] == 1
    check(  # defaults that are written out, and settings that came later
        trainer__precision=None,
        trainer__gradient_clip_algorithm="norm",
        trainer__accumulate_grad_batches=None,
        trainer__limit_train_batches=1.0,
        trainer__overfit_batches=0.0,
        optim__further=None,
        algo__condition_dropout=None,
        algo__weighting="velocity",
        data__random_length=0,
    )


def test_a_dit_from_before_its_later_settings_is_as_it_was(tmp_path):
    later = ("bias", "activation", "sigma_input", "adaln", "attention")
    words = ["data=bubble_diagrams", "algo.backbone=dit", "model=dit_tiny"]
    now, then = compose("train", words), compose("train", words)
    with open_dict(then):
        for key in later:
            del then.model[key]
    state = training_state(then)
    torch.save(state, tmp_path / "last.ckpt")
    model, built = load(tmp_path / "last.ckpt"), build_algorithm(now).eval()
    built.load_state_dict(model.state_dict())
    x = torch.randint(0, 4, (2, model.layout.length), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        assert torch.equal(model.backbone(x), built.backbone(x))
    point = check_resumable(
        tmp_path / "last.ckpt", built, config=plain(now), data_fingerprint="f" * 16
    )
    assert point.step == 7
    with open_dict(now):
        now.model.bias = False
    with pytest.raises(ValueError, match=r"model\.bias absent -> False"):
        check_resumable(tmp_path / "last.ckpt", built, config=plain(now), data_fingerprint="f" * 16)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"seed": 4, "optim__lr": 0.5}, "seed 3 -> 4, optim.lr 0.001 -> 0.5 (was -> is)"),
        ({"model": {}, "seed": 1}, " more"),
        ({"data__batch_size": 8}, "data.batch_size 256 -> 8"),
        ({"data__random_length": 0.1}, "data.random_length absent -> 0.1"),
        ({"callbacks__ema_decay": None}, "callbacks.ema_decay 0.9999 -> None"),
        ({"model": {}}, "model.name bd_tiny -> absent"),
        ({"algo__time_sampling": "uniform"}, "algo.time_sampling uniform_count -> uniform"),
        ({"schedule__name": "cosine"}, "schedule.name log_linear -> cosine"),
        ({"forward_process__name": "uniform"}, "forward_process.name absorbing -> uniform"),
        ({"trainer__precision": "bf16-mixed"}, "trainer.precision 32-true -> bf16-mixed"),
        ({"trainer__gradient_clip_val": None}, "trainer.gradient_clip_val 1.0 -> None"),
        ({"trainer__gradient_clip_algorithm": "value"}, "clip_algorithm absent -> value"),
        ({"trainer__accumulate_grad_batches": 2}, "trainer.accumulate_grad_batches 1 -> 2"),
        ({"trainer__limit_train_batches": 1}, "trainer.limit_train_batches absent -> 1"),
        ({"trainer__overfit_batches": 2}, "trainer.overfit_batches absent -> 2"),
        ({"fingerprint": "0" * 16}, f"fingerprint {'f' * 16} -> {'0' * 16}"),
    ],
)
def test_another_run_is_refused_with_what_differs(check, changes, words):
    with pytest.raises(ValueError, match="this run do not fit") as caught:
        check(**changes)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_files_without_training_state_are_refused(check, files, config, tmp_path):
    with pytest.raises(ValueError, match="holds weights only"):
        check(path=files["safetensors"])
    state = training_state(config)
    del state["loops"]
    torch.save(state, tmp_path / "x.ckpt")
    with pytest.raises(ValueError, match="no training state"):
        check(path=tmp_path / "x.ckpt")
    state[INFO_KEY]["format"] = 5
    torch.save(state, tmp_path / "x.ckpt")
    with pytest.raises(ValueError, match="upgrade"):
        check(path=tmp_path / "x.ckpt")
