"""Samplers by name: each has a class, a YAML in ``configs/sampling`` and a line below.

``docs/extend.md`` says how another package or a user's module adds one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from discrete_diffusion.config.constructors import build_part
from discrete_diffusion.config.plugins import LazyEntry, Registry

if TYPE_CHECKING:
    from discrete_diffusion.algorithms.base import Algorithm
    from discrete_diffusion.sampling.base import Sampler


_lazy = LazyEntry.within(__package__)
SAMPLERS: Registry[Callable[..., Sampler[Any]]] = Registry(
    "sampler",
    "discrete_diffusion.samplers",
    {
        "ancestral": _lazy("ancestral:Ancestral"),
        "autoregressive": _lazy(
            "exact_samplers:Autoregressive", absorbing_only=True, algorithms=("ar",)
        ),
        "confidence": _lazy("unmasking:Confidence", absorbing_only=True),
        "dilated": _lazy("fixed_orders:Dilated", absorbing_only=True),
        "entropy": _lazy("unmasking:Entropy", absorbing_only=True),
        "entropy-bounded": _lazy("unmasking:EntropyBounded", absorbing_only=True),
        "few-call": _lazy("fixed_orders:FewCall", absorbing_only=True, algorithms=("distill",)),
        "first-hitting": _lazy(
            "first_hitting:FirstHitting", absorbing_only=True, continuous_time_only=True
        ),
        "first-surprise": _lazy("unmasking:FirstSurprise", absorbing_only=True),
        "margin": _lazy("unmasking:Margin", absorbing_only=True),
        "planned": _lazy("fixed_orders:Planned", absorbing_only=True, continuous_time_only=True),
        "predictor-corrector": _lazy("ancestral:PredictorCorrector"),
        "remdm": _lazy("ancestral:ReMDM", absorbing_only=True),
        "renoise": _lazy("ancestral:Renoise"),
    },
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
    """Build the sampler of a composed config, or of its ``sampling`` part.

    ``config``: has the key ``sampling``, or is that part: ``name`` and arguments of the
    constructor. Raises ``ValueError`` for an unknown name, or an option that the sampler does not
    have.
    """
    sampler: Sampler[Any] = build_part("sampling", SAMPLERS, config.get("sampling", config))
    return sampler


def check_sampler(sampler: Sampler[Any], algorithm: Algorithm, steps: int | None = None) -> None:
    """Check that a sampler can sample the model of an algorithm in ``steps``.

    Raises ``ValueError`` naming samplers that fit if it cannot, and ``TypeError`` if ``algorithm``
    is not an algorithm.
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
    """State of the samples of a registered sampler; ``tokens`` for an unknown name."""
    known = name in SAMPLERS.builders or name in SAMPLERS.names()
    return getattr(SAMPLERS.entry(name), "state", "tokens") if known else "tokens"
