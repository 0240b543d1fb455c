"""Commands ``evaluate`` and ``sample`` for models of rows, which predict and fill hidden rows."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import torch
from einops import rearrange, repeat
from torch.nn.functional import pad

from continuous_states.evaluation import bound_row, held_out_bound, known_numbers
from continuous_states.regions.files import GivenRows, read_given_rows
from continuous_states.regions.row_report import (
    RowReport,
    plot_region_maps,
    plot_row_scores,
    write_rows,
)
from continuous_states.regions.row_scores import (
    Filling,
    FillingScores,
    fill_rows,
    fit_baselines,
    predict_rows,
)
from discrete_diffusion.config import counted
from discrete_diffusion.contracts import BoundEstimate
from discrete_diffusion.evaluation import (
    EvaluateRequest,
    Evaluation,
    Interval,
    MeasuredData,
    SampleRequest,
    Samples,
    SavedSamples,
    TableRow,
    TableSection,
    TrainedModel,
    UnreadableDataError,
    checkpoint_data,
    checkpoint_facts,
    confidence_interval,
    held_out_split,
    keep_samples,
    measured_data,
    num_held_out,
    plus_minus,
    readable_data,
    sampling_facts,
    sampling_seeds,
)
from discrete_diffusion.runtime import end_if_stopping, progress
from discrete_diffusion.sampling import Model

logger = logging.getLogger(__name__)

NUM_WINDOWS = 64
MASK_RATE = 0.5
"""Default share of the rows of a held-out window that is hidden."""

COMPLETIONS = 4
"""Default number of completions of each given window, if sampling is random."""

_GIVE = "give windows of your own with given=FILE.npz"
_GIVEN_STREAM = 73
"""Stream of random numbers for filling given windows, different from that of held-out windows."""

_METHODS = {
    "": ("model", "its expected rows, one network call"),
    "filled_": ("model, filled", "the rows that the sampler filled in"),
    "column_mean_": ("column mean", "the mean training row"),
    "window_mean_": ("window mean", "of the observed rows of the window, shrunk"),
    "neighbour_mean_": ("neighbour mean", "of the observed rows near by, shrunk"),
    "oracle_": ("oracle", "the mean training row of the true programme: the ceiling"),
}
_METRICS = ("per_motif_r", "per_motif_r2", "masked_mse")


@dataclass(frozen=True)
class RowEvaluation(Evaluation):
    """Result of ``evaluate_rows``. ``facts``: settings of the measurement, for ``metrics.json``.
    ``filling``: filling of the first sampling seed. ``scores``: scores of each sampling seed.
    ``by_rate``: scores at several mask rates."""

    facts: dict[str, Any]
    report: RowReport
    filling: Filling
    scores: tuple[FillingScores, ...]
    by_rate: list[FillingScores]
    bound: BoundEstimate
    measured_on: MeasuredData

    @cached_property
    def seed_scores(self) -> dict[str, list[float]]:
        """Every score by name, one per sampling seed."""
        scores = [each.as_dict() for each in self.scores]
        return {name: [each[name] for each in scores] for name in scores[0]}

    @cached_property
    def intervals(self) -> dict[str, Interval]:
        """Intervals of every score over the sampling seeds."""
        return {name: confidence_interval(values) for name, values in self.seed_scores.items()}

    def sections(self) -> list[TableSection]:
        # metrics of each method that was measured
        methods = []
        for prefix, (name, meaning) in _METHODS.items():
            if prefix + _METRICS[0] in self.intervals:
                r, r2, mse = (self.intervals[prefix + metric].text(4) for metric in _METRICS)
                methods.append(TableRow(name, r, r2, mse, meaning))
        # per_motif_r: a line per mask rate, a column per method
        rates = []
        for scores in self.by_rate:
            columns = [plus_minus(each.mean_r, None, 4) for each in scores.by_name.values()]
            rates.append(TableRow(f"{100 * scores.mask_rate:g} %", *columns))
        _, *others = (name.replace("_", " ") for name in self.by_rate[0].by_name)
        # bound per window and per row
        bound, of = self.bound, "a window's rows"
        if bound.quantity == "gaussian_given_observed":
            of = "a window's hidden rows given the others, at all mask rates"
        name = f"nelbo_{bound.quantity}_per_token"
        bounds = (
            bound_row(bound, f"{of}, scaled"),
            TableRow(name, f"{bound.per_token:.4f}", meaning="the bound per row"),
        )
        heads = ("hidden rows predicted by", *_METRICS), ("hidden", "per_motif_r", *others)
        return [
            TableSection("hidden rows, from those observed", tuple(methods), heads[0]),
            TableSection("by how much is hidden", tuple(rates), heads[1]),
            TableSection("the model on held-out data", bounds),
        ]

    def notes(self) -> list[str]:
        # numbers of hidden rows, which differ by seed
        first, num = self.scores[0], len(self.scores)
        hidden = [int(each) for each in self.seed_scores["num_masked_rows"]]
        shown = " to ".join(f"{num:,}" for num in sorted({min(hidden), max(hidden)}))
        seeds = (
            f"± of scores is one standard error over {num} sampling seeds, each with other masks; "
            "metrics.json has 95 % intervals."
        )
        return [
            f"Windows: {self.facts['reference']}.",
            *self.measured_on.notes(),
            f"{shown} rows hidden in {first.num_windows:,} windows at mask rate "
            f"{first.mask_rate:g}; {self.seed_scores['num_columns'][0]:,} columns, "
            f"{self.seed_scores['dropped_columns'][0]:,} constant ones left out.",
            "Means over columns: per_motif_r, the correlation with the truth; per_motif_r2, the "
            "share of the spread about the training mean that is explained; masked_mse, the "
            "squared error in training standard deviations.",
            *([seeds] if num > 1 else []),
            "The scores by how much is hidden are of one sample of masks.",
            f"± of the bound is its standard error over {self.bound.num_samples:,} windows.",
        ]

    def metrics(self) -> dict[str, Any]:
        """Contents of ``metrics.json``; scores are means over sampling seeds, with intervals."""
        names = self.scores[0].scores()
        return {
            **self.facts,
            **self.bound.as_dict(),
            **{name: interval.mean for name, interval in self.intervals.items()},
            "intervals": {
                name: [self.intervals[name].low, self.intervals[name].high] for name in names
            },
            "per_seed": self.seed_scores,
            "by_mask_rate": [{"mask_rate": s.mask_rate, **s.scores()} for s in self.by_rate],
        }

    def save(self, folder: Path) -> None:
        """Write the windows of the first sampling seed."""
        self.report.write(self.filling, folder)

    def plot(self, folder: Path) -> None:
        """Plot maps of the first windows, and scores by feature and by mask rate."""
        self.report.plot(self.filling, folder / "samples.png")
        names = self.report.data.feature_names
        plot_row_scores(self.scores[0], self.by_rate, names, folder / "row_scores.png")


def evaluate_rows(request: EvaluateRequest, trained: TrainedModel) -> RowEvaluation:
    """Evaluate a model of rows on held-out windows of its checkpoint or of other data, scaled as in
    training. Raises ``ValueError`` if the data of the checkpoint cannot be read."""
    # data, mask rate and steps to show
    trained.check_weights()
    measured_on = measured_data(request, trained, needs_training=True)
    data, split = measured_on.data, measured_on.split
    rate = MASK_RATE if request.mask_rate is None else request.mask_rate
    report = RowReport(data, split, rate, request.seed)
    num = len(data.splits[split][: request.num_samples])
    parts = progress.parts(
        f"filling {num:,} windows for each of {len(sampling_seeds(request))} seeds",
        f"measuring the model on {num_held_out(request, data, split):,} held-out samples",
        f"predicting {num:,} windows at every mask rate",
    )
    # fillings, bound, and predictions at every mask rate
    with trained.sharing() as shard:
        model = trained.model(shard)
        with next(parts):
            filling, scores, seed_facts = _fill_by_seed(request, model, report)
        with next(parts):
            bound = held_out_bound(request, model, data, split)
        with next(parts):
            by_rate = report.scores_by_mask_rate(model, request.num_samples)
    facts = {
        **checkpoint_facts(request, trained, data),
        **measured_on.facts(request),
        **sampling_facts(request, trained),
        **seed_facts,
    }
    return RowEvaluation(facts, report, filling, scores, by_rate, bound, measured_on)


def _fill_by_seed(
    request: EvaluateRequest, model: Model, report: RowReport
) -> tuple[Filling, tuple[FillingScores, ...], dict[str, Any]]:
    """Filling of the first sampling seed, scores of every sampling seed, and facts about the
    sampling."""
    fillings: list[Filling] = []
    scores, calls, seconds = [], [], []
    seeds = sampling_seeds(request)
    for seed in seeds:
        filling = report.fill(model, request.num_samples, seed)
        # after a signal only the first seed is kept
        if fillings:
            end_if_stopping()
        else:
            keep_samples(request, model.shard, partial(report.write, filling))
        assert filling.nfe is not None  # there is a sampler
        fillings = fillings or [filling]
        # scores and costs of this seed
        scores.append(report.scores(filling))
        calls.append(float(filling.nfe.double().mean()))
        seconds.append(filling.seconds)
        logger.info("seed %d: %s windows in %.1f s", seed, f"{len(filling):,}", filling.seconds)
    facts = {
        "seeds": seeds,
        "num_samples": len(fillings[0]),
        "network_calls_per_sample": sum(calls) / len(calls),
        "seconds": sum(seconds) / len(seconds),
    }
    return fillings[0], tuple(scores), facts


def sample_rows(request: SampleRequest, trained: TrainedModel) -> Samples:
    """Fill hidden rows of the first ``num_samples`` windows that the checkpoint held out, or of all
    windows of ``given``, each ``num_completions`` times. The ``Filling`` is saved as
    ``samples.npz`` and ``samples.png``; observed rows are unchanged, bit for bit."""
    if request.given is not None:
        return _fill_given(request, trained)
    data = readable_data(trained, _GIVE)
    split = held_out_split(data, remedy=_GIVE)
    rate = MASK_RATE if request.mask_rate is None else request.mask_rate
    report = RowReport(data, split, rate, request.seed)
    # fewer windows than requested are all filled
    num = NUM_WINDOWS if request.num_samples is None else request.num_samples
    if request.num_samples is not None and (available := len(data.splits[split])) < num:
        which = "which is filled" if available == 1 else "all are filled"
        logger.info("the %s split has %s, %s", split, counted(available, "window"), which)
    with trained.sharing() as shard:
        filling = report.sample(trained.model(shard), num, request.seed)
    _check_finite(trained.path, filling, len(filling))

    def write() -> SavedSamples:
        folder, scores = request.out, report.measure(filling)
        report.write(filling, folder)
        report.plot(filling, folder / request.picture)
        summary = f"{counted(len(filling), 'window')} of the {split} split filled"
        return _saved_fillings(request, trained, filling, scores, {"split": split}, summary)

    return Samples(filling, write)


def _fill_given(request: SampleRequest, trained: TrainedModel) -> Samples:
    """Fill every window of ``given`` ``num_completions`` times."""
    config = trained.data_config
    # windows of the user, in the form of the training data
    given = read_given_rows(
        request.given,
        feature_names=tuple(config.feature_names),
        most_rows=config.rows,
        scaling=trained.algorithm.scaling,
    )
    completions = _num_completions(request, trained)
    # windows as long as those of training, without the hidden values
    num_rows, start = given.masked.shape[1], time.perf_counter()
    everywhere, padding = torch.ones_like(given.masked), config.rows - num_rows
    windows = {
        "rows": pad(torch.where(given.masked.unsqueeze(-1), 0.0, given.rows), (0, 0, 0, padding)),
        "masked": pad(given.masked, (0, padding)),
        "real": pad(everywhere, (0, padding)),
    }
    several = {name: repeat(x, "w ... -> (c w) ...", c=completions) for name, x in windows.items()}
    with trained.sharing() as shard:
        model = trained.model(shard)
        predicted = predict_rows(model, windows)[:, :num_rows]
        filled = fill_rows(model, several, (request.seed, _GIVEN_STREAM))
    # as many rows as were given, of the windows that are finished
    tensors = given.rows, everywhere, given.masked, predicted
    truth, real, masked, predicted = (
        repeat(x, "w ... -> (c w) ...", c=completions)[: len(filled)] for x in tensors
    )
    rows, seconds = filled.values["rows"][:, :num_rows], time.perf_counter() - start
    filling = Filling(truth, real, masked, predicted, rows, filled.values["nfe"], seconds)
    # a signal may have left fewer: whole completions count
    given = given[: len(filling)]
    completions = len(filling) // len(given)
    filling = filling[: completions * len(given)]
    _check_finite(trained.path, filling, len(given))
    return Samples(filling, lambda: _write_given(request, trained, given, filling, completions))


def _write_given(
    request: SampleRequest,
    trained: TrainedModel,
    given: GivenRows,
    filling: Filling,
    completions: int,
) -> SavedSamples:
    """Write ``samples.npz``: ``filled`` Float32[C, W, N, M], ``predicted`` Float32[W, N, M] by one
    network call, ``masked`` Bool[W, N], ``feature_names``, and ``truth`` Float32[W, N, M] if the
    file has it. Fillings with a truth are also scored and compared with baselines of the training
    split."""
    names = tuple(trained.data_config.feature_names)
    scores = _scores_of_given(given, filling, trained, request.seed) if given.has_truth else {}
    assert filling.filled is not None  # there is a sampler
    # completions of each window
    filled = rearrange(filling.filled, "(c w) n m -> c w n m", c=completions)
    predicted = filling.predicted[: len(given)]
    tensors = {"filled": filled, "predicted": predicted, "masked": given.masked}
    write_rows(request.out, tensors | ({"truth": given.rows} if given.has_truth else {}), names)
    # a picture of the first completion
    truth = given.rows if given.has_truth else predicted
    shown = Filling(truth, filling.real[: len(given)], given.masked, predicted, filled[0])
    plot_region_maps(
        shown,
        request.out / request.picture,
        feature_names=names,
        truth_title="True" if given.has_truth else "Predicted by one call",
    )
    facts = {"given": str(request.given), "num_inputs": len(given), "completions": completions}
    summary = f"{counted(len(filling), 'filling')} of {counted(len(given), 'window')}"
    return _saved_fillings(request, trained, filling, scores, facts, summary)


def _saved_fillings(
    request: SampleRequest,
    trained: TrainedModel,
    filling: Filling,
    scores: Mapping[str, float],
    facts: Mapping[str, Any],
    summary: str,
) -> SavedSamples:
    """Saved samples with ``facts`` and ``summary``, to which the time and the correlations with the
    truth are added."""
    assert filling.nfe is not None  # there is a sampler
    correlations = {
        "filled_per_motif_r": "per-motif r",
        "neighbour_mean_per_motif_r": "neighbour mean",
        "oracle_per_motif_r": "oracle",
    }
    # correlations in the log
    known = known_numbers(scores, correlations)
    shown = f": {known}" if known else ""
    facts = {
        "sampling": trained.sampling,
        **facts,
        "num_samples": len(filling),
        "network_calls_per_sample": float(filling.nfe.double().mean()),
        "seconds": filling.seconds,
        **scores,
    }
    picture = request.out / request.picture
    return SavedSamples(facts, f"{summary} in {filling.seconds:.1f} s{shown}; {picture}")


def _num_completions(request: SampleRequest, trained: TrainedModel) -> int:
    """Number of completions; by default 1 if the sampler adds no noise."""
    # temperature 0 samples the mean, always the same
    temperature = trained.sampler.temperature
    if temperature is None:
        temperature = 0.0 if trained.algorithm.objective == "mask" else 1.0
    if request.num_completions is None:
        return COMPLETIONS if temperature > 0 else 1
    if request.num_completions > 1 and temperature == 0:
        logger.info(
            "no noise is added, so completions of a window differ at most by the order in which "
            "its rows are filled; set sampling.temperature=1 to sample from the model"
        )
    return int(request.num_completions)


def _scores_of_given(
    given: GivenRows, filling: Filling, trained: TrainedModel, seed: int
) -> dict[str, Any]:
    """Scores of the expected rows, of all fillings together, and of baselines fitted to the
    checkpoint's training data. If that data cannot be read, return an empty dict and log the
    reason."""
    try:
        data = checkpoint_data(trained)
    except UnreadableDataError as error:
        logger.info("the fillings are not scored: %s", error)
        return {}
    # baselines for the share that is hidden here
    rate = float(given.masked.double().mean())
    baselines = fit_baselines(data, min(max(rate, 0.01), 0.99), seed)
    scores = replace(baselines.measure(filling), mask_rate=rate)
    counts = {"num_windows": len(given), "num_masked_rows": int(given.masked.sum())}
    return scores.as_dict() | counts


def _check_finite(checkpoint: str, filling: Filling, num_windows: int) -> None:
    """Raise an error that names the first row with NaN or infinity. ``num_windows``: number of
    different windows, as a window may be filled repeatedly."""
    for rows in (filling.predicted, filling.filled):
        if rows is not None and not rows.isfinite().all():
            window, row = (~rows.isfinite()).any(dim=-1).nonzero()[0].tolist()
            raise ValueError(
                f"the model's output is not finite (window {window % num_windows}, row {row}); "
                f"{checkpoint} has diverged, take an earlier checkpoint, or the observed rows are "
                "far from those of its training"
            )
