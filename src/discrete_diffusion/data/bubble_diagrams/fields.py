"""The parts of a diagram, checked one field at a time: room types, relations, boxes."""

from __future__ import annotations

import difflib
import math
import reprlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from discrete_diffusion.rooms import RELATIONS, ROOM_TYPES

NO_EDGE = RELATIONS.index("no-edge")
NUM_RELATIONS = NO_EDGE
"""Relations that join two rooms (codes 0..9); code 10, "no-edge", is their absence."""

_ROOM_CODES = {name: code for code, name in enumerate(ROOM_TYPES)}
_RELATION_CODES = {name: code for code, name in enumerate(RELATIONS)}


class DiagramError(ValueError):
    """A diagram that is wrong in one place: ``field`` (e.g. "relations[3]") and the ``reason``."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"field '{field}': {reason}")
        self.field, self.reason = field, reason


def inverse_relation(relation: int) -> int:
    """The relation seen from the other room: 9 - r, and "no-edge" for itself."""
    return relation if relation == NO_EDGE else NUM_RELATIONS - 1 - relation


def room_code(value: object, field: str = "room") -> int:
    """The code of a room type given by name or code; ``DiagramError`` if unknown."""
    return _code(value, _ROOM_CODES, "room type", field)


def relation_code(value: object, field: str = "relation") -> int:
    """The code 0..10 of a relation given by name or code; ``DiagramError`` if unknown."""
    return _code(value, _RELATION_CODES, "relation", field)


def _code(value: object, codes: dict[str, int], what: str, field: str) -> int:
    if isinstance(value, str):
        if value in codes:
            return codes[value]
        close = difflib.get_close_matches(value, codes, n=1, cutoff=0.5)
        hint = f"did you mean {close[0]!r}?" if close else f"one of {', '.join(codes)}"
        raise DiagramError(field, f"unknown {what} {reprlib.repr(value)}; {hint}")
    if value is None:
        raise DiagramError(field, f"null: a complete diagram states every {what}")
    code = checked_integer(value, field, f"a {what} (name or code)")
    if not 0 <= code < len(codes):
        raise DiagramError(field, f"{what} code {reprlib.repr(code)} is not in 0..{len(codes) - 1}")
    return code


def checked_integer(value: object, field: str, what: str = "an integer") -> int:
    """An integer (numpy's too, never a bool), or ``DiagramError`` naming ``field``."""
    if type(value) is int:  # the usual case, without the cost of the checks below
        return value
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise DiagramError(field, f"expected {what}, got {reprlib.repr(value)}")
    return int(value)


def finite_number(value: object, field: str) -> float:
    """A number that float64 can hold; ``DiagramError`` for anything else, NaN and inf included."""
    if type(value) is float and math.isfinite(value):  # the usual case
        return value
    number = math.nan
    if isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool):
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
    if not math.isfinite(number):
        raise DiagramError(field, f"{reprlib.repr(value)} is not a finite number")
    return number


def checked_box(value: object, field: str) -> tuple[float, float, float, float]:
    """(x0, y0, x1, y1) of four finite numbers with x0 <= x1 and y0 <= y1, or ``DiagramError``."""
    if not isinstance(value, list | tuple | np.ndarray) or len(value) != 4:
        raise DiagramError(field, f"expected 4 numbers x0, y0, x1, y1, got {reprlib.repr(value)}")
    x0, y0, x1, y1 = (finite_number(side, f"{field}[{k}]") for k, side in enumerate(value))
    if x1 < x0 or y1 < y0:
        raise DiagramError(field, f"expected x0 <= x1 and y0 <= y1, got {[x0, y0, x1, y1]}")
    return x0, y0, x1, y1


def checked_relations(relations: Sequence[Any], n: int) -> tuple[tuple[int, int, int], ...]:
    """Triples sorted by pair, each pair i < j at most once, codes 0..9."""
    checked: dict[tuple[int, int], int] = {}
    for k, triple in enumerate(relations):
        where = f"relations[{k}]"
        i, j, r = _triple(triple, where)
        i, j, r = checked_integer(i, where), checked_integer(j, where), checked_integer(r, where)
        if not 0 <= i < j < n:
            raise DiagramError(where, f"pair ({i}, {j}): expected 0 <= i < j < {n} rooms")
        if not 0 <= r < NUM_RELATIONS:
            raise DiagramError(where, f"relation code {r} is not in 0..{NUM_RELATIONS - 1}")
        if (i, j) in checked:
            raise DiagramError(where, f"pair ({i}, {j}) is listed twice")
        checked[i, j] = r
    return tuple(sorted((i, j, r) for (i, j), r in checked.items()))


def _triple(value: object, field: str) -> tuple[Any, Any, Any]:
    if not isinstance(value, list | tuple | np.ndarray) or len(value) != 3:
        raise DiagramError(field, f"expected [i, j, relation], got {reprlib.repr(value)}")
    return value[0], value[1], value[2]


def read_relations(value: object, n: int, field: str) -> tuple[tuple[int, int, int], ...]:
    """Triples i < j out of a JSON list of [i, j, relation] between ``n`` rooms.

    Names and codes are accepted; a pair i > j is flipped with r -> 9 - r; "no-edge" lists nothing.
    Raises ``DiagramError`` naming ``field[k]``; a pair must not be listed twice.
    """
    if not isinstance(value, list | tuple):
        raise DiagramError(field, f"expected a list of [i, j, relation], got {reprlib.repr(value)}")
    listed: dict[tuple[int, int], int] = {}
    for k, triple in enumerate(value):
        where = f"{field}[{k}]"
        i, j, name = _triple(triple, where)
        i = checked_integer(i, where, "a room number")
        j = checked_integer(j, where, "a room number")
        relation = relation_code(name, where)
        if not (0 <= i < n and 0 <= j < n and i != j):
            shown = f"({reprlib.repr(i)}, {reprlib.repr(j)})"
            raise DiagramError(where, f"pair {shown}: expected two different rooms in 0..{n - 1}")
        if i > j:
            i, j, relation = j, i, inverse_relation(relation)
        if (i, j) in listed:
            raise DiagramError(where, f"pair ({i}, {j}) is listed twice")
        listed[i, j] = relation
    return tuple((i, j, r) for (i, j), r in listed.items() if r != NO_EDGE)


def read_rooms(value: object, field: str) -> tuple[int, ...]:
    """Room codes out of a JSON list of names or codes; ``DiagramError`` naming ``field[k]``."""
    if not isinstance(value, list | tuple):
        raise DiagramError(field, f"expected a list of room types, got {reprlib.repr(value)}")
    if not value:
        raise DiagramError(field, "a diagram needs at least one room")
    return tuple(room_code(room, f"{field}[{k}]") for k, room in enumerate(value))
