"""The built-in backbones: from a config to constructor arguments.

Classes are imported when a builder is called, so that a misspelt name is refused before torch is
loaded.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from inspect import signature
from typing import TYPE_CHECKING, Any

from discrete_diffusion.config.files import presets_of
from discrete_diffusion.config.options import check_options
from discrete_diffusion.config.values import (
    check_divides,
    check_whole_number,
    is_number,
)
from discrete_diffusion.domains import build_layout, domain_of

if TYPE_CHECKING:
    from omegaconf import DictConfig
    from torch import nn

    from discrete_diffusion.layout.vocab_config import VocabConfig
    from discrete_diffusion.models.dtn_encoder import DtNEncoder
    from discrete_diffusion.models.dtn_unet import DtNUNet


def section(config: DictConfig, name: str) -> Any:
    """A part of the config, empty if it is not there."""
    return config.get(name) or {}


def _backbone(config: DictConfig) -> str:
    return str(section(config, "algo").get("backbone"))


def _lacks(config: DictConfig, key: str) -> ValueError:
    name = _backbone(config)
    presets = ", ".join(presets_of(name))
    return ValueError(f"backbone {name!r} needs model.{key}; presets that fit: {presets}")


def _options(config: DictConfig, build: Callable[..., Any], *given: str) -> dict[str, Any]:
    """Arguments of ``build`` that ``config.model`` has; ``given``: arguments that come from
    elsewhere. ``ValueError``, with the presets that fit, for one that is missing."""
    model, backbone = section(config, "model"), _backbone(config)
    fits = model.get("backbones")
    if fits is not None and backbone not in fits:
        raise ValueError(
            f"model preset {model.get('name', '?')!r} fits {', '.join(fits)}, not {backbone!r}; "
            f"presets that fit: {', '.join(presets_of(backbone))}"
        )
    wanted = {k: p for k, p in signature(build).parameters.items() if k not in given}
    options = {key: model.get(key) for key in wanted if model.get(key) is not None}
    for key, parameter in wanted.items():
        if parameter.default is parameter.empty and key not in options:
            raise _lacks(config, key)
    dropout = options.get("dropout", 0)
    if not (is_number(dropout) and 0 <= dropout <= 1):
        raise ValueError(f"model.dropout={dropout}: expected a share in [0, 1]")
    return options


_COUNTS = (
    *("n_layers", "n_blocks", "n_heads", "d_model", "d_pair", "hidden_size", "cond_dim"),
    *("frequency_embedding_size", "embedding_dim", "channels", "groups", "attention_heads"),
    *("num_layers", "num_heads", "latent_dim", "latent_seq_len", "prefix_len"),
)
"""Keys of ``model`` that are whole numbers from 1 in every network of ours."""


def check_sizes(config: DictConfig) -> None:
    """``ValueError`` for a size of a network of ours that is no whole number above 0, and for heads
    that do not divide its width. Imports no torch."""
    model = section(config, "model")
    if _backbone(config) not in model.get("backbones", ()):
        return
    for key in _COUNTS:
        if model.get(key) is not None:
            check_whole_number(f"model.{key}", model[key], least=1)
    for width in ("d_model", "hidden_size"):
        if model.get(width) is not None and model.get("n_heads") is not None:
            check_divides(model["n_heads"], model[width], f"{width}={model[width]}")


def build_bd_denoiser(config: DictConfig, vocab_size: int) -> nn.Module:
    from discrete_diffusion.building.networks import BDDenoiser

    return _graph_denoiser(config, BDDenoiser, vocab_size)


def build_bd_denoiser_pair(config: DictConfig, vocab_size: int) -> nn.Module:
    from discrete_diffusion.building.networks import BDDenoiserPair

    return _graph_denoiser(config, BDDenoiserPair, vocab_size)


def _graph_denoiser(config: DictConfig, build: Callable[..., Any], vocab_size: int) -> nn.Module:
    from discrete_diffusion.building.networks import BDDenoiserBackbone, GraphMixture

    options = _options(config, build, "vocab_config", "condition")
    vocab_config = _graph_vocabulary(config, vocab_size)
    data = section(config, "data")
    condition = domain_of(data).condition_sizes(data)
    denoiser = build(vocab_config=vocab_config, condition=condition, **options)
    legal_only = section(config, "model").get("legal_only", True)
    if (num := _components(config)) > 1:
        return GraphMixture(denoiser, components=num, legal_only=legal_only)
    return BDDenoiserBackbone(denoiser, legal_only=legal_only)


def _graph_vocabulary(config: DictConfig, vocab_size: int) -> VocabConfig:
    """The vocabularies of ``data.n_max`` nodes, which must have ``vocab_size`` ids."""
    data, backbone = section(config, "data"), _backbone(config)
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
    from discrete_diffusion.building.networks import DiT, DiTMixture

    options = _options(config, DiT, "vocab_size", "causal", "pad_id")
    options["vocab_size"] = vocab_size
    options["causal"] = section(config, "algo").get("causal_attention", False)
    options["pad_id"] = build_layout(section(config, "data")).pad_id
    timed = section(config, "algo").get("time_conditioning", True)
    if timed and not options.get("adaln", True):
        raise ValueError(
            "model.adaln=false makes a network that reads no noise level; set "
            "algo.time_conditioning=false"
        )
    if (num := _components(config)) > 1:
        return DiTMixture(components=num, **options)
    return DiT(**options)


def _components(config: DictConfig) -> int:
    """``algo.components``, of a student of few calls; 1 for other algorithms."""
    num = section(config, "algo").get("components", 1)
    check_whole_number("algo.components", num, least=1)
    return int(num)


def build_my_transformer(config: DictConfig, vocab_size: int) -> nn.Module:
    from discrete_diffusion.building.networks import MyTransformer

    layout = build_layout(section(config, "data"))
    given = ("vocab_size", "length", "pad_id", "time_conditioning")
    options = _options(config, MyTransformer, *given)
    length = section(config, "model").get("length")
    if length is not None:
        check_whole_number("model.length", length, least=1)
    if length is not None and length < layout.length:
        raise ValueError(
            f"model.length={length}: samples of the data have {layout.length} positions; set "
            f"model.length={layout.length} or more, or leave it out"
        )
    return MyTransformer(
        vocab_size=vocab_size,
        length=layout.length if length is None else length,
        pad_id=layout.pad_id,
        time_conditioning=section(config, "algo").get("time_conditioning", True),
        **options,
    )


def build_get_region(config: DictConfig, num_features: int) -> nn.Module:
    from discrete_diffusion.building.networks import GetRegion

    options = _options(config, GetRegion, "num_features")
    return GetRegion(num_features=num_features, **options)


def build_dtn_unet(config: DictConfig, channels: int) -> nn.Module:
    return _build_dtn_unet(config, in_channels=channels, out_channels=channels)


def build_film_unet_tokens(config: DictConfig, vocab_size: int) -> nn.Module:
    from discrete_diffusion.building.networks import FilmUNetTokens

    data = section(config, "data")
    _check_boundary(config)
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
    network = _build_dtn_unet(config, in_channels=width, out_channels=vocab_size)
    return FilmUNetTokens(network=network, height=size, width=size)


def _build_dtn_unet(config: DictConfig, *, in_channels: int, out_channels: int) -> DtNUNet:
    from discrete_diffusion.building.networks import DtNUNet, FiLMUNet

    model, data = section(config, "model"), section(config, "data")
    unet = _options(config, FiLMUNet, "in_channels", "out_channels", "token_dim")
    timed = section(config, "algo").get("time_conditioning", True)
    timed = timed and model.get("encoder_time", True)
    encoder = _build_dtn_encoder(config, time_conditioning=timed)
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
    from discrete_diffusion.building.networks import DtNRegressor

    options = _options(config, DtNRegressor, "encoder", "shape")
    encoder = _build_dtn_encoder(config, time_conditioning=False)
    size = section(config, "data").get("field_size")
    return DtNRegressor(encoder=encoder, shape=(channels, size, size), **options)


def _build_dtn_encoder(config: DictConfig, *, time_conditioning: bool) -> DtNEncoder:
    from discrete_diffusion.building.networks import DtNEncoder

    options = _options(config, DtNEncoder, "num_boundary", "time_conditioning", "pos")
    num = _check_boundary(config)
    return DtNEncoder(num_boundary=num, time_conditioning=time_conditioning, **options)


def build_latent_space_model(config: DictConfig, vocab_size: int) -> nn.Module:
    from discrete_diffusion.building.networks import latent_space, text_models

    model = section(config, "model")
    num_source_ids = section(config, "data").get("source_vocab_size") or vocab_size
    build = text_models.build_text_encoder
    encoder = build(**_part_options(model, "encoder", build, vocab_size=num_source_ids))
    build_decoder = text_models.build_text_decoder
    decoder = build_decoder(**_part_options(model, "decoder", build_decoder, vocab_size=vocab_size))
    for key in (sizes := ("latent_dim", "latent_seq_len")):
        if model.get(key) is None:
            raise _lacks(config, key)
    read = _options(config, latent_space.LatentEncoder, "hidden_dim")
    write = _options(config, latent_space.PrefixAdapter, "decoder_dim")
    stop = {key: model[key] for key in sizes}
    stop = _part_options(model, "stop_latent", latent_space.StopLatent, **stop)
    return latent_space.LatentSpaceModel(
        encoder=encoder,
        decoder=decoder,
        compression=latent_space.LatentEncoder(hidden_dim=encoder.hidden_size, **read),
        middle=latent_space.MiddleTransformer(**_options(config, latent_space.MiddleTransformer)),
        adapter=latent_space.PrefixAdapter(decoder_dim=decoder.hidden_size, **write),
        stop_latent=latent_space.StopLatent(**stop),
    )


def _part_options(model: Any, part: str, build: Callable[..., Any], **given: Any) -> dict[str, Any]:
    """Constructor arguments from ``model.<part>``, and those ``given`` where it has none."""
    options = {**given, **section(model, part)}
    check_options(f"model.{part}", f"model.{part}", build, options)
    for key, value in options.items():
        from_0 = key in ("seed", "num_unfrozen_layers")
        if isinstance(value, int) and not isinstance(value, bool) and not from_0:
            check_whole_number(f"model.{part}.{key}", value, least=1)
    return options


def _check_boundary(config: DictConfig) -> int:
    """``data.num_boundary``, which a backbone that reads maps needs."""
    num, backbone = section(config, "data").get("num_boundary"), _backbone(config)
    if num is None:
        choice = "eit-levels" if backbone == "film-unet-tokens" else "eit"
        raise ValueError(
            f"backbone {backbone!r} reads Dirichlet-to-Neumann maps and needs data.num_boundary, "
            f"their number of boundary nodes; choose data={choice}"
        )
    return int(num)
