"""``discrete-diffusion evaluate``: measure samples and, with a checkpoint, the model."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from omegaconf import DictConfig

from discrete_diffusion.cli.process_setup import end_stopped
from discrete_diffusion.cli.run_folders import reserve_outputs
from discrete_diffusion.cli.sample import (
    checked_request,
    choose_devices,
    opened_model,
    sample_files,
)
from discrete_diffusion.domains.registry import get_domain
from discrete_diffusion.evaluation.requests import EvaluateRequest
from discrete_diffusion.hub import boxed_domain
from discrete_diffusion.runtime import progress
from discrete_diffusion.runtime.atomic_files import states_of, written_since
from discrete_diffusion.runtime.processes import Stop, silence_nonzero_ranks, started

if TYPE_CHECKING:
    from discrete_diffusion.evaluation.report import Evaluation

logger = logging.getLogger(__name__)


def run(config: DictConfig) -> None:
    """Measure, print the table, and write everything into ``out``.

    Several processes share the sampling and the measuring of the model; the first process does the
    rest. After a signal the command logs its progress and ends; no file is incomplete.
    """
    silence_nonzero_ranks()
    request = check_values(config)
    folder, written = Path(config.out), _output_names()
    before = states_of(folder, written)
    try:
        with reserve_outputs(config, written):
            _measure_and_write(request, config, folder, written)
    except Stop as stop:
        kept = " and ".join(str(folder / name) for name in sorted(written_since(before, folder)))
        end_stopped(stop, f"what is complete is in {kept}" if kept else "nothing was written")


def check_values(config: DictConfig) -> EvaluateRequest:
    """Return the request of a config. Raises ``ValueError`` or ``FileNotFoundError``."""
    if (config.checkpoint is None) == (config.samples is None):
        got = "neither" if config.checkpoint is None else "both"
        raise ValueError(
            "evaluate needs checkpoint=FILE, which draws the samples, or samples=FILE "
            f"(samples=[A,B] for a file per sampling seed); got {got}"
        )
    return checked_request(EvaluateRequest, config, _output_names())


def _output_names() -> list[str]:
    """Names of the files written to ``out``, except pictures, which are never inputs."""
    return ["metrics.json", "table.md", *(f for f in sample_files() if f.startswith("samples."))]


def _measure_and_write(
    request: EvaluateRequest, config: DictConfig, folder: Path, written: list[str]
) -> None:
    """Measure, print the tables, and write the files into the folder."""
    from discrete_diffusion.evaluation.tables import print_table

    done, quickly = _evaluate_request(request, config, written)
    # how much was measured, unless that is everything
    found = [done.metrics().get(key) for key in ("num_held_out", "num_held_out_available")]
    parts = [] if None in found else ["{:,} of {:,} held-out samples".format(*found)]
    head = f"num_held_out={found[0]}: {parts[0]}." if parts and found[0] != found[1] else ""
    if quickly:
        parts += [f"{key}={value}" for key, value in quickly.items() if key != "num_held_out"]
        head = f"quick=true: {', '.join(parts)}; without it more is measured."
    done.write(folder, {"quick": quickly} if quickly else {}, head)
    if config.pictures:
        with progress.task("drawing pictures"):
            done.plot(folder)
    drawn = config.pictures and any(folder.glob("*.png"))
    # tables and notes, then how much was measured, and the files
    for section in done.sections():
        rows = [row.cells[: len(section.columns)] for row in section.rows if not row.detail]
        print_table(section.columns, rows, title=section.title)
    for line in (*done.notes(), *filter(None, [head])):
        logger.info("%s", line)
    logger.info("metrics.json, table.md%s: %s", " and pictures" * drawn, folder)


def _evaluate_request(
    request: EvaluateRequest, config: DictConfig, written: list[str]
) -> tuple[Evaluation, dict[str, int]]:
    """Measure files of samples or a checkpoint; also return the settings that quick=true chose."""
    from discrete_diffusion.api.requests import evaluate_files, evaluate_model

    if config.checkpoint is not None:
        trained = opened_model(config, request, choose_devices(config))
        trained.refuse_overwriting_data(Path(config.out), written, request.get("data"))
        # keep finished samples at a signal
        return evaluate_model(request, replace(trained, append=lambda _: None))
    # files are measured by the first process: others end here
    if config.devices not in (None, 1):
        raise ValueError(
            f"devices={config.devices}: samples=FILE is measured by one process; leave devices out"
        )
    found = started()
    if found is not None and found.rank > 0:
        raise SystemExit(0)
    domain = boxed_domain() if config.domain is None else str(config.domain)
    return evaluate_files(request, get_domain(domain))
