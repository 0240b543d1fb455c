"""``evaluate`` of samples and of models of tokens: what samples are like, bound, calibration."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omegaconf import DictConfig

from discrete_diffusion.cli.checkpoint_data import BOUND_DRAWS, checkpoint_facts
from discrete_diffusion.cli.launch_environment import started
from discrete_diffusion.cli.sample_sets import SampleSets, draw_sample_sets, read_sample_sets

if TYPE_CHECKING:
    from discrete_diffusion.cli.computing import Computing
    from discrete_diffusion.cli.real_data import RealData
    from discrete_diffusion.cli.sample_source import SampleSource
    from discrete_diffusion.evaluation import ModelScores, SampleScores
    from discrete_diffusion.evaluation.table import TableSection

logger = logging.getLogger(__name__)

FLOOR_DRAWS, TIME_BINS = 20, 20
"""If ``floor_draws`` and ``time_bins`` do not say."""


@dataclass(frozen=True)
class TokenEvaluation:
    """All that was measured; what there is none of is None."""

    facts: dict[str, Any]
    real: RealData
    samples: SampleSets | None
    sample_scores: SampleScores | None
    model_scores: ModelScores | None
    absorbing: bool = True

    def sections(self) -> list[TableSection]:
        """The tables, samples first."""
        from discrete_diffusion.evaluation.table import model_sections, sample_sections

        sections = [] if self.sample_scores is None else sample_sections(self.sample_scores)
        return sections + ([] if self.model_scores is None else model_sections(self.model_scores))

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


def evaluate_files(config: DictConfig) -> TokenEvaluation:
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
    return TokenEvaluation(
        facts={**samples.facts, **_facts(real)},
        real=real,
        samples=samples,
        sample_scores=_score(config, samples, real),
        model_scores=None,
    )


def evaluate_tokens(config: DictConfig, source: SampleSource, here: Computing) -> TokenEvaluation:
    """A model of tokens: its samples if it makes diagrams, and the model itself."""
    from discrete_diffusion.cli.real_data import real_data_for_model
    from discrete_diffusion.evaluation import score_model
    from discrete_diffusion.sampling.draw_samples import rows_at_once

    checkpoint = source.checkpoint
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
            bound_draws=BOUND_DRAWS if config.bound_draws is None else config.bound_draws,
            time_bins=TIME_BINS if config.time_bins is None else config.time_bins,
            batch_size=config.batch_size or rows_at_once(here.device),
            seed=config.seed,
            device=here.device,
            shard=shard,
        )
    sample_scores = None if samples is None else _score(config, samples, real)
    facts = {
        **checkpoint_facts(config, source, real.data),
        **({} if samples is None else samples.facts),
        **_facts(real),
    }
    absorbing = checkpoint.algorithm.process.absorbing
    return TokenEvaluation(facts, real, samples, sample_scores, model_scores, absorbing)


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
        floor_draws=FLOOR_DRAWS if config.floor_draws is None else config.floor_draws,
        seed=config.seed,
    )


def _facts(real: RealData) -> dict[str, Any]:
    held_out = real.reference if real.data is None else real.data.splits[real.split]
    return {"reference": real.name, "num_reference": len(held_out or ())}
