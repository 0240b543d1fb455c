"""Which table the room codes of a file belong to, where nothing names it."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from discrete_diffusion.domains.bubble_diagrams.files.code_tables import (
    CODE_TABLES,
    OUR_TABLE,
    RoomCodes,
    with_master_bedroom,
)
from discrete_diffusion.domains.bubble_diagrams.files.fields import DiagramError
from discrete_diffusion.domains.bubble_diagrams.files.report import Doubt, place_of
from discrete_diffusion.naming import counted

logger = logging.getLogger(__name__)

_DOUBTFUL = 0.1
"""Share of a file's plans that may speak against a table before the file is refused."""

_FEWEST_PLANS = 10
"""Plans by which a file of a folder is recognised on its own."""

_LIVING, _MASTER = "LivingRoom", "MasterRoom"
_MAX_SHOWN = 6

_Reading = tuple[str | None, ...] | None
_Sign = Callable[[RoomCodes, tuple[str | None, ...]], bool]
_Readings = Mapping[str, Mapping[RoomCodes, _Reading]]
"""By table and plan: its room types, None if the table lacks a code of it."""


class CodedPlan(NamedTuple):
    """A plan of ``path``, where it stands in it, what its rooms are written in, and what reads it
    by a table or raises ``DiagramError``."""

    path: Path
    record: str
    written: RoomCodes
    read: Callable[[str], Any]


class RecognisedCodes(NamedTuple):
    """The table of each file's open codes, and the plans that another table makes more sense of."""

    tables: Mapping[Path, str]
    doubts: tuple[Doubt, ...]


def recognise_codes(path: Path, plans: Iterable[CodedPlan]) -> RecognisedCodes:
    """The tables of the codes in ``path`` that nothing names, see ``recognised_table``.

    A file of 10 such plans or more is decided by them alone; all smaller ones of a folder together.
    A plan that no table reads is wrong for another reason and says nothing. Doubts are logged as
    warnings. Raises ``ValueError`` naming the file.
    """
    open_plans: dict[Path, list[CodedPlan]] = {}
    with_names: set[Path] = set()
    for plan in plans:
        of_file = open_plans.setdefault(plan.path, [])
        if plan.written.named:
            with_names.add(plan.path)
        if plan.written.is_open and _is_readable(plan):
            of_file.append(plan)
    small = [file for file, of_file in open_plans.items() if len(of_file) < _FEWEST_PLANS]
    large = [file for file, of_file in open_plans.items() if len(of_file) >= _FEWEST_PLANS]
    tables: dict[Path, str] = {}
    doubts: list[Doubt] = []
    for files in [[file] for file in large] + [small]:
        decided_by = [plan for file in files for plan in open_plans[file]]
        source = decided_by[0].path if len({plan.path for plan in decided_by}) == 1 else path
        table = OUR_TABLE
        if decided_by:
            written = [plan.written for plan in decided_by]
            try:
                table = recognised_table(written, with_names=not with_names.isdisjoint(files))
            except ValueError as error:
                raise ValueError(f"{source}: {error}") from error
            doubts += _doubts(source, decided_by, table)
        tables.update(dict.fromkeys(files, table))
    for doubt in doubts:
        logger.warning("%s", doubt.sentence())
    return RecognisedCodes(tables, tuple(doubts))


def _is_readable(plan: CodedPlan) -> bool:
    for name in CODE_TABLES:
        if _reading(plan.written, name) is not None:
            try:
                plan.read(name)
            except DiagramError:
                continue
            return True
    return False


def recognised_table(plans: Iterable[RoomCodes], *, with_names: bool) -> str:
    """The table that the room codes of ``plans`` belong to.

    A table is plausible if it has the codes of nine plans in ten. If all plausible tables read the
    plans alike, it is the first of them; ``with_names``: other plans of the file name their rooms,
    as we do, so that it is ours if ours is plausible.

    Raises ``ValueError`` with what each table would read if they differ, and if more than a tenth
    of the plans speak against the table: those it cannot read, and those it leaves without a living
    room, or with several master rooms, of which another table makes sense.
    """
    counts = Counter(plans)
    readings = {name: {plan: _reading(plan, name) for plan in counts} for name in CODE_TABLES}
    few = _DOUBTFUL * counts.total()
    plausible = [
        name
        for name, read in readings.items()
        if sum(num for plan, num in counts.items() if read[plan] is None) <= few
    ]
    if with_names and OUR_TABLE in plausible:
        plausible = [OUR_TABLE]
    if plausible and all(readings[name] == readings[plausible[0]] for name in plausible):
        against = [plan for plan in counts if _speaks_against(plan, plausible[0])]
        if sum(counts[plan] for plan in against) <= few:
            return plausible[0]
    raise ValueError(_refusal(readings, counts))


def _reading(plan: RoomCodes, name: str) -> _Reading:
    """Its room types and doors as that table has them; None if it lacks a code. Which bedroom is
    the largest is not known while a room is not."""
    table = CODE_TABLES[name]
    known = {**table.known, **table.untyped}
    if not all(code in known for code in plan.integers):
        return None
    rooms = [known[code] for code in plan.integers]
    return tuple(rooms if plan.unknown else with_master_bedroom(rooms, None))


def _lacks_living_room(plan: RoomCodes, read: tuple[str | None, ...]) -> bool:
    return not plan.unknown and _LIVING not in read


def _has_master_rooms(plan: RoomCodes, read: tuple[str | None, ...]) -> bool:
    return read.count(_MASTER) > 1


_SIGNS: dict[_Sign, str] = {
    _lacks_living_room: "have no living room by {} but one by {}",
    _has_master_rooms: "have several master rooms by {} but at most one by {}",
}
"""What a plan looks like that is read by the wrong table, in words for the tables of both."""


def _makes_sense(plan: RoomCodes, name: str) -> bool:
    read = _reading(plan, name)
    return read is not None and not any(sign(plan, read) for sign in _SIGNS)


def _speaks_against(plan: RoomCodes, name: str) -> bool:
    """Whether another table makes sense of a plan that this one reads without sense, or not."""
    others = [other for other in CODE_TABLES if other != name]
    if _reading(plan, name) is None:
        return any(_reading(plan, other) is not None for other in others)
    return not _makes_sense(plan, name) and any(_makes_sense(plan, other) for other in others)


def _doubts(path: Path, plans: Sequence[CodedPlan], name: str) -> list[Doubt]:
    """The plans that the table reads and that speak against it, by the first sign of each."""
    against = {written for plan in plans if _speaks_against(written := plan.written, name)}
    showing: dict[_Sign, list[CodedPlan]] = {}
    for plan in plans:
        read = _reading(plan.written, name)
        if plan.written in against and read is not None:
            first = next(sign for sign in _SIGNS if sign(plan.written, read))
            showing.setdefault(first, []).append(plan)
    found = []
    for sign, those in showing.items():
        sense = {o: [_makes_sense(plan.written, o) for plan in those] for o in CODE_TABLES}
        others = [o for o in sense if all(sense[o])] or [o for o in sense if any(sense[o])]
        reason = _SIGNS[sign].format(name, " or ".join(others))
        where = place_of(those[0].path, those[0].record)
        found.append(Doubt(path, len(those), len(plans), where, reason))
    return found


def _refusal(readings: _Readings, counts: Counter[RoomCodes]) -> str:
    """What each table would read of more than a few plans: how many of them, living rooms, and the
    codes on which the tables differ."""
    groups: dict[tuple[_Reading, ...], list[str]] = {}
    for name, read in readings.items():
        if _num(counts, read, lambda rooms: rooms is not None) > _DOUBTFUL * counts.total():
            groups.setdefault(tuple(read[plan] for plan in counts), []).append(name)
    names = [group[0] for group in groups.values()]
    shown = _telling_codes(names, counts)
    parts = []
    for group in groups.values():
        read, table = readings[group[0]], CODE_TABLES[group[0]]
        num = _num(counts, read, lambda rooms: rooms is not None)
        living = _num(counts, read, lambda rooms: rooms is not None and _LIVING in rooms)
        masters = _num(counts, read, lambda rooms: rooms is not None and rooms.count(_MASTER) > 1)
        several = f", {masters:,} with several master rooms" if masters else ""
        meanings = ", ".join(f"{code} {meant}" for code in shown if (meant := table.meaning(code)))
        parts.append(
            f"{' or '.join(group)} reads {num:,} of {counted(counts.total(), 'plan')}, {living:,} "
            f"with a living room{several} ({meanings})"
        )
    tables = " or ".join(f"data.codes={name}" for name in names)
    return (
        f"its room codes fit several tables: {'; '.join(parts)}. Name theirs: {tables} (sample and "
        "evaluate: codes=TABLE, discrete-diffusion data: --code-table TABLE); a file or folder of "
        'several tables needs a "codes": "TABLE" in each record'
    )


def _num(
    counts: Counter[RoomCodes],
    read: Mapping[RoomCodes, _Reading],
    holds: Callable[[_Reading], bool],
) -> int:
    return sum(num for plan, num in counts.items() if holds(read[plan]))


def _telling_codes(names: Sequence[str], counts: Counter[RoomCodes]) -> list[int]:
    """The most frequent codes that the tables read differently, ascending."""
    frequent: Counter[int] = Counter()
    for plan, num in counts.items():
        for code in plan.integers:
            frequent[code] += num
    differing = [
        code
        for code, _ in frequent.most_common()
        if len({CODE_TABLES[name].meaning(code) for name in names}) > 1
    ]
    return sorted(differing[:_MAX_SHOWN])
