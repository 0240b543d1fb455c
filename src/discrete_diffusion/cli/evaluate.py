"""``discrete-diffusion evaluate``: measure samples, and the model they come from."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omegaconf import DictConfig

from discrete_diffusion.cli.compose import check_counts, plain
from discrete_diffusion.cli.computing import check_computing, where_to_compute
from discrete_diffusion.cli.launch_environment import hush_other_ranks, started
from discrete_diffusion.cli.sample_sets import (
    SampleSets,
    draw_sample_sets,
    read_sample_sets,
    sample_files,
)
from discrete_diffusion.whole_files import is_same_file

if TYPE_CHECKING:
    from discrete_diffusion.cli.real_data import RealData
    from discrete_diffusion.evaluation import ModelScores, SampleScores
    from discrete_diffusion.evaluation.table import TableSection

logger = logging.getLogger(__name__)

WRITTEN = ("metrics.json", "table.md", "samples.jsonl")
"""What ``out`` receives and an input could be; no input is a picture."""

_WIDTH = 200
"""Columns of the printed table at most: more than any row takes."""


def run(config: DictConfig) -> None:
    """Measure, print the table, and write everything into ``out``.

    ``metrics.json``, ``table.md``; for diagrams ``samples.jsonl`` and ``samples.png`` (of the first
    sampling seed), ``adjacency.png``, ``histograms.png``, ``relations.png``; from a checkpoint
    ``calibration.png`` and ``nelbo_by_t.png``. Several processes share the samples to draw and the
    measuring of the model, the first one does the rest. Raises ``ValueError`` before anything is
    measured if one of the files would take the place of one that is read.
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
    )
    check_computing(config)
    folder = Path(config.out)
    for key, files in (
        ("samples", sample_files(config)),
        ("reference", [config.reference]),
        ("training", [config.training]),
    ):
        _refuse_overwriting(folder, key, files)
    folder.mkdir(parents=True, exist_ok=True)
    done = _evaluate_files(config) if config.checkpoint is None else _evaluate_checkpoint(config)
    done.write(folder)
    if config.pictures:
        done.draw(folder)
    _print_table(done.sections())
    for line in done.notes():
        logger.info("%s", line)
    logger.info("metrics.json, table.md%s: %s", " and pictures" * config.pictures, folder)


def _given(config: DictConfig) -> str:
    return "neither" if config.checkpoint is None else "both"


def _refuse_overwriting(folder: Path, key: str, files: Iterable[str | None]) -> None:
    """``ValueError`` if one of the ``files`` that ``key`` names, or one in a folder among them, is
    a file that will be written into ``folder``; None names nothing."""
    for path in [Path(file) for file in files if file is not None]:
        read = [path, *path.iterdir()] if path.is_dir() else [path]
        for target in [folder / name for name in WRITTEN]:
            if any(is_same_file(target, file) for file in read):
                raise ValueError(
                    f"{key}={path}: {target} would be overwritten; choose another out=FOLDER"
                )


@dataclass(frozen=True)
class _Evaluation:
    """All that was measured; what there is none of is None."""

    facts: dict[str, Any]
    real: RealData
    samples: SampleSets | None
    sample_scores: SampleScores | None
    model_scores: ModelScores | None
    absorbing: bool = True

    def sections(self) -> list[TableSection]:
        """The tables, samples first."""
        from discrete_diffusion.evaluation.table import model_section, sample_sections

        sections = [] if self.sample_scores is None else sample_sections(self.sample_scores)
        return sections + ([] if self.model_scores is None else [model_section(self.model_scores)])

    def notes(self) -> list[str]:
        """How to read the table."""
        from discrete_diffusion.evaluation.table import model_notes, sample_notes

        notes = [f"Real data: {self.real.name}."]
        if self.sample_scores is not None and self.samples is not None:
            notes += sample_notes(
                self.sample_scores,
                self.samples.sizes,
                len(self.real.reference or ()),
                self.samples.unreadable,
            )
        return notes + ([] if self.model_scores is None else model_notes(self.model_scores))

    def metrics(self) -> dict[str, Any]:
        """What ``metrics.json`` holds."""
        samples = {} if self.sample_scores is None else self.sample_scores.as_dict()
        model = {} if self.model_scores is None else self.model_scores.as_dict()
        scalars = {k: v for k, v in {**samples, **model}.items() if not isinstance(v, dict | list)}
        return {**self.facts, **scalars, **samples, **model}

    def write(self, folder: Path) -> None:
        """Numbers, table and the samples of the first set; warns of numbers that are not finite."""
        from discrete_diffusion.data.bubble_diagrams import write_diagrams
        from discrete_diffusion.evaluation.json_values import write_metrics
        from discrete_diffusion.evaluation.table import markdown

        write_metrics(folder, self.metrics())
        (folder / "table.md").write_text(markdown(self.sections(), self.notes()))
        if self.samples is not None:
            write_diagrams(folder / "samples.jsonl", self.samples.sets[0])

    def draw(self, folder: Path) -> None:
        """The pictures."""
        from discrete_diffusion.evaluation import draw_model_pictures, draw_sample_pictures
        from discrete_diffusion.evaluation.report import MAX_DRAWN
        from discrete_diffusion.viz import draw_grid

        if self.samples is not None and self.real.reference is not None:
            draw_grid(self.samples.sets[0][:MAX_DRAWN], folder / "samples.png")
            pooled = [diagram for diagrams in self.samples.sets for diagram in diagrams]
            draw_sample_pictures(pooled, self.real.reference, folder)
        if self.model_scores is not None:
            draw_model_pictures(self.model_scores, folder, absorbing=self.absorbing)


def _evaluate_files(config: DictConfig) -> _Evaluation:
    """``samples=FILE`` or ``samples=[A,B]``: the work of one process."""
    from discrete_diffusion.cli.real_data import real_data_for_samples

    if config.devices not in (None, 1):
        raise ValueError(
            f"devices={config.devices}: samples=FILE is measured by one process; leave devices out"
        )
    found = started()
    if found is not None and found.rank > 0:
        raise SystemExit(0)
    samples = read_sample_sets(config)
    real = real_data_for_samples(config)
    return _Evaluation(
        facts={**samples.facts, **_facts(real)},
        real=real,
        samples=samples,
        sample_scores=_score(config, samples, real),
        model_scores=None,
    )


def _evaluate_checkpoint(config: DictConfig) -> _Evaluation:
    """``checkpoint=FILE``: its samples if it makes diagrams, and the model itself."""
    from discrete_diffusion.cli.real_data import real_data_for_model
    from discrete_diffusion.cli.sample_source import open_sample_source
    from discrete_diffusion.evaluation import score_model
    from discrete_diffusion.sampling.draw_samples import rows_at_once

    here = where_to_compute(config)
    source = open_sample_source(config, here.device)
    checkpoint = source.checkpoint
    for key, value in plain(checkpoint.config.data).items():
        if key.endswith("path") and isinstance(value, str):
            _refuse_overwriting(Path(config.out), f"data.{key}", [value])
    real = real_data_for_model(config, checkpoint)
    assert real.data is not None
    num = len(real.data.splits[real.split])
    with here.shared() as shard:
        samples = None if real.reference is None else draw_sample_sets(config, source, shard)
        logger.info("measuring the model on %s held-out samples", f"{num:,}")
        model_scores = score_model(
            checkpoint.algorithm,
            real.data,
            real.split,
            bound_draws=config.bound_draws,
            time_bins=config.time_bins,
            batch_size=config.batch_size or rows_at_once(here.device),
            seed=config.seed,
            device=here.device,
            shard=shard,
        )
    sample_scores = None if samples is None else _score(config, samples, real)
    facts = {
        "checkpoint": str(config.checkpoint),
        "step": checkpoint.step,
        "data_fingerprint": real.data.fingerprint(),
        "trained_on_fingerprint": checkpoint.data_fingerprint,
        "seed": config.seed,
        "precision": str(config.precision),
        "ema": config.ema,
        **({} if samples is None else samples.facts),
        **_facts(real),
    }
    absorbing = checkpoint.algorithm.process.absorbing
    return _Evaluation(facts, real, samples, sample_scores, model_scores, absorbing)


def _score(config: DictConfig, samples: SampleSets, real: RealData) -> SampleScores:
    from discrete_diffusion.evaluation import score_samples
    from discrete_diffusion.evaluation.table import shown_sizes

    assert real.reference is not None
    logger.info(
        "measuring %s samples against %s real plans",
        shown_sizes(samples.sizes),
        f"{len(real.reference):,}",
    )
    return score_samples(
        samples.sets,
        real.reference,
        training=real.training,
        known=real.known,
        floor_draws=config.floor_draws,
        seed=config.seed,
    )


def _facts(real: RealData) -> dict[str, Any]:
    held_out = real.reference if real.data is None else real.data.splits[real.split]
    return {"reference": real.name, "num_reference": len(held_out or ())}


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
