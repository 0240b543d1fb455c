"""Bubbles of rooms: styles by room type, and constraints on their places as arrays over pairs.

Axes: ``B`` problems, ``n`` rooms; an entry [b, i, j] concerns room i relative to room j.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Literal, Protocol

import numpy as np
import yaml

from discrete_diffusion.viz import FAINT_LINE, LINE
from floor_plans.diagrams import vocabulary
from floor_plans.diagrams.geometry import Flags, Floats, Ints, transitive_closure

HINT_LINE, WALL_LINE = "#b6c1d0", "#cdd5e0"
BROKEN_LINE = "#d9546a"
PROGRESS = "#8ea2c0"
CARD, CARD_EDGE = "#fbfcfd", FAINT_LINE

Dashes = tuple[int, tuple[float, float]]
DOTS: Dashes = (0, (0.1, 2.6))  # dots, for lines with round caps
DASHES: Dashes = (0, (2.5, 2.0))

Knowledge = Literal["known", "wall", "unknown", "broken"]
"""State of a relation: stated, stated as a wall without door, unknown, or violated in a picture."""

LINE_STYLES: dict[Knowledge, tuple[str, Dashes | str]] = {
    "known": (LINE, "solid"),
    "wall": (WALL_LINE, "solid"),
    "unknown": (HINT_LINE, DOTS),
    "broken": (BROKEN_LINE, DASHES),
}
"""Colour and dashes of each state."""


@dataclass(frozen=True)
class RoomStyle:
    """Style of the rooms of a type. ``label``: short name that fits a bubble. ``name``: full name
    for the legend. ``colour``: fill, ``#rrggbb``. ``radius``: of the bubble, living room = 1."""

    label: str
    name: str
    colour: str
    radius: float


_TEXT = Path(__file__).with_name("room_styles.yaml").read_text(encoding="utf-8")
ROOM_STYLES = tuple(RoomStyle(*style) for style in yaml.safe_load(_TEXT).values())
"""Style of each room code, in the order of ``vocabulary.ROOM_TYPES``."""

UNKNOWN_ROOM = RoomStyle("?", "Not known yet", "#eef0f4", 0.58)


def room_style(code: int | None) -> RoomStyle:
    """Style of the room type ``code``, or of an unknown type if it is None."""
    return UNKNOWN_ROOM if code is None else ROOM_STYLES[code]


def shade(colour: str, factor: float) -> str:
    """Darken ``#rrggbb``: multiply every channel by ``factor`` in 0..1."""
    return "#" + "".join(f"{round(channel * factor):02x}" for channel in bytes.fromhex(colour[1:]))


def tint(colour: str, share: float) -> str:
    """Lighten ``#rrggbb``: mix it with white, ``share`` in 0..1 of the colour."""
    channels = bytes.fromhex(colour[1:])
    return "#" + "".join(f"{round(255 - share * (255 - channel)):02x}" for channel in channels)


ORDER_MARGIN = 0.3  # least distance of centres along an axis on which a relation orders them
GAP, STRANGER_GAP = 0.34, 0.5
"""Free space between the bubbles of related rooms, and of rooms without a relation."""
INNER_GAP = 0.1  # free space between an inner bubble and the rim of its outer one
FAR = 1e6

_PACKING = (0.0, 1.0, 2.0, 2.155, 2.414, 2.702, 3.0, 3.0)
"""Radius of the smallest circle around k unit circles, k = 0..7."""


class Plan(Protocol):
    """A complete or partial diagram; see ``PartialDiagram``. ``rooms``: a room type code per room,
    None if unknown. ``relations``: (i, j, r); a "no-edge" pair is placed like an unlisted one."""

    @property
    def rooms(self) -> Sequence[int | None]: ...

    @property
    def relations(self) -> Sequence[tuple[int, int, int]]: ...


@dataclass(frozen=True)
class Constraints:
    """Hard and soft constraints of B diagrams with n rooms each.

    ``radii``: Float[B, n].
    ``inside``: Bool[B, n, n], bubble i lies in bubble j (transitive, free of cycles).
    ``related``: Bool[B, n, n], a relation is listed.
    ``apart``: Bool[B, n, n], the bubbles must not overlap.
    ``order``: Float[B, n, n, 2] in {-1, 0, 1}: sign of x_i - x_j and y_i - y_j, 0 if free;
        free of cycles.
    ``corridor``: Float[B, n, n, 2], soft upper bound on |x_i - x_j| (straight relations).
    ``least``, ``most``: Float[B, n, n], hard bounds on the distance of centres.
    ``touching``: Float[B, n, n], distance at which two bubbles that must be apart touch.
    ``soft_margin``: Float[B, n, n, 1], soft lower bound on |x_i - x_j| of ordered centres.
    ``soft_least``, ``soft_most``: Float[B, n, n], soft bounds on the distance of centres, weighed
        by ``push`` and ``pull``.
    """

    radii: Floats
    inside: Flags
    related: Flags
    apart: Flags
    order: Floats
    corridor: Floats
    least: Floats
    most: Floats
    touching: Floats
    soft_margin: Floats
    soft_least: Floats
    soft_most: Floats
    push: Floats
    pull: Floats

    def repeat(self, times: int) -> Constraints:
        """Repeat every problem ``times`` times in a row."""
        return Constraints(**{f.name: getattr(self, f.name).repeat(times, 0) for f in fields(self)})


def build_constraints(diagrams: Sequence[Plan]) -> Constraints:
    """Build the constraints of diagrams with the same number of rooms."""
    num, n = len(diagrams), len(diagrams[0].rooms)
    order = np.zeros((num, n, n, 2))
    related = np.zeros((num, n, n), dtype=bool)
    contained = np.zeros((num, n, n), dtype=bool)
    # tables of the listed relations
    for b, diagram in enumerate(diagrams):
        for i, j, r in diagram.relations:
            order[b, i, j] = vocabulary.RELATION_X_ORDER[r], vocabulary.RELATION_Y_ORDER[r]
            related[b, i, j] = related[b, j, i] = r != vocabulary.NO_EDGE
            contained[b, i, j] = r == vocabulary.INSIDE
            contained[b, j, i] = r == vocabulary.SURROUNDING
    # orders on a cycle that contradict a nearly sorted sequence are dropped
    order = order - order.swapaxes(1, 2)
    before = (order < 0).transpose(0, 3, 1, 2)  # [b, axis, i, j]: i comes before j
    has_cycle = transitive_closure(before).diagonal(axis1=2, axis2=3).any(axis=2)
    for b, axis in np.argwhere(has_cycle):
        place = _nearly_sorted(before[b, axis])
        order[b, :, :, axis] *= np.sign(place[:, None] - place) == order[b, :, :, axis]
    # so are cycles of containment
    on_cycle = transitive_closure(contained).swapaxes(1, 2)
    inside = transitive_closure(contained & ~on_cycle)
    base = np.array([[room_style(room).radius for room in d.rooms] for d in diagrams])
    return _constraints(order, related, inside, _grown_radii(base, inside))


def _nearly_sorted(before: Flags) -> Ints:
    """Position of each room, Int[n], in a sequence that contradicts few of the arcs Bool[n, n].
    Eades, Lin and Smyth (1993): sources go to the front, sinks to the back, and where there is
    neither, the room that precedes the most and follows the fewest goes to the front."""
    front: list[int] = []
    back: list[int] = []
    left = list(range(len(before)))
    while left:
        # the first sink, else the first source, else the best of the rest
        arcs = before[np.ix_(left, left)]
        precedes, follows = arcs.sum(axis=1), arcs.sum(axis=0)
        if (precedes == 0).any():
            back.insert(0, left.pop(int((precedes == 0).argmax())))
        elif (follows == 0).any():
            front.append(left.pop(int((follows == 0).argmax())))
        else:
            front.append(left.pop(int((precedes - follows).argmax())))
    return np.array(front + back).argsort()


def _grown_radii(base: Floats, inside: Flags) -> Floats:
    """Radii Float[B, n]: inner bubbles shrink to fit, outer ones grow for inner ones and labels."""
    # inner bubbles are at most a share of the smallest one around them
    around = np.where(inside, base[:, None, :], FAR).min(axis=2)
    radii = np.minimum(base, np.maximum(0.74 * around, 0.5))
    # outer bubbles hold a packing of their directly inner ones
    holds = inside.swapaxes(1, 2)  # [b, outer, inner]
    count = (holds & ~(holds @ holds)).sum(axis=2)  # of directly inner bubbles
    factor = np.array(_PACKING)[count.clip(max=7)] * np.sqrt((count / 7).clip(min=1.0))
    for _ in range(base.shape[1]):  # inner bubbles may hold others, which grow first
        widest = np.where(holds, radii[:, None, :], 0.0).max(axis=2) + INNER_GAP / 2
        needed = np.where(count > 0, factor * widest + INNER_GAP + 0.36, 0.0)
        radii = np.maximum(radii, needed)
    return radii


def _constraints(order: Floats, related: Flags, inside: Flags, radii: Floats) -> Constraints:
    # bubbles may overlap if they are nested, or a third one lies in both
    same = np.eye(radii.shape[1], dtype=bool)
    nested = inside | inside.swapaxes(1, 2)
    share_a_third = inside.swapaxes(1, 2) @ inside  # [b, i, j]: a room lies in both i and j
    apart = ~nested & ~share_a_third & ~same
    # distances of centres at which bubbles touch from outside (total) and from inside (slack)
    total = radii[:, :, None] + radii[:, None, :]
    larger = np.maximum(radii[:, :, None], radii[:, None, :])
    slack = np.abs(radii[:, :, None] - radii[:, None, :]) - INNER_GAP
    # relations along one axis, and along both
    straight = (np.abs(order).sum(axis=-1, keepdims=True) == 1) & (order == 0)
    diagonal = (np.abs(order).sum(axis=-1) == 2)[..., None]
    gap = np.where(related, GAP, STRANGER_GAP)
    return Constraints(
        radii=radii,
        inside=inside,
        related=related,
        apart=apart,
        order=order,
        corridor=np.where(straight, 0.45 * larger[..., None], FAR),
        least=np.where(apart, total + 0.75 * gap, 0.0),
        most=np.where(nested, slack, FAR),
        touching=np.where(apart, total + 0.02, 0.0),
        soft_margin=np.where(diagonal, 0.8 * larger[..., None], ORDER_MARGIN + 0.1),
        soft_least=np.select([apart, nested], [total + gap, 0.85 * slack], 0.0),
        soft_most=np.select([same, nested, related], [FAR, slack, total + 0.55], total + 1.4),
        push=np.where(apart, 1.0, 0.1),
        pull=np.select([nested, related], [2.0, 0.12], 0.04 * min(1.0, 8 / radii.shape[1]) ** 2),
    )
