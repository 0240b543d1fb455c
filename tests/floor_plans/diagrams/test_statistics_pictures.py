"""Heat maps by room types: every share once, blanks stay blank, files are written."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from matplotlib.colors import to_rgb, to_rgba
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from discrete_diffusion.viz import GROUP_COLOURS, REAL, SAMPLED
from floor_plans.diagrams.pictures.statistics import BarPanel, plot_adjacency, plot_bars

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


def bars(axes) -> dict[float, float]:
    patches = [p for p in axes.patches if isinstance(p, Rectangle)]
    return {round(p.get_x() + p.get_width() / 2, 2): p.get_height() for p in patches}


def test_bars_are_shares_of_each_set():
    counted = BarPanel("Rooms", "rooms", "diagrams", np.array([0, 0, 1, 3]), np.array([0, 0, 5]))
    named = BarPanel("Types", "", "rooms", np.array([1.0, 1]), np.array([1.0, 3]), ["a", "b"])
    figure = plot_bars([counted, named])
    first, second = figure.axes
    assert bars(first) == pytest.approx({1.8: 25, 2.2: 100, 2.8: 75, 3.2: 0})  # from 2 rooms on
    assert bars(second) == pytest.approx({-0.2: 50, 0.2: 25, 0.8: 50, 1.2: 75})
    assert [label.get_text() for label in second.get_xticklabels()] == ["a", "b"]
    assert first.get_ylabel() == "share of diagrams (%)"
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["real", "sampled"]


def test_bars_of_nothing_are_empty():
    (axes,) = plot_bars([BarPanel("Rooms", "rooms", "diagrams", np.zeros(2), np.zeros(2))]).axes
    assert set(bars(axes).values()) == {0.0}


@pytest.mark.parametrize("blindness", ["none", "protan", "deutan", "grey"])
def test_colours_are_told_apart_without_colour_vision(blindness):
    """Machado et al. 2009, severity 1, on linear RGB; grey: lightness alone."""
    seen = {
        "none": np.eye(3),
        "protan": [[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]],
        "deutan": [[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]],
        "grey": [[0.2126, 0.7152, 0.0722]] * 3,
    }[blindness]
    panel = BarPanel("Rooms", "rooms", "diagrams", np.ones(2), np.ones(2))
    filled = {patch.get_facecolor() for patch in plot_bars([panel]).axes[0].patches}
    assert filled == {to_rgba(REAL), to_rgba(SAMPLED)}
    pairs = [tuple(filled)]
    if blindness != "grey":
        pairs += list(combinations(GROUP_COLOURS[:2], 2))
    for pair in pairs:
        one, other = (np.asarray(seen) @ np.array(to_rgb(colour)) ** 2.2 for colour in pair)
        one, other = (np.clip(c, 0, 1) ** (1 / 2.2) for c in (one, other))
        assert np.linalg.norm(one - other) > 0.25, pair
