"""Plans as they stand in files, and what came of reading them: all of a source is accounted for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, NamedTuple, Never, TypeVar

from discrete_diffusion.config import counted
from floor_plans.diagrams.diagram import BubbleDiagram
from floor_plans.diagrams.files.code_tables import RoomCodes
from floor_plans.diagrams.files.fields import DiagramError
from floor_plans.diagrams.scales import DrawnIn

Parsed = TypeVar("Parsed", covariant=True)


class Note(NamedTuple):
    """Something odd of a plan that is read all the same: of what ``kind``, a noun in the singular
    and what is the matter with it; and ``what`` it is here."""

    kind: str
    what: str


class Plan(NamedTuple):
    """A diagram; the names of what was left out of it, once for each time; whether its relations
    were ``measured`` on its boxes; whether the source flags it as a ``duplicate``; what is odd in
    it; and, if they were measured on a drawing, the unit it was ``drawn`` in."""

    diagram: BubbleDiagram
    left_out: tuple[str, ...] = ()
    measured: bool = False
    duplicate: bool = False
    notes: tuple[Note, ...] = ()
    drawn: DrawnIn | None = None


@dataclass(slots=True)
class Record(Generic[Parsed]):
    """A plan, or a partial one, of a source.

    ``path``: the file it is in. ``where``: the record in it, "line 3" or "record 17" (numbered from
    1), empty if the file holds one plan. ``room_codes``: how it writes its rooms. ``parse``:
    reads it by a table of room codes, None for its own; raises ``DiagramError``.
    """

    path: Path
    where: str
    room_codes: RoomCodes
    parse: Callable[[str | None], Parsed]
    _last: tuple[str | None, Parsed] | None = None

    @property
    def place(self) -> str:
        """``plans.jsonl, line 3``; the file alone where it holds one plan."""
        return f"{self.path}, {self.where}" if self.where else str(self.path)

    def read(self, codes: str | None) -> Parsed:
        """Return what ``parse`` returns, kept for the next call with the same table."""
        if self._last is None or self._last[0] != codes:
            self._last = codes, self.parse(codes)
        return self._last[1]

    def problem(self, error: DiagramError) -> Problem:
        """Problem that the error shows in the record."""
        return Problem(self.place, self.where, error.field, error.reason)


def wrong_record(path: Path, where: str, error: DiagramError) -> Record[Never]:
    """A record that cannot be read, whatever its codes mean."""

    def parse(codes: str | None) -> Never:
        raise error

    return Record(path, where, RoomCodes(), parse)


class Problem(NamedTuple):
    """A plan that cannot be read: its place and record as in ``Record``; ``field``: what is wrong
    in it, empty if all of it is; ``reason``: got, expected, remedy."""

    place: str
    record: str
    field: str
    reason: str

    def sentence(self) -> str:
        """``plans.jsonl, line 3, field 'rooms[1]': ...``"""
        where = f", field '{self.field}'" if self.field else ""
        return f"{self.place}{where}: {self.reason}"


class Doubt(NamedTuple):
    """``num`` plans that another table of room codes makes more sense of than the one they are read
    by, and a ``sentence`` that says which, and what to do."""

    num: int
    sentence: str


class Remark(NamedTuple):
    """``num`` notes of a ``kind``, of ``num_plans`` plans; ``first``: of the first of them, where
    it stands and what it is."""

    kind: str
    num: int
    num_plans: int
    first: str

    def counted(self) -> str:
        """``2 rooms that fill ...``"""
        noun, _, rest = self.kind.partition(" ")
        return f"{counted(self.num, noun)} {rest}"

    def sentence(self) -> str:
        """The count, and the first of them."""
        of = f" in {counted(self.num_plans, 'plan')}" if self.num > self.num_plans else ""
        return f"{self.counted()}{of}, the first: {self.first}"


def remarks_of(noted: Iterable[tuple[str, Note]]) -> tuple[Remark, ...]:
    """One for each kind of the notes, which stand at a place each."""
    by_kind: dict[str, list[tuple[str, str]]] = {}
    for place, note in noted:
        by_kind.setdefault(note.kind, []).append((place, note.what))
    return tuple(
        Remark(kind, len(those), len(dict(those)), ": ".join(those[0]))
        for kind, those in by_kind.items()
    )


@dataclass(frozen=True)
class ReadReport:
    """Report that ``read_report`` returns.

    ``path``: the file or folder. ``diagrams``: in its order; ``places``: of each, as in ``Record``.
    ``num_records``: lines, records or files that hold a plan each, ``unit`` what they are called:
    ``num_records = len(diagrams) + len(problems) + num_duplicates``. ``problems``: the invalid
    ones. ``num_duplicates``: those the source itself flags as duplicates. ``left_out``: what else
    the diagrams do not hold, counted by name ("self-loops", "walls", "node attributes").
    ``code_tables``: those that integer room codes were read by, with the files of each; none if
    rooms go by name. ``doubts``: plans that may belong to another one, diagrams all the same.
    ``remarks``: what else is odd in diagrams.
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
        """The names of the tables that were used."""
        return tuple(self.code_tables)

    @property
    def num_doubtful(self) -> int:
        return sum(doubt.num for doubt in self.doubts)

    def counts(self) -> str:
        """Numbers of diagrams that were read, and of what was left out."""
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
        """``rplan and coarse``; where files differ, ``rplan in a.jsonl, housegan in b.jsonl``."""
        files = list(self.code_tables.values())
        if all(each == files[0] for each in files):
            return " and ".join(self.codes)
        parts = []
        for name, (first, *others) in self.code_tables.items():
            more = f" and {counted(len(others), 'more file')}" if others else ""
            parts.append(f"{name} in {first.name}{more}")
        return ", ".join(parts)

    def summary(self) -> str:
        """One sentence: the counts, and the first reason if something is invalid."""
        first = f", the first: {self.problems[0].sentence()}" if self.problems else ""
        return self.counts() + first


def _counted(count: int, plural: str) -> str:
    singular = plural.removesuffix("es" if plural.endswith("xes") else "s")
    return f"{count:,} {singular if count == 1 else plural}"
