"""Sets of samples, one for each sampling seed or file, beside the model that made them."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discrete_diffusion.evaluation.held_out import (
    checkpoint_facts,
    sampling_facts,
    some_held_out,
)
from discrete_diffusion.evaluation.model_evaluation import (
    ModelEvaluation,
    measure_model,
    num_passes,
)
from discrete_diffusion.evaluation.structure import Structure
from discrete_diffusion.evaluation.token_samples import TokenSamples, sample_fresh
from discrete_diffusion.runtime import progress

if TYPE_CHECKING:
    from torch import Tensor

    from discrete_diffusion.data.base import TokenDataset
    from discrete_diffusion.evaluation.requests import EvaluateRequest
    from discrete_diffusion.evaluation.trained_model import Model, TrainedModel
    from discrete_diffusion.types import SampleOutput

logger = logging.getLogger(__name__)

Parts = Iterator[AbstractContextManager[Any]]
"""Parts of a long task, see ``progress.parts``."""


def model_parts(num: int, seeds: Sequence[int], num_held_out: int) -> tuple[str, str]:
    """Names of the parts of ``sample_and_measure``, in words."""
    return (
        f"sampling {shown_sizes([num] * len(seeds))} samples",
        f"measuring the model on {num_held_out:,} held-out samples",
    )


def sample_and_measure(
    request: EvaluateRequest,
    trained: TrainedModel,
    data: TokenDataset,
    split: str,
    *,
    name: str,
    num: int,
    seeds: Sequence[int],
    parts: Parts,
    save: Callable[[Tensor, Path], object],
    also: Callable[[Model], None] | None = None,
    structure: Structure | None = None,
) -> tuple[list[Tensor], dict[str, Any], ModelEvaluation]:
    """``num`` samples of a model for each of ``seeds``, Int[num, L]; what ``metrics.json`` says of
    how they were sampled; and the model on the held-out samples of ``split``, ``name`` in words.

    ``parts``: begins with two for ``model_parts``. ``save``: writes the samples of the first seed
    into ``request.out``, if there is one; called as soon as they are there, so that they are kept
    if what follows is stopped. ``also``: measures something else of the model while processes share
    the work, which they do once. ``structure``: of the samples; the bound is of the model itself.
    """
    structure = structure or Structure(None)
    measured = some_held_out(request, data, split)
    with trained.sharing() as shard:
        model = trained.on(shard)
        with next(parts):
            num_held_out = len(measured.splits[split])
            narrowed = structure.on(model)
            drawn = _drawn(request, trained, narrowed, num, seeds, num_held_out, save)
        with next(parts):
            scores = measure_model(request, model, measured, split)
            if also is not None:
                also(model)
    absorbing, titles = trained.algorithm.process.absorbing, trained.domain.group_titles
    facts = {
        **checkpoint_facts(request, trained, data),
        "seeds": list(seeds),
        "num_samples": num,
        **sampling_facts(request, trained),
        "network_calls_per_sample": sum(samples.network_calls for samples in drawn) / len(drawn),
        "seconds": sum(samples.seconds for samples in drawn) / len(drawn),
        **structure.facts(drawn),
    }
    of_model = ModelEvaluation({}, name, scores, absorbing, titles)
    return [samples.tokens for samples in drawn], facts, of_model


def _drawn(
    request: EvaluateRequest,
    trained: TrainedModel,
    model: Model,
    num: int,
    seeds: Sequence[int],
    num_held_out: int,
    save: Callable[[Tensor, Path], object],
) -> list[TokenSamples]:
    """The first batch tells how long sampling them and measuring the model will take."""
    start, told = time.perf_counter(), False

    def estimate(rows: Tensor, output: SampleOutput) -> None:
        nonlocal told
        if not told:
            seconds = time.perf_counter() - start
            drawing = seconds / len(rows) * num * len(seeds)
            measuring = seconds / float(output.nfe.sum()) * num_passes(request) * num_held_out
            logger.info(
                "about %.0f s to draw the samples and %.0f s to measure the model",
                *(drawing, measuring),
            )
        told = True

    if model.shard.world_size == 1:
        model = replace(model, on_sampled=estimate)
    drawn = []
    for seed in progress.track(seeds, "samples", "sets"):
        drawn.append(samples := sample_fresh(trained, model, num, seed))
        logger.info("seed %d: %s samples in %.1f s", seed, f"{num:,}", samples.seconds)
        if len(drawn) == 1 and model.shard.rank == 0 and request.out is not None:
            save(samples.tokens, request.out)
    return drawn


def facts_of_files(
    names: Sequence[str], sizes: Sequence[int], unreadable: Sequence[int]
) -> dict[str, Any]:
    """Entries of ``metrics.json`` on files of samples, of ``sizes``, with so many that could not be
    read; warns if the sizes differ."""
    same = len(set(sizes)) == 1
    if not same:
        logger.warning(
            "the sample files differ in size (%s): distances depend on it, so their mean mixes "
            "unlike numbers",
            ", ".join(map(str, sizes)),
        )
    return {
        "samples": list(names),
        "num_samples": sizes[0] if same else list(sizes),
        "num_unreadable_samples": list(unreadable),
    }


def shown_sizes(sizes: Sequence[int]) -> str:
    """``5 x 2,000`` for five equal sets, ``2,000 + 1,999`` for two unequal ones."""
    if len(set(sizes)) == 1:
        return f"{len(sizes)} x {sizes[0]:,}"
    return " + ".join(f"{size:,}" for size in sizes)
