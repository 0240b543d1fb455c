"""What held-out data says of a model, drawn: the numbers measured, and no others."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from matplotlib.patches import StepPatch

from discrete_diffusion.evaluation.noise_levels import BoundByTime, Calibration
from discrete_diffusion.evaluation.pictures import plot_bound_by_time, plot_calibration


def calibration(predicted, num_events, groups=("node", "edge")):
    """Float[S, K] for every group; frequencies lie a point above predictions, then two."""
    predicted, num_events = (
        torch.tensor(x, dtype=torch.float64).unsqueeze(1).repeat(1, len(groups), 1)
        for x in (predicted, num_events)
    )
    return Calibration(
        shares=(0.3, 0.6)[: len(predicted)],
        groups=groups,
        num_events=num_events,
        predicted=predicted,
        observed=predicted + torch.tensor([0.01, 0.02])[: len(predicted), None, None],
        num_positions=num_events.sum(dim=2),
    )


PREDICTED = [[0.1, 0.5, 0.9], [0.2, 0.4, float("nan")]]
EVENTS = [[1000.0, 5, 1000], [1000, 1000, 0]]


def test_a_reliability_diagram_leaves_out_bins_of_few_events():
    figure = plot_calibration(calibration(PREDICTED, EVENTS), {"node": "rooms"})
    rooms, edges, errors = figure.axes[:3]
    assert [axes.get_title(loc="left") for axes in figure.axes[:2]] == ["Rooms", "Edges"]
    diagonal, low, high = rooms.lines
    assert diagonal.get_xdata().tolist() == [0, 1]
    assert low.get_xdata().tolist() == [0.1, 0.9]
    assert high.get_ydata() == pytest.approx([0.22, 0.42])
    assert low.get_color() != high.get_color()
    assert len(edges.lines) == 3
    assert errors.lines[0].get_ydata() == pytest.approx([1, 2])  # points
    one = calibration(PREDICTED[:1], EVENTS[:1])
    assert len(plot_calibration(one, {}).axes[0].lines) == 2  # a single share has no spacing
    empty = plot_calibration(calibration(PREDICTED[:1], [[0.0, 0, 0]]), {})
    assert empty.axes[0].get_title(loc="left") == "Calibration error"  # without events


def by_time(integrand, cross_entropy, uniform):
    """From lists by group name."""
    return BoundByTime(
        groups=tuple(integrand),
        integrand=torch.tensor(list(integrand.values()), dtype=torch.float64).T,
        standard_error=torch.full((len(next(iter(integrand.values()))),), 0.1).double(),
        cross_entropy=torch.tensor(list(cross_entropy.values()), dtype=torch.float64).T,
        uniform=torch.tensor(uniform, dtype=torch.float64),
        nelbo_standard_error=0.1,
        num_samples=9,
    )


def test_the_area_of_the_bound_is_written_beside_it():
    nan = float("nan")
    figure = plot_bound_by_time(
        by_time(
            {"node": [1.0, 2, 3, 4], "edge": [10.0] * 4},
            {"node": [nan, 0.5, 0.6, 0.7], "edge": [1.5] * 4},
            [2.6, 2.4],
        ),
        {"node": "rooms", "edge": "relations"},
    )
    left, right = figure.axes
    assert left.get_title(loc="left") == "The bound by time: area 12.50 ± 0.10 nats"
    labels = [text.get_text() for text in left.get_legend().get_texts()]
    assert labels == ["rooms: 2.50 nats", "relations: 10.00 nats"]
    steps = [patch for patch in left.patches if isinstance(patch, StepPatch)]
    assert steps[1].get_data().values.tolist() == [11, 12, 13, 14]  # stacked
    assert steps[1].get_data().baseline.tolist() == [1, 2, 3, 4]
    assert right.get_ylim()[1] > 2.6
    assert right.lines[0].get_ydata()[1:].tolist() == [0.5, 0.6, 0.7]
    groups = {f"group {k}": [1.0, 1.0] for k in range(6)}  # more than there are colours
    figure = plot_bound_by_time(by_time(groups, groups, [1.0] * 6), {})
    assert len(figure.axes[0].get_legend().get_texts()) == 6


@pytest.mark.parametrize(
    ("values", "height"), [([2.0, np.nan, 9.0, np.inf], 9.9), ([np.nan] * 4, 2.2)]
)
def test_a_model_worse_than_a_guess_stays_on_the_chart(values, height):
    figure = plot_bound_by_time(by_time({"node": values}, {"node": values}, [2.0]), {})
    assert figure.axes[1].get_ylim()[1] == pytest.approx(height)
