"""Forward processes by name.

Each has a class, a YAML file in ``configs/forward_process`` and a line below.

``docs/extend.md`` says how another package or a user's module adds one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from discrete_diffusion.config.constructors import build_part
from discrete_diffusion.config.plugins import LazyEntry, Registry

if TYPE_CHECKING:
    from discrete_diffusion.forward_process.base import ForwardProcess
    from discrete_diffusion.layout.token_layout import TokenLayout
    from discrete_diffusion.noise_schedules.base import Schedule


_lazy = LazyEntry.within(__package__)
PROCESSES: Registry[Callable[..., ForwardProcess]] = Registry(
    "forward process",
    "discrete_diffusion.forward_processes",
    {
        "absorbing": _lazy("interpolating:Absorbing", absorbing=True),
        "uniform": _lazy("uniform:Uniform"),
        "marginal": _lazy("uniform:Marginal"),
        "hybrid": _lazy("uniform:Hybrid"),
        "matrix": _lazy("matrix:Matrix"),
    },
)
register_forward_process = PROCESSES.register


def build_forward_process(
    config: Mapping[str, Any], layout: TokenLayout, schedule: Schedule
) -> ForwardProcess:
    """Build the process ``config["name"]``; the other keys of ``config`` are its arguments.

    Raises ``ValueError`` for an unknown process, unknown, missing or wrong options, and as the
    process itself does.
    """
    process: ForwardProcess = build_part("forward_process", PROCESSES, config, layout, schedule)
    return process
