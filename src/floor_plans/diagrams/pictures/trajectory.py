"""Pictures of the states of a sampler, as film strips and animated GIFs, and their files.

Bubbles keep the positions of the finished diagram in all states; only types and relations change.
A grey bubble with a question mark is an unknown room, a dotted line an unknown pair, a dashed red
line a relation that the positions violate. The rim of a bubble that is finally inside others is
dotted until this is known, and dashed red where the state contradicts it. The bar at the bottom of
a card is the share of rooms and pairs that are final.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from discrete_diffusion.config import counted
from discrete_diffusion.layout import VocabConfig
from discrete_diffusion.runtime import atomic_write
from floor_plans.diagrams.diagram import BubbleDiagram
from floor_plans.diagrams.partial import PartialDiagram, decode_partial
from floor_plans.diagrams.pictures import diagram_pictures
from floor_plans.diagrams.pictures.bubbles import Knowledge, Plan
from floor_plans.diagrams.pictures.placement import (
    Placement,
    is_honoured,
    label_spot,
    place_all,
    route_lines,
)
from floor_plans.diagrams.vocabulary import ADJACENT, INSIDE, NO_EDGE, SURROUNDING

logger = logging.getLogger(__name__)

MAX_FRAMES = 100
"""Most frames of a GIF; twenty rooms have two hundred states, and frames are slow to draw."""
PALETTE_FRAMES = 8  # frames from which the colours of a GIF are chosen
MAX_SHOWN = 8  # most states in a film strip
SECONDS_PER_FRAME, SECONDS_AT_END = 0.12, 2.0

Pixels = NDArray[np.uint8]
NUM_COLOURS = 255  # most colours of a palette: a GIF has 256, of which one marks unchanged pixels
TRAJECTORY = ("trajectory.gif", "trajectory.png")


class _Film:
    """Sampling trajectory of one diagram, and what the pictures of its states have in common.
    ``lines``: of all pairs. ``nested``: relation of each pair that nests two bubbles in the
    finished diagram; ``outer``: these pairs by inner room. ``spots``: see ``label_spot``."""

    def __init__(self, frames: Sequence[PartialDiagram], placement: Placement) -> None:
        self.frames, self.placement, self.finished = frames, placement, frames[-1]
        # lines of all pairs, since any may appear in a state
        rooms, relations = range(self.finished.num_rooms), self.finished.relations
        self.lines = route_lines(placement, combinations(rooms, 2))
        self.nested: dict[tuple[int, int], int] = {}
        self.outer: dict[int, list[tuple[int, int]]] = {room: [] for room in rooms}
        for i, j, r in relations:
            inner, outer = (j, i) if r == SURROUNDING else (i, j)
            if r in (INSIDE, SURROUNDING) and placement.inside[inner, outer]:
                self.nested[i, j] = r
                self.outer[inner].append((i, j))
        # labels avoid the lines of the finished diagram
        drawn = [self.lines[i, j] for i, j, r in relations if r != NO_EDGE and (i, j) in self.lines]
        self.spots = [label_spot(placement, drawn, room) for room in rooms]

    def known(self, pair: tuple[int, int], r: int | None) -> Knowledge:
        """State of a pair with relation ``r``, None if unknown, by the final positions."""
        if r is None:
            return "unknown"
        if pair in self.nested:
            return "known" if r == self.nested[pair] else "broken"
        lies = is_honoured(self.placement.centres, self.placement.radii, *pair, r)
        knowledge: Knowledge = "wall" if r == ADJACENT else "known"
        return knowledge if lies or pair not in self.lines else "broken"

    def draw(self, pen: diagram_pictures.Pen, number: int) -> None:
        """Draw state ``number``, or the last state if there are fewer."""
        frame = self.frames[min(number, len(self.frames) - 1)]
        relation = {(i, j): r for i, j, r in frame.relations}
        for pair, line in self.lines.items():
            if relation.get(pair) != NO_EDGE:
                pen.line(line, self.known(pair, relation.get(pair)))
        # bubbles, with rims by the state of their containment
        for room, code in enumerate(frame.rooms):
            around = {self.known(pair, relation.get(pair)) for pair in self.outer[room]}
            rim: Knowledge = "unknown" if "unknown" in around else "known"
            pen.room(room, code, *self.spots[room], "broken" if "broken" in around else rim)
        # share of rooms and pairs that equal the finished diagram
        rooms = sum(a == b for a, b in zip(frame.rooms, self.finished.rooms, strict=True))
        pairs = len(set(frame.relations) & set(self.finished.relations))
        all_tokens = len(self.finished.rooms) + len(self.finished.relations)
        pen.progress((rooms + pairs) / all_tokens)


def plot_film_strip(frames: Sequence[PartialDiagram], path: str | Path | None = None) -> Figure:
    """Plot states of one diagram, the finished one last, on a row of cards. At most 8 evenly spaced
    states are shown, the first and last included, numbered from 0."""
    path = diagram_pictures.checked_path(path)
    numbers = _evenly(len(frames), MAX_SHOWN)
    (film,) = films = _films([[frames[k] for k in numbers]])
    rows, columns = diagram_pictures.grid_shape(len(numbers), 4)
    sheet = diagram_pictures.Sheet(rows, columns, [film.placement], titled=True, key=_key(films))
    for index, number in enumerate(numbers):
        film.draw(sheet.card(index, film.placement, f"state {number}"), index)
    return sheet.finish(path)


def animate_trajectories(
    trajectories: Sequence[Sequence[PartialDiagram]],
    path: str | Path,
    *,
    cell: float = 2.1,
    dpi: float = 110.0,
) -> None:
    """Write a looping GIF of the states of several diagrams, the finished one last, side by side;
    a shorter trajectory stays at its last state. At most ``MAX_FRAMES`` states are shown."""
    rows, columns = diagram_pictures.grid_shape(len(trajectories))
    films = _films(trajectories)
    placements, key = [film.placement for film in films], _key(films)

    def picture(number: int) -> Pixels:
        """Frame ``number`` of the animation: this state of every sampling trajectory."""
        sheet = diagram_pictures.Sheet(rows, columns, placements, cell=cell, dpi=dpi, key=key)
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


def _key(films: Sequence[_Film]) -> tuple[diagram_pictures.Entry, ...]:
    frames = [frame for film in films for frame in film.frames]
    stated = [(film, t) for film in films for frame in film.frames for t in frame.relations]
    broken = any(film.known((i, j), r) == "broken" for film, (i, j, r) in stated)
    unknown = not all(frame.is_complete for frame in frames)
    name = "Contradicts the positions" if broken else ""
    return diagram_pictures.key_entries(frames, unknown=unknown, broken=name)


def _evenly(count: int, most: int) -> list[int]:
    """At most ``most`` evenly spaced numbers from 0 to ``count`` - 1, including both."""
    return [round(k) for k in np.linspace(0, count - 1, min(most, count))]


class Palette:
    """Most frequent colours of ``pictures`` UInt8[H, W, 3], at most 255. The flat colours of a plot
    are kept; rare blends along edges become the nearest colour by Euclidean distance in RGB."""

    def __init__(self, pictures: Sequence[Pixels]) -> None:
        packed = np.concatenate([_packed(picture).ravel() for picture in pictures])
        colours, counts = np.unique(packed, return_counts=True)
        self._colours = _channels(colours[np.argsort(-counts, kind="stable")[:NUM_COLOURS]])
        self._index = np.full(2**24, -1, dtype=np.int16)  # index by colour, -1: not yet

    def apply(self, picture: Pixels) -> Image.Image:
        """Convert a picture to these colours, mode P."""
        packed = _packed(picture)
        # nearest palette colour of colours that were not seen before
        new = np.unique(packed[self._index[packed] < 0])
        if len(new):
            from scipy.cluster.vq import vq  # slow

            self._index[new], _ = vq(_channels(new), self._colours)
        indices = self._index[packed].astype(np.uint8)
        image = Image.frombytes("P", (indices.shape[1], indices.shape[0]), indices.tobytes())
        image.putpalette(self._colours.astype(np.uint8).tobytes())
        return image


def write_gif(
    path: Path, pictures: Iterable[Pixels], palette: Palette, seconds: Sequence[float]
) -> None:
    """Write pictures UInt8[H, W, 3] of one size, each shown for its ``seconds``, as a looping GIF,
    whole or not at all. Equal consecutive pictures are merged, and pictures consumed in turn."""
    images = map(palette.apply, pictures)
    with atomic_write(path) as unfinished:
        how: dict[str, Any] = {"format": "GIF", "save_all": True, "loop": 0}
        times = [round(1000 * each) for each in seconds]
        next(images).save(unfinished, append_images=images, duration=times, **how)


def _packed(picture: Pixels) -> NDArray[np.int32]:
    """Int32[H, W]: each colour packed into one integer."""
    return picture.astype(np.int32) @ np.array([1 << 16, 1 << 8, 1], dtype=np.int32)


def _channels(packed: NDArray[np.int32]) -> NDArray[np.float64]:
    """Float[..., 3]: channels of packed colours, the inverse of ``_packed``."""
    return np.stack([packed >> 16, (packed >> 8) & 255, packed & 255], axis=-1).astype(np.float64)


def save_trajectory(trajectory: Tensor | None, folder: Path, vocab: VocabConfig) -> None:
    """Write trajectories of samples Int[K, M, L]: ``trajectory.gif`` of all, ``trajectory.png``, a
    film strip of the first. Without a trajectory, files of an earlier run are removed."""
    animation, strip = (folder / name for name in TRAJECTORY)
    if trajectory is None:
        earlier = [path for path in (animation, strip) if path.is_file()]
        for path in earlier:
            path.unlink()
        if earlier:
            logger.info("removed, as they show earlier samples: %s", ", ".join(map(str, earlier)))
        return
    # states of each sample that differ from the previous one, since others may change in between
    all_states = [decode_partial(x, vocab) for x in trajectory.unbind(dim=1)]
    states = [own[:1] + [new for old, new in pairwise(own) if new != old] for own in all_states]
    count = max(map(len, states))
    shown = f", {MAX_FRAMES} of {count:,} states" if count > MAX_FRAMES else ""
    frames = counted(min(count, MAX_FRAMES), "frame")
    logger.info("drawing %s of %s%s", frames, counted(len(states), "diagram"), shown)
    animate_trajectories(states, animation)
    plot_film_strip(states[0], strip)
    logger.info("on the way out of the noise: %s, %s", animation, strip)


@dataclass(frozen=True)
class CompletedRow:
    """A partial diagram and completions of it, with the same room numbers."""

    title: str
    given: PartialDiagram
    completions: Sequence[BubbleDiagram]


def plot_completions(rows: Sequence[CompletedRow], path: str | Path | None = None) -> Figure:
    """Plot a row for each partial diagram, placed by its known relations, and its completions; see
    ``plot_grid``. A grey bubble is a room of unknown type, a dotted line an unknown pair."""
    path = diagram_pictures.checked_path(path)
    plans: list[Plan] = []
    for row in rows:
        plans += [row.given, *row.completions]
    placements = place_all(plans)
    unknown = not all(row.given.is_complete for row in rows)
    key = diagram_pictures.key_of(plans, placements, unknown=unknown)
    columns = 1 + max(len(row.completions) for row in rows)
    sheet = diagram_pictures.Sheet(len(rows), columns, placements, titled=True, key=key)
    placed = iter(placements)
    for index, row in zip(range(0, len(rows) * columns, columns), rows, strict=True):
        given = sheet.card(index, next(placed), row.title)
        listed = {(i, j) for i, j, _ in row.given.relations}
        pairs = [pair for pair in combinations(range(row.given.num_rooms), 2) if pair not in listed]
        for line in route_lines(given.placement, pairs).values():
            given.line(line, "unknown")
        diagram_pictures.draw_diagram(given, row.given)
        for k, diagram in enumerate(row.completions, start=1):
            diagram_pictures.draw_diagram(sheet.card(index + k, next(placed), str(k)), diagram)
    return sheet.finish(path)
