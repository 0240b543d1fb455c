"""Pictures of floor plans: ``plot_plan`` for one, ``plot_plans`` for several, and sheets of paper.

They use matplotlib's object interface: no pyplot, no global state, any backend.
"""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from discrete_diffusion.runtime import install_command

try:
    import shapely  # noqa: F401  (what is imported below needs it)
except ImportError as error:
    raise ImportError(f"plans are drawn with shapely: {install_command('plans')}") from error
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.patches import Polygon, Rectangle

from discrete_diffusion.viz import TEXT
from floor_plans.diagrams.pictures import diagram_pictures
from floor_plans.diagrams.pictures.bubbles import HINT_LINE
from floor_plans.diagrams.pictures.diagram_pictures import CAPTION, POINTS_PER_INCH, Sheet
from floor_plans.diagrams.pictures.placement import place_all
from floor_plans.drawings.drawn_parts import DrawingStyle, names_of_rooms, translated_word
from floor_plans.drawings.plan_pen import FRONT_DOOR, SMALL, WALL, PlanPen
from floor_plans.plans.floor_plan import FloorPlan
from floor_plans.plans.walls import OUTER_WALL, clear_areas
from floor_plans.solver.realised import Scores
from floor_plans.solver.shapes import extent_of_plan

SCALES = (50, 75, 100, 125, 150, 200, 250, 300, 400, 500, 750, 1000, 1500, 2000, 2500, 5000)
"""Metres of a plan per metre of paper, as on an architect's rule."""

_PADDING, _CHAIN = 0.95, 0.5
"""Inches of a card for the dimensions of a plan on two sides, and further ones for its rooms."""
_LEAST_CELL = 3.2
_FOOTER = 0.34
_METRES_PER_INCH = 0.0254
_SPECK = 0.2  # dead area up to this is not explained, square metres


def plot_plan(
    plan: FloorPlan, path: str | Path | None = None, *, scale: int | None = None
) -> Figure:
    """Plot one plan with the dimensions of the rooms on two sides; see ``plot_plans``."""
    return plot_plans([plan], path, with_diagrams=False, scale=scale, cell=7.5, chained=True)


def plot_plans(
    plans: Sequence[FloorPlan | None],
    path: str | Path | None = None,
    *,
    columns: int | None = None,
    with_diagrams: bool = True,
    titles: Sequence[str] = (),
    scale: int | None = None,
    cell: float = 4.6,
    dpi: float = 200.0,
    chained: bool = False,
) -> Figure:
    """Plot plans row by row on one sheet, at the same scale, and write it to ``path`` if given.

    Outer walls are thicker; a triangle points into the front door. Every room has its name and
    area, in a line below the plan if they do not fit. Dimensions are in metres, between the centre
    lines of walls. Area inside the outline that belongs to no room is hatched. A card is empty if
    its plan is None.

    ``columns``: plans per row. ``with_diagrams``: show the bubble diagram to the left of each plan.
    ``titles``: a line above each plan. ``scale``: 200 for 1 : 200; by default the largest of
    ``SCALES`` at which every plan fits a card of ``cell`` inches. ``dpi``: pixels per inch.
    ``chained``: add dimensions of the rooms.

    Raises ``ValueError`` without a plan, for a number that is not positive, for another number of
    titles than of plans, and for a ``path`` other than ``.png`` or ``.svg``; ``ImportError``
    without shapely.
    """
    path = diagram_pictures.checked_path(path)
    for name, value in {"columns": columns, "scale": scale, "cell": cell, "dpi": dpi}.items():
        if value is not None and not value > 0:
            raise ValueError(f"{name}={value} must be positive")
    if not any(plans):
        raise ValueError("no plans to draw: a sheet needs at least one")
    if titles and len(titles) != len(plans):
        raise ValueError(f"{len(titles)} titles for {len(plans)} plans: give one for each, or none")
    # scale, and size of the cards
    found = [plan for plan in plans if plan is not None]
    padding = _PADDING + (_CHAIN if chained else 0.0)
    extents = map(extent_of_plan, found)
    longest = max(max(x1 - x0, y1 - y0) for x0, y0, x1, y1 in extents) + OUTER_WALL
    most = cell - padding
    fitting = [each for each in SCALES if longest <= most * each * _METRES_PER_INCH]
    scale = scale or (*fitting, SCALES[-1])[0]
    per_metre = 1 / (scale * _METRES_PER_INCH)
    cell = max(longest * per_metre + padding, _LEAST_CELL)
    shown = 2 if with_diagrams else 1
    rows, columns = diagram_pictures.grid_shape(len(plans), columns, aspect=shown)
    placements = place_all([plan.diagram for plan in found]) if with_diagrams else []
    placed = iter(placements)
    # the cards: diagrams and plans
    sheet = Sheet(
        rows, shown * columns, placements, cell=cell, dpi=dpi, titled=bool(titles), footer=_FOOTER
    )
    pens = []
    for index, plan in enumerate(plans):
        if plan is None:
            continue
        title = titles[index] if titles else ""
        if with_diagrams:
            card = sheet.card(shown * index, next(placed), title)
            diagram_pictures.draw_diagram(card, plan.diagram)
            title = ""
        corner = sheet.empty_card(shown * (index + 1) - 1, title)
        pens.append(PlanPen(sheet.axes, *corner, cell, plan, per_metre, f"plan-{index}"))
        pens[-1].draw()
        pens[-1].plot_dimensions(chained=chained)
    # the footer explains the marks that occur
    front = any(pen.shapes.arrows for pen in pens)
    dead = any(pen.shapes.dead.area > _SPECK for pen in pens)
    _plot_footer(sheet, scale, per_metre, front=front, dead=dead)
    return sheet.finish(path)


def _plot_footer(sheet: Sheet, scale: int, per_metre: float, *, front: bool, dead: bool) -> None:
    """Plot the footer: a scale bar, the scale, and the marks for front doors and dead area."""
    axes, y = sheet.axes, sheet.bottom + 0.03
    # a bar of about 1.2 inches
    metres = min((1, 2, 5, 10, 20, 50), key=lambda m: abs(math.log(m * per_metre / 1.2)))
    steps = metres if metres <= 5 else 5
    x, length = diagram_pictures.MARGIN + 0.05, metres * per_metre / steps
    for k in range(steps):
        bar = Rectangle((x + k * length, y), length, 0.06, edgecolor=WALL, linewidth=0.6)
        bar.set_facecolor("white" if k % 2 else WALL)
        axes.add_artist(bar)
    x += steps * length
    # texts, each after its mark
    marks: list[tuple[str, str]] = [(f"{metres} m", ""), (f"1 : {scale}", "")]
    marks += [("Front door", "front")] * front + [("Dead area", "dead")] * dead
    for text, mark in marks:
        x += 0.1 if text.endswith(" m") else 0.3
        if mark == "front":
            corners = [(x - 0.06, y + 0.09), (x + 0.06, y + 0.09), (x, y - 0.03)]
            axes.add_artist(Polygon(corners, facecolor=FRONT_DOOR))
        elif mark:
            lines = [[(x - 0.17 + d, y + 0.09), (x - 0.05 + d, y - 0.03)] for d in (0, 0.06, 0.12)]
            hatching = LineCollection(lines, colors=HINT_LINE, linewidths=0.5)
            axes.add_collection(hatching, autolim=False)
        x += 0.12 if mark else 0.0
        axes.text(x, y + 0.065, text, fontsize=SMALL, **CAPTION)
        x += diagram_pictures.text_width(text) * SMALL / POINTS_PER_INCH


_INCH = 25.4  # millimetres per inch
_PAPERS = {"A4": (210, 297), "A3": (297, 420)}
_FITTING = [
    *(("A4", 50), ("A4", 100), ("A3", 100), ("A4", 200), ("A3", 200), ("A3", 500)),
    *(("A3", 1000), ("A3", 5000), ("A3", 50_000)),
]
"""Papers and scales, in the order in which they are tried; 50 stands for 1 : 50."""

_EDGE, _BLOCK, _BESIDE = 10, 32, 34
"""Millimetres of the margin, of the title block's height, and beside a plan for dimensions, arrows
and a caption."""
_LINE, _COLUMN, _LINES = 4.4, 46, 5
"""Millimetres between lines of the title block and between its columns; lines of a column."""

NUM_DRAWN = 12  # most plans in the picture, which shows the first plans


@dataclass(frozen=True)
class PaperSize:
    """Paper with ``width`` and ``height`` in millimetres, at a scale of 1 : ``scale``."""

    name: str
    scale: int
    width: float
    height: float


def paper_of(plan: FloorPlan) -> PaperSize:
    """First paper of ``_FITTING`` that fits, upright or across; ``ValueError`` if none does."""
    left, top, right, bottom = extent_of_plan(plan)
    wide, high = right - left, bottom - top
    for name, scale in _FITTING:
        # the plan on paper, with dimensions and margins
        around = _BESIDE + 2 * _EDGE
        least_width = (wide + OUTER_WALL) * 1000 / scale + around
        least_height = (high + OUTER_WALL) * 1000 / scale + around + _BLOCK
        for width, height in sorted((_PAPERS[name], _PAPERS[name][::-1]), reverse=wide > high):
            if least_width <= width and least_height <= height:
                return PaperSize(name, scale, width, height)
    raise ValueError(f"a plan of {wide:.0f} x {high:.0f} m fits no paper")


def plot_sheet(plan: FloorPlan, style: DrawingStyle) -> Figure:
    """Plot one plan to scale on A4 or A3, with dimensions of its rooms and a title block."""
    paper = paper_of(plan)
    width, height, edge = paper.width / _INCH, paper.height / _INCH, _EDGE / _INCH
    figure = Figure(figsize=(width, height), facecolor="white")
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, width), ylim=(height, 0))
    axes.set_axis_off()
    right, bottom, block = width - edge, height - edge, height - (_EDGE + _BLOCK) / _INCH
    per_metre, height = 1000 / paper.scale / _INCH, block - edge
    pen = PlanPen(axes, edge, edge, right - edge, plan, per_metre, "plan", style.language, height)
    pen.draw()
    pen.plot_dimensions(chained=True)
    frame = [(edge, edge), (right, edge), (right, bottom), (edge, bottom), (edge, edge)]
    lines = [frame, [(edge, block), (right, block)]]
    axes.add_collection(LineCollection(lines, colors=TEXT, linewidths=0.8), autolim=False)
    _plot_title_block(axes, paper, plan, style.language)
    return figure


def _plot_title_block(axes: Axes, paper: PaperSize, plan: FloorPlan, language: str) -> None:
    """Plot the title block: name, scale with a bar, then rooms with their areas and the sum."""
    x, y = _EDGE + 4, paper.height - _EDGE - _BLOCK + 7
    name = str(plan.diagram.metadata.get("name") or translated_word("Floor plan", language))
    _plot_text(axes, x, y, name, _fitting_size(name, 11.0, _COLUMN - 6), weight="bold")
    scale = f"{translated_word('Scale', language)} 1 : {paper.scale}   {paper.name}"
    _plot_text(axes, x, y + 1.6 * _LINE, scale, 9)
    # a bar of whole metres, about 20 mm long
    metres = max(1, round(20 * paper.scale / 1000))
    ends = [(x + k * metres * 1000 / paper.scale, y + 2.6 * _LINE) for k in (0, 1)]
    ticks = [[(at, level - 1), (at, level + 1)] for at, level in ends]
    bar = [[(a / _INCH, b / _INCH) for a, b in line] for line in (ends, *ticks)]
    axes.add_collection(LineCollection(bar, colors=TEXT, linewidths=1.2), autolim=False)
    _plot_text(axes, ends[1][0] + 2, ends[1][1] + 1, f"{metres} m", 8)
    # rooms in columns, with smaller lines if there are many
    areas = clear_areas(plan)
    names = [name.whole for name in names_of_rooms(plan, language)]
    rows = [*zip(names, areas, strict=True), (translated_word("Total", language), sum(areas))]
    columns = max(1, int((paper.width - 2 * _EDGE - _COLUMN - 8) // _COLUMN))
    lines = max(_LINES, -(-len(rows) // columns))
    step = _LINE * _LINES / lines
    for number, (text, area) in enumerate(rows):
        column, line = divmod(number, lines)
        at = x + (column + 1) * _COLUMN + 4, y + line * step
        points = min(8.0, 8.0 * step / _LINE)
        look: dict[str, Any] = {"weight": "bold"} if number == len(rows) - 1 else {}
        _plot_text(axes, *at, text, _fitting_size(text, points, _COLUMN - 20), **look)
        _plot_text(axes, at[0] + _COLUMN - 6, at[1], f"{area:.1f} m²", points, ha="right", **look)


def _fitting_size(text: str, points: float, width: float) -> float:
    """Size of bold letters for a text to fit ``width`` millimetres; at most ``points``."""
    return min(points, width / _INCH * POINTS_PER_INCH / (1.15 * diagram_pictures.text_width(text)))


def _plot_text(axes: Axes, x: float, y: float, text: str, points: float, **look: Any) -> None:
    """Plot a text at a position in millimetres."""
    axes.text(x / _INCH, y / _INCH, text, fontsize=points, **(CAPTION | {"color": TEXT} | look))


def svg_sheet(plan: FloorPlan, style: DrawingStyle) -> str:
    """Return the sheet of a plan as SVG."""
    return diagram_pictures.svg_of(plot_sheet(plan, style))


def pdf_sheet(plan: FloorPlan, style: DrawingStyle) -> bytes:
    """Return the sheet of a plan as PDF. The same plan yields the same file."""
    file = io.BytesIO()
    with rc_context({"pdf.fonttype": 42}):
        plot_sheet(plan, style).savefig(file, format="pdf", metadata={"CreationDate": None})
    return file.getvalue()


def plot_realised(
    found: Sequence[tuple[int, Sequence[FloorPlan]]], scores: Sequence[Sequence[Scores]], path: Path
) -> None:
    """Plot the first plan of each diagram next to it or, if there are variants, those of each
    diagram in a row, with scores. ``found``: number and plans, best first, of each diagram."""
    # one plan of each diagram, or variants in rows
    most = max(len(plans) for _, plans in found)
    if most == 1:
        plot_plans([plans[0] for _, plans in found[:NUM_DRAWN]], path)
        return
    drawn: list[FloorPlan | None] = []
    titles: list[str] = []
    rows = max(1, NUM_DRAWN // most)
    for (number, plans), scored in zip(found[:rows], scores[:rows], strict=True):
        num = len(plans)
        drawn += [*plans, *(None,) * (most - num)]
        said = [each.sentence() for each in scored]
        titles += [f"{number}, {rank} of {num}: {text}" for rank, text in enumerate(said, start=1)]
        titles += [""] * (most - num)
    plot_plans(drawn, path, columns=most, with_diagrams=False, titles=titles)
