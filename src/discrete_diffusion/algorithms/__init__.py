"""Algorithms by name. Each has a class file, a YAML in ``configs/algo``, a line below."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from discrete_diffusion.algorithms.ar import AR
from discrete_diffusion.algorithms.base import Algorithm
from discrete_diffusion.algorithms.bd3lm import BD3LM
from discrete_diffusion.algorithms.bounds import general_bound
from discrete_diffusion.algorithms.d3pm import D3PM
from discrete_diffusion.algorithms.gidd import GIDD
from discrete_diffusion.algorithms.marginal import MarginalDiffusion
from discrete_diffusion.algorithms.mdlm import MDLM
from discrete_diffusion.algorithms.meld import MELD
from discrete_diffusion.algorithms.sedd import SEDD
from discrete_diffusion.algorithms.udlm import UDLM
from discrete_diffusion.forward_process import build_forward_process
from discrete_diffusion.layout import build_layout
from discrete_diffusion.models.registry import (
    backbone_spec,
    build_backbone,
    usable_backbones,
)
from discrete_diffusion.naming import unknown_name
from discrete_diffusion.noise_schedules import build_schedule
from discrete_diffusion.options import check_options

if TYPE_CHECKING:
    from omegaconf import DictConfig

_ALGORITHM_BUILDERS: dict[str, Callable[..., Algorithm]] = {
    "mdlm": MDLM,
    "udlm": UDLM,
    "marginal": MarginalDiffusion,
    "gidd": GIDD,
    "sedd": SEDD,
    "d3pm": D3PM,
    "bd3lm": BD3LM,
    "ar": AR,
    "meld": MELD,
}

_BACKBONE_KEYS = ("backbone", "causal_attention")
"""Keys of ``config.algo`` that the backbone's builder reads; the rest are constructor arguments."""


def build_algorithm(config: DictConfig) -> Algorithm:
    """The algorithm of a composed config, with its backbone, process and schedule.

    ``config.algo`` holds ``name``, ``backbone`` and the constructor arguments of the algorithm;
    ``config.noise`` and ``config.forward_process`` name the schedule and the process.

    Raises ``ValueError`` naming the fix if the parts do not fit each other, or for an option that
    the chosen one does not have.
    """
    options = {key: value for key, value in config.algo.items() if key not in _BACKBONE_KEYS}
    name, backbone_name = options.pop("name"), config.algo.backbone
    if name not in _ALGORITHM_BUILDERS:
        raise ValueError(unknown_name("algorithm", name, _ALGORITHM_BUILDERS))
    check_options("algo", name, _ALGORITHM_BUILDERS[name], options, given=2)
    spec = backbone_spec(backbone_name)
    if spec.state != "tokens":
        raise ValueError(
            f"{name} works on tokens, but backbone '{backbone_name}' works on {spec.state}"
        )
    needs = getattr(_ALGORITHM_BUILDERS[name], "backbone_needs", ())
    if not spec.offers(needs):
        able = " or algo.backbone=".join(usable_backbones(needs)) or "one that does"
        raise ValueError(
            f"{name} needs a backbone that offers {', '.join(needs)}, and '{backbone_name}' does "
            f"not; choose algo.backbone={able}"
        )
    layout = build_layout(config.data)
    schedule = build_schedule(config.noise, layout)
    process = build_forward_process(config.forward_process, layout, schedule)
    backbone = build_backbone(config, layout.vocab_size)
    return _ALGORITHM_BUILDERS[name](backbone, process, **options)


__all__ = [
    "AR",
    "BD3LM",
    "D3PM",
    "GIDD",
    "MDLM",
    "MELD",
    "SEDD",
    "UDLM",
    "Algorithm",
    "MarginalDiffusion",
    "build_algorithm",
    "general_bound",
]
