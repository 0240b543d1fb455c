"""Fields of a diagram: room types in any wording, and checks of rooms, relations and boxes."""

from __future__ import annotations

import difflib
import math
import os
import reprlib
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from floor_plans.diagrams.vocabulary import (
    ADJACENCY,
    ADJACENT,
    DIRECTIONS,
    DOOR,
    INVERSE,
    NO_EDGE,
    RELATIONS,
    ROOM_TYPES,
    VOCABULARIES,
    PlanVocabulary,
    Triples,
)

# words for room types, words that may mean several, and tables of codes
ROOM_WORDS = yaml.safe_load(Path(__file__).with_name("room_words.yaml").read_text(encoding="utf-8"))


def plain(word: str) -> str:
    """Letters and digits of a word in lower case."""
    return "".join(filter(str.isalnum, word.casefold()))


_NUMBERED = ("bedroom", "bed")
_DIGITS = "0123456789"

_MEANT = {plain(word): name for name, words in ROOM_WORDS["words"].items() for word in words}
_MAY_MEAN = {plain(word): names for word, names in ROOM_WORDS["may_mean"].items()}


def room_type_of(word: str, names: Collection[str]) -> str | None:
    """Room type among ``names`` that a word means in any spelling, such as "Living" and
    "living_room"; None if unknown or ambiguous."""
    own = {plain(name): name for name in names}
    name = own.get(plain(word)) or _MEANT.get(plain(word))
    return name if name in names else None


def strip_number(word: str) -> str:
    """Strip the number from a word such as "Toilet 2", "bedroom|0" or "03 Kitchen", if any."""
    bare = plain(word).strip(_DIGITS)
    return bare if bare and bare != plain(word) else word


def is_numbered_bedroom(word: object) -> bool:
    """True for a bedroom with a number, such as "Bedroom 2"."""
    return isinstance(word, str) and strip_number(word) in _NUMBERED and word not in _NUMBERED


def may_mean(word: str, names: Collection[str]) -> list[str]:
    """Room types among ``names`` that an ambiguous word may mean."""
    return [name for name in _MAY_MEAN.get(plain(word), ()) if name in names]


_ROOM_CODES = {name: code for code, name in enumerate(ROOM_TYPES)}
_RELATION_CODES = {name: code for code, name in enumerate(RELATIONS)}

_LONGEST_FIELD = 80  # most characters of a field's name that a message quotes


class DiagramError(ValueError):
    """Error for a ``reason`` in a ``field``, such as "relations[3]", empty for a whole diagram."""

    def __init__(self, field: str, reason: str) -> None:
        if not field.isprintable() or len(field) > _LONGEST_FIELD:  # a key of somebody's metadata
            field = ascii(field[:_LONGEST_FIELD])[1:-1]
        super().__init__(f"field '{field}': {reason}" if field else reason)
        self.field, self.reason = field, reason


class SizeError(DiagramError):
    """Error for a diagram of ``num_rooms`` rooms, more than are allowed."""

    def __init__(self, field: str, reason: str, *, num_rooms: int) -> None:
        super().__init__(field, reason)
        self.num_rooms = num_rooms


def room_code(value: object, field: str = "room", vocabulary: PlanVocabulary | None = None) -> int:
    """Code of a room type in ``vocabulary``, or in any. ``value``: a name or an unambiguous word of
    room_words.yaml, also with a number, or RPLAN's code 0..12; else ``DiagramError``."""
    codes = _ROOM_CODES
    if vocabulary is not None:
        codes = {name: _ROOM_CODES[name] for name in vocabulary.room_types}
    if isinstance(value, str) and value not in codes:
        bare = "Bedroom" if is_numbered_bedroom(value) else strip_number(value)
        value = room_type_of(value, codes) or room_type_of(bare, codes) or value
    return _code(value, codes, "room type", field, len(DIRECTIONS.room_types))


def relation_code(value: object, field: str = "relation") -> int:
    """Code of a relation, given by name or by RPLAN's code 0..10; ``DiagramError`` if unknown."""
    return _code(value, _RELATION_CODES, "relation", field, NO_EDGE + 1)


def _code(value: object, codes: dict[str, int], what: str, field: str, num_codes: int) -> int:
    if isinstance(value, str):
        if value in codes:
            return codes[value]
        close = difflib.get_close_matches(value, codes, n=1, cutoff=0.5)
        guess = f"; did you mean {close[0]!r}?" if close else "."
        without_directions = "LivingRoom" in codes and not {*codes} >= {*DIRECTIONS.room_types}
        is_other = close and close[0] not in (*DIRECTIONS.room_types, *DIRECTIONS.relations)
        if is_other and not without_directions:
            # a word of plans without directions, and what it is in others
            meant = may_mean(close[0], codes)
            others = f"; in others it is {' or '.join(meant)}" if meant else ""
            guess = f"; plans with data.relations=adjacency have {close[0]!r}{others}."
        if several := may_mean(strip_number(value), codes):
            guess = f"; it may be {' or '.join(several)}: write which."
        said = f"unknown {what} {reprlib.repr(value)}{guess} The names are {', '.join(codes)}"
        raise DiagramError(field, said)
    if value is None:
        raise DiagramError(field, f"null: a complete diagram needs every {what}")
    code = checked_integer(value, field, f"a {what} (name or code)")
    check_code(code, num_codes, what, field)
    return code


def checked_integer(value: object, field: str, what: str = "an integer") -> int:
    """Return ``value`` as an int; raise ``DiagramError`` unless it is an integer, also numpy's."""
    if type(value) is int:  # the usual case, without the cost of the checks below
        return value
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise DiagramError(field, f"expected {what}, got {reprlib.repr(value)}")
    return int(value)


def finite_number(value: object, field: str) -> float:
    """Return ``value`` as a finite float; raise ``DiagramError`` for anything else, such as NaN."""
    if type(value) is float and math.isfinite(value):  # the usual case
        return value
    if isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool):
        with suppress(OverflowError):
            number = float(value)
            if math.isfinite(number):
                return number
    raise DiagramError(field, f"{reprlib.repr(value)} is not a finite number")


def checked_box(value: object, field: str) -> tuple[float, float, float, float]:
    """Return a box (x0, y0, x1, y1), x0 <= x1 and y0 <= y1, or raise ``DiagramError``."""
    if not isinstance(value, list | tuple | np.ndarray) or len(value) != 4:
        raise DiagramError(field, f"expected 4 numbers x0, y0, x1, y1, got {reprlib.repr(value)}")
    x0, y0, x1, y1 = value
    plain = type(x0) is type(y0) is type(x1) is type(y1) is float  # the usual case; no NaN below
    if not (plain and -math.inf < x0 <= x1 < math.inf and -math.inf < y0 <= y1 < math.inf):
        x0, y0, x1, y1 = (finite_number(side, f"{field}[{k}]") for k, side in enumerate(value))
        if x1 < x0 or y1 < y0:
            raise DiagramError(field, f"expected x0 <= x1 and y0 <= y1, got {[x0, y0, x1, y1]}")
    return x0, y0, x1, y1


def checked_rooms(rooms: Sequence[Any]) -> tuple[int, ...]:
    """Return the room type codes; raise ``DiagramError`` for a wrong code or an empty sequence."""
    if len(rooms) == 0:
        raise DiagramError("rooms", "a diagram needs at least one room")
    if all(type(room) is int and 0 <= room < len(ROOM_TYPES) for room in rooms):
        return tuple(rooms)  # the usual case, without the cost of the checks below
    found = [checked_integer(room, f"rooms[{k}]", "a room code") for k, room in enumerate(rooms)]
    for k, room in enumerate(found):
        check_code(room, len(ROOM_TYPES), "room type", f"rooms[{k}]")
    return tuple(found)


def check_code(code: int, num_codes: int, what: str, field: str) -> None:
    """Raise ``DiagramError`` unless a code is one of ``num_codes``."""
    if not 0 <= code < num_codes:
        raise DiagramError(field, f"{what} code {reprlib.repr(code)} is not in 0..{num_codes - 1}")


def checked_boxes(boxes: Sequence[Any], n: int) -> tuple[tuple[float, float, float, float], ...]:
    """Return the checked boxes of ``n`` rooms; raise ``DiagramError`` for another number."""
    if len(boxes) != n:
        raise DiagramError("boxes", f"{len(boxes)} boxes for {n} rooms")
    return tuple(checked_box(box, f"boxes[{k}]") for k, box in enumerate(boxes))


def checked_relations(relations: Sequence[Any], n: int) -> tuple[tuple[int, int, int], ...]:
    """Return sorted triples (i, j, code), i < j; raise ``DiagramError`` for any other input, such
    as "no-edge" or a pair that is listed twice."""
    checked: dict[tuple[int, int], int] = {}
    for k, triple in enumerate(relations):
        if type(triple) is not tuple or [*map(type, triple)] != [int, int, int]:
            where = f"relations[{k}]"
            triple = [checked_integer(number, where) for number in _triple(triple, where)]
        i, j, r = triple
        if not 0 <= i < j < n:
            reason = f"pair ({i}, {j}): expected 0 <= i < j < {n} rooms"
            raise DiagramError(f"relations[{k}]", reason)
        if not 0 <= r < len(RELATIONS) or r == NO_EDGE:
            expected = f"0..{NO_EDGE - 1}, {ADJACENT}, {DOOR}"
            raise DiagramError(f"relations[{k}]", f"relation code {r} is not in {expected}")
        if (i, j) in checked:
            raise DiagramError(f"relations[{k}]", f"pair ({i}, {j}) is listed twice")
        checked[i, j] = r
    return tuple(sorted((i, j, r) for (i, j), r in checked.items()))


def _triple(value: object, field: str) -> tuple[Any, Any, Any]:
    if not isinstance(value, list | tuple | np.ndarray) or len(value) != 3:
        raise DiagramError(field, f"expected [i, j, relation], got {reprlib.repr(value)}")
    return value[0], value[1], value[2]


def read_triple(value: object, n: int, field: str) -> tuple[int, int, Any]:
    """Return [i, j, relation], the relation as given; ``DiagramError`` if i or j is no room."""
    i, j, name = _triple(value, field)
    i, j = (checked_integer(number, field, "a room number") for number in (i, j))
    if not (0 <= i < n and 0 <= j < n and i != j):
        shown = f"({reprlib.repr(i)}, {reprlib.repr(j)})"
        raise DiagramError(field, f"pair {shown}: expected two different rooms in 0..{n - 1}")
    return i, j, name


def read_relations(value: object, n: int, field: str) -> tuple[tuple[int, int, int], ...]:
    """Read triples i < j from a JSON list of [i, j, relation] between ``n`` rooms, by name or code;
    a pair i > j is inverted, "no-edge" is dropped. Raises ``DiagramError`` naming ``field[k]``."""
    if not isinstance(value, list | tuple):
        raise DiagramError(field, f"expected a list of [i, j, relation], got {reprlib.repr(value)}")
    listed: dict[tuple[int, int], int] = {}
    for k, triple in enumerate(value):
        where = f"{field}[{k}]"
        i, j, name = read_triple(triple, n, where)
        relation = relation_code(name, where)
        if i > j:
            i, j, relation = j, i, INVERSE[relation]
        if (i, j) in listed:
            raise DiagramError(where, f"pair ({i}, {j}) is listed twice")
        listed[i, j] = relation
    return tuple((i, j, r) for (i, j), r in listed.items() if r != NO_EDGE)


def read_rooms(value: object) -> tuple[int, ...]:
    """Read room codes from a JSON list of names or codes; ``DiagramError`` names ``rooms[k]``."""
    if not isinstance(value, list | tuple):
        raise DiagramError("rooms", f"expected a list of room types, got {reprlib.repr(value)}")
    if not value:
        raise DiagramError("rooms", "a diagram needs at least one room")
    return tuple(room_code(room, f"rooms[{k}]") for k, room in enumerate(value))


def vocabulary_of(room_codes: Sequence[int | None], relations: Triples) -> PlanVocabulary:
    """First vocabulary with all these rooms and relations; ``DiagramError`` if there is none."""
    for vocabulary in VOCABULARIES.values():
        if vocabulary.lacks(room_codes, relations) is None:
            return vocabulary
    meant = ADJACENCY if any(r in (ADJACENT, DOOR) for _, _, r in relations) else DIRECTIONS
    check_vocabulary(room_codes, relations, meant)
    raise AssertionError("check_vocabulary accepts a diagram that no vocabulary has")


def check_vocabulary(
    room_codes: Sequence[int | None], relations: Triples, vocabulary: PlanVocabulary
) -> None:
    """Raise ``DiagramError`` for the first room or relation outside the vocabulary."""
    lacking = vocabulary.lacks(room_codes, relations)
    if lacking is None:
        return
    field, word = lacking
    names = vocabulary.room_types if field.startswith("rooms") else vocabulary.relations
    what = "room type" if field.startswith("rooms") else "relation"
    several = may_mean(word, names)
    guess = f"; it may be {' or '.join(several)}: write which." if several else "."
    others = (v.name for v in VOCABULARIES.values() if not v.lacks(room_codes, relations))
    if other := next(others, None):
        guess += f" The plan can be read with data.relations={other}."
    said = f"{word!r} is not a {what} of plans with relations={vocabulary.name}{guess} The names"
    raise DiagramError(field, f"{said} are {', '.join(names)}")


def required_list(data: Mapping[str, Any], key: str) -> list[Any]:
    """Return the list under ``key``; ``DiagramError`` if there is none."""
    if key not in data:
        raise DiagramError(key, f"missing; the fields are {reprlib.repr(list(data))}")
    if not isinstance(data[key], list):
        raise DiagramError(key, f"expected a list, got {reprlib.repr(data[key])}")
    return data[key]


def check_size(num_rooms: int, max_nodes: int, field: str) -> None:
    """Raise ``SizeError``, with the remedy, for more than ``max_nodes`` rooms."""
    if num_rooms > max_nodes:
        raise SizeError(
            field,
            f"{num_rooms} rooms, more than max_nodes={max_nodes}; allow more with "
            f"data.max_nodes={num_rooms} (discrete-diffusion data: --max-nodes {num_rooms})",
            num_rooms=num_rooms,
        )


_EXAMPLE = 'expected names and room types, as in "Schlafzimmer: MasterRoom"'


class OwnNames:
    """User's mapping of names of rooms to room types; capitals, spaces, hyphens do not matter."""

    def __init__(self, types: Mapping[str, str]) -> None:
        self._types = {plain(name): room for name, room in types.items()}

    def room_type(self, room: Any) -> Any:
        """Room type of a name in the mapping; other values are returned unchanged."""
        return self._types.get(plain(room), room) if isinstance(room, str) else room

    def translate(self, data: Any) -> Any:
        """Translate the names of rooms in a plan's JSON object, in any of the formats."""
        if not self._types or not isinstance(data, Mapping):
            return data
        translated = dict(data)
        for key in ("rooms", "room_type"):
            given = data.get(key)
            if isinstance(given, list):
                translated[key] = [self.room_type(room) for room in given]
            elif given is not None:
                translated[key] = self.room_type(given)
        # rooms of RLVR, and of GeoJSON
        for key in ("spaces", "features"):
            if isinstance(data.get(key), list):
                translated[key] = [self.translate(each) for each in data[key]]
        if "properties" in data:
            translated["properties"] = self.translate(data["properties"])
        return translated


NO_NAMES = OwnNames({})


def read_names(path: str | os.PathLike[str] | None) -> OwnNames:
    """Read names and their room types from a YAML or JSON file; None gives an empty mapping. Raises
    ``FileNotFoundError``, and ``ValueError`` naming file and name for anything else."""
    if path is None:
        return NO_NAMES
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"room_names={path}: no such file; {_EXAMPLE}")
    try:
        found = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        shown = " ".join(str(error).split())
        raise ValueError(f"room_names={path}: not YAML ({shown}); {_EXAMPLE}") from error
    if not isinstance(found, dict) or not found:
        raise ValueError(f"room_names={path}: {_EXAMPLE}, got {reprlib.repr(found)}")
    # every value has to be a room type, every name distinct
    types: dict[str, str] = {}
    for name, room in found.items():
        try:
            types[str(name)] = ROOM_TYPES[room_code(room if isinstance(room, str) else None, "")]
        except DiagramError as error:
            raise ValueError(f"room_names={path}, {reprlib.repr(name)}: {error.reason}") from error
    if len({plain(name) for name in types}) < len(types):
        raise ValueError(f"room_names={path}: two names differ in capitals, spaces or hyphens only")
    return OwnNames(types)
