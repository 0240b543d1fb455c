"""Sheets of plans: scale, paper, areas, and names of rooms in every language."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from discrete_diffusion.layout import ROOM_TYPES
from floor_plans.diagrams.pictures.bubbles import ROOM_STYLES
from floor_plans.drawings.drawn_parts import LANGUAGES, DrawingStyle, names_of_rooms, type_of_name
from floor_plans.drawings.realised_files import write_plan
from floor_plans.plans.doors import find_doors
from floor_plans.plans.walls import clear_areas
from plan_examples import FLAT, floor_plan

shapely = pytest.importorskip("shapely", reason="shapely draws plans")

from floor_plans.drawings.plan_pictures import paper_of, plot_sheet  # noqa: E402

HOME = find_doors(FLAT)
INCH = 25.4


def hall(width, height):
    return floor_plan([("LivingRoom", (0.0, 0.0, float(width), float(height)))])


@pytest.mark.parametrize(
    ("sides", "paper"),
    [
        ((5, 6), ("A4", 50, 210, 297)),
        ((10, 6), ("A4", 100, 297, 210)),
        ((6, 15), ("A4", 100, 210, 297)),
        ((20, 18), ("A3", 100, 420, 297)),
        ((40, 20), ("A4", 200, 297, 210)),
        ((70, 40), ("A3", 200, 420, 297)),
        ((900, 100), ("A3", 5000, 420, 297)),
    ],
)
def test_a_plan_has_the_first_paper_that_it_fits(sides, paper):
    found = paper_of(hall(*sides))
    assert (found.name, found.scale, found.width, found.height) == paper


@pytest.mark.parametrize("plan", [HOME, hall(30, 20), hall(5, 6)])
def test_a_sheet_is_to_the_scale_that_it_states(plan):
    figure, paper = plot_sheet(plan, DrawingStyle()), paper_of(plan)
    width, height = figure.get_size_inches() * INCH
    assert (width, height) == pytest.approx((paper.width, paper.height))
    texts = [text.get_text() for text in figure.axes[0].texts]
    assert f"Scale 1 : {paper.scale}   {paper.name}" in texts
    (patch,) = [p for p in figure.axes[0].patches if p.get_gid() == "plan-room-0"]
    corners = patch.get_path().vertices * INCH * paper.scale / 1000
    floor = shapely.Polygon(corners[: len(plan.rooms[0].exterior.coords)])
    assert floor.area == pytest.approx(plan.rooms[0].area, rel=1e-6)


@pytest.mark.parametrize("language", ["en", "de"])
def test_the_block_has_the_name_and_every_area(language):
    named = replace(HOME, diagram=replace(HOME.diagram, metadata={"name": "Flat " + "7b " * 12}))
    figure = plot_sheet(named, DrawingStyle(language=language))
    canvas = FigureCanvasAgg(figure)
    texts = {text.get_text(): text for text in figure.axes[0].texts}
    assert named.diagram.metadata["name"] in texts
    for name, area in zip(names_of_rooms(named, language), clear_areas(named), strict=True):
        assert {name.whole, f"{area:.1f} m²"} <= texts.keys()
    assert {"en": "Total", "de": "Summe"}[language] in texts
    assert f"{sum(clear_areas(named)):.1f} m²" in texts
    page = shapely.box(0, 0, *figure.get_size_inches() * figure.dpi).buffer(-5 / INCH * figure.dpi)
    drawn = []
    for text in figure.axes[0].texts:
        ink = shapely.box(*text.get_window_extent(canvas.get_renderer()).get_points().ravel())
        assert page.covers(ink)
        assert all(ink.intersection(other).area < 0.1 * ink.area for other in drawn)
        drawn.append(ink)


@pytest.mark.slow
def test_files_are_the_same_for_the_same_plan(tmp_path):
    for format in ("pdf", "svg"):
        first, second = tmp_path / f"1.{format}", tmp_path / f"2.{format}"
        for path in (first, second):
            write_plan(path, HOME, format, DrawingStyle(language="de"))
        assert first.read_bytes() == second.read_bytes()
    (box,) = re.findall(rb"/MediaBox \[([^\]]*)\]", (tmp_path / "1.pdf").read_bytes())
    paper = paper_of(HOME)
    sides = [float(side) / 72 * INCH for side in box.split()[2:]]
    assert sides == pytest.approx([paper.width, paper.height], abs=0.1)
    assert "Wohnzimmer" in (tmp_path / "1.svg").read_text()


def test_a_plan_that_fits_no_paper_is_refused():
    with pytest.raises(ValueError, match="30000 x 10 m"):
        paper_of(hall(30_000, 10))


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_type_has_a_name_that_means_it(language):
    for code, kind in enumerate(ROOM_TYPES):
        plan = replace(FLAT, diagram=replace(FLAT.diagram, rooms=(code,) * 8))
        label = names_of_rooms(plan, language)[0]
        assert len(label.short) <= len(label.whole)
        assert type_of_name(label.whole) == kind
        if language == "en":  # as in every other picture
            assert label == (ROOM_STYLES[code].name, ROOM_STYLES[code].label)


def test_a_room_that_was_added_is_a_hall():
    plan = replace(FLAT, diagram=replace(FLAT.diagram, metadata={"added": [7]}))
    assert [names_of_rooms(plan, language)[7].whole for language in LANGUAGES] == ["Hall", "Flur"]
    assert type_of_name("Flur", "Entrance") == "Entrance"
    assert type_of_name("Bad", "Entrance") == "Bathroom"
    assert type_of_name("Flurgarderobe", "Entrance") == "Flurgarderobe"
