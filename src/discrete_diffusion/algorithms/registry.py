"""Algorithms by name. Each has a class, a YAML file in ``configs/algo`` and a line below.

``docs/extend.md`` says how another package or a user's module adds one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from discrete_diffusion.config.plugins import LazyEntry, Registry

if TYPE_CHECKING:
    from discrete_diffusion.algorithms.base import Algorithm


_lazy = LazyEntry.within(__package__)
ALGORITHMS: Registry[Callable[..., Algorithm]] = Registry(
    "algorithm",
    "discrete_diffusion.algorithms",
    {
        "mdlm": _lazy("mdlm:MDLM", processes=("absorbing",)),
        "udlm": _lazy("continuous_time:UDLM", processes=("uniform",)),
        "marginal": _lazy("continuous_time:MarginalDiffusion", processes=("marginal",)),
        "ctmc": _lazy("continuous_time:MatrixDiffusion", processes=("matrix",), any_process=True),
        "gidd": _lazy("continuous_time:GIDD", processes=("hybrid",)),
        "sedd": _lazy("continuous_time:SEDD", processes=("absorbing", "uniform")),
        "d3pm": _lazy(
            "d3pm:D3PM",
            processes=("absorbing", "uniform", "marginal", "hybrid", "matrix"),
            any_process=True,
            discrete_time=True,
        ),
        "bd3lm": _lazy("bd3lm:BD3LM", processes=("absorbing",), backbone_needs=("group_idxs",)),
        "ar": _lazy(
            "ar:AR",
            processes=("absorbing",),
            backbone_needs=("causal",),
            samplers=("autoregressive", "first-hitting"),
        ),
        "meld": _lazy("meld:MELD", processes=("absorbing",), learns_schedule=True),
        "distill": _lazy(
            "distill:Distill", processes=("absorbing",), samplers=("few-call",), has_teacher=True
        ),
        "reward_tuning": _lazy(
            "reward:RewardTuning", processes=("absorbing",), has_teacher=True, has_reward=True
        ),
    },
)
register_algorithm = ALGORITHMS.register
"""Decorator that makes an algorithm known by name.

    @register_algorithm("mine")
    class Mine(TokenAlgorithm): ...

Args:
    name (str): the name that ``algo=`` takes.

Returns:
    decorator (Callable): returns its class or function unchanged.

Raises:
    ValueError: another algorithm has the name.
"""

build_algorithm = LazyEntry("discrete_diffusion.building.algorithm:build_algorithm")
"""Build the algorithm of a composed config, with its backbone, process and schedule.

Args:
    config (DictConfig): a config of ``complete_data``.

Returns:
    algorithm (Algorithm): the algorithm.

Raises:
    ValueError: parts do not fit each other, or an option is unknown; the message names the fix.
"""


def algorithm_state(name: str) -> str:
    """State that an algorithm of the registry works on, one of ``registry.STATES``."""
    return getattr(ALGORITHMS.entry(name), "state", "tokens")


def algorithms_on(state: str) -> list[str]:
    """Sorted names of the algorithms that work on a state, one of ``registry.STATES``."""
    return sorted(name for name in ALGORITHMS.names() if algorithm_state(name) == state)
