"""Samplers by name. Each has a class, a YAML in ``configs/sampling``, a line below.

Two ways to add one from outside:

* decorate it: ``@register_sampler("mine")``, in a module that ``plugins=[...]`` names;
* ship it: an entry point of the group ``discrete_diffusion.samplers`` in a package.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from discrete_diffusion.config.options import check_options
from discrete_diffusion.config.plugins import LazyEntry, Registry

if TYPE_CHECKING:
    from discrete_diffusion.algorithms.base import Algorithm
    from discrete_diffusion.sampling.ancestral import Ancestral as Ancestral
    from discrete_diffusion.sampling.ancestral import GridSampler as GridSampler
    from discrete_diffusion.sampling.ancestral import PredictorCorrector as PredictorCorrector
    from discrete_diffusion.sampling.ancestral import Renoise as Renoise
    from discrete_diffusion.sampling.autoregressive import Autoregressive as Autoregressive
    from discrete_diffusion.sampling.base import Sampler as Sampler
    from discrete_diffusion.sampling.draft import Block as Block
    from discrete_diffusion.sampling.draft import Draft as Draft
    from discrete_diffusion.sampling.drawing import sample_in_batches as sample_in_batches
    from discrete_diffusion.sampling.few_call import FewCall as FewCall
    from discrete_diffusion.sampling.first_hitting import FirstHitting as FirstHitting
    from discrete_diffusion.sampling.model import Model as Model
    from discrete_diffusion.sampling.model import rows_at_once as rows_at_once
    from discrete_diffusion.sampling.narrowing import Narrowing as Narrowing
    from discrete_diffusion.sampling.remdm import ReMDM as ReMDM
    from discrete_diffusion.sampling.speculative import Speculative as Speculative
    from discrete_diffusion.sampling.tokens import TokenSampler as TokenSampler
    from discrete_diffusion.sampling.unmasking import Confidence as Confidence
    from discrete_diffusion.sampling.unmasking import Entropy as Entropy
    from discrete_diffusion.sampling.unmasking import EntropyBounded as EntropyBounded
    from discrete_diffusion.sampling.unmasking import Margin as Margin
    from discrete_diffusion.sampling.unmasking import Unmasking as Unmasking


def _lazy(where: str, **facts: Any) -> LazyEntry:
    return LazyEntry(f"{__name__}.{where}", **facts)


_BUILT_IN = {
    "ancestral": _lazy("ancestral:Ancestral"),
    "autoregressive": _lazy(
        "autoregressive:Autoregressive", absorbing_only=True, algorithms=("ar",)
    ),
    "confidence": _lazy("unmasking:Confidence", absorbing_only=True),
    "entropy": _lazy("unmasking:Entropy", absorbing_only=True),
    "entropy-bounded": _lazy("unmasking:EntropyBounded", absorbing_only=True),
    "few-call": _lazy("few_call:FewCall", absorbing_only=True, algorithms=("distill",)),
    "first-hitting": _lazy(
        "first_hitting:FirstHitting", absorbing_only=True, continuous_time_only=True
    ),
    "margin": _lazy("unmasking:Margin", absorbing_only=True),
    "predictor-corrector": _lazy("ancestral:PredictorCorrector"),
    "remdm": _lazy("remdm:ReMDM", absorbing_only=True),
    "renoise": _lazy("ancestral:Renoise"),
    "speculative": _lazy("speculative:Speculative", absorbing_only=True),
}
_OTHERS = (
    *(_lazy("base:Sampler"), _lazy("tokens:TokenSampler")),
    *(_lazy("draft:Draft"), _lazy("draft:Block")),
    *(_lazy("ancestral:GridSampler"), _lazy("unmasking:Unmasking")),
    _lazy("narrowing:Narrowing"),
    *(_lazy("drawing:sample_in_batches"), _lazy("model:Model"), _lazy("model:rows_at_once")),
)

_SAMPLER_BUILDERS: dict[str, Callable[..., Sampler[Any]] | LazyEntry] = {**_BUILT_IN}
SAMPLERS: Registry[Callable[..., Sampler[Any]]] = Registry(
    "sampler", "discrete_diffusion.samplers", _SAMPLER_BUILDERS
)
register_sampler = SAMPLERS.register
"""Decorator that makes a sampler known by name.

    @register_sampler("mine")
    class Mine(TokenSampler): ...

Args:
    name (str): the name that ``sampling=`` takes.

Returns:
    decorator (Callable): returns its class or function unchanged.

Raises:
    ValueError: another sampler has the name.
"""


def build_sampler(config: Mapping[str, Any]) -> Sampler[Any]:
    """The sampler of a composed config, or of its ``sampling`` part.

    Args:
        config: ``sampling``, or its keys: ``name`` and arguments of the constructor.

    Returns:
        The sampler.

    Raises:
        ValueError: the name is unknown, or the sampler does not have an option.
    """
    options = dict(config.get("sampling", config))
    name = options.pop("name")
    build = SAMPLERS.find(name)
    check_options("sampling", name, build, options)
    return build(**options)


def check_sampler(sampler: Sampler[Any], algorithm: Algorithm, steps: int | None = None) -> None:
    """Check that a sampler samples the model that an algorithm trains.

    Args:
        sampler: the sampler.
        algorithm: the algorithm.
        steps: the requested number of time steps, or network calls; None for the default.

    Raises:
        ValueError: it does not, or cannot make so many ``steps``; the message names samplers that
            do.
        TypeError: ``algorithm`` is another object.
    """
    if sampler.state != getattr(algorithm, "state", sampler.state):
        able = algorithm.samplers or [
            name for name in SAMPLERS.names() if sampler_state(name) == algorithm.state
        ]
        raise ValueError(
            f"{algorithm.name} works on {algorithm.state} and cannot be sampled by "
            f"{sampler.name}, which samples {sampler.state}; use sampling="
            f"{' or sampling='.join(able)}"
        )
    sampler.check(algorithm, steps)


def sampler_state(name: str) -> str:
    """State that a sampler of the registry samples.

    Args:
        name: name of a sampler.

    Returns:
        One of ``registry.STATES``; of an unknown name, tokens.
    """
    known = name in _SAMPLER_BUILDERS or name in SAMPLERS.names()
    return getattr(SAMPLERS.entry(name), "state", "tokens") if known else "tokens"


def fitting_samplers(algorithm: Algorithm) -> list[str]:
    """Names of the samplers that sample the model that an algorithm trains.

    Args:
        algorithm: the algorithm.

    Returns:
        The names, in the order of the registry.
    """

    def fits(name: str) -> bool:
        try:
            check_sampler(SAMPLERS.find(name)(), algorithm)
        except ValueError:
            return False
        return True

    return [name for name in SAMPLERS.all() if fits(name)]


def __getattr__(name: str) -> Any:
    """Import a class when it is first used: it brings torch with it."""
    for declared in (*_BUILT_IN.values(), *_OTHERS):
        if declared.__qualname__ == name:
            return declared.load()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
