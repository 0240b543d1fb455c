"""``sample`` of a model of rows: hidden rows of held-out windows, or of a user's, are filled in."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from einops import rearrange, repeat

from continuous_states.regions.filling import Filling, fill_rows, predict_rows
from continuous_states.regions.given_rows import GivenRows, read_given_rows
from continuous_states.regions.region_maps import plot_region_maps
from continuous_states.regions.row_report import RowReport, write_rows
from continuous_states.regions.row_scores import fit_baselines
from continuous_states.reporting import known_numbers
from discrete_diffusion.config import counted
from discrete_diffusion.evaluation import (
    Samples,
    SavedSamples,
    UnreadableDataError,
    checkpoint_data,
    held_out_split,
    readable_data,
)

if TYPE_CHECKING:
    from discrete_diffusion.evaluation import SampleRequest, TrainedModel
    from discrete_diffusion.sampling import Model

logger = logging.getLogger(__name__)

NUM_WINDOWS = 64
MASK_RATE = 0.5
"""The share of the rows of a held-out window that is hidden, if none is given."""

COMPLETIONS = 4
"""Completions of each window that is given, if they differ."""

_GIVE = "give windows of your own with given=FILE.npz"

_GIVEN_STREAM = 73
"""Keeps these fillings apart from those of held-out windows with the same seed."""


def sample_rows(request: SampleRequest, trained: TrainedModel) -> Samples:
    """Fill hidden rows of the first ``num_samples`` windows that the checkpoint held out, or of the
    windows of ``given``: a ``Filling``, of given windows all of them ``completions`` times over.

    Written as ``samples.npz`` and ``samples.png``; observed rows are as they were, bit for bit.
    """
    return (_fill_held_out if request.given is None else _fill_given)(request, trained)


def _fill_held_out(request: SampleRequest, trained: TrainedModel) -> Samples:
    data = readable_data(trained, _GIVE)
    split = held_out_split(data, remedy=_GIVE)
    rate = MASK_RATE if request.mask_rate is None else request.mask_rate
    report = RowReport(data, split, rate, request.seed)
    num = NUM_WINDOWS if request.num_samples is None else request.num_samples
    if request.num_samples is not None and (available := len(data.splits[split])) < num:
        which = "which is filled" if available == 1 else "all are filled"
        logger.info("the %s split has %s, %s", split, counted(available, "window"), which)
    with trained.sharing() as shard:
        filling = report.sample(trained.on(shard), num, request.seed)
    _check_finite(trained.path, filling, len(filling))

    def write() -> SavedSamples:
        folder, scores = request.out, report.measure(filling)
        report.write(filling, folder)
        report.plot(filling, folder / request.picture)
        summary = f"{counted(len(filling), 'window')} of the {split} split filled"
        return _sampled(request, trained, filling, scores, {"split": split}, summary)

    return Samples(filling, write)


def _fill_given(request: SampleRequest, trained: TrainedModel) -> Samples:
    """Fill every window of ``given`` ``completions`` times.

    ``samples.npz``: ``filled`` Float32[C, W, N, M], ``predicted`` Float32[W, N, M] by one network
    call, ``masked`` Bool[W, N], ``feature_names``, and ``truth`` Float32[W, N, M] if the file has
    it; then the fillings are scored too, against what the checkpoint's training split says.
    """
    names = tuple(trained.data_config.feature_names)
    most_rows = trained.data_config.rows
    scaling = trained.algorithm.scaling
    given = read_given_rows(
        request.given, feature_names=names, most_rows=most_rows, scaling=scaling
    )
    completions = _completions(request, trained)
    with trained.sharing() as shard:
        filling = _fill(given, trained.on(shard), most_rows, completions, request.seed)
    given = given[: len(filling)]
    completions = len(filling) // len(given)  # a signal may have left fewer: whole ones count
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
    folder, names = request.out, tuple(trained.data_config.feature_names)
    scores = _scores_of_given(given, filling, trained, request.seed) if given.has_truth else {}
    assert filling.filled is not None  # there is a sampler
    filled = rearrange(filling.filled, "(c w) n m -> c w n m", c=completions)
    predicted = filling.predicted[: len(given)]
    tensors = {"filled": filled, "predicted": predicted, "masked": given.masked}
    write_rows(folder, tensors | ({"truth": given.rows} if given.has_truth else {}), names)
    plot_region_maps(
        Filling(
            truth=given.rows if given.has_truth else predicted,
            real=filling.real[: len(given)],
            masked=given.masked,
            predicted=predicted,
            filled=filled[0],
        ),
        folder / request.picture,
        feature_names=names,
        truth_title="True" if given.has_truth else "Predicted by one call",
    )
    facts = {"given": str(request.given), "num_inputs": len(given), "completions": completions}
    summary = f"{counted(len(filling), 'filling')} of {counted(len(given), 'window')}"
    return _sampled(request, trained, filling, scores, facts, summary)


def _sampled(
    request: SampleRequest,
    trained: TrainedModel,
    filling: Filling,
    scores: Mapping[str, float],
    facts: Mapping[str, Any],
    summary: str,
) -> SavedSamples:
    """``facts`` and ``summary``, completed by how long it took and how the rows correlate with the
    truth."""
    assert filling.nfe is not None  # there is a sampler
    correlations = {
        "filled_per_motif_r": "per-motif r",
        "neighbour_mean_per_motif_r": "neighbour mean",
        "oracle_per_motif_r": "oracle",
    }
    known = known_numbers(scores, correlations)
    shown = f": {known}" if known else ""
    return SavedSamples(
        {
            "sampling": trained.sampling,
            **facts,
            "num_samples": len(filling),
            "network_calls_per_sample": float(filling.nfe.double().mean()),
            "seconds": filling.seconds,
            **scores,
        },
        f"{summary} in {filling.seconds:.1f} s{shown}; {request.out / request.picture}",
    )


def _completions(request: SampleRequest, trained: TrainedModel) -> int:
    """Number of completions: one by default if the sampler adds no noise."""
    temperature = trained.sampler.temperature
    if temperature is None:
        temperature = 0.0 if trained.algorithm.objective == "mask" else 1.0
    if request.completions is None:
        return COMPLETIONS if temperature > 0 else 1
    if request.completions > 1 and temperature == 0:
        logger.info(
            "no noise is added, so completions of a window differ at most by the order in which "
            "its rows are filled; set sampling.temperature=1 to sample from the model"
        )
    return int(request.completions)


def _fill(given: GivenRows, model: Model, most_rows: int, completions: int, seed: int) -> Filling:
    """All windows ``completions`` times over."""
    start = time.perf_counter()
    num_rows = given.masked.shape[1]
    everywhere, padding = torch.ones_like(given.masked), most_rows - num_rows
    hidden = torch.where(given.masked.unsqueeze(-1), 0.0, given.rows)  # no one is shown the truth
    windows = {
        "rows": torch.nn.functional.pad(hidden, (0, 0, 0, padding)),
        "masked": torch.nn.functional.pad(given.masked, (0, padding)),
        "real": torch.nn.functional.pad(everywhere, (0, padding)),
    }
    several = {name: repeat(x, "w ... -> (c w) ...", c=completions) for name, x in windows.items()}
    predicted = predict_rows(model, windows)[:, :num_rows]
    filled = fill_rows(model, several, (seed, _GIVEN_STREAM))
    done = slice(len(filled))
    return Filling(
        truth=repeat(given.rows, "w n m -> (c w) n m", c=completions)[done],
        real=repeat(everywhere, "w n -> (c w) n", c=completions)[done],
        masked=repeat(given.masked, "w n -> (c w) n", c=completions)[done],
        predicted=repeat(predicted, "w n m -> (c w) n m", c=completions)[done],
        filled=filled.values["rows"][:, :num_rows],
        nfe=filled.values["nfe"],
        seconds=time.perf_counter() - start,
    )


def _scores_of_given(
    given: GivenRows, filling: Filling, trained: TrainedModel, seed: int
) -> dict[str, Any]:
    """Scores of the expected rows and of the fillings pooled, beside baselines fitted to the
    checkpoint's training data; nothing, and a line in the log, if that cannot be read."""
    try:
        data = checkpoint_data(trained)
    except UnreadableDataError as error:
        logger.info("the fillings are not scored: %s", error)
        return {}
    rate = float(given.masked.double().mean())
    baselines = fit_baselines(data, min(max(rate, 0.01), 0.99), seed)
    scores = replace(baselines.measure(filling), mask_rate=rate)
    counts = {"num_windows": len(given), "num_masked_rows": int(given.masked.sum())}
    return scores.as_dict() | counts


def _check_finite(checkpoint: str, filling: Filling, num_windows: int) -> None:
    """``ValueError`` if the model at ``checkpoint`` made rows that hold NaN or infinity, with the
    indices of the first. ``num_windows``: that are filled, over and over."""
    for rows in (filling.predicted, filling.filled):
        if rows is not None and not rows.isfinite().all():
            window, row = (~rows.isfinite()).any(dim=-1).nonzero()[0].tolist()
            raise ValueError(
                f"the model's output is not finite (window {window % num_windows}, row {row}); "
                f"{checkpoint} has diverged, take an earlier checkpoint, or the observed rows are "
                "far from those of its training"
            )
