"""Samplers by name. Each has a class file, a YAML in ``configs/sampling``, a line below."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from discrete_diffusion.naming import unknown_name
from discrete_diffusion.options import check_options
from discrete_diffusion.sampling.ancestral import Ancestral
from discrete_diffusion.sampling.autoregressive import Autoregressive
from discrete_diffusion.sampling.base import Sampler
from discrete_diffusion.sampling.draw_samples import draw_samples
from discrete_diffusion.sampling.first_hitting import FirstHitting

_SAMPLER_BUILDERS: dict[str, Callable[..., Sampler]] = {
    "ancestral": Ancestral,
    "autoregressive": Autoregressive,
    "first-hitting": FirstHitting,
}


def build_sampler(config: Mapping[str, Any]) -> Sampler:
    """The sampler of a composed config, or of its ``sampling`` part: ``name`` and arguments.

    Raises ``ValueError`` for an unknown sampler, or an option that it does not have.
    """
    options = dict(config.get("sampling", config))
    name = options.pop("name")
    if name not in _SAMPLER_BUILDERS:
        raise ValueError(unknown_name("sampler", name, _SAMPLER_BUILDERS))
    check_options("sampling", name, _SAMPLER_BUILDERS[name], options)
    return _SAMPLER_BUILDERS[name](**options)


__all__ = [
    "Ancestral",
    "Autoregressive",
    "FirstHitting",
    "Sampler",
    "build_sampler",
    "draw_samples",
]
