"""Charts: what is drawn is what was given, blanks stay blank, files are written."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle, StepPatch

from discrete_diffusion.domains.bubble_diagrams.pictures.adjacency import draw_adjacency
from discrete_diffusion.viz import (
    BarPanel,
    ReliabilityPanel,
    draw_bars,
    draw_bound_by_time,
    draw_reliability,
)
from discrete_diffusion.viz.chart_style import GROUP_COLOURS, REAL, SAMPLED, shares

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
    return draw_adjacency(real, sampled, NAMES, path, **options)


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
    figure = draw_adjacency(same, same + 0.01, NAMES)
    assert figure.axes[2].images[0].norm.vmax == pytest.approx(0.1)


def test_nothing_known_is_all_dots():
    figure = draw_adjacency(np.full((4, 4), np.nan), np.full((4, 4), np.nan), NAMES)
    assert words(figure.axes[0]) == ["·"] * 10


def test_heat_maps_of_the_wrong_shape_are_refused():
    with pytest.raises(ValueError, match="4 names for arrays of shape"):
        draw_adjacency(np.zeros((3, 3)), np.zeros((4, 4)), NAMES)


def bars(axes) -> dict[float, float]:
    patches = [p for p in axes.patches if isinstance(p, Rectangle)]
    return {round(p.get_x() + p.get_width() / 2, 2): p.get_height() for p in patches}


def test_bars_are_shares_of_each_set():
    counted = BarPanel("Rooms", "rooms", "diagrams", np.array([0, 0, 1, 3]), np.array([0, 0, 5]))
    named = BarPanel("Types", "", "rooms", np.array([1.0, 1]), np.array([1.0, 3]), ["a", "b"])
    figure = draw_bars([counted, named])
    first, second = figure.axes
    assert bars(first) == pytest.approx({1.8: 25, 2.2: 100, 2.8: 75, 3.2: 0})  # from 2 rooms on
    assert bars(second) == pytest.approx({-0.2: 50, 0.2: 25, 0.8: 50, 1.2: 75})
    assert [label.get_text() for label in second.get_xticklabels()] == ["a", "b"]
    assert first.get_ylabel() == "share of diagrams (%)"
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["real", "sampled"]
    with pytest.raises(ValueError, match="at least one panel"):
        draw_bars([])


def test_shares_add_up_and_survive_nothing():
    assert shares([1, 3], 4).tolist() == [25, 75, 0, 0]
    assert shares([0.0, 0.0]).tolist() == [0, 0]


def test_reliability_leaves_out_bins_of_few_events():
    events = np.array([[1000.0, 5, 1000], [1000, 1000, 0]])
    predicted = np.array([[0.1, 0.5, 0.9], [0.2, 0.4, np.nan]])
    panel = ReliabilityPanel("Rooms", predicted, predicted + 0.01, events, np.array([0.01, 0.02]))
    figure = draw_reliability([0.3, 0.6], [panel, panel])
    rooms, _, errors = figure.axes[:3]
    diagonal, low, high = rooms.lines
    assert diagonal.get_xdata().tolist() == [0, 1]
    assert low.get_xdata().tolist() == [0.1, 0.9]
    assert high.get_ydata() == pytest.approx([0.21, 0.41])
    assert low.get_color() != high.get_color()
    assert errors.lines[0].get_ydata() == pytest.approx([1, 2])  # points
    one = ReliabilityPanel("Rooms", predicted[:1], predicted[:1], events[:1], np.array([0.01]))
    assert len(draw_reliability([0.5], [one]).axes[0].lines) == 2  # a single share has no spacing
    empty = draw_reliability([0.5], [])  # nothing was masked
    assert empty.axes[0].get_title(loc="left") == "Calibration error"


def test_the_area_of_the_bound_is_written_beside_it():
    edges = np.linspace(0, 1, 5)
    integrand = {"rooms": np.array([1.0, 2, 3, 4]), "relations": np.full(4, 10.0)}
    entropy = {"rooms": np.array([np.nan, 0.5, 0.6, 0.7]), "relations": np.full(4, 1.5)}
    figure = draw_bound_by_time(
        edges,
        integrand,
        entropy,
        standard_error=np.full(4, 0.1),
        uniform={"rooms": 2.6, "relations": 2.4},
    )
    left, right = figure.axes
    assert left.get_title(loc="left") == "The bound by time: area 12.50 nats"
    labels = [text.get_text() for text in left.get_legend().get_texts()]
    assert labels == ["rooms: 2.50 nats", "relations: 10.00 nats"]
    steps = [patch for patch in left.patches if isinstance(patch, StepPatch)]
    assert steps[1].get_data().values.tolist() == [11, 12, 13, 14]  # stacked
    assert steps[1].get_data().baseline.tolist() == [1, 2, 3, 4]
    assert right.get_ylim()[1] > 2.6


def test_a_model_worse_than_a_guess_stays_on_the_chart():
    values = np.array([2.0, np.nan, 9.0, np.inf])
    for given, height in ((values, 9.9), (np.full(4, np.nan), 2.2)):
        figure = draw_bound_by_time(
            np.linspace(0, 1, 5),
            {"rooms": given},
            {"rooms": given},
            standard_error=np.full(4, 0.1),
            uniform={"rooms": 2.0},
        )
        assert figure.axes[1].get_ylim()[1] == pytest.approx(height)


def test_more_groups_than_colours_are_all_drawn():
    groups = {f"group {k}": np.ones(2) for k in range(6)}
    figure = draw_bound_by_time(
        np.linspace(0, 1, 3),
        groups,
        groups,
        standard_error=np.zeros(2),
        uniform=dict.fromkeys(groups, 1.0),
    )
    assert len(figure.axes[0].get_legend().get_texts()) == 6


@pytest.mark.parametrize("blindness", ["none", "protan", "deutan", "grey"])
def test_colours_are_told_apart_without_colour_vision(blindness):
    """Machado et al. 2009, severity 1, on linear RGB; grey: lightness alone."""
    seen = {
        "none": np.eye(3),
        "protan": [[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]],
        "deutan": [[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]],
        "grey": [[0.2126, 0.7152, 0.0722]] * 3,
    }[blindness]
    pairs = [(REAL, SAMPLED)]
    if blindness != "grey":
        pairs += list(combinations(GROUP_COLOURS[:2], 2))
    for pair in pairs:
        one, other = (np.asarray(seen) @ np.array(to_rgb(colour)) ** 2.2 for colour in pair)
        one, other = (np.clip(c, 0, 1) ** (1 / 2.2) for c in (one, other))
        assert np.linalg.norm(one - other) > 0.25, pair
