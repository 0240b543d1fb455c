"""``train init.checkpoint=...``: weights of another run to start from."""

from __future__ import annotations

import logging
import math
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from continuous_states.networks.dtn_unet import DtNEncoder, DtNRegressor, DtNUNet, FilmUNetTokens
from continuous_states.networks.film_unet import FiLMUNet
from discrete_diffusion import load
from discrete_diffusion.checkpoints.start import StartingWeights, initialise
from discrete_diffusion.cli import compose
from discrete_diffusion.cli.train import TrainRequest, run_training

CONFIG = {"algo": {"backbone": "dtn-regressor"}, "model": {"d_model": 8}, "data": {"size": 4}}


def encoder(**options) -> DtNEncoder:
    sizes = {"num_boundary": 6, "d_model": 8, "n_layers": 2, "n_heads": 2}
    return DtNEncoder(**{**sizes, **options})


def of(backbone: nn.Module, config: dict = CONFIG) -> StartingWeights:
    with torch.no_grad():
        for value in backbone.state_dict().values():
            value.normal_(generator=torch.Generator().manual_seed(1))
    return StartingWeights(Path("other.ckpt"), backbone.state_dict(), config)


def regressor(**options) -> DtNRegressor:
    return DtNRegressor(
        encoder=encoder(time_conditioning=False, **options), shape=(1, 4, 4), head_widths=[]
    )


def pixels(**options) -> FilmUNetTokens:
    unet = FiLMUNet(
        in_channels=3, out_channels=3, channels=8, multipliers=(1,), cond_dim=8, groups=4
    )
    return FilmUNetTokens(network=DtNUNet(unet=unet, encoder=encoder(**options)), height=4, width=4)


def copied(backbone: nn.Module) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in backbone.state_dict().items()}


def test_an_encoder_goes_wherever_an_encoder_is():
    start, backbone = of(regressor()), pixels()
    before = copied(backbone)
    done = initialise(backbone, start, parts=["encoder"], config=CONFIG)
    inside = "network.encoder."
    after = backbone.state_dict()
    for name, value in after.items():
        source = start.weights.get(name.removeprefix("network."))
        if name.startswith(inside) and source is not None:
            assert torch.equal(value, source)  # shift and scale among them
            assert name in done.loaded
        else:
            assert torch.equal(value, before[name])
    assert set(done.loaded) >= {f"{inside}shift", f"{inside}blocks.1.mlp.up.weight"}
    assert set(done.missing) == {f"{inside}time_proj.{kind}" for kind in ("weight", "bias")}
    assert done.unused == ()


def test_what_only_the_file_has_is_left_out():
    start = of(pixels(n_layers=3))
    backbone = regressor()
    done = initialise(backbone, start, parts=["encoder.embedding", "encoder.blocks"], config=CONFIG)
    assert not done.missing
    assert {name.split(".")[3] for name in done.unused} == {"2"}
    assert {name.split(".")[1] for name in done.loaded} == {"embedding", "blocks"}


@pytest.mark.parametrize(
    ("parts", "says"),
    [
        (
            ["encodr"],
            r"the backbone of other.ckpt: unknown part 'encodr'; did you mean 'encoder'\? "
            "Available: encoder, head, norm",
        ),
        (["head"], "init.modules: this backbone: unknown part 'head'.*: embedding, network"),
        (["norm1"], "other.ckpt has 2 parts 'norm1': encoder.blocks.0.norm1,"),
        (["encoder.time_proj"], "other.ckpt: unknown part 'encoder.time_proj'"),
        (["encoder", "norm.weight"], r"norm.weight is \(8,\) there and \(6,\) here"),
        (
            None,
            r"init.checkpoint=other.ckpt holds another backbone, dtn-regressor: only one of the "
            r"two has .*; name parts to take with init.modules=\[...\], of encoder, head, norm$",
        ),
    ],
)
def test_parts_that_there_are_not(parts, says):
    backbone = pixels()
    backbone.norm = nn.LayerNorm(6)
    before = copied(backbone)
    with pytest.raises(ValueError, match=says):
        initialise(backbone, of(regressor()), parts=parts, config=CONFIG)
    assert all(torch.equal(value, before[name]) for name, value in copied(backbone).items())


@pytest.mark.slow
def test_other_shapes_name_the_setting():
    start = of(regressor(), {**CONFIG, "data": {"size": 9, "num_samples": 3}})
    here = {**CONFIG, "model": {"d_model": 12, "channels": 8}, "data": {"num_samples": 4}}
    with pytest.raises(
        ValueError,
        match=r"network.encoder.embedding.weight is \(8, 6\) there and \(12, 6\) here; "
        r"with model.d_model=8 it has that of the file$",
    ):
        initialise(pixels(d_model=12), start, parts=["encoder"], config=here)


QUICK = [
    *("threads=1", "logger=none", "trainer.max_steps=1", "trainer.val_check_interval=1"),
    *("callbacks.num_samples=0", "eval.num_samples=0", "eval.noise_samples=1"),
]
STILL = ["optim.lr=1e-12", "optim.warmup_steps=0", "callbacks.ema_decay=null"]
"""Weights stay what they were at the start."""
EIT = [
    *("data.num_samples=40", "data.size=16", "data.mesh_rings=4", "data.num_boundary=8"),
    *("data.split=[0.8,0.1,0.1]", "data.batch_size=8", "model.d_model=8", "model.n_heads=2"),
    *QUICK,
]
UNET = [
    *("model.channels=8", "model.groups=4", "model.multipliers=[1]", "model.cond_dim=8"),
    "optim.lr_schedule=constant",
]
SAMPLED = ["eval.num_samples=2", "eval.samples_per_condition=2"]
FLOW = ["experiment=eit", *EIT, *UNET, *STILL]


def run(name: str, *overrides: str) -> Path:
    run_training(TrainRequest(compose("train", overrides), Path(name)))
    return Path(name) / "checkpoints" / "last.ckpt"


@pytest.mark.slow
def test_regression_is_measured_like_any_model_of_images():
    metrics = run_training(
        TrainRequest(compose("train", ["algo=regression", *EIT, *UNET, *SAMPLED]), Path("run"))
    )
    assert metrics["relative_l2"] == pytest.approx(metrics["relative_l2_single"], rel=1e-5)
    assert metrics["spread_ratio"] < 1e-3
    assert metrics["network_calls_per_draw"] == 1
    assert {"ridge_relative_l2", "condition_gap", "cond_gate"} <= metrics.keys()
    units = 16 * 16 / 2 * math.log(2 * math.pi)
    assert metrics["nelbo_gaussian"] > units


@pytest.mark.slow
def test_an_encoder_is_trained_on_images_and_goes_into_a_flow(caplog):
    caplog.set_level(logging.INFO)
    first = run("first", "experiment=eit_pretrain", *EIT, "model.head_widths=[8]")
    learnt = load(first).backbone.encoder.state_dict()
    noisy = ["data.noise_level=0.5"]  # so that these maps are not on the scale of those
    words = [*FLOW, *noisy, "model.encoder_time=true"]
    words += [f"init.checkpoint={first}", "init.modules=[encoder]"]
    second = run("second", *words)
    assert f"encoder starts from {first}: 32 tensors" in caplog.text
    assert "not in the file, so as initialised: encoder.time_proj.weight, enc" in caplog.text
    first.unlink()
    third = run("second", *words, f"resume={second}", "trainer.max_steps=2")
    assert "init.checkpoint is not read" in caplog.text
    found = load(third).backbone.encoder.state_dict()
    for name, value in learnt.items():
        torch.testing.assert_close(found[name], value, rtol=0, atol=1e-8)
