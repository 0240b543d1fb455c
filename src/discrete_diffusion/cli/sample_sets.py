"""The samples of an evaluation: drawn from a model, one set per sampling seed, or read."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from omegaconf import DictConfig, ListConfig

if TYPE_CHECKING:
    from discrete_diffusion.cli.sample_source import SampleSource
    from discrete_diffusion.data.bubble_diagrams import BubbleDiagram
    from discrete_diffusion.shards import Shard

logger = logging.getLogger(__name__)

NUM_SAMPLES, SEEDS = 2_000, 5


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


def draw_sample_sets(config: DictConfig, source: SampleSource, shard: Shard) -> SampleSets:
    """``num_samples`` of a model for each of ``seeds`` sampling seeds, from ``seed`` on."""
    sets, calls, seconds = [], [], []
    num = NUM_SAMPLES if config.num_samples is None else config.num_samples
    seeds = sampling_seeds(config)
    for seed in seeds:
        drawn = source.draw(num, seed, shard=shard)
        sets.append(drawn.diagrams)
        calls.append(drawn.network_calls)
        seconds.append(drawn.seconds)
        logger.info("seed %d: %s samples in %.1f s", seed, f"{len(sets[-1]):,}", drawn.seconds)
    facts = {
        "seeds": seeds,
        "num_samples": num,
        "sampling": source.sampling,
        "sampling_steps": config.steps,
        "network_calls_per_sample": sum(calls) / len(calls),
        "seconds": sum(seconds) / len(seconds),
    }
    return SampleSets(sets, facts)


def sampling_seeds(config: DictConfig) -> list[int]:
    """``seed`` and the next ones, ``seeds`` in all."""
    return list(range(config.seed, config.seed + (config.seeds or SEEDS)))


def read_sample_sets(config: DictConfig) -> SampleSets:
    """The files of ``samples``; warns if they differ in size. ``ValueError`` for an empty list."""
    from discrete_diffusion.cli.real_data import read_plans

    names = sample_files(config)
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


def sample_files(config: DictConfig) -> list[str]:
    """``samples=FILE`` or ``samples=[A,B]`` as a list; empty for null."""
    if config.samples is None:
        return []
    many = isinstance(config.samples, ListConfig)
    return [str(name) for name in config.samples] if many else [str(config.samples)]
