"""Report on reconstructed images: numbers, a file, and pictures of maps, images and errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from matplotlib.colors import Colormap, Normalize
from matplotlib.figure import Figure
from numpy.typing import NDArray
from omegaconf import DictConfig

from continuous_states.eit.image_scores import (
    DRAWS,
    FieldBaselines,
    Reconstructions,
    fit_field_baselines,
    reconstruct_held_out,
    score_reconstructions,
)
from continuous_states.evaluation import known_numbers
from discrete_diffusion.data import Dataset
from discrete_diffusion.evaluation import Headline, Report
from discrete_diffusion.sampling import Model
from discrete_diffusion.viz import (
    DIFFERENCE_MAP,
    LABEL_POINTS,
    LINE,
    MUTED_TEXT,
    SHARE_MAP,
    TEXT,
    TITLE_POINTS,
    add_colour_bar,
    new_figure,
    save_figure,
)

Numbers = NDArray[np.floating]

MAX_SAMPLES = 5
_SPAN = 2.5
"""Colour range of maps, in standard deviations."""

_WIDTH = 2.1
"""Width of a panel, in inches."""


class ImageReport(Report):
    """Report on reconstructions: scores with those of baselines, a file and a picture.

    Samples are ``Reconstructions`` of the first images of a split of ``data``, with ``draws``
    samples per image. The baselines are fitted once, to the training split of ``trained_on`` (None:
    of ``data``), which holds images or ids of pixels, with maps.
    """

    headlines = (Headline("relative_l2"), Headline("condition_gap"))

    def __init__(
        self,
        data: Dataset,
        split: str = "val",
        *,
        draws: int = DRAWS,
        trained_on: Dataset | None = None,
    ) -> None:
        self.data, self.split, self.draws = data, split, draws
        self.trained_on = data if trained_on is None else trained_on

    @cached_property
    def baselines(self) -> FieldBaselines:
        """Baselines, fitted when first used."""
        return fit_field_baselines(self.trained_on)

    def sample(
        self, model: Model, num: int, seed: int, stream: tuple[int, ...] = ()
    ) -> Reconstructions:
        seed += sum(stream)
        return reconstruct_held_out(
            model, self.data, self.split, num=num, draws=self.draws, seed=seed
        )

    def measure(self, found: Reconstructions) -> dict[str, float]:
        """Scores by name; empty without samples."""
        return score_reconstructions(found, self.baselines) if len(found) else {}

    def save(self, found: Reconstructions, folder: Path) -> None:
        """Write ``samples.npz`` (see ``Reconstructions.write``) and ``samples.png``."""
        if len(found):
            found.write(folder)
            self.plot(found, folder / "samples.png")

    def plot(self, found: Reconstructions, path: Path) -> None:
        """Plot the first examples: map (in training standard deviations), truth, mean of samples,
        deviation over samples, error."""
        if len(found):
            maps = self.baselines.standardised(found.dtn).numpy()
            truth, mean, deviation = (
                x[:, 0].numpy() for x in (found.truth, found.mean, found.deviation)
            )
            plot_reconstructions(maps, truth, mean, deviation, path, draws=found.draws)

    def summary(self, metrics: Mapping[str, Any]) -> str:
        if "relative_l2" not in metrics:
            bound = next(name for name in metrics if name.startswith("nelbo_"))
            return f"metrics: {bound} {metrics[bound]:.2f}"
        others = {
            "mean_image_relative_l2": "mean image",
            "ridge_relative_l2": "ridge",
            "relative_l2_shuffled": "shuffled maps",
        }
        return (
            f"metrics: relative L2 {metrics['relative_l2']:.3f} "
            f"({known_numbers(metrics, others)})  "
            f"[{metrics['num_images']} images, {metrics['draws_per_image']} samples each]"
        )


def report_of_training(data: Dataset, split: str, config: DictConfig) -> ImageReport:
    """Report of a training run, with ``eval.samples_per_condition`` samples per image."""
    return ImageReport(data, split, draws=config.eval.samples_per_condition)


@dataclass(frozen=True)
class _Panel:
    """Column of a figure: its title, an image per sample, and the meaning of their colours."""

    title: str
    images: Numbers
    colours: Colormap
    norm: Normalize


def plot_reconstructions(
    maps: Numbers,
    truth: Numbers,
    mean: Numbers,
    deviation: Numbers,
    path: str | Path | None = None,
    *,
    draws: int,
) -> Figure:
    """Plot a row of panels for each of the first images: the map, the true image, the mean of the
    samples, their standard deviation if there are several, and the mean minus the truth. The figure
    is written to ``path`` if given. Colour scales are shared by all rows, and by truth and mean;
    that of the error is symmetric about 0. ``maps``: Float[M, n, n], in standard deviations from
    the mean map.
    ``truth``, ``mean``, ``deviation``: Float[M, H, W]. ``draws``: number of samples averaged in
    ``mean``."""
    maps, truth, mean, deviation = (x[:MAX_SAMPLES] for x in (maps, truth, mean, deviation))
    error = mean - truth
    # panels with their scales of colours
    most = float(np.abs(error).max()) or 1.0
    scale = Normalize(float(truth.min()), float(truth.max()))
    panels = [
        _Panel("Map", maps, DIFFERENCE_MAP, Normalize(-_SPAN, _SPAN)),
        _Panel("True", truth, SHARE_MAP, scale),
        _Panel(f"Mean of {draws} samples" if draws > 1 else "One sample", mean, SHARE_MAP, scale),
        _Panel("Error", error, DIFFERENCE_MAP, Normalize(-most, most)),
    ]
    if draws > 1:
        spread = Normalize(0.0, float(deviation.max()) or 1.0)
        panels.insert(3, _Panel("Spread of samples", deviation, SHARE_MAP, spread))
    figure, grid = _plot_panels(panels, height=_WIDTH)
    # the error of each image at the right, bars of colours below
    for axes, x, off in zip(grid[:, -1], truth, error, strict=True):
        axes.yaxis.set_label_position("right")
        axes.set_ylabel(_relative_l2(off, x), fontsize=LABEL_POINTS, color=MUTED_TEXT)
    _add_bar(figure, grid[:, :1], panels[0], "standard deviations", extend="both")
    _add_bar(figure, grid[:, 1:3], panels[1], "conductivity", extend="both")
    if draws > 1:
        _add_bar(figure, grid[:, 3:4], panels[3], "standard deviation")
    _add_bar(figure, grid[:, -1:], panels[-1], "mean − truth" if draws > 1 else "sample − truth")
    return save_figure(figure, path)


def plot_side_by_side(
    truth: Numbers, means: Mapping[str, Numbers], path: str | Path | None = None, *, draws: int
) -> Figure:
    """Plot a row of panels for each of the first images: the true image and the mean of every
    model's samples. The figure is written to ``path`` if given. All panels share a colour scale;
    under each image of a model is its relative L2. ``truth``: Float[M, H, W]. ``means``: by model,
    Float[M, H, W]. ``draws``: number of samples averaged in each mean."""
    truth = truth[:MAX_SAMPLES]
    # a column per model, all with the colours of the truth
    scale = Normalize(float(truth.min()), float(truth.max()))
    columns = [("True", truth), *means.items()]
    panels = [_Panel(name, images[:MAX_SAMPLES], SHARE_MAP, scale) for name, images in columns]
    figure, grid = _plot_panels(panels, height=_WIDTH + 0.25)
    # the error below each image
    for column, panel in zip(grid.T[1:], panels[1:], strict=True):
        for axes, x, image in zip(column, truth, panel.images, strict=True):
            axes.set_xlabel(_relative_l2(image - x, x), fontsize=LABEL_POINTS, color=MUTED_TEXT)
    of = f"mean of {draws} samples" if draws > 1 else "one sample"
    _add_bar(figure, grid, panels[0], f"conductivity; of models the {of}", extend="both")
    return save_figure(figure, path)


def _plot_panels(panels: Sequence[_Panel], height: float) -> tuple[Figure, NDArray[np.object_]]:
    """Plot panels as columns, and samples as rows of ``height`` inches; return the figure and its
    axes. Axes have no ticks and a faint frame, as most of an image is as light as the page."""
    num = len(panels[0].images)
    # a column per panel, a line per sample
    figure = new_figure(_WIDTH * len(panels) + 0.4, height * num + 1.1)
    grid = figure.subplots(num, len(panels), squeeze=False)
    for column, panel in zip(grid.T, panels, strict=True):
        column[0].set_title(panel.title, loc="left", fontsize=TITLE_POINTS, color=TEXT, pad=8)
        for axes, image in zip(column, panel.images, strict=True):
            axes.imshow(image, cmap=panel.colours, norm=panel.norm, interpolation="nearest")
            axes.set(xticks=[], yticks=[])
            for spine in axes.spines.values():
                spine.set_color(LINE)
    return figure, grid


def _relative_l2(error: Numbers, truth: Numbers) -> str:
    value = float(np.linalg.norm(error)) / max(float(np.linalg.norm(truth)), 1e-12)
    return f"relative L2 {value:.3f}"


def _add_bar(
    figure: Figure,
    column: NDArray[np.object_],
    panel: _Panel,
    label: str,
    extend: Literal["neither", "both"] = "neither",
) -> None:
    """Add a colour bar under a column of panels."""
    rows, width = column.shape
    add_colour_bar(
        figure,
        panel.colours,
        panel.norm,
        label,
        ax=column,
        location="bottom",
        extend=extend,
        aspect=16 * width,
        shrink=0.86 / width**0.5,
        fraction=0.03,
        pad=0.08 / rows,
    )
