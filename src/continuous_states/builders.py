"""Builders of the networks: turn a config into constructor arguments.

The networks are imported when a builder is called, so that a misspelt name is refused before torch
is loaded.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from discrete_diffusion.building import model_options
from discrete_diffusion.config import Later, check_options, check_whole_number
from discrete_diffusion.domains import build_layout

if TYPE_CHECKING:
    from omegaconf import DictConfig
    from torch import nn

    from continuous_states import networks
    from continuous_states.networks import DtNEncoder, DtNUNet
else:
    networks = Later("continuous_states.networks")


def _section(config: Any, name: str) -> Any:
    """Section of the config by name; empty if it is missing."""
    return config.get(name) or {}


def build_get_region(config: DictConfig, num_features: int) -> nn.Module:
    options = model_options(config, networks.GetRegion, "num_features")
    return networks.GetRegion(num_features=num_features, **options)


def build_dtn_unet(config: DictConfig, channels: int) -> nn.Module:
    return _build_dtn_unet(config, in_channels=channels, out_channels=channels)


def build_film_unet_tokens(config: DictConfig, vocab_size: int) -> nn.Module:
    data, model = _section(config, "data"), _section(config, "model")
    _check_boundary(config)
    # ids must be the pixels of a square image
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
    # ids are embedded with as many channels as the U-Net reads
    width = model.get("embedding_dim") or model.get("channels")
    network = _build_dtn_unet(config, in_channels=width, out_channels=vocab_size)
    return networks.FilmUNetTokens(network=network, height=size, width=size)


def _build_dtn_unet(config: DictConfig, *, in_channels: int, out_channels: int) -> DtNUNet:
    model, size = _section(config, "model"), _section(config, "data").get("field_size")
    options = model_options(config, networks.FiLMUNet, "in_channels", "out_channels", "token_dim")
    # the encoder reads the time unless one of two keys forbids it
    timed = _section(config, "algo").get("time_conditioning", True)
    timed = timed and model.get("encoder_time", True)
    encoder = _build_dtn_encoder(config, time_conditioning=timed)
    unet = networks.FiLMUNet(
        in_channels=in_channels,
        out_channels=out_channels,
        token_dim=encoder.d_model if model.get("cross_attention", False) else None,
        **options,
    )
    network = networks.DtNUNet(unet=unet, encoder=encoder)
    if size is not None:
        unet.check_size(size, size)
    return network


def build_dtn_regressor(config: DictConfig, channels: int) -> nn.Module:
    size = _section(config, "data").get("field_size")
    return networks.DtNRegressor(
        encoder=_build_dtn_encoder(config, time_conditioning=False),
        shape=(channels, size, size),
        **model_options(config, networks.DtNRegressor, "encoder", "shape"),
    )


def _build_dtn_encoder(config: DictConfig, *, time_conditioning: bool) -> DtNEncoder:
    num = _check_boundary(config)
    options = model_options(config, networks.DtNEncoder, "num_boundary", "time_conditioning")
    return networks.DtNEncoder(num_boundary=num, time_conditioning=time_conditioning, **options)


def build_latent_space_model(config: DictConfig, vocab_size: int) -> nn.Module:
    latent_space, text_models = networks.latent_space, networks.text_models
    model = _section(config, "model")
    # encoder and decoder of text
    num_source_ids = _section(config, "data").get("source_vocab_size") or vocab_size
    build = text_models.build_text_encoder
    encoder = build(**_part_options(model, "encoder", build, vocab_size=num_source_ids))
    build_decoder = text_models.build_text_decoder
    decoder = build_decoder(**_part_options(model, "decoder", build_decoder, vocab_size=vocab_size))
    # the parts between them
    sizes = {key: model[key] for key in ("latent_dim", "latent_seq_len") if model.get(key)}
    read = model_options(config, latent_space.LatentEncoder, "hidden_dim")
    write = model_options(config, latent_space.PrefixAdapter, "decoder_dim")
    stop = _part_options(model, "stop_latent", latent_space.StopLatent, **sizes)
    middle = model_options(config, latent_space.MiddleTransformer)
    return latent_space.LatentSpaceModel(
        encoder=encoder,
        decoder=decoder,
        compression=latent_space.LatentEncoder(hidden_dim=encoder.hidden_size, **read),
        middle=latent_space.MiddleTransformer(**middle),
        adapter=latent_space.PrefixAdapter(decoder_dim=decoder.hidden_size, **write),
        stop_latent=latent_space.StopLatent(**stop),
    )


def _part_options(model: Any, part: str, build: Callable[..., Any], **given: Any) -> dict[str, Any]:
    """Constructor arguments from ``model.<part>``, completed by ``given`` values."""
    options = {**given, **_section(model, part)}
    check_options(f"model.{part}", f"model.{part}", build, options)
    for key, value in options.items():
        may_be_0 = key in ("seed", "num_unfrozen_layers")
        if isinstance(value, int) and not isinstance(value, bool) and not may_be_0:
            check_whole_number(f"model.{part}.{key}", value, least=1)
    return options


def _check_boundary(config: DictConfig) -> int:
    """Return ``data.num_boundary``; raise ``ValueError`` if the data have no maps."""
    num = _section(config, "data").get("num_boundary")
    if num is None:
        backbone = str(_section(config, "algo").get("backbone"))
        choice = "eit_quantised" if backbone == "film-unet-tokens" else "eit"
        raise ValueError(
            f"backbone {backbone!r} reads Dirichlet-to-Neumann maps and needs data.num_boundary, "
            f"their number of boundary nodes; choose data={choice}"
        )
    return int(num)
