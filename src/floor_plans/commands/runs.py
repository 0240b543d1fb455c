"""Runs of ``discrete-diffusion data`` and ``plans``: checks, counts and conversions."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from rich.columns import Columns
from rich.console import Console
from rich.table import Table

from discrete_diffusion.config import counted
from discrete_diffusion.runtime import check_parent, write_text
from floor_plans.diagrams.diagram import BubbleDiagram
from floor_plans.diagrams.files import graph_formats
from floor_plans.diagrams.files.foreign_files import refuse_features
from floor_plans.diagrams.files.records import ReadReport
from floor_plans.diagrams.metrics.diagram_set import DiagramSet
from floor_plans.diagrams.metrics.diagrams import structure_metrics
from floor_plans.diagrams.procedural.generator import embedded_plans
from floor_plans.diagrams.vocabulary import RELATIONS, ROOM_TYPES
from floor_plans.drawings.drawn_plan import check_installed
from floor_plans.drawings.readers import ReadOptions, read_report
from floor_plans.drawings.realise_file import (
    access_report,
    drop_invalid_plans,
    judge_report,
    run_realise,
)
from floor_plans.drawings.realised_files import FORMATS, write_plan
from floor_plans.plans.box_model import cp_sat, is_installed
from floor_plans.plans.contradiction import NUM_DECIDED, impossible_plans, infeasible_plans
from floor_plans.plans.floor_plan import FloorPlan, check_units, plans_with_boxes
from floor_plans.rules.finding import check_extents, check_rooms
from floor_plans.rules.rule_set import read_rules

PICTURES = (".svg", ".png")
SUFFIXES = (".jsonl", ".json", ".graphml", ".dxf", ".ifc", ".pdf", ".geojson", *PICTURES)
MAX_DRAWN = 100  # most diagrams in one picture


def check_target(options: argparse.Namespace) -> None:
    """Raise ``ValueError`` for wrong options of the output, or if it would replace the input."""
    target = Path(options.target)
    suffix, name = target.suffix.lower(), target.name
    if suffix not in SUFFIXES:
        raise ValueError(f"'{name}': expected a name that ends in {', '.join(SUFFIXES)}")
    # options have to fit the format
    if options.format is not None and (suffix != ".json" or options.codes):
        raise ValueError(f"--format {options.format} writes .json, without --codes; got '{name}'")
    if (format := plan_format(options)) is not None:
        check_installed(format)
    if options.codes and suffix not in (".jsonl", ".json"):
        raise ValueError(f"--codes is for .jsonl and .json; '{name}' is written with names")
    if options.each and suffix not in PICTURES:
        raise ValueError(f"--each is for pictures, .svg and .png; got '{name}'")
    if options.first is not None and options.first < 1:
        raise ValueError(f"--first {options.first}: expected at least 1")
    # the output is neither the input nor an existing folder or file
    source = Path(options.source)
    inputs = [source, *source.iterdir()] if source.is_dir() else [source]
    if target.exists() and any(given.exists() and given.samefile(target) for given in inputs):
        raise ValueError(f"{target} is the input; choose another name for the output")
    if target.is_dir():
        raise ValueError(f"{target} is a folder; give the name of a file")
    check_parent("OUT", target)
    if target.exists() and not options.overwrite:
        raise ValueError(f"{target} is there already; give --overwrite to replace it")


def plan_format(options: argparse.Namespace) -> str | None:
    """Name in ``FORMATS`` of the format for dimensioned plans; None for a format of diagrams."""
    ending = Path(options.target).suffix.lower().removeprefix(".")
    is_plan = ending in FORMATS and f".{ending}" not in PICTURES
    return options.format or (ending if is_plan else None)


def write_target(options: argparse.Namespace, diagrams: Sequence[BubbleDiagram]) -> str:
    """Write the diagrams and return a sentence on what was written. Raises ``ValueError`` for no
    diagrams, and for diagrams that the format cannot hold."""
    target = Path(options.target)
    suffix, folder = target.suffix.lower(), target.with_suffix("")
    format = plan_format(options)
    read = diagrams
    if format is not None and options.skip_invalid:
        diagrams = [diagram for diagram in diagrams if diagram.boxes is not None]
    # one file, or a folder with a file each
    taken = diagrams[: options.first]
    if not taken:
        raise ValueError("no diagram was read, so nothing is written")
    items = taken if format is None else _plans(taken, options)
    takes_one = format is not None or suffix == ".graphml" or (options.each and suffix in PICTURES)
    write = _file_writer(options)
    in_folder = takes_one and (options.each or len(taken) > 1)
    if in_folder:
        said = partial(print, "what was there is now") if options.overwrite else None
        graph_formats.write_each(folder, suffix, items, write, replaced=said)
    else:
        write(target, items[0] if takes_one else items)
    written = f"{len(taken):,} of " if options.first else ""
    written += f"{counted(len(diagrams), 'diagram')} written"
    num_bare = len(read) - len(diagrams)
    left_out = f"; {num_bare:,} without boxes left out" if num_bare else ""
    return (f"{folder}: {written}, a file each" if in_folder else f"{target}: {written}") + left_out


def _file_writer(options: argparse.Namespace) -> Callable[[Path, Any], object]:
    """Return the function that writes a file of the target's format."""
    suffix = Path(options.target).suffix.lower()
    if (format := plan_format(options)) is not None:
        return lambda path, plan: write_plan(path, plan, format)
    if suffix in PICTURES:
        return partial(_draw, each=options.each)
    if suffix == ".graphml":
        return graph_formats.write_graphml
    write = graph_formats.write_diagrams if suffix == ".jsonl" else graph_formats.write_json_list
    return partial(write, names=not options.codes)


def _plans(diagrams: Sequence[BubbleDiagram], options: argparse.Namespace) -> list[FloorPlan]:
    """Build the dimensioned plans of diagrams; ``ValueError`` naming one that has none."""
    bare = [number for number, diagram in enumerate(diagrams, start=1) if diagram.boxes is None]
    if bare:
        raise ValueError(
            f"{len(bare):,} of {counted(len(diagrams), 'diagram')} without boxes, the first "
            f"number {bare[0]}; {Path(options.target).name} is of dimensioned plans. First "
            f"give them boxes: discrete-diffusion plans realise {options.source} out=FOLDER; or "
            "leave them out with --skip-invalid"
        )
    plans = []
    for number, diagram in enumerate(diagrams, start=1):
        try:
            plans.append(FloorPlan.of(diagram, options.unit))
            check_extents(plans[-1])
        except ValueError as error:
            raise ValueError(
                f"diagram {number}: {error}; --skip-invalid leaves such plans out"
            ) from error
    check_units(plans, diagrams, options.unit)
    return plans


def _draw(path: Path, drawn: Any, *, each: bool) -> None:
    """Plot one diagram, or several in one picture."""
    from floor_plans.diagrams.pictures.diagram_pictures import plot_diagram, plot_grid

    if each:
        plot_diagram(drawn, path)
        return
    if len(drawn) > MAX_DRAWN:
        raise ValueError(
            f"{len(drawn):,} diagrams are too many for one picture; draw some with "
            f"--first {MAX_DRAWN}, or a file for each with --each"
        )
    plot_grid(drawn, path)


@dataclass(frozen=True)
class Description:
    """Counts over a set of diagrams.

    ``num_distinct``: up to the order of rooms. ``rooms``, ``relations``: number of diagrams by
    number of rooms and of relations. ``diagrams_with``: number of diagrams with a room of the type.
    ``relation_types``: pairs by relation, read from the room with the smaller number.
    """

    num_diagrams: int
    num_distinct: int
    rooms: dict[int, int]
    relations: dict[int, int]
    room_types: dict[str, int]
    diagrams_with: dict[str, int]
    relation_types: dict[str, int]


def describe_diagrams(diagrams: Sequence[BubbleDiagram]) -> Description:
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
    console = Console(highlight=False)
    console.print(title, markup=False, soft_wrap=True)
    num, distinct = counts.num_diagrams, counts.num_distinct
    console.print(
        f"{counted(num, 'diagram')}, {distinct:,} distinct up to relabelling of their rooms "
        f"({counted(num - distinct, 'repeat')})\n"
    )
    # rows of the tables, as shares
    shares = [(k, v) for k, v in structure.items() if not k.startswith("edge")]  # of plans
    structures = [(name.replace("_", " "), value) for name, value in shares]
    num_rooms = sum(counts.room_types.values())
    rooms = [
        (name, count / num_rooms, counts.diagrams_with[name] / num)
        for name, count in counts.room_types.items()
        if count
    ]
    num_relations = max(sum(counts.relation_types.values()), 1)
    relations = [(name, count / num_relations) for name, count in counts.relation_types.items()]
    upper = [_histogram("rooms", counts.rooms), _histogram("relations", counts.relations)]
    upper.append(_table(("structure", "plans"), structures))
    lower = [_table(("room type", "share of rooms", "plans with one"), rooms)]
    lower.append(_table(("relation, of the earlier room", "share"), relations))
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


def _read(file: str, options: argparse.Namespace, *, skip_invalid: bool) -> ReadReport:
    """Read a file; plans may have an added hall in addition to ``max_nodes`` rooms."""
    refuse_features(file)
    names = ("max_nodes", "adjacency_threshold", "unit", "room_codes", "room_names")
    given = {name: getattr(options, name) for name in names}
    return read_report(file, ReadOptions(skip_invalid=skip_invalid, halls=1, **given))


def describe_file(options: argparse.Namespace) -> None:
    """Print counts of ``file``, or of the embedded plans, as tables or JSON."""
    facts: dict[str, Any]
    if options.file is None:
        title, diagrams = embedded_plans()
        facts = {"source": title}
    else:
        report = _read(options.file, options, skip_invalid=options.skip_invalid)
        title, diagrams = report.summary(), list(report.diagrams)
        facts = {
            "source": str(report.path),
            f"num_{report.unit}": report.num_records,
            "num_invalid": len(report.problems),
            "num_flagged_duplicates": report.num_duplicates,
            "left_out": dict(report.left_out),
            "room_codes": list(report.codes),
            "num_doubtful": report.num_doubtful,
            "remarks": {remark.kind: remark.num for remark in report.remarks},
        }
    counts, structure = describe_diagrams(diagrams), structure_metrics(diagrams)
    if options.json:
        print(json.dumps({**facts, **asdict(counts), "structure": structure}, indent=2))
    else:
        print_description(title, counts, structure)


def check_file(options: argparse.Namespace) -> None:
    """Print the invalid plans of ``file``, warnings on plans that cannot be built and, with
    ``rules``, judgements. Raises ``SystemExit`` for invalid plans and broken rules."""
    rules = read_rules(options.rules)
    if options.json and not rules.rules:
        raise ValueError("--json prints judgements: give --rules too, such as --rules default")
    num = options.plans
    if num is None:
        num = NUM_DECIDED if is_installed() else 0
    elif num < 0:
        raise ValueError(f"--plans {num}: expected at least 0")
    elif num:
        cp_sat()  # before anything is read
    if options.report is not None:
        check_parent("--report", Path(options.report))
        if Path(options.report).exists():
            raise ValueError(f"--report {options.report} is there already; choose another name")
    report = _read(options.file, options, skip_invalid=True)
    check = check_rooms if rules.rules else None
    report = drop_invalid_plans(report, options.unit, check=check)
    judged = judge_report(report, rules, options.unit) if rules.rules else None
    if options.report is not None:
        text = json.dumps(access_report(report, options.unit), indent=2)
        write_text(Path(options.report), text + "\n")
    if judged is None or not options.json:
        _print_problems(report, num)
    if judged is not None:
        print(json.dumps(judged.to_json(), indent=2) if options.json else judged.text())
    else:
        try:  # boxes in another unit than given; with rules this is an error
            plans_with_boxes(report.diagrams, options.unit)
        except ValueError as error:
            print(f"warning: {report.path}: {error}")
    if report.problems or not (judged is None or judged.is_kept):
        raise SystemExit(1)


def _print_problems(report: ReadReport, num: int) -> None:
    """Print problems and warnings; ``num``: number of diagrams that the solver tries to build."""
    for problem in report.problems:
        print(problem.sentence())
    if report.num_records > 1 or not report.problems:  # else the one sentence suffices
        print(report.counts() + ("" if report.problems else "; all can be read"))
    for warning in impossible_plans(report):
        print(f"warning: {warning}")
    for warning in infeasible_plans(report, num) if num else ():
        print(f"warning: {warning}")
    were_tried = all(each.vocabulary.has_directions for each in report.diagrams[:num])
    if 0 < num < len(report.diagrams) and were_tried:
        first = counted(num, "diagram")
        print(f"floor plans were searched of the first {first}; --plans N: of the first N")


def convert_file(options: argparse.Namespace) -> None:
    """Write the plans of ``source`` as ``target``."""
    check_target(options)  # before anything is read
    report = _read(options.source, options, skip_invalid=options.skip_invalid)
    if options.skip_invalid and plan_format(options) is not None:
        report = drop_invalid_plans(report, options.unit, check=check_extents)
    print(report.summary())
    print(write_target(options, report.diagrams))


def realise_file(options: argparse.Namespace) -> None:
    """Find a floor plan for every diagram of ``file``; ``ValueError`` for diagrams without
    directions."""

    def read(file: str) -> ReadReport:
        report = _read(file, options, skip_invalid=options.skip_invalid)
        if not all(diagram.vocabulary.has_directions for diagram in report.diagrams):
            raise ValueError(
                f"{file}: its plans say which rooms meet, not their directions (left-of, above, "
                "...), which a floor plan needs"
            )
        return report

    run_realise(options, read)
