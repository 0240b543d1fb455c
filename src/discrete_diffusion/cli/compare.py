"""``discrete-diffusion compare``: algorithms, backbones and seeds, all else equal.

``compare_request`` reads the request, ``compare_planning`` plans the runs, ``compare_running``
trains and compares them. ``Domain.cell_measurement`` measures a cell."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from omegaconf import DictConfig

from discrete_diffusion.building.measurements import with_terms
from discrete_diffusion.cli.compare_request import check_request, read_words, shared_overrides
from discrete_diffusion.cli.process_setup import end_stopped
from discrete_diffusion.composing.compose import compose
from discrete_diffusion.composing.search_path import is_search_path, paths_as_typed
from discrete_diffusion.runtime.atomic_files import ensured_folder, locked
from discrete_diffusion.runtime.processes import Stop

logger = logging.getLogger(__name__)


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
    user_config_dir: str | None = None


def run(config: DictConfig) -> None:
    """Compare as the command line says.

    Ctrl-C and SIGTERM end the comparison with exit status 130 or 143; the same command resumes it.
    """
    from hydra.core.hydra_config import HydraConfig

    hydra = HydraConfig.get()
    # the folder of --config-dir, and Hydra's launcher
    user_dirs = [s.path for s in hydra.runtime.config_sources if s.provider == "command-line"]
    chosen = ("hydra/launcher", "hydra.launcher")
    request = CompareRequest(
        [*hydra.overrides.task, *filter(is_search_path, hydra.overrides.hydra)],
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
    are invalid, folders hold other runs, or the device does not have the precision; and after the
    last run if some runs failed.
    """
    # the config, checked
    overrides = read_words(paths_as_typed(request.overrides))
    user_config_dir, config = request.user_config_dir, request.config
    if config is None:
        config = compose("compare", overrides, user_config_dir=user_config_dir)
    check_request(config, overrides, user_config_dir)
    # imports of torch follow the first checks
    from discrete_diffusion.cli.compare_planning import plan_cells
    from discrete_diffusion.cli.compare_running import compare_cells

    config, shortened = with_terms(config)
    for line in shortened:
        logger.info("%s", line)
    # cells, trained and measured in the locked folder
    cells = plan_cells(config, shared_overrides(overrides), user_config_dir)
    with ensured_folder(cells[0].out), locked(cells[0].out):
        return compare_cells(cells, config, overrides, request.launcher, user_config_dir)
