"""Noise schedules by name: each has a class, a YAML in ``configs/schedule`` and a line below.

``docs/extend.md`` says how another package or a user's module adds one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from discrete_diffusion.config.constructors import build_part, signature_of
from discrete_diffusion.config.plugins import LazyEntry, Registry

if TYPE_CHECKING:
    from discrete_diffusion.layout.token_layout import TokenLayout
    from discrete_diffusion.noise_schedules.base import Schedule


_lazy = LazyEntry.within(__package__)
SCHEDULES: Registry[Callable[..., Schedule]] = Registry(
    "noise schedule",
    "discrete_diffusion.noise_schedules",
    {
        "log_linear": _lazy("schedules:LogLinear"),
        "linear": _lazy("schedules:Linear"),
        "cosine": _lazy("schedules:Cosine"),
        "polynomial": _lazy("schedules:Polynomial"),
        "geometric": _lazy("schedules:Geometric"),
        "per_group": _lazy("schedules:PerGroup"),
        "learned": _lazy("schedules:Learned", learned=True),
    },
)
register_noise_schedule = SCHEDULES.register
"""Decorator that makes a schedule known by name.

    @register_noise_schedule("mine")
    class Mine(Schedule): ...

Args:
    name (str): the name that ``schedule=`` takes.

Returns:
    decorator (Callable): returns its class or function unchanged.

Raises:
    ValueError: another schedule has the name.
"""


def build_schedule(config: Mapping[str, Any], layout: TokenLayout) -> Schedule:
    """Build the schedule ``config["name"]``; the other keys of ``config`` are its arguments.

    Raises ``ValueError`` for an unknown name or option, and as ``check_schedule`` does.
    """
    from discrete_diffusion.noise_schedules.base import check_schedule

    takes_layout = "layout" in signature_of(SCHEDULES.find(config["name"]))
    schedule: Schedule = build_part("schedule", SCHEDULES, config, *[layout] * takes_layout)
    check_schedule(schedule, layout)
    return schedule
