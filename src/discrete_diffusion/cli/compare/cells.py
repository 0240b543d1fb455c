"""The cells of a comparison: which runs it has, and which of them cannot be."""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from typing import TYPE_CHECKING

from omegaconf import DictConfig

from discrete_diffusion.cli.compare.options import (
    options_by_name,
    options_of,
    said_of_options,
    split_model_options,
    split_options,
)
from discrete_diffusion.cli.compare.recipes import Recipe, recipes
from discrete_diffusion.cli.compose import compose_plainly, model_presets
from discrete_diffusion.cli.errors import explain
from discrete_diffusion.domains import complete_data, data_state, domain_of
from discrete_diffusion.domains.cell_measurement import CellMeasurement, has_one_backbone_each
from discrete_diffusion.models.registry import backbone_spec
from discrete_diffusion.options import check_kinds

if TYPE_CHECKING:
    from discrete_diffusion.algorithms import Algorithm

logger = logging.getLogger(__name__)

TOLERANCE = 0.05
"""How far the parameters of a cell may be from the first cell's, as a share of those."""


@dataclass(frozen=True)
class Cell:
    """One run: ``overrides`` compose its ``train`` config, ``config``.

    ``instead_of``: the backbone asked for, if ``backbone`` replaces it.
    """

    algorithm: str
    backbone: str
    seed: int
    overrides: tuple[str, ...]
    config: DictConfig
    parameters: int
    instead_of: str | None = None

    @property
    def name(self) -> str:
        """Of its folder."""
        return f"{self.algorithm}-{self.backbone}-seed{self.seed}"

    @property
    def model(self) -> str:
        """The model preset."""
        return str(self.config.model.get("name", self.backbone))

    @property
    def data(self) -> str:
        """Name of its data set."""
        return str(self.config.data.name)

    @property
    def state(self) -> str:
        """What its samples are."""
        return data_state(self.config.data)

    @property
    def measurement(self) -> CellMeasurement:
        """What is measured of it; the same for all cells."""
        return domain_of(self.config.data).cell_measurement()


def plan_cells(
    config: DictConfig, overrides: Sequence[str], user_config_dir: str | None = None
) -> list[Cell]:
    """All cells, in the order of the table, checked on the meta device.

    ``config``: of the command; ``overrides``: those of ``shared_overrides``. Raises ``ValueError``
    that lists every cell that cannot be, by name, or for an algorithm that works on another state
    than the samples come in.
    """
    planner = _Planner(
        list(overrides), list(config.algos), user_config_dir, config.eval.num_samples
    )
    backbones = [None] if config.backbones is None else list(config.backbones)
    cells: list[Cell] = []
    refused: list[str] = []
    for algorithm, backbone in product(config.algos, backbones):
        try:
            cell = planner.plan(algorithm, backbone, cells[0].parameters if cells else None)
        except ValueError as error:
            pair = algorithm if backbone is None else f"{algorithm} with {backbone}"
            refused.append(f"{pair}: {planner.remedy(str(error).strip())}")
            continue
        if all((c.algorithm, c.backbone) != (cell.algorithm, cell.backbone) for c in cells):
            cells.append(cell)
    if refused:
        count = f"{len(refused)} of {len(config.algos) * len(backbones)}"
        listed = "\n  ".join(refused)
        raise ValueError(f"compare refuses {count} combinations, and ran none:\n  {listed}")
    for line in (*planner.said, *planner.said_of_models(cells)):
        logger.info("%s", line)
    return [_with_seed(cell, seed) for cell in cells for seed in config.seeds]


def names_beside(cells: Sequence[Cell]) -> list[str]:
    """What each cell is called beside the others, whatever its seed: its algorithm, with its
    backbone where an algorithm has several."""
    plain = has_one_backbone_each(cells)
    return [c.algorithm if plain else f"{c.algorithm} with {c.backbone}" for c in cells]


def _with_seed(cell: Cell, seed: int) -> Cell:
    config = cell.config.copy()
    config.seed = seed
    return replace(cell, seed=seed, config=config, overrides=(*cell.overrides, f"seed={seed}"))


class _Planner:
    """Composes and checks cells, one at a time."""

    def __init__(
        self,
        overrides: list[str],
        algorithms: list[str],
        user_config_dir: str | None,
        num_samples: int,
    ) -> None:
        self.user_config_dir, self.num_samples = user_config_dir, num_samples
        self._compose = lru_cache(maxsize=None)(self._composed)
        self.shared, options = split_options(overrides)
        chosen = [o for o in self.shared if _chooses_model(o)]
        self.recipes = recipes(algorithms, self.shared, lambda words: self._compose(tuple(words)))
        configs = {name: recipe.config for name, recipe in self.recipes.items()}
        options, self.model_options = split_model_options(options)
        self.options = options_by_name(options, configs)
        self.said = said_of_options(options, self.options)
        if plainly := [name for name, recipe in self.recipes.items() if recipe.is_plain]:
            self.said.append(f"what the experiment sets under algo: not for {', '.join(plainly)}")
        self.wanted = chosen[-1].split("=")[1] if chosen else None

    def said_of_models(self, cells: Sequence[Cell]) -> list[str]:
        """Which cells each option of a model is for. Raises ``ValueError`` for one of none."""
        configs = {n: c.config for n, c in zip(names_beside(cells), cells, strict=True)}
        return said_of_options(self.model_options, options_by_name(self.model_options, configs))

    def remedy(self, refusal: str) -> str:
        """A refusal of ``train``, its advice turned into that for ``compare``."""
        problem, found, _ = refusal.partition("; set forward_process=")
        if found and any(o.startswith("forward_process=") for o in self.shared):
            return f"{problem}; leave forward_process= out, and each algorithm takes its own"
        return re.sub(r"algo\.backbone=([\w-]+)", r"backbones=[\1]", refusal)

    def plan(self, algorithm: str, asked: str | None, size: int | None) -> Cell:
        """The cell without its seed. ``asked``: a backbone, None for the default; ``size``:
        parameters of the first cell, None for that one."""
        recipe, instead_of = self.recipes[algorithm], None
        backbone = asked or self._default_backbone(recipe)
        wanted = self.wanted or self._default_model(recipe, backbone)
        if backbone not in recipe.usable:
            size = size or model_presets().get(wanted, ([], 0))[1] or None
            if recipe.stand_in is None:
                names = ", ".join(recipe.usable) or "no backbone there is"
                raise ValueError(f"{algorithm} cannot use it; it can use {names}")
            instead_of, backbone = backbone, recipe.stand_in
        cell = self._nearest(algorithm, backbone, self._presets(backbone, wanted, size), size)
        if size is not None and not _fits(cell, size):
            raise ValueError(
                f"{backbone} with model={cell.model} has {cell.parameters:,} parameters, the first "
                f"cell {size:,}: more than {TOLERANCE:.0%} apart; choose another model= or another "
                "size of it"
            )
        return replace(cell, instead_of=instead_of)

    def _nearest(
        self, algorithm: str, backbone: str, presets: Sequence[str | None], size: int | None
    ) -> Cell:
        """The cell of the first preset that has the ``size``, else the nearest to it."""
        first, *others = presets
        cell = self._build(algorithm, backbone, first)
        if size is None:
            return cell
        for preset in others:
            if _fits(cell, size):
                break
            other = self._build(algorithm, backbone, preset)
            cell = min(cell, other, key=lambda c: _apart(c.parameters, size))
        return cell

    def _default_backbone(self, recipe: Recipe) -> str:
        """That of ``train`` where it is made for such data, else one that is."""
        default = str(self._compose(tuple(self.shared)).algo.backbone)
        if recipe.reads(default):
            return default
        if recipe.stand_in is None:
            names = ", ".join(recipe.usable) or "no backbone there is"
            what = "the maps" if recipe.conditions else f"data={recipe.config.data.name}"
            raise ValueError(
                f"no backbone that it can use reads {what}; give backbones=, which ignore them "
                f"({names})"
            )
        return recipe.stand_in

    def _default_model(self, recipe: Recipe, backbone: str) -> str:
        """The preset of the recipe unless it is made for other data; then that of the first recipe
        of which this is not so, else the backbone's own."""
        presets = model_presets()
        own, *others = (
            (str(each.config.model.get("name")), each) for each in (recipe, *self.recipes.values())
        )
        if own[0] not in presets:  # a plug-in's, or the user's own
            return own[0]
        for name, each in (own, *others):
            if any(map(each.reads, presets.get(name, ([], 0))[0])):
                return name
        return backbone_spec(backbone).default_model or own[0]

    def _presets(self, backbone: str, wanted: str, size: int | None) -> list[str | None]:
        """Candidates: the one wanted if it fits the backbone, else those that do, the nearest to
        the wanted one first; None takes what the recipe has."""
        presets = model_presets()
        if wanted not in presets or backbone in presets[wanted][0]:
            return [wanted] if wanted in presets or self.wanted else [None]
        fitting = [name for name, (backbones, _) in presets.items() if backbone in backbones]
        if not fitting:  # a plug-in reads what it needs
            return [self.wanted]
        target = size or presets[wanted][1]
        nearest = sorted(fitting, key=lambda name: _apart(presets[name][1], target))
        return list(nearest) if size is not None else [nearest[0]]

    def _build(self, algorithm: str, backbone: str, preset: str | None) -> Cell:
        model = [] if preset is None else [f"model={preset}"]
        shared = [w for w in self.recipes[algorithm].overrides if not _chooses_model(w)]
        overrides = [*shared, *model, f"algo.backbone={backbone}", *self.options[algorithm]]
        config = self._compose(tuple(overrides))
        if of_model := options_of(self.model_options, config):
            preset_config, overrides = config, [*overrides, *of_model]
            config = self._compose(tuple(overrides))
            check_kinds(config, preset_config)
        built = build_on_meta(config)
        measurement = domain_of(config.data).cell_measurement()
        if (refusal := measurement.refusal(built, self.num_samples)) is not None:
            raise ValueError(refusal)
        size = sum(p.numel() for p in built.parameters())
        return Cell(algorithm, backbone, 0, tuple(overrides), config, size)

    def _composed(self, overrides: tuple[str, ...]) -> DictConfig:
        from hydra.errors import HydraException

        try:
            return compose_plainly("train", overrides, self.user_config_dir)
        except HydraException as error:
            words = list(overrides)
            raise ValueError(explain(error, "train", words, self.user_config_dir)) from error


def _fits(cell: Cell, size: int) -> bool:
    return abs(cell.parameters / size - 1) <= TOLERANCE


def _chooses_model(override: str) -> bool:
    return override.lstrip("+").startswith("model=")


def build_on_meta(config: DictConfig) -> Algorithm:
    """The algorithm of a ``train`` config without memory for its weights, its sampler checked.

    Raises ``ValueError`` for whatever does not fit.
    """
    import torch
    from omegaconf.errors import OmegaConfBaseException

    from discrete_diffusion.algorithms import build_algorithm
    from discrete_diffusion.cli.train import check_values
    from discrete_diffusion.sampling import build_sampler, check_sampler

    check_values(config)
    try:
        sampler = build_sampler(config)
        with torch.device("meta"):
            algorithm = build_algorithm(complete_data(config))
    except (TypeError, OmegaConfBaseException) as error:
        raise ValueError(str(error)) from error
    check_sampler(sampler, algorithm)
    return algorithm


def _apart(size: int, other: int) -> float:
    """|log(size / other)|; infinite where a size is unknown."""
    return abs(math.log(size / other)) if size > 0 and other > 0 else math.inf
