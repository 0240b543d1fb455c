"""Recognition of the table that the room codes of a file belong to, where nothing names it."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from discrete_diffusion.config import counted
from floor_plans.diagrams.files.code_tables import (
    CODE_TABLES,
    OUR_TABLE,
    RoomCodes,
    with_master_bedroom,
)
from floor_plans.diagrams.files.fields import DiagramError
from floor_plans.diagrams.files.records import Doubt, Record

logger = logging.getLogger(__name__)

_DOUBTFUL = 0.1
"""Share of a file's plans that may speak against a table before the file is refused."""

_FEWEST_PLANS = 10
"""Plans by which a file of a folder is recognised on its own."""

_LIVING, _MASTER = "LivingRoom", "MasterRoom"
_MAX_SHOWN = 6

_Rooms = tuple[str | None, ...]


@dataclass(frozen=True)
class RecognisedCodes:
    """``named``: the table that the user named; ``tables``: that of each file, if the user named
    none; ``doubts``: the plans that another table makes more sense of."""

    named: str | None
    tables: Mapping[Path, str]
    doubts: tuple[Doubt, ...]

    def table_of(self, record: Record[object]) -> str | None:
        """The table that its codes are read by, None if it has none: its own, the one that the user
        named, ours if it also gives names, or the one of its file."""
        codes = record.room_codes
        if not codes.integers:
            return None
        found = OUR_TABLE if codes.named else self.tables.get(record.path, OUR_TABLE)
        return codes.table or self.named or found


def recognise_codes(
    path: Path, records: Iterable[Record[object]], named: str | None
) -> RecognisedCodes:
    """The tables of the codes in ``path`` that nothing names, see ``recognised_table``; none if the
    user has ``named`` one.

    A file of 10 such plans or more is decided by them alone; all smaller ones of a folder together.
    A plan that no table reads is wrong for another reason and does not count. Doubts are logged as
    warnings. Raises ``ValueError`` naming the file.
    """
    if named is not None:
        return RecognisedCodes(named, {}, ())
    open_records: dict[Path, list[Record[object]]] = {}
    with_names: set[Path] = set()
    for record in records:
        of_file = open_records.setdefault(record.path, [])
        if record.room_codes.named:
            with_names.add(record.path)
        if record.room_codes.is_open and _is_readable(record):
            of_file.append(record)
    small = [file for file, of_file in open_records.items() if len(of_file) < _FEWEST_PLANS]
    large = [[file] for file, of_file in open_records.items() if len(of_file) >= _FEWEST_PLANS]
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
    for doubt in doubts:
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
    """The table that the room codes of ``plans`` belong to.

    A table is plausible if it has the codes of nine plans in ten. If all plausible tables read the
    plans alike, it is the first of them; ``with_names``: other plans of the file name their rooms,
    as we do, so that it is ours if ours is plausible.

    Raises ``ValueError`` with what each table would read if they differ, and if more than a tenth
    of the plans speak against the table: those it cannot read, and those it leaves without a living
    room, or with several master rooms, of which another table makes sense.
    """
    counts = Counter(plans)
    few = _DOUBTFUL * counts.total()
    readings = {name: {plan: _reading(plan, name) for plan in counts} for name in CODE_TABLES}
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
    raise ValueError(_refusal(counts, readings))


def _reading(plan: RoomCodes, name: str) -> _Rooms | None:
    """Its room types and doors as that table has them; None if it lacks a code. Which bedroom is
    the largest is not known while a room is not."""
    table = CODE_TABLES[name]
    known = {**table.known, **table.untyped}
    if not all(code in known for code in plan.integers):
        return None
    rooms = [known[code] for code in plan.integers]
    return tuple(rooms if plan.unknown else with_master_bedroom(rooms, None))


def _sign(plan: RoomCodes, name: str) -> str | None:
    """Sign that the table reads a plan without sense, in words for it and a better one; empty if
    nothing shows that, None if the table lacks a code."""
    rooms = _reading(plan, name)
    if rooms is None:
        return None
    if not plan.unknown and _LIVING not in rooms:
        return "have no living room by {} but one by {}"
    if rooms.count(_MASTER) > 1:
        return "have several master rooms by {} but at most one by {}"
    return ""


def _speaks_against(plan: RoomCodes, name: str) -> bool:
    """True if another table makes sense of a plan that this one does not."""
    signs = {other: _sign(plan, other) for other in CODE_TABLES}
    own = signs.pop(name)
    if own is None:
        return any(sign is not None for sign in signs.values())
    return own != "" and "" in signs.values()


def _doubts(path: Path, records: Sequence[Record[object]], name: str) -> list[Doubt]:
    """The plans that the table reads and that speak against it, by the first sign of each."""
    distinct = {record.room_codes for record in records}
    against = {plan for plan in distinct if _speaks_against(plan, name)}
    showing: dict[str, list[Record[object]]] = {}
    for record in records:
        if record.room_codes in against and (sign := _sign(record.room_codes, name)):
            showing.setdefault(sign, []).append(record)
    found = []
    for sign, those in showing.items():
        sense = {o: [_sign(each.room_codes, o) == "" for each in those] for o in CODE_TABLES}
        others = [o for o in sense if all(sense[o])] or [o for o in sense if any(sense[o])]
        reason = sign.format(name, " or ".join(others))
        sentence = (
            f"{path}: {len(those):,} of {counted(len(records), 'plan')}, the first at "
            f"{those[0].place}, {reason}; if tables are mixed, give each a file of its own or say "
            'codes in each record ("codes": "housegan")'
        )
        found.append(Doubt(len(those), sentence))
    return found


def _refusal(
    counts: Counter[RoomCodes], readings: Mapping[str, Mapping[RoomCodes, _Rooms | None]]
) -> str:
    """Refusal that says what each table would read of more than a few plans: how many of them,
    living rooms, and the codes on which the tables differ."""
    total = counts.total()
    groups: dict[tuple[_Rooms | None, ...], list[str]] = {}
    for name, read in readings.items():
        if sum(num for plan, num in counts.items() if read[plan] is not None) > _DOUBTFUL * total:
            groups.setdefault(tuple(read.values()), []).append(name)
    names = [group[0] for group in groups.values()]
    shown = _distinctive_codes(names, counts)
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
    tables = " or ".join(f"data.codes={name}" for name in names)
    return (
        f"its room codes fit several tables: {'; '.join(parts)}. Name theirs: {tables} (sample and "
        "evaluate: codes=TABLE, discrete-diffusion data: --code-table TABLE); a file or folder of "
        'several tables needs a "codes": "TABLE" in each record'
    )


def _distinctive_codes(names: Sequence[str], counts: Counter[RoomCodes]) -> list[int]:
    """The most frequent codes that the tables read differently, ascending."""
    frequent = Counter(code for plan in counts.elements() for code in plan.integers)
    differing = [
        code
        for code, _ in frequent.most_common()
        if len({CODE_TABLES[name].meaning(code) for name in names}) > 1
    ]
    return sorted(differing[:_MAX_SHOWN])
