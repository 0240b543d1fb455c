"""The cells of a comparison: which runs it has, and which of them cannot be."""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from hydra.errors import HydraException
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException

from discrete_diffusion.algorithms import Algorithm, build_algorithm
from discrete_diffusion.cli.compare.folder import CellFolder
from discrete_diffusion.cli.compare.recipes import Recipe, recipes
from discrete_diffusion.cli.compare.request import has_key, is_option, key_of, option_notes
from discrete_diffusion.cli.compose import compose_plainly
from discrete_diffusion.cli.config_checks import check_values
from discrete_diffusion.cli.errors import explain
from discrete_diffusion.config_files import model_presets
from discrete_diffusion.domains import complete_data, domain_of
from discrete_diffusion.evaluation.comparison import short_names
from discrete_diffusion.models.registry import backbone_spec
from discrete_diffusion.options import check_kinds
from discrete_diffusion.sampling import build_sampler, check_sampler

if TYPE_CHECKING:
    from discrete_diffusion.domains.cell_measurement import CellMeasurement

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
    out: Path
    instead_of: str | None = None

    @property
    def name(self) -> str:
        """Of its folder."""
        return f"{self.algorithm}-{self.backbone}-seed{self.seed}"

    @property
    def folder(self) -> CellFolder:
        return CellFolder(self.out / "cells" / self.name)

    @property
    def model(self) -> str:
        """The model preset."""
        return str(self.config.model.get("name", self.backbone))

    @property
    def data(self) -> str:
        """Name of its data set."""
        return str(self.config.data.name)

    @property
    def measurement(self) -> CellMeasurement:
        """What is measured of it; the same for all cells."""
        return domain_of(self.config.data).cell_measurement()


def plan_cells(
    config: DictConfig, overrides: Sequence[str], user_config_dir: str | None = None
) -> list[Cell]:
    """All cells, in the order of the table, checked on the meta device.

    ``config``: of the command, from ``with_terms``; ``overrides``: those of ``shared_overrides``.

    Raises ``ValueError`` that lists every cell that cannot be, by name, or for an algorithm that
    works on another state than the samples come in.
    """
    planner = _Planner(config, overrides, user_config_dir)
    cells: list[Cell] = []
    refused: list[str] = []
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
    names = short_names([(c.algorithm, c.backbone) for c in cells], "{} with {}")
    configs = {name: cell.config for name, cell in zip(names, cells, strict=True)}
    for line in (*planner.notes, *option_notes(planner.model_options, configs)):
        logger.info("%s", line)
    return [_with_seed(cell, seed) for cell in cells for seed in config.seeds]


def _with_seed(cell: Cell, seed: int) -> Cell:
    config = cell.config.copy()
    config.seed = seed
    return replace(cell, seed=seed, config=config, overrides=(*cell.overrides, f"seed={seed}"))


class _Planner:
    """Composes and checks cells, one at a time. ``notes``: which settings are for which
    algorithms."""

    def __init__(
        self, config: DictConfig, overrides: Sequence[str], user_config_dir: str | None
    ) -> None:
        self.request, self.user_config_dir = config, user_config_dir
        self.presets = model_presets()
        self._compose = lru_cache(maxsize=None)(self._composed)
        self.shared = [o for o in overrides if not is_option(o)]
        options = [o for o in overrides if is_option(o)]
        self.model_options = [o for o in options if key_of(o).startswith("model.")]
        self.options = [o for o in options if o not in self.model_options]
        chosen = [o.split("=")[1] for o in self.shared if _chooses_model(o)]
        self.model = chosen[-1] if chosen else None
        self.recipes = recipes(list(config.algos), self.shared, lambda o: self._compose(tuple(o)))
        configs = {name: recipe.config for name, recipe in self.recipes.items()}
        self.notes = option_notes(self.options, configs)
        if plainly := [name for name, recipe in self.recipes.items() if recipe.is_plain]:
            self.notes.append(f"what the experiment sets under algo: not for {', '.join(plainly)}")

    def remedy(self, refusal: str) -> str:
        """A refusal of ``train``, its advice turned into that for ``compare``."""
        problem, found, _ = refusal.partition("; set forward_process=")
        if found and any(o.startswith("forward_process=") for o in self.shared):
            return f"{problem}; leave forward_process= out, and each algorithm takes its own"
        return re.sub(r"algo\.backbone=([\w-]+)", r"backbones=[\1]", refusal)

    def plan(self, algorithm: str, asked: str | None, size: int | None) -> Cell:
        """The cell without its seed. ``asked``: a backbone, None for that of ``train``, or one made
        for the data; ``size``: parameters of the first cell, None for that one."""
        recipe, instead_of = self.recipes[algorithm], None
        backbone = asked or str(self._compose(tuple(self.shared)).algo.backbone)
        if asked is None and not recipe.reads(backbone):
            backbone = recipe.stand_in()
        wanted = self.model or self._default_model(recipe, backbone)
        if backbone not in recipe.usable:
            size = size or self.presets.get(wanted, ([], 0))[1] or None
            instead_of, backbone = backbone, recipe.stand_in()
        first, *others = self._candidates(backbone, wanted, size)
        cell = self._build(algorithm, backbone, first)
        for preset in others:
            if _fits(cell, size):
                break
            other = self._build(algorithm, backbone, preset)
            cell = min(cell, other, key=lambda c: _apart(c.parameters, size))
        if not _fits(cell, size):
            raise ValueError(
                f"{backbone} with model={cell.model} has {cell.parameters:,} parameters, the first "
                f"cell {size:,}: more than {TOLERANCE:.0%} apart; choose another model= or another "
                "size of it"
            )
        return replace(cell, instead_of=instead_of)

    def _default_model(self, recipe: Recipe, backbone: str) -> str:
        """The preset of the recipe unless it is made for other data; then that of the first recipe
        of which this is not so, else the backbone's own."""
        if recipe.model not in self.presets:  # a plug-in's, or the user's own
            return recipe.model
        for each in (recipe, *self.recipes.values()):
            if any(map(each.reads, self.presets.get(each.model, ([], 0))[0])):
                return each.model
        return backbone_spec(backbone).default_model or recipe.model

    def _candidates(self, backbone: str, wanted: str, size: int | None) -> Sequence[str | None]:
        """Presets to try: the one wanted if it fits the backbone, else those that do, the nearest
        to the ``size`` or the wanted one first; None takes what the recipe has, as plug-ins do."""
        backbones, parameters = self.presets.get(wanted, ([], 0))
        if backbone in backbones:
            return [wanted]
        fitting = [name for name, (fits, _) in self.presets.items() if backbone in fits]
        fitting.sort(key=lambda name: _apart(self.presets[name][1], size or parameters))
        return fitting if fitting and wanted in self.presets else [self.model]

    def _build(self, algorithm: str, backbone: str, preset: str | None) -> Cell:
        recipe = self.recipes[algorithm]
        model = [] if preset is None else [f"model={preset}"]
        shared = [o for o in recipe.overrides if not _chooses_model(o)]
        own = [o for o in self.options if has_key(recipe.config, o)]
        overrides = [*shared, *model, f"algo.backbone={backbone}", *own]
        config = self._compose(tuple(overrides))
        if of_model := [o for o in self.model_options if has_key(config, o)]:
            preset_config, overrides = config, [*overrides, *of_model]
            config = self._compose(tuple(overrides))
            check_kinds(config, preset_config)
        built = build_on_meta(config)
        size, out = sum(p.numel() for p in built.parameters()), Path(str(self.request.out))
        cell = Cell(algorithm, backbone, 0, tuple(overrides), config, size, out.absolute())
        refusal = cell.measurement.refusal(built, self.request.eval.num_samples)
        if refusal is not None:
            raise ValueError(refusal)
        return cell

    def _composed(self, overrides: tuple[str, ...]) -> DictConfig:
        try:
            return compose_plainly("train", overrides, self.user_config_dir)
        except HydraException as error:
            words = list(overrides)
            raise ValueError(explain(error, "train", words, self.user_config_dir)) from error


def build_on_meta(config: DictConfig) -> Algorithm:
    """The algorithm of a ``train`` config without memory for its weights, its sampler checked.

    Raises ``ValueError`` for whatever does not fit.
    """
    check_values(config)
    try:
        sampler, completed = build_sampler(config), complete_data(config)
        with torch.device("meta"):
            algorithm = build_algorithm(completed)
    except (TypeError, OmegaConfBaseException) as error:
        raise ValueError(str(error)) from error
    check_sampler(sampler, algorithm)
    return algorithm


def _chooses_model(override: str) -> bool:
    return override.lstrip("+").startswith("model=")


def _fits(cell: Cell, size: int | None) -> bool:
    """True if it has about the ``size``; None is any."""
    return size is None or abs(cell.parameters / size - 1) <= TOLERANCE


def _apart(size: int, other: int | None) -> float:
    """|log(size / other)|; infinite where a size is unknown."""
    return abs(math.log(size / other)) if size and other else math.inf
