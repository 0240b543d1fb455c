"""The files of ``configs/model``."""

import pytest
import torch
from omegaconf import OmegaConf

from discrete_diffusion.config.files import presets_of, shipped_files
from discrete_diffusion.models.registry import _BACKBONE_BUILDERS, backbone_spec, build_backbone

FILES = shipped_files("model")


def num_parameters(make_config, preset: str) -> int:
    """At 28 ids, or at the number of features, channels or ids that the preset states."""
    config = OmegaConf.load(FILES[preset])
    with torch.device("meta"):
        model = build_backbone(
            make_config(config.backbones[0], preset), config.get("counted_at", 28)
        )
    assert all(parameter.is_meta for parameter in model.parameters())
    return sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize("preset", FILES)
def test_preset_states_its_name_its_backbone_and_its_true_size(make_config, preset):
    config = OmegaConf.load(FILES[preset])
    assert config.name == preset
    assert all(preset in presets_of(backbone) for backbone in config.backbones)
    assert num_parameters(make_config, preset) == config.parameters


def test_default_presets_are_of_one_size(make_config):
    """Of the backbones that read any sequence, and so can be compared."""
    specs = [backbone_spec(name) for name in _BACKBONE_BUILDERS]
    sequences = [spec for spec in specs if spec.state == "tokens" and "dtn" not in spec.conditions]
    defaults = [spec.default_model for spec in sequences]
    small = num_parameters(make_config, "bd_small")
    assert small == 1_281_564
    assert num_parameters(make_config, "bd_base") == 7_389_724
    for preset in defaults:
        assert abs(num_parameters(make_config, preset) / small - 1) < 0.05


def test_tiny_presets_are_of_one_size(make_config):
    tiny = num_parameters(make_config, "bd_tiny")
    assert tiny == 183_708
    for preset in ("bd_pair_tiny", "dit_tiny", "my_transformer_tiny"):
        assert abs(num_parameters(make_config, preset) / tiny - 1) < 0.05
