"""Samplers by name. Each has a class file, a YAML in ``configs/sampling``, a line below.

Two ways to add one from outside:

* decorate it: ``@register_sampler("mine")``, in a module that ``plugins=[...]`` names;
* ship it: an entry point of the group ``discrete_diffusion.samplers`` in a package.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from discrete_diffusion.algorithms import Algorithm, TokenAlgorithm
from discrete_diffusion.options import check_options
from discrete_diffusion.plugins import Registry
from discrete_diffusion.sampling.ancestral import Ancestral
from discrete_diffusion.sampling.autoregressive import Autoregressive
from discrete_diffusion.sampling.base import Sampler
from discrete_diffusion.sampling.confidence import Confidence
from discrete_diffusion.sampling.direct import Direct
from discrete_diffusion.sampling.draw_samples import draw_samples, rows_at_once
from discrete_diffusion.sampling.entropy import Entropy
from discrete_diffusion.sampling.entropy_bounded import EntropyBounded
from discrete_diffusion.sampling.first_hitting import FirstHitting
from discrete_diffusion.sampling.generate import Generate
from discrete_diffusion.sampling.margin import Margin
from discrete_diffusion.sampling.ode import Ode
from discrete_diffusion.sampling.predictor_corrector import PredictorCorrector
from discrete_diffusion.sampling.remdm import ReMDM
from discrete_diffusion.sampling.renoise import Renoise
from discrete_diffusion.sampling.row_ancestral import RowAncestral

AnySampler = Sampler | RowAncestral | Ode | Direct | Generate

_SAMPLER_BUILDERS: dict[str, Callable[..., AnySampler]] = {
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
    "row-ancestral": RowAncestral,
    "ode": Ode,
    "direct": Direct,
    "generate": Generate,
}

SAMPLERS = Registry("sampler", "discrete_diffusion.samplers", _SAMPLER_BUILDERS)
register_sampler = SAMPLERS.register


def build_sampler(config: Mapping[str, Any]) -> AnySampler:
    """The sampler of a composed config, or of its ``sampling`` part: ``name`` and arguments.

    Raises ``ValueError`` for an unknown sampler, or an option that it does not have.
    """
    options = dict(config.get("sampling", config))
    name = options.pop("name")
    build = SAMPLERS.find(name)
    check_options("sampling", name, build, options)
    return build(**options)


def check_sampler(sampler: AnySampler, algorithm: Algorithm, steps: int | None = None) -> None:
    """Raise ``ValueError``, naming samplers that do, if one does not draw from the model that the
    algorithm trains, or makes no such number of ``steps`` of it."""
    if isinstance(sampler, Sampler) and isinstance(algorithm, TokenAlgorithm):
        sampler.check(algorithm)
        sampler.check_steps(algorithm, steps)
    elif not isinstance(sampler, Sampler) and sampler.name in (algorithm.samplers or ()):
        if isinstance(sampler, Ode):
            sampler.check(algorithm)
        sampler.check_steps(steps)
    else:
        able = algorithm.samplers or [
            name for name in SAMPLERS.all() if sampler_state(name) == algorithm.state
        ]
        of = "" if sampler.state == algorithm.state else f", which samples {sampler.state}"
        raise ValueError(
            f"{algorithm.name} works on {algorithm.state} and cannot be sampled by "
            f"{sampler.name}{of}; use sampling={' or sampling='.join(able)}"
        )


def sampler_state(name: str) -> str:
    """The state that a sampler of the registry samples; of an unknown name, tokens."""
    build = _SAMPLER_BUILDERS.get(name) or SAMPLERS.all().get(name)
    return getattr(build, "state", "tokens")


def fitting_samplers(algorithm: Algorithm) -> list[str]:
    """Names of the samplers that draw from the model an algorithm trains."""

    def fits(name: str) -> bool:
        try:
            check_sampler(SAMPLERS.find(name)(), algorithm)
        except ValueError:
            return False
        return True

    return [name for name in SAMPLERS.all() if fits(name)]


__all__ = [
    "SAMPLERS",
    "Ancestral",
    "AnySampler",
    "Autoregressive",
    "Confidence",
    "Direct",
    "Entropy",
    "EntropyBounded",
    "FirstHitting",
    "Generate",
    "Margin",
    "Ode",
    "PredictorCorrector",
    "ReMDM",
    "Renoise",
    "RowAncestral",
    "Sampler",
    "build_sampler",
    "check_sampler",
    "draw_samples",
    "fitting_samplers",
    "register_sampler",
    "rows_at_once",
    "sampler_state",
]
