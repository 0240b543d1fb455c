import subprocess
import sys
from pathlib import Path

import pytest
import torch
from omegaconf import OmegaConf
from torch import nn

from discrete_diffusion.config.files import presets_of, shipped_files
from discrete_diffusion.domains.registry import complete_data
from discrete_diffusion.models.registry import (
    _BACKBONE_BUILDERS,
    BackboneSpec,
    available_backbones,
    backbone_spec,
    build_backbone,
    config_reader,
    register_backbone,
)

pytestmark = pytest.mark.usefixtures("clean_registry")


def build_toy(config, vocab_size):
    return nn.Embedding(vocab_size, vocab_size)


def test_decorated_builder_is_found_with_its_spec(make_config):
    register_backbone("toy", causal=True, conditions=("group_idxs",), default_model="toy_small")(
        build_toy
    )
    assert backbone_spec("toy") == BackboneSpec("toy", "tokens", True, ("group_idxs",), "toy_small")
    assert "toy" in available_backbones()
    assert build_backbone(make_config("toy", None), 28).num_embeddings == 28


def test_a_path_is_read_only_by_a_backbone_that_registers_how(make_config):
    register_backbone("reads", read_config=lambda path, download: f"read from {path}")(build_toy)
    register_backbone("other")(build_toy)
    configs = []
    for name in ("reads", "other"):
        config = make_config(name, None)
        config.model = {"path": "here", "config": "own"}
        configs.append(complete_data(config))
    assert [config.model["config"] for config in configs] == ["read from here", "own"]
    readers = [config_reader(config) is not None for config in configs]
    assert readers == [True, False]


def test_assigned_builder_works_with_any_preset_and_has_the_default_spec(make_config):
    _BACKBONE_BUILDERS["toy"] = build_toy
    assert backbone_spec("toy") == BackboneSpec("toy")
    assert build_backbone(make_config("toy", "bd_small"), 28).num_embeddings == 28
    _BACKBONE_BUILDERS["dit"] = build_toy
    assert backbone_spec("dit") == BackboneSpec("dit")  # not the spec of the one it replaced


def test_a_name_has_one_builder_which_may_be_registered_again():
    register_backbone("toy")(build_toy)
    register_backbone("toy")(build_toy)
    with pytest.raises(ValueError, match=r"'toy' is already registered by .*build_toy; choose an"):
        register_backbone("toy")(lambda config, vocab_size: nn.Identity())
    with pytest.raises(ValueError, match="'dit' is already registered by discrete_diffusion"):
        register_backbone("dit")(build_toy)
    with pytest.raises(ValueError, match=r"state='token' of backbone 'toy': expected one of"):
        register_backbone("toy", state="token")


def test_name_check_imports_nothing_heavy():
    code = (
        "import sys\n"
        "from discrete_diffusion.models.registry import BACKBONES\n"
        "try:\n    BACKBONES.entry('bd-denoisr')\n"
        "except ValueError as error:\n    assert \"'bd-denoiser'\" in str(error)\n"
        "heavy = {'torch', 'lightning', 'hydra', 'omegaconf', 'matplotlib'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


TEXT = {"length": 16, "vocab_size": 12, "mask_id": 11, "pad_id": 10}
CAUSAL = {"causal_attention": True}


@pytest.mark.parametrize(
    ("backbone", "preset", "more", "message"),
    [
        (
            "bd_denoiser",
            "bd_tiny",
            {},
            "^unknown backbone 'bd_denoiser'; did you mean 'bd-denoiser",
        ),
        ("zzz", None, {}, r"^unknown backbone 'zzz'\. Available: bd-denoiser, bd-denoiser-pair, d"),
        (None, "bd_tiny", {}, r"algo\.backbone is not set; choose one of bd-denoiser"),
        (
            "bd-denoiser",
            "dit_small",
            {},
            "'dit_small' fits dit, .* fit: bd_tiny, bd_small, ",
        ),
        ("bd-denoiser", None, {}, r"needs model\.d_model; presets that fit: bd_tiny"),
        ("dit", None, {}, r"'dit' needs model\.hidden_size; presets that fit: dit_tiny, .*_medium"),
        ("my-transformer", None, {}, r"needs model\.hidden_size; presets that fit: my_transform"),
        ("bd-denoiser", "bd_tiny", {"vocab_size": 29}, r"28 ids \(15 for nodes, 13 for ed.*29"),
        ("bd-denoiser", "bd_tiny", {"data": TEXT}, r"reads graphs and needs data\.max_nodes"),
        ("bd-denoiser", "bd_tiny", CAUSAL, r"is not causal; choose algo\.backbone=dit"),
    ],
)
def test_a_model_that_cannot_be_is_refused(make_config, backbone, preset, more, message):
    options = dict(more)
    size = options.pop("vocab_size", 28)
    with pytest.raises(ValueError, match=message):
        build_backbone(make_config(backbone, preset, **options), size)


def test_config_values_reach_the_constructors(make_config):
    config = make_config("bd-denoiser", "bd_tiny", data={"max_nodes": 5})
    config.model.update({"time_scale": 1.0, "dropout": 0.3, "cond_dim": 32, "legal_only": False})
    adapter = build_backbone(config, 28)
    assert adapter.denoiser.vocab_config.n_max == 5
    assert adapter.denoiser.timestep_embedder.time_scale == 1.0
    assert adapter.denoiser.blocks[0].dropout.p == 0.3
    assert adapter.denoiser.final.modulation.in_features == 32
    assert not adapter.legal_only

    text = {"length": 16, "vocab_size": 12, "mask_id": 11, "pad_id": 10}
    config = make_config("my-transformer", "my_transformer_small", text, time_conditioning=False)
    config.model.tie_word_embeddings = True
    model = build_backbone(config, 12)
    assert (model.length, model.pad_id, model.time_mlp) == (16, 10, None)
    assert model.head.weight is model.token_emb.weight
    assert build_backbone(make_config("dit", "dit_tiny", text), 12).pad_id == 10


@pytest.mark.parametrize("backbone", [*_BACKBONE_BUILDERS])
def test_builders_work_without_allocating(make_config, backbone):
    with torch.device("meta"):
        model = build_backbone(make_config(backbone, presets_of(backbone)[0]), 28)
    assert all(tensor.is_meta for tensor in model.parameters())


def _raises(config, vocab_size):
    return nn.Embedding(vocab_size)  # without its width


def _refuses(config, vocab_size):
    raise ValueError("a width of 5 is odd")


def _divides(config, vocab_size):
    return nn.Embedding(vocab_size // 0, 1)


def _takes_one(config):
    return nn.Identity()


def _returns_nothing(config, vocab_size):
    nn.Identity()


def _returns_a_class(config, vocab_size):
    return nn.Identity


class _Network(nn.Identity):
    def __init__(self, width, depth, vocab_size):
        super().__init__()


@pytest.mark.parametrize(
    ("builder", "place", "says"),
    [
        (
            _raises,
            "return nn.Embedding(vocab_size)  # without",
            "cannot be built: .* missing 1 required positional",
        ),
        (_takes_one, "def _takes_one", r"cannot be built: .* builder takes \(config, vocab_size\)"),
        (_Network, "def __init__(self, width, depth", "cannot be built: .* missing 1 required"),
        (_refuses, 'raise ValueError("a', "cannot be built: a width of 5 is odd"),
        (_divides, "return nn.Embedding(vocab_size // 0", "cannot be built: ZeroDivisionError: "),
        (_returns_nothing, "def _returns_nothing", "returned None; .* is return missing"),
        (_returns_a_class, "def _returns_a_class", "returned the class Identity; .* call the cl"),
    ],
)
def test_a_builder_that_fails_is_named_with_file_and_line(make_config, builder, place, says):
    register_backbone("toy")(builder)
    with pytest.raises((TypeError, ValueError), match=says) as found:
        build_backbone(make_config("toy", None), 28)
    assert "backbone 'toy'" in str(found.value)
    lines = Path(__file__).read_text().splitlines()
    (number,) = (k for k, line in enumerate(lines, 1) if line.strip().startswith(place))
    assert f"({__file__}, line {number})" in str(found.value)


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


def test_presets_are_of_one_size(make_config):
    """Those of the backbones that read any sequence, and so can be compared."""
    specs = [backbone_spec(name) for name in _BACKBONE_BUILDERS]
    sequences = [spec for spec in specs if spec.state == "tokens" and "dtn" not in spec.conditions]
    tiny = ("bd_pair_tiny", "dit_tiny", "my_transformer_tiny")
    for preset in (*(spec.default_model for spec in sequences), *tiny):
        size = 183_708 if preset in tiny else 1_281_564
        assert abs(num_parameters(make_config, preset) / size - 1) < 0.05
