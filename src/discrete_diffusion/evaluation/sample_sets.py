"""Sets of samples, one for each sampling seed or file, beside the model that made them."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discrete_diffusion.evaluation.held_out import (
    SEEDS,
    checkpoint_facts,
    keep_samples,
    sampling_facts,
    sampling_seeds,
    some_held_out,
)
from discrete_diffusion.evaluation.model_evaluation import (
    ModelEvaluation,
    measure_model,
    num_passes,
)
from discrete_diffusion.evaluation.sample_scores import shown_sizes
from discrete_diffusion.evaluation.structure import Structure
from discrete_diffusion.evaluation.token_samples import TokenSamples, sample_fresh
from discrete_diffusion.runtime import progress
from discrete_diffusion.runtime.processes import end_if_stopping

if TYPE_CHECKING:
    from torch import Tensor

    from discrete_diffusion.contracts import SampleOutput
    from discrete_diffusion.evaluation.measured_data import MeasuredData
    from discrete_diffusion.evaluation.requests import EvaluateRequest
    from discrete_diffusion.evaluation.trained_model import TrainedModel
    from discrete_diffusion.sampling.model import Model

logger = logging.getLogger(__name__)


def sample_and_measure(
    request: EvaluateRequest,
    trained: TrainedModel,
    measured: MeasuredData,
    *,
    num: int,
    save: Callable[[Tensor, Path], object],
    seeds: int = SEEDS,
    scoring: str = "scoring the samples",
    also: Callable[[Model], None] | None = None,
    structure: Structure | None = None,
) -> tuple[list[Tensor], dict[str, Any], ModelEvaluation, AbstractContextManager[Any]]:
    """Sets of samples of a model, Int[num, L], one for each seed; what ``metrics.json`` says of how
    they were sampled; the model on the held-out samples of what is ``measured``; and the part of
    the progress that is called ``scoring``, to be entered.

    ``num``: samples of a seed, and ``seeds``, if the request does not say. ``save``: writes the
    tokens of the first seed into ``request.out``, if there is one, as soon as they are there, so
    that they are kept if what follows is stopped. ``also``: measures something else of the model
    while processes share the work, which they do once. ``structure``: of the samples; the bound is
    of the model itself."""
    structure = structure or Structure(None)
    data, split = some_held_out(request, measured.data, measured.split), measured.split
    num, each = request.num_samples or num, sampling_seeds(request, seeds)
    parts = progress.parts(
        f"sampling {shown_sizes([num] * len(each))} samples",
        f"measuring the model on {len(data.splits[split]):,} held-out samples",
        scoring,
    )
    with trained.sharing() as shard:
        model = trained.on(shard)
        with next(parts):
            narrowed = structure.on(model)
            drawn = _drawn(request, trained, narrowed, num, each, save, len(data.splits[split]))
        with next(parts):
            scores = measure_model(request, model, data, split)
            if also is not None:
                also(model)
    absorbing, titles = trained.algorithm.process.absorbing, trained.domain.group_titles
    facts = {
        **checkpoint_facts(request, trained, measured.data),
        "seeds": each,
        "num_samples": num,
        **sampling_facts(request, trained),
        "network_calls_per_sample": sum(samples.network_calls for samples in drawn) / len(drawn),
        "seconds": sum(samples.seconds for samples in drawn) / len(drawn),
        **structure.facts(drawn),
    }
    of_model = ModelEvaluation({}, measured.name, scores, absorbing, titles)
    return [samples.tokens for samples in drawn], facts, of_model, next(parts)


def _drawn(
    request: EvaluateRequest,
    trained: TrainedModel,
    model: Model,
    num: int,
    seeds: Sequence[int],
    save: Callable[[Tensor, Path], object],
    num_held_out: int,
) -> list[TokenSamples]:
    """The first batch tells how long sampling them and measuring the model will take."""
    start, logged = time.perf_counter(), False

    def estimate(rows: Tensor, output: SampleOutput) -> None:
        nonlocal logged
        if not logged:
            seconds = time.perf_counter() - start
            drawing = seconds / len(rows) * num * len(seeds)
            passes = num_passes(request, model.algorithm.layout.length) * num_held_out
            measuring = seconds / float(output.nfe.sum()) * passes
            logger.info(
                "about %.0f s to draw the samples and %.0f s to measure the model",
                *(drawing, measuring),
            )
        logged = True

    if model.shard.world_size == 1:
        model = replace(model, on_sampled=estimate)
    drawn = []
    for seed in progress.track(seeds, "samples", "sets"):
        drawn.append(samples := sample_fresh(trained, model, num, entropy=(seed,)))
        logger.info("seed %d: %s samples in %.1f s", seed, f"{num:,}", samples.seconds)
        if len(drawn) == 1:
            keep_samples(request, model.shard, partial(save, samples.tokens))
        end_if_stopping()
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
