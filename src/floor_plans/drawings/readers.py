"""Readers of plans and partial diagrams in files and folders, which account for every record."""

from __future__ import annotations

import logging
import os
import reprlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from discrete_diffusion.config import Checked, Count, CountOrZero, counted
from discrete_diffusion.layout import RPLAN_VOCAB_CONFIG
from discrete_diffusion.runtime import GivenObjects, place_of_line, progress
from floor_plans.diagrams.diagram import BubbleDiagram
from floor_plans.diagrams.files import code_tables, fields, records
from floor_plans.diagrams.files.fields import DiagramError, check_size, check_vocabulary
from floor_plans.diagrams.files.foreign_files import foreign_format, numbered_lines, one_document
from floor_plans.diagrams.files.records import Note, Plan, Problem, ReadReport, Record
from floor_plans.diagrams.geometry import threshold_of
from floor_plans.diagrams.partial import PartialDiagram
from floor_plans.diagrams.vocabulary import DIRECTIONS, PlanVocabulary
from floor_plans.drawings.plan_files import count_other_files, plan_records, record_of_line
from floor_plans.rules.finding import added_rooms
from floor_plans.solver.requests import Diagrams


@dataclass(frozen=True, kw_only=True)
class ReadOptions(Checked):
    """Options for reading plans.

    ``skip_invalid``: report invalid plans, and read on. ``max_nodes``: most rooms of a plan;
    ``halls``: further rooms allowed if a plan marks them as added. ``room_codes``: the table of
    integer room codes (``CODE_TABLES``) if a plan or its format names none; None recognises it, see
    ``recognise_codes``. ``room_names``: file of the user's own names of rooms, see ``read_names``.
    ``unit``: unit of boxes, and of DXF drawings that state none, one of ``UNITS``.
    ``adjacency_threshold``: largest gap between related boxes, in their unit; None: the usual gap,
    see ``threshold_of``. ``vocabulary``: vocabulary of all plans; None: that of the first plan with
    relations.

    Raises ``ValueError`` for impossible values.
    """

    skip_invalid: bool = False
    max_nodes: Count = RPLAN_VOCAB_CONFIG.n_max
    halls: CountOrZero = 0
    adjacency_threshold: float | None = None
    unit: str = "pixels"
    room_codes: str | None = None
    room_names: str | os.PathLike[str] | None = None
    vocabulary: PlanVocabulary | None = None

    def __post_init__(self) -> None:
        threshold_of(self.unit, self.adjacency_threshold)
        code_tables.check_table(self.room_codes)

    @property
    def gap(self) -> float:
        """``adjacency_threshold``, or the usual gap in the unit."""
        return threshold_of(self.unit, self.adjacency_threshold)


@dataclass
class Reading:
    """Plans read so far, and omissions; fields as in ``ReadReport``. ``measured``: plans whose
    relations come from boxes or a drawing, by place. ``tables``: files read by each code table."""

    options: ReadOptions
    diagrams: list[BubbleDiagram] = field(default_factory=list)
    places: list[str] = field(default_factory=list)
    measured: list[tuple[str, Plan]] = field(default_factory=list)
    noted: list[tuple[str, Note]] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    tables: dict[str, dict[Path, None]] = field(default_factory=dict)
    num_duplicates: int = 0

    def take(self, record: Record[Plan], table: str | None) -> None:
        """Read a record by a table of room codes. Raises ``ValueError`` for an invalid plan, unless
        invalid plans are skipped."""
        try:
            plan = self._read_sized(record, table)
        except DiagramError as error:
            self.problems.append(record.problem(error))
            if not self.options.skip_invalid:
                raise ValueError(self.problems[0].sentence()) from error
            return
        self.left_out.update(plan.left_out)
        if table is not None:
            self.tables.setdefault(table, {})[record.path] = None
        if plan.duplicate:
            self.num_duplicates += 1
            return
        self.diagrams.append(plan.diagram)
        self.places.append(record.place)
        notes = (*plan.notes, *records.notes_of_boxes(plan.diagram))
        self.noted += [(record.place, note) for note in notes]
        if plan.measured or plan.drawn is not None:
            self.measured.append((record.place, plan))

    def _read_sized(self, record: Record[Plan], table: str | None) -> Plan:
        """Read a plan of at most ``max_nodes`` rooms, plus ``halls``. Raises ``DiagramError``."""
        max_nodes = self.options.max_nodes
        try:
            plan = record.read(table)
        except fields.SizeError as error:  # says max_nodes + halls
            check_size(error.num_rooms, max_nodes, error.field)
            raise
        if plan.diagram.num_rooms > max_nodes:
            check_size(plan.diagram.num_rooms - len(added_rooms(plan.diagram)), max_nodes, "rooms")
        return plan

    def leave_out_foreign(self) -> None:
        """Leave out diagrams with rooms or relations outside the vocabulary. Raises ``ValueError``
        for the first of them, unless invalid plans are skipped."""
        vocabulary = self.options.vocabulary
        if vocabulary is None:
            # the vocabulary of the first diagram with relations
            related = (diagram for diagram in self.diagrams if diagram.relations)
            first = next(related, None) or next(iter(self.diagrams), None)
            vocabulary = DIRECTIONS if first is None else first.vocabulary
        foreign = {}
        for k, (diagram, place) in enumerate(zip(self.diagrams, self.places, strict=True)):
            try:
                check_vocabulary(diagram.rooms, diagram.relations, vocabulary)
            except DiagramError as error:
                where = place.rpartition(", ")[2]
                foreign[k] = Problem(place, where, error.field, error.reason)
        if foreign and not self.options.skip_invalid:
            raise ValueError(next(iter(foreign.values())).sentence())
        self.problems += foreign.values()
        self.diagrams = [each for k, each in enumerate(self.diagrams) if k not in foreign]
        self.places = [place for k, place in enumerate(self.places) if k not in foreign]


logger = logging.getLogger(__name__)

_LABELS = ("given", "name", "id")
"""Keys that name a partial diagram, copied to its completions without a warning."""

_MAX_NAMED = 6


def read_diagrams(
    path: str | os.PathLike[str],
    *,
    skip_invalid: bool = False,
    max_nodes: int = RPLAN_VOCAB_CONFIG.n_max,
    adjacency_threshold: float | None = None,
    unit: str = "pixels",
    room_codes: str | None = None,
    room_names: str | os.PathLike[str] | None = None,
    vocabulary: PlanVocabulary | None = None,
) -> Diagrams:
    """Read the diagrams of a file or folder, in its order; see ``read_report``, and ``ReadOptions``
    for the keywords.

    Omissions (invalid plans under ``skip_invalid``, flagged duplicates, self-loops, walls) and
    oddities are logged.

    Raises:
        FileNotFoundError: nothing is at ``path``.
        ValueError: a plan is invalid or has more than ``max_nodes`` rooms (unless
            ``skip_invalid``), naming file, line or record, and field; a keyword is wrong or does
            not fit the file; or the package that reads a drawing is missing.
    """
    options = ReadOptions(
        skip_invalid=skip_invalid,
        max_nodes=max_nodes,
        adjacency_threshold=adjacency_threshold,
        unit=unit,
        room_codes=room_codes,
        room_names=room_names,
        vocabulary=vocabulary,
    )
    report = read_report(path, options)
    if report.problems or report.num_duplicates or report.left_out:
        logger.log(logging.WARNING if report.problems else logging.INFO, "%s", report.summary())
    return Diagrams(report.diagrams)


def read_report(path: str | os.PathLike[str], options: ReadOptions | None = None) -> ReadReport:
    """Read plans and account for every line, record or file.

    JSON, JSON lines, GraphML, drawings, MATLAB files and data sets, or a folder of such files in
    the order of their names, see ``plan_files``; all but MATLAB's may be gzipped. The fields of a
    plan in JSON show its format, see ``parse_plan``.

    Raises ``FileNotFoundError`` naming the path looked for; ``ValueError`` naming file, line or
    record, field and reason for the first plan that is invalid or has more than ``max_nodes``
    rooms; with ``skip_invalid`` the report lists it instead. Also raised for codes that fit several
    tables, boxes that are hardly in ``unit`` (``check_scale``) or in one unit
    (``check_one_unit``), and drawings that are hardly in their unit (``check_drawings``).
    """
    path, options = Path(path), options or ReadOptions()
    if not path.exists():
        raise FileNotFoundError(f"no plans file at {path.absolute()}")
    # the records, and the table of their room codes
    own_names = fields.read_names(options.room_names)
    with progress.task(f"opening {path.name}"):
        most = options.max_nodes + options.halls
        listed = plan_records(path, most, options.gap, options.unit, own_names)
        found = records.recognise_codes(path, listed, options.room_codes)
    reading = Reading(options)
    for record in progress.track(listed, f"reading {path.name}", "plans"):
        reading.take(record, found.table_of(record))
    # checks and remarks on all plans together
    records.check_measured(path, reading.measured, options.unit, options.adjacency_threshold)
    remarks = records.remarks_of(reading.noted)
    for remark in remarks:
        logger.warning("%s", remark.sentence())
    reading.leave_out_foreign()
    if path.is_dir() and (num_others := count_other_files(path)):
        reading.left_out["other files"] = num_others
    # lines or records, or plans if they are mixed
    units = {record.where.split(" ")[0] for record in listed}
    unit = f"{units.pop()}s" if units in ({"line"}, {"record"}) else "plans"
    return ReadReport(
        path=path,
        diagrams=tuple(reading.diagrams),
        num_records=len(listed),
        unit=unit,
        problems=tuple(reading.problems),
        num_duplicates=reading.num_duplicates,
        left_out=dict(reading.left_out),
        code_tables={name: tuple(reading.tables[name]) for name in sorted(reading.tables)},
        doubts=found.doubts,
        places=tuple(reading.places),
        remarks=remarks,
    )


def read_partials(
    path: str | os.PathLike[str],
    *,
    max_nodes: int = RPLAN_VOCAB_CONFIG.n_max,
    room_codes: str | None = None,
    vocabulary: PlanVocabulary | None = None,
) -> list[PartialDiagram]:
    """Read the partial diagrams of a file, in its order; see ``numbered_partials``.

    Raises:
        FileNotFoundError: nothing is at ``path``.
        ValueError: ``path`` is a folder or not a file of JSON lines, or a line is wrong,
            contradicts itself or has more than ``max_nodes`` rooms, naming file, line and field.
    """
    partials = numbered_partials(
        path, max_nodes=max_nodes, room_codes=room_codes, vocabulary=vocabulary
    )
    return list(partials.values())


def numbered_partials(
    given: str | os.PathLike[str] | GivenObjects,
    *,
    max_nodes: int = RPLAN_VOCAB_CONFIG.n_max,
    room_codes: str | None = None,
    vocabulary: PlanVocabulary | None = None,
) -> dict[int, PartialDiagram]:
    """Read the partial diagrams of a file, plain or gzipped, or of objects, by the number of their
    line, from 1 on. A line holds one JSON object, see ``PartialDiagram.from_json``; blank lines are
    skipped. ``room_codes``, ``vocabulary``: as for plans, see ``ReadOptions``. Unknown keys are
    logged, except for labels (``name``, ``id``, ``given``).

    Raises ``FileNotFoundError`` naming the path, and ``ValueError`` naming file, line and field for
    the first line that is wrong, contradicts itself, has more than ``max_nodes`` rooms, or has a
    key ``given`` that is not a number, as completions use that key for the line they complete. Also
    raised for room codes that fit several tables.
    """
    code_tables.check_table(room_codes)
    path = Path(str(given))
    parse = partial(_parse_partial, max_nodes=max_nodes, vocabulary=vocabulary)
    # records of the lines that are not blank, and the table of their room codes
    if isinstance(given, GivenObjects):
        numbered = given.numbered_lines()
        lines = {k: (Path(place_of_line(given, k)), "", line) for k, line in numbered}
    else:
        try:
            _check_lines(path)
            found_lines = [*numbered_lines(path)]
        except DiagramError as error:  # a damaged file
            raise ValueError(f"{path}: {error.reason}") from error
        lines = {number: (path, f"line {number}", line) for number, line in found_lines}
    by_line = {k: record_of_line(*place, _room_codes, parse) for k, place in lines.items()}
    found = records.recognise_codes(path, by_line.values(), room_codes)
    partials = {}
    for number, record in by_line.items():
        try:
            partials[number] = record.read(found.table_of(record))
        except DiagramError as error:
            raise ValueError(record.problem(error).sentence()) from error
    # keys that are neither part of a diagram nor labels, with their number of lines
    counts = Counter(key for each in partials.values() for key in each.metadata)
    others = {key: num for key, num in counts.items() if key not in _LABELS}
    if others:
        shown = [f"{reprlib.repr(key)} ({counted(num, 'line')})" for key, num in others.items()]
        more = f" and {len(shown) - _MAX_NAMED} more" if len(shown) > _MAX_NAMED else ""
        listed = ", ".join(shown[:_MAX_NAMED]) + more
        logger.warning("%s: ignored, and copied to the completions unchanged: %s", path, listed)
    return partials


def _parse_partial(
    data: Any, table: str | None, *, max_nodes: int, vocabulary: PlanVocabulary | None
) -> PartialDiagram:
    """Read a partial diagram; raise ``DiagramError`` if it is invalid or unknown to the model."""
    diagram = PartialDiagram.from_json(data, codes=table or code_tables.OUR_TABLE)
    if type(diagram.metadata.get("given", 0)) is not int:
        reason = "completions keep the number of their line under this key; rename yours"
        raise DiagramError("given", reason)
    if vocabulary is not None:
        check_vocabulary(diagram.rooms, diagram.relations, vocabulary)
    if (num := diagram.num_rooms) > max_nodes:
        raise DiagramError("rooms", f"{num} rooms, more than the {max_nodes} that the model knows")
    return diagram


def _check_lines(path: Path) -> None:
    """Raise an error unless a file of partial diagrams is there and holds an object per line."""
    if path.is_dir():
        raise ValueError(f"{path} is a folder; give the path of a file of JSON lines")
    if not path.exists():
        raise FileNotFoundError(f"no file of partial diagrams at {path.absolute()}")
    # files of other formats, and documents of several lines
    reason = foreign_format(path)
    if not reason and one_document(path):
        reason = "one JSON text of several lines, or a list; expected one JSON object per line"
        reason += ", a partial diagram each"
    if not reason and next(numbered_lines(path), None) is None:
        reason = "the file is empty; expected one JSON object per line"
    if reason:
        raise ValueError(f"{path}: {reason}")


def _room_codes(data: object) -> code_tables.RoomCodes:
    """Codes of the rooms of a JSON object."""
    if not isinstance(data, Mapping):
        return code_tables.RoomCodes()
    return code_tables.codes_of(data.get("rooms"), data.get(code_tables.CODES_FIELD))
