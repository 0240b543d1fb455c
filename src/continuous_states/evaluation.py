"""Shared steps of the commands: samples for conditions, bounds, rows of tables and sentences."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from discrete_diffusion.algorithms import eval_mode
from discrete_diffusion.categorical import make_generator
from discrete_diffusion.config import counted
from discrete_diffusion.contracts import BoundEstimate
from discrete_diffusion.data import Dataset, Examples, SplitBatches
from discrete_diffusion.evaluation import (
    NOISE_SAMPLES,
    Comparison,
    EvaluateRequest,
    MeasurementSettings,
    TableRow,
    plus_minus,
    sample_bounds,
    some_held_out,
)
from discrete_diffusion.runtime import Stop, progress
from discrete_diffusion.sampling import Model

logger = logging.getLogger(__name__)

Tensors = Mapping[str, Tensor]
"""Tensors by name, with the same number of rows: one per sample."""

_BOUND = (21,)
"""Stream of random numbers of the bound, different from that of samples."""


@dataclass(frozen=True)
class ConditionalSamples:
    """Samples ``values`` on the CPU, one row per row of the conditions; only for the first rows if
    sampling was stopped (``Stop``). ``seconds``: time spent sampling, summed over processes."""

    values: Tensors
    seconds: float

    def __len__(self) -> int:
        return len(next(iter(self.values.values())))


def sample_conditional(
    model: Model,
    conditions: Tensors,
    draw: Callable[[Tensors, torch.Generator], Tensors],
    *,
    entropy: tuple[int, ...],
    batches: list[Tensor] | None = None,
) -> ConditionalSamples:
    """Call ``draw`` on each batch of the conditions, with the algorithm in eval mode.

    ``draw``: function of a batch of conditions and a generator, both on the model's device, that
    returns samples. ``batches``: Int[b] rows of each batch, every row in one batch; by default
    ``model.rows_at_once`` rows in order. The conditions must have at least one row.

    The processes of ``model.shard`` share the batches; each process returns all samples. Batch k
    has a generator seeded by ``entropy`` and k, so that samples do not depend on the number of
    processes, and a call with other conditions has the same noise.
    If a ``Stop`` ends the sampling, and ``model.on_sampled`` allows it, the samples before the
    first missing sample are returned.
    """
    if batches is None:
        num = len(next(iter(conditions.values())))
        batches = list(torch.arange(num).split(model.rows_at_once))
    finished: list[tuple[Tensor, ConditionalSamples]] = []

    def sample_batch(numbered: tuple[int, Tensor]) -> ConditionalSamples:
        # samples of one batch, with its generator
        k, rows = numbered
        drawing.take(len(rows) * model.shard.world_size)
        start = time.perf_counter()
        given = {name: values[rows].to(model.device) for name, values in conditions.items()}
        samples = draw(given, make_generator(*entropy, k, device=model.device))
        on_cpu = {name: values.cpu() for name, values in samples.items()}
        part = ConditionalSamples(on_cpu, time.perf_counter() - start)
        # hand them on at once, so that a stop keeps them
        if model.on_sampled is not None:
            finished.append((rows, part))
            model.on_sampled(rows, on_cpu)
        drawing.advance(len(rows) * model.shard.world_size)
        return part

    asked = total = sum(map(len, batches))
    with eval_mode(model.algorithm), progress.task("sampling", asked, "samples") as drawing:
        try:
            parts = model.shard.map(sample_batch, enumerate(batches))
        except Stop:
            # keep the finished samples before the first gap, behind which no row equals its place
            rows = torch.cat([torch.arange(0), *(rows for rows, _ in finished)]).sort().values
            total = int((rows == torch.arange(len(rows))).sum())
            if total == 0:
                raise
            batches, parts = map(list, zip(*finished, strict=True))
            logger.warning("the first %s of %s samples are finished", f"{total:,}", f"{asked:,}")
    # samples of all batches in the order of the conditions
    order = torch.cat(batches).argsort()[:total]
    joined = {k: torch.cat([part.values[k] for part in parts])[order] for k in parts[0].values}
    return ConditionalSamples(joined, sum(part.seconds for part in parts))


def sampled_from_others(
    model: Model, draw: Callable[[Model], ConditionalSamples]
) -> ConditionalSamples | None:
    """Samples of a model from other conditions, for comparison; None if a ``Stop`` interrupts the
    sampling and ``model.on_sampled`` is set."""
    try:
        return draw(replace(model, on_sampled=None))
    except Stop:
        if model.on_sampled is None:
            raise
        return None


def first_examples(data: Dataset, split: str, num: int | None) -> Examples:
    """The first ``num`` examples of a split (None: all). Raises ``ValueError`` for an empty split,
    or ``num`` below 0."""
    examples = data.splits[split]
    if len(examples) == 0:
        raise ValueError(
            f"the {split} split is empty; give it more data, or another share in data.split"
        )
    if num is not None and num < 0:
        raise ValueError(f"num={num}: expected at least 0")
    return examples[slice(num)]


def held_out_bound(
    request: EvaluateRequest, model: Model, data: Dataset, split: str
) -> BoundEstimate:
    """Bound of a model on ``request.num_held_out`` examples of a split; a warning is logged if a
    few noise samples dominate the bound."""
    algorithm, data = model.algorithm, some_held_out(request, data, split)
    logger.info("measuring the model on %s held-out samples", f"{len(data.splits[split]):,}")
    # noise samples on held-out batches
    bounds = sample_bounds(
        algorithm,
        SplitBatches(data, split, batch_size=model.rows_at_once, seed=request.seed),
        draws=NOISE_SAMPLES if request.noise_samples is None else request.noise_samples,
        settings=MeasurementSettings((request.seed, *_BOUND), model.device, model.shard),
    )
    if bounds.tail is not None and bounds.tail.is_doubtful:
        logger.warning("%s", bounds.tail.warning())
    return bounds.estimate(algorithm.bound or data.bound)


def metric_rows(
    values: Mapping[str, float], what: Mapping[str, str], who: Mapping[str, str]
) -> list[TableRow]:
    """Table rows by metric, then by method, for the metrics in ``values``. ``what``: meanings of
    the metrics. ``who``: by pattern of a method's names, such as ``ridge_{}``, a description of the
    method."""
    return [
        metric_row(name, values, f"{meaning}; {whose}")
        for metric, meaning in what.items()
        for pattern, whose in who.items()
        if (name := pattern.format(metric)) in values
    ]


def metric_row(name: str, values: Mapping[str, float], meaning: str) -> TableRow:
    """Table row of a metric, ± its standard error if ``values`` has one."""
    text = plus_minus(values[name], values.get(f"{name}_standard_error"), 4)
    return TableRow(name, text, meaning=meaning)


def bound_row(bound: BoundEstimate, of: str) -> TableRow:
    """Table row of the bound on -log p of ``of``, ± its standard error."""
    return TableRow(
        f"nelbo_{bound.quantity}",
        plus_minus(bound.per_sample, bound.standard_error),
        meaning=f"held-out bound on -log p of {of}, nats (± standard error)",
    )


def known_numbers(metrics: Mapping[str, float], names: Mapping[str, str]) -> str:
    """Metrics as text, such as ``mean image 0.443, ridge 0.335``. ``names``: names in the text, by
    metric; missing metrics are left out."""
    known = (f"{name} {metrics[key]:.3f}" for key, name in names.items() if key in metrics)
    return ", ".join(known)


def data_and_sampling(comparison: Comparison, options: Sequence[str] = ()) -> str:
    """Data set and sampler of each algorithm as text: ``mdlm: data=eit_quantised,
    sampling=ancestral with 20 steps; flow-matching: ...``. ``options``: sampler options to add."""
    ways: dict[str, list[str]] = {}
    for model in comparison.models:
        # data set, sampler and its settings
        data, sampling = model.config.data, model.config.sampling
        steps = sampling.get("steps")
        settings = [] if steps is None else [counted(steps, "step")]
        settings += [f"{key} {sampling[key]}" for key in options if sampling.get(key) is not None]
        way = " with ".join([sampling.name, ", ".join(settings)] if settings else [sampling.name])
        # algorithms that sample in one way are named together
        names = ways.setdefault(f"data={data.name}, sampling={way}", [])
        if model.algorithm not in names:
            names.append(model.algorithm)
    return "; ".join(f"{', '.join(names)}: {way}" for way, names in ways.items())


def sample_files(comparison: Comparison, file: str, shown_in: Path) -> dict[str, Path]:
    """Paths of ``file`` by model name, for models trained with the first seed. Models without the
    file are logged as missing in ``shown_in``."""
    # files that are there, and models that lack theirs
    paths = {
        name: model.folder / file
        for name, model in zip(comparison.short_names(), comparison.models, strict=True)
    }
    there = {name: path for name, path in paths.items() if path.is_file()}
    if lost := [path.parent.name for name, path in paths.items() if name not in there]:
        what = f"left out of {shown_in.name}" if there else f"{shown_in.name} is not written anew"
        logger.warning(
            "%s: no %s, %s; without cell.json too, they are sampled again",
            *(", ".join(lost), file, what),
        )
    return there
