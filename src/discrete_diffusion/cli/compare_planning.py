"""Plan of a comparison: configs and sizes of the cells, and reasons why cells are refused."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import product
from pathlib import Path

import torch
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from discrete_diffusion.algorithms.registry import ALGORITHMS, algorithm_state
from discrete_diffusion.api.cells import Cell
from discrete_diffusion.building.algorithm import UnmetNeedsError, build_algorithm
from discrete_diffusion.building.backbones import apart, are_equal, parameter_counts, value_for
from discrete_diffusion.cli.errors import explain_hydra_error
from discrete_diffusion.cli.train import check_values
from discrete_diffusion.composing.compose import compose_plainly
from discrete_diffusion.composing.search_path import (
    chooses_model,
    fitting_presets,
    is_option,
    key_of,
    model_presets,
    written,
)
from discrete_diffusion.config.constructors import check_kinds, check_scaling
from discrete_diffusion.config.files import plain
from discrete_diffusion.config.values import unknown_name
from discrete_diffusion.domains.registry import (
    available_domains,
    complete_data,
    data_state,
    domain_of,
    equivalent_data_sets,
    get_domain,
    graph_vocabulary,
)
from discrete_diffusion.evaluation.comparison import short_names
from discrete_diffusion.models.registry import available_backbones, backbone_spec, usable_backbones
from discrete_diffusion.sampling.registry import build_sampler, check_sampler, sampler_state

Compose = Callable[[Sequence[str]], DictConfig]
"""Function from overrides to a ``train`` config, which callers must not change."""

_STATES = ("tokens", "field", "latent")
"""States that can be compared: token ids, and states of samples that are also available as ids."""


_NO_SETTINGS = {
    *("name", "backbone", "backbones", "parameters", "counted_at", "counted_with", "scales_with"),
}
"""Keys that describe a config section and are not settings."""


@dataclass(frozen=True)
class Recipe:
    """Shared config of an algorithm's cells, composed by ``overrides`` without model and options.

    ``is_plain``: True if settings of an experiment under ``algo`` were left out."""

    overrides: tuple[str, ...]
    config: DictConfig
    is_plain: bool

    @property
    def model(self) -> str:
        """Name of the model preset before a backbone is chosen."""
        return str(self.config.model.get("name"))

    @property
    def conditions(self) -> tuple[str, ...]:
        """Names of the conditions that every sample of the data has."""
        return (*domain_of(self.config.data).conditions(self.config.data),)

    @cached_property
    def usable(self) -> list[str]:
        """Names of the backbones that fit the algorithm."""
        name = str(self.config.algo.name)
        needs = getattr(ALGORITHMS.find(name), "backbone_needs", ())
        return usable_backbones(needs, algorithm_state(name))

    def reads(self, backbone: str) -> bool:
        """True if a backbone can read the state and the conditions of the samples."""
        from discrete_diffusion.models.calling import OWN_CONDITIONS

        spec = backbone_spec(backbone)
        of_graphs = graph_vocabulary(complete_data(self.config).data) is not None
        return (
            spec.state == data_state(self.config.data)
            and {*(spec.conditions or ())} - OWN_CONDITIONS <= {*self.conditions}
            and spec.offers(self.conditions)
            and (of_graphs or not spec.graph)
        )

    def stand_in(self) -> str:
        """Choose a backbone in place of one that does not fit; ``ValueError`` if none fits."""
        # backbones that the algorithm can use and that read the data
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
    """Make the recipe of each algorithm, all with the samples of the first recipe's data.

    Raises ``ValueError`` if these samples are not available in the state of an algorithm."""
    configs = {name: compose([*shared, f"algo={name}"]) for name in algorithms}
    names = [str(config.algo.name) for config in configs.values()]
    for name, config in configs.items():
        # samples that are features cannot be compared
        if (state := algorithm_state(config.algo.name)) not in _STATES:
            raise ValueError(
                f"compare measures algorithms on {', '.join(_STATES[:-1])} and {_STATES[-1]}, and "
                f"{name} works on {state}; train and evaluate {name} by itself"
            )
    # data, undone settings of an experiment, then a sampler
    found = {}
    for name, config in configs.items():
        words = [*shared, f"algo={name}"]
        if data := _data_words(name, configs[algorithms[0]].data, config, compose):
            words = [w for w in words if key_of(w).split(".")[0] != "data"] + data
        words += (undone := _undo_experiment(name, config, shared, compose))
        words += _sampling_words(name, names, compose(words), compose)
        found[name] = Recipe(tuple(words), compose(words), is_plain=bool(undone))
    return found


def _data_words(name: str, base: DictConfig, config: DictConfig, compose: Compose) -> list[str]:
    """Overrides that make ``config`` use the same data as ``base``, in its algorithm's state."""
    state = algorithm_state(config.algo.name)
    if config.data == base and data_state(base) == state:
        return []
    forms = equivalent_data_sets(base)
    if state not in forms:
        # data sets whose samples are available in this state and in another
        known = " or ".join(
            f"data={each}"
            for domain in map(get_domain, available_domains())
            for each in domain.data_sets
            if state in domain.data_sets.values() and len({*domain.data_sets.values()}) > 1
        )
        raise ValueError(
            f"{name} works on {state}, and data={base.name} holds {' and '.join(forms)} only; "
            f"choose {known}, the same samples in two states, or other algos="
        )
    # keys of the data that were changed from their defaults
    own = plain(compose([f"data={forms[state]}"]).data)
    changed = {k: v for k, v in plain(base).items() if k in own and v != own[k] and k != "name"}
    return [f"data={forms[state]}", *(f"data.{key}={written(v)}" for key, v in changed.items())]


def _undo_experiment(
    name: str, config: DictConfig, shared: Sequence[str], compose: Compose
) -> list[str]:
    """Overrides that undo an experiment's settings under ``algo`` for another algorithm."""
    of_experiment = any(key_of(word) == "experiment" for word in shared)
    if not of_experiment or compose(shared).algo.name == config.algo.name:
        return []
    # keys that the experiment changed, and keys that it added
    own, found = plain(compose([f"algo={name}"]).algo), plain(config.algo)
    undone = [f"algo.{k}={written(v)}" for k, v in own.items() if found[k] != v]
    return undone + [f"~algo.{key}" for key in found if key not in own]


def _sampling_words(
    name: str, names: Sequence[str], config: DictConfig, compose: Compose
) -> list[str]:
    """Return overrides of the sampler for data whose samples are available in two states."""
    domain, algorithm = domain_of(config.data), str(config.algo.name)
    if len(equivalent_data_sets(config.data)) < 2:
        return []
    asked, words = str(config.sampling.name), []
    # the default sampler of the algorithm
    if not _fits(asked, algorithm) and any(_fits(asked, other) for other in names):
        config = compose([f"algo={name}", f"data={config.data.name}"])
        config = compose([f"sampling={config.sampling.name}"])
        words = [f"sampling={config.sampling.name}"]
    # steps of the sampler, unless they are given
    default = compose([f"sampling={config.sampling.name}"]).sampling.get("steps")
    fewer = domain.token_steps if algorithm_state(algorithm) == "tokens" else None
    unsaid = default is not None and config.sampling.get("steps") == default
    return [*words, f"sampling.steps={fewer}"] if fewer and unsaid else words


def _fits(sampler: str, algorithm: str) -> bool:
    """True if the sampler fits an algorithm's state and its list of samplers."""
    able = getattr(ALGORITHMS.find(algorithm), "samplers", None)
    same_state = sampler_state(sampler) == algorithm_state(algorithm)
    return same_state and (not able or sampler in able)


logger = logging.getLogger(__name__)


def plan_cells(
    config: DictConfig, overrides: Sequence[str], user_dir: Path | None = None
) -> list[Cell]:
    """Plan all cells in the order of the table, and check them on the meta device.

    Raises ``ValueError`` listing all refused cells, or for an algorithm whose state the samples are
    not available in."""
    # one cell per algorithm and backbone, without duplicates
    planner = _Planner(config, overrides, user_dir)
    cells: list[Cell] = []
    refused: list[str] = []
    # refusals are collected, so that all are named at once
    pairs = list(product(config.algos, config.backbones or [None]))
    for algorithm, backbone in pairs:
        try:
            cell = planner.plan(algorithm, backbone, cells[0].parameters if cells else None)
        except ValueError as error:
            pair = algorithm if backbone is None else f"{algorithm} with {backbone}"
            refused.append(f"{pair}: {planner.remedy(str(error).strip())}")
            continue
        if all(cell.name != other.name for other in cells):
            cells.append(cell)
    if refused:
        count, listed = f"{len(refused)} of {len(pairs)}", "\n  ".join(refused)
        raise ValueError(f"compare refuses {count} combinations, and ran none:\n  {listed}")
    # notes for the log: options, presets and sizes
    names = short_names([(c.algorithm, c.backbone) for c in cells], "{} with {}")
    configs = {name: cell.config for name, cell in zip(names, cells, strict=True)}
    for line in (*planner.notes, *option_notes(planner.model_options, configs)):
        logger.info("%s", line)
    # presets and sizes, unless all cells have the preset of the command, unscaled
    named = dict(zip(names, cells, strict=True))
    chosen = [n for n, c in named.items() if planner.model is None or c.preset == planner.model]
    if len(chosen) < len(named):
        logger.info("model=%s: for %s", planner.model, ", ".join(chosen) or "none of them")
    if len(chosen) < len(named) or any(cell.scaled for cell in cells):
        for name, cell in named.items():
            logger.info("%s: model=%s (%s parameters)", name, cell.model, f"{cell.parameters:,}")
    # a cell for each seed
    seeded = []
    for cell, seed in product(cells, config.seeds):
        own = cell.config.copy()
        own.seed = seed
        words = (*cell.overrides, f"seed={seed}")
        seeded.append(replace(cell, seed=seed, config=own, overrides=words))
    return seeded


class _Planner:
    """Planner of one cell at a time. ``notes``: which options apply to which algorithms."""

    def __init__(self, config: DictConfig, overrides: Sequence[str], user_dir: Path | None) -> None:
        self.request, self.user_dir = config, user_dir
        self.tolerance: float | None = config.size_tolerance
        # overrides of all cells, and options of some
        self._compose = lru_cache(maxsize=None)(self._composed)
        self.added = [o for o in overrides if o.startswith("+model.")]
        self.shared = [o for o in overrides if not is_option(o) and o not in self.added]
        self.presets = model_presets(self.user_dir)
        options = [o for o in overrides if is_option(o)]
        self.model_options = [o for o in options if key_of(o).startswith("model.")]
        self.options = [o for o in options if o not in self.model_options]
        # the preset that the command gives
        chosen = [o.split("=")[1] for o in self.shared if chooses_model(o)]
        self.model = chosen[-1] if chosen else None
        # configs by algorithm
        self.recipes = recipes(list(config.algos), self.shared, lambda o: self._compose(tuple(o)))
        configs = {name: recipe.config for name, recipe in self.recipes.items()}
        self.notes = option_notes(self.options, configs)
        if plainly := [name for name, recipe in self.recipes.items() if recipe.is_plain]:
            self.notes.append(
                f"algo settings of the experiment do not apply to {', '.join(plainly)}"
            )

    def remedy(self, refusal: str) -> str:
        """Adapt the advice in an error message of ``train`` to ``compare``."""
        problem, found, _ = refusal.partition("; set forward_process=")
        if found and any(o.startswith("forward_process=") for o in self.shared):
            return f"{problem}; leave forward_process= out, and each algorithm takes its own"
        return re.sub(r"algo\.backbone=([\w-]+)", r"backbones=[\1]", refusal)

    def plan(self, algorithm: str, asked: str | None, size: int | None) -> Cell:
        """Plan a cell without its seed; ``size``: parameters to aim at, None for the first cell."""
        # a backbone that fits
        recipe, instead_of = self.recipes[algorithm], None
        backbone = asked or str(self._compose(tuple(self.shared)).algo.backbone)
        if asked is None and not recipe.reads(backbone):
            backbone = recipe.stand_in()
        wanted = self.model or self._default_model(recipe, backbone)
        if not self._can_use(algorithm, backbone, wanted):
            stated = self.presets.get(wanted)
            size = size or (stated.parameters if stated else 0) or None
            instead_of, backbone = backbone, recipe.stand_in()
        # a preset near the size, then a preset scaled to it
        first, *others = self._candidates(backbone, wanted, size)
        cell = self._build(algorithm, backbone, first)
        # the nearest of the other presets
        for preset in others:
            if self._fits(cell, size):
                break
            other = self._build(algorithm, backbone, preset)
            cell = min(cell, other, key=lambda c: apart(c.parameters, size))
        if size is not None and not self._fits(cell, size):
            cell = self._scaled(cell, size)
        if size is not None and not self._fits(cell, size):
            raise ValueError(self._too_far(cell, size))
        return replace(cell, instead_of=instead_of)

    def _can_use(self, algorithm: str, backbone: str, wanted: str) -> bool:
        """True if the algorithm can use a backbone, which is built if it declares no conditions."""
        recipe, spec = self.recipes[algorithm], backbone_spec(backbone)
        # the registry says which conditions the backbone reads
        if spec.conditions is not None or spec.state != algorithm_state(recipe.config.algo.name):
            return backbone in recipe.usable
        try:
            self._build(algorithm, backbone, self._candidates(backbone, wanted, None)[0])
        except UnmetNeedsError:
            return False
        return True

    def _fits(self, cell: Cell, size: int | None) -> bool:
        return are_equal(cell.parameters, size, self.tolerance)

    def _default_model(self, recipe: Recipe, backbone: str) -> str:
        """Choose a preset that fits the data: the recipe's, another recipe's, the backbone's."""
        known = {*available_backbones()}
        for each in (recipe, *self.recipes.values()):
            preset = self.presets.get(each.model)
            # a preset that does not say which backbones it fits
            if preset is None or not preset.backbones:
                return each.model
            if any(name in known and each.reads(name) for name in preset.backbones):
                return each.model
        return backbone_spec(backbone).preset or recipe.model

    def _candidates(self, backbone: str, wanted: str, size: int | None) -> Sequence[str | None]:
        """Return the presets to try for a backbone, in order; None stands for the recipe's."""
        preset = self.presets.get(wanted)
        # a preset for any backbone
        if preset is None or not preset.backbones:
            return [self.model]
        first = [wanted] if backbone in preset.backbones else []
        if first and self.model == wanted:
            return first
        found = fitting_presets(backbone, self.presets, size or preset.parameters)
        return [*first, *(name for name in found if name not in first)] or [self.model]

    def _scaled(self, cell: Cell, size: int) -> Cell:
        """Scale a cell to about ``size`` parameters by the keys that its preset scales with."""
        assert self.tolerance is not None
        for key in self._scaling_keys(cell):
            # search the value of the key that comes near the size
            count = parameter_counts(cell.config, key)
            start = int(OmegaConf.select(cell.config.model, key))
            value = value_for(size, count, start, self.tolerance)
            if value is not None and value != start:
                scaled = (*cell.scaled, f"{key}={value}")
                cell = self._build(cell.algorithm, cell.backbone, cell.preset, scaled)
            if self._fits(cell, size):
                break
        return cell

    def _scaling_keys(self, cell: Cell) -> list[str]:
        """Keys that scale the cell's preset, except the keys in the command."""
        preset = self.presets.get(cell.preset or "")
        if preset is None:
            return []
        given = {key_of(word) for word in (*self.model_options, *self.added)}
        check_scaling(f"model={preset.name}", plain(cell.config.model))
        return [key for key in preset.scales_with if f"model.{key}" not in given]

    def _too_far(self, cell: Cell, size: int) -> str:
        """Return the message for a cell whose size is not near ``size``, with remedies."""
        preset = self.presets.get(cell.preset or "")
        keys = preset.scales_with if preset else ()
        free = self._scaling_keys(cell)
        if preset is None:
            way = (
                "register it with its sizes and the key that scales them, as in default_model="
                "{'width': 64, 'scales_with': 'width'}, and compare finds its size"
            )
        elif not keys:
            way = (
                f"say in its preset {preset.name} which key scales it, as in scales_with: width, "
                "and compare finds its size; or give model.KEY=... or another model="
            )
        elif not free:
            way = f"leave out {', '.join(f'model.{key}=' for key in keys)}, and compare finds it"
        else:
            way = f"nothing nearer was found by {' and '.join(free)}; give another model="
        return (
            f"{cell.backbone} with model={cell.model} has {cell.parameters:,} parameters, the "
            f"first cell {size:,}: more than {self.tolerance:.0%} apart; {way}, or allow more by "
            "size_tolerance=0.2, any difference by size_tolerance=null"
        )

    def _build(
        self, algorithm: str, backbone: str, preset: str | None, scaled: tuple[str, ...] = ()
    ) -> Cell:
        """Compose a cell and build it on the meta device."""
        # overrides of the cell
        recipe = self.recipes[algorithm]
        model = [] if preset is None else [f"model={preset}"]
        shared = [o for o in recipe.overrides if not chooses_model(o)]
        own = [o for o in self.options if has_key(recipe.config, o)]
        # a preset may have such a key
        added = [f"+{o}" for o in self.added]
        overrides = [*shared, *model, f"algo.backbone={backbone}", *own, *added]
        config = self._compose(tuple(overrides))
        # options of the model, checked against its preset
        of_model = [o for o in self.model_options if has_key(config, o)]
        if of_model := [*of_model, *(f"++model.{word}" for word in scaled)]:
            preset_config, overrides = config, [*overrides, *of_model]
            config = self._compose(tuple(overrides))
            check_kinds(config, preset_config)
        # built on the meta device, which takes no memory, to count the parameters
        check_values(config)
        try:
            sampler, completed = build_sampler(config), complete_data(config)
            with torch.device("meta"):
                built = build_algorithm(completed)
        except (TypeError, OmegaConfBaseException) as error:
            raise ValueError(str(error)) from error
        check_sampler(sampler, built)
        cell = Cell(
            algorithm,
            backbone,
            0,
            tuple(overrides),
            config,
            built.num_parameters,
            out=Path(str(self.request.out)).absolute(),
            scaled=scaled,
        )
        refusal = cell.measurement.refusal(built, self.request.eval.num_samples)
        if refusal is not None:
            raise ValueError(refusal)
        return cell

    def _composed(self, overrides: tuple[str, ...]) -> DictConfig:
        try:
            return compose_plainly("train", overrides, self.user_dir)
        except HydraException as error:
            words = list(overrides)
            raise ValueError(explain_hydra_error(error, "train", words, self.user_dir)) from error


def has_key(config: DictConfig, option: str) -> bool:
    """True if a config has the key of an override."""
    section, _, name = key_of(option).rpartition(".")
    node = OmegaConf.select(config, section)
    return isinstance(node, DictConfig) and name in node


def option_notes(options: Sequence[str], configs: Mapping[str, DictConfig]) -> list[str]:
    """Notes on options that apply to some of the ``configs`` only: ``algo.num_steps=10: for d3pm``.

    Raises ``ValueError`` with the closest key for an option that no config has."""
    lines = []
    for option in options:
        # configs with the key
        own = [name for name, config in configs.items() if has_key(config, option)]
        if not own:
            key = key_of(option)
            asked = f"{option.lstrip('+')}: the configs of {', '.join(configs)} have no {key}"
            section, name, known = _nearest_known(key, configs.values())
            if not known:
                raise ValueError(f"{asked}, nor any other value under '{section}'")
            raise ValueError(f"{asked}; {unknown_name('key', name, known)}")
        if len(own) < len(configs):
            lines.append(f"{option.lstrip('+')}: for {', '.join(own)}")
    return lines


def _nearest_known(key: str, configs: Collection[DictConfig]) -> tuple[str, str, set[str]]:
    """Return the innermost known section of a ``key``, and the unknown and known names in it."""
    section, _, name = key.rpartition(".")
    nodes = [OmegaConf.select(config, section) for config in configs]
    known = {str(k) for node in nodes if isinstance(node, DictConfig) for k in node}
    if not known and "." in section:
        return _nearest_known(section, configs)
    return section, name, known - _NO_SETTINGS
