"""Closed polylines with arcs: chords by size, and numbers that no drawing should have."""

from __future__ import annotations

import io
import math

import pytest

from floor_plans.diagrams.files.fields import DiagramError
from floor_plans.drawings.dxf_reading import LINES, plot_of_dxf, read_dxf, ring_of

ezdxf = pytest.importorskip("ezdxf", reason="dimensioned plans take the extra plans")
pytest.importorskip("shapely", reason="dimensioned plans take the extra plans")

METRES, MILLIMETRES = 6, 4


def drawing(*corners, unit=METRES) -> bytes:
    """The text of a polyline of (x, y, bulge), numbers as they are written."""
    words = f"0 SECTION 2 HEADER 9 $INSUNITS 70 {unit} 0 ENDSEC 0 SECTION 2 ENTITIES"
    words += " 0 POLYLINE 8 PLOT 66 1 70 1"
    for x, y, bulge in corners:
        words += f" 0 VERTEX 8 PLOT 10 {x} 20 {y} 42 {bulge}"
    return f"{words} 0 SEQEND 0 ENDSEC 0 EOF".replace(" ", "\n").encode()


@pytest.mark.parametrize("radius", [0.004, 5.0, 5e3, 5e8])
def test_a_circle_has_as_many_chords_in_any_unit(radius):
    polyline = (
        ezdxf.new().modelspace().add_lwpolyline([(0, 0, 1), (2 * radius, 0, 1)], "xyb", close=True)
    )
    ring = ring_of(polyline)
    assert len(ring.exterior.coords) == 129
    assert ring.area == pytest.approx(math.pi * radius**2, rel=5e-3)


def test_a_round_plot_is_the_same_in_metres_and_millimetres():
    plots = [
        plot_of_dxf(drawing((0, 0, 1), (10 * scale, 0, 1), unit=unit))
        for unit, scale in ((METRES, 1), (MILLIMETRES, 1000))
    ]
    assert plots[0] == plots[1]
    assert 32 <= len(plots[0]) <= 64


@pytest.mark.parametrize(
    ("corners", "named"),
    [
        ([(0, 0, 1), (1e9, 0, 0), (1e9, 1e9, 0)], r"\$INSUNITS.*metres"),  # took 5.8 GB
        ([(0, 0, 1e9), (1, 0, 0), (1, 1, 0)], r"\$INSUNITS.*metres"),
        ([(0, 0, 1e300), (1, 0, 0), (1, 1, 0)], "polyline on PLOT"),
        ([(0, 0, 0), ("1e308", 0, 0), ("1e308", "1e308", 0)], "polyline on PLOT.*not a number"),
        ([(0, 0, 0), ("nan", 0, 0), (1, 1, 0)], "polyline on PLOT.*not a number"),
        ([(0, 0, "nan"), (1, 0, 0), (1, 1, 0)], "polyline on PLOT"),
        ([(0, 0, "inf"), (1, 0, 0), (1, 1, 0)], "polyline on PLOT"),
        ([(0, 0, 0), (300, 0, 0), (300, 8, 0)], r"\$INSUNITS.*300 x 8 m.*200 m"),
        (
            [(math.cos(k / 700), math.sin(k / 700), 1e-3) for k in range(4000)],
            "polyline on PLOT.*10,000 corners",
        ),
    ],
)
def test_a_plot_that_cannot_be_is_refused(corners, named):
    with pytest.raises(DiagramError, match=named):
        plot_of_dxf(drawing(*corners))


def test_a_mesh_on_rooms_is_a_line_that_closes_no_room():
    document = ezdxf.new(units=METRES)
    space = document.modelspace()
    space.add_lwpolyline(
        [(0, 0), (4, 0), (4, 3), (0, 3)], close=True, dxfattribs={"layer": "ROOMS"}
    )
    space.add_polymesh((2, 2), dxfattribs={"layer": "ROOMS"})
    space.add_text("Kitchen", dxfattribs={"layer": "LABELS", "insert": (1, 1)})
    text = io.StringIO()
    document.write(text)
    found = read_dxf(text.getvalue().encode())
    assert (len(found.rooms), found.left_out) == (1, (LINES,))


def test_a_block_that_is_repeated_too_often_is_refused_before_it_is_repeated(monkeypatch):
    document = ezdxf.new(units=METRES)
    document.blocks.new("TILE").add_lwpolyline([(0, 0), (1, 0), (1, 1)], close=True)
    tile = document.modelspace().add_blockref("TILE", (0, 0))
    tile.dxf.row_count = tile.dxf.column_count = 30_000
    tile.dxf.row_spacing = tile.dxf.column_spacing = 1
    text = io.StringIO()
    document.write(text)
    monkeypatch.setattr(type(tile), "multi_insert", lambda insert: pytest.fail("it is repeated"))
    with pytest.raises(DiagramError, match="50,000 lines and texts in blocks"):
        plot_of_dxf(text.getvalue().encode())
