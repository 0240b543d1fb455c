"""``build_algorithm``: an algorithm with its backbone, process and schedule, from a config."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from discrete_diffusion.algorithms.registry import ALGORITHMS, algorithm_state, algorithms_on
from discrete_diffusion.config.constructors import build_part
from discrete_diffusion.domains.registry import build_layout, data_state, domain_of
from discrete_diffusion.forward_process.registry import build_forward_process
from discrete_diffusion.models.registry import (
    BackboneSpec,
    backbone_spec,
    build_backbone,
    usable_backbones,
)
from discrete_diffusion.noise_schedules.registry import build_schedule

if TYPE_CHECKING:
    from omegaconf import DictConfig
    from torch import nn

    from discrete_diffusion.algorithms.base import Algorithm

BACKBONE_KEYS = ("backbone", "causal_attention")
"""Keys of ``config.algo`` that the backbone's builder reads; the rest are constructor arguments."""


def build_algorithm(config: DictConfig) -> Algorithm:
    """The algorithm of a composed config, with its backbone, process and schedule.

    ``config.algo`` holds ``name``, ``backbone`` and the constructor arguments of the algorithm;
    ``config.noise`` and ``config.forward_process`` name the schedule and the process.

    Raises ``ValueError`` naming the fix if they do not fit each other, for an unknown option, or if
    the backbone requires a condition that nothing gives.
    """
    from discrete_diffusion.models.calling import OWN_CONDITIONS

    check_states(config)
    algorithm = _built(config)
    declared = {*(backbone_spec(config.algo.backbone).conditions or ())} - OWN_CONDITIONS
    algorithm.check_conditions({*domain_of(config.data).conditions(config.data), *declared})
    return algorithm


def _built(config: DictConfig) -> Algorithm:
    options = {key: value for key, value in config.algo.items() if key not in BACKBONE_KEYS}
    state = data_state(config.data)
    size = _size(config.data, state)
    backbone = build_backbone(config, size)
    spec = backbone_spec(config.algo.backbone)
    if spec.conditions is None:
        _check_needs(config, replace(spec, conditions=_conditions_of(backbone, state)))
    num, keys = given_to(state)
    options |= {key: size if key == "num_features" else config.data[key] for key in keys}
    given = [backbone]
    if num > 1:
        layout = build_layout(config.data)
        schedule = build_schedule(config.noise, layout)
        given.append(build_forward_process(config.forward_process, layout, schedule))
    algorithm: Algorithm = build_part("algo", ALGORITHMS, options, *given)
    return algorithm


def given_to(state: str) -> tuple[int, tuple[str, ...]]:
    """Arguments of an algorithm that no config gives: how many first ones, which are the backbone
    and, unless samples are images or latents, the process; and those that the data decide."""
    keys = {
        "field": ("channels",),
        "latent": ("eos_id", "pad_id", "source_pad_id"),
        "features": ("num_features",),
    }
    return (1 if state in ("field", "latent") else 2), keys.get(state, ())


def _conditions_of(backbone: nn.Module, state: str) -> tuple[str, ...]:
    """Conditions that the signature of ``forward`` names; of one that takes any, those that
    algorithms give."""
    from discrete_diffusion.models.calling import OWN_CONDITIONS, BackboneCall

    if state == "latent":  # whose parts are called
        return ()
    call = BackboneCall.of(backbone)
    of_algorithms = OWN_CONDITIONS - {"condition"} if call.takes_any else frozenset()
    return tuple(sorted(call.conditions | of_algorithms))


def _size(data_config: Mapping[str, Any], state: str) -> int:
    """Number of ids, features or channels that a backbone predicts; of latents, target ids."""
    if state == "tokens":
        return build_layout(data_config).vocab_size
    key = {"features": "num_features", "field": "channels", "latent": "vocab_size"}[state]
    if data_config.get(key) is None:
        raise ValueError(
            f"data.{key} is not set; give it, or call complete_data(config), which reads it off "
            "the data"
        )
    return int(data_config[key])


def check_states(config: DictConfig) -> None:
    """Raise ``ValueError``, naming what fits, for an unknown algorithm or backbone, and if one of
    algorithm, backbone and data works on another state than the others, or the backbone is known
    to lack what the algorithm needs, or ``condition_dropout`` does. Imports no torch."""
    name, spec = config.algo.name, backbone_spec(config.algo.backbone)
    algorithm = ALGORITHMS.entry(name)
    state, held = algorithm_state(name), data_state(config.data)
    if held != state:
        raise ValueError(
            f"data={config.data.name} holds {held}, but algo={name} works on {state}; for this "
            f"data choose algo={' or algo='.join(algorithms_on(held))}"
        )
    needs = getattr(algorithm, "backbone_needs", ())
    able = " or algo.backbone=".join(usable_backbones(needs, state)) or "one that does"
    if spec.state != state:
        raise ValueError(
            f"{name} works on {state}, but backbone '{spec.name}' works on {spec.state}; choose "
            f"algo.backbone={able}"
        )
    _check_needs(config, spec)


class UnmetNeedsError(ValueError):
    """Refusal of a backbone for an unmet need of the algorithm."""


def _check_needs(config: DictConfig, spec: BackboneSpec) -> None:
    """``UnmetNeedsError`` if a backbone lacks what the algorithm, the data or ``condition_dropout``
    needs. Conditions that are not declared are checked when the network is built."""
    name, state, undeclared = config.algo.name, spec.state, spec.conditions is None
    needs = getattr(ALGORITHMS.entry(name), "backbone_needs", ())
    if undeclared:
        needs = tuple(need for need in needs if need == "causal")
    if not spec.offers(needs):
        able = " or algo.backbone=".join(usable_backbones(needs, state)) or "one that does"
        raise UnmetNeedsError(
            f"{name} needs a backbone that offers {', '.join(needs)}, and '{spec.name}' does "
            f"not; choose algo.backbone={able}, or, {_how_to_offer(needs)}"
        )
    if undeclared:
        return
    _check_conditions(config, spec)
    if config.algo.get("condition_dropout") and not spec.offers(("keep",)):
        able = "".join(f"algo.backbone={x} or " for x in usable_backbones((*needs, "keep"), state))
        raise UnmetNeedsError(
            f"algo.condition_dropout={config.algo.condition_dropout} needs a backbone that offers "
            f"keep, and '{spec.name}' does not; take {able}algo.condition_dropout=0"
        )


def _how_to_offer(needs: Collection[str]) -> str:
    """Lines to write in a network of one's own so that it offers what an algorithm ``needs``."""
    named = [name for name in needs if name != "causal"]
    listed = " and ".join(named)
    do = [f"add {listed} to forward, and to conditions= where you register any"] if named else []
    do += ["write register_backbone(NAME, causal=True)"] if "causal" in needs else []
    return f"in a network of your own, {' and '.join(do)}"


def _check_conditions(config: DictConfig, spec: BackboneSpec) -> None:
    """``ValueError`` where ``data.condition``, the backbone and ``condition_dropout`` disagree."""
    data, dropout = config.data, config.algo.get("condition_dropout")
    for key, name in domain_of(data).needed_conditions.items():
        if data.get(key) and not spec.offers((name,)):
            able = (
                " or algo.backbone=".join(usable_backbones((name,), spec.state)) or "one that does"
            )
            raise ValueError(
                f"data.{key}=true needs a backbone that takes {name}, and '{spec.name}' does "
                f"not; choose algo.backbone={able}, or leave it out; {_how_to_offer((name,))}"
            )
    facts = data.get("condition") if "condition" in domain_of(data).conditions(data) else None
    shown = f"data.condition=[{','.join(map(str, facts or ()))}]"
    if facts and not spec.offers(("condition",)):
        able = "".join(f"algo.backbone={x} or " for x in usable_backbones(("condition",)))
        raise ValueError(
            f"{shown} needs a backbone that offers condition, and '{spec.name}' does not; take "
            f"{able}data.condition=null"
        )
    if facts and not dropout:
        raise ValueError(
            f"{shown} needs a model that also predicts without it, for samples whose facts are "
            "not known; set algo.condition_dropout=0.1"
        )
    if dropout and not facts and spec.offers(("condition",)):
        raise ValueError(
            f"algo.condition_dropout={dropout}: '{spec.name}' has no condition that could be "
            "dropped; set data.condition=[...], where the data has it, or algo.condition_dropout=0"
        )
