"""The DXF drawing as ezdxf reads it, and drawings of other hands."""

from __future__ import annotations

import io
import json
import re

import pytest
from drawn_plans import GAP, assert_same, by_hand, embedded, measured

from floor_plans import BubbleDiagram
from floor_plans.diagrams.files.fields import DiagramError
from floor_plans.drawings.drawn_parts import DrawingStyle, names_of_rooms
from floor_plans.drawings.drawn_plan import flip_y
from floor_plans.drawings.dxf import LAYERS, dxf_of
from floor_plans.drawings.dxf_reading import plot_of_dxf
from floor_plans.drawings.readers import ReadOptions, read_report
from floor_plans.drawings.realised_files import write_plan
from floor_plans.plans.floor_plan import FRONT_DOOR, Door, FloorPlan
from floor_plans.plans.walls import clear_areas
from floor_plans.solver.shapes import PlanShapes, find_windows

recover = pytest.importorskip("ezdxf.recover", reason="dimensioned plans take the extra plans")
ezdxf = pytest.importorskip("ezdxf", reason="dimensioned plans take the extra plans")
shapely = pytest.importorskip("shapely", reason="dimensioned plans take the extra plans")


def drawn(tmp_path, plan):
    write_plan(tmp_path / "plan.dxf", plan, "dxf")
    return ezdxf.readfile(tmp_path / "plan.dxf")


def on_layer(document, layer):
    return [each for each in document.modelspace() if each.dxf.layer == layer]


@pytest.mark.slow
def test_ezdxf_reads_rooms_labels_and_doors_in_metres_with_y_upwards(tmp_path):
    for plan in [by_hand(), *embedded(3)]:
        document = drawn(tmp_path, plan)
        assert document.header["$INSUNITS"] == 6  # metres
        assert not document.audit().errors
        rooms = on_layer(document, "ROOMS")
        assert all(room.closed for room in rooms)
        rings = [shapely.Polygon(room.get_points("xy")) for room in rooms]
        texts = [label.plain_text().split("\n") for label in on_layer(document, "LABELS")]
        assert [name for name, _ in texts] == [name.whole for name in names_of_rooms(plan, "en")]
        floors = []
        for floor, area, (_, written) in zip(plan.rooms, clear_areas(plan), texts, strict=True):
            part = rings.pop(0)
            for _ in floor.interiors:
                part = part.difference(rings.pop(0))
            floors.append(part)
            assert part.symmetric_difference(flip_y(floor)).area < 1e-9
            assert written == f"{area:.2f} m²"
        assert not rings
        for label, floor in zip(on_layer(document, "LABELS"), floors, strict=True):
            assert floor.contains(shapely.Point(label.dxf.insert.x, label.dxf.insert.y))
        doors = [
            (line.dxf.start.x, -line.dxf.start.y, line.dxf.end.x, -line.dxf.end.y)
            for line in on_layer(document, "DOORS")
            if line.dxftype() == "LINE"
        ]
        assert doors == [pytest.approx(door.ends) for door in plan.doors]
        used = "BOUNDARY" if plan.boundary else "OUTLINE"
        (outline,) = on_layer(document, used)
        assert outline.closed
        assert shapely.Polygon(outline.get_points("xy")).equals(flip_y(plan.outline))


def polygons(document, layer):
    rings = [
        shapely.Polygon(each.get_points("xy"))
        for each in on_layer(document, layer)
        if each.dxftype() == "LWPOLYLINE"
    ]
    whole = shapely.Polygon()
    for ring in rings:
        whole = whole.symmetric_difference(ring)
    return whole


@pytest.mark.parametrize("plan", [by_hand(), *embedded(2)])
def test_walls_are_closed_and_break_at_doors_and_windows(tmp_path, plan):
    document, shapes = drawn(tmp_path, plan), PlanShapes(plan)
    assert all(each.closed for each in on_layer(document, "WALLS"))
    walls = polygons(document, "WALLS")
    assert walls.symmetric_difference(flip_y(shapes.walls)).area < 1e-6
    for door in plan.doors:
        assert not walls.buffer(-1e-6).intersects(
            flip_y(shapely.LineString([door.start, door.end]))
        )
    panes = [each for each in on_layer(document, "WINDOWS") if each.dxftype() == "LWPOLYLINE"]
    assert len(panes) == len(find_windows(plan)) > 0
    assert polygons(document, "WINDOWS").area == pytest.approx(
        sum(0.3 * each.width for each in find_windows(plan))
    )


@pytest.mark.slow
def test_doors_are_blocks_that_swing_as_in_the_picture(tmp_path):
    for plan in [by_hand(), *embedded(3)]:
        document = drawn(tmp_path, plan)
        blocks = [each for each in on_layer(document, "DOORS") if each.dxftype() == "INSERT"]
        for block, swing in zip(blocks, PlanShapes(plan).swings, strict=True):
            leaf, arc = block.virtual_entities()
            corners = shapely.Polygon([(at.x, at.y) for at in leaf.vertices_in_wcs()])
            assert corners.distance(flip_y(shapely.Point(swing.leaf[1]))) < 1e-6
            reached = {(round(at.x, 4), round(at.y, 4)) for at in (arc.start_point, arc.end_point)}
            ends = (swing.leaf[1], swing.arc[-1])
            assert reached == {(round(x, 4), round(0.0 - y, 4)) for x, y in ends}


@pytest.mark.parametrize("plan", [by_hand(), *embedded(3)])
def test_dimensions_state_what_is_between_the_walls(tmp_path, plan):
    document = drawn(tmp_path, plan)
    x0, y0, x1, y1 = shapely.union_all(plan.boxes).bounds
    for axis, whole in ((0, x1 - x0), (90, y1 - y0)):
        of_axis = [
            each.get_measurement()
            for each in on_layer(document, "DIMENSIONS")
            if each.dxf.angle == axis
        ]
        assert max(of_axis) == pytest.approx(whole)
        assert sum(of_axis) == pytest.approx(whole * (1 if len(of_axis) == 1 else 2))


@pytest.mark.slow
def test_layers_have_the_names_of_the_aia_and_rooms_those_of_a_language(tmp_path):
    plan, path = by_hand(), tmp_path / "plan.dxf"
    write_plan(path, plan, "dxf", DrawingStyle(language="de", layers="aia"))
    document = ezdxf.readfile(path)
    used = {each.dxf.layer for each in document.modelspace()}
    assert {"A-WALL", "A-DOOR", "A-GLAZ", "A-AREA", "A-AREA-IDEN", "A-ANNO-DIMS", "C-PROP"} <= used
    assert not used & {*LAYERS}
    texts = [each.plain_text().split("\n")[0] for each in on_layer(document, "A-AREA-IDEN")]
    assert texts == [name.whole for name in names_of_rooms(plan, "de")]
    assert "Wohnzimmer" in texts
    assert not document.audit().errors
    assert_same(FloorPlan.of(read_report(path).diagrams[0]), plan)
    for label in on_layer(document, "A-AREA-IDEN"):
        label.discard_xdata("DISCRETE_DIFFUSION")
    document.saveas(path)
    assert read_report(path).diagrams[0].room_names == plan.diagram.room_names


def by_another_hand(unit=4, layer="ROOMS", scale=1.0):
    """Two rooms in millimetres, or so many times as large, a polyline of the old kind, a text of
    one line, a door without a note of its rooms, and what is no part of a plan."""
    document = ezdxf.new("R2000")  # of the time before UTF-8
    document.header["$INSUNITS"] = unit
    space = document.modelspace()

    def at(*corner):
        return tuple(scale * side for side in corner)

    kitchen = [at(0, 0), at(3000, 0), at(3000, 2500), at(0, 2500)]
    space.add_lwpolyline(kitchen, close=True, dxfattribs={"layer": layer})
    bath = [at(3000, 0), at(5000, 0), at(5000, 2500), at(3000, 2500)]
    space.add_polyline2d(bath, close=True, dxfattribs={"layer": layer.lower()})
    space.add_lwpolyline([(0, 0), (1, 1)], dxfattribs={"layer": layer})
    space.add_text("Küchenzeile", dxfattribs={"layer": "0", "insert": (1, 1)})
    for text, x, y in (("kitchen", 1500, 1000), ("WC", 4000, 1000), ("plot 7", 9000, 9000)):
        space.add_text(text, dxfattribs={"layer": "LABELS", "insert": at(x, y)})
    space.add_line(at(3000, 1000), at(3000, 1900), dxfattribs={"layer": "DOORS"})
    return document


def test_a_drawing_of_another_hand_is_read(tmp_path):
    by_another_hand().saveas(tmp_path / "plan.dxf")
    report = read_report(tmp_path / "plan.dxf")
    assert report.left_out == {"lines that close no room": 1}
    plan = FloorPlan.of(report.diagrams[0])
    assert plan.diagram.room_names == ("Kitchen", "Bathroom")
    assert plan.diagram.boxes == (pytest.approx((0, -2.5, 3, 0)), pytest.approx((3, -2.5, 5, 0)))
    assert plan.diagram.relations == measured(plan.diagram.boxes, GAP) == ((0, 1, 2),)
    (door,) = plan.doors
    assert (door.rooms, door.thickness) == ((0, 1), 0)
    assert door.ends == pytest.approx((3, -1.9, 3, -1))


def test_a_room_that_others_cover_has_its_label_on_its_box(tmp_path):
    plan = FloorPlan(BubbleDiagram((0, 3, 7), (), ((0, 0, 5, 4), (5, 0, 8, 4), (5, 0, 8, 4))))
    document = drawn(tmp_path, plan)
    labels = on_layer(document, "LABELS")
    assert [label.plain_text().splitlines()[1] for label in labels] == [
        f"{area:.2f} m²" for area in clear_areas(plan)
    ]
    assert 0.0 in plan.areas
    assert all(5 < label.dxf.insert.x < 8 for label in labels[1:])


@pytest.mark.parametrize(
    ("unit", "metres"),
    [("metres", 1.0), ("centimetres", 0.01), ("millimetres", 0.001), ("inches", 0.0254)],
)
def test_a_drawing_without_a_unit_takes_the_one_that_is_given(tmp_path, unit, metres):
    path = tmp_path / "plan.dxf"
    by_another_hand(0, scale=0.001 / metres).saveas(path)
    (diagram,) = read_report(path, ReadOptions(unit=unit)).diagrams
    plan = FloorPlan.of(diagram)
    assert plan.areas == pytest.approx((7.5, 5.0))
    assert diagram.relations == ((0, 1, 2),)
    with pytest.raises(ValueError, match=r"INSUNITS.*data\.unit=metres.*--unit"):
        read_report(path)


@pytest.mark.parametrize(
    ("header", "drawn", "likely"),
    [(1, 1.0, "metres"), (6, 0.001, "millimetres"), (4, 1.0, "metres"), (2, 0.001, "millimetres")],
)
def test_a_header_that_says_another_unit_than_is_drawn_is_noticed(tmp_path, header, drawn, likely):
    """Inches in the header of a drawing in metres, and others."""
    path = tmp_path / "plan.dxf"
    by_another_hand(header, scale=0.001 / drawn).saveas(path)
    with pytest.raises(ValueError, match=rf"INSUNITS={header}.*looks drawn in {likely}") as caught:
        read_report(path)
    assert str(caught.value).count(str(path)) == 1


@pytest.mark.parametrize("plan", [by_hand(), *embedded(3)])
def test_a_drawing_opens_on_the_plan(plan):
    document = ezdxf.read(io.StringIO(dxf_of(plan, DrawingStyle())))
    (left, low), (right, high) = (document.header[f"$EXT{end}"][:2] for end in ("MIN", "MAX"))
    assert tuple(document.modelspace().dxf.extmin)[:2] == pytest.approx((left, low))
    x0, y0, x1, y1 = flip_y(plan.outline.union(PlanShapes(plan).solid)).bounds
    assert left <= x0 < x1 <= right
    assert low <= y0 < y1 <= high
    beside = (right - left) - (x1 - x0), (high - low) - (y1 - y0)
    assert all(1 < metres < 2.5 for metres in beside)  # dimensions
    (view,) = document.viewports.get("*Active")
    assert tuple(view.dxf.center)[:2] == pytest.approx(((left + right) / 2, (low + high) / 2))
    assert high - low < view.dxf.height < 1.5 * max(right - left, high - low)


def test_what_cannot_be_read_is_said(tmp_path):
    def refused(document, *words):
        document.saveas(tmp_path / "plan.dxf")
        with pytest.raises(ValueError) as caught:
            read_report(tmp_path / "plan.dxf")
        for word in ("plan.dxf", *words):
            assert word in str(caught.value)

    refused(by_another_hand(unit=0), "$INSUNITS", "no unit", "UNITS")
    refused(by_another_hand(layer="A-ROOM"), "'ROOMS'", "closed polyline", "A-ROOM")
    nameless = by_another_hand()
    for text in nameless.modelspace().query("TEXT"):
        text.dxf.layer = "NOTES"
    refused(nameless, "the room at (1.5, 1.2)", "room type")
    unknown = by_another_hand()
    unknown.modelspace().query("TEXT")[1].dxf.text = "Kitchn"
    refused(unknown, "the room at (1.5, 1.2)", "unknown room type 'Kitchn'", "'Kitchen'")
    crossed = by_another_hand()
    ring = [(0, 5000), (1000, 6000), (1000, 5000), (0, 6000)]
    crossed.modelspace().add_lwpolyline(ring, close=True, dxfattribs={"layer": "ROOMS"})
    refused(crossed, "crosses itself")
    (tmp_path / "plan.dxf").write_text("0\nSECTION\n")
    with pytest.raises(ValueError, match=r"plan.dxf: not a DXF drawing that can be read \("):
        read_report(tmp_path / "plan.dxf")
    by_another_hand().saveas(tmp_path / "plan.dxf", fmt="bin")
    with pytest.raises(ValueError, match=r"plan.dxf: a binary DXF drawing; save it as text"):
        read_report(tmp_path / "plan.dxf")


def test_the_drawing_is_what_counts(tmp_path):
    """A room that is moved in CAD is related as the rule says of its new place, one with another
    label is of another type; all else is as it was written."""
    plan = by_hand()
    document = drawn(tmp_path, plan)
    beds = [k for k, name in enumerate(plan.diagram.room_names) if name == "MasterRoom"]
    for room in on_layer(document, "ROOMS"):
        if room.get_xdata("DISCRETE_DIFFUSION")[1].value == beds[0]:
            room.translate(0, -1, 0)
    labels = on_layer(document, "LABELS")
    labels[0].text = labels[0].text.replace(names_of_rooms(plan, "en")[0].whole, "Storage")
    document.saveas(tmp_path / "edited.dxf")
    report = read_report(tmp_path / "edited.dxf")
    read = FloorPlan.of(report.diagrams[0])
    boxes = list(plan.diagram.boxes)
    x0, y0, x1, y1 = boxes[beds[0]]
    boxes[beds[0]] = (x0, y0 + 1, x1, y1 + 1)
    names = ("Storage", *plan.diagram.room_names[1:])
    assert read.diagram.room_names == names
    assert [*read.diagram.boxes] == [pytest.approx(box) for box in boxes]
    of_moved = [each for each in plan.diagram.relations if beds[0] in each[:2]]
    kept = [each for each in plan.diagram.relations if beds[0] not in each[:2]]
    anew = [each for each in measured(boxes, GAP) if beds[0] in each[:2]]
    assert list(read.diagram.relations) == sorted(kept + anew)
    assert of_moved != anew
    assert report.left_out == {"relations of moved rooms": len(of_moved)}
    assert read.diagram.metadata == plan.diagram.metadata
    assert [door.rooms for door in read.doors] == [door.rooms for door in plan.doors]


def test_without_our_record_relations_are_measured(tmp_path):
    plan = by_hand()
    document = drawn(tmp_path, plan)
    del document.rootdict["DISCRETE_DIFFUSION"]
    document.saveas(tmp_path / "bare.dxf")
    read = FloorPlan.of(read_report(tmp_path / "bare.dxf").diagrams[0])
    assert read.diagram.relations == measured(plan.diagram.boxes, GAP) != plan.diagram.relations
    assert read.diagram.boxes == plan.diagram.boxes
    assert [door.rooms for door in read.doors] == [door.rooms for door in plan.doors]
    assert {door.rooms[1] for door in read.doors if door.is_front} == {FRONT_DOOR}
    text = (tmp_path / "plan.dxf").read_text()
    (tmp_path / "bad.dxf").write_text(re.sub(r'\{"rooms": ', "{", text, count=1))
    with pytest.raises(ValueError, match=r"bad.dxf, field 'DISCRETE_DIFFUSION': .*delete it"):
        read_report(tmp_path / "bad.dxf")


def test_a_door_between_two_thin_walls_opens_both(tmp_path):
    boxes = ((0.0, 0.0, 3.0, 3.0), (3.3, 0.0, 5.0, 3.0))
    door = Door((0, 1), (3.1, 1.0), (3.1, 2.0))  # nearer to the first
    plan = FloorPlan(BubbleDiagram((0, 2), (), boxes), (door,))
    walls = polygons(drawn(tmp_path, plan), "WALLS")
    assert walls.intersects(shapely.box(3.0, -0.9, 3.3, -0.5))
    assert not walls.intersects(shapely.box(2.9, -1.9, 3.4, -1.1))


def test_other_programs_read_the_record_as_it_is(tmp_path):
    """In a string of DXF, a backslash may begin a code: some programs read U+0041 as A."""
    plan = by_hand()
    drawn(tmp_path, plan)
    document, _ = recover.readfile(tmp_path / "plan.dxf")
    text = "".join(value for _, value in document.rootdict["DISCRETE_DIFFUSION"].tags)
    assert json.loads(text) == json.loads(json.dumps(plan.to_json()))
    assert "U+0041" in text


def plot_drawing(*polylines: tuple[str, list[tuple[float, float]], bool], unit: int = 6) -> bytes:
    document = ezdxf.new(units=unit)
    for layer, corners, close in polylines:
        attributes = {"layer": layer}
        document.modelspace().add_lwpolyline(corners, close=close, dxfattribs=attributes)
    text = io.StringIO()
    document.write(text)
    return text.getvalue().encode()


SMALL, LARGE = [(5, 5), (8, 5), (8, 7)], [(0, 0), (12, 0), (12, 8), (0, 8)]


def test_a_plot_is_the_largest_closed_polyline_from_0_on_y_downwards():
    open_line = ("0", [(0, 0), (99, 99), (0, 99)], False)
    content = plot_drawing(("0", SMALL, True), ("WALLS", LARGE, True), open_line)
    assert set(plot_of_dxf(content)) == {(0, 0), (12, 0), (12, 8), (0, 8)}
    content = plot_drawing(("BOUNDARY", SMALL, True), ("WALLS", LARGE, True))
    assert set(plot_of_dxf(content)) == {(0, 2), (3, 2), (3, 0)}


def test_what_is_no_plot_in_a_drawing_is_passed_over():
    document = ezdxf.new(units=6)
    space = document.modelspace()
    space.add_lwpolyline([(0, 0), (50, 50), (50, 0), (0, 50)], close=True)  # crosses itself
    space.add_polymesh((2, 2))
    space.add_circle((0, 0), 99)
    twice = [LARGE[0], *LARGE, (0.001, 7.999)]
    space.add_lwpolyline(twice, close=True, dxfattribs={"layer": LAYERS["BOUNDARY"][1]})
    text = io.StringIO()
    document.write(text)
    corners = plot_of_dxf(text.getvalue().encode())
    assert sorted(corners) == sorted([(0, 0), (12, 0), (12, 8), (0, 8)])


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (b"no DXF", "not a DXF drawing"),
        (plot_drawing(("0", LARGE, True), unit=0), r"\$INSUNITS"),
        (plot_drawing(("0", LARGE, False)), "closed polyline"),
    ],
)
def test_a_drawing_without_a_plot_is_refused(content, named):
    with pytest.raises(DiagramError, match=named):
        plot_of_dxf(content)
