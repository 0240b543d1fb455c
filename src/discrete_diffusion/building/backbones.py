"""The built-in backbones: from a config to constructor arguments.

Classes are imported when a builder is called, so that a misspelt name is refused before torch is
loaded.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import TYPE_CHECKING, Annotated, Any

from discrete_diffusion.config.constructors import check_keys
from discrete_diffusion.config.files import presets_of
from discrete_diffusion.config.signatures import check_value
from discrete_diffusion.config.values import Bounds, Count, check_divides, check_whole_number
from discrete_diffusion.domains.registry import build_layout, domain_of, graph_vocabulary

if TYPE_CHECKING:
    from omegaconf import DictConfig
    from torch import nn

    from discrete_diffusion.layout.vocab_config import VocabConfig


def section(config: DictConfig, name: str) -> Any:
    """A part of the config, empty if it is not there."""
    return config.get(name) or {}


def backbone_name(config: DictConfig) -> str:
    """Name of the backbone that a config chooses."""
    return str(section(config, "algo").get("backbone"))


def lacks(config: DictConfig, key: str) -> ValueError:
    """Error of a builder about a missing key of ``model``, with the presets that fit."""
    name = backbone_name(config)
    presets = ", ".join(presets_of(name))
    return ValueError(f"backbone {name!r} needs model.{key}; presets that fit: {presets}")


def model_options(config: DictConfig, build: Callable[..., Any], *given: str) -> dict[str, Any]:
    """Arguments of ``build`` that ``config.model`` has; ``given``: arguments that come from
    elsewhere. ``ValueError``, with the presets that fit, for one that is missing."""
    model, backbone = section(config, "model"), backbone_name(config)
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
            raise lacks(config, key)
    for key, annotation in _SETTINGS.items():  # of a config that no command has composed
        if key in options:
            check_value(f"model.{key}", options[key], annotation)
    return options


_COUNTS = (
    *("n_layers", "n_blocks", "n_heads", "d_model", "d_pair", "hidden_size", "cond_dim"),
    *("frequency_embedding_size", "embedding_dim", "channels", "groups", "attention_heads"),
    *("num_layers", "num_heads", "latent_dim", "latent_seq_len", "prefix_len"),
)
_SETTINGS = {
    **dict.fromkeys(_COUNTS, Count),
    "dropout": Annotated[float, Bounds(least=0, most=1)],
}
"""Keys of ``model`` -> what they may be in every network of ours."""


def check_sizes(config: DictConfig) -> None:
    """``ValueError`` for a size of a network of ours that is no whole number above 0, and for heads
    that do not divide its width. Imports no torch."""
    model = section(config, "model")
    if backbone_name(config) not in model.get("backbones", ()):
        return
    check_keys(config, {f"model.{key}": annotation for key, annotation in _SETTINGS.items()})
    for width in ("d_model", "hidden_size"):
        if model.get(width) is not None and model.get("n_heads") is not None:
            check_divides(model["n_heads"], model[width], f"{width}={model[width]}")


def build_bd_denoiser(config: DictConfig, vocab_size: int) -> nn.Module:
    from discrete_diffusion.models.bd_denoiser import BDDenoiser

    return _graph_denoiser(config, BDDenoiser, vocab_size)


def build_bd_denoiser_pair(config: DictConfig, vocab_size: int) -> nn.Module:
    from discrete_diffusion.models.bd_denoiser_pair import BDDenoiserPair

    return _graph_denoiser(config, BDDenoiserPair, vocab_size)


def _graph_denoiser(config: DictConfig, build: Callable[..., Any], vocab_size: int) -> nn.Module:
    from discrete_diffusion.models.bd_denoiser import BDDenoiserBackbone
    from discrete_diffusion.models.mixtures import GraphMixture

    options = model_options(config, build, "vocab_config", "condition")
    vocab_config = _graph_vocabulary(config, vocab_size)
    data = section(config, "data")
    condition = domain_of(data).conditions(data).get("condition")
    denoiser = build(vocab_config=vocab_config, condition=condition, **options)
    legal_only = section(config, "model").get("legal_only", True)
    if (num := _components(config)) > 1:
        return GraphMixture(denoiser, components=num, legal_only=legal_only)
    return BDDenoiserBackbone(denoiser, legal_only=legal_only)


def _graph_vocabulary(config: DictConfig, vocab_size: int) -> VocabConfig:
    """The vocabularies of ``data.n_max`` nodes, which must have ``vocab_size`` ids."""
    data, backbone = section(config, "data"), backbone_name(config)
    vocab_config = graph_vocabulary(data)
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
    from discrete_diffusion.models.dit import DiT
    from discrete_diffusion.models.mixtures import DiTMixture

    options = model_options(config, DiT, "vocab_size", "causal", "pad_id")
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
    return int(section(config, "algo").get("components", 1))


def build_my_transformer(config: DictConfig, vocab_size: int) -> nn.Module:
    from discrete_diffusion.models.my_transformer import MyTransformer

    layout = build_layout(section(config, "data"))
    given = ("vocab_size", "length", "pad_id", "time_conditioning")
    options = model_options(config, MyTransformer, *given)
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
