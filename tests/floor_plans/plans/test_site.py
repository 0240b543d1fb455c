"""Sites: what setbacks leave, the plot that is found in it, and the site in drawings."""

from __future__ import annotations

import math
import random

import pytest

pytest.importorskip("shapely", reason="sites take the extra plans")

import ezdxf
import shapely

from floor_plans import BubbleDiagram, read_diagrams
from floor_plans.drawings.realised_files import write_plan
from floor_plans.plans.floor_plan import FloorPlan
from floor_plans.plans.outline import Outline
from floor_plans.plans.site import Site, side_towards, sides_from_street, straightened
from floor_plans.plans.walls import OUTER_WALL
from floor_plans.solver.requests import PlanRequest

LAND = ((0.0, 0.0), (20.0, 0.0), (20.0, 30.0), (0.0, 30.0))
ELL = ((0.0, 0.0), (20.0, 0.0), (20.0, 12.0), (12.0, 12.0), (12.0, 30.0), (0.0, 30.0))
TRIANGLE = ((0.0, 0.0), (40.0, 0.0), (0.0, 30.0))
COURT = ((0, 0), (30, 0), (30, 20), (20, 20), (20, 8), (10, 8), (10, 20), (0, 20))


def site(polygon, setbacks, street=1j, **more) -> Site:
    side = side_towards(polygon, street)
    if isinstance(setbacks, dict):
        setbacks = [setbacks.get(name, 0.0) for name in sides_from_street(polygon, side)]
    elif not isinstance(setbacks, list):
        setbacks = [setbacks] * len(polygon)
    return Site(tuple(polygon), tuple(setbacks), side, **more)


@pytest.mark.parametrize(
    ("polygon", "setbacks", "area"),
    [
        (LAND, 0, 600),
        (LAND, 3, 14 * 24),
        (LAND, {"front": 5, "back": 8, "left": 3, "right": 2}, 15 * 17),
        (ELL, 3, 6 * 24 + 8 * 6),
        (ELL, [0, 0, 2, 4, 0, 0], 12 * 30 + 8 * 12 - 12 * 2 - 20 * 4 + 2 * 4 - 2 * 4 + 2 * 8),
        (TRIANGLE, 3, 600 * (1 - 3 / 10) ** 2),  # the radius of its inscribed circle is 10
        (COURT, 2, 26 * 4 + 2 * 6 * 12),
    ],
)
def test_setbacks_leave_the_area_that_is_counted_by_hand(polygon, setbacks, area):
    if isinstance(setbacks, list):  # strips of 2 and 4 m at the corner that points inwards
        inner = shapely.box(12, 10, 20, 12), shapely.box(8, 10, 12, 30)
        area = shapely.Polygon(polygon).difference(shapely.union_all(inner)).area
    assert site(polygon, setbacks).buildable.area == pytest.approx(area, abs=1e-4)


def test_equal_setbacks_leave_what_is_further_from_the_border():
    """Between the floor further away than the setback, and the one of lines parallel to it."""
    source = random.Random(1)
    num = 0
    for _ in range(60):
        angles = sorted(source.uniform(0, 2 * math.pi) for _ in range(source.randint(3, 9)))
        radii = [source.uniform(8, 30) for _ in angles]
        polygon = [(r * math.cos(a), r * math.sin(a)) for r, a in zip(radii, angles, strict=True)]
        whole = shapely.Polygon(polygon)
        if not whole.is_valid:
            continue
        least = whole.buffer(-2, join_style="mitre").area
        most = whole.buffer(-2, quad_segs=64).area
        assert least - 0.01 <= site(polygon, 2).buildable.area <= most + 0.01
        num += 1
    assert num > 30


def test_unequal_setbacks_of_a_convex_site_are_half_planes():
    polygon = ((0, 0), (30, 0), (38, 12), (20, 26), (-6, 14))
    setbacks = [1.0, 2.0, 5.0, 3.0, 4.0]
    corners, left = [complex(*each) for each in polygon], shapely.Polygon(polygon)
    for k, depth in enumerate(setbacks):
        a, b = corners[k], corners[(k + 1) % 5]
        along = (b - a) / abs(b - a)
        strip = [a - 99 * along, b + 99 * along]
        strip += [each + 1j * along * depth for each in reversed(strip)]
        left = left.difference(shapely.Polygon([(z.real, z.imag) for z in strip]))
    assert site(polygon, setbacks).buildable.area == pytest.approx(left.area, abs=1e-4)


@pytest.mark.parametrize("street", [1j, -1j, 1, -1])
def test_the_plot_is_within_the_setbacks_at_the_street(street):
    land = site(LAND, {"front": 5, "back": 8, "left": 3, "right": 2}, street)
    plot = land.plot(78)
    outline = shapely.Polygon(plot.outline)
    walls = outline.buffer(OUTER_WALL / 2, join_style="mitre")
    assert land.buildable.covers(walls)
    assert outline.area == pytest.approx(80, rel=0.02)
    # the front door is in the middle of the side at the street, one setback away from it
    ends = (*LAND, LAND[0])[land.street : land.street + 2]
    away = shapely.LineString(ends).distance(shapely.Point(plot.front_door))
    assert away == pytest.approx(5 + OUTER_WALL / 2, abs=0.01)
    assert outline.exterior.distance(shapely.Point(plot.front_door)) < 1e-3
    # a request of rooms that fill it is accepted
    PlanRequest(total_area=78, outline=Outline(boundary=plot.outline), front_door=plot.front_door)


@pytest.mark.parametrize(
    ("polygon", "setbacks", "area"),
    [
        (((23, 31.6), (15.5, 31.1), (8.6, 23.7), (15.5, 8.9), (25.2, 9.2)), 0, 60),
        (((0, 0), (20, 0), (14, 18), (6, 18)), 2, 60),
        (((0, 0), (20, 0), (14, 18), (6, 18)), 2, None),
    ],
)
def test_the_corners_of_the_house_are_within_slanted_setbacks(polygon, setbacks, area):
    polygon, _ = straightened(polygon, side_towards(polygon, 1j))
    land = site(polygon, setbacks)
    outline = shapely.Polygon(land.plot(area).outline)
    assert land.buildable.covers(outline.buffer(OUTER_WALL / 2, join_style="mitre"))


def test_a_shapely_that_does_not_import_affinity_by_itself_is_enough(monkeypatch):
    monkeypatch.delattr(shapely, "affinity")
    assert site(LAND, 3, -1j).plot(77).outline


def test_an_l_is_found_where_no_rectangle_fits():
    small, large = (site(ELL, 3).plot(area) for area in (60, 150))
    assert (len(small.outline), len(large.outline)) == (4, 6)
    assert site(ELL, 3).buildable.covers(shapely.Polygon(large.outline).buffer(0.14))
    # and without an area the largest
    assert shapely.Polygon(site(ELL, 3).plot().outline).area > 0.9 * 192


@pytest.mark.parametrize(
    ("land", "area", "words"),
    [
        (site(LAND, 3), 400, ("410.3 m2", "400 m2", "600.0 m2", "336.0 m2", "setbacks")),
        (site(LAND, 3, coverage=0.2), 120, ("coverage 0.2", "120.0 m2", "123.1 m2")),
        (
            site(((0, 0), (80, 0), (80, 60), (0, 60)), 3),
            None,
            ("4800 m2", "200 m2", "area:", "total_area=", "areas:"),
        ),
    ],
)
def test_a_site_without_a_plot_says_why(land, area, words):
    with pytest.raises(ValueError) as caught:
        land.plot(area)
    for word in words:
        assert word in str(caught.value)


def test_the_building_covers_no_more_than_its_share():
    plot = site(LAND, 0, coverage=0.2).plot()
    covered = shapely.Polygon(plot.outline).buffer(OUTER_WALL / 2, join_style="mitre").area
    assert 114 < covered <= 120


def test_a_slanted_street_is_turned_to_the_bottom():
    turn = complex(math.cos(0.4), math.sin(0.4))
    slanted = [(z.real, z.imag) for z in (complex(*each) * turn for each in LAND)]
    straight, degrees = straightened(slanted, side_towards(slanted, 1j))
    assert degrees == pytest.approx(-math.degrees(0.4))
    low = sorted(y for _, y in straight)[2:]
    assert low[0] == pytest.approx(low[1])
    assert straightened(LAND, 1) == (LAND, 0.0)


def plan_on_site(metadata) -> FloorPlan:
    boxes = ((5.0, 10.0, 9.0, 14.0), (9.0, 10.0, 13.0, 14.0))
    diagram = BubbleDiagram((0, 2), [(0, 1, 2)], boxes, metadata)
    return FloorPlan(diagram, boundary=((5.0, 10.0), (13.0, 10.0), (13.0, 14.0), (5.0, 14.0)))


def test_drawings_show_the_site(tmp_path):
    plan = plan_on_site({"site": site(LAND, {"front": 5, "left": 3}).to_json(), "north": 30})
    write_plan(tmp_path / "plan.dxf", plan, "dxf")
    space = ezdxf.readfile(tmp_path / "plan.dxf").modelspace()
    drawn = {
        each.dxf.layer: sorted((round(x, 2), round(y, 2)) for x, y, *_ in each.get_points())
        for each in space.query("LWPOLYLINE[layer=='SITE' | layer=='SETBACKS']")
    }
    assert drawn["SITE"] == [(0, -30), (0, 0), (20, -30), (20, 0)]
    assert drawn["SETBACKS"] == [(3, -25), (3, 0), (20, -25), (20, 0)]
    assert FloorPlan.of(read_diagrams(tmp_path / "plan.dxf")[0]) == plan


def test_the_border_of_the_ifc_site_is_that_of_the_site(tmp_path):
    ifcopenshell = pytest.importorskip("ifcopenshell")
    plan = plan_on_site({"site": site(LAND, 3).to_json()})
    write_plan(tmp_path / "plan.ifc", plan, "ifc")
    (land,) = ifcopenshell.open(tmp_path / "plan.ifc").by_type("IfcSite")
    (line,) = land.Representation.Representations[0].Items
    assert {point.Coordinates for point in line.Points} == {(0, 0), (20, 0), (20, -30), (0, -30)}


def test_a_word_of_somebody_in_the_metadata_is_no_site(tmp_path):
    for value in ("Berlin", {"polygon": "large"}, None, 7):
        write_plan(tmp_path / "plan.dxf", plan_on_site({"site": value}), "dxf")
    layers = ezdxf.readfile(tmp_path / "plan.dxf").layers
    assert "SITE" not in layers
