"""``discrete-diffusion compare``: algorithms, backbones and seeds, all else equal."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omegaconf import DictConfig

from discrete_diffusion.cli.compare.arguments import check_request, read_words, shared_overrides
from discrete_diffusion.cli.compare.cells import Cell, plan_cells
from discrete_diffusion.cli.compare.folder import CellFolder, config_digest, measured_with
from discrete_diffusion.cli.compare.launching import launch
from discrete_diffusion.cli.compare.measuring import read_data
from discrete_diffusion.cli.compose import compose
from discrete_diffusion.cli.precision import check_trainer_units
from discrete_diffusion.stopping import Stop

if TYPE_CHECKING:
    from hydra.core.utils import JobReturn

    from discrete_diffusion.evaluation.equal_terms import EqualTerms

logger = logging.getLogger(__name__)

_USER_ERRORS = (ValueError, TypeError, OSError)
_LAUNCHER = ("hydra/launcher", "hydra.launcher")


def run(config: DictConfig) -> None:
    """Compare as the command line says. Ctrl-C and SIGTERM end it with exit status 130 or 143; the
    same command goes on from there."""
    from hydra.core.hydra_config import HydraConfig

    hydra = HydraConfig.get()
    user_dirs = [s.path for s in hydra.runtime.config_sources if s.provider == "command-line"]
    launcher = [o for o in hydra.overrides.hydra if o.lstrip("+").startswith(_LAUNCHER)]
    try:
        compare(
            list(hydra.overrides.task),
            config=config,
            launcher=launcher,
            user_config_dir=user_dirs[0].removeprefix("file://") if user_dirs else None,
        )
    except (Stop, KeyboardInterrupt) as stop:
        said = stop if isinstance(stop, Stop) else "stopped"
        print(
            f"discrete-diffusion: {said}; the same command goes on from there, finished cells are "
            "kept",
            file=sys.stderr,
        )
        raise SystemExit(stop.exit_status if isinstance(stop, Stop) else 130) from None


def compare(
    overrides: Sequence[str],
    *,
    config: DictConfig | None = None,
    launcher: Sequence[str] = (),
    user_config_dir: str | None = None,
) -> dict[str, Any]:
    """Train and measure every cell, write the comparison into ``out``, print its table.

    ``overrides``: of the command line, ``["algos=[mdlm,udlm]", "model=bd_tiny"]``; ``config``: what
    they compose, if the caller has it; ``launcher``: overrides that choose Hydra's launcher.
    Returns what ``results.json`` holds.

    Raises ``ValueError`` before the first run that lists all cells that cannot be, or whose folder
    holds another run, and for a precision that the device has no units for; after the last one if
    any failed, the others being kept.
    """
    overrides = read_words(overrides)
    if config is None:
        config = compose("compare", overrides, user_config_dir=user_config_dir)
    check_request(config, user_config_dir)
    cells = plan_cells(config, shared_overrides(overrides), user_config_dir)
    from discrete_diffusion.cli.compare.results import write_comparison
    from discrete_diffusion.evaluation.equal_terms import EqualTerms

    terms = EqualTerms(
        bound_samples=config.bound_samples,
        bound_draws=config.bound_draws,
        num_samples=config.eval.num_samples,
        draws=cells[0].measurement.draws(config.eval.draws),
    )
    out = Path(str(config.out)).absolute()
    folders = {cell.name: CellFolder(out / "cells" / cell.name) for cell in cells}
    for line in dict.fromkeys(_replacement(c) for c in cells if c.instead_of is not None):
        logger.info("%s", line)
    if not launcher:  # whose machines may be others
        for cell in cells:
            if not folders[cell.name].is_trained:
                check_trainer_units(cell.config.trainer)
    data = read_data(cells)
    prints = {name: each.fingerprint() for name, each in data.items()}
    _check_folders(cells, folders, prints, overwrite=config.overwrite)
    missing = [c for c in cells if not _is_finished(c, folders[c.name], terms)]
    _announce(cells, missing, folders, out)
    if missing:
        returned = launch(
            partial(run_cell, terms=terms),
            {cell.name: cell.overrides for cell in missing},
            out / "cells",
            launcher=launcher,
            user_config_dir=user_config_dir,
        )
        _raise_failures(missing, returned, folders)
    return write_comparison(out, cells, folders, data, terms, overrides=[*overrides, *launcher])


def run_cell(config: DictConfig, *, terms: EqualTerms) -> None:
    """Train a cell in the folder that the launcher made for it, or go on with it, and measure it.

    Raises the errors of ``train``, and ``ValueError`` if training has diverged.
    """
    from hydra.core.hydra_config import HydraConfig

    from discrete_diffusion.cli.compare.measuring import measure_cell
    from discrete_diffusion.cli.train import train

    folder = CellFolder(Path(HydraConfig.get().runtime.output_dir))
    folder.write_plan(config)
    logger.info("--- %s", folder.path.name)
    if not folder.is_trained:
        resumed = config.copy()
        resumed.resume = str(folder.last) if folder.last.exists() else None
        start = time.perf_counter()
        try:
            with _without_metrics():
                train(resumed, folder.path)
        finally:
            folder.add_seconds(time.perf_counter() - start)
    folder.write_result(measure_cell(config, folder, terms))


@contextmanager
def _without_metrics() -> Iterator[None]:
    """Leave out the line of metrics that ``train`` ends with: they are of another split than those
    of the table, and of fewer noise draws."""
    log = logging.getLogger("discrete_diffusion.cli.train")

    def keeps(record: logging.LogRecord) -> bool:
        return not record.getMessage().startswith("metrics:")

    log.addFilter(keeps)
    try:
        yield
    finally:
        log.removeFilter(keeps)


def _check_folders(
    cells: Sequence[Cell],
    folders: dict[str, CellFolder],
    fingerprints: dict[str, str],
    *,
    overwrite: bool,
) -> None:
    """``ValueError`` naming the cells whose folder holds another run, and what differs; with
    ``overwrite`` such folders are cleared instead, and those with a damaged checkpoint.
    ``fingerprints``: by data set."""
    changed = []
    for cell in cells:
        folder = folders[cell.name]
        changes = folder.changes(cell.config)
        result, fingerprint = folder.result, fingerprints[cell.data]
        if result is not None and result["data_fingerprint"] != fingerprint:
            changes.append(f"the data (fingerprint {result['data_fingerprint']} -> {fingerprint})")
        if overwrite and not changes and result is None and folder.is_damaged:
            changes.append(f"{folder.last} cannot be read")
        if changes and overwrite:
            logger.info("%s: training anew, for %s", cell.name, ", ".join(changes))
            folder.clear()
        elif changes:
            changed.append(f"{cell.name}: {', '.join(changes)}")
    if changed:
        listed = "\n  ".join(changed)
        raise ValueError(
            f"{folders[cells[0].name].path.parent} holds other runs (was -> is); give overwrite="
            f"true to train them anew, or another out=FOLDER:\n  {listed}"
        )


def _is_finished(cell: Cell, folder: CellFolder, terms: EqualTerms) -> bool:
    """Measured as asked for; where no samples are, those that there are do not matter."""
    result = folder.result
    if result is None or result["digest"] != config_digest(cell.config):
        return False
    asked = {**terms.as_dict(), **measured_with(cell.config)}
    found = {**result["terms"], **{key: result.get(key) for key in measured_with(cell.config)}}
    if not terms.num_samples:
        for key in ("num_samples", "draws", *measured_with(cell.config)):
            asked.pop(key, None)
            found.pop(key, None)
    return found == asked


def _announce(
    cells: Sequence[Cell], missing: Sequence[Cell], folders: dict[str, CellFolder], out: Path
) -> None:
    names = {cell.name for cell in missing}
    for cell in cells:
        folder = folders[cell.name]
        if cell.name not in names:
            logger.info("%s: finished, kept", cell.name)
        elif folder.is_trained:
            logger.info("%s: trained, kept; to be measured", cell.name)
        elif folder.last.exists():
            logger.info("%s: interrupted, goes on", cell.name)
    plural = "" if len(cells) == 1 else "s"
    logger.info("%d of %d cell%s to run", len(missing), len(cells), plural)
    there = sorted(path.parent.name for path in (out / "cells").glob("*/cell.json"))
    others = [name for name in there if name not in folders]
    if others:
        logger.info("also in %s, kept, not in the table: %s", out, ", ".join(others))


def _replacement(cell: Cell) -> str:
    return (
        f"{cell.algorithm} cannot use {cell.instead_of}: {cell.backbone} (model={cell.model}, "
        f"{cell.parameters:,} parameters) takes its place"
    )


def _raise_failures(
    cells: Sequence[Cell], returned: Sequence[JobReturn], folders: dict[str, CellFolder]
) -> None:
    """``ValueError`` naming the cells that failed; errors that users cannot mend as they are."""
    from hydra.core.utils import JobStatus

    from discrete_diffusion.naming import counted

    failed = []
    for cell, job in zip(cells, returned, strict=True):
        if job.status == JobStatus.COMPLETED:
            continue
        error = job._return_value  # return_value would raise it, and write a line of its own
        if not isinstance(error, _USER_ERRORS):
            raise error
        failed.append(f"{cell.name}: {error} (folder {folders[cell.name].path})")
    if failed:
        listed = "\n  ".join(failed)
        raise ValueError(
            f"{len(failed)} of {counted(len(cells), 'cell')} failed; the same command keeps the "
            "others and tries these again; delete the folder of one to train it anew:\n  "
            f"{listed}"
        )
