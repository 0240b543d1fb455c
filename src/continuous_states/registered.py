"""Algorithms, samplers and networks by name; each is imported when it is first used."""

from __future__ import annotations

from typing import Any

from discrete_diffusion.algorithms import register_algorithm
from discrete_diffusion.config import LazyEntry
from discrete_diffusion.models import register_backbone
from discrete_diffusion.sampling import register_sampler


def _algorithm(name: str, where: str, **facts: Any) -> None:
    entry = LazyEntry(f"continuous_states.algorithms.{where}", **{"processes": (), **facts})
    register_algorithm(name)(entry)


def _sampler(name: str, where: str, **facts: Any) -> None:
    register_sampler(name)(LazyEntry(f"continuous_states.sampling:{where}", **facts))


def _network(name: str, **spec: Any) -> None:
    builder = f"continuous_states.builders:build_{name.replace('-', '_')}"
    register_backbone(name, **{"conditions": (), **spec})(LazyEntry(builder))


_algorithm(
    "masked-features",
    "masked_features:MaskedFeatures",
    processes=("absorbing",),
    state="features",
    samplers=("row-ancestral",),
)
_algorithm("flow-matching", "fields:FlowMatching", state="field", samplers=("ode",))
_algorithm("regression", "fields:Regression", state="field", samplers=("direct",))
_algorithm("latent-seq2seq", "latent_seq2seq:LatentSeq2Seq", state="latent", samplers=("generate",))

_sampler("row-ancestral", "RowAncestral", state="features", algorithms=("masked-features",))
_sampler("ode", "Ode", state="field", algorithms=("flow-matching",))
_sampler("direct", "Direct", state="field", algorithms=("regression",))
_sampler("generate", "Generate", state="latent", algorithms=("latent-seq2seq",))

_network(
    "get-region",
    state="features",
    conditions=("masked", "noisy", "real"),
    default_model="get_region_tiny",
)
_network(
    "dtn-unet", state="field", conditions=("dtn", "keep", "encoded"), default_model="dtn_unet_tiny"
)
_network("dtn-regressor", state="field", conditions=("dtn",), default_model="dtn_regressor_tiny")
_network("film-unet-tokens", conditions=("dtn", "keep", "encoded"), default_model="film_unet_tiny")
_network("latent-space-model", state="latent", default_model="latent_tiny")
