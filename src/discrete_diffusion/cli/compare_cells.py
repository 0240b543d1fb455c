"""The cells of a comparison: which runs it has, and which of them cannot be."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING

from omegaconf import DictConfig, OmegaConf

from discrete_diffusion.cli.compose import choices, compose_plainly, model_presets
from discrete_diffusion.cli.errors import explain
from discrete_diffusion.models.registry import (
    backbone_spec,
    check_backbone_name,
    usable_backbones,
)
from discrete_diffusion.naming import unknown_name

if TYPE_CHECKING:
    from discrete_diffusion.algorithms import Algorithm

TOLERANCE = 0.05
"""How far the parameters of two cells may be apart."""

OWN_KEYS = ("algos", "backbones", "seeds", "out", "bound_samples", "bound_draws", "overwrite")
"""Config keys of ``compare`` that ``train`` does not have."""

_SET_BY_CELL = {
    "algo": "algos=[...]",
    "algo.name": "algos=[...]",
    "algo.backbone": "backbones=[...]",
    "seed": "seeds=[...]",
    "eval.bound_draws": "bound_draws=N",
    "resume": "the same command again, which goes on by itself",
}
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


def check_names(config: DictConfig, user_config_dir: str | None) -> None:
    """``ValueError`` for an unknown or repeated name, or a list that is none; imports nothing slow.

    ``config``: of the command.
    """
    known = choices("algo", user_config_dir)
    for key in ("algos", "backbones", "seeds"):
        values = OmegaConf.to_container(config)[key]  # type: ignore[call-overload,index]
        if not isinstance(values, list) or not values:
            raise ValueError(f"{key}={values}: expected a list of at least one, {key}=[a,b]")
        if len(set(values)) < len(values):
            raise ValueError(f"{key}={values}: the same one twice")
    for name in config.algos:
        if name not in known:
            raise ValueError(unknown_name("algorithm", name, known))
    for name in config.backbones:
        check_backbone_name(name)
    for seed in config.seeds:
        if not isinstance(seed, int) or isinstance(seed, bool) or seed < 0:
            raise ValueError(f"seeds: got {seed}, expected whole numbers, at least 0")


def shared_overrides(overrides: Sequence[str]) -> list[str]:
    """Those that every cell's ``train`` takes over; ``ValueError`` for one that a cell sets."""
    shared = []
    for override in overrides:
        key = override.split("=")[0].lstrip("+~")
        if key in _SET_BY_CELL:
            raise ValueError(f"compare sets {key} for every cell; give {_SET_BY_CELL[key]} instead")
        if key not in (*OWN_KEYS, "eval.num_samples"):
            shared.append(override)
    # Measured once, by compare; samples at validations only for those who ask for them.
    return ["callbacks.num_samples=0", *shared, "eval.num_samples=0", "eval.bound_draws=1"]


def plan_cells(
    config: DictConfig, overrides: Sequence[str], user_config_dir: str | None = None
) -> list[Cell]:
    """All cells, in the order of the table, checked on the meta device.

    ``config``: of the command; ``overrides``: those of ``shared_overrides``. Raises ``ValueError``
    that lists every cell that cannot be, by name.
    """
    planner = _Planner(list(overrides), user_config_dir)
    cells: list[Cell] = []
    refused: list[str] = []
    for algorithm, backbone in product(config.algos, config.backbones):
        try:
            cell = planner.plan(algorithm, backbone, cells[0].parameters if cells else None)
        except ValueError as error:
            refused.append(f"{algorithm} with {backbone}: {str(error).strip()}")
            continue
        if all((c.algorithm, c.backbone) != (cell.algorithm, cell.backbone) for c in cells):
            cells.append(cell)
    if refused:
        count = f"{len(refused)} of {len(config.algos) * len(config.backbones)}"
        listed = "\n  ".join(refused)
        raise ValueError(f"compare refuses {count} combinations, and ran none:\n  {listed}")
    return [_with_seed(cell, seed) for cell in cells for seed in config.seeds]


def _with_seed(cell: Cell, seed: int) -> Cell:
    config = cell.config.copy()
    config.seed = seed
    return replace(cell, seed=seed, config=config, overrides=(*cell.overrides, f"seed={seed}"))


class _Planner:
    """Composes and checks cells, one at a time."""

    def __init__(self, overrides: list[str], user_config_dir: str | None) -> None:
        self.user_config_dir = user_config_dir
        chosen = [o for o in overrides if o.lstrip("+").startswith("model=")]
        self.shared = [o for o in overrides if o not in chosen]
        self.wanted = chosen[-1].split("=")[1] if chosen else None

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
        if size is not None and _apart(cell.parameters, size) > math.log1p(TOLERANCE):
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

    from discrete_diffusion.algorithms import build_algorithm
    from discrete_diffusion.cli.train import check_values
    from discrete_diffusion.data import complete_data
    from discrete_diffusion.sampling import build_sampler

    check_values(config)
    if backbone_spec(config.algo.backbone).state != "tokens":
        raise ValueError(f"backbone '{config.algo.backbone}' does not read tokens")
    try:
        sampler = build_sampler(config)
        with torch.device("meta"):
            algorithm = build_algorithm(complete_data(config))
    except (TypeError, OmegaConfBaseException) as error:
        raise ValueError(str(error)) from error
    sampler.check(algorithm)
    return algorithm


def _apart(size: int, other: int) -> float:
    """|log(size / other)|; infinite where a size is unknown."""
    return abs(math.log(size / other)) if size > 0 and other > 0 else math.inf
