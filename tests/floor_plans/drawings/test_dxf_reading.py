"""DXF drawings of other hands: names, blocks, areas, outlines and arcs."""

from __future__ import annotations

import io
import math

import pytest

from floor_plans.diagrams.files.fields import DiagramError
from floor_plans.drawings.dxf_reading import (
    LINES,
    entities_by_layer,
    plot_of_dxf,
    read_dxf,
    ring_of,
)
from floor_plans.drawings.readers import ReadOptions, read_report
from floor_plans.plans.floor_plan import FloorPlan

ezdxf = pytest.importorskip("ezdxf", reason="dimensioned plans take the extra plans")
pytest.importorskip("shapely", reason="dimensioned plans take the extra plans")


ROOMS = (
    ("LivingRoom", 0, 0, 5, 4),
    ("MasterRoom", 5, 0, 9, 4),
    ("Kitchen", 0, 4, 5, 7),
    ("Bathroom", 5, 4, 9, 7),
)
BOXES = [(0, -4, 5, 0), (5, -4, 9, 0), (0, -7, 5, -4), (5, -7, 9, -4)]


def blank():
    document = ezdxf.new("R2010")
    document.units = 6
    return document


def outline(space, x0, y0, x1, y1, layer="ROOMS"):
    corners = [(x0, y0), (x1, y0), (x1, y1), (x0, y1)]
    return space.add_lwpolyline(corners, close=True, dxfattribs={"layer": layer})


def write(space, text, x, y, layer="LABELS"):
    space.add_text(text, dxfattribs={"layer": layer, "insert": (x, y)})


def draw(space, tag=write, layer="ROOMS"):
    """The rooms, each with a tag in its middle."""
    for name, *box in ROOMS:
        outline(space, *box, layer)
        tag(space, name, (box[0] + box[2]) / 2, (box[1] + box[3]) / 2)


def report_of(tmp_path, document, **options):
    document.saveas(tmp_path / "plan.dxf")
    return read_report(tmp_path / "plan.dxf", ReadOptions(**options))


def check(report, *left_out):
    """The four rooms, and nothing odd."""
    (diagram,) = report.diagrams
    assert diagram.room_names == tuple(name for name, *_ in ROOMS)
    assert [pytest.approx(box) for box in BOXES] == list(diagram.boxes)
    assert report.remarks == ()
    assert tuple(report.left_out.items()) == left_out


@pytest.mark.parametrize(
    "lines",
    [
        ["20.0 m2", "{}"],
        ["A = 20,0 m²", "1.03", "{}"],
        ["{}", "20.0 m2"],
        ["F: 215 sq ft", "parquet", "{}"],
    ],
)
@pytest.mark.parametrize("long", [True, False])
def test_a_name_is_found_among_numbers_and_areas(tmp_path, lines, long):
    def tag(space, name, x, y):
        texts = [line.format(name) for line in lines]
        if long:
            attributes = {"layer": "LABELS", "insert": (x, y)}
            space.add_mtext("\\P".join(texts), dxfattribs=attributes)
        else:
            for k, text in enumerate(texts):
                write(space, text, x, y + 0.3 * k)

    document = blank()
    draw(document.modelspace(), tag)
    check(report_of(tmp_path, document))


def test_a_name_that_is_unknown_is_quoted_and_not_its_area(tmp_path):
    document = blank()
    space = document.modelspace()
    outline(space, 0, 0, 5, 4)
    for text, y in (("20.0 m2", 1), ("Schlafgemach", 2), ("1.03", 3)):
        write(space, text, 2, y)
    with pytest.raises(ValueError, match=r"the room at \(2\.5, 2\.0\).*'Schlafgemach'"):
        report_of(tmp_path, document)
    (tmp_path / "names.yaml").write_text("Schlafgemach: MasterRoom\n")
    (diagram,) = report_of(tmp_path, document, room_names=tmp_path / "names.yaml").diagrams
    assert diagram.room_names == ("MasterRoom",)


def test_several_names_in_a_room_are_noticed(tmp_path):
    document = blank()
    draw(document.modelspace())
    write(document.modelspace(), "Dining", 1, 1)
    write(document.modelspace(), "Living room", 1, 2)  # the same type again is not another
    report = report_of(tmp_path, document)
    (remark,) = report.remarks
    assert remark.num == 1
    for word in ("plan.dxf", "(2.5, 2.0)", "LivingRoom", "Dining"):
        assert word in remark.first
    assert report.diagrams[0].room_names[0] == "LivingRoom"


@pytest.mark.parametrize("layers", [("LABELS", "LABELS"), ("0", "LABELS"), ("LABELS", "0")])
def test_attributes_of_blocks_are_names(tmp_path, layers):
    """Where the block is inserted, wherever its texts are moved to."""
    document = blank()
    block = document.blocks.new("TAG")
    block.add_attdef("NUMBER", (0, 0))
    block.add_attdef("NAME", (0, 0))

    def tag(space, name, x, y):
        insert = space.add_blockref("TAG", (x, y), dxfattribs={"layer": layers[0]})
        for key, value in (("NUMBER", "1.03"), ("NAME", name)):
            insert.add_attrib(key, value, (x + 20, y), dxfattribs={"layer": layers[1]})

    draw(document.modelspace(), tag)
    check(report_of(tmp_path, document))


def test_blocks_are_drawn_where_they_are_inserted(tmp_path):
    """One inside another, moved, turned and scaled; what is on layer 0 is on that of the block."""
    document = blank()
    inner = document.blocks.new("INNER", base_point=(100, 0))
    for name, x0, y0, x1, y1 in ROOMS:  # a quarter turn back, half as large
        outline(inner, *(100 + y0 / 2, -x1 / 2, 100 + y1 / 2, -x0 / 2), layer="0")
        write(inner, name, 100 + (y0 + y1) / 4, -(x0 + x1) / 4)
    about = {"layer": "0", "rotation": 90, "xscale": 2, "yscale": 2}
    document.blocks.new("OUTER").add_blockref("INNER", (-3, 0), dxfattribs=about)
    document.modelspace().add_blockref("OUTER", (3, 0), dxfattribs={"layer": "A-AREA"})
    document.modelspace().add_blockref("MISSING", (3, 0), dxfattribs={"layer": "ROOMS"})
    check(report_of(tmp_path, document))


@pytest.mark.parametrize("kind", ["text", "mtext", "attribute"])
def test_a_mirrored_block_is_drawn_mirrored(tmp_path, kind):
    document = blank()
    document.blocks.new("TAG").add_attdef("NAME", (0, 0))

    def tag(space, name, x, y):
        layer = {"layer": "LABELS"}
        if kind == "attribute":
            space.add_blockref("TAG", (-x, y), dxfattribs=layer).add_attrib("NAME", name, (-x, y))
        elif kind == "mtext":
            space.add_mtext(name, dxfattribs={"insert": (-x, y), **layer})
        else:
            write(space, name, -x, y)

    flat = document.blocks.new("FLAT")
    for name, x0, y0, x1, y1 in ROOMS:
        outline(flat, -x1, y0, -x0, y1)
        tag(flat, name, (x0 + x1) / 2, (y0 + y1) / 2)
    document.modelspace().add_blockref("FLAT", (0, 0), dxfattribs={"xscale": -1})
    check(report_of(tmp_path, document))


def test_a_door_symbol_is_no_opening_and_a_door_in_a_block_is_one(tmp_path):
    document = blank()
    draw(document.modelspace())
    leaf = document.blocks.new("LEAF")
    leaf.add_line((0, 0), (0, 0.9), dxfattribs={"layer": "DOORS"})
    document.modelspace().add_blockref("LEAF", (5, 3), dxfattribs={"layer": "DOORS"})
    doors = document.blocks.new("ALL")
    doors.add_line((5, 1), (5, 1.9), dxfattribs={"layer": "DOORS"})
    document.modelspace().add_blockref("ALL", (0, 0))
    (door,) = FloorPlan.of(report_of(tmp_path, document).diagrams[0]).doors
    assert door.rooms == (0, 1)
    assert door.ends == pytest.approx((5, -1.9, 5, -1))


@pytest.mark.slow
@pytest.mark.parametrize("depth", [12, 40])
def test_blocks_that_multiply_are_refused(tmp_path, depth):
    """4 of the next one in each of 12: 16 million lines. Or 40 deep."""
    document = blank()
    draw(document.modelspace())
    for k in range(depth):
        block = document.blocks.new(f"B{k}")
        for _ in range(4 if depth == 12 else 1):
            block.add_blockref(f"B{k + 1}", (0, 0))
    document.blocks.new(f"B{depth}").add_line((0, 0), (1, 1))
    document.modelspace().add_blockref("B0", (0, 0))
    with pytest.raises(ValueError, match=r"plan\.dxf: more than .* blocks"):
        report_of(tmp_path, document)


def test_a_block_in_rows_and_columns_is_drawn_in_each():
    document = blank()
    outline(document.blocks.new("ROOM"), 0, 0, 3, 3)
    rows = {"row_count": 2, "column_count": 3, "row_spacing": 4, "column_spacing": 5}
    document.modelspace().add_blockref("ROOM", (0, 0), dxfattribs=rows)
    found = entities_by_layer(document)["ROOMS"]
    corners = sorted(tuple(map(float, each.get_points()[0][:2])) for each in found)
    assert corners == [(x, y) for x in (0, 5, 10) for y in (0, 4)]


def test_outlines_drawn_twice_are_one_room(tmp_path):
    document = blank()
    draw(document.modelspace())
    for _, x0, y0, x1, y1 in ROOMS:  # from another corner, the other way round
        corners = [(x1, y1), (x1, y0), (x0, y0), (x0, y1 - 1e-5)]
        document.modelspace().add_lwpolyline(corners, close=True, dxfattribs={"layer": "ROOMS"})
    check(report_of(tmp_path, document), ("doubled outlines", 4))


def test_why_a_room_has_no_name_is_said(tmp_path):
    document = blank()
    outline(document.modelspace(), 0, 0, 5, 4)
    outline(document.modelspace(), 0.1, 0.1, 4.9, 3.9)  # the inner faces of its walls
    write(document.modelspace(), "Kitchen", 2, 2)
    with pytest.raises(ValueError, match=r"no room type.*'Kitchen' lies within.*walls, delete one"):
        report_of(tmp_path, document)
    document = blank()
    draw(document.modelspace(), lambda *about: write(*about, layer="TAGS"))
    with pytest.raises(ValueError, match=r"no room type: on LABELS .* layers with texts are TAGS"):
        report_of(tmp_path, document)


def test_open_boundaries_are_counted(tmp_path):
    document = blank()
    draw(document.modelspace())
    corners = [(0, 0), (9, 0), (9, 7), (0, 7)]
    document.modelspace().add_lwpolyline(corners, dxfattribs={"layer": "BOUNDARY"})
    check(report_of(tmp_path, document), ("open plot outlines", 1))


@pytest.mark.parametrize("layers", [("ROOMS_EG", "ROOMS_OG"), ("ROOMS", "1.OG-ROOMS")])
def test_storeys_on_layers_of_their_own_are_refused(tmp_path, layers):
    document = blank()
    for layer in layers:
        draw(document.modelspace(), layer=layer)
    with pytest.raises(ValueError, match=r"plan\.dxf.*a file of its own") as caught:
        report_of(tmp_path, document)
    assert all(layer in str(caught.value) for layer in layers)


def test_layers_of_the_aia_are_no_storeys():
    document = blank()
    for layer in ("A-AREA", "A-AREA-PATT", "A-AREA-IDEN"):
        outline(document.modelspace(), 0, 0, 4, 4, layer)
    write(document.modelspace(), "Kitchen", 1, 1, "A-AREA-IDEN")
    layers = entities_by_layer(document)
    assert [len(layers[name]) for name in ("ROOMS", "A-AREA-PATT", "LABELS")] == [1, 1, 2]


@pytest.mark.parametrize("scale", [0.0, 1e308])
def test_a_block_of_an_impossible_scale_draws_no_room(tmp_path, scale):
    document = blank()
    draw(document.modelspace())
    outline(document.blocks.new("FLAT"), 0, 0, 10, 10)
    scales = {"xscale": scale, "yscale": scale}
    document.modelspace().add_blockref("FLAT", (0, 0), dxfattribs=scales)
    with pytest.raises(ValueError, match=r"plan\.dxf"):
        report_of(tmp_path, document)


METRES, MILLIMETRES = 6, 4


def polyline_drawing(*corners, unit=METRES) -> bytes:
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
        plot_of_dxf(polyline_drawing((0, 0, 1), (10 * scale, 0, 1), unit=unit))
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
        plot_of_dxf(polyline_drawing(*corners))


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


def test_two_storeys_side_by_side_on_one_layer_are_refused(tmp_path):
    """A shed of two rooms is none."""
    document = blank()
    draw(document.modelspace())
    for x in (20, 22):
        outline(document.modelspace(), x, 0, x + 2, 2)
        write(document.modelspace(), "Storage", x + 1, 1)
    (remark,) = report_of(tmp_path, document).remarks
    assert "far from" in remark.kind
    outline(document.modelspace(), 24, 0, 26, 2)
    write(document.modelspace(), "Balcony", 25, 1)
    with pytest.raises(ValueError, match="2 groups of rooms lie far apart, as those of several"):
        report_of(tmp_path, document)
