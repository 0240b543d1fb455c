"""Samplers by name. Each has a class, a YAML in ``configs/sampling``, a line below.

Two ways to add one from outside:

* decorate it: ``@register_sampler("mine")``, in a module that ``plugins=[...]`` names;
* ship it: an entry point of the group ``discrete_diffusion.samplers`` in a package.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from discrete_diffusion.algorithms import Algorithm
from discrete_diffusion.options import check_options
from discrete_diffusion.plugins import Registry
from discrete_diffusion.sampling.ancestral import Ancestral, PredictorCorrector, Renoise
from discrete_diffusion.sampling.autoregressive import Autoregressive
from discrete_diffusion.sampling.base import Sampler
from discrete_diffusion.sampling.draw_samples import OnDrawn as OnDrawn
from discrete_diffusion.sampling.draw_samples import draw_samples as draw_samples
from discrete_diffusion.sampling.draw_samples import rows_at_once as rows_at_once
from discrete_diffusion.sampling.fields import Direct, Ode
from discrete_diffusion.sampling.first_hitting import FirstHitting
from discrete_diffusion.sampling.generate import Generate
from discrete_diffusion.sampling.remdm import ReMDM
from discrete_diffusion.sampling.row_ancestral import RowAncestral
from discrete_diffusion.sampling.tokens import TokenSampler as TokenSampler
from discrete_diffusion.sampling.unmasking import Confidence, Entropy, EntropyBounded, Margin

_BUILT_IN: tuple[type[Sampler[Any]], ...] = (
    *(Ancestral, Autoregressive, Confidence, Entropy, EntropyBounded, FirstHitting, Margin),
    *(PredictorCorrector, ReMDM, Renoise, RowAncestral, Ode, Direct, Generate),
)
_SAMPLER_BUILDERS: dict[str, Callable[..., Sampler[Any]]] = {cls.name: cls for cls in _BUILT_IN}

SAMPLERS = Registry("sampler", "discrete_diffusion.samplers", _SAMPLER_BUILDERS)
register_sampler = SAMPLERS.register


def build_sampler(config: Mapping[str, Any]) -> Sampler[Any]:
    """The sampler of a composed config, or of its ``sampling`` part: ``name`` and arguments.

    Raises ``ValueError`` for an unknown sampler, or an option that it does not have.
    """
    options = dict(config.get("sampling", config))
    name = options.pop("name")
    build = SAMPLERS.find(name)
    check_options("sampling", name, build, options)
    return build(**options)


def check_sampler(sampler: Sampler[Any], algorithm: Algorithm, steps: int | None = None) -> None:
    """Raise ``ValueError``, naming samplers that do, if one does not draw from the model that the
    algorithm trains, or cannot make so many ``steps``."""
    if sampler.state != algorithm.state:
        able = algorithm.samplers or [
            name for name in SAMPLERS.all() if sampler_state(name) == algorithm.state
        ]
        raise ValueError(
            f"{algorithm.name} works on {algorithm.state} and cannot be sampled by "
            f"{sampler.name}, which samples {sampler.state}; use sampling="
            f"{' or sampling='.join(able)}"
        )
    sampler.check(algorithm, steps)


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
