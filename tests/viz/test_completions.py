from __future__ import annotations

import re

import pytest
from matplotlib.colors import to_hex
from matplotlib.patches import Circle

from discrete_diffusion.data.bubble_diagrams import BubbleDiagram, PartialDiagram
from discrete_diffusion.viz.completions import CompletedRow, draw_completions
from discrete_diffusion.viz.palette import ROOM_STYLES, UNKNOWN_ROOM

GIVEN = PartialDiagram((0, None, 2), ((0, 2, 2), (0, 1, 10)))
ROWS = [
    CompletedRow("line 1, given", GIVEN, (BubbleDiagram((0, 3, 2), ((0, 2, 2), (1, 2, 3))),) * 2),
    CompletedRow("line 2, given", PartialDiagram((9,), ()), (BubbleDiagram((9,), ()),)),
]


def bubbles(figure):
    """(x, y, colour) of the bubbles, in the order drawn."""
    circles = [p for p in figure.axes[0].patches if isinstance(p, Circle)]
    return [(*circle.center, to_hex(circle.get_facecolor())) for circle in circles]


def test_what_is_given_stands_where_the_first_completion_has_it():
    found = bubbles(draw_completions(ROWS, legend=False))
    assert len(found) == 3 * 3 + 2
    colours = [colour for *_, colour in found]
    known, unknown = ROOM_STYLES, to_hex(UNKNOWN_ROOM.colour)
    rooms = [to_hex(known[code].colour) for code in (0, 3, 2)]
    assert colours[:6] == [rooms[0], unknown, rooms[2], *rooms]
    pairs = zip(found[:3], found[3:6], strict=True)
    shifts = {(round(b[0] - a[0], 6), round(b[1] - a[1], 6)) for a, b in pairs}
    assert len(shifts) == 1
    (shift,) = shifts
    assert shift[0] > 2
    assert shift[1] == 0
    assert found[9][1] > max(y for _, y, _ in found[:9])  # the second line below the first


def test_the_picture_says_what_is_what(tmp_path):
    draw_completions(ROWS, tmp_path / "a.svg")
    text = (tmp_path / "a.svg").read_text()
    for words in ("line 1, given", "line 2, given", "Not known yet", "Bathroom"):
        assert re.search(re.escape(words), text)


def test_refusals(tmp_path):
    with pytest.raises(ValueError, match=r"ends in \.png or \.svg"):
        draw_completions(ROWS, tmp_path / "a.gif")
    for rows in ([], [CompletedRow("line 1", GIVEN, ())]):
        with pytest.raises(ValueError, match="no completions to draw"):
            draw_completions(rows)
