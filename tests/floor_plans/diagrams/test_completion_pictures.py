from __future__ import annotations

import math

import pytest
from matplotlib.collections import LineCollection
from matplotlib.colors import to_hex
from matplotlib.patches import Circle

from floor_plans import BubbleDiagram, PartialDiagram
from floor_plans.diagrams.pictures.bubbles import HINT_LINE, LINE, ROOM_STYLES, UNKNOWN_ROOM
from floor_plans.diagrams.pictures.trajectory import CompletedRow, plot_completions

GIVEN = PartialDiagram((0, None, 2), ((0, 2, 2), (0, 1, 10)))
ROWS = [
    CompletedRow("line 1, given", GIVEN, (BubbleDiagram((0, 3, 2), ((0, 2, 2), (1, 2, 3))),) * 2),
    CompletedRow("line 2, given", PartialDiagram((9,), ()), (BubbleDiagram((9,), ()),)),
]


def bubbles(figure):
    """(x, y, colour) of the bubbles, in the order drawn."""
    return [(*circle.center, to_hex(circle.get_facecolor())) for circle in circles(figure)]


def circles(figure):
    """Without those of the legend, which are the smallest."""
    found = [p for p in figure.axes[0].patches if isinstance(p, Circle)]
    return [p for p in found if p.radius > 0.06]


def lines(figure, colour):
    collections = [c for c in figure.axes[0].collections if isinstance(c, LineCollection)]
    return [c for c in collections if to_hex(c.get_color()[0]) == colour]


def test_what_is_given_has_the_colours_and_sizes_that_are_known():
    found = bubbles(plot_completions(ROWS))
    assert len(found) == 3 * 3 + 2
    colours = [colour for *_, colour in found]
    known, unknown = ROOM_STYLES, to_hex(UNKNOWN_ROOM.colour)
    rooms = [to_hex(known[code].colour) for code in (0, 3, 2)]
    assert colours[:6] == [rooms[0], unknown, rooms[2], *rooms]
    living, grey, kitchen = (p.radius for p in circles(plot_completions(ROWS))[:3])
    assert grey / living == pytest.approx(UNKNOWN_ROOM.radius)
    assert kitchen / living == pytest.approx(known[2].radius)
    assert found[9][1] > max(y for _, y, _ in found[:9])  # the second line below the first


def nests(inner, outer):
    return math.dist(inner.center, outer.center) + inner.radius <= outer.radius


def test_bubbles_of_what_is_given_nest_only_where_that_is_given():
    whole = BubbleDiagram((0, 1, 2), ((0, 1, 5), (0, 2, 5), (1, 2, 2)))
    for relations, nested, hints in (((), [], 3), (((0, 2, 5),), [2], 2)):
        given = PartialDiagram((0, None, 2), relations)
        figure = plot_completions([CompletedRow("given", given, (whole,))])
        living, *others = circles(figure)
        assert [k for k in (1, 2) if nests(others[k - 1], living)] == nested
        for k in {1, 2} - set(nested):
            apart = math.dist(others[k - 1].center, living.center)
            assert apart > living.radius + others[k - 1].radius
        assert len(lines(figure, HINT_LINE)) == hints  # every pair of which nothing is said
        assert len(lines(figure, LINE)) == 1  # of the completion


def test_pairs_without_a_relation_are_neither_hinted_at_nor_drawn():
    given = PartialDiagram((0, 1), ((0, 1, 10),))
    row = CompletedRow("given", given, (BubbleDiagram((0, 1), ()),))
    figure = plot_completions([row])
    assert lines(figure, HINT_LINE) == lines(figure, LINE) == []
    assert "Not known yet" not in [text.get_text() for text in figure.axes[0].texts]


def test_an_unknown_pair_alone_is_explained():
    row = CompletedRow("given", PartialDiagram((0, 1), ()), (BubbleDiagram((0, 1), ()),))
    texts = plot_completions([row]).axes[0].texts
    assert "Not known yet" in [text.get_text() for text in texts]


def test_refusals(tmp_path):
    with pytest.raises(ValueError, match=r"a\.gif.*\.png or \.svg"):
        plot_completions(ROWS, tmp_path / "a.gif")
