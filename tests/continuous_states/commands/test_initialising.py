"""Weights of another run to start from."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from continuous_states.networks.dtn_unet import DtNEncoder, DtNRegressor, DtNUNet, FilmUNetTokens
from continuous_states.networks.film_unet import FiLMUNet
from discrete_diffusion.checkpoints.start import StartingWeights, initialise

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
        (["head"], "init.parts: this backbone: unknown part 'head'.*: embedding, network"),
        (
            ["norm1"],
            "other.ckpt has 2 parts 'norm1': encoder.blocks.0.norm1, encoder.blocks.1.norm1; give",
        ),
        (["encoder.time_proj"], "other.ckpt: unknown part 'encoder.time_proj'"),
        (["encoder", "norm.weight"], r"norm.weight is \(8,\) there and \(6,\) here"),
        (
            None,
            r"init.checkpoint=other.ckpt holds another backbone, dtn-regressor: only one of the "
            r"two has .*; name parts to take with init.parts=\[...\], of encoder, head, norm$",
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
