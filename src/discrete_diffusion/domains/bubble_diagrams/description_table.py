"""The tables that ``data describe`` prints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from rich.columns import Columns
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from discrete_diffusion.domains.bubble_diagrams.description import Description


def print_description(
    title: str, counts: Description, structure: Mapping[str, float], console: Console | None = None
) -> None:
    """Print counts and shares; ``structure``: what ``structure_metrics`` returns."""
    console = console or Console()
    console.print(title, highlight=False, markup=False, soft_wrap=True)
    num, distinct = counts.num_diagrams, counts.num_distinct
    console.print(
        f"{num:,} diagrams, {distinct:,} distinct up to relabelling of their rooms "
        f"({num - distinct:,} repeats)",
        highlight=False,
    )
    console.print()
    sizes = [_histogram("rooms", counts.rooms), _histogram("relations", counts.relations)]
    console.print(Columns([*sizes, _sound(structure)], padding=(0, 5)))
    console.print()
    console.print(Columns([_rooms(counts), _relations(counts)], padding=(0, 5)))


def _histogram(what: str, histogram: Mapping[int, int]) -> Table:
    num = sum(histogram.values())
    mean = sum(size * count for size, count in histogram.items()) / num
    table = _table(what, "plans")
    for size, count in histogram.items():
        table.add_row(str(size), _percent(count / num))
    table.add_row("mean", f"{mean:.2f}")
    return table


def _sound(structure: Mapping[str, float]) -> Table:
    table = _table("structure", "plans")
    for name, value in structure.items():
        if not name.startswith("edge"):  # no share of plans
            table.add_row(name.replace("_", " "), _percent(value))
    return table


def _rooms(counts: Description) -> Table:
    table = _table("room type", "share of rooms", "plans with one")
    total = sum(counts.room_types.values())
    for name, count in counts.room_types.items():
        if count:
            holders = counts.diagrams_with[name] / counts.num_diagrams
            table.add_row(name, _percent(count / total), _percent(holders))
    return table


def _relations(counts: Description) -> Table:
    table = _table("relation, as listed", "share")
    total = max(sum(counts.relation_types.values()), 1)
    for name, count in counts.relation_types.items():
        table.add_row(name, _percent(count / total))
    return table


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False)
    for k, column in enumerate(columns):
        table.add_column(column, justify="right" if k else "left")
    return table


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
