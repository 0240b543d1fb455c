"""Noise schedules by name. Each has a class, a YAML in ``configs/noise``, a line below.

Two ways to add one from outside:

* decorate it: ``@register_noise_schedule("mine")``, in a module that ``plugins=[...]`` names;
* ship it: an entry point of the group ``discrete_diffusion.noise_schedules`` in a package.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from discrete_diffusion.layout import TokenLayout
from discrete_diffusion.noise_schedules.base import SMALLEST_TIME as SMALLEST_TIME
from discrete_diffusion.noise_schedules.base import Schedule
from discrete_diffusion.noise_schedules.base import per_token as per_token
from discrete_diffusion.noise_schedules.closed_form import Cosine, Geometric, Linear, LogLinear
from discrete_diffusion.noise_schedules.powers import Learned, PerGroup, Polynomial
from discrete_diffusion.options import check_options
from discrete_diffusion.plugins import Declared, Registry

_SCHEDULE_BUILDERS: dict[str, Callable[..., Schedule] | Declared] = {
    "log_linear": LogLinear,
    "linear": Linear,
    "cosine": Cosine,
    "polynomial": Polynomial,
    "geometric": Geometric,
    "per_group": PerGroup,
    "learned": Learned,
}

SCHEDULES: Registry[Callable[..., Schedule]] = Registry(
    "noise schedule", "discrete_diffusion.noise_schedules", _SCHEDULE_BUILDERS
)
register_noise_schedule = SCHEDULES.register


def build_schedule(config: Mapping[str, Any], layout: TokenLayout) -> Schedule:
    """The schedule ``config["name"]``, its other keys passed as arguments; ``layout`` too where
    the constructor takes it.

    Raises ``ValueError`` for an unknown schedule, or an option that it does not have.
    """
    options = dict(config)
    name = options.pop("name")
    build = SCHEDULES.find(name)
    given = (layout,) if "layout" in inspect.signature(build).parameters else ()
    check_options("noise", name, build, options, given=len(given))
    return build(*given, **options)
