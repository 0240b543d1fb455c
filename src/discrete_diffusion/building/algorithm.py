"""An algorithm with its backbone, process and schedule, from a config, and rewards by name.

A reward scores finished samples; ``algo=reward_tuning`` maximises it. Kinds of data have rewards
(``Domain.rewards``). To add one, for samples as ``load(...).sample`` returns them, write

    @register_reward("short")
    def short(samples):
        return [-len(sample) for sample in samples]

in a module that ``plugins=`` names, or as an entry point of the group
``discrete_diffusion.rewards``.
"""

from __future__ import annotations

import math
import reprlib
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import TYPE_CHECKING

from discrete_diffusion.algorithms.registry import ALGORITHMS, algorithm_state, algorithms_on
from discrete_diffusion.config.constructors import build_part
from discrete_diffusion.config.plugins import Registry
from discrete_diffusion.config.values import unknown_name
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
    from torch import Tensor

    from discrete_diffusion.algorithms.base import Algorithm
    from discrete_diffusion.domains.cell_measurement import SampleScore

BACKBONE_KEYS = ("backbone", "causal_attention")
"""Keys of ``config.algo`` that the backbone's builder reads; the rest are constructor arguments."""


REWARDS: Registry[SampleScore] = Registry("reward", "discrete_diffusion.rewards", {})
register_reward = REWARDS.register


def build_algorithm(config: DictConfig) -> Algorithm:
    """Build the algorithm of a composed config, with its backbone, process and schedule.

    ``config.algo`` holds ``name``, ``backbone`` and the constructor arguments of the algorithm;
    ``config.schedule`` and ``config.forward_process`` name the schedule and the process.

    Raises ``ValueError`` naming the remedy if the parts do not fit each other, for an unknown
    option, or if the backbone requires a condition that nothing provides.
    """
    from discrete_diffusion.models.calling import OWN_CONDITIONS, BackboneCall

    check_states(config)
    options = {key: value for key, value in config.algo.items() if key not in BACKBONE_KEYS}
    state = data_state(config.data)
    # ids, features or channels that the backbone predicts; of latents, target ids
    if state == "tokens":
        size = build_layout(config.data).vocab_size
    else:
        key = {"features": "num_features", "field": "channels", "latent": "vocab_size"}[state]
        if config.data.get(key) is None:
            raise ValueError(
                f"data.{key} is not set; give it, or call complete_data(config), which takes it "
                "from the data"
            )
        size = int(config.data[key])

    # the network; one that declares no conditions has those that ``forward`` takes by name
    backbone = build_backbone(config, size)
    spec = backbone_spec(config.algo.backbone)
    if spec.conditions is None:
        conditions: set[str] = set()
        if state != "latent":  # its parts are called, not the whole
            call = BackboneCall.of(backbone)
            conditions |= call.conditions
            conditions |= OWN_CONDITIONS - {"condition"} if call.takes_any else set()
        _check_needs(config, replace(spec, conditions=tuple(sorted(conditions))))

    # the process, where the state has one, and the algorithm
    num, keys = given_to(state)
    options |= {key: size if key == "num_features" else config.data[key] for key in keys}
    given = [backbone]
    if num > 1:
        layout = build_layout(config.data)
        schedule = build_schedule(config.schedule, layout)
        given.append(build_forward_process(config.forward_process, layout, schedule))
    algorithm: Algorithm = build_part("algo", ALGORITHMS, options, *given)
    # conditions of the data, and those the backbone declares
    declared = {*(spec.conditions or ())} - OWN_CONDITIONS
    algorithm.check_conditions({*domain_of(config.data).conditions(config.data), *declared})
    return algorithm


def given_to(state: str) -> tuple[int, tuple[str, ...]]:
    """Arguments of an algorithm that its config does not set: number of positional ones, data keys.

    The positional arguments are the backbone and, unless samples are images or latents, the
    process.
    """
    keys = {
        "field": ("channels",),
        "latent": ("eos_id", "pad_id", "source_pad_id"),
        "features": ("num_features",),
    }
    return (1 if state in ("field", "latent") else 2), keys.get(state, ())


def check_states(config: DictConfig) -> None:
    """Check that algorithm, backbone and data exist and work on the same state. Imports no torch.

    Raises ``ValueError``, naming what fits, also if the backbone is known to lack something that
    the algorithm or ``condition_dropout`` needs.
    """
    # data and algorithm
    name, spec = config.algo.name, backbone_spec(config.algo.backbone)
    algorithm = ALGORITHMS.entry(name)
    state, held = algorithm_state(name), data_state(config.data)
    if held != state:
        raise ValueError(
            f"data={config.data.name} holds {held}, but algo={name} works on {state}; for this "
            f"data choose algo={' or algo='.join(algorithms_on(held))}"
        )
    # algorithm and backbone
    needs = getattr(algorithm, "backbone_needs", ())
    if spec.state != state:
        raise ValueError(
            f"{name} works on {state}, but backbone '{spec.name}' works on {spec.state}; choose "
            f"{_backbones_with(needs, state)}"
        )
    _check_needs(config, spec)


class UnmetNeedsError(ValueError):
    """Error for a backbone that lacks something the algorithm needs."""


def _check_needs(config: DictConfig, spec: BackboneSpec) -> None:
    """Check that a backbone provides what the algorithm, the data and ``condition_dropout`` need.

    Raises ``UnmetNeedsError``, or ``ValueError`` for the data. Conditions that the backbone's
    registration does not declare are checked when the network is built.
    """
    # undeclared conditions are not known yet
    name, state, undeclared = config.algo.name, spec.state, spec.conditions is None
    needs = getattr(ALGORITHMS.entry(name), "backbone_needs", ())
    if undeclared:
        needs = tuple(need for need in needs if need == "causal")
    # needs of the algorithm
    if not spec.offers(needs):
        raise UnmetNeedsError(
            f"{name} needs a backbone that offers {', '.join(needs)}, and '{spec.name}' does "
            f"not; choose {_backbones_with(needs, state)}, or, {_offer_hint(needs)}"
        )
    if undeclared:
        return
    # needs of the data, and of dropped conditions
    _check_conditions(config, spec)
    if config.algo.get("condition_dropout") and not spec.offers(("keep",)):
        able = "".join(f"algo.backbone={x} or " for x in usable_backbones((*needs, "keep"), state))
        raise UnmetNeedsError(
            f"algo.condition_dropout={config.algo.condition_dropout} needs a backbone that offers "
            f"keep, and '{spec.name}' does not; take {able}algo.condition_dropout=0"
        )


def _backbones_with(needs: Collection[str], state: str) -> str:
    names = usable_backbones(needs, state) or ["one that does"]
    return " or ".join(f"algo.backbone={name}" for name in names)


def _offer_hint(needs: Collection[str]) -> str:
    """Hint how to change a user's network so that it provides the ``needs`` of an algorithm."""
    named = [name for name in needs if name != "causal"]
    listed = " and ".join(named)
    do = [f"add {listed} to forward, and to conditions= where you register any"] if named else []
    do += ["write register_backbone(NAME, causal=True)"] if "causal" in needs else []
    return f"in a network of your own, {' and '.join(do)}"


def _check_conditions(config: DictConfig, spec: BackboneSpec) -> None:
    """Raise ``ValueError`` if conditions of the data, backbone and dropout do not fit together."""
    data, dropout = config.data, config.algo.get("condition_dropout")
    # conditions that some data cannot do without
    for key, name in domain_of(data).needed_conditions.items():
        if data.get(key) and not spec.offers((name,)):
            raise ValueError(
                f"data.{key}=true needs a backbone that takes {name}, and '{spec.name}' does not; "
                f"choose {_backbones_with((name,), spec.state)}, or leave it out; "
                f"{_offer_hint((name,))}"
            )

    # facts of samples need a backbone that reads them, and training without them
    facts = data.get("condition_on") if "condition" in domain_of(data).conditions(data) else None
    shown = f"data.condition_on=[{','.join(map(str, facts or ()))}]"
    if facts and not spec.offers(("condition",)):
        able = "".join(f"algo.backbone={x} or " for x in usable_backbones(("condition",)))
        raise ValueError(
            f"{shown} needs a backbone that offers condition, and '{spec.name}' does not; take "
            f"{able}data.condition_on=null"
        )
    if facts and not dropout:
        raise ValueError(
            f"{shown} needs a model that also predicts without it, for samples whose facts are "
            "not known; set algo.condition_dropout=0.1"
        )
    if dropout and not facts and spec.offers(("condition",)):
        raise ValueError(
            f"algo.condition_dropout={dropout}: '{spec.name}' has no condition that could be "
            "dropped; set data.condition_on=[...], where the data has it, or "
            "algo.condition_dropout=0"
        )


def reward_of(config: DictConfig) -> Callable[[Tensor], Tensor]:
    """Find the reward that ``algo.reward`` names in a completed ``train`` config.

    Returns a function from samples Int[B, L] on any device to scores Float64[B] on the CPU. A
    sample with an unknown score, such as a plan that the solver gave up, scores 0. The function
    raises ``ValueError`` for scores that are not finite numbers, one for each sample.

    Raises ``ValueError`` for an unknown name, with the closest one.
    """
    # rewards of users and packages, then those of the data
    name, domain = config.algo.get("reward"), domain_of(config.data)
    known = {**REWARDS.all(), **domain.rewards(config.data, name)}
    if name not in known:
        raise ValueError(unknown_name("reward", str(name), known))
    score = known[name]

    def score_tokens(tokens: Tensor) -> Tensor:
        import torch

        scores = score(domain.decode(config.data, tokens.cpu()))
        # one finite number for each sample
        try:
            values = [float(each or 0) for each in scores]
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"reward={name} returned {reprlib.repr(scores)}; expected a number for each of "
                f"{len(tokens)} samples"
            ) from error
        if len(values) != len(tokens):
            raise ValueError(
                f"reward={name} gave {len(values)} scores for {len(tokens)} samples; it returns "
                "one for each"
            )
        if wrong := [k for k, value in enumerate(values) if not math.isfinite(value)]:
            raise ValueError(
                f"reward={name} gave {values[wrong[0]]} for sample {wrong[0]}; expected finite "
                "numbers"
            )
        return torch.tensor(values, dtype=torch.float64)

    return score_tokens
