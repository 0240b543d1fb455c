"""Forward processes. Those of tokens (``ForwardProcess``) go by name: each has a class, a YAML in
``configs/forward_process``, a line below. Those of real numbers (``LinearGaussian``,
``StraightPath``) belong to the algorithms that use them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from discrete_diffusion.forward_process.absorbing import Absorbing
from discrete_diffusion.forward_process.base import ForwardProcess
from discrete_diffusion.forward_process.checking import check_process as check_process
from discrete_diffusion.forward_process.gaussian import LinearGaussian as LinearGaussian
from discrete_diffusion.forward_process.gaussian import StraightPath as StraightPath
from discrete_diffusion.forward_process.hybrid import Hybrid
from discrete_diffusion.forward_process.interpolating import (
    InterpolatingProcess as InterpolatingProcess,
)
from discrete_diffusion.forward_process.matrix import Matrix
from discrete_diffusion.forward_process.uniform import Marginal, Uniform
from discrete_diffusion.layout import TokenLayout
from discrete_diffusion.naming import check_name
from discrete_diffusion.noise_schedules import Schedule
from discrete_diffusion.options import check_options

_PROCESS_BUILDERS: dict[str, Callable[..., ForwardProcess]] = {
    process.name: process for process in (Absorbing, Uniform, Marginal, Hybrid, Matrix)
}


def build_forward_process(
    config: Mapping[str, Any], layout: TokenLayout, schedule: Schedule
) -> ForwardProcess:
    """The process ``config["name"]``, its other keys passed as arguments.

    Raises ``ValueError`` for an unknown process, or an option that it does not have.
    """
    options = dict(config)
    name = options.pop("name")
    check_name("forward process", name, _PROCESS_BUILDERS)
    check_options("forward_process", name, _PROCESS_BUILDERS[name], options, given=2)
    return _PROCESS_BUILDERS[name](layout, schedule, **options)
