"""Sheets of plans: one plan to scale with a title block, and variants side by side."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from discrete_diffusion.viz import TEXT
from floor_plans.diagrams.pictures.diagram_pictures import (
    CAPTION,
    POINTS_PER_INCH,
    svg_of,
    text_width,
)
from floor_plans.drawings.drawing_style import names_of_rooms, word
from floor_plans.drawings.pictures.plan_pen import PlanPen, plot_dimensions
from floor_plans.drawings.pictures.plan_pictures import plot_plans
from floor_plans.solver.shapes import OUTER_WALL, extent

if TYPE_CHECKING:
    from floor_plans.drawings.drawing_style import DrawingStyle
    from floor_plans.plans.floor_plan import FloorPlan
    from floor_plans.solver.realised import Scores

_INCH = 25.4
"""Millimetres per inch."""
_PAPERS = {"A4": (210, 297), "A3": (297, 420)}
_FITTING = [
    *(("A4", 50), ("A4", 100), ("A3", 100), ("A4", 200), ("A3", 200), ("A3", 500)),
    *(("A3", 1000), ("A3", 5000), ("A3", 50_000)),
]
"""Papers and scales, in the order in which they are tried; 50 stands for 1 : 50."""

_EDGE, _BLOCK, _BESIDE = 10, 32, 34
"""Millimetres of the margin, of the title block's height, and of the drawing for dimensions, arrows
and a caption."""
_LINE, _COLUMN, _LINES = 4.4, 46, 5
"""Millimetres between lines of the title block and between its columns; lines of a column."""

NUM_DRAWN = 12
"""Plans of the picture: the first ones."""


@dataclass(frozen=True)
class PaperSize:
    """Paper with ``width`` and ``height`` in millimetres, at a scale of 1 : ``scale``."""

    name: str
    scale: int
    width: float
    height: float


def paper_of(plan: FloorPlan) -> PaperSize:
    """First of ``_FITTING``, upright or across, that the plan fits with its dimensions. Raises
    ``ValueError`` if it fits none."""
    left, top, right, bottom = extent(plan)
    for name, scale in _FITTING:
        # the plan on paper, with dimensions and margins
        needed = [
            (length + OUTER_WALL) * 1000 / scale + _BESIDE + 2 * _EDGE
            for length in (right - left, bottom - top)
        ]
        ways = sorted((_PAPERS[name], _PAPERS[name][::-1]), reverse=right - left > bottom - top)
        for width, height in ways:
            if needed[0] <= width and needed[1] + _BLOCK <= height:
                return PaperSize(name, scale, width, height)
    raise ValueError(f"a plan of {right - left:.0f} x {bottom - top:.0f} m fits no paper")


def plot_sheet(plan: FloorPlan, style: DrawingStyle) -> Figure:
    """Plot one plan to scale on A4 or A3, with dimensions of its rooms and a title block of name,
    scale and areas."""
    paper = paper_of(plan)
    width, height, edge = paper.width / _INCH, paper.height / _INCH, _EDGE / _INCH
    figure = Figure(figsize=(width, height), facecolor="white")
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, width), ylim=(height, 0))
    axes.set_axis_off()
    # the plan with its dimensions
    block = height - (_EDGE + _BLOCK) / _INCH
    pen = PlanPen(
        axes,
        edge,
        edge,
        width - 2 * edge,
        plan,
        1000 / paper.scale / _INCH,
        language=style.language,
        height=block - edge,
    )
    pen.draw()
    plot_dimensions(pen, chained=True)
    # the frame and the title block
    frame = [(edge, edge), (width - edge, edge), (width - edge, height - edge)]
    frame += [(edge, height - edge), (edge, edge)]
    lines = [frame, [(edge, block), (width - edge, block)]]
    axes.add_collection(LineCollection(lines, colors=TEXT, linewidths=0.8), autolim=False)
    _draw_block(axes, paper, plan, style.language)
    return figure


def _draw_block(axes: Axes, paper: PaperSize, plan: FloorPlan, language: str) -> None:
    """Plot the title block: name, scale with a bar, then rooms with their areas and the sum."""
    x, y = _EDGE + 4, paper.height - _EDGE - _BLOCK + 7
    name = str(plan.diagram.metadata.get("name") or word("Floor plan", language))
    _write(axes, x, y, name, _fitting(name, 11.0, _COLUMN - 6), weight="bold")
    _write(
        axes, x, y + 1.6 * _LINE, f"{word('Scale', language)} 1 : {paper.scale}   {paper.name}", 9
    )
    # a bar of whole metres, about 20 mm long
    metres = max(1, round(20 * paper.scale / 1000))
    ends = [(x + k * metres * 1000 / paper.scale, y + 2.6 * _LINE) for k in (0, 1)]
    ticks = [[(at, level - 1), (at, level + 1)] for at, level in ends]
    bar = [[(a / _INCH, b / _INCH) for a, b in line] for line in (ends, *ticks)]
    axes.add_collection(LineCollection(bar, colors=TEXT, linewidths=1.2), autolim=False)
    _write(axes, ends[1][0] + 2, ends[1][1] + 1, f"{metres} m", 8)
    # rooms in columns, with smaller lines if there are many
    rows = list(zip(names_of_rooms(plan, language), plan.areas, strict=True))
    rows.append((word("Total", language), sum(plan.areas)))
    columns = max(1, int((paper.width - 2 * _EDGE - _COLUMN - 8) // _COLUMN))
    lines = max(_LINES, -(-len(rows) // columns))
    step = _LINE * _LINES / lines
    for number, (text, area) in enumerate(rows):
        column, line = divmod(number, lines)
        at = x + (column + 1) * _COLUMN + 4, y + line * step
        points = min(8.0, 8.0 * step / _LINE)
        look: dict[str, Any] = {"weight": "bold"} if number == len(rows) - 1 else {}
        _write(axes, *at, text, _fitting(text, points, _COLUMN - 20), **look)
        _write(axes, at[0] + _COLUMN - 6, at[1], f"{area:.1f} m²", points, ha="right", **look)


def _fitting(text: str, points: float, width: float) -> float:
    """Size of bold letters for a text to fit ``width`` millimetres; at most ``points``."""
    return min(points, width / _INCH * POINTS_PER_INCH / (1.15 * text_width(text)))


def _write(axes: Axes, x: float, y: float, text: str, points: float, **look: Any) -> None:
    """Plot a text at a place in millimetres."""
    axes.text(x / _INCH, y / _INCH, text, fontsize=points, **(CAPTION | {"color": TEXT} | look))


def svg_sheet(plan: FloorPlan, style: DrawingStyle) -> str:
    """Return the sheet of a plan as SVG."""
    return svg_of(plot_sheet(plan, style))


def pdf_sheet(plan: FloorPlan, style: DrawingStyle) -> bytes:
    """Return the sheet of a plan as PDF. The same plan yields the same file."""
    file = io.BytesIO()
    with rc_context({"pdf.fonttype": 42}):
        plot_sheet(plan, style).savefig(file, format="pdf", metadata={"CreationDate": None})
    return file.getvalue()


def plot_realised(
    found: Sequence[tuple[int, Sequence[FloorPlan]]], scores: Sequence[Sequence[Scores]], path: Path
) -> None:
    """Plot the first plan of each diagram next to it, or variants in a row each, with their scores.

    ``found``: numbers of diagrams and their plans, best first.
    """
    # one plan of each diagram, or variants in rows
    most = max(len(plans) for _, plans in found)
    if most == 1:
        plot_plans([plans[0] for _, plans in found[:NUM_DRAWN]], path)
        return
    drawn: list[FloorPlan | None] = []
    titles: list[str] = []
    rows = max(1, NUM_DRAWN // most)
    for (number, plans), scored in zip(found[:rows], scores[:rows], strict=True):
        drawn += [*plans, *(None,) * (most - len(plans))]
        titles += [
            f"{number}, {rank} of {len(plans)}: {each.sentence()}"
            for rank, each in enumerate(scored, start=1)
        ]
        titles += [""] * (most - len(plans))
    plot_plans(drawn, path, columns=most, with_diagrams=False, titles=titles)
