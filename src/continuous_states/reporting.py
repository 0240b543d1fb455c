"""Bounds, rows of tables and sentences that the reports of several kinds of data here share."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from discrete_diffusion.config import counted
from discrete_diffusion.data import SplitBatches
from discrete_diffusion.evaluation import (
    BOUND_DRAWS,
    MeasurementSettings,
    TableRow,
    plus_minus,
    sample_bounds,
    some_held_out,
)

if TYPE_CHECKING:
    from discrete_diffusion.contracts import BoundEstimate
    from discrete_diffusion.data import Dataset
    from discrete_diffusion.evaluation import Comparison, EvaluateRequest
    from discrete_diffusion.sampling import Model

logger = logging.getLogger(__name__)

_BOUND = (21,)
"""Keeps the noise of the bound apart from that of samples."""


def held_out_bound(
    request: EvaluateRequest, model: Model, data: Dataset, split: str
) -> BoundEstimate:
    """The bound of a model on ``num_held_out`` samples of a split, whatever ``num_samples``; a
    warning is logged if a few noise draws carry it."""
    algorithm, data = model.algorithm, some_held_out(request, data, split)
    logger.info("measuring the model on %s held-out samples", f"{len(data.splits[split]):,}")
    bounds = sample_bounds(
        algorithm,
        SplitBatches(data, split, batch_size=model.rows_at_once, seed=request.seed),
        draws=BOUND_DRAWS if request.bound_draws is None else request.bound_draws,
        settings=MeasurementSettings((request.seed, *_BOUND), model.device, model.shard),
    )
    if bounds.tail is not None and bounds.tail.is_doubtful:
        logger.warning("%s", bounds.tail.warning())
    return bounds.estimate(algorithm.bound or data.bound)


def metric_rows(
    values: Mapping[str, float], what: Mapping[str, str], who: Mapping[str, str]
) -> list[TableRow]:
    """Everybody's numbers, one metric after the other, without those that ``values`` lacks.

    ``what``: metrics with their meanings. ``who``: how the names of somebody's metrics are made,
    such as ``ridge_{}``, with who that is.
    """
    return [
        metric_row(name, values, f"{meaning}; {whose}")
        for metric, meaning in what.items()
        for pattern, whose in who.items()
        if (name := pattern.format(metric)) in values
    ]


def metric_row(name: str, values: Mapping[str, float], meaning: str) -> TableRow:
    """A number, ± its standard error if ``values`` has it."""
    text = plus_minus(values[name], values.get(f"{name}_standard_error"), 4)
    return TableRow(name, text, meaning=meaning)


def bound_row(bound: BoundEstimate, of: str) -> TableRow:
    """The bound on -log p of what ``of`` says, ± its standard error."""
    return TableRow(
        f"nelbo_{bound.quantity}",
        plus_minus(bound.per_sample, bound.standard_error),
        meaning=f"held-out bound on -log p of {of}, nats (± standard error)",
    )


def known_numbers(metrics: Mapping[str, float], names: Mapping[str, str]) -> str:
    """``mean image 0.443, ridge 0.335``: the metrics that there are. ``names``: by metric."""
    known = (f"{name} {metrics[key]:.3f}" for key, name in names.items() if key in metrics)
    return ", ".join(known)


def data_and_sampling(comparison: Comparison, options: Sequence[str] = ()) -> str:
    """The data set in which each algorithm has the samples, and how it samples: ``mdlm:
    data=eit-levels, sampling=ancestral with 20 steps; flow-matching: ...``. ``options``: of
    samplers, reported too."""
    ways: dict[str, list[str]] = {}
    for model in comparison.models:
        data, sampling = model.config.data, model.config.sampling
        steps = sampling.get("steps")
        settings = [] if steps is None else [counted(steps, "step")]
        settings += [f"{key} {sampling[key]}" for key in options if sampling.get(key) is not None]
        way = " with ".join([sampling.name, ", ".join(settings)] if settings else [sampling.name])
        names = ways.setdefault(f"data={data.name}, sampling={way}", [])
        if model.algorithm not in names:
            names.append(model.algorithm)
    return "; ".join(f"{', '.join(names)}: {way}" for way, names in ways.items())


def sample_files(comparison: Comparison, file: str, shown_in: Path) -> dict[str, Path]:
    """``file`` of every model, trained with the first seed, that has it, by the name of the model;
    a log line names those that do not, which ``shown_in`` lacks."""
    there, lost = {}, []
    for name, model in zip(comparison.short_names(), comparison.models, strict=True):
        if (model.folder / file).is_file():
            there[name] = model.folder / file
        else:
            lost.append(model.folder.name)
    if lost:
        what = f"left out of {shown_in.name}" if there else f"{shown_in.name} is not written anew"
        logger.warning(
            "%s: no %s, %s; without cell.json too, they are sampled again",
            ", ".join(lost),
            file,
            what,
        )
    return there
