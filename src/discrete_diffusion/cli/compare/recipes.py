"""What the cells of an algorithm compose: its data, its sampler, and whatever all cells share."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from omegaconf import DictConfig, OmegaConf

from discrete_diffusion.cli.compare.arguments import key_of
from discrete_diffusion.cli.compose import quoted
from discrete_diffusion.config_files import plain
from discrete_diffusion.domains import (
    available_domains,
    data_state,
    domain_of,
    get_domain,
)
from discrete_diffusion.models.calling import OWN_CONDITIONS
from discrete_diffusion.models.registry import backbone_spec, usable_backbones

Compose = Callable[[Sequence[str]], DictConfig]
"""Overrides -> the ``train`` config, to be read only."""

_STATES = ("tokens", "field", "latent")
"""What is compared: ids, and what there are ids of as well."""

_FALLBACK = "dit"
"""The backbone that stands in, if it can, where the one asked for cannot be used."""


@dataclass(frozen=True)
class Recipe:
    """``overrides`` compose the ``train`` config of an algorithm but for its model, backbone and
    options; ``config`` is what they compose. ``needs``: what its backbone must offer.
    ``is_plain``: what an experiment sets under ``algo`` was left out.
    """

    state: str
    needs: tuple[str, ...]
    overrides: tuple[str, ...]
    config: DictConfig
    is_plain: bool

    @property
    def conditions(self) -> tuple[str, ...]:
        """What the data brings with every sample."""
        return domain_of(self.config.data).conditions(self.config.data)

    @cached_property
    def usable(self) -> list[str]:
        """Backbones that the algorithm can use."""
        return usable_backbones(self.needs, self.state)

    def reads(self, backbone: str) -> bool:
        """True if a backbone is made for such data: its state, all that comes with a sample."""
        spec, data = backbone_spec(backbone), self.config.data
        if spec.graph and domain_of(data).graph(data) is None:
            return False
        needed = {*spec.conditions} - OWN_CONDITIONS
        there = needed <= {*self.conditions}
        return there and spec.state == self.state and spec.offers(self.conditions)

    @cached_property
    def stand_in(self) -> str | None:
        """The backbone in the place of one that cannot be used, or that is not made for such data:
        ``dit``, the algorithm's own, or the first that can. None if none can."""
        able = [name for name in self.usable if self.reads(name)]
        wanted = (_FALLBACK, str(self.config.algo.backbone), *able)
        return next((name for name in wanted if name in able), None)


def recipes(
    algorithms: Sequence[str], shared: Sequence[str], compose: Compose
) -> dict[str, Recipe]:
    """By algorithm. ``shared``: the overrides of all cells, no options among them.

    All have the samples of the first one's data, each in the state that it works on. Raises
    ``ValueError`` for an algorithm that works on a state that these samples do not come in.
    """
    composed = {name: compose([*shared, f"algo={name}"]) for name in algorithms}
    kinds = {name: _kind(str(config.algo.name)) for name, config in composed.items()}
    for name, kind in kinds.items():
        if _state(kind) not in _STATES:
            raise ValueError(
                f"compare measures algorithms on {', '.join(_STATES[:-1])} and {_STATES[-1]}, and "
                f"{name} works on {_state(kind)}; train and evaluate {name} by itself"
            )
    base = composed[algorithms[0]].data
    return {
        name: _recipe(name, kind, kinds.values(), base, shared, compose)
        for name, kind in kinds.items()
    }


def _recipe(
    name: str,
    kind: Any,
    kinds: Collection[Any],
    base: DictConfig,
    shared: Sequence[str],
    compose: Compose,
) -> Recipe:
    words = [*shared, f"algo={name}"]
    config = compose(words)
    if data := _data_words(name, _state(kind), base, config.data, compose):
        words = [w for w in words if key_of(w).split(".")[0] != "data"] + data
    others = _of_experiment(config, shared, compose, name)
    words += others
    words += _sampling_words(name, kind, kinds, compose(words), compose)
    return Recipe(
        state=_state(kind),
        needs=getattr(kind, "backbone_needs", ()),
        overrides=tuple(words),
        config=compose(words),
        is_plain=bool(others),
    )


def _of_experiment(
    config: DictConfig, shared: Sequence[str], compose: Compose, name: str
) -> list[str]:
    """Overrides that undo what an experiment sets under ``algo``, where it is not the algorithm's
    own experiment: a name may mean something else there, and a backbone may not fit."""
    if not any(key_of(word) == "experiment" for word in shared):
        return []
    if compose(shared).algo.name == config.algo.name:
        return []
    own, found = plain(compose([f"algo={name}"]).algo), plain(config.algo)
    undone = [f"algo.{k}={_word(v)}" for k, v in own.items() if found[k] != v]
    return undone + [f"~algo.{key}" for key in found if key not in own]


def _data_words(
    name: str, state: str, base: DictConfig, composed: DictConfig, compose: Compose
) -> list[str]:
    """Overrides that turn ``composed`` into the samples of ``base`` in the state that an algorithm
    works on; none if it is that already."""
    if composed == base and data_state(base) == state:
        return []
    forms = domain_of(base).forms(base)
    wanted = forms.get(state)
    if wanted is None:
        known = " or ".join(f"data={each}" for each in _with_form(state))
        raise ValueError(
            f"{name} works on {state}, and data={base.name} holds {' and '.join(forms)} only; "
            f"choose {known}, the same samples in two states, or other algos="
        )
    own = dict(OmegaConf.to_container(compose([f"data={wanted}"]).data))  # type: ignore[arg-type]
    values = plain(base).items()
    changed = {key: value for key, value in values if key in own and value != own[key]}
    changed.pop("name", None)
    return [f"data={wanted}", *(f"data.{key}={_word(value)}" for key, value in changed.items())]


def _with_form(state: str) -> list[str]:
    """Data sets whose samples come in two states, one of which this is."""
    return [
        name
        for domain in map(get_domain, available_domains())
        for name in domain.data_sets
        if state in domain.data_sets.values() and len({*domain.data_sets.values()}) > 1
    ]


def _word(value: object) -> str:
    """A value as Hydra reads it back."""
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, list):
        return f"[{','.join(map(_word, value))}]"
    return "null" if value is None else str(value)


def _sampling_words(
    name: str, kind: Any, kinds: Collection[Any], config: DictConfig, compose: Compose
) -> list[str]:
    """Overrides for the sampler of samples that come in two states: the algorithm's own where the
    one asked for is for others; of ids with the
    ``token_steps`` of the domain if nothing says otherwise. None for other data."""
    domain = domain_of(config.data)
    if len(domain.forms(config.data)) < 2:
        return []
    asked = sampler = str(config.sampling.name)
    if not _fits(asked, kind) and any(_fits(asked, other) for other in kinds):
        sampler = str(compose([f"algo={name}", f"data={config.data.name}"]).sampling.name)
    default = compose([f"sampling={sampler}"]).sampling.get("default_steps")
    steps = default if sampler != asked else config.sampling.get("default_steps")
    words = [f"sampling={sampler}"] if sampler != asked else []
    fewer = domain.token_steps if _state(kind) == "tokens" else None
    if fewer is not None and default is not None and steps == default:
        words.append(f"sampling.default_steps={fewer}")
    return words


def _fits(sampler: str, kind: Any) -> bool:
    """True if the sampler can draw from what an algorithm trains, noise and times aside."""
    from discrete_diffusion.sampling import sampler_state

    able = getattr(kind, "samplers", None)
    return sampler_state(sampler) == _state(kind) and (not able or sampler in able)


def _kind(name: str) -> Any:
    """The builder of an algorithm, which says what it works on and needs."""
    from discrete_diffusion.algorithms import ALGORITHMS

    return ALGORITHMS.find(name)


def _state(kind: Any) -> str:
    return str(getattr(kind, "state", "tokens"))
