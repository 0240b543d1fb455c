"""Pictures: files, sizes, what is on the page, and what is left alone."""

import subprocess
import sys
from itertools import combinations

import numpy as np
import pytest
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Circle, FancyBboxPatch

from discrete_diffusion.viz import TEXT
from floor_plans.diagrams.diagram import BubbleDiagram
from floor_plans.diagrams.pictures.bubbles import ROOM_STYLES
from floor_plans.diagrams.pictures.diagram_pictures import plot_diagram, plot_grid
from floor_plans.diagrams.pictures.placement import label_spot, route_lines
from floor_plans.diagrams.vocabulary import ROOM_TYPES, VOCABULARIES
from plan_examples import place_diagram

PLAN = BubbleDiagram((0, 1, 2, 3), ((0, 1, 9), (0, 2, 2), (0, 3, 5), (1, 2, 0)))
CYCLE = BubbleDiagram((0, 1, 2), ((0, 1, 2), (1, 2, 2), (0, 2, 7)))


def words(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.axes[0].texts]


def linear(colour: str) -> np.ndarray:
    """Linear channels of an sRGB colour."""
    channels = np.array(to_rgb(colour))
    return np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)


def luminance(colour: str) -> float:
    """Relative luminance, WCAG 2."""
    return float(linear(colour) @ [0.2126, 0.7152, 0.0722])


def lab(colour: str) -> np.ndarray:
    """CIELAB coordinates (D65) of an sRGB colour."""
    to_xyz = [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    x, y, z = np.cbrt(np.array(to_xyz) @ linear(colour) / [0.9505, 1.0, 1.089])
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("suffix", [".png", ".svg", ".PNG"])
def test_files_are_written_by_suffix(tmp_path, suffix):
    single, grid = tmp_path / f"one{suffix}", tmp_path / f"many{suffix}"
    plot_diagram(PLAN, single)
    plot_grid([PLAN, CYCLE], str(grid))
    start = b"\x89PNG" if suffix.lower() == ".png" else b"<?xml"
    assert single.read_bytes().startswith(start)
    assert grid.read_bytes().startswith(start)


@pytest.mark.parametrize("name", ["plan.pdf", "plan", "plan.jpeg"])
def test_other_suffixes_are_refused_before_any_work(tmp_path, name):
    with pytest.raises(ValueError, match=rf"{name}'.*\.png or \.svg"):
        plot_diagram(PLAN, tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_the_page_shows_every_room_and_one_legend():
    figure = plot_grid([PLAN] * 5)
    shown = words(figure)
    for code in PLAN.rooms:
        assert shown.count(ROOM_STYLES[code].label) in (5, 6)  # 6: also a legend name
        assert ROOM_STYLES[code].name in shown
    assert sum(isinstance(patch, FancyBboxPatch) for patch in figure.axes[0].patches) == 5
    assert figure.get_facecolor()[:3] == (1.0, 1.0, 1.0)
    assert not figure.axes[0].axison
    assert words(plot_diagram(PLAN)) == [ROOM_STYLES[code].label for code in PLAN.rooms]


@pytest.mark.slow
def test_columns_shape_the_grid():
    def aspect(**columns: int) -> float:
        width, height = plot_grid([PLAN] * 4, legend=False, **columns).get_size_inches()
        return width / height

    assert aspect() == pytest.approx(1.0)
    assert aspect(columns=4) > 3
    assert aspect(columns=1) < 1 / 3
    assert aspect(columns=9) == aspect(columns=4)


def test_contradictions_are_dashed_and_explained():
    figure = plot_grid([CYCLE])
    lines = [c for c in figure.axes[0].collections if isinstance(c, LineCollection)]
    dashed = [c for c in lines if c.get_linestyles()[0][1] is not None]
    assert len(dashed) == len(place_diagram(CYCLE).broken) > 0
    assert "Contradicts the others" in words(figure)
    assert "Contradicts the others" not in words(plot_grid([PLAN]))


def test_bubbles_on_the_page_follow_the_relations():
    figure = plot_diagram(PLAN)
    living, master, kitchen, bath = [p for p in figure.axes[0].patches if isinstance(p, Circle)]
    # on screen: figure y grows upwards
    to_screen = figure.axes[0].transData.transform
    (lx, ly), (mx, my), (kx, _) = (to_screen(c.center) for c in (living, master, kitchen))
    assert lx > mx  # living right-below master
    assert ly < my
    assert lx < kx  # living left of kitchen
    inner = np.linalg.norm(np.subtract(bath.center, living.center)) + bath.radius
    assert inner <= living.radius
    assert bath.get_zorder() > living.get_zorder()


def pairs_of(diagram: BubbleDiagram) -> list[tuple[int, int]]:
    return [(i, j) for i, j, _ in diagram.relations]


def test_lines_run_from_rim_to_rim_of_listed_pairs():
    placement = place_diagram(PLAN)
    lines = route_lines(placement, pairs_of(PLAN))
    assert list(lines) == [(0, 1), (0, 2), (1, 2)]  # the containment needs none
    for rooms, line in lines.items():
        for end, room in zip((line.points[0], line.points[-1]), rooms, strict=True):
            distance = np.linalg.norm(end - placement.centres[room])
            assert distance == pytest.approx(placement.radii[room], rel=1e-2)


def test_a_line_bends_around_a_bubble_in_its_way():
    placement = place_diagram(BubbleDiagram((1, 0, 1), ((0, 1, 2), (0, 2, 2), (1, 2, 2))))
    through = route_lines(placement, [(0, 2)])[0, 2]
    away = np.linalg.norm(through.points - placement.centres[1], axis=1)
    assert (away > placement.radii[1]).all()


def test_the_label_of_an_outer_bubble_avoids_the_inner_one():
    placement = place_diagram(PLAN)
    lines = route_lines(placement, pairs_of(PLAN)).values()
    spot, width = label_spot(placement, lines, 0)
    assert np.linalg.norm(spot - placement.centres[3]) > placement.radii[3]
    assert np.linalg.norm(spot - placement.centres[0]) < placement.radii[0]
    assert width > 0.5
    spot, _ = label_spot(placement, lines, 2)
    assert np.array_equal(spot, placement.centres[2])


def test_every_room_type_has_its_own_readable_style():
    assert len(ROOM_STYLES) == len(ROOM_TYPES)
    assert all(len(style.label) <= 7 for style in ROOM_STYLES)
    assert ROOM_STYLES[0].radius == max(style.radius for style in ROOM_STYLES) == 1.0
    for style in ROOM_STYLES:
        contrast = (luminance(style.colour) + 0.05) / (luminance(TEXT) + 0.05)
        assert contrast > 4.5, style.name
    for vocabulary in VOCABULARIES.values():
        styles = [ROOM_STYLES[ROOM_TYPES.index(name)] for name in vocabulary.room_types]
        assert len({style.label for style in styles}) == len(styles)
        for one, other in combinations(styles, 2):
            distance = np.linalg.norm(lab(one.colour) - lab(other.colour))
            assert distance > 12, (one.name, other.name)


@pytest.mark.slow
def test_matplotlib_is_left_as_it_was(tmp_path):
    program = (
        "import sys, matplotlib\n"
        "before = matplotlib.rcParams.copy()\n"
        "from floor_plans.diagrams.diagram import BubbleDiagram\n"
        "from floor_plans.diagrams.pictures import diagram_pictures\n"
        "diagram_pictures.plot_grid([BubbleDiagram((0, 1), ((0, 1, 2),))], sys.argv[1])\n"
        "assert 'matplotlib.pyplot' not in sys.modules, 'pyplot was imported'\n"
        "assert matplotlib.rcParams.copy() == before, 'settings were changed'\n"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path / "a.png")], check=True)
