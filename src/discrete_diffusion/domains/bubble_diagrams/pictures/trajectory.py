"""Pictures of diagrams coming out of the noise: ``draw_film_strip`` and ``animate``.

The bubbles of all states of a diagram stand where they stand in the picture of the finished one, so
that only their types and relations change. A grey bubble with a question mark is a room that is not
known yet, a dotted line a pair that is not known yet, a dashed red line a relation that the
positions of the bubbles contradict. The rim of a bubble that ends up in others is dotted until it
is known that it lies in them, and dashed red where the state says otherwise. The bar at the bottom
of a card is the share of rooms and pairs that are as in the finished diagram.
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

from discrete_diffusion.domains.bubble_diagrams.pictures.constraints import INSIDE, SURROUNDING
from discrete_diffusion.domains.bubble_diagrams.pictures.drawing import grid_shape
from discrete_diffusion.domains.bubble_diagrams.pictures.gif import Palette, Pixels, write_gif
from discrete_diffusion.domains.bubble_diagrams.pictures.palette import Knowledge
from discrete_diffusion.domains.bubble_diagrams.pictures.pen import Pen
from discrete_diffusion.domains.bubble_diagrams.pictures.placement import (
    Placement,
    is_honoured,
    place_all,
)
from discrete_diffusion.domains.bubble_diagrams.pictures.routing import label_spot, route_lines
from discrete_diffusion.domains.bubble_diagrams.pictures.sheet import (
    Entry,
    Sheet,
    check_positive,
    checked_path,
    key_entries,
)
from discrete_diffusion.rooms import NO_EDGE

if TYPE_CHECKING:
    from discrete_diffusion.domains.bubble_diagrams.partial import PartialDiagram

PALETTE_FRAMES = 8
"""Frames that the colours of a GIF are chosen from."""
SHORTEST_FRAME = 0.02
"""Seconds; viewers slow down what is shorter."""


class _Film:
    """The states of one diagram, and what is the same in all of their pictures.

    ``lines``: of each pair, of those that have one. ``nested``: the relation of each pair that puts
    the bubble of a room into another in the finished diagram; ``outer``: per room, those pairs.
    ``spots``: centre and largest width of each label.
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
        """What a state that says ``r`` of a pair knows of how its bubbles lie."""
        if r is None:
            return "unknown"
        if pair in self.nested:
            return "known" if r == self.nested[pair] else "broken"
        lies = is_honoured(self.placement.centres, self.placement.radii, *pair, r)
        return "known" if lies or pair not in self.lines else "broken"

    def draw(self, pen: Pen, number: int) -> None:
        """State ``number``; the last one stays once it is reached."""
        frame = self.frames[min(number, len(self.frames) - 1)]
        relation = {(i, j): r for i, j, r in frame.relations}
        for pair, line in self.lines.items():
            if relation.get(pair) != NO_EDGE:
                pen.line(line, self.known(pair, relation.get(pair)))
        for room, code in enumerate(frame.rooms):
            around = {self.known(pair, relation.get(pair)) for pair in self.outer[room]}
            rim: Knowledge = "unknown" if "unknown" in around else "known"
            pen.room(room, code, *self.spots[room], "broken" if "broken" in around else rim)
        pen.progress(_settled(frame, self.finished))


def draw_film_strip(
    frames: Sequence[PartialDiagram],
    path: str | Path | None = None,
    *,
    titles: Sequence[str] | None = None,
    columns: int | None = None,
    max_frames: int = 8,
    legend: bool = True,
    cell: float = 2.1,
    dpi: float = 200.0,
) -> Figure:
    """One diagram on its way out of the noise, state by state; written to ``path`` if given.

    ``frames``: its states, the finished diagram last. Shown are the first, the last, and others
    between them at even distances, at most ``max_frames`` of those that differ from the state
    before. ``titles``: one per state of ``frames``, by default its number from 0 on. ``columns``:
    per row, by default four or, if that is more, half of them. ``legend``: colours with the full
    room names. ``cell``: side of a cell in inches; ``dpi``: pixels per inch of a ``.png``.

    Raises ``ValueError`` for no frames, frames with different numbers of rooms, a last frame that
    is not complete, titles that are not one per frame, ``max_frames`` below 2, ``columns``,
    ``cell`` or ``dpi`` not positive, and a path that ends in anything but ``.png`` or ``.svg``.
    """
    path = checked_path(path)
    _check_frames(frames, "frames")
    check_positive(columns=columns, cell=cell, dpi=dpi)
    if max_frames < 2:
        raise ValueError(f"max_frames={max_frames}: expected at least 2, the first and the last")
    titles = [f"state {k}" for k in range(len(frames))] if titles is None else titles
    if len(titles) != len(frames):
        raise ValueError(f"{len(titles)} titles for {len(frames)} frames; give one per frame")
    chosen = _evenly(_changes([frames]), max_frames)
    chosen[-1] = len(frames) - 1  # the same state, under its own title
    rows, columns = grid_shape(len(chosen), columns or max(4, math.ceil(len(chosen) / 2)))
    (film,) = _films([[frames[k] for k in chosen]])
    key = _key([film]) if legend else ()
    sheet = Sheet(rows, columns, [film.placement], cell=cell, dpi=dpi, key=key)
    for index, number in enumerate(chosen):
        film.draw(sheet.card(index, film.placement, title=titles[number]), index)
    return sheet.finish(path)


def animate(
    trajectories: Sequence[Sequence[PartialDiagram]],
    path: str | Path,
    *,
    seconds_per_frame: float = 0.12,
    hold: float = 2.0,
    columns: int | None = None,
    cell: float = 2.1,
    dpi: float = 110.0,
) -> None:
    """Diagrams coming out of the noise side by side: an animated GIF that loops.

    ``trajectories``: the states of each diagram, the finished one last; a shorter one waits for
    the others at its end. A state of the whole grid that equals the one before gets no frame.
    ``hold``: seconds that the last frame is shown. ``columns``: per row, by default as square as
    possible. ``cell``: side of a cell in inches; ``dpi``: pixels per inch. The file appears whole
    or not at all.

    Raises ``ValueError`` for a path that does not end in ``.gif``, no trajectories, a trajectory
    without frames, with different numbers of rooms or with a last frame that is not complete, a
    ``columns``, ``cell`` or ``dpi`` that is not positive, and frames of less than 0.02 s.
    """
    checked_path(path, (".gif",))
    if len(trajectories) == 0:
        raise ValueError("no trajectories to draw: an animation needs at least one")
    for index, frames in enumerate(trajectories):
        _check_frames(frames, f"trajectory {index}")
    check_positive(columns=columns, cell=cell, dpi=dpi)
    for name, seconds in (("seconds_per_frame", seconds_per_frame), ("hold", hold)):
        if not SHORTEST_FRAME <= seconds <= 600:
            raise ValueError(f"{name}={seconds}: expected {SHORTEST_FRAME} to 600 seconds")
    rows, columns = grid_shape(len(trajectories), columns)
    films = _films(trajectories)
    placements, key = [film.placement for film in films], _key(films)

    def picture(number: int) -> Pixels:
        """State ``number`` of every film."""
        sheet = Sheet(rows, columns, placements, cell=cell, dpi=dpi, titled=False, key=key)
        for index, film in enumerate(films):
            film.draw(sheet.card(index, film.placement), number)
        canvas = FigureCanvasAgg(sheet.finish())
        canvas.draw()
        return np.asarray(canvas.buffer_rgba())[..., :3].copy()

    numbers = _changes(trajectories)
    some = {k: picture(k) for k in _evenly(numbers, PALETTE_FRAMES)}
    pictures = (some[k] if k in some else picture(k) for k in numbers)
    times = [seconds_per_frame] * (len(numbers) - 1) + [hold]
    write_gif(Path(path), pictures, Palette(list(some.values())), times)


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
    """Share of the rooms and pairs that are as in the finished diagram."""
    rooms = sum(a == b for a, b in zip(frame.rooms, finished.rooms, strict=True))
    pairs = len(set(frame.relations) & set(finished.relations))
    return (rooms + pairs) / (len(finished.rooms) + len(finished.relations))


def _changes(trajectories: Sequence[Sequence[PartialDiagram]]) -> list[int]:
    """0, and the numbers of the states in which some trajectory differs from its state before."""
    longest = max(map(len, trajectories))
    return [0] + [
        k for k in range(1, longest) if any(k < len(t) and t[k] != t[k - 1] for t in trajectories)
    ]


def _evenly(numbers: Sequence[int], most: int) -> list[int]:
    """At most ``most`` of the numbers at even distances, first and last included."""
    count = min(most, len(numbers))
    return [numbers[round(k)] for k in np.linspace(0, len(numbers) - 1, count)]


def _check_frames(frames: Sequence[PartialDiagram], name: str) -> None:
    if len(frames) == 0:
        raise ValueError(f"{name}: no frames; give the states of a diagram, the finished one last")
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
