"""The cells of a comparison: which runs it has, and which of them cannot be."""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING

from omegaconf import DictConfig

from discrete_diffusion.cli.compare.options import (
    options_by_algorithm,
    said_of_options,
    split_options,
)
from discrete_diffusion.cli.compose import compose_plainly, model_presets
from discrete_diffusion.cli.errors import explain
from discrete_diffusion.models.registry import usable_backbones

if TYPE_CHECKING:
    from discrete_diffusion.algorithms import Algorithm

logger = logging.getLogger(__name__)

TOLERANCE = 0.05
"""How far the parameters of a cell may be from the first cell's, as a share of those."""

_FALLBACK = "dit"
"""The backbone that stands in where an algorithm cannot use the one asked for."""


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


def plan_cells(
    config: DictConfig, overrides: Sequence[str], user_config_dir: str | None = None
) -> list[Cell]:
    """All cells, in the order of the table, checked on the meta device.

    ``config``: of the command; ``overrides``: those of ``shared_overrides``. Raises ``ValueError``
    that lists every cell that cannot be, by name, or for an algorithm that is not on tokens.
    """
    _check_on_tokens(config.algos)
    planner = _Planner(list(overrides), list(config.algos), user_config_dir)
    cells: list[Cell] = []
    refused: list[str] = []
    for algorithm, backbone in product(config.algos, config.backbones):
        try:
            cell = planner.plan(algorithm, backbone, cells[0].parameters if cells else None)
        except ValueError as error:
            refused.append(f"{algorithm} with {backbone}: {planner.remedy(str(error).strip())}")
            continue
        if all((c.algorithm, c.backbone) != (cell.algorithm, cell.backbone) for c in cells):
            cells.append(cell)
    if refused:
        count = f"{len(refused)} of {len(config.algos) * len(config.backbones)}"
        listed = "\n  ".join(refused)
        raise ValueError(f"compare refuses {count} combinations, and ran none:\n  {listed}")
    if cells[0].config.data.get("num_boundary") is not None and config.eval.num_samples:
        raise ValueError(
            "compare draws samples without conditions, and these images come from maps; compare "
            "bounds alone, eval.num_samples=0, or evaluate each by itself"
        )
    for line in planner.said:
        logger.info("%s", line)
    return [_with_seed(cell, seed) for cell in cells for seed in config.seeds]


def _check_on_tokens(names: Sequence[str]) -> None:
    """``ValueError`` for algorithms whose numbers cannot stand in one table."""
    from discrete_diffusion.algorithms import _ALGORITHM_BUILDERS, algorithm_state, algorithms_on

    for name in names:
        if name in _ALGORITHM_BUILDERS and (state := algorithm_state(name)) != "tokens":
            raise ValueError(
                f"compare measures algorithms on tokens, and {name} works on {state}; choose "
                f"algos= from {', '.join(algorithms_on('tokens'))}, or train and evaluate {name} "
                "by itself"
            )


def _with_seed(cell: Cell, seed: int) -> Cell:
    config = cell.config.copy()
    config.seed = seed
    return replace(cell, seed=seed, config=config, overrides=(*cell.overrides, f"seed={seed}"))


class _Planner:
    """Composes and checks cells, one at a time."""

    def __init__(
        self, overrides: list[str], algorithms: list[str], user_config_dir: str | None
    ) -> None:
        self.user_config_dir = user_config_dir
        self.shared, options = split_options(overrides)
        bare = {name: self._compose([*self.shared, f"algo={name}"]) for name in algorithms}
        self.options = options_by_algorithm(options, bare)
        self.said = said_of_options(options, self.options)
        chosen = [o for o in self.shared if o.lstrip("+").startswith("model=")]
        self.shared = [o for o in self.shared if o not in chosen]
        self.wanted = chosen[-1].split("=")[1] if chosen else None

    def remedy(self, refusal: str) -> str:
        """A refusal of ``train``, its advice turned into that for ``compare``."""
        problem, found, _ = refusal.partition("; set forward_process=")
        if found and any(o.startswith("forward_process=") for o in self.shared):
            return f"{problem}; leave forward_process= out, and each algorithm takes its own"
        return re.sub(r"algo\.backbone=([\w-]+)", r"backbones=[\1]", refusal)

    def plan(self, algorithm: str, backbone: str, size: int | None) -> Cell:
        """The cell without its seed. ``size``: parameters of the first cell, None for that one."""
        wanted, instead_of = self._wanted(algorithm, backbone), None
        usable = usable_backbones(_needs(algorithm))
        if backbone not in usable:
            size = size or model_presets().get(wanted, ([], 0))[1] or None
            if _FALLBACK not in usable:
                names = ", ".join(usable) or "no backbone there is"
                raise ValueError(f"{algorithm} cannot use it; it can use {names}")
            instead_of, backbone = backbone, _FALLBACK
        cells = [
            self._build(algorithm, backbone, preset)
            for preset in self._presets(backbone, wanted, size)
        ]
        cell = cells[0] if size is None else min(cells, key=lambda c: _apart(c.parameters, size))
        if size is not None and abs(cell.parameters / size - 1) > TOLERANCE:
            raise ValueError(
                f"{backbone} with model={cell.model} has {cell.parameters:,} parameters, the first "
                f"cell {size:,}: more than {TOLERANCE:.0%} apart; choose another model= or another "
                "size of it"
            )
        return replace(cell, instead_of=instead_of)

    def _wanted(self, algorithm: str, backbone: str) -> str:
        """The model preset of the command line or of the recipe."""
        if self.wanted is not None:
            return self.wanted
        return str(self._compose([*self.shared, f"algo={algorithm}"]).model.get("name"))

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
        overrides = [*self.shared, *model, f"algo={algorithm}", f"algo.backbone={backbone}"]
        overrides += self.options[algorithm]
        config = self._compose(overrides)
        built = build_on_meta(config)
        size = sum(p.numel() for p in built.parameters())
        return Cell(algorithm, backbone, 0, tuple(overrides), config, size)

    def _compose(self, overrides: list[str]) -> DictConfig:
        from hydra.errors import HydraException

        try:
            return compose_plainly("train", overrides, self.user_config_dir)
        except HydraException as error:
            raise ValueError(explain(error, "train", overrides, self.user_config_dir)) from error


def _needs(algorithm: str) -> tuple[str, ...]:
    """What an algorithm asks of its backbone."""
    from discrete_diffusion.algorithms import _ALGORITHM_BUILDERS

    return getattr(_ALGORITHM_BUILDERS[algorithm], "backbone_needs", ())


def build_on_meta(config: DictConfig) -> Algorithm:
    """The algorithm of a ``train`` config without memory for its weights, its sampler checked.

    Raises ``ValueError`` for whatever does not fit.
    """
    import torch
    from omegaconf.errors import OmegaConfBaseException

    from discrete_diffusion.algorithms import Algorithm, build_algorithm
    from discrete_diffusion.cli.train import check_values
    from discrete_diffusion.data import complete_data
    from discrete_diffusion.sampling import build_sampler, check_sampler

    check_values(config)
    try:
        sampler = build_sampler(config)
        with torch.device("meta"):
            algorithm = build_algorithm(complete_data(config))
    except (TypeError, OmegaConfBaseException) as error:
        raise ValueError(str(error)) from error
    check_sampler(sampler, algorithm)
    assert isinstance(algorithm, Algorithm)  # see _check_on_tokens
    return algorithm


def _apart(size: int, other: int) -> float:
    """|log(size / other)|; infinite where a size is unknown."""
    return abs(math.log(size / other)) if size > 0 and other > 0 else math.inf
