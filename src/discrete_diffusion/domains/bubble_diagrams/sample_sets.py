"""The samples of an evaluation: drawn from a model, one set per sampling seed, or read."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from omegaconf import DictConfig

from discrete_diffusion.config_files import as_list
from discrete_diffusion.domains.bubble_diagrams.tokens import decode
from discrete_diffusion.evaluation.held_out import sampling_facts, sampling_seeds
from discrete_diffusion.evaluation.token_samples import draw_fresh
from discrete_diffusion.layout import VocabConfig

if TYPE_CHECKING:
    from discrete_diffusion.domains.bubble_diagrams import BubbleDiagram
    from discrete_diffusion.evaluation.trained_model import Model, TrainedModel

logger = logging.getLogger(__name__)

NUM_SAMPLES = 2_000


@dataclass(frozen=True)
class SampleSets:
    """``sets``: diagrams by sampling seed or file. ``facts``: how they were made, for
    ``metrics.json``. ``unreadable``: by file, samples that could not be read."""

    sets: list[list[BubbleDiagram]]
    facts: dict[str, Any]
    unreadable: tuple[int, ...] = ()

    @property
    def sizes(self) -> list[int]:
        """How many diagrams each set holds."""
        return [len(diagrams) for diagrams in self.sets]


def draw_sample_sets(config: DictConfig, trained: TrainedModel, model: Model) -> SampleSets:
    """``num_samples`` of a model for each of ``seeds`` sampling seeds, from ``seed`` on."""
    sets, calls, seconds = [], [], []
    num = NUM_SAMPLES if config.num_samples is None else config.num_samples
    seeds, vocab = sampling_seeds(config), VocabConfig(n_max=trained.data_config.n_max)
    for seed in seeds:
        drawn = draw_fresh(trained, model, num, seed)
        sets.append(decode(drawn.tokens, vocab))
        calls.append(drawn.network_calls)
        seconds.append(drawn.seconds)
        logger.info("seed %d: %s samples in %.1f s", seed, f"{len(sets[-1]):,}", drawn.seconds)
    facts = {
        "seeds": seeds,
        "num_samples": num,
        **sampling_facts(config, trained),
        "network_calls_per_sample": sum(calls) / len(calls),
        "seconds": sum(seconds) / len(seconds),
    }
    return SampleSets(sets, facts)


def read_sample_sets(config: DictConfig) -> SampleSets:
    """The files of ``samples``; warns if they differ in size. ``ValueError`` for an empty list."""
    from discrete_diffusion.domains.bubble_diagrams.real_data import read_plans

    names = as_list(config.samples)
    if not names:
        raise ValueError("samples=[]: give at least one file")
    reports = [read_plans(name, config) for name in names]
    unreadable = tuple(len(report.problems) for report in reports)
    sizes = [len(report.diagrams) for report in reports]
    if len(set(sizes)) > 1:
        logger.warning(
            "the sample files differ in size (%s): distances depend on it, so their mean mixes "
            "unlike numbers",
            ", ".join(map(str, sizes)),
        )
    facts = {
        "samples": names,
        "num_samples": sizes[0] if len(set(sizes)) == 1 else sizes,
        "num_unreadable_samples": list(unreadable),
    }
    return SampleSets([list(report.diagrams) for report in reports], facts, unreadable)
