"""Report on filled rows: numbers, a file, heat maps of windows and charts of accuracy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from numpy.typing import NDArray
from omegaconf import DictConfig
from scipy.cluster.hierarchy import leaves_list, linkage
from torch import Tensor

from continuous_states.arrays import write_npz
from continuous_states.evaluation import known_numbers
from continuous_states.regions.dataset import RegionDataset
from continuous_states.regions.row_scores import (
    Filling,
    FillingScores,
    RowScores,
    fill_held_out,
    fit_baselines,
)
from discrete_diffusion.evaluation import Headline, Report
from discrete_diffusion.sampling import Model
from discrete_diffusion.viz import (
    DIFFERENCE_MAP,
    GROUP_COLOURS,
    LABEL_POINTS,
    LINE,
    MUTED_TEXT,
    REAL,
    SAMPLED,
    TEXT,
    TICK_POINTS,
    TITLE_POINTS,
    add_colour_bar,
    add_legend,
    new_figure,
    save_figure,
    style_axes,
)

Array = NDArray[np.float64]
Flags = NDArray[np.bool_]

MASK_RATES = (0.15, 0.3, 0.5, 0.7, 0.9)

MAX_WINDOWS = 3
MOST_NAMES = 44
"""Largest number of columns that are labelled by name; more columns are numbered."""

_SPAN = 2.5
"""Colour range, in standard deviations."""

_HIDDEN, _HATCH = "#d8d8d6", "#c4c4c1"
_LOOKS: dict[str, dict[str, Any]] = {
    "model": {"color": SAMPLED, "marker": "o"},
    "neighbour_mean": {"color": REAL, "marker": "s"},
    "oracle": {"color": GROUP_COLOURS[0], "marker": "D"},
}
"""Predictions that are plotted, and their style."""


class RowReport(Report):
    """Report on filled windows: scores with those of baselines, files and pictures. The baselines
    are fitted once, for rows masked at ``mask_rate``. Every ``filling`` holds the first windows of
    ``split``; the scores of the baselines are reused while the masks stay the same."""

    headlines = (Headline("per_motif_r"), Headline("per_motif_r2"))

    def __init__(
        self, data: RegionDataset, split: str = "val", mask_rate: float = 0.5, seed: int = 0
    ) -> None:
        self.data, self.split, self.mask_rate, self.seed = data, split, mask_rate, seed
        self.baselines = fit_baselines(data, mask_rate, seed)
        self._last: tuple[Tensor, Mapping[str, RowScores]] | None = None

    def sample(self, model: Model, num: int, seed: int, stream: tuple[int, ...] = ()) -> Filling:
        return self.fill(model, num, seed + sum(stream))

    def fill(
        self, model: Model, num: int | None, seed: int, mask_rate: float | None = None
    ) -> Filling:
        """Mask and fill the first ``num`` windows of the split (None: all). ``mask_rate``: None for
        that of the report."""
        rate = self.mask_rate if mask_rate is None else mask_rate
        return fill_held_out(model, self.data, self.split, num=num, mask_rate=rate, seed=seed)

    def scores(self, filling: Filling) -> FillingScores:
        """Scores of model, sampler and baselines."""
        # baselines are scored once for the same masks
        last = self._last
        known = last[1] if last is not None and last[0].equal(filling.masked) else None
        scores = self.baselines.measure(filling, self._programmes(filling), known)
        known = {name: scores.by_name[name] for name in self.baselines.by_name}
        self._last = (filling.masked.clone(), known)
        return scores

    def scores_by_mask_rate(
        self, model: Model, num: int | None, rates: Sequence[float] = MASK_RATES
    ) -> list[FillingScores]:
        """Scores of the model, the neighbour mean and the oracle at several mask rates. The rows
        hidden at one rate are also hidden at every higher rate."""
        # predictions alone, without a sampler
        predicting, scores = replace(model, sampler=None), []
        for rate in rates:
            filling = self.fill(predicting, num, self.seed, rate)
            baselines = self.baselines.refit(rate, self.seed)
            scores.append(baselines.measure(filling, self._programmes(filling)))
        return scores

    def _programmes(self, filling: Filling) -> Tensor | None:
        programmes = self.data.programmes
        return None if programmes is None else programmes[self.split][: len(filling)]

    def measure(self, filling: Filling) -> dict[str, float]:
        """Scores by name; empty without samples."""
        return self.scores(filling).as_dict() if len(filling) else {}

    def save(self, filling: Filling, folder: Path) -> None:
        """Write ``samples.npz`` and ``samples.png`` into a folder."""
        if len(filling):
            self.write(filling, folder)
            self.plot(filling, folder / "samples.png")

    def write(self, filling: Filling, folder: Path) -> None:
        """Write ``samples.npz``: ``truth``, ``predicted`` and, if a sampler was used, ``filled``
        Float32[W, N, M]; ``masked`` and ``real`` Bool[W, N]; ``feature_names``; for a table also
        ``peak_names`` text[W, N] and ``cell_types`` text[W]."""
        # values and flags of the windows, and where they lie
        names = ("truth", "real", "masked", "predicted", "filled")
        tensors = {name: getattr(filling, name) for name in names}
        places = {name: x[self.split][: len(filling)] for name, x in self.data.places.items()}
        write_rows(folder, tensors, self.data.feature_names, places)

    def plot(self, filling: Filling, path: Path) -> None:
        """Plot the first windows: true, masked and filled (without a sampler: predicted)."""
        if len(filling):
            plot_region_maps(filling, path, feature_names=self.data.feature_names)

    def summary(self, metrics: Mapping[str, Any]) -> str:
        if "per_motif_r" not in metrics:
            bound = next(name for name in metrics if name.startswith("nelbo_"))
            return f"metrics: {bound} {metrics[bound]:.2f}"
        # r and R2 with those of neighbour mean and oracle
        parts = []
        for name, shown in (("per_motif_r", "r"), ("per_motif_r2", "R2")):
            others = {f"neighbour_mean_{name}": "neighbour mean", f"oracle_{name}": "oracle"}
            known = known_numbers(metrics, others)
            parts.append(f"per-motif {shown} {metrics[name]:.3f} ({known})")
        num, rate = metrics["num_masked_rows"], metrics["mask_rate"]
        return f"metrics: {', '.join(parts)}  [{num:,} rows hidden at rate {rate:g}]"


def report_of_training(data: RegionDataset, split: str, config: DictConfig) -> RowReport:
    """Report of a training run, on windows masked at ``eval.mask_rate``."""
    return RowReport(data, split, config.eval.mask_rate, config.seed)


def write_rows(
    folder: Path,
    tensors: Mapping[str, Tensor | None],
    feature_names: Sequence[str],
    places: Mapping[str, NDArray[np.str_]] | None = None,
) -> None:
    """Write ``samples.npz``: ``feature_names`` text[M], tensors by name (None is left out), and
    ``places``, the origin of the windows as text."""
    arrays = {name: x.numpy() for name, x in tensors.items() if x is not None}
    names = {"feature_names": np.array(feature_names, dtype=np.str_)}
    write_npz(folder / "samples.npz", {**names, **arrays, **(places or {})})


def plot_region_maps(
    filling: Filling,
    path: str | Path | None = None,
    *,
    feature_names: Sequence[str],
    truth_title: str = "True",
) -> Figure:
    """Plot heat maps of the first windows, three per window: true, observed (hidden rows blank) and
    filled (without a sampler: predicted), with marks next to the hidden rows. The figure is written
    to ``path`` if given. Every column is in standard deviations from its mean over the true rows of
    all windows; similar columns are neighbours. ``feature_names``: names of the M columns."""
    truth, masked, real = (x.numpy() for x in (filling.truth, filling.masked, filling.real))
    samples, title = filling.filled, "Filled"
    if samples is None:
        samples, title = filling.predicted, "Predicted"
    # standard deviations from the mean of the true rows, similar columns together
    rows = truth[real]
    truth, filled = _z_scores(truth, rows), _z_scores(samples.numpy(), rows)
    order = similar_columns(truth[real])
    names = [feature_names[k] for k in order.tolist()]
    # a line of maps per window
    num = min(MAX_WINDOWS, len(truth))
    figure = new_figure(11.2, 0.9 + 3.1 * num + (0.7 if len(names) <= MOST_NAMES else 0.0))
    grid = figure.subplots(num, 3, squeeze=False, sharex=True, sharey="row")
    norm = Normalize(-_SPAN, _SPAN)
    for w in range(num):
        _plot_window(grid[w], truth[w][:, order], filled[w][:, order], masked[w], real[w], norm)
        grid[w][0].set_ylabel(f"window {w + 1}: region", fontsize=LABEL_POINTS, color=MUTED_TEXT)
    _set_title(grid[0][0], truth_title)
    _set_title(grid[0][2], f"{title} (bars: hidden rows)")
    # names of the columns below, one bar of colours for all
    for axes in grid[-1]:
        ticks = range(len(names)) if len(names) <= MOST_NAMES else []
        axes.set_xticks(ticks, names[: len(ticks)], rotation=90, fontsize=TICK_POINTS - 2.2)
        label = f"{len(names)} features, alike ones together"
        axes.set_xlabel(label, fontsize=LABEL_POINTS, color=MUTED_TEXT)
    label = "standard deviations from the mean"
    add_colour_bar(
        figure,
        DIFFERENCE_MAP,
        norm,
        label,
        ax=grid,
        extend="both",
        fraction=0.03,
        pad=0.015,
        aspect=14 + 8 * num,
        shrink=0.6 if num > 1 else 0.9,
    )
    return save_figure(figure, path)


def _plot_window(
    line: Sequence[Axes], truth: Array, filled: Array, masked: Flags, real: Flags, norm: Normalize
) -> None:
    """Plot one window's maps: true, observed, filled with its hidden rows marked. Values are
    Float[N, M], flags Bool[N]."""
    hidden, size = masked & real, int(np.flatnonzero(real).max(initial=-1)) + 1
    seen = np.where(hidden[:, None], np.nan, truth)
    for axes, values in zip(line, (truth, seen, filled), strict=True):
        # blank rows show a hatched background
        axes.patch.set(facecolor=_HIDDEN, edgecolor=_HATCH, hatch="/////", linewidth=0)
        values = np.where(real[:, None], values, np.nan)[:size]
        axes.imshow(values, cmap=DIFFERENCE_MAP, norm=norm, aspect="auto", interpolation="nearest")
        style_axes(axes, title="", xlabel="", ylabel="", grid=None)
        axes.tick_params(length=0)
        axes.spines[["left", "bottom"]].set_visible(False)
    # a bar at the right of every run of hidden rows
    edges = np.flatnonzero(np.diff(hidden[:size].astype(int), prepend=0, append=0)).reshape(-1, 2)
    ends = edges.T - np.array([[0.4], [0.6]])
    line[2].plot(
        np.full(ends.shape, 1.015),
        ends,
        transform=line[2].get_yaxis_transform(),
        color=MUTED_TEXT,
        linewidth=2.4,
        solid_capstyle="butt",
        clip_on=False,
    )
    _set_title(line[1], f"Observed: {hidden.sum()} of {real.sum()} rows hidden")


def _set_title(axes: Axes, title: str) -> None:
    axes.set_title(title, loc="left", fontsize=TITLE_POINTS, color=TEXT, pad=10)


def _z_scores(values: NDArray[np.floating], rows: NDArray[np.floating]) -> Array:
    """Z-scores Float64[W, N, M]: values in standard deviations of ``rows`` Float[rows, M] from
    their mean; 0 in a column that is constant in ``rows``."""
    rows = rows.astype(np.float64)
    # constant columns become 0
    mean, scale = rows.mean(axis=0), rows.std(axis=0)
    scale[scale <= 1e-12 * np.abs(rows).max(axis=0)] = np.inf
    return (values - mean) / scale


def similar_columns(values: Array) -> NDArray[np.intp]:
    """Order Int[M] of the columns of Float[rows, M] that puts similar columns next to each other:
    the leaves of average linkage on Euclidean distance (for z-scores a function of correlation)."""
    return leaves_list(linkage(values.T, method="average", optimal_ordering=True)).astype(np.intp)


def plot_row_scores(
    scores: FillingScores,
    by_rate: Sequence[FillingScores],
    feature_names: Sequence[str],
    path: str | Path | None = None,
) -> Figure:
    """Plot Pearson's r of every column, and its mean by mask rate. Methods are the model, the
    neighbour mean and, if known, the oracle; columns are in descending order of the model's r. The
    figure is written to ``path`` if given. Dropped columns are left out. ``feature_names``: names
    of the M columns."""
    figure = new_figure(11.0, 4.3)
    columns, rates = figure.subplots(1, 2, width_ratios=[1.8, 1])
    # r by column
    _plot_columns(columns, scores, feature_names)
    # mean r by mask rate
    percent = [100 * each.mask_rate for each in by_rate]
    for name in by_rate[0].by_name:
        r = [each.by_name[name].mean_r for each in by_rate]
        rates.plot(percent, r, markersize=4.6, label=name.replace("_", " "), **_LOOKS[name])
    style_axes(rates, title="By mask rate", xlabel="hidden rows (%)", ylabel="mean r over features")
    rates.set_xticks(percent, [f"{value:g}" for value in percent])
    rates.set_xlim(0, 100)
    rates.set_ylim(min(0.0, *rates.get_ylim()), None)
    add_legend(rates, loc="best")
    return save_figure(figure, path)


def _plot_columns(axes: Axes, scores: FillingScores, names: Sequence[str]) -> None:
    """Plot r of every column, a marker per method, joined by a line."""
    found = scores.by_name
    # kept columns, highest r of the model first
    model = found["model"].r.numpy()
    order = [int(k) for k in np.argsort(-model, kind="stable") if not np.isnan(model[k])]
    at, few = np.arange(len(order)), len(order) <= MOST_NAMES
    shown = [name for name in _LOOKS if name in found]
    # a line from the lowest to the highest method of each column
    stacked = np.stack([found[name].r.numpy()[order] for name in shown])
    axes.vlines(at, stacked.min(axis=0), stacked.max(axis=0), color=LINE, linewidth=0.8, zorder=1)
    for name, values in zip(shown, stacked, strict=True):
        label = name.replace("_", " ")
        label = f"{label}: mean {values.mean():.3f}" if order else label
        marker = {"markersize": 4.6 if few else 2.2, "markeredgewidth": 0, **_LOOKS[name]}
        axes.plot(at, values, linestyle="none", label=label, **marker)
    style_axes(axes, title="By feature", xlabel="", ylabel="correlation with the truth, r")
    # names of the columns if there is room
    if few:
        axes.set_xticks(at, [names[k] for k in order], rotation=90, fontsize=TICK_POINTS - 1.5)
        axes.tick_params(axis="x", length=0, labelcolor=TEXT)
    else:
        axes.set_xlabel(f"{len(order)} features, best predicted first", color=MUTED_TEXT)
        axes.set_xticks([])
    axes.axhline(0.0, color=LINE, linewidth=1.0, zorder=0)
    axes.margins(x=0.02)
    add_legend(axes, loc="best")
