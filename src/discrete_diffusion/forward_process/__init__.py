"""Forward processes by name. Each has a class, a YAML in ``configs/forward_process``, a line below.

Two ways to add one from outside (``docs/add_a_part.md``):

* decorate it: ``@register_forward_process("mine")``, in a module that ``plugins=[...]`` names;
* ship it: an entry point of the group ``discrete_diffusion.forward_processes`` in a package.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from discrete_diffusion.config.options import check_options
from discrete_diffusion.config.plugins import LazyEntry, Registry

if TYPE_CHECKING:
    from discrete_diffusion.forward_process.absorbing import Absorbing as Absorbing
    from discrete_diffusion.forward_process.base import ForwardProcess as ForwardProcess
    from discrete_diffusion.forward_process.checking import check_process as check_process
    from discrete_diffusion.forward_process.hybrid import Hybrid as Hybrid
    from discrete_diffusion.forward_process.interpolating import (
        InterpolatingProcess as InterpolatingProcess,
    )
    from discrete_diffusion.forward_process.matrix import Matrix as Matrix
    from discrete_diffusion.forward_process.uniform import Marginal as Marginal
    from discrete_diffusion.forward_process.uniform import Uniform as Uniform
    from discrete_diffusion.layout.token_layout import TokenLayout
    from discrete_diffusion.noise_schedules.base import Schedule


def _lazy(where: str, **facts: Any) -> LazyEntry:
    return LazyEntry(f"{__name__}.{where}", **facts)


_BUILT_IN = {
    "absorbing": _lazy("absorbing:Absorbing", absorbing=True),
    "uniform": _lazy("uniform:Uniform"),
    "marginal": _lazy("uniform:Marginal"),
    "hybrid": _lazy("hybrid:Hybrid"),
    "matrix": _lazy("matrix:Matrix"),
}
_OTHERS = (
    *(_lazy("base:ForwardProcess"), _lazy("interpolating:InterpolatingProcess")),
    _lazy("checking:check_process"),
)

_PROCESS_BUILDERS: dict[str, Callable[..., ForwardProcess] | LazyEntry] = {**_BUILT_IN}
PROCESSES: Registry[Callable[..., ForwardProcess]] = Registry(
    "forward process", "discrete_diffusion.forward_processes", _PROCESS_BUILDERS
)
register_forward_process = PROCESSES.register


def build_forward_process(
    config: Mapping[str, Any], layout: TokenLayout, schedule: Schedule
) -> ForwardProcess:
    """The process ``config["name"]``, its other keys passed as arguments.

    Raises ``ValueError`` for an unknown process, an option that it does not have, one that it needs
    and does not get or gets of another kind, and as the process itself does.
    """
    options = dict(config)
    name = options.pop("name")
    build = PROCESSES.find(name)
    check_options("forward_process", name, build, options, given=2)
    return build(layout, schedule, **options)


def __getattr__(name: str) -> Any:
    """Import a class when it is first used: it brings torch with it."""
    for declared in (*_BUILT_IN.values(), *_OTHERS):
        if declared.__qualname__ == name:
            return declared.load()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
