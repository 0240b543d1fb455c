"""The parts by name: how they are listed and chosen, which presets fit, what the config sets."""

from __future__ import annotations

import pytest
import torch

from discrete_diffusion.algorithms import build_algorithm
from discrete_diffusion.checkpoints import export_onnx
from discrete_diffusion.cli import compose
from discrete_diffusion.composing.compose import compose_plainly
from discrete_diffusion.domains import complete_data
from discrete_diffusion.models import build_backbone
from discrete_diffusion.models.registry import BackboneSpec, backbone_spec
from listed_parts import listed


@pytest.mark.parametrize(
    "spec",
    [
        ("get-region", "features", False, ("masked", "noisy", "real"), "get_region_tiny"),
        ("dtn-unet", "field", False, ("dtn", "keep", "encoded"), "dtn_unet_tiny"),
        ("film-unet-tokens", "tokens", False, ("dtn", "keep", "encoded"), "film_unet_tiny"),
        ("latent-space-model", "latent", False, (), "latent_tiny"),
    ],
)
def test_specs(spec):
    assert backbone_spec(spec[0]) == BackboneSpec(*spec)


@pytest.mark.parametrize(
    ("backbone", "preset", "message"),
    [
        ("get-region", "dit_tiny", "fits dit, not 'get-region'; presets that fit: get_region_tiny"),
        ("dtn-unet", "film_unet_tiny", "fits film-unet-tokens, not 'dtn-unet'; presets that fit: "),
        ("dtn-unet", None, r"'dtn-unet' needs model\.channels; presets that fit: dtn_unet_tiny,"),
    ],
)
def test_a_model_that_does_not_fit_is_refused_with_presets_that_do(
    make_config, backbone, preset, message
):
    with pytest.raises(ValueError, match=message):
        build_backbone(make_config(backbone, preset), 28)


def test_config_values_reach_the_network_of_regions(make_config):
    config = make_config("get-region", "get_region_tiny", data={})
    config.model.update(
        {"time_scale": 2.0, "dropout": 0.3, "position_embedding": "none", "zero_init_head": False}
    )
    regions = build_backbone(config, 7)
    assert (regions.num_features, regions.position_embedding) == (7, "none")
    assert regions.timestep_embedder.time_scale == 2.0
    assert regions.blocks[0].dropout.p == 0.3
    assert regions.head.weight.abs().max() > 0


def test_config_values_reach_the_u_net_and_the_encoder(make_config):
    config = make_config("dtn-unet", "dtn_unet_tiny", {"num_boundary": 10, "field_size": 16})
    config.model.update({"dropout": 0.3, "groups": 4, "cond_gate_init": 0.0, "time_scale": 2.0})
    config.model.update({"zero_init_out": False, "multipliers": [1, 1], "pool_layers": 2})
    config.model.update({"token_dropout": 0.2, "encoder_time": False, "mlp_ratio": 2})
    model = build_backbone(config, 3)
    assert (model.unet.in_channels, model.unet.out_channels, model.unet.num_levels) == (3, 3, 2)
    block = model.unet.middle.blocks[0]
    assert (block.norm1.num_groups, block.dropout.p) == (4, 0.3)
    assert (model.unet.gate == 0.5).all()
    assert model.unet.conv_out.weight.abs().max() > 0
    assert model.unet.time_embedder.time_scale == model.encoder.time_scale == 2.0
    assert (model.encoder.num_boundary, model.encoder.token_dropout) == (10, 0.2)
    assert len(model.encoder.pooling.score) == 3
    assert not model.encoder_reads_time
    assert model.encoder.blocks[0].mlp.up.out_features == 128
    assert model.encoder.blocks[0].dropout.p == 0.3
    config.model.update({"cross_attention": True, "attention_heads": 2})
    attention = build_backbone(config, 3).unet.middle.attention
    assert (attention.n_heads, attention.key_value.in_features) == (2, 64)


@pytest.mark.parametrize("backbone", ["dtn-unet", "film-unet-tokens"])
def test_a_network_that_is_told_no_time_has_an_encoder_without(make_config, randomise, backbone):
    preset = {"dtn-unet": "dtn_unet_tiny", "film-unet-tokens": "film_unet_tiny"}[backbone]
    data = {"num_boundary": 6, "length": 16, "vocab_size": 7, "mask_id": 6}
    config = make_config(backbone, preset, data, time_conditioning=False)
    assert config.model.encoder_time
    model = randomise(build_backbone(config, 7)).train()
    x_t = torch.zeros(2, 16).long() if backbone == "film-unet-tokens" else torch.ones(2, 7, 4, 4)
    model(x_t, None, torch.randn(2, 6, 6)).square().sum().backward()
    assert not model.encoder_reads_time
    assert not [name for name, p in model.named_parameters() if p.grad is None]
    config.algo.time_conditioning = True
    assert build_backbone(config, 7).encoder_reads_time


def test_dtn_unet_wants_images_it_can_halve(make_config):
    data = {"num_boundary": 8, "field_size": 30}
    with pytest.raises(ValueError, match="images of 30 x 30 pixels cannot be halved 2 times"):
        build_backbone(make_config("dtn-unet", "dtn_unet_tiny", data), 1)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["algo=masked-features"], "masked"),
        (
            [
                *("algo.backbone=film-unet-tokens", "model=film_unet_tiny"),
                *("model.multipliers=[1,1]", "data=eit_quantised"),
                *("data.size=16", "data.num_boundary=8"),
            ],
            "dtn",
        ),
    ],
)
def test_a_network_that_needs_more_than_tokens_is_refused(words, why, tmp_path):
    pytest.importorskip("onnxruntime", reason="it runs the file")
    pytest.importorskip("onnxscript", reason="it writes the file")
    algorithm = build_algorithm(complete_data(compose("train", words)))
    with pytest.raises(ValueError, match=f"format=onnx .*x_t and sigma.*{why}"):
        export_onnx(algorithm, {}, tmp_path / "network.onnx")
    assert not (tmp_path / "network.onnx").exists()


def test_every_one_of_these_parts_stands_under_its_state(capsys):
    states = listed(capsys)
    assert list(states) == ["tokens", "features", "field", "latent"]
    assert states["latent"] == {
        "data=": ["dialogue"],
        "algo.backbone=": ["latent-space-model"],
        "algo=": ["latent-seq2seq"],
        "sampling=": ["generate"],
    }
    assert states["features"] == {
        "data=": ["regions"],
        "algo.backbone=": ["get-region"],
        "algo=": ["masked-features"],
        "sampling=": ["row-ancestral"],
    }
    assert states["field"] == {
        "data=": ["eit"],
        "algo.backbone=": ["dtn-regressor", "dtn-unet"],
        "algo=": ["flow-matching", "regression"],
        "sampling=": ["direct", "ode"],
    }


@pytest.mark.parametrize(
    ("overrides", "sampler"),
    [
        ([], "ancestral"),
        (["sampling=margin"], "margin"),
        (["algo=ar"], "autoregressive"),
        (["algo=distill"], "few-call"),
    ],
)
def test_levels_bring_theirs_unless_the_algorithm_or_the_user_does(overrides, sampler):
    config = compose_plainly("train", ["data=eit_quantised", *overrides])
    assert config.sampling.name == sampler
