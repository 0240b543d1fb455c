"""Samplers by name. Each has a class file, a YAML in ``configs/sampling``, a line below."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from discrete_diffusion.algorithms import Algorithm
from discrete_diffusion.naming import unknown_name
from discrete_diffusion.options import check_options
from discrete_diffusion.sampling.ancestral import Ancestral
from discrete_diffusion.sampling.autoregressive import Autoregressive
from discrete_diffusion.sampling.base import Sampler
from discrete_diffusion.sampling.confidence import Confidence
from discrete_diffusion.sampling.draw_samples import draw_samples
from discrete_diffusion.sampling.entropy import Entropy
from discrete_diffusion.sampling.entropy_bounded import EntropyBounded
from discrete_diffusion.sampling.first_hitting import FirstHitting
from discrete_diffusion.sampling.margin import Margin
from discrete_diffusion.sampling.predictor_corrector import PredictorCorrector
from discrete_diffusion.sampling.remdm import ReMDM
from discrete_diffusion.sampling.renoise import Renoise

_SAMPLER_BUILDERS: dict[str, Callable[..., Sampler]] = {
    "ancestral": Ancestral,
    "autoregressive": Autoregressive,
    "confidence": Confidence,
    "entropy": Entropy,
    "entropy-bounded": EntropyBounded,
    "first-hitting": FirstHitting,
    "margin": Margin,
    "predictor-corrector": PredictorCorrector,
    "remdm": ReMDM,
    "renoise": Renoise,
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


def fitting_samplers(algorithm: Algorithm) -> list[str]:
    """Names of the samplers that draw from the model an algorithm trains."""

    def fits(name: str) -> bool:
        try:
            _SAMPLER_BUILDERS[name]().check(algorithm)
        except ValueError:
            return False
        return True

    return [name for name in _SAMPLER_BUILDERS if fits(name)]


__all__ = [
    "Ancestral",
    "Autoregressive",
    "Confidence",
    "Entropy",
    "EntropyBounded",
    "FirstHitting",
    "Margin",
    "PredictorCorrector",
    "ReMDM",
    "Renoise",
    "Sampler",
    "build_sampler",
    "draw_samples",
    "fitting_samplers",
]
