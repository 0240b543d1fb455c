"""``discrete-diffusion compare``: algorithms, backbones and seeds, all else equal.

``compare_planning`` plans the runs, ``compare_running`` trains and compares them.
``Domain.cell_measurement`` measures a cell."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from omegaconf import DictConfig, OmegaConf

from discrete_diffusion.building.measurements import with_terms
from discrete_diffusion.cli.process_setup import end_stopped
from discrete_diffusion.cli.train import check_training_values
from discrete_diffusion.composing.compose import compose
from discrete_diffusion.composing.parts import all_choices
from discrete_diffusion.composing.search_path import checked_dir, is_option, key_of, paths_as_typed
from discrete_diffusion.config.constructors import check_keys
from discrete_diffusion.config.values import Bounds, Count, CountOrZero, check_name, is_number
from discrete_diffusion.models.registry import BACKBONES
from discrete_diffusion.runtime.atomic_files import check_folder, ensured_folder, locked
from discrete_diffusion.runtime.processes import Stop, started

logger = logging.getLogger(__name__)

_LISTS = {
    "algos": "[mdlm,udlm]",
    "backbones": "[bd-denoiser,dit]",
    "seeds": "[0,1,2]",
    "columns": "[nelbo,difference,valid]",
}
_OWN_KEYS = (
    *(*_LISTS, "out", "num_held_out", "noise_samples", "size_tolerance", "overwrite"),
    "baseline",
)
"""Config keys of ``compare`` that ``train`` does not have."""

_SET_BY_CELL = {
    "algo": "algos=[...]",
    "algo.name": "algos=[...]",
    "algo.backbone": "backbones=[...]",
    "seed": "seeds=[...]",
    "eval.noise_samples": "noise_samples=N",
    "resume": "the same command again, which goes on by itself",
}


@dataclass(frozen=True)
class CompareRequest:
    """Request of a comparison.

    ``overrides``: words of the command line, ``["algos=[mdlm,udlm]", "model=bd_tiny"]``;
    ``config``: config composed from them, None to compose it; ``launcher``: overrides that choose
    Hydra's launcher; ``user_config_dir``: a folder of further YAML files.
    """

    overrides: Sequence[str]
    config: DictConfig | None = None
    launcher: Sequence[str] = ()
    user_config_dir: str | Path | None = None


def run(config: DictConfig) -> None:
    """Compare as the command line says; after a signal the same command resumes the comparison."""
    from hydra.core.hydra_config import HydraConfig

    hydra = HydraConfig.get()
    # the folder of --config-dir, and Hydra's launcher
    user_dirs = [s.path for s in hydra.runtime.config_sources if s.provider == "command-line"]
    chosen = ("hydra/launcher", "hydra.launcher")
    request = CompareRequest(
        hydra.overrides.task,
        config=config,
        launcher=[o for o in hydra.overrides.hydra if o.lstrip("+").startswith(chosen)],
        user_config_dir=user_dirs[0].removeprefix("file://") if user_dirs else None,
    )
    try:
        run_comparison(request)
    except Stop as stop:
        end_stopped(stop, "the same command goes on from there, finished cells are kept")


def run_comparison(request: CompareRequest) -> dict[str, Any]:
    """Train and measure every cell, write the comparison into ``out``, and print its table.

    Returns the contents of ``results.json``. Raises ``ValueError`` before the first run if cells
    are invalid or folders hold other runs, and after the last run if some runs failed."""
    # the config, checked
    overrides = read_words(paths_as_typed(request.overrides))
    user_dir, config = checked_dir(request.user_config_dir), request.config
    if config is None:
        config = compose("compare", overrides, user_config_dir=user_dir)
    check_request(config, user_dir)
    # imports of torch follow the first checks
    from discrete_diffusion.cli.compare_planning import plan_cells
    from discrete_diffusion.cli.compare_running import compare_cells

    config, shortened = with_terms(config)
    for line in shortened:
        logger.info("%s", line)
    # cells, trained and measured in the locked folder
    cells = plan_cells(config, shared_overrides(overrides), user_dir)
    with ensured_folder(cells[0].out), locked(cells[0].out):
        return compare_cells(cells, config, overrides, request.launcher, user_dir)


# --- words and config of the request ---


def read_words(overrides: Sequence[str]) -> list[str]:
    """Write options as ``++KEY=VALUE``, for any ``algo``; ``ValueError`` for words of train."""
    # words that only other commands have, and lists
    words = []
    for override in overrides:
        key, value = key_of(override), override.partition("=")[2].strip()
        of_none = key in ("backbones", "columns") and value == "null"
        if key in _LISTS and not of_none and not value.startswith(("[", "${")):
            raise ValueError(f"{override}: expected a list, as in {key}={_LISTS[key]}")
        if key in ("hydra.run.dir", "hydra.sweep.dir"):
            raise ValueError(f"{override}: compare writes into one folder; give out={value}")
        if key in _SET_BY_CELL:
            raise ValueError(f"compare sets {key} for every cell; give {_SET_BY_CELL[key]} instead")
        words.append("++" + override.lstrip("+") if is_option(override) else override)
    return words


def shared_overrides(overrides: Sequence[str]) -> list[str]:
    """Select from the result of ``read_words`` the overrides of every cell's ``train``."""
    shared = [o for o in overrides if key_of(o) not in (*_OWN_KEYS, "eval.num_samples")]
    # compare measures once; sampling at validations only if requested
    return ["callbacks.num_samples=0", *shared, "eval.num_samples=0", "eval.noise_samples=1"]


def check_request(config: DictConfig, user_dir: Path | None) -> None:
    """Raise ``ValueError`` for wrong values in the config of the command."""
    # one process
    if (found := started()) is not None:
        raise ValueError(
            f"compare runs in one process, and {found.by} started several; start it by itself, "
            "with hydra/launcher=joblib or submitit_slurm"
        )
    # lists
    for key, example in _LISTS.items():
        values = OmegaConf.to_container(config)[key]  # type: ignore[call-overload,index]
        if key in ("backbones", "columns") and values is None:
            continue
        if not isinstance(values, list) or not values:
            raise ValueError(
                f"{key}={values}: expected a list of one or more, as in {key}={example}"
            )
        if len({*map(str, values)}) < len(values):
            raise ValueError(f"{key}={values}: the same one twice")
    # names and seeds
    known = all_choices("algo", user_dir)
    for name in config.algos:
        check_name("algorithm", name, known)
    if config.baseline is not None:
        check_name("algorithm in baseline=", config.baseline, config.algos)
    for name in config.backbones or ():
        BACKBONES.entry(name)
    for seed in config.seeds:
        if not isinstance(seed, int) or isinstance(seed, bool) or seed < 0:
            raise ValueError(f"seeds: got {seed}, expected whole numbers, at least 0")
    # numbers
    several = Annotated[int, Bounds(least=2)]
    keys = {"num_held_out": several, "noise_samples": Count, "eval.num_samples": CountOrZero}
    check_keys(config, keys)
    tolerance = config.size_tolerance
    if tolerance is not None and not (is_number(tolerance) and 0 <= tolerance < 1):
        raise ValueError(
            f"size_tolerance={tolerance}: expected a share below 1, as in size_tolerance=0.05, or "
            "null for any difference"
        )
    # training of one process
    if config.trainer.devices != 1 or config.trainer.get("num_nodes", 1) != 1:
        raise ValueError(
            f"trainer.devices={config.trainer.devices}: compare trains every cell in one process; "
            "run several cells at a time with hydra/launcher=joblib instead"
        )
    if config.trainer.get("max_steps") == 0:
        raise ValueError(
            "trainer.max_steps=0: expected at least 1; compare measures trained models"
        )
    check_training_values(config)
    # a folder that can be written to
    out = config.out
    if out is None or not str(out).strip():
        raise ValueError("out= is empty: give the folder to write into, as in out=compared")
    path = Path(str(out)).absolute()
    there = next(p for p in (path, *path.parents) if p.exists())
    check_folder("out", str(out))
    if not os.access(there, os.W_OK | os.X_OK):
        raise ValueError(f"out={out}: {there} cannot be written to; give another folder")
