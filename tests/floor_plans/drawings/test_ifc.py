"""The IFC file as ifcopenshell reads it: what is there, what it measures, and where it stands."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from drawn_plans import by_hand, embedded

from floor_plans.drawings import drawn_plan
from floor_plans.drawings.drawn_parts import DrawingStyle
from floor_plans.drawings.drawn_plan import flip_y
from floor_plans.drawings.realised_files import write_plan
from floor_plans.solver.shapes import HEIGHT, SILL, find_windows

ifcopenshell = pytest.importorskip("ifcopenshell", reason="IFC takes the extra ifc")
shapely = pytest.importorskip("shapely", reason="dimensioned plans take the extra plans")
validate = pytest.importorskip("ifcopenshell.validate", reason="IFC takes the extra ifc")
elements = pytest.importorskip("ifcopenshell.util.element", reason="IFC takes the extra ifc")
placement = pytest.importorskip("ifcopenshell.util.placement", reason="IFC takes the extra ifc")

from floor_plans.solver.shapes import PlanShapes  # noqa: E402

PLANS = [by_hand(), *embedded(3)]
SLANTED = replace(
    by_hand(),
    floors=(*(None,) * 5, shapely.Polygon([(0, 0), (6.1, 0), (6.1, 5), (1, 5), (0, 4)])),
    doors=(),
    boundary=None,
)


def written(tmp_path, plan, **style):
    write_plan(tmp_path / "plan.ifc", plan, "ifc", DrawingStyle(**style))
    return ifcopenshell.open(tmp_path / "plan.ifc")


def footprint(element):
    """The polygons that its solids stand on, on the storey."""
    matrix = placement.get_local_placement(element.ObjectPlacement)
    found = []
    for solid in element.Representation.Representations[0].Items:
        rings = [solid.SweptArea.OuterCurve, *(getattr(solid.SweptArea, "InnerCurves", None) or ())]
        corners = [
            [(matrix @ [*point.Coordinates, 0, 1])[:2] for point in ring.Points] for ring in rings
        ]
        found.append(shapely.Polygon(corners[0], corners[1:]))
    return shapely.union_all(found)


@pytest.mark.parametrize("plan", [*PLANS, SLANTED])
def test_ifcopenshell_finds_nothing_wrong_and_everything_there(tmp_path, plan):
    model = written(tmp_path, plan)
    log = validate.json_logger()
    validate.validate(model, log)
    assert log.statements == []
    shapes = PlanShapes(plan)
    assert [len(model.by_type(f"Ifc{kind}")) for kind in ("Project", "Site", "Building")] == [1] * 3
    assert len(model.by_type("IfcSpace")) == plan.diagram.num_rooms
    assert len(model.by_type("IfcDoor")) == len(plan.doors)
    assert len(model.by_type("IfcWindow")) == len(find_windows(plan))
    filled = [fills.RelatedBuildingElement for fills in model.by_type("IfcRelFillsElement")]
    assert len(filled) == len(plan.doors) + len(shapes.windows)
    (storey,) = model.by_type("IfcBuildingStorey")
    assert {elements.get_container(wall) for wall in model.by_type("IfcWall")} == {storey}
    ids = [root.GlobalId for root in model.by_type("IfcRoot")]
    assert len(ids) == len({*ids})


@pytest.mark.parametrize("plan", [*PLANS, SLANTED])
def test_spaces_have_the_areas_of_the_plan_and_stand_between_the_walls(tmp_path, plan):
    model, shapes = written(tmp_path, plan, storey=2.7), PlanShapes(plan)
    walls = [footprint(wall) for wall in model.by_type("IfcWall")]
    together = shapely.union_all(walls)
    assert together.symmetric_difference(flip_y(shapes.solid)).area < 1e-5
    assert sum(wall.area for wall in walls) == pytest.approx(together.area, abs=1e-6)
    for space, floor in zip(model.by_type("IfcSpace"), plan.rooms, strict=True):
        stands = footprint(space)
        assert stands.intersection(together).area < 1e-6
        own = elements.get_psets(space)["Qto_SpaceBaseQuantities"]
        assert own["GrossFloorArea"] == pytest.approx(floor.area, abs=1e-6)
        assert own["GrossPerimeter"] == pytest.approx(floor.length, abs=1e-6)
        assert own["NetFloorArea"] == pytest.approx(stands.area, abs=1e-6)
        assert own["NetPerimeter"] == pytest.approx(stands.length, abs=1e-6)
        assert own["Height"] == 2.7
        assert own["NetVolume"] == pytest.approx(2.7 * stands.area, abs=1e-6)
        solids = space.Representation.Representations[0].Items
        assert {solid.Depth for solid in solids} == {2.7}
        free = flip_y(floor).difference(together.union(flip_y(shapes.railings)))
        assert stands.symmetric_difference(free).area < 1e-6


@pytest.mark.parametrize("plan", PLANS)
def test_doors_and_windows_stand_in_openings_of_their_walls(tmp_path, plan):
    model, shapes = written(tmp_path, plan), PlanShapes(plan)
    swings = {each.door: each for each in shapes.swings}
    doors = [each.door for each in shapes.swings] + shapes.sliding
    for made, door in zip(model.by_type("IfcDoor"), doors, strict=True):
        line = flip_y(shapely.LineString([door.start, door.end]))
        assert (
            footprint(made).symmetric_difference(line.buffer(0.025, cap_style="flat")).area < 1e-6
        )
        assert made.OverallWidth == pytest.approx(line.length)
        matrix = placement.get_local_placement(made.ObjectPlacement)
        if door in swings:  # y is where it opens to, and it is hinged on the side of its name
            hinge, opened = (np.array([x, -y]) for x, y in swings[door].leaf)
            assert matrix[:2, 1] == pytest.approx((opened - hinge) / np.linalg.norm(opened - hinge))
            left = np.allclose(matrix[:2, 3], hinge)
            assert made.OperationType == f"SINGLE_SWING_{'LEFT' if left else 'RIGHT'}"
        else:
            assert made.OperationType.startswith("SLIDING")
    for made, window in zip(model.by_type("IfcWindow"), shapes.windows, strict=True):
        matrix = placement.get_local_placement(made.ObjectPlacement)
        assert matrix[2, 3] == pytest.approx(SILL)
        assert (made.OverallWidth, made.OverallHeight) == pytest.approx((window.width, HEIGHT))
    for fills in model.by_type("IfcRelFillsElement"):
        opening = fills.RelatingOpeningElement
        wall = opening.VoidsElements[0].RelatingBuildingElement
        cut, made = footprint(opening), footprint(fills.RelatedBuildingElement)
        assert cut.intersection(footprint(wall)).area > 0.9 * made.area
        through = footprint(wall).difference(cut)
        assert through.geom_type == "MultiPolygon" or through.area < footprint(wall).area - 0.02


@pytest.mark.parametrize("plan", PLANS)
def test_a_reader_of_ifc_alone_finds_what_encloses_each_space(tmp_path, plan):
    """Walls all around it and a slab below; doors and windows in one wall each."""
    model = written(tmp_path, plan, storey=2.7)
    openings = model.by_type("IfcOpeningElement")
    assert len(openings) == len(model.by_type("IfcRelFillsElement"))
    doors = dict.fromkeys(model.by_type("IfcDoor"), 0)
    for space in model.by_type("IfcSpace"):
        own = elements.get_psets(space)["Qto_SpaceBaseQuantities"]
        around = below = 0.0
        for each in space.BoundedBy:
            surface = each.ConnectionGeometry.SurfaceOnRelatingElement
            ring = [point.Coordinates for point in surface.OuterBoundary.Points]
            part = each.RelatedBuildingElement
            if part.is_a("IfcSlab"):
                holes = [
                    [point.Coordinates for point in hole] for hole, *_ in surface.InnerBoundaries
                ]
                below += (part.PredefinedType == "FLOOR") * shapely.Polygon(ring, holes).area
                continue
            length, height = shapely.Polygon(ring).bounds[2:]
            around += (part.is_a() in ("IfcWall", "IfcRailing")) * length
            assert height == {"IfcWall": 2.7, "IfcRailing": 1.0}.get(part.is_a(), height)
            if part.is_a("IfcDoor"):
                doors[part] += 1
                assert length == pytest.approx(part.OverallWidth, abs=1e-3)
        assert below == pytest.approx(own["NetFloorArea"])
        assert around == pytest.approx(own["NetPerimeter"], abs=0.05)
    drawn = [each.door for each in PlanShapes(plan).swings] + PlanShapes(plan).sliding
    assert [*doors.values()] == [1 if door.is_front else 2 for door in drawn]


def test_a_virtual_boundary_is_the_line_between_rooms_that_are_open_to_each_other(tmp_path):
    opened = replace(by_hand().doors[2], is_open=True)
    model = written(tmp_path, replace(by_hand(), doors=(opened,)))
    found = [
        each.ConnectionGeometry.SurfaceOnRelatingElement.OuterBoundary.Points
        for each in model.by_type("IfcRelSpaceBoundary")
        if each.PhysicalOrVirtualBoundary == "VIRTUAL"
    ]
    lengths = [max(point.Coordinates[0] for point in points) for points in found]
    assert lengths == pytest.approx([2.0, 2.0], abs=1e-3)


def test_slabs_materials_and_the_site_measure_what_is_drawn(tmp_path):
    plan = by_hand()
    model, shapes = written(tmp_path, plan, storey=2.7), PlanShapes(plan)
    below, above = model.by_type("IfcSlab")
    spaces = shapely.union_all([footprint(space) for space in model.by_type("IfcSpace")])
    assert footprint(below).buffer(1e-6).covers(spaces)
    house = flip_y(shapely.union_all([shapes.house, shapes.solid]))
    assert footprint(above).symmetric_difference(house).area < 1e-6
    tops = [placement.get_local_placement(slab.ObjectPlacement)[2, 3] for slab in (below, above)]
    assert tops == pytest.approx([-0.2, 2.7])
    walls = model.by_type("IfcWall")
    for element in (below, above, *walls):
        (layer,) = elements.get_material(element).MaterialLayers
        x0, y0, x1, y1 = footprint(element).bounds
        sides = [0.2] if element.is_a("IfcSlab") else [x1 - x0, y1 - y0]
        assert layer.LayerThickness == pytest.approx(min(sides))
    assert {elements.get_material(wall).MaterialLayers[0].Material.Name for wall in walls} == {
        *("Outer wall", "Inner wall")
    }
    (curve,) = model.by_type("IfcSite")[0].Representation.Representations[0].Items
    border = shapely.Polygon([point.Coordinates for point in curve.Points])
    assert border.area == pytest.approx(plan.outline.area)


def test_rooms_have_names_in_a_language(tmp_path):
    plan = by_hand()
    named = {name: {} for name in ("en", "de")}
    for language, found in named.items():
        for space in written(tmp_path, plan, language=language).by_type("IfcSpace"):
            found[plan.diagram.room_names[int(space.Name) - 1]] = space.LongName
            assert space.ObjectType == plan.diagram.room_names[int(space.Name) - 1]
    assert named["en"]["LivingRoom"] == "Living room"
    assert named["de"]["LivingRoom"] == "Wohnzimmer"
    assert named["de"]["Wall-in"] == "Schrankraum"


def test_the_same_plan_is_the_same_file(tmp_path):
    texts = []
    for plan in (by_hand(), by_hand(), replace(by_hand(), doors=())):
        written(tmp_path, plan)
        texts.append((tmp_path / "plan.ifc").read_text())
    assert texts[0] == texts[1] != texts[2]
    models = [ifcopenshell.file.from_string(text) for text in texts[::2]]
    ids = [{root.GlobalId for root in model.by_type("IfcRoot")} for model in models]
    assert not ids[0] & ids[1]


def test_without_ifcopenshell_the_extra_is_named_before_any_work(tmp_path, monkeypatch):
    there = {"shapely", "ezdxf"}
    monkeypatch.setattr(drawn_plan, "find_spec", lambda name: name if name in there else None)
    with pytest.raises(ValueError, match=r"ifcopenshell.*pip install .*\[ifc\]"):
        write_plan(tmp_path / "plan.ifc", by_hand(), "ifc")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("north", "direction"), [(30, (0.5, 0.8660254)), (0, (0, 1)), (-90, (-1, 0)), (None, None)]
)
def test_true_north_is_that_of_the_plan(tmp_path, north, direction):
    plan = by_hand()
    metadata = {} if north is None else {"north": north}
    model = written(tmp_path, replace(plan, diagram=replace(plan.diagram, metadata=metadata)))
    (context,) = model.by_type("IfcGeometricRepresentationContext", include_subtypes=False)
    found = context.TrueNorth and context.TrueNorth.DirectionRatios
    assert found == (direction and pytest.approx(direction, abs=1e-7))
