"""Pictures of the states of a sampler: ``plot_film_strip`` and ``animate``.

Bubbles keep the positions of the finished diagram in all states; only types and relations change.
A grey bubble with a question mark is an unknown room, a dotted line an unknown pair, a dashed red
line a relation that the positions violate. The rim of a bubble that is finally inside others is
dotted until this is known, and dashed red where the state contradicts it. The bar at the bottom of
a card is the share of rooms and pairs that are final.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from floor_plans.diagrams.pictures.diagram_pictures import grid_shape
from floor_plans.diagrams.pictures.gif import Palette, Pixels, write_gif
from floor_plans.diagrams.pictures.palette import Knowledge
from floor_plans.diagrams.pictures.pen import Pen
from floor_plans.diagrams.pictures.placement import Placement, is_honoured, place_all
from floor_plans.diagrams.pictures.routing import label_spot, route_lines
from floor_plans.diagrams.pictures.sheet import (
    Entry,
    Sheet,
    check_positive,
    checked_path,
    key_entries,
)
from floor_plans.diagrams.rooms import INSIDE, NO_EDGE, SURROUNDING
from floor_plans.diagrams.vocabulary import ADJACENT

if TYPE_CHECKING:
    from floor_plans.diagrams.partial import PartialDiagram

MAX_FRAMES = 100
"""Most frames of a GIF; twenty rooms have two hundred states, and frames are slow to draw."""
PALETTE_FRAMES = 8
"""Frames from which the colours of a GIF are chosen."""
MAX_SHOWN = 8
"""Most states in a film strip."""
SECONDS_PER_FRAME, SECONDS_AT_END = 0.12, 2.0


class _Film:
    """The states of one diagram, and the common parts of their pictures.

    ``lines``: lines of all pairs. ``nested``: relation of each pair that nests two bubbles in the
    finished diagram; ``outer``: these pairs by inner room. ``spots``: centre and largest width of
    each label.
    """

    def __init__(self, frames: Sequence[PartialDiagram], placement: Placement) -> None:
        self.frames, self.placement, self.finished = frames, placement, frames[-1]
        rooms, relations = range(self.finished.num_rooms), self.finished.relations
        self.lines = route_lines(placement, combinations(rooms, 2))
        self.nested: dict[tuple[int, int], int] = {}
        self.outer: dict[int, list[tuple[int, int]]] = {room: [] for room in rooms}
        for i, j, r in relations:
            inner, outer = (j, i) if r == SURROUNDING else (i, j)
            if r in (INSIDE, SURROUNDING) and placement.inside[inner, outer]:
                self.nested[i, j] = r
                self.outer[inner].append((i, j))
        drawn = [self.lines[i, j] for i, j, r in relations if r != NO_EDGE and (i, j) in self.lines]
        self.spots = [label_spot(placement, drawn, room) for room in rooms]

    def known(self, pair: tuple[int, int], r: int | None) -> Knowledge:
        """State of a pair with relation ``r``, None for unknown, relative to the final
        positions."""
        if r is None:
            return "unknown"
        if pair in self.nested:
            return "known" if r == self.nested[pair] else "broken"
        lies = is_honoured(self.placement.centres, self.placement.radii, *pair, r)
        knowledge: Knowledge = "wall" if r == ADJACENT else "known"
        return knowledge if lies or pair not in self.lines else "broken"

    def draw(self, pen: Pen, number: int) -> None:
        """Draw state ``number``, or the last one past its end."""
        frame = self.frames[min(number, len(self.frames) - 1)]
        relation = {(i, j): r for i, j, r in frame.relations}
        # lines of pairs that may be related
        for pair, line in self.lines.items():
            if relation.get(pair) != NO_EDGE:
                pen.line(line, self.known(pair, relation.get(pair)))
        # bubbles, with rims by the state of their containment
        for room, code in enumerate(frame.rooms):
            around = {self.known(pair, relation.get(pair)) for pair in self.outer[room]}
            rim: Knowledge = "unknown" if "unknown" in around else "known"
            pen.room(room, code, *self.spots[room], "broken" if "broken" in around else rim)
        pen.progress(_settled(frame, self.finished))


def plot_film_strip(frames: Sequence[PartialDiagram], path: str | Path | None = None) -> Figure:
    """Plot the states of one diagram in a row of cards; write the figure to ``path`` if given.

    ``frames``: its states, the finished diagram last. At most 8 evenly spaced states are shown,
    the first and last included, with their numbers from 0.

    Raises ``ValueError`` for no frames, frames with different numbers of rooms, a last frame that
    is not complete, and a path that ends in anything but ``.png`` or ``.svg``.
    """
    path = checked_path(path)
    _check_frames(frames, "frames")
    # evenly spaced states, each on a card
    numbers = _evenly(len(frames), MAX_SHOWN)
    (film,) = films = _films([[frames[k] for k in numbers]])
    rows, columns = grid_shape(len(numbers), 4)
    sheet = Sheet(rows, columns, [film.placement], titled=True, key=_key(films))
    for index, number in enumerate(numbers):
        film.draw(sheet.card(index, film.placement, f"state {number}"), index)
    return sheet.finish(path)


def animate(
    trajectories: Sequence[Sequence[PartialDiagram]],
    path: str | Path,
    *,
    cell: float = 2.1,
    dpi: float = 110.0,
) -> None:
    """Write a looping GIF of the states of several diagrams, side by side.

    ``trajectories``: the states of each diagram, the finished one last; shorter ones stay at their
    end. At most ``MAX_FRAMES`` evenly spaced states are shown. ``cell``: side of a cell in inches.
    ``dpi``: pixels per inch. The file appears complete or not at all.

    Raises ``ValueError`` for a path that does not end in ``.gif``, no trajectories, a trajectory
    without frames, with different numbers of rooms or with a last frame that is not complete, and
    a ``cell`` or ``dpi`` that is not positive.
    """
    # check arguments before anything is drawn
    checked_path(path, (".gif",))
    check_positive(cell=cell, dpi=dpi)
    if len(trajectories) == 0:
        raise ValueError("no trajectories to draw: an animation needs at least one")
    for index, frames in enumerate(trajectories):
        _check_frames(frames, f"trajectory {index}")
    rows, columns = grid_shape(len(trajectories))
    films = _films(trajectories)
    placements, key = [film.placement for film in films], _key(films)

    def picture(number: int) -> Pixels:
        """Draw state ``number`` of every film."""
        sheet = Sheet(rows, columns, placements, cell=cell, dpi=dpi, key=key)
        for index, film in enumerate(films):
            film.draw(sheet.card(index, film.placement), number)
        canvas = FigureCanvasAgg(sheet.finish())
        canvas.draw()
        return np.asarray(canvas.buffer_rgba())[..., :3].copy()

    # choose the colours from a few frames, then draw the others one by one
    longest = max(map(len, trajectories))
    numbers = _evenly(longest, MAX_FRAMES)
    some = {numbers[k]: picture(numbers[k]) for k in _evenly(len(numbers), PALETTE_FRAMES)}
    pictures = (some[k] if k in some else picture(k) for k in numbers)
    seconds = [SECONDS_PER_FRAME] * (len(numbers) - 1) + [SECONDS_AT_END]
    write_gif(Path(path), pictures, Palette(list(some.values())), seconds)


def _films(trajectories: Sequence[Sequence[PartialDiagram]]) -> list[_Film]:
    return list(map(_Film, trajectories, place_all([frames[-1] for frames in trajectories])))


def _key(films: Sequence[_Film]) -> tuple[Entry, ...]:
    frames = [frame for film in films for frame in film.frames]
    broken = any(
        film.known((i, j), r) == "broken"
        for film in films
        for frame in film.frames
        for i, j, r in frame.relations
    )
    return key_entries(
        frames,
        unknown=not all(frame.is_complete for frame in frames),
        broken="Contradicts the positions" if broken else "",
    )


def _settled(frame: PartialDiagram, finished: PartialDiagram) -> float:
    """Share of rooms and pairs that equal the finished diagram."""
    rooms = sum(a == b for a, b in zip(frame.rooms, finished.rooms, strict=True))
    pairs = len(set(frame.relations) & set(finished.relations))
    return (rooms + pairs) / (len(finished.rooms) + len(finished.relations))


def _evenly(count: int, most: int) -> list[int]:
    """At most ``most`` evenly spaced numbers of 0 to ``count`` - 1, both ends included."""
    return [round(k) for k in np.linspace(0, count - 1, min(most, count))]


def _check_frames(frames: Sequence[PartialDiagram], name: str) -> None:
    if len(frames) == 0:
        raise ValueError(f"{name}: no frames; give the states of a diagram, the finished one last")
    # one diagram, which is complete at the end
    counts = {frame.num_rooms for frame in frames}
    if len(counts) > 1:
        raise ValueError(
            f"{name}: frames with {sorted(counts)} rooms; give states of one diagram, all with the "
            f"rooms of the finished one"
        )
    last = frames[-1]
    rooms = sum(room is None for room in last.rooms)
    pairs = math.comb(last.num_rooms, 2) - len(last.relations)
    if rooms + pairs > 0:
        raise ValueError(
            f"{name}: {rooms} rooms and {pairs} pairs of the last frame are unknown; end with the "
            f"finished diagram, in which pairs without a relation are listed as no-edge"
        )
