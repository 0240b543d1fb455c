"""``ReadOptions`` of plans, and ``Reading``: the plans read so far."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from discrete_diffusion.layout import RPLAN_VOCAB_CONFIG
from floor_plans.diagrams.diagram import BubbleDiagram
from floor_plans.diagrams.files.code_tables import check_table
from floor_plans.diagrams.files.fields import DiagramError, SizeError, check_size, check_vocabulary
from floor_plans.diagrams.files.records import Note, Plan, Problem, Record, notes_of_boxes
from floor_plans.diagrams.geometry import threshold_of
from floor_plans.diagrams.vocabulary import DIRECTIONS, PlanVocabulary
from floor_plans.rules.finding import added_rooms


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """Options for reading plans.

    ``skip_invalid``: report invalid plans, and read on. ``n_max``: most rooms of a plan; ``halls``:
    further rooms allowed if a plan marks them as added. ``codes``: the table of integer room codes
    (``CODE_TABLES``) if a plan or its format names none; None recognises it, see
    ``recognise_codes``. ``names``: file of the user's own names of rooms, see ``read_names``.
    ``unit``: of boxes, and of DXF drawings that state none, one of ``UNITS``. ``threshold``:
    largest gap between related boxes, in their unit; None: the usual one, see ``threshold_of``.
    ``vocabulary``: of all plans; None: that of the first with relations.

    Raises ``ValueError`` for impossible values.
    """

    skip_invalid: bool = False
    n_max: int = RPLAN_VOCAB_CONFIG.n_max
    halls: int = 0
    threshold: float | None = None
    unit: str = "pixels"
    codes: str | None = None
    names: str | os.PathLike[str] | None = None
    vocabulary: PlanVocabulary | None = None

    def __post_init__(self) -> None:
        if self.n_max < 1:
            raise ValueError(f"n_max={self.n_max}: expected at least 1 room")
        threshold_of(self.unit, self.threshold)
        check_table(self.codes)

    @property
    def gap(self) -> float:
        """``threshold``, or the usual one of the unit."""
        return threshold_of(self.unit, self.threshold)


@dataclass
class Reading:
    """Plans read so far, and omissions; fields as in ``ReadReport``.

    ``measured``: plans whose relations come from boxes or a drawing, by place; ``noted``: oddities,
    by place. ``tables``: files read by each table of room codes.
    """

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
        """Read a record by a table of room codes.

        Raises ``ValueError`` for an invalid plan, unless these are skipped.
        """
        try:
            plan = self._read_sized(record, table)
        except DiagramError as error:
            self.problems.append(record.problem(error))
            if not self.options.skip_invalid:
                raise ValueError(self.problems[0].sentence()) from error
            return
        # count omissions, and skip duplicates
        self.left_out.update(plan.left_out)
        if table is not None:
            self.tables.setdefault(table, {})[record.path] = None
        if plan.duplicate:
            self.num_duplicates += 1
            return
        # the diagram, its place and notes
        self.diagrams.append(plan.diagram)
        self.places.append(record.place)
        notes = (*plan.notes, *notes_of_boxes(plan.diagram))
        self.noted += [(record.place, note) for note in notes]
        if plan.measured or plan.drawn is not None:
            self.measured.append((record.place, plan))

    def _read_sized(self, record: Record[Plan], table: str | None) -> Plan:
        """Read a plan of at most ``n_max`` rooms, plus added ``halls``. Raises ``DiagramError`` for
        any other."""
        n_max = self.options.n_max
        try:
            plan = record.read(table)
        except SizeError as error:
            check_size(error.num_rooms, n_max, error.field)  # the parser's error has n_max + halls
            raise
        if plan.diagram.num_rooms > n_max:
            check_size(plan.diagram.num_rooms - len(added_rooms(plan.diagram)), n_max, "rooms")
        return plan

    def leave_out_foreign(self) -> None:
        """Leave out diagrams with words outside the vocabulary.

        Raises ``ValueError`` for the first, unless invalid plans are skipped.
        """
        foreign = _foreign(self.diagrams, self.places, self.options.vocabulary)
        if foreign and not self.options.skip_invalid:
            raise ValueError(next(iter(foreign.values())).sentence())
        self.problems += foreign.values()
        self.diagrams = [each for k, each in enumerate(self.diagrams) if k not in foreign]
        self.places = [place for k, place in enumerate(self.places) if k not in foreign]


def _foreign(
    diagrams: Sequence[BubbleDiagram], places: Sequence[str], vocabulary: PlanVocabulary | None
) -> dict[int, Problem]:
    """Problems, by index, of diagrams with rooms or relations outside ``vocabulary``."""
    if vocabulary is None:
        # the vocabulary of the first diagram with relations
        related = (diagram for diagram in diagrams if diagram.relations)
        first = next(related, None) or next(iter(diagrams), None)
        vocabulary = DIRECTIONS if first is None else first.vocabulary
    found = {}
    for k, diagram in enumerate(diagrams):
        try:
            check_vocabulary(diagram.rooms, diagram.relations, vocabulary)
        except DiagramError as error:
            place, where = places[k], places[k].rpartition(", ")[2]
            found[k] = Problem(place, where, error.field, error.reason)
    return found
