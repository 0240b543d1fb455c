"""The built-in backbones: from a config to constructor arguments.

Classes are imported when a builder is called, so that a misspelt name is refused before torch is
loaded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from omegaconf import DictConfig
    from torch import nn


def section(config: DictConfig, name: str) -> Any:
    """A part of the config, empty if it is not there."""
    return config.get(name) or {}


def _model_options(
    config: DictConfig, backbone: str, required: tuple[str, ...], optional: tuple[str, ...]
) -> dict[str, Any]:
    """Constructor arguments from ``config.model``; built-in backbones name their presets."""
    presets = f"presets that fit: {', '.join(PRESETS[backbone])}"
    model = section(config, "model")
    fits = model.get("backbones")
    if fits is not None and backbone not in fits:
        raise ValueError(
            f"model preset {model.get('name', '?')!r} fits {', '.join(fits)}, not {backbone!r}; "
            f"{presets}"
        )
    for key in required:
        if model.get(key) is None:
            raise ValueError(f"backbone {backbone!r} needs model.{key}; {presets}")
    return {key: model.get(key) for key in (*required, *optional) if model.get(key) is not None}


PRESETS = {
    "bd-denoiser": ("bd_tiny", "bd_small", "bd_base"),
    "dit": ("dit_tiny", "dit_small"),
    "my-transformer": ("my_transformer_tiny", "my_transformer_small"),
    "get-region": ("get_region_tiny", "get_region_paper", "get_region_literal"),
}
"""Of each built-in backbone, the smallest first."""

_TOKEN_KEYS = ("hidden_size", "n_blocks", "n_heads")
_ADALN_KEYS = ("mlp_ratio", "dropout", "frequency_embedding_size", "time_scale")


def build_bd_denoiser(config: DictConfig, vocab_size: int) -> nn.Module:
    from discrete_diffusion.layout import VocabConfig
    from discrete_diffusion.models.bd_denoiser import BDDenoiser, BDDenoiserBackbone

    options = _model_options(
        config,
        "bd-denoiser",
        required=("d_model", "n_layers", "n_heads"),
        optional=("cond_dim", *_ADALN_KEYS),
    )
    n_max = section(config, "data").get("n_max")
    if n_max is None:
        raise ValueError(
            "backbone 'bd-denoiser' reads graphs and needs data.n_max, the largest number of "
            "nodes; for plain sequences set algo.backbone=dit or algo.backbone=my-transformer"
        )
    vocab_config = VocabConfig(n_max=n_max)
    if vocab_size != vocab_config.vocab_size:
        raise ValueError(
            f"backbone 'bd-denoiser' predicts {vocab_config.vocab_size} ids "
            f"({vocab_config.node_vocab_size} for nodes, {vocab_config.edge_vocab_size} for edges),"
            f" but the data has vocab_size={vocab_size}"
        )
    denoiser = BDDenoiser(vocab_config=vocab_config, **options)
    return BDDenoiserBackbone(denoiser, legal_only=section(config, "model").get("legal_only", True))


def build_dit(config: DictConfig, vocab_size: int) -> nn.Module:
    from discrete_diffusion.layout import build_layout
    from discrete_diffusion.models.dit import DiT

    options = _model_options(
        config,
        "dit",
        required=_TOKEN_KEYS,
        optional=("cond_dim", *_ADALN_KEYS, "tie_word_embeddings"),
    )
    return DiT(
        vocab_size=vocab_size,
        causal=section(config, "algo").get("causal_attention", False),
        pad_id=build_layout(section(config, "data")).pad_id,
        **options,
    )


def build_my_transformer(config: DictConfig, vocab_size: int) -> nn.Module:
    from discrete_diffusion.layout import build_layout
    from discrete_diffusion.models.my_transformer import MyTransformer

    layout = build_layout(section(config, "data"))
    options = _model_options(
        config,
        "my-transformer",
        required=_TOKEN_KEYS,
        optional=("mlp_ratio", "dropout", "tie_word_embeddings"),
    )
    return MyTransformer(
        vocab_size=vocab_size,
        length=layout.length,
        pad_id=layout.pad_id,
        time_conditioning=section(config, "algo").get("time_conditioning", True),
        **options,
    )


def build_get_region(config: DictConfig, num_features: int) -> nn.Module:
    from discrete_diffusion.models.get_region import GetRegion

    options = _model_options(
        config,
        "get-region",
        required=("d_model", "n_layers", "n_heads"),
        optional=(*_ADALN_KEYS, "pos", "zero_head"),
    )
    return GetRegion(num_features=num_features, **options)
