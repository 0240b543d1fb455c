"""``Sheet``: a page of cards that is drawn card by card, with a key below them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from discrete_diffusion.domains.bubble_diagrams.pictures.cards import (
    MARGIN,
    Page,
    Pen,
    draw_card,
    draw_title,
)
from discrete_diffusion.domains.bubble_diagrams.pictures.legend import Entry, Legend

SUFFIXES = (".png", ".svg")


@dataclass(frozen=True)
class Sheet:
    """An empty white ``figure``; the data units of its ``axes`` are inches, y downwards."""

    figure: Figure
    axes: Axes
    page: Page
    key: Legend

    @classmethod
    def blank(cls, page: Page, entries: Sequence[Entry], dpi: float) -> Sheet:
        """Room for the cards of ``page`` and a key of ``entries``."""
        key = Legend.wrap(entries, page.width - 2 * MARGIN)
        width, height = page.width, page.height + key.height
        figure = Figure(figsize=(width, height), dpi=dpi, facecolor="white")
        FigureCanvasAgg(figure)
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set(xlim=(0, width), ylim=(height, 0))
        axes.set_axis_off()
        return cls(figure, axes, page, key)

    def card(
        self, index: int, scale: float, *, title: str | None = None, flag: bool = False
    ) -> Pen:
        """Draw the empty card ``index``; what is drawn on it, at ``scale`` inches per unit."""
        card = self.page.card(index)
        draw_card(self.axes, card, flag=flag)
        if title is not None:
            draw_title(self.axes, card, title)
        return Pen(self.axes, card, scale)

    def finish(self, path: Path | None = None) -> Figure:
        """The figure with its key, written to ``path`` if given."""
        bottom = self.page.height - MARGIN / 2
        self.key.draw(self.axes, top=bottom, centre=self.page.width / 2)
        if path is not None:
            self.figure.savefig(path, dpi=self.figure.dpi)
        return self.figure


def checked_path(path: str | Path | None) -> Path | None:
    """``path``; raises ``ValueError`` unless it ends in ``.png`` or ``.svg`` or is None."""
    if path is None:
        return None
    path = Path(path)
    if path.suffix.lower() not in SUFFIXES:
        raise ValueError(f"cannot write {path.name!r}: choose a name that ends in .png or .svg")
    return path
