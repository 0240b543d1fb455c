"""Counts of a set of diagrams, and their tables for ``data describe``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from rich.columns import Columns
from rich.console import Console
from rich.table import Table

from discrete_diffusion.config import counted
from floor_plans.diagrams.diagram import BubbleDiagram
from floor_plans.diagrams.metrics.diagram_set import DiagramSet
from floor_plans.diagrams.vocabulary import RELATIONS, ROOM_TYPES


@dataclass(frozen=True)
class Description:
    """Counts over a set of diagrams.

    ``num_distinct``: number of diagrams up to the order of rooms.
    ``rooms``, ``relations``: number of diagrams by their number of rooms (relations).
    ``room_types``: number of rooms by type. ``diagrams_with``: number of diagrams with the type.
    ``relation_types``: number of pairs by relation, read from the room with the smaller number.
    """

    num_diagrams: int
    num_distinct: int
    rooms: dict[int, int]
    relations: dict[int, int]
    room_types: dict[str, int]
    diagrams_with: dict[str, int]
    relation_types: dict[str, int]


def describe(diagrams: Sequence[BubbleDiagram]) -> Description:
    """Count rooms, relations and types; ``ValueError`` for an empty set."""
    if not diagrams:
        raise ValueError("no diagrams to describe; give a file with at least one")
    measured = DiagramSet.of(diagrams)
    words = measured.vocabulary
    # rooms by type, diagrams by type, pairs by relation
    types = Counter(room for diagram in diagrams for room in diagram.rooms)
    holders = Counter(room for diagram in diagrams for room in set(diagram.rooms))
    listed = Counter(r for diagram in diagrams for _, _, r in diagram.relations)
    return Description(
        num_diagrams=len(diagrams),
        num_distinct=len(measured.canonical_key_set),
        rooms=dict(sorted(Counter(diagram.num_rooms for diagram in diagrams).items())),
        relations=dict(sorted(Counter(len(diagram.relations) for diagram in diagrams).items())),
        room_types={name: types[ROOM_TYPES.index(name)] for name in words.room_types},
        diagrams_with={name: holders[ROOM_TYPES.index(name)] for name in words.room_types},
        relation_types={name: listed[RELATIONS.index(name)] for name in words.relations},
    )


def print_description(title: str, counts: Description, structure: Mapping[str, float]) -> None:
    """Print counts and shares; ``structure``: result of ``structure_metrics``."""
    console = Console()
    console.print(title, highlight=False, markup=False, soft_wrap=True)
    num, distinct = counts.num_diagrams, counts.num_distinct
    console.print(
        f"{counted(num, 'diagram')}, {distinct:,} distinct up to relabelling of their rooms "
        f"({counted(num - distinct, 'repeat')})",
        highlight=False,
    )
    console.print()
    # rows of the tables, as shares
    structures = [
        (name.replace("_", " "), value)
        for name, value in structure.items()
        if not name.startswith("edge")  # these are not shares of plans
    ]
    num_rooms = sum(counts.room_types.values())
    rooms = [
        (name, count / num_rooms, counts.diagrams_with[name] / num)
        for name, count in counts.room_types.items()
        if count
    ]
    num_relations = max(sum(counts.relation_types.values()), 1)
    relations = [(name, count / num_relations) for name, count in counts.relation_types.items()]
    # two rows of tables side by side
    upper = [
        _histogram("rooms", counts.rooms),
        _histogram("relations", counts.relations),
        _table(("structure", "plans"), structures),
    ]
    lower = [
        _table(("room type", "share of rooms", "plans with one"), rooms),
        _table(("relation, of the earlier room", "share"), relations),
    ]
    console.print(Columns(upper, padding=(0, 5)))
    console.print()
    console.print(Columns(lower, padding=(0, 5)))


def _histogram(what: str, histogram: Mapping[int, int]) -> Table:
    num = sum(histogram.values())
    mean = sum(size * count for size, count in histogram.items()) / num
    table = _table((what, "plans"), [(str(size), count / num) for size, count in histogram.items()])
    table.add_row("mean", f"{mean:.2f}")
    return table


def _table(columns: Sequence[str], rows: Iterable[tuple[str, *tuple[float, ...]]]) -> Table:
    """Table with a name and shares in each row."""
    table = Table(box=None, pad_edge=False)
    for k, column in enumerate(columns):
        table.add_column(column, justify="right" if k else "left")
    for name, *shares in rows:
        table.add_row(name, *(f"{100 * share:.1f} %" for share in shares))
    return table
