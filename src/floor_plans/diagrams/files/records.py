"""Records of plan files, tables of their room codes, and the report on reading them.

The report accounts for every record. If a file does not name its code table, it is recognised.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, NamedTuple, Never, TypeVar

from discrete_diffusion.config import counted
from floor_plans.diagrams import geometry
from floor_plans.diagrams.diagram import BubbleDiagram
from floor_plans.diagrams.files import code_tables
from floor_plans.diagrams.files.code_tables import CODE_TABLES, OUR_TABLE, RoomCodes
from floor_plans.diagrams.files.fields import DiagramError
from floor_plans.diagrams.vocabulary import ROOM_TYPES

Parsed = TypeVar("Parsed", covariant=True)


class Note(NamedTuple):
    """Note on an oddity of a plan, which is read nevertheless. ``kind``: a singular noun and its
    fault, as in "room without width or height". ``what``: location and value in this plan."""

    kind: str
    what: str


class Plan(NamedTuple):
    """A diagram as read from a file. ``left_out``: names of the parts left out, once per
    occurrence. ``measured``: relations were measured on the boxes. ``duplicate``: the source flags
    it as one. ``drawn``: unit of the drawing that relations were measured on."""

    diagram: BubbleDiagram
    left_out: tuple[str, ...] = ()
    measured: bool = False
    duplicate: bool = False
    notes: tuple[Note, ...] = ()
    drawn: geometry.DrawnIn | None = None


@dataclass(slots=True)
class Record(Generic[Parsed]):
    """Unparsed plan or partial plan of a file.

    ``where``: its place in the file, "line 3" or "record 17" (numbered from 1), empty if the file
    holds one plan. ``parse``: parses it with a table of room codes (None: the record's own); raises
    ``DiagramError``.
    """

    path: Path
    where: str
    room_codes: RoomCodes
    parse: Callable[[str | None], Parsed]
    _last: tuple[str | None, Parsed] | None = None

    @property
    def place(self) -> str:
        """Location such as ``plans.jsonl, line 3``; the file alone if it holds one plan."""
        return f"{self.path}, {self.where}" if self.where else str(self.path)

    def read(self, codes: str | None) -> Parsed:
        """Parse the record; the result is kept for the next call with the same table."""
        if self._last is None or self._last[0] != codes:
            self._last = codes, self.parse(codes)
        return self._last[1]

    def problem(self, error: DiagramError) -> Problem:
        """Convert an error raised by parsing this record to a ``Problem``."""
        return Problem(self.place, self.where, error.field, error.reason)


def wrong_record(path: Path, where: str, error: DiagramError) -> Record[Never]:
    """Record whose parsing raises ``error``."""

    def parse(codes: str | None) -> Never:
        raise error

    return Record(path, where, RoomCodes(), parse)


class Problem(NamedTuple):
    """A plan that cannot be read. ``record``: ``Record.where``. ``field``: the wrong field, empty
    if the whole plan is wrong. ``reason``: the value, what was expected, the remedy."""

    place: str
    record: str
    field: str
    reason: str

    def sentence(self) -> str:
        """Sentence such as ``plans.jsonl, line 3, field 'rooms[1]': ...``"""
        where = f", field '{self.field}'" if self.field else ""
        return f"{self.place}{where}: {self.reason}"


class Doubt(NamedTuple):
    """Doubt about the code table of ``num`` plans; ``sentence``: a better table, and the remedy."""

    num: int
    sentence: str


class Remark(NamedTuple):
    """Summary of ``num`` notes of one ``kind`` on ``num_plans`` plans, with the ``first`` note."""

    kind: str
    num: int
    num_plans: int
    first: str

    def counted(self) -> str:
        """Count and kind, as in ``2 rooms without width or height``."""
        noun, _, rest = self.kind.partition(" ")
        return f"{counted(self.num, noun)} {rest}"

    def sentence(self) -> str:
        """Sentence with the count and the first note."""
        of = f" in {counted(self.num_plans, 'plan')}" if self.num > self.num_plans else ""
        return f"{self.counted()}{of}, the first: {self.first}"


def remarks_of(noted: Iterable[tuple[str, Note]]) -> tuple[Remark, ...]:
    """Summarise notes by kind. ``noted``: each note, paired with the location of its plan."""
    by_kind: dict[str, list[tuple[str, str]]] = {}
    for place, note in noted:
        by_kind.setdefault(note.kind, []).append((place, note.what))
    grouped = by_kind.items()
    return tuple(Remark(kind, len(n), len(dict(n)), ": ".join(n[0])) for kind, n in grouped)


@dataclass(frozen=True)
class ReadReport:
    """Report on reading a file or folder, as ``read_report`` returns it.

    ``diagrams``: in the order of the file or folder; ``places``: locations, as in ``Record``.
    ``num_records``: number of lines, records or files with a plan each, in ``unit``; ``num_records
    = len(diagrams) + len(problems) + num_duplicates``. ``num_duplicates``: plans that the source
    flags as duplicates. ``left_out``: parts that diagrams leave out, counted by name ("self-loops",
    "walls", "node attributes"). ``code_tables``: tables of integer room codes, with the files of
    each. ``doubts``: diagrams that another table may fit better. ``remarks``: other oddities.
    """

    path: Path
    diagrams: tuple[BubbleDiagram, ...]
    num_records: int
    unit: str
    problems: tuple[Problem, ...]
    num_duplicates: int
    left_out: Mapping[str, int] = field(default_factory=dict)
    code_tables: Mapping[str, tuple[Path, ...]] = field(default_factory=dict)
    doubts: tuple[Doubt, ...] = ()
    places: tuple[str, ...] = ()
    remarks: tuple[Remark, ...] = ()

    @property
    def codes(self) -> tuple[str, ...]:
        """Names of the code tables in use."""
        return tuple(self.code_tables)

    @property
    def num_doubtful(self) -> int:
        return sum(doubt.num for doubt in self.doubts)

    def counts(self) -> str:
        """Clause with the numbers of diagrams read, doubtful, odd or left out."""
        codes = f" (room codes of {self._used_tables()})" if self.code_tables else ""
        read = counted(len(self.diagrams), "diagram")
        parts = [f"{self.path}{codes}: {read} from {_counted(self.num_records, self.unit)}"]
        if self.doubts:
            parts.append(f"{self.num_doubtful:,} with doubtful room codes")
        parts += [remark.counted() for remark in self.remarks]
        if self.num_duplicates:
            parts.append(f"{self.num_duplicates:,} flagged as duplicates left out")
        parts += [f"{_counted(count, name)} left out" for name, count in self.left_out.items()]
        if self.problems:
            parts.append(f"{len(self.problems):,} invalid left out")
        return "; ".join(parts)

    def _used_tables(self) -> str:
        """Names of the tables in use, with the files of each if these differ."""
        files = list(self.code_tables.values())
        if all(each == files[0] for each in files):
            return " and ".join(self.code_tables)
        parts = []
        for name, (first, *others) in self.code_tables.items():
            more = f" and {counted(len(others), 'more file')}" if others else ""
            parts.append(f"{name} in {first.name}{more}")
        return ", ".join(parts)

    def summary(self) -> str:
        """Sentence with the counts and the first problem."""
        first = f", the first: {self.problems[0].sentence()}" if self.problems else ""
        return self.counts() + first


def _counted(count: int, plural: str) -> str:
    singular = plural.removesuffix("es" if plural.endswith("xes") else "s")
    return f"{count:,} {singular if count == 1 else plural}"


def notes_of_boxes(diagram: BubbleDiagram) -> Iterator[Note]:
    """Notes on rooms whose box has no area, and on rooms with the box of an earlier room."""
    first: dict[object, int] = {}
    for k, box in enumerate(diagram.boxes or ()):
        x0, y0, x1, y1 = box
        if x0 == x1 or y0 == y1:
            what = f"rooms[{k}], {ROOM_TYPES[diagram.rooms[k]]}, {list(box)}"
            yield Note("room without width or height", what)
        if (other := first.setdefault(box, k)) != k:
            what = f"rooms[{other}] and rooms[{k}], {list(box)}"
            yield Note("room with the box of another one", what)


def check_measured(
    path: Path, measured: Sequence[tuple[str, Plan]], unit: str, threshold: float | None
) -> None:
    """Raise ``ValueError`` if boxes seem to be in another unit than ``unit``, or in several units.
    ``measured``: plans with their locations. ``threshold``: gap that the user gave, else None."""
    # plans with boxes are checked in their unit, drawings in that of each
    places, boxed, drawn = [], [], []
    for place, plan in measured:
        boxes, num = plan.diagram.boxes, len(plan.diagram.relations)
        assert boxes is not None  # relations were measured on them
        if plan.drawn is None:
            places.append((place, boxes))
            boxed.append((boxes, num))
        else:
            drawn.append((place, boxes, num, plan.drawn))
    try:
        geometry.check_one_unit(places)
        geometry.check_scale(boxed, unit=unit, threshold=threshold)
        gap = geometry.threshold_of(unit, threshold) * geometry.metres_per(unit)
        geometry.check_drawings(drawn, gap=gap, usual_gap=threshold is None)
    except ValueError as error:
        place = "" if str(error).startswith(str(path)) else f"{path}: "
        raise ValueError(f"{place}{error}") from error


logger = logging.getLogger(__name__)

_DOUBTFUL = 0.1  # share of a file's plans that may speak against a table before it is refused
_FEWEST_PLANS = 10  # least number of plans for which a file of a folder is recognised on its own
_LIVING, _MASTER = "LivingRoom", "MasterRoom"
_MAX_SHOWN = 6

_Rooms = tuple[str | None, ...]


@dataclass(frozen=True)
class RecognisedCodes:
    """Table of room codes ``named`` by the user, or of each file; ``doubts`` about such tables."""

    named: str | None
    tables: Mapping[Path, str]
    doubts: tuple[Doubt, ...]

    def table_of(self, record: Record[object]) -> str | None:
        """Table of a record's codes, None if it has none: its own, else the user's, else
        ``OUR_TABLE`` if some rooms are given by name, else that of the file."""
        codes = record.room_codes
        if not codes.integers:
            return None
        default = OUR_TABLE if codes.named else self.tables.get(record.path, OUR_TABLE)
        return codes.table or self.named or default


def recognise_codes(
    path: Path, records: Iterable[Record[object]], named: str | None
) -> RecognisedCodes:
    """Recognise the tables of the codes in ``path``, see ``recognised_table``, unless ``named``.
    Plans that name a table, or that no table can read, do not count. Files of fewer than 10 other
    plans are recognised together. Doubts are logged. Raises ``ValueError`` naming the file."""
    if named is not None:
        return RecognisedCodes(named, {}, ())
    # records to decide by, file by file
    open_records: dict[Path, list[Record[object]]] = {}
    with_names: set[Path] = set()
    for record in records:
        file_records = open_records.setdefault(record.path, [])
        if record.room_codes.named:
            with_names.add(record.path)
        if record.room_codes.is_open and _is_readable(record):
            file_records.append(record)
    small = [file for file, few in open_records.items() if len(few) < _FEWEST_PLANS]
    large = [[file] for file, many in open_records.items() if len(many) >= _FEWEST_PLANS]
    # one table for each large file, and one for all small files
    tables: dict[Path, str] = {}
    doubts: list[Doubt] = []
    for files in [*large, small]:
        decided_by = [record for file in files for record in open_records[file]]
        if not decided_by:
            continue
        source = decided_by[0].path if len({record.path for record in decided_by}) == 1 else path
        plans = [record.room_codes for record in decided_by]
        try:
            table = recognised_table(plans, with_names=not with_names.isdisjoint(files))
        except ValueError as error:
            raise ValueError(f"{source}: {error}") from error
        doubts += _doubts(source, decided_by, table)
        tables.update(dict.fromkeys(files, table))
    for doubt in doubts:  # such plans are read
        logger.warning("%s", doubt.sentence)
    return RecognisedCodes(None, tables, tuple(doubts))


def _is_readable(record: Record[object]) -> bool:
    for name in CODE_TABLES:
        if _reading(record.room_codes, name) is not None:
            with suppress(DiagramError):
                record.read(name)
                return True
    return False


def recognised_table(plans: Iterable[RoomCodes], *, with_names: bool) -> str:
    """Recognise the table of the room codes of ``plans``.

    A table is plausible if it has the codes of nine plans in ten. If all plausible tables read the
    plans alike, the first is returned. ``with_names``: other plans of the file give names of room
    types, so that ``OUR_TABLE`` is preferred if plausible.

    Raises ``ValueError`` with the reading of each table if they differ, and if more than a tenth of
    the plans contradict the table: it cannot read them, or it leaves them without a living room or
    with several master rooms although another table does not.
    """
    counts = Counter(plans)
    few = _DOUBTFUL * counts.total()
    readings = {name: {plan: _reading(plan, name) for plan in counts} for name in CODE_TABLES}
    plausible = []
    for name, read in readings.items():
        if sum(num for plan, num in counts.items() if read[plan] is None) <= few:
            plausible.append(name)
    # all plausible tables have to agree, with few contradictions
    if with_names and OUR_TABLE in plausible:
        plausible = [OUR_TABLE]
    if plausible and all(readings[name] == readings[plausible[0]] for name in plausible):
        against = [plan for plan in counts if _contradicts(plan, plausible[0])]
        if sum(counts[plan] for plan in against) <= few:
            return plausible[0]
    raise ValueError(_refusal(counts, readings))


def _reading(plan: RoomCodes, name: str) -> _Rooms | None:
    """Decode room types and doors with one code table; None if it lacks a code. If a room is of
    unknown type, ``BEDROOM`` is not resolved (see ``with_master_bedroom``)."""
    table = CODE_TABLES[name]
    known = {**table.known, **table.untyped}
    if not all(code in known for code in plan.integers):
        return None
    rooms = [known[code] for code in plan.integers]
    return tuple(rooms if plan.unknown else code_tables.with_master_bedroom(rooms, None))


def _sign(plan: RoomCodes, name: str) -> str | None:
    """Reason that a table does not fit a plan but another one does: empty if it fits, None if it
    lacks a code."""
    rooms = _reading(plan, name)
    if rooms is None:
        return None
    if not plan.unknown and _LIVING not in rooms:
        return "have no living room by {} but one by {}"
    if rooms.count(_MASTER) > 1:
        return "have several master rooms by {} but at most one by {}"
    return ""


def _contradicts(plan: RoomCodes, name: str) -> bool:
    """True if another table fits a plan and this one does not."""
    signs = {other: _sign(plan, other) for other in CODE_TABLES}
    own = signs.pop(name)
    if own is None:
        return any(sign is not None for sign in signs.values())
    return own != "" and "" in signs.values()


def _doubts(path: Path, records: Sequence[Record[object]], name: str) -> list[Doubt]:
    """Doubts about the table of a file: plans that contradict it, grouped by ``_sign``."""
    against = {plan for plan in {each.room_codes for each in records} if _contradicts(plan, name)}
    by_sign: dict[str, list[Record[object]]] = {}
    for record in records:
        if record.room_codes in against and (sign := _sign(record.room_codes, name)):
            by_sign.setdefault(sign, []).append(record)
    doubts = []
    for sign, group in by_sign.items():
        # tables that fit all plans of the group, else those that fit some
        fits = {o: [_sign(each.room_codes, o) == "" for each in group] for o in CODE_TABLES}
        others = [o for o in fits if all(fits[o])] or [o for o in fits if any(fits[o])]
        reason = sign.format(name, " or ".join(others))
        sentence = (
            f"{path}: {len(group):,} of {counted(len(records), 'plan')}, the first at "
            f"{group[0].place}, {reason}; if tables are mixed, give each a file of its own or say "
            'codes in each record ("codes": "housegan")'
        )
        doubts.append(Doubt(len(group), sentence))
    return doubts


def _refusal(
    counts: Counter[RoomCodes], readings: Mapping[str, Mapping[RoomCodes, _Rooms | None]]
) -> str:
    """Error message: for each table, the plans that it can read and the codes that differ."""
    total = counts.total()
    # tables that read the plans alike are one group
    groups: dict[tuple[_Rooms | None, ...], list[str]] = {}
    for name, read in readings.items():
        if sum(num for plan, num in counts.items() if read[plan] is not None) > _DOUBTFUL * total:
            groups.setdefault(tuple(read.values()), []).append(name)
    # frequent codes that the tables read differently, then a clause for each group of tables
    names = [group[0] for group in groups.values()]
    frequent = Counter(code for plan in counts.elements() for code in plan.integers)
    meant_by = {code: {CODE_TABLES[name].meaning(code) for name in names} for code in frequent}
    differing = [code for code, _ in frequent.most_common() if len(meant_by[code]) > 1]
    shown = sorted(differing[:_MAX_SHOWN])
    parts = []
    for rooms_of_plans, group in groups.items():
        pairs = zip(counts.values(), rooms_of_plans, strict=True)
        known = [(num, rooms) for num, rooms in pairs if rooms is not None]
        living = sum(num for num, rooms in known if _LIVING in rooms)
        masters = sum(num for num, rooms in known if rooms.count(_MASTER) > 1)
        several = f", {masters:,} with several master rooms" if masters else ""
        meaning = CODE_TABLES[group[0]].meaning
        meanings = ", ".join(f"{code} {meant}" for code in shown if (meant := meaning(code)))
        parts.append(
            f"{' or '.join(group)} reads {sum(num for num, _ in known):,} of "
            f"{counted(total, 'plan')}, {living:,} with a living room{several} ({meanings})"
        )
    tables = " or ".join(f"data.room_codes={name}" for name in names)
    return (
        f"its room codes fit several tables: {'; '.join(parts)}. Name theirs: {tables} (sample and "
        "evaluate: room_codes=TABLE, discrete-diffusion data: --room-codes TABLE); a file or "
        'folder of several tables needs a "codes": "TABLE" in each record'
    )
