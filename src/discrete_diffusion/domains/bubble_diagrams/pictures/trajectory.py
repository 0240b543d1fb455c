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
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import NDArray

from discrete_diffusion.domains.bubble_diagrams.pictures.cards import (
    Page,
    Pen,
    Rim,
    card_scales,
    header_height,
)
from discrete_diffusion.domains.bubble_diagrams.pictures.connections import Connection, connect
from discrete_diffusion.domains.bubble_diagrams.pictures.constraints import INSIDE, SURROUNDING
from discrete_diffusion.domains.bubble_diagrams.pictures.gif import Palette, Pixels, write_gif
from discrete_diffusion.domains.bubble_diagrams.pictures.labels import label_spot
from discrete_diffusion.domains.bubble_diagrams.pictures.legend import Entry, legend_entries
from discrete_diffusion.domains.bubble_diagrams.pictures.palette import room_style
from discrete_diffusion.domains.bubble_diagrams.pictures.placement import (
    Placement,
    is_honoured,
    place,
    place_all,
)
from discrete_diffusion.domains.bubble_diagrams.pictures.sheet import Sheet, checked_path
from discrete_diffusion.rooms import NO_EDGE

if TYPE_CHECKING:
    from discrete_diffusion.domains.bubble_diagrams.partial import PartialDiagram

Relation = tuple[int, int, int]
BROKEN = "Contradicts the positions"
PALETTE_FRAMES = 8
"""Frames that the colours of a GIF are chosen from."""
SHORTEST_FRAME = 0.02
"""Seconds; viewers slow down what is shorter."""


@dataclass(frozen=True)
class _Scene:
    """The states of one diagram and what is the same in all of their pictures.

    ``routes``: the way of the line of each pair, of those that have one. ``nested``: per room, the
    relations (i, j, r) of the finished diagram that put its bubble into others. ``broken``: the
    relations (i, j, r) of all states that the placement contradicts. ``spots``: centre and largest
    width of each label.
    """

    frames: tuple[PartialDiagram, ...]
    placement: Placement
    routes: Mapping[tuple[int, int], Connection]
    nested: Mapping[int, Sequence[Relation]]
    broken: Set[Relation]
    spots: tuple[tuple[NDArray[np.float64], float], ...]

    @classmethod
    def build(cls, frames: Sequence[PartialDiagram], placement: Placement) -> _Scene:
        centres, radii = placement.centres, placement.radii
        routes = {
            (i, j): line
            for i, j in combinations(range(frames[-1].num_rooms), 2)
            for line in connect(placement, ((i, j, 0),))
        }
        final = frames[-1].relations
        nested: dict[int, list[Relation]] = {room: [] for room in range(len(radii))}
        for relation in final:
            room = _inner(placement, relation)
            if room is not None:
                nested[room].append(relation)
        kept = {t[:2]: t for relations in nested.values() for t in relations}
        broken = {
            t
            for t in {t for frame in frames for t in frame.relations}
            if (t[:2] in kept and t != kept[t[:2]])
            or (t[:2] in routes and not is_honoured(centres, radii, *t))
        }
        lines = [routes[t[:2]] for t in final if t[2] != NO_EDGE and t[:2] in routes]
        spots = tuple(label_spot(placement, lines, room) for room in range(len(radii)))
        return cls(tuple(frames), placement, routes, nested, broken, spots)

    def draw(self, pen: Pen, number: int) -> None:
        """State ``number``; the last one stays once it is reached."""
        frame = self.frames[min(number, len(self.frames) - 1)]
        relation_of = {(i, j): r for i, j, r in frame.relations}
        for pair, route in self.routes.items():
            if pair not in relation_of:
                pen.hint(route)
        for i, j, r in frame.relations:
            if r != NO_EDGE and (i, j) in self.routes:
                pen.line(replace(self.routes[i, j], broken=(i, j, r) in self.broken))
        for room, code in enumerate(frame.rooms):
            spot, chord = self.spots[room]
            rim = self._rim(room, relation_of)
            pen.room(self.placement, room, room_style(code), spot, chord, rim)
        pen.progress(_settled(frame, self.frames[-1]))

    def _rim(self, room: int, relation_of: Mapping[tuple[int, int], int]) -> Rim:
        """What a state knows of the room's lying where it does."""
        said = [(i, j, relation_of.get((i, j))) for i, j, _ in self.nested[room]]
        if any(relation in self.broken for relation in said):
            return "broken"
        return "unknown" if any(r is None for *_, r in said) else "known"


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
    _check_positive(columns=columns, cell=cell, dpi=dpi)
    if max_frames < 2:
        raise ValueError(f"max_frames={max_frames}: expected at least 2, the first and the last")
    titles = [f"state {k}" for k in range(len(frames))] if titles is None else titles
    if len(titles) != len(frames):
        raise ValueError(f"{len(titles)} titles for {len(frames)} frames; give one per frame")
    chosen = _evenly(_changes([frames]), max_frames)
    chosen[-1] = len(frames) - 1  # the same state, under its own title
    half = math.ceil(len(chosen) / 2)
    columns = min(columns or max(4, half), len(chosen))
    page = Page(math.ceil(len(chosen) / columns), columns, cell, header_height(cell))
    scene = _Scene.build([frames[k] for k in chosen], place(frames[-1]))
    sheet = Sheet.blank(page, _entries([scene]) if legend else (), dpi)
    scale = card_scales([scene.placement], cell)[0]
    for index, number in enumerate(chosen):
        scene.draw(sheet.card(index, scale, title=titles[number]), index)
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
    path = Path(path)
    if path.suffix.lower() != ".gif":
        raise ValueError(f"cannot write {path.name!r}: choose a name that ends in .gif")
    if len(trajectories) == 0:
        raise ValueError("no trajectories to draw: an animation needs at least one")
    for index, frames in enumerate(trajectories):
        _check_frames(frames, f"trajectory {index}")
    _check_positive(columns=columns, cell=cell, dpi=dpi)
    for name, seconds in (("seconds_per_frame", seconds_per_frame), ("hold", hold)):
        if not SHORTEST_FRAME <= seconds <= 600:
            raise ValueError(f"{name}={seconds}: expected {SHORTEST_FRAME} to 600 seconds")
    film = _Film.build(trajectories, columns, cell, dpi)
    numbers = _changes(trajectories)
    some = {k: film.picture(k) for k in _evenly(numbers, PALETTE_FRAMES)}
    pictures = (some[k] if k in some else film.picture(k) for k in numbers)
    times = [seconds_per_frame] * (len(numbers) - 1) + [hold]
    write_gif(path, pictures, Palette(list(some.values())), times)


@dataclass(frozen=True)
class _Film:
    """A grid of scenes and everything that its pictures share."""

    scenes: tuple[_Scene, ...]
    page: Page
    scales: tuple[float, ...]
    dpi: float

    @classmethod
    def build(
        cls,
        trajectories: Sequence[Sequence[PartialDiagram]],
        columns: int | None,
        cell: float,
        dpi: float,
    ) -> _Film:
        placements = place_all([frames[-1] for frames in trajectories])
        scenes = tuple(map(_Scene.build, trajectories, placements))
        columns = min(columns or math.ceil(math.sqrt(len(scenes))), len(scenes))
        page = Page(math.ceil(len(scenes) / columns), columns, cell, 0.0)
        return cls(scenes, page, tuple(card_scales(placements, cell)), dpi)

    def picture(self, number: int) -> Pixels:
        """State ``number`` of every scene: UInt8[H, W, 3]."""
        sheet = Sheet.blank(self.page, _entries(self.scenes), self.dpi)
        for index, (scene, scale) in enumerate(zip(self.scenes, self.scales, strict=True)):
            scene.draw(sheet.card(index, scale), number)
        canvas = FigureCanvasAgg(sheet.finish())
        canvas.draw()
        return np.asarray(canvas.buffer_rgba())[..., :3].copy()


def _inner(placement: Placement, relation: Relation) -> int | None:
    """The room that this relation says lies in the other, if its bubble does."""
    i, j, r = relation
    if r == INSIDE and placement.inside[i, j]:
        return i
    return j if r == SURROUNDING and placement.inside[j, i] else None


def _entries(scenes: Iterable[_Scene]) -> tuple[Entry, ...]:
    frames = [frame for scene in scenes for frame in scene.frames]
    rooms = {code for frame in frames for code in frame.rooms}
    unknown = set() if all(frame.is_complete for frame in frames) else {None}
    broken = BROKEN if any(scene.broken for scene in scenes) else ""
    return legend_entries(rooms | unknown, broken=broken)


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


def _check_positive(**given: float | None) -> None:
    for name, value in given.items():
        if value is not None and not value > 0:
            raise ValueError(f"{name}={value} must be positive")
