"""Records of plan files, and the report on reading them, which accounts for every record."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, NamedTuple, Never, TypeVar

from discrete_diffusion.config import counted
from floor_plans.diagrams.diagram import BubbleDiagram
from floor_plans.diagrams.files.code_tables import RoomCodes
from floor_plans.diagrams.files.fields import DiagramError
from floor_plans.diagrams.geometry import (
    DrawnIn,
    check_drawings,
    check_one_unit,
    check_scale,
    metres_per,
    threshold_of,
)
from floor_plans.diagrams.vocabulary import ROOM_TYPES

Parsed = TypeVar("Parsed", covariant=True)


class Note(NamedTuple):
    """Oddity of a plan that is read nevertheless.

    ``kind``: a singular noun and its fault, as in "room without width or height". ``what``: the
    place and value in this plan.
    """

    kind: str
    what: str


class Plan(NamedTuple):
    """A diagram as read from a file.

    ``left_out``: names of the parts left out, once per occurrence. ``measured``: True if relations
    were measured on the boxes. ``duplicate``: True if the source flags it as a duplicate.
    ``notes``: oddities. ``drawn``: unit of the drawing, if relations were measured on one.
    """

    diagram: BubbleDiagram
    left_out: tuple[str, ...] = ()
    measured: bool = False
    duplicate: bool = False
    notes: tuple[Note, ...] = ()
    drawn: DrawnIn | None = None


@dataclass(slots=True)
class Record(Generic[Parsed]):
    """An unparsed plan, or partial plan, of a source.

    ``path``: its file. ``where``: its place in the file, "line 3" or "record 17" (numbered from 1),
    empty if the file holds one plan. ``room_codes``: codes of its rooms. ``parse``: parses it with
    a table of room codes, None for its own; raises ``DiagramError``.
    """

    path: Path
    where: str
    room_codes: RoomCodes
    parse: Callable[[str | None], Parsed]
    _last: tuple[str | None, Parsed] | None = None

    @property
    def place(self) -> str:
        """Place such as ``plans.jsonl, line 3``; the file alone if it holds one plan."""
        return f"{self.path}, {self.where}" if self.where else str(self.path)

    def read(self, codes: str | None) -> Parsed:
        """Parse the record; the result is kept for the next call with the same table."""
        if self._last is None or self._last[0] != codes:
            self._last = codes, self.parse(codes)
        return self._last[1]

    def problem(self, error: DiagramError) -> Problem:
        """Problem of the record, from the error of its parsing."""
        return Problem(self.place, self.where, error.field, error.reason)


def wrong_record(path: Path, where: str, error: DiagramError) -> Record[Never]:
    """Record whose parsing raises ``error``."""

    def parse(codes: str | None) -> Never:
        raise error

    return Record(path, where, RoomCodes(), parse)


class Problem(NamedTuple):
    """A plan that cannot be read.

    ``place``, ``record``: as in ``Record``. ``field``: the wrong field, empty if the whole plan is
    wrong. ``reason``: the value, what was expected, the remedy.
    """

    place: str
    record: str
    field: str
    reason: str

    def sentence(self) -> str:
        """Sentence such as ``plans.jsonl, line 3, field 'rooms[1]': ...``"""
        where = f", field '{self.field}'" if self.field else ""
        return f"{self.place}{where}: {self.reason}"


class Doubt(NamedTuple):
    """Doubt about the room codes of ``num`` plans; ``sentence``: the better table and the
    remedy."""

    num: int
    sentence: str


class Remark(NamedTuple):
    """Summary of ``num`` notes of a ``kind`` on ``num_plans`` plans; ``first``: place and text of
    the first note."""

    kind: str
    num: int
    num_plans: int
    first: str

    def counted(self) -> str:
        """Count with its noun, as in ``2 rooms without width or height``."""
        noun, _, rest = self.kind.partition(" ")
        return f"{counted(self.num, noun)} {rest}"

    def sentence(self) -> str:
        """Sentence with the count and the first note."""
        of = f" in {counted(self.num_plans, 'plan')}" if self.num > self.num_plans else ""
        return f"{self.counted()}{of}, the first: {self.first}"


def remarks_of(noted: Iterable[tuple[str, Note]]) -> tuple[Remark, ...]:
    """Summarise notes by kind; each comes with its place."""
    by_kind: dict[str, list[tuple[str, str]]] = {}
    for place, note in noted:
        by_kind.setdefault(note.kind, []).append((place, note.what))
    return tuple(
        Remark(kind, len(notes), len(dict(notes)), ": ".join(notes[0]))
        for kind, notes in by_kind.items()
    )


@dataclass(frozen=True)
class ReadReport:
    """Report on reading a file or folder, as ``read_report`` returns it.

    ``path``: the file or folder. ``diagrams``: in its order; ``places``: their places, as in
    ``Record``. ``num_records``: number of lines, records or files with a plan each, in ``unit``;
    ``num_records = len(diagrams) + len(problems) + num_duplicates``. ``problems``: invalid plans.
    ``num_duplicates``: plans that the source flags as duplicates. ``left_out``: parts that diagrams
    leave out, counted by name ("self-loops", "walls", "node attributes"). ``code_tables``: tables
    of integer room codes, with the files of each. ``doubts``: diagrams that another table may fit
    better. ``remarks``: other oddities.
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
        """Counts of diagrams read and of parts left out, as one clause."""
        # diagrams read, then everything that is doubtful, odd or left out
        codes = f" (room codes of {self._used_tables()})" if self.codes else ""
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
            return " and ".join(self.codes)
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


FLAT, ALIKE = "room without width or height", "room with the box of another one"


def notes_of_boxes(diagram: BubbleDiagram) -> Iterator[Note]:
    """Notes on rooms whose box has no area, and on rooms with the box of an earlier room."""
    boxes = diagram.boxes or ()
    first: dict[object, int] = {}
    for k, box in enumerate(boxes):
        x0, y0, x1, y1 = box
        if x0 == x1 or y0 == y1:
            yield Note(FLAT, f"rooms[{k}], {ROOM_TYPES[diagram.rooms[k]]}, {list(box)}")
        if (other := first.setdefault(box, k)) != k:
            yield Note(ALIKE, f"rooms[{other}] and rooms[{k}], {list(box)}")


def check_measured(
    path: Path, measured: Sequence[tuple[str, Plan]], unit: str, threshold: float | None
) -> None:
    """Raise ``ValueError`` if boxes seem to be in another unit than ``unit``, or in several.

    ``measured``: plans with their places; ``threshold``: as the user gave it, else None.
    """
    # plans with boxes are checked in their unit, drawings in that of each
    boxed, drawn = [], []
    for place, plan in measured:
        boxes, num = plan.diagram.boxes, len(plan.diagram.relations)
        assert boxes is not None  # relations were measured on them
        if plan.drawn is None:
            boxed.append((place, boxes, num))
        else:
            drawn.append((place, boxes, num, plan.drawn))
    try:
        check_one_unit([(place, boxes) for place, boxes, _ in boxed])
        check_scale([(boxes, num) for _, boxes, num in boxed], unit=unit, threshold=threshold)
        gap = threshold_of(unit, threshold) * metres_per(unit)
        check_drawings(drawn, gap=gap, usual_gap=threshold is None)
    except ValueError as error:
        place = "" if str(error).startswith(str(path)) else f"{path}: "
        raise ValueError(f"{place}{error}") from error
