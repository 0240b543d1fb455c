"""``Diagrams``: a list of diagrams that can be plotted and realised as floor plans."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from floor_plans.diagrams.diagram import BubbleDiagram
from floor_plans.solver.requests import PlanRequest, realise_diagrams

if TYPE_CHECKING:
    from floor_plans.solver.realising import Realised


class Diagrams(list[BubbleDiagram]):
    """A list that a notebook shows as a picture of its first ``MAX_DRAWN`` diagrams."""

    def _repr_svg_(self) -> str | None:
        from floor_plans.diagrams.pictures.diagram_pictures import MAX_DRAWN, svg_of_grid

        return svg_of_grid(self[:MAX_DRAWN]) if self else None

    def plot(self, path: str | Path) -> None:
        """Plot them into a file.

        Args:
            path: a ``.png`` or ``.svg``.

        Raises:
            ValueError: it is another kind of file, or there is none to plot.
        """
        from floor_plans.diagrams.pictures.diagram_pictures import MAX_DRAWN, plot_grid

        plot_grid(self[:MAX_DRAWN], path)

    def realise(self, request: PlanRequest | None = None, *, threads: int = 1) -> list[Realised]:
        """Find dimensioned floor plans, as the command ``plans realise`` does.

        Args:
            request: areas, outline, variants and seed; None: typical areas, any outline.
            threads: that share the work.

        Returns:
            A ``Realised`` for each diagram: its ``plans`` in metres, or the ``reason`` why there
            is none.

        Raises:
            DiagramError: a ``ValueError`` that names the diagram and the field of its metadata that
                is wrong.
            ValueError: OR-Tools, of the extra ``plans``, is not installed.
            ImportError: shapely, of the same extra, is not installed.
        """
        return realise_diagrams(self, request, threads=threads)
