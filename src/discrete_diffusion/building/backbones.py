"""Builders of the built-in backbones, and the size of a network for a number of parameters.

Classes are imported when a builder is called, so that a misspelt name is refused before torch is
loaded.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from inspect import signature
from typing import TYPE_CHECKING, Annotated, Any

from discrete_diffusion.building.algorithm import build_algorithm
from discrete_diffusion.config.constructors import check_keys
from discrete_diffusion.config.files import presets_of
from discrete_diffusion.config.values import Bounds, Count, check_divides, check_whole_number
from discrete_diffusion.domains.registry import (
    build_layout,
    complete_data,
    domain_of,
    graph_vocabulary,
)

if TYPE_CHECKING:
    from omegaconf import DictConfig
    from torch import nn

_SIZES = {
    **dict.fromkeys(("n_layers", "n_blocks", "n_heads", "num_layers", "num_heads"), Count),
    **dict.fromkeys(("d_model", "d_pair", "hidden_size", "cond_dim", "latent_dim"), Count),
    **dict.fromkeys(("embedding_dim", "frequency_embedding_size", "channels", "groups"), Count),
    **dict.fromkeys(("attention_heads", "latent_seq_len", "prefix_len", "pool_layers"), Count),
    **dict.fromkeys(("walk_length", "parameters", "counted_at", "lora_rank"), Count),
    "dropout": Annotated[float, Bounds(least=0, most=1)],
}
"""Types of keys of ``model``, the same for every network."""

_ENOUGH = 0.1
"""A search for a number of parameters ends early at this share of the tolerance."""

_REFUSED = (ValueError, TypeError, AssertionError, RuntimeError, ArithmeticError)
"""Errors that networks raise for impossible sizes, such as heads that do not divide a width."""


def section(config: DictConfig, name: str) -> Any:
    """Part of the config, empty if it is missing."""
    return config.get(name) or {}


def backbone_name(config: DictConfig) -> str:
    """Name of the backbone that a config chooses."""
    return str(section(config, "algo").get("backbone"))


def model_options(config: DictConfig, build: Callable[..., Any], *given: str) -> dict[str, Any]:
    """Arguments of ``build`` in ``config.model``; ``given``: arguments from elsewhere.

    Raises ``ValueError``, with the presets that fit, for a missing argument, and the errors of
    ``check_sizes``.
    """
    # a preset that is made for this backbone
    model, backbone = section(config, "model"), backbone_name(config)
    fits = model.get("backbones")
    if fits is not None and backbone not in fits:
        raise ValueError(
            f"model preset {model.get('name', '?')!r} fits {', '.join(fits)}, not {backbone!r}; "
            f"presets that fit: {', '.join(presets_of(backbone))}"
        )
    # arguments that the preset has, and those that it must have
    wanted = {k: p for k, p in signature(build).parameters.items() if k not in given}
    options = {key: model.get(key) for key in wanted if model.get(key) is not None}
    for key, parameter in wanted.items():
        if parameter.default is parameter.empty and key not in options:
            presets = ", ".join(presets_of(backbone))
            raise ValueError(
                f"backbone {backbone!r} needs model.{key}; presets that fit: {presets}"
            )
    check_sizes(config)
    return options


def check_sizes(config: DictConfig) -> None:
    """Check the sizes and the dropout of a network. Imports no torch.

    Sizes must be whole numbers above 0, and heads must divide the width.
    Raises ``ValueError`` naming the key.
    """
    model, backbone = section(config, "model"), backbone_name(config)
    if backbone not in model.get("backbones", [backbone]):
        return
    check_keys(config, {f"model.{key}": annotation for key, annotation in _SIZES.items()})
    # heads divide the width
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

    # vocabularies of ``data.max_nodes`` nodes, which must have as many ids as the data
    options = model_options(config, build, "vocab_config", "condition")
    data, backbone = section(config, "data"), backbone_name(config)
    vocab_config = graph_vocabulary(data)
    if vocab_config is None:
        raise ValueError(
            f"backbone {backbone!r} reads graphs and needs data.max_nodes, the largest number of "
            "nodes; for plain sequences set algo.backbone=dit or algo.backbone=my-transformer"
        )
    if vocab_size != vocab_config.vocab_size:
        raise ValueError(
            f"backbone {backbone!r} predicts {vocab_config.vocab_size} ids "
            f"({vocab_config.node_vocab_size} for nodes, {vocab_config.edge_vocab_size} for edges),"
            f" but the data has vocab_size={vocab_size}"
        )

    # the denoiser, conditioned on facts of the data, and its adapter
    condition = domain_of(data).conditions(data).get("condition")
    denoiser = build(vocab_config=vocab_config, condition=condition, **options)
    legal_only = section(config, "model").get("legal_only", True)
    if (num := _num_components(config)) > 1:
        return GraphMixture(denoiser, components=num, legal_only=legal_only)
    return BDDenoiserBackbone(denoiser, legal_only=legal_only)


def build_dit(config: DictConfig, vocab_size: int) -> nn.Module:
    from discrete_diffusion.models.dit import DiT
    from discrete_diffusion.models.mixtures import DiTMixture

    options = model_options(config, DiT, "vocab_size", "causal", "pad_id")
    options["vocab_size"] = vocab_size
    options["causal"] = section(config, "algo").get("causal_attention", False)
    options["pad_id"] = build_layout(section(config, "data")).pad_id
    # a network without adaLN reads no noise level
    timed = section(config, "algo").get("time_conditioning", True)
    if timed and not options.get("adaln", True):
        raise ValueError(
            "model.adaln=false makes a network that reads no noise level; set "
            "algo.time_conditioning=false"
        )
    if (num := _num_components(config)) > 1:
        return DiTMixture(components=num, **options)
    return DiT(**options)


def _num_components(config: DictConfig) -> int:
    """``algo.components`` of a student of few calls; 1 for other algorithms."""
    return int(section(config, "algo").get("components", 1))


def build_my_transformer(config: DictConfig, vocab_size: int) -> nn.Module:
    from discrete_diffusion.models.my_transformer import MyTransformer

    layout = build_layout(section(config, "data"))
    given = ("vocab_size", "length", "pad_id", "time_conditioning")
    options = model_options(config, MyTransformer, *given)
    # a longer network can read shorter samples
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


def build_transformers(config: DictConfig, vocab_size: int) -> nn.Module:
    from discrete_diffusion.models.transformers_backbone import build_language_model

    if section(config, "algo").get("time_conditioning"):
        raise ValueError(
            "algo.backbone=transformers reads no noise level; set algo.time_conditioning=false"
        )
    options = model_options(config, build_language_model, "layout")
    return build_language_model(layout=build_layout(section(config, "data")), **options)


def apart(size: int, other: int | None) -> float:
    """Distance of two sizes, |log(size / other)|; infinite where a size is unknown."""
    return abs(math.log(size / other)) if size and other else math.inf


def are_equal(size: int, other: int | None, tolerance: float | None) -> bool:
    """Return True if two sizes are at most the ``tolerance`` apart; None always matches."""
    return other is None or tolerance is None or abs(size / other - 1) <= tolerance


def parameter_counts(config: DictConfig, key: str) -> Callable[[int], int]:
    """Function from a value of ``model.key`` to the number of parameters of a ``train`` config.

    The algorithm is built without memory for its weights; 0 for a value that the network refuses.
    """
    import torch
    from omegaconf import OmegaConf

    completed = complete_data(config)

    @cache
    def count(value: int) -> int:
        # a network on the meta device has sizes and no numbers
        each = completed.copy()
        OmegaConf.update(each, f"model.{key}", value)
        try:
            with torch.device("meta"):
                return build_algorithm(each).num_parameters
        except _REFUSED:
            return 0

    return count


def value_for(target: int, count: Callable[[int], int], start: int, tolerance: float) -> int | None:
    """Find the whole number whose ``count`` is nearest to the ``target``.

    A tenth of the ``tolerance`` away is near enough; None if ``count`` does not grow with the
    value.

    ``count``: 0 for values that are not legal; ``start`` is legal. From ``start`` the value is
    doubled or halved until the target lies between two values; then the interval shrinks, by a
    power law and by halves in turn, until no legal value is left in it.
    """
    # two values around the target, from each to the nearest legal value beyond
    value = previous = start
    upwards = count(start) < target
    while (count(value) < target) == upwards and count(value) != target:
        low, high = (value, 4 * value) if upwards else (0, value)
        further = _nearest_legal(2 * value if upwards else value // 2, low, high, count)
        if further is None:
            return value if value != start else None
        if count(further) == count(value) or (count(further) > count(value)) != upwards:
            return None
        previous, value = value, further
    low, high = (previous, value) if upwards else (value, previous)
    # shrink the interval until it is empty or good enough
    by_power_law = True
    while True:
        best = min((low, high), key=lambda each: apart(count(each), target))
        if apart(count(best), target) <= _ENOUGH * tolerance:
            return best
        guess = (low + high) // 2
        below, above = math.log(count(low) or 1), math.log(count(high) or 1)
        if by_power_law and above > below:
            share = (math.log(target) - below) / (above - below)
            guess = round(low * (high / low) ** min(max(share, 0.0), 1.0))
        middle = _nearest_legal(guess, low, high, count)
        if middle is None:
            return best
        low, high = (middle, high) if count(middle) < target else (low, middle)
        by_power_law = not by_power_law


def _nearest_legal(guess: int, low: int, high: int, count: Callable[[int], int]) -> int | None:
    """Legal value nearest to the guess, strictly between ``low`` and ``high``; None if none of the
    nearest 128 is."""
    inside = sorted(range(low + 1, high), key=lambda value: abs(value - guess))
    return next((value for value in inside[:128] if count(value)), None)
