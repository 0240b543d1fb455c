"""Which table the room codes of a whole file belong to, where nothing names it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from discrete_diffusion.data.bubble_diagrams.code_tables import (
    CODE_TABLES,
    OUR_TABLE,
    RoomCodes,
    with_master_bedroom,
)
from discrete_diffusion.data.bubble_diagrams.fields import DiagramError
from discrete_diffusion.naming import counted

_DOUBTFUL = 0.1
"""Share of a file's plans that may speak against a table before the file is refused."""

_LIVING = "LivingRoom"
_MAX_SHOWN = 6

_Reading = tuple[str | None, ...] | None
_Readings = Mapping[str, Mapping[tuple[int, ...], _Reading]]
"""By table and plan: its room types, None if the table lacks a code of it."""


def table_of(path: Path, records: Iterable[tuple[RoomCodes, Callable[[str], Any]]]) -> str:
    """The table of a file's codes that nothing names: see ``recognised_table``.

    ``records``: of each, how its rooms are written, and what reads it by a table or raises
    ``DiagramError``; one that no table reads is wrong for another reason and says nothing. Raises
    ``ValueError`` naming the file.
    """
    plans, with_names = [], False
    for written, read in records:
        with_names |= written.named
        open_codes = written.integers and not written.named and written.table is None
        if open_codes and _is_readable(written.integers, read):
            plans.append(written.integers)
    if not plans:
        return OUR_TABLE
    try:
        return recognised_table(plans, with_names=with_names)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def _is_readable(codes: tuple[int, ...], read: Callable[[str], Any]) -> bool:
    for name in CODE_TABLES:
        if _reading(codes, name) is not None:
            try:
                read(name)
            except DiagramError:
                continue
            return True
    return False


def recognised_table(plans: Iterable[Sequence[int]], *, with_names: bool) -> str:
    """The table that the room codes of a file's ``plans`` belong to.

    A table is plausible if it has the codes of nine plans in ten. If all plausible tables read the
    plans alike, it is the first of them; ``with_names``: other plans of the file name their rooms,
    as we do, so that it is ours if ours is plausible.

    Raises ``ValueError`` with what each table would read if they differ, and if more than a tenth
    of the plans speak against the table: those it cannot read, and those it leaves without the
    living room that another table gives them.
    """
    counts = Counter(tuple(plan) for plan in plans)
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
        against = [plan for plan in counts if _speaks_against(plan, plausible[0], readings)]
        if sum(counts[plan] for plan in against) <= few:
            return plausible[0]
    raise ValueError(_refusal(readings, counts))


def _reading(plan: Sequence[int], name: str) -> _Reading:
    """Its room types and doors as that table has them; None if it lacks a code."""
    table = CODE_TABLES[name]
    known = {**table.known, **table.untyped}
    if not all(code in known for code in plan):
        return None
    return tuple(with_master_bedroom([known[code] for code in plan], None))


def _speaks_against(plan: tuple[int, ...], name: str, readings: _Readings) -> bool:
    read = readings[name][plan]
    others = [other[plan] for other in readings.values()]
    if read is None:
        return any(other is not None for other in others)
    return _LIVING not in read and any(other is not None and _LIVING in other for other in others)


def _refusal(readings: _Readings, counts: Counter[tuple[int, ...]]) -> str:
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
        meanings = ", ".join(f"{code} {meant}" for code in shown if (meant := table.meaning(code)))
        parts.append(
            f"{' or '.join(group)} reads {num:,} of {counted(counts.total(), 'plan')}, {living:,} "
            f"with a living room ({meanings})"
        )
    tables = " or ".join(f"data.codes={name}" for name in names)
    return (
        f"its room codes fit several tables: {'; '.join(parts)}. Name theirs: {tables} (sample and "
        "evaluate: codes=TABLE, discrete-diffusion data: --code-table TABLE); plans of different "
        "tables need a file each"
    )


def _num(
    counts: Counter[tuple[int, ...]],
    read: Mapping[tuple[int, ...], _Reading],
    holds: Callable[[_Reading], bool],
) -> int:
    return sum(num for plan, num in counts.items() if holds(read[plan]))


def _telling_codes(names: Sequence[str], counts: Counter[tuple[int, ...]]) -> list[int]:
    """The most frequent codes that the tables read differently, ascending."""
    frequent: Counter[int] = Counter()
    for plan, num in counts.items():
        for code in plan:
            frequent[code] += num
    differing = [
        code
        for code, _ in frequent.most_common()
        if len({CODE_TABLES[name].meaning(code) for name in names}) > 1
    ]
    return sorted(differing[:_MAX_SHOWN])
