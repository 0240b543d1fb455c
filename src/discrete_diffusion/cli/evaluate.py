"""``discrete-diffusion evaluate``: measure samples, and the model they come from."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from omegaconf import DictConfig

from discrete_diffusion.cli.compose import check_counts, check_shares
from discrete_diffusion.cli.computing import check_computing, where_to_compute
from discrete_diffusion.cli.launch_environment import hush_other_ranks
from discrete_diffusion.cli.meant_settings import (
    refuse_meaningless,
    refuse_meaningless_for_files,
    refuse_settings_of_files,
)
from discrete_diffusion.cli.sample_outputs import refuse_overwriting
from discrete_diffusion.cli.sample_sets import sample_files
from discrete_diffusion.cli.sample_source import open_sample_source
from discrete_diffusion.states import DIALOGUES, IMAGES

if TYPE_CHECKING:
    from discrete_diffusion.evaluation.table import TableSection

logger = logging.getLogger(__name__)

WRITTEN = ("metrics.json", "table.md", "samples.jsonl", "samples.npz")
"""What ``out`` receives and an input could be; no input is a picture."""

_WIDTH = 200
"""Columns of the printed table at most: more than any row takes."""


class Evaluation(Protocol):
    """All that was measured, of samples or a model in whatever state."""

    def sections(self) -> list[TableSection]:
        """The tables."""
        ...

    def notes(self) -> list[str]:
        """How to read them."""
        ...

    def write(self, folder: Path) -> None:
        """Numbers, table and samples."""
        ...

    def draw(self, folder: Path) -> None:
        """The pictures."""
        ...


def run(config: DictConfig) -> None:
    """Measure, print the table, and write everything into ``out``.

    ``metrics.json`` and ``table.md``. For diagrams ``samples.jsonl`` and ``samples.png`` (of the
    first sampling seed), ``adjacency.png``, ``histograms.png``, ``relations.png``; from a
    checkpoint on tokens ``calibration.png`` and ``nelbo_by_t.png``; for features ``samples.npz``,
    ``samples.png`` and ``row_scores.png``; for images ``samples.npz`` and ``samples.png``; for
    dialogues ``samples.jsonl``. Several processes share the samples to draw and the measuring of
    the model, the first one does the rest.
    Raises ``ValueError`` before anything is measured if one of the files would take the place of
    one that is read.
    """
    hush_other_ranks()
    if (config.checkpoint is None) == (config.samples is None):
        raise ValueError(
            "evaluate needs checkpoint=FILE, which draws the samples, or samples=FILE "
            f"(samples=[A,B] for a file per sampling seed); got {_given(config)}"
        )
    check_counts(
        config,
        num_samples=1,
        seeds=1,
        steps=1,
        floor_draws=0,
        bound_draws=1,
        time_bins=1,
        batch_size=1,
        seed=0,
        threads=1,
        n_max=1,
        draws=1,
    )
    check_shares(config, "mask_rate")
    check_computing(config)
    folder = Path(config.out)
    for key, files in (
        ("samples", sample_files(config)),
        ("reference", [config.reference]),
        ("training", [config.training]),
    ):
        refuse_overwriting(folder, WRITTEN, key, files)
    folder.mkdir(parents=True, exist_ok=True)
    done = _evaluate(config)
    done.write(folder)
    if config.pictures:
        done.draw(folder)
    drawn = config.pictures and any(folder.glob("*.png"))
    _print_table(done.sections())
    for line in done.notes():
        logger.info("%s", line)
    logger.info("metrics.json, table.md%s: %s", " and pictures" * drawn, folder)


def _given(config: DictConfig) -> str:
    return "neither" if config.checkpoint is None else "both"


def _evaluate(config: DictConfig) -> Evaluation:
    """Files of samples, or a checkpoint as the state of its model has it."""
    from discrete_diffusion.cli.token_evaluation import evaluate_files, evaluate_tokens

    if config.checkpoint is None:
        refuse_meaningless_for_files(config)
        return evaluate_files(config)
    from discrete_diffusion.cli.feature_evaluation import evaluate_features
    from discrete_diffusion.cli.field_evaluation import evaluate_fields
    from discrete_diffusion.cli.summary_evaluation import evaluate_summaries

    here = where_to_compute(config)
    source = open_sample_source(config, here.device)
    refuse_meaningless(config, source)
    refuse_settings_of_files(config)
    source.refuse_overwriting_data(config, WRITTEN)
    evaluations: dict[str, Callable[..., Evaluation]] = {
        "diagrams": evaluate_tokens,
        "text": evaluate_tokens,
        "features": evaluate_features,
        IMAGES: evaluate_fields,
        DIALOGUES: evaluate_summaries,
    }
    return evaluations[source.trained_on](config, source, here)


def _print_table(sections: list[TableSection]) -> None:
    """To standard output, as wide as it needs to be, whatever it is read on."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False, width=_WIDTH)
    for section in sections:
        table = Table(
            title=section.title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False
        )
        for k, column in enumerate(section.columns):
            table.add_column(column, justify="left" if k == 0 else "right", no_wrap=True)
        for row in section.rows:
            table.add_row(*row.cells[: len(section.columns)])
        console.print(table)
