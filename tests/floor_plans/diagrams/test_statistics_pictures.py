"""Heat maps by room types: every share once, blanks stay blank, files are written."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.figure import Figure

from floor_plans.diagrams.pictures.statistics import plot_adjacency

NAMES = ["Living", "Kitchen", "Bath", "Never"]


def matrix(*lower: float) -> np.ndarray:
    """A symmetric 4 x 4 array from the lower triangle of its first three rows; the rest NaN."""
    values = np.full((4, 4), np.nan)
    values[np.tril_indices(3)] = lower
    values.T[np.tril_indices(3)] = lower
    return values


def words(axes) -> list[str]:
    return [text.get_text() for text in axes.texts]


def adjacency(path=None, **options) -> Figure:
    real = matrix(np.nan, 0.5, 0.2, 0.9, np.nan, 0.1)
    sampled = matrix(np.nan, 0.25, 0.2, 0.9, 0.3, 0.11)
    return plot_adjacency(real, sampled, NAMES, path, **options)


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".png", ".svg"])
def test_files_are_written_by_suffix(tmp_path, suffix):
    path = tmp_path / f"chart{suffix}"
    adjacency(path)
    start = b"\x89PNG" if suffix == ".png" else b"<?xml"
    assert path.read_bytes().startswith(start)


def test_the_heat_maps_say_every_share_once():
    figure = adjacency(note="a note")
    real, sampled, difference = figure.axes[:3]
    assert [axes.get_title(loc="left") for axes in figure.axes[:3]] == [
        "Real",
        "Sampled",
        "Sampled − real",
    ]
    # an unknown pair is a dot; the type that never occurs is left out
    assert words(real) == ["·", "50", "20", "90", "·", "10"]
    assert words(sampled) == ["·", "25", "20", "90", "30", "11"]
    assert words(difference) == ["·", "−25", "0", "0", "·", "+1"]
    for axes in figure.axes[:3]:
        assert [label.get_text() for label in axes.get_yticklabels()] == NAMES[:3]
        assert [label.get_text() for label in axes.get_xticklabels()] == NAMES[:3]
    assert difference.images[0].norm.vmin == -difference.images[0].norm.vmax == -0.25
    assert figure.get_supxlabel() == "a note"


def test_small_differences_stay_pale():
    same = matrix(0.5, 0.5, 0.5, 0.5, 0.5, 0.5)
    figure = plot_adjacency(same, same + 0.01, NAMES)
    assert figure.axes[2].images[0].norm.vmax == pytest.approx(0.1)


def test_nothing_known_is_all_dots():
    figure = plot_adjacency(np.full((4, 4), np.nan), np.full((4, 4), np.nan), NAMES)
    assert words(figure.axes[0]) == ["·"] * 10


def test_heat_maps_of_the_wrong_shape_are_refused():
    with pytest.raises(ValueError, match="4 names for arrays of shape"):
        plot_adjacency(np.zeros((3, 3)), np.zeros((4, 4)), NAMES)
