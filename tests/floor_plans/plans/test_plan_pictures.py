"""Pictures of floor plans: what is on the page, and that it is where the plan says."""

import math
import re
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Circle

from discrete_diffusion.runtime import install_command
from floor_plans import generate_plans
from floor_plans.diagrams.pictures.bubbles import room_style
from floor_plans.plans.floor_plan import FRONT_DOOR, Door, FloorPlan
from floor_plans.plans.walls import clear_areas
from plan_examples import FLAT, floor_plan

shapely = pytest.importorskip("shapely", reason="shapely draws plans")

from floor_plans.drawings.plan_pictures import plot_plan, plot_plans  # noqa: E402
from floor_plans.plans.doors import find_doors  # noqa: E402
from floor_plans.solver.shapes import PlanShapes, hatching, wall_chain  # noqa: E402

HOME = find_doors(FLAT)
PLOT = replace(HOME, boundary=((0.0, 0.0), (9.0, 0.0), (9.0, 9.0), (0.0, 9.0)))
DRAWN = [find_doors(FloorPlan.of(diagram, "pixels")) for diagram in generate_plans(5, seed=1)]
INCHES = 1 / 0.0254
"""In a metre."""


def words(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.axes[0].texts]


def shape(figure: Figure, name: str) -> shapely.Geometry:
    """What is drawn under that name, in inches."""
    (patch,) = [p for p in figure.axes[0].patches if p.get_gid() == name]
    whole = shapely.Polygon()
    for ring in patch.get_path().to_polygons(closed_only=True):
        whole = whole.symmetric_difference(shapely.Polygon(ring))
    return whole


def names(figure: Figure) -> set[str]:
    artists = [*figure.axes[0].patches, *figure.axes[0].collections]
    return {artist.get_gid() for artist in artists} - {None}


def text_boxes(figure: Figure) -> list[tuple[str, shapely.Polygon]]:
    """Of every text, the rectangle that its ink fills, in inches."""
    canvas = FigureCanvasAgg(figure)
    to_page = figure.axes[0].transData.inverted()
    found = []
    for text in figure.axes[0].texts:
        corners = text.get_window_extent(canvas.get_renderer()).get_points()
        found.append((text.get_text(), shapely.box(*to_page.transform(corners).ravel())))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".png", ".svg", ".PNG"])
def test_files_are_written_by_suffix(tmp_path, suffix):
    one, many = tmp_path / f"one{suffix}", tmp_path / f"many{suffix}"
    plot_plan(HOME, one)
    plot_plans([HOME, PLOT], str(many))
    start = b"\x89PNG" if suffix.lower() == ".png" else b"<?xml"
    assert one.read_bytes().startswith(start)
    assert many.read_bytes().startswith(start)


@pytest.mark.slow
def test_the_same_plans_are_the_same_svg(tmp_path):
    first, second = tmp_path / "first.svg", tmp_path / "second.svg"
    for path in (first, second):
        plot_plans([PLOT, *DRAWN[:2]], path)
    assert first.read_bytes() == second.read_bytes()
    ids = re.findall(r'id="(plan-[^"]*)"', first.read_text())
    assert {"plan-0-wall", "plan-1-room-0", "plan-2-room-0"} <= {*ids}
    assert len(ids) == len({*ids})


@pytest.mark.parametrize("draw", [plot_plan, lambda plan, path: plot_plans([plan], path)])
def test_other_suffixes_are_refused_before_any_work(tmp_path, draw):
    with pytest.raises(ValueError, match=r"plan\.pdf'.*\.png or \.svg"):
        draw(HOME, tmp_path / "plan.pdf")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("plans", "options", "message"),
    [
        ([], {}, "no plans"),
        ([HOME], {"columns": 0}, "columns=0 .*positive"),
        ([HOME], {"scale": -5}, "scale=-5 .*positive"),
        ([HOME], {"cell": 0.0}, r"cell=0\.0 .*positive"),
        ([HOME], {"dpi": 0}, "dpi=0 .*positive"),
        ([HOME], {"titles": ["a", "b"]}, "2 titles for 1 plans"),
    ],
)
def test_wrong_arguments_say_what_is_wrong(plans, options, message):
    with pytest.raises(ValueError, match=message):
        plot_plans(plans, **options)


def test_every_room_has_its_name_and_area_on_its_floor():
    shown, areas = words(plot_plan(HOME)), clear_areas(HOME)
    for room, code in enumerate(HOME.diagram.rooms):
        style, area = room_style(code), f"{areas[room]:.1f} m²"
        assert any(word in " ".join(shown) for word in (style.name, style.label))
        assert area in shown
    assert f"Rooms {sum(areas):.1f} m², to mid-wall {sum(HOME.areas):.1f} m²" in shown


@pytest.mark.slow
@pytest.mark.parametrize("options", [{"cell": 4.6}, {"cell": 2.5}, {"scale": 60}])
def test_no_text_leaves_its_room_or_lies_on_another(options):
    plans = [HOME, *DRAWN]
    figure = plot_plans(plans, with_diagrams=False, **options)
    boxes = text_boxes(figure)
    for index, plan in enumerate(plans):
        walls = shape(figure, f"plan-{index}-wall")
        for room in range(plan.diagram.num_rooms):
            floor = shape(figure, f"plan-{index}-room-{room}")
            within = [box for _, box in boxes if floor.covers(box.centroid)]
            assert 1 <= len(within) <= 3
            for box in within:
                assert box.difference(floor).area < 0.02 * box.area
                assert box.intersection(walls).area < 0.02 * box.area
    for k, (_, box) in enumerate(boxes):
        for _, other in boxes[:k]:
            assert box.intersection(other).area < 0.1 * min(box.area, other.area)


def test_rooms_too_small_for_a_name_are_numbered_and_explained():
    rooms = [
        ("LivingRoom", (0.0, 0.0, 6.0, 4.0)),
        ("Storage", (6.0, 0.0, 6.7, 0.7)),
        ("Wall-in", (6.0, 0.7, 6.7, 1.4)),
        ("Balcony", (0.0, 4.0, 6.0, 4.5)),
    ]
    shown = words(plot_plan(floor_plan(rooms), scale=200))
    assert {"1", "2", "3"} <= {*shown}
    (line,) = [word for word in shown if word.startswith("Rooms")]
    assert line.split("   ")[1:] == ["1 Storage 0.2 m²", "2 Wall-in 0.2 m²", "3 Balcony 1.9 m²"]
    large = words(plot_plan(floor_plan(rooms), scale=20))
    assert "1" not in large
    assert "Balcony 1.9 m²" in large


@pytest.mark.slow
def test_bubbles_stand_beside_their_plan_unless_nobody_wants_them():
    def circles(figure: Figure) -> int:
        return sum(isinstance(patch, Circle) for patch in figure.axes[0].patches)

    beside, alone = plot_plans([HOME, PLOT]), plot_plans([HOME, PLOT], with_diagrams=False)
    assert circles(beside) == 2 * HOME.diagram.num_rooms
    assert circles(alone) == 0
    (wide, high), (width, height) = beside.get_size_inches(), alone.get_size_inches()
    assert wide == pytest.approx(width)  # two columns of cards both
    assert high > 1.8 * height


@pytest.mark.slow
def test_a_card_may_be_empty_and_a_long_title_fits_its_card():
    title = "of 1 plan: " + "0 rules broken, " * 8
    figure = plot_plans(
        [HOME, None, PLOT, DRAWN[0]], columns=2, with_diagrams=False, titles=[title] * 4, cell=3.4
    )
    boxes = [box for text, box in text_boxes(figure) if text == title]
    assert len(boxes) == 3
    assert all(box.bounds[2] - box.bounds[0] < 3.4 for box in boxes)
    assert {name.split("-")[1] for name in names(figure)} == {"0", "2", "3"}


@pytest.mark.slow
def test_all_plans_of_a_sheet_have_the_scale_that_it_says():
    figure = plot_plans(DRAWN, with_diagrams=False)
    (scale,) = [int(word[4:]) for word in words(figure) if word.startswith("1 : ")]
    for index, plan in enumerate(DRAWN):
        for room, floor in enumerate(plan.rooms):
            drawn = shape(figure, f"plan-{index}-room-{room}")
            assert drawn.area == pytest.approx(floor.area * (INCHES / scale) ** 2, rel=1e-6)
    (metres,) = [int(word[:-2]) for word in words(figure) if re.fullmatch(r"\d+ m", word)]
    bars = [p for p in figure.axes[0].patches if type(p).__name__ == "Rectangle"]
    assert sum(bar.get_width() for bar in bars) == pytest.approx(metres * INCHES / scale)
    assert "1 : 50" in words(plot_plan(DRAWN[0], scale=50))


def test_walls_are_thick_outside_and_thin_inside():
    plan = floor_plan([("LivingRoom", (0.0, 0.0, 6.0, 4.0)), ("SecondRoom", (6.0, 0.0, 9.0, 4.0))])
    walls = PlanShapes(plan).solid
    outer = 9.3 * 4.3 - 8.7 * 3.7
    assert walls.area == pytest.approx(outer + 0.1 * 3.7)
    assert walls.bounds == pytest.approx((-0.15, -0.15, 9.15, 4.15))
    assert walls.covers(shapely.Point(6.04, 2.0))
    assert not walls.covers(shapely.Point(6.06, 2.0))


def test_a_slit_between_floors_is_a_wall():
    def shapes(gap: float) -> PlanShapes:
        right = ("SecondRoom", (6.0 + gap, 0.0, 9.0, 4.0))
        return PlanShapes(floor_plan([("LivingRoom", (0.0, 0.0, 6.0, 4.0)), right]))

    assert shapes(0.4).walls.covers(shapely.box(5.95, 0.0, 6.45, 4.0))
    assert not shapes(0.5).walls.covers(shapely.Point(6.25, 2.0))


def test_doors_open_the_wall_and_swing_through_free_floor():
    shapes = PlanShapes(HOME)
    for door in HOME.doors:
        opening = shapely.LineString([door.start, door.end])
        assert shapes.solid.intersection(opening).length == pytest.approx(opening.length)
        assert shapes.walls.intersection(opening).length == pytest.approx(0)
    assert len(shapes.swings) == len(HOME.doors) - 1  # one leads to the balcony
    for k, swing in enumerate(shapes.swings):
        assert shapes.walls.intersection(swing.sector).area < 0.05 * swing.sector.area
        for other in shapes.swings[:k]:
            assert swing.sector.intersection(other.sector).area == 0
    assert len(shapes.panes) == 2


def test_doors_swing_into_the_room_that_is_more_private():
    shapes = PlanShapes(HOME)
    swinging = [door for door in HOME.doors if 6 not in door.rooms]
    into = {
        door.rooms: next(
            room for room in door.rooms if HOME.rooms[room].covers(swing.sector.centroid)
        )
        for door, swing in zip(swinging, shapes.swings, strict=True)
    }
    assert into == {
        (0, FRONT_DOOR): 0,
        (0, 1): 1,
        (0, 5): 5,
        (0, 7): 0,  # other doors are in the way in the small entrance
        (2, 3): 3,
        (2, 7): 2,
        (4, 7): 4,
    }


def test_the_door_of_a_closet_swings_out_of_it():
    rooms = [("LivingRoom", (0.0, 0.0, 6.0, 4.0)), ("Storage", (6.0, 0.0, 8.0, 2.0))]
    *_, swing = PlanShapes(find_doors(floor_plan(rooms))).swings
    assert shapely.box(*rooms[0][1]).covers(swing.sector.centroid)


def test_the_front_door_is_marked_outside_and_pointed_at():
    figure = plot_plan(HOME)
    floors = [shape(figure, f"plan-0-room-{room}") for room in range(HOME.diagram.num_rooms)]
    arrow = shape(figure, "plan-0-front-door")
    assert arrow.area > 0
    assert all(floor.disjoint(arrow) for floor in floors)
    (door,) = [door for door in HOME.doors if door.is_front]
    ((tip, *base),) = PlanShapes(HOME).arrows
    middle = shapely.LineString([door.start, door.end]).centroid
    assert middle.distance(shapely.Point(tip)) < min(
        middle.distance(shapely.Point(c)) for c in base
    )
    assert "Front door" in words(figure)
    closed = plot_plan(replace(HOME, doors=HOME.doors[1:]))
    assert "plan-0-front-door" not in names(closed)
    assert "Front door" not in words(closed)


def test_balconies_have_railings_where_they_are_open():
    shapes = PlanShapes(HOME)
    x0, y0, x1, y1 = HOME.rooms[6].bounds
    for point in ((x1, (y0 + y1) / 2), ((x0 + x1) / 2, y0), ((x0 + x1) / 2, y1)):
        assert shapes.railings.covers(shapely.Point(point))
        assert not shapes.walls.covers(shapely.Point(point))
    assert shapes.walls.covers(shapely.Point(x0, y0 + 0.2))
    assert shapes.railings.intersection(shapes.walls).area == pytest.approx(0)


@pytest.mark.slow
def test_dead_area_is_hatched_and_the_boundary_drawn_where_there_is_one():
    def hatched(plan: FloorPlan) -> float:
        lines = hatching(PlanShapes(plan).dead, 0.1)
        return lines.length * 0.1

    dead = PlanShapes(PLOT).dead
    assert dead.area == pytest.approx(PLOT.dead_area, rel=0.15)  # less half the walls
    assert hatched(PLOT) == pytest.approx(dead.area, rel=0.02)
    assert all(dead.buffer(1e-6).covers(line) for line in shapely.get_parts(hatching(dead, 0.1)))
    assert hatched(HOME) == 0  # what lies beside an L-shaped house is not dead
    assert names(plot_plan(PLOT)) - names(plot_plan(HOME)) == {"plan-0-boundary", "plan-0-dead"}
    assert "Dead area" in words(plot_plan(PLOT))
    assert "Dead area" not in words(plot_plan(HOME))


@pytest.mark.slow
def test_dimensions_are_those_of_the_walls_middles():
    assert {"10.40", "9.00"} <= {*words(plot_plan(HOME))}
    assert {"10.40", "9.00"} <= {*words(plot_plans([HOME]))}
    assert wall_chain(HOME, 0, far=True) == [0.0, 4.0, 6.2, 9.0, 10.4]
    assert wall_chain(HOME, 0, far=False) == [0.0, 3.5, 6.6, 9.0, 10.4]
    assert wall_chain(HOME, 1, far=False) == [0.0, 4.2, 6.0, 9.0]
    chain = ["4.00", "2.20", "2.80", "1.40"]  # the front door takes the other side
    shown = words(plot_plan(HOME))
    assert [shown.count(metres) for metres in chain] == [1, 1, 1, 1]
    assert "2.20" not in words(plot_plans([HOME]))


def test_plans_without_doors_or_with_covered_rooms_are_drawn():
    rooms = [("LivingRoom", (0.0, 0.0, 4.0, 4.0)), ("Kitchen", (0.0, 0.0, 4.0, 4.0))]
    assert "Living room" in words(plot_plan(floor_plan([rooms[0]])))
    shown = words(plot_plans([floor_plan(rooms)]))
    assert any("Kitchen 0.0 m²" in word for word in shown) or "Kitchen" in shown


def test_doors_without_width_are_left_out_and_slanted_ones_drawn():
    ends = [((3.0, 0.0), (3.0, 0.0)), ((3.5, 1.0), (3.9, 1.3))]
    doors = tuple(Door((room, FRONT_DOOR), *end) for room, end in zip((0, 2), ends, strict=True))
    shapes = PlanShapes(replace(HOME, doors=doors))
    assert len(shapes.arrows) == len(shapes.swings) == 1
    assert shapes.swings[0].sector.area == pytest.approx(math.pi * 0.5**2 / 4, rel=0.01)
    plot_plan(replace(HOME, doors=(Door((0, 6), (3.0, 0.0), (3.0, 0.0)),)))


def test_without_shapely_the_extra_is_named():
    program = "import sys; sys.modules['shapely'] = None\nimport floor_plans.drawings.plan_pictures"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert run.stderr.splitlines()[-1].endswith(install_command("plans"))


@pytest.mark.parametrize(
    ("north", "x", "y"), [(0, 0, -1), (30, 0.5, -0.866), (90, 1, 0), (200, -0.342, 0.94)]
)
def test_an_arrow_points_north(north, x, y):
    """Clockwise from up, on a page whose y is downwards."""
    turned = replace(HOME, diagram=replace(HOME.diagram, metadata={"north": north}))
    figure = plot_plan(turned)
    (arrow,) = [p for p in figure.axes[0].patches if p.get_gid() == "plan-0-north"]
    corners = arrow.get_path().vertices
    tip = corners[0] - (corners[1] + corners[3]) / 2
    assert tip / np.linalg.norm(tip) == pytest.approx((x, y), abs=1e-3)
    assert "plan-0-north" not in names(plot_plan(HOME))
