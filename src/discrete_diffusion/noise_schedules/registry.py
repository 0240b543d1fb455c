"""Noise schedules by name. Each has a class, a YAML file in ``configs/noise`` and a line below.

Two ways to add one from outside (``docs/extend.md``):

* decorate it: ``@register_noise_schedule("mine")``, in a module that ``plugins=[...]`` names;
* ship it: an entry point of the group ``discrete_diffusion.noise_schedules`` in a package.
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
_BUILT_IN = {
    "log_linear": _lazy("schedules:LogLinear"),
    "linear": _lazy("schedules:Linear"),
    "cosine": _lazy("schedules:Cosine"),
    "polynomial": _lazy("schedules:Polynomial"),
    "geometric": _lazy("schedules:Geometric"),
    "per_group": _lazy("schedules:PerGroup"),
    "learned": _lazy("schedules:Learned", learned=True),
}

_SCHEDULE_BUILDERS: dict[str, Callable[..., Schedule] | LazyEntry] = {**_BUILT_IN}
SCHEDULES: Registry[Callable[..., Schedule]] = Registry(
    "noise schedule", "discrete_diffusion.noise_schedules", _SCHEDULE_BUILDERS
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
