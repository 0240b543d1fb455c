"""Configs of the cells of an algorithm: its data, its sampler, and whatever all cells share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from omegaconf import DictConfig

from discrete_diffusion.algorithms.registry import ALGORITHMS, algorithm_state
from discrete_diffusion.cli.compare.request import key_of
from discrete_diffusion.composing.override_words import written
from discrete_diffusion.config.files import plain
from discrete_diffusion.domains.registry import (
    available_domains,
    complete_data,
    data_state,
    domain_of,
    equivalent_data_sets,
    get_domain,
    graph_vocabulary,
)
from discrete_diffusion.models.calling import OWN_CONDITIONS
from discrete_diffusion.models.registry import backbone_spec, usable_backbones
from discrete_diffusion.sampling.registry import sampler_state

Compose = Callable[[Sequence[str]], DictConfig]
"""Overrides -> the ``train`` config, to be read only."""

_STATES = ("tokens", "field", "latent")
"""States that are compared: ids, and what there are ids of as well."""


@dataclass(frozen=True)
class Recipe:
    """``overrides`` compose the ``train`` config of an algorithm but for its model, backbone and
    options; ``config`` is what they compose. ``is_plain``: what an experiment sets under ``algo``
    was left out.
    """

    overrides: tuple[str, ...]
    config: DictConfig
    is_plain: bool

    @property
    def model(self) -> str:
        """The model preset, before a backbone is chosen."""
        return str(self.config.model.get("name"))

    @property
    def conditions(self) -> tuple[str, ...]:
        """Conditions that the data brings with every sample."""
        return (*domain_of(self.config.data).conditions(self.config.data),)

    @cached_property
    def usable(self) -> list[str]:
        """Backbones that the algorithm can use."""
        name = str(self.config.algo.name)
        needs = getattr(ALGORITHMS.find(name), "backbone_needs", ())
        return usable_backbones(needs, algorithm_state(name))

    def reads(self, backbone: str) -> bool:
        """True if a backbone is made for such data: its state, all that comes with a sample."""
        spec = backbone_spec(backbone)
        return (
            spec.state == data_state(self.config.data)
            and {*(spec.conditions or ())} - OWN_CONDITIONS <= {*self.conditions}
            and spec.offers(self.conditions)
            and (self._is_of_graphs or not spec.graph)
        )

    @cached_property
    def _is_of_graphs(self) -> bool:
        """True if the samples are graphs, of a size that only the data may say."""
        return graph_vocabulary(complete_data(self.config).data) is not None

    def stand_in(self) -> str:
        """The backbone in the place of one that cannot be used, or that is not made for such data:
        ``dit``, the algorithm's own, or the first that can. ``ValueError`` if none can."""
        able = [name for name in self.usable if self.reads(name)]
        for name in ("dit", str(self.config.algo.backbone), *able):
            if name in able:
                return name
        data = f"data={self.config.data.name}"
        if self.conditions:
            data += f" with its {', '.join(self.conditions)}"
        names = ",".join(self.usable)
        others = f"; give backbones=[{names}], which ignore some of it" if names else ""
        raise ValueError(f"no backbone that it can use reads {data}{others}")


def recipes(
    algorithms: Sequence[str], shared: Sequence[str], compose: Compose
) -> dict[str, Recipe]:
    """Recipes by algorithm. ``shared``: the overrides of all cells, no options among them.

    All have the samples of the first one's data, each in the state that it works on. Raises
    ``ValueError`` for an algorithm that works on a state that these samples do not come in.
    """
    configs = {name: compose([*shared, f"algo={name}"]) for name in algorithms}
    names = [str(config.algo.name) for config in configs.values()]
    for name, config in configs.items():
        if (state := algorithm_state(config.algo.name)) not in _STATES:
            raise ValueError(
                f"compare measures algorithms on {', '.join(_STATES[:-1])} and {_STATES[-1]}, and "
                f"{name} works on {state}; train and evaluate {name} by itself"
            )
    found = {}
    for name, config in configs.items():
        words = [*shared, f"algo={name}"]
        if data := _data_words(name, configs[algorithms[0]].data, config, compose):
            words = [w for w in words if key_of(w).split(".")[0] != "data"] + data
        words += (undone := _without_experiment(name, config, shared, compose))
        words += _sampling_words(name, names, compose(words), compose)
        found[name] = Recipe(tuple(words), compose(words), is_plain=bool(undone))
    return found


def _data_words(name: str, base: DictConfig, config: DictConfig, compose: Compose) -> list[str]:
    """Overrides that turn the data of ``config`` into the samples of ``base`` in the state that its
    algorithm works on; none if it is that already."""
    state = algorithm_state(config.algo.name)
    if config.data == base and data_state(base) == state:
        return []
    forms = equivalent_data_sets(base)
    if state not in forms:
        known = " or ".join(f"data={each}" for each in _data_sets_with(state))
        raise ValueError(
            f"{name} works on {state}, and data={base.name} holds {' and '.join(forms)} only; "
            f"choose {known}, the same samples in two states, or other algos="
        )
    own = plain(compose([f"data={forms[state]}"]).data)
    changed = {k: v for k, v in plain(base).items() if k in own and v != own[k] and k != "name"}
    return [f"data={forms[state]}", *(f"data.{key}={written(v)}" for key, v in changed.items())]


def _data_sets_with(state: str) -> list[str]:
    """Data sets whose samples come in two states, one of which this is."""
    return [
        name
        for domain in map(get_domain, available_domains())
        for name in domain.data_sets
        if state in domain.data_sets.values() and len({*domain.data_sets.values()}) > 1
    ]


def _without_experiment(
    name: str, config: DictConfig, shared: Sequence[str], compose: Compose
) -> list[str]:
    """Overrides that undo what an experiment sets under ``algo``, where it is not the algorithm's
    own experiment: a name may mean something else there, and a backbone may not fit."""
    of_experiment = any(key_of(word) == "experiment" for word in shared)
    if not of_experiment or compose(shared).algo.name == config.algo.name:
        return []
    own, found = plain(compose([f"algo={name}"]).algo), plain(config.algo)
    undone = [f"algo.{k}={written(v)}" for k, v in own.items() if found[k] != v]
    return undone + [f"~algo.{key}" for key in found if key not in own]


def _sampling_words(
    name: str, names: Sequence[str], config: DictConfig, compose: Compose
) -> list[str]:
    """Overrides for the sampler of samples that come in two states: the algorithm's own where the
    requested one is for others of the ``names``; of ids with the ``token_steps`` of the domain if
    nothing says otherwise. None for other data."""
    domain, algorithm = domain_of(config.data), str(config.algo.name)
    if len(equivalent_data_sets(config.data)) < 2:
        return []
    asked, words = str(config.sampling.name), []
    if not _fits(asked, algorithm) and any(_fits(asked, other) for other in names):
        config = compose([f"algo={name}", f"data={config.data.name}"])
        config = compose([f"sampling={config.sampling.name}"])
        words = [f"sampling={config.sampling.name}"]
    default = compose([f"sampling={config.sampling.name}"]).sampling.get("steps")
    fewer = domain.token_steps if algorithm_state(algorithm) == "tokens" else None
    unsaid = default is not None and config.sampling.get("steps") == default
    return [*words, f"sampling.steps={fewer}"] if fewer and unsaid else words


def _fits(sampler: str, algorithm: str) -> bool:
    """True if the sampler can sample from what an algorithm trains, noise and times aside."""
    able = getattr(ALGORITHMS.find(algorithm), "samplers", None)
    same_state = sampler_state(sampler) == algorithm_state(algorithm)
    return same_state and (not able or sampler in able)
