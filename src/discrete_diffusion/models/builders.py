"""The built-in backbones: from a config to constructor arguments.

Classes are imported when a builder is called, so that a misspelt name is refused before torch is
loaded.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from discrete_diffusion.options import check_options, check_whole_number, is_number

if TYPE_CHECKING:
    from omegaconf import DictConfig
    from torch import nn

    from discrete_diffusion.layout import VocabConfig
    from discrete_diffusion.models.dtn_encoder import DtNEncoder
    from discrete_diffusion.models.dtn_unet import DtNUNet


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
    options = {key: model.get(key) for key in (*required, *optional) if model.get(key) is not None}
    dropout = options.get("dropout", 0)
    if not (is_number(dropout) and 0 <= dropout <= 1):
        raise ValueError(f"model.dropout={dropout}: expected a share in [0, 1]")
    return options


PRESETS = {
    "bd-denoiser": ("bd_tiny", "bd_small", "bd_base"),
    "bd-denoiser-pair": ("bd_pair_tiny", "bd_pair_small", "bd_pair_base"),
    "dit": ("dit_tiny", "dit_mini", "dit_small"),
    "my-transformer": ("my_transformer_tiny", "my_transformer_small"),
    "get-region": ("get_region_tiny", "get_region_paper", "get_region_literal"),
    "dtn-unet": ("dtn_unet_tiny", "dtn_unet_paper"),
    "dtn-regressor": ("dtn_regressor_tiny",),
    "film-unet-tokens": ("film_unet_tiny",),
    "latent-space-model": ("latent_tiny", "latent_paper"),
}
"""Of each built-in backbone, the smallest first."""

_TOKEN_KEYS = ("hidden_size", "n_blocks", "n_heads")
_ADALN_KEYS = ("mlp_ratio", "dropout", "frequency_embedding_size", "time_scale")
_GRAPH_KEYS = ("d_model", "n_layers", "n_heads")
_GRAPH_OPTIONS = ("cond_dim", *_ADALN_KEYS)
_UNET_KEYS = ("channels", "multipliers", "cond_dim")
_UNET_OPTIONS = (
    *("groups", "dropout", "cond_gate_init", "zero_init_out", "time_scale", "attention_heads"),
)
_ENCODER_KEYS = ("d_model", "n_layers", "n_heads")
_ENCODER_OPTIONS = ("mlp_ratio", "dropout", "pool_layers", "token_dropout", "time_scale")
_LATENT_KEYS = ("latent_dim", "latent_seq_len")
_LATENT_BLOCK_OPTIONS = ("num_heads", "ffn_multiplier", "dropout", "use_rope", "rope_base")
_LATENT_OPTIONS = ("pool", "num_layers", "prefix_len", *_LATENT_BLOCK_OPTIONS)


def build_bd_denoiser(config: DictConfig, vocab_size: int) -> nn.Module:
    from discrete_diffusion.models.bd_denoiser import BDDenoiser, BDDenoiserBackbone

    name = "bd-denoiser"
    options = _model_options(config, name, required=_GRAPH_KEYS, optional=_GRAPH_OPTIONS)
    denoiser = BDDenoiser(vocab_config=_graph_vocabulary(config, name, vocab_size), **options)
    return BDDenoiserBackbone(denoiser, legal_only=section(config, "model").get("legal_only", True))


def build_bd_denoiser_pair(config: DictConfig, vocab_size: int) -> nn.Module:
    from discrete_diffusion.models.bd_denoiser import BDDenoiserBackbone
    from discrete_diffusion.models.bd_denoiser_pair import BDDenoiserPair

    name = "bd-denoiser-pair"
    options = _model_options(
        config,
        name,
        required=(*_GRAPH_KEYS, "d_pair"),
        optional=(*_GRAPH_OPTIONS, "triangles", "index_embeddings"),
    )
    denoiser = BDDenoiserPair(vocab_config=_graph_vocabulary(config, name, vocab_size), **options)
    return BDDenoiserBackbone(denoiser, legal_only=section(config, "model").get("legal_only", True))


def _graph_vocabulary(config: DictConfig, backbone: str, vocab_size: int) -> VocabConfig:
    """The vocabularies of ``data.n_max`` nodes, which must have ``vocab_size`` ids."""
    from discrete_diffusion.domains import domain_of

    data = section(config, "data")
    vocab_config = domain_of(data).graph(data)
    if vocab_config is None:
        raise ValueError(
            f"backbone {backbone!r} reads graphs and needs data.n_max, the largest number of "
            "nodes; for plain sequences set algo.backbone=dit or algo.backbone=my-transformer"
        )
    if vocab_size != vocab_config.vocab_size:
        raise ValueError(
            f"backbone {backbone!r} predicts {vocab_config.vocab_size} ids "
            f"({vocab_config.node_vocab_size} for nodes, {vocab_config.edge_vocab_size} for edges),"
            f" but the data has vocab_size={vocab_size}"
        )
    return vocab_config


def build_dit(config: DictConfig, vocab_size: int) -> nn.Module:
    from discrete_diffusion.domains import build_layout
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
    from discrete_diffusion.domains import build_layout
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


def build_dtn_unet(config: DictConfig, channels: int) -> nn.Module:
    return _build_dtn_unet(config, "dtn-unet", in_channels=channels, out_channels=channels)


def build_film_unet_tokens(config: DictConfig, vocab_size: int) -> nn.Module:
    from discrete_diffusion.domains import build_layout
    from discrete_diffusion.models.film_unet_tokens import FilmUNetTokens

    data = section(config, "data")
    _check_boundary(data, "film-unet-tokens")
    layout = build_layout(data)
    if layout.pad_id is not None:
        raise ValueError(
            "backbone 'film-unet-tokens' reads images, every pixel of which is real, but the data "
            f"has pad_id={layout.pad_id}; set data.pad_id=null, or algo.backbone=dit"
        )
    size, length = data.get("size") or math.isqrt(layout.length), layout.length
    if size * size != length:
        raise ValueError(
            f"backbone 'film-unet-tokens' reads square images, but data.length={length} is not "
            f"{size} x {size} pixels; set data.size to the side of the image"
        )
    model = section(config, "model")
    width = model.get("embedding_dim") or model.get("channels")
    network = _build_dtn_unet(
        config, "film-unet-tokens", in_channels=width, out_channels=vocab_size
    )
    return FilmUNetTokens(network=network, height=size, width=size)


def _build_dtn_unet(
    config: DictConfig, backbone: str, *, in_channels: int, out_channels: int
) -> DtNUNet:
    from discrete_diffusion.models.dtn_unet import DtNUNet
    from discrete_diffusion.models.film_unet import FiLMUNet

    model, data = section(config, "model"), section(config, "data")
    unet = _model_options(config, backbone, required=_UNET_KEYS, optional=_UNET_OPTIONS)
    timed = section(config, "algo").get("time_conditioning", True)
    encoder = _build_dtn_encoder(
        config, backbone, time_conditioning=timed and model.get("encoder_time", True)
    )
    network = DtNUNet(
        unet=FiLMUNet(
            in_channels=in_channels,
            out_channels=out_channels,
            token_dim=encoder.d_model if model.get("cross_attention", False) else None,
            **unet,
        ),
        encoder=encoder,
    )
    if data.get("field_size") is not None:
        network.unet.check_size(data["field_size"], data["field_size"])
    return network


def build_dtn_regressor(config: DictConfig, channels: int) -> nn.Module:
    from discrete_diffusion.models.dtn_regressor import DtNRegressor

    name = "dtn-regressor"
    options = _model_options(config, name, required=("head_widths",), optional=("read_tokens",))
    encoder = _build_dtn_encoder(config, name, time_conditioning=False)
    size = section(config, "data").get("field_size")
    return DtNRegressor(encoder=encoder, shape=(channels, size, size), **options)


def _build_dtn_encoder(config: DictConfig, backbone: str, *, time_conditioning: bool) -> DtNEncoder:
    from discrete_diffusion.models.dtn_encoder import DtNEncoder

    options = _model_options(config, backbone, required=_ENCODER_KEYS, optional=_ENCODER_OPTIONS)
    data = section(config, "data")
    _check_boundary(data, backbone)
    return DtNEncoder(
        num_boundary=data.get("num_boundary"), time_conditioning=time_conditioning, **options
    )


def build_latent_space_model(config: DictConfig, vocab_size: int) -> nn.Module:
    from discrete_diffusion.models import latent_space, text_models

    name, model = "latent-space-model", section(config, "model")
    options = _model_options(config, name, required=_LATENT_KEYS, optional=_LATENT_OPTIONS)

    def only(*keys: str) -> dict[str, Any]:
        return {key: options[key] for key in keys if key in options}

    sizes, blocks = only(*_LATENT_KEYS), only("latent_dim", *_LATENT_BLOCK_OPTIONS)
    num_source_ids = section(config, "data").get("source_vocab_size") or vocab_size
    build = text_models.build_text_encoder
    encoder = build(**_part_options(model, "encoder", build, vocab_size=num_source_ids))
    build_decoder = text_models.build_text_decoder
    decoder = build_decoder(**_part_options(model, "decoder", build_decoder, vocab_size=vocab_size))
    stop = _part_options(model, "stop_latent", latent_space.StopLatent, **sizes)
    return latent_space.LatentSpaceModel(
        encoder=encoder,
        decoder=decoder,
        compression=latent_space.LatentEncoder(
            hidden_dim=encoder.hidden_size, **sizes, **only("pool", "num_heads")
        ),
        middle=latent_space.MiddleTransformer(**blocks, **only("num_layers")),
        adapter=latent_space.PrefixAdapter(
            decoder_dim=decoder.hidden_size, **blocks, **only("prefix_len")
        ),
        stop_latent=latent_space.StopLatent(**stop),
    )


def _part_options(model: Any, part: str, build: Callable[..., Any], **given: Any) -> dict[str, Any]:
    """Constructor arguments from ``model.<part>``, beside those that are ``given`` unless it says
    otherwise."""
    options = {**given, **section(model, part)}
    check_options(f"model.{part}", f"model.{part}", build, options)
    for key, value in options.items():
        if isinstance(value, int) and not isinstance(value, bool) and key != "seed":
            check_whole_number(f"model.{part}.{key}", value, least=1)
    return options


def _check_boundary(data: Any, backbone: str) -> None:
    if data.get("num_boundary") is None:
        choice = "eit-levels" if backbone == "film-unet-tokens" else "eit"
        raise ValueError(
            f"backbone {backbone!r} reads Dirichlet-to-Neumann maps and needs data.num_boundary, "
            f"their number of boundary nodes; choose data={choice}"
        )
