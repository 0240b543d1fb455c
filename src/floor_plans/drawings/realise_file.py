"""Commands on files of plans: ``plans realise``, and the report of ``plans check --rules``."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from importlib.util import find_spec
from itertools import combinations
from pathlib import Path
from typing import Any

from discrete_diffusion.config import counted, unknown_name
from discrete_diffusion.runtime import StopSignals, refuse_overwriting
from floor_plans.diagrams.files.fields import DiagramError
from floor_plans.diagrams.files.records import Problem, ReadReport
from floor_plans.diagrams.geometry import threshold_of
from floor_plans.diagrams.metrics.access import SECONDS, RoomGraph, edit_distance, space_syntax
from floor_plans.drawings import FORMAT_NAMES
from floor_plans.drawings.drawn_parts import DrawingStyle
from floor_plans.drawings.drawn_plan import check_installed
from floor_plans.drawings.realised_files import PlanFiles, broken_rules
from floor_plans.plans.box_model import cp_sat
from floor_plans.plans.floor_plan import FRONT_DOOR, TOLERANCE, FloorPlan, plans_with_boxes
from floor_plans.plans.outline import Outline
from floor_plans.rules import rule_set
from floor_plans.rules.finding import added_rooms, kinds_of, name_of
from floor_plans.rules.rule_set import ALL, RULES, Judgement, KeptShare, RuleSet
from floor_plans.solver.changing import changed_jobs
from floor_plans.solver.realising import realise_all
from floor_plans.solver.requests import PlanRequest
from floor_plans.solver.spec import RoomAreas

_PICTURES = (".svg", ".png")


def run_realise(options: argparse.Namespace, read: Callable[[str], ReadReport]) -> None:
    """Find a plan for every diagram of FILE; after Ctrl-C the plans found so far are written.
    Raises ``ValueError`` for wrong options, and ``SystemExit`` for broken rules if ``strict``."""
    if options.near is not None and options.total_area is not None:
        raise ValueError(
            f"total_area={options.total_area:g} and near={options.near} are both given: rooms keep "
            'the areas of the earlier plan; leave total_area out, or give "areas" in the lines'
        )
    inputs = {"FILE": options.file, "areas": options.areas, "near": options.near}
    # options are checked before the file is read
    files, threads = checked_files(options, inputs)
    request = request_of(options, variants=options.variants)
    request = replace(request, areas=_areas(options, read))
    report = read(options.file)
    print(report.summary())
    # jobs, near earlier plans if these are given
    if options.near is None:
        jobs = request.jobs(report.diagrams, report.places)
    else:
        near = _earlier_plans(options, read, len(report.diagrams))
        jobs = changed_jobs(request, report.diagrams, near, report.places)
    # search, and end with what was found
    with StopSignals() as signals:
        signals.promise, signals.finish_step = "writing the plans that are found", True

        def stop_asked() -> bool:
            return signals.received is not None

        # a search that is given up leaves no threads behind
        with closing(realise_all(jobs, threads=threads, stop_asked=stop_asked)) as plans:
            numbers, summary = files.write_found(jobs, plans, stop_asked=stop_asked)
    print(summary)
    if signals.received is not None:
        raise SystemExit(128 + signals.received)
    if options.strict and (broken := broken_rules(numbers)):
        print(f"discrete-diffusion: strict=true: {broken}", file=sys.stderr)
        raise SystemExit(1)


def checked_files(
    options: argparse.Namespace, read: Mapping[str, str | None], *, also: Sequence[str] = ()
) -> tuple[PlanFiles, int]:
    """Check the options; return the files to write and the number of threads. ``read``: files that
    the command reads, by option; ``also``: further names that it writes. Raises ``ValueError`` for
    wrong options and files that would be overwritten."""
    words = options.formats.strip("[]").replace(" ", "").split(",")
    formats = tuple(dict.fromkeys(word for word in words if word))
    for name in formats:
        if name not in FORMAT_NAMES:
            known = unknown_name("format", name, FORMAT_NAMES)
            raise ValueError(f"formats={options.formats}: {known}")
    picture = Path(options.picture)
    if picture.suffix not in _PICTURES or picture.name != options.picture:
        expected = f"expected a name in {' or '.join(_PICTURES)}, without a folder"
        raise ValueError(f"picture={picture}: {expected}")
    # threads, by default one for each core that this process may use, and packages
    threads = options.threads
    if threads is None:
        # macOS and Windows do not say which cores these are
        has_affinity = hasattr(os, "sched_getaffinity")
        threads = len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count() or 1
    if threads < 1:
        raise ValueError(f"threads={threads}: expected at least 1")
    cp_sat()
    check_installed(*formats)
    style = DrawingStyle(options.language, options.layers, options.storey)
    files = PlanFiles(Path(options.out), options.picture, formats, style)
    for option, file in read.items():
        refuse_overwriting(files.folder, files.names, option, [file])
    there = [name for name in (*files.names, *also) if (files.folder / name).exists()]
    if there and not options.overwrite:
        raise ValueError(
            f"out={files.folder} holds an earlier {', '.join(there)}; give overwrite=true to "
            "replace them, or another out=DIR"
        )
    return files, threads


def request_of(options: argparse.Namespace, *, variants: int = 1) -> PlanRequest:
    """Convert the options to a request. Raises ``ValueError`` for wrong options."""
    return PlanRequest(
        total_area=options.total_area,
        outline=_outline_of_options(options),
        tolerance=options.tolerance,
        variants=variants,
        seed=options.seed,
        rules=rule_set.read_rules(options.rules),
        hall=options.hall,
        front_door=_read_front_door(options.front_door),
        north=options.north,
    )


def _outline_of_options(options: argparse.Namespace) -> Outline:
    """Outline that the options give: a boundary, in a file or as text, or a ratio."""
    text = given = options.boundary
    if given is None:
        return Outline(ratio=options.ratio)
    # corners, or the name of a file
    if not given.lstrip().startswith("["):
        if not (path := Path(given)).is_file():
            raise ValueError(
                f"boundary={path}: no such file; expected a JSON file or the corners "
                "[[x, y], ...] themselves, in metres"
            )
        text = path.read_text(encoding="utf-8-sig")
    try:
        return Outline(boundary=json.loads(text), ratio=options.ratio)
    except json.JSONDecodeError as error:
        reason = f"not JSON ({error}); expected [[x, y], ...] in metres"
        raise ValueError(f"boundary={given}: {reason}") from error


def _read_front_door(text: str | None) -> tuple[float, float] | None:
    """Parse ``[5.5,9]`` as a point. Raises ``ValueError`` for anything else."""
    if text is None:
        return None
    with suppress(TypeError, ValueError):
        if isinstance(point := json.loads(text), list):
            x, y = map(float, point)
            return x, y
    raise ValueError(f"front_door={text}: expected its place [x,y] on the boundary, in metres")


def _earlier_plans(
    options: argparse.Namespace, read: Callable[[str], ReadReport], num: int
) -> list[FloorPlan | None]:
    """Read the earlier plan of each of ``num`` diagrams; None if its line has no boxes."""
    file = options.near
    diagrams = read(file).diagrams
    try:
        found = iter(plans_with_boxes(diagrams, options.unit))
    except ValueError as error:
        raise ValueError(f"near={file}: {error}") from error
    plans = [None if each.boxes is None else next(found) for each in diagrams]
    if not any(plans):
        raise ValueError(f"near={file}: none of its lines has boxes; expected plans.jsonl")
    if len(plans) not in (1, num):
        raise ValueError(
            f"near={file}: {len(plans)} plans for {num} diagrams; expected one of each, or one"
        )
    return plans if len(plans) == num else plans * num


def _areas(options: argparse.Namespace, read: Callable[[str], ReadReport]) -> RoomAreas:
    """Source of target areas: the plans of a file, or typical areas."""
    if options.areas is None:
        return RoomAreas()
    diagrams = read(options.areas).diagrams
    plans = plans_with_boxes(diagrams, options.unit)
    if not plans:
        raise ValueError(f"areas={options.areas}: none of its plans has boxes to take areas from")
    if len(plans) < len(diagrams):
        share = f"{len(diagrams) - len(plans):,} of {len(diagrams):,} plans"
        print(f"areas={options.areas}: {share} have no boxes and are left out")
    return RoomAreas(plans)


_CELLS = {True: "yes", False: "NO", None: "-"}


@dataclass(frozen=True)
class RuleReport:
    """Judgements and locations of the plans read. ``problems``: sentences on plans that are not."""

    path: Path
    rules: RuleSet
    places: tuple[str, ...]
    judgements: tuple[Judgement, ...]
    num_without_boxes: int
    problems: tuple[str, ...]

    @property
    def is_kept(self) -> bool:
        """True if no plan breaks a rule."""
        return all(judgement.keeps_all for judgement in self.judgements)

    @property
    def shares(self) -> dict[str, KeptShare]:
        return rule_set.kept_shares(self.judgements, self.rules)

    def to_json(self) -> dict[str, Any]:
        return {
            "rules": self.rules.name,
            "num_plans": len(self.judgements),
            "num_without_boxes": self.num_without_boxes,
            "problems": list(self.problems),
            "shares": {name: share.to_json() for name, share in self.shares.items()},
            "plans": [
                {"place": place} | judgement.to_json()
                for place, judgement in zip(self.places, self.judgements, strict=True)
            ],
        }

    def text(self) -> str:
        """Report as text."""
        num, missing = len(self.judgements), self.num_without_boxes
        lines = [f"rules={self.rules.name}: {counted(num, 'plan')} judged"]
        if missing:
            lines[0] += f"; {counted(missing, 'diagram')} without boxes left out"
        if not num:
            return lines[0]
        # a row for each plan, with a column for each rule
        names = [name for name in self.shares if name != ALL]
        places = [place.removeprefix(f"{self.path}, ") for place in self.places]
        rows = [["plan", *names]]
        for place, judgement in zip(places, self.judgements, strict=True):
            rows.append([place, *(_CELLS[judgement.kept[name]] for name in names)])
        lines += ["", *_aligned_lines(rows), ""]
        # the share of plans that keep each rule, and what it demands
        rows = [["rule", "kept", "of", "share", "95 % interval"]]
        meanings = ["demands"]
        for name, share in self.shares.items():
            shown = ["-", "-"]
            if (found := share.interval) is not None:
                assert found.low is not None  # a share of samples has one
                assert found.high is not None
                shown = [f"{found.mean:.1%}", f"{found.low:.1%} to {found.high:.1%}"]
            rows.append([name, f"{share.num_kept:,}", f"{share.num_judged:,}", *shown])
            meanings.append("every rule that applies" if name == ALL else RULES[name].meaning)
        table = zip(_aligned_lines(rows), meanings, strict=True)
        lines += [f"{line}  {meaning.strip()}" for line, meaning in table]
        # the findings of each plan
        for place, judgement in zip(places, self.judgements, strict=True):
            if judgement.broken:
                lines += ["", place]
                lines += [f"  {rule}: {found.sentence()}" for rule, found in judgement.broken]
        return "\n".join(lines)


def drop_invalid_plans(
    report: ReadReport, unit: str, *, check: Callable[[FloorPlan], None] | None = None
) -> ReadReport:
    """Return the report without diagrams whose doors, outline, floors or added rooms are invalid;
    they become problems. ``unit``: unit of boxes that state none. ``check``: raises
    ``DiagramError`` for further plans to drop. Without shapely nothing is checked."""
    if find_spec("shapely") is None:
        return report
    sound, problems = [], list(report.problems)
    for k, diagram in enumerate(report.diagrams):
        try:
            if diagram.boxes is not None:
                plan = FloorPlan.of(diagram, unit)
                added_rooms(diagram)
                if check is not None:
                    check(plan)
            sound.append(k)
        except DiagramError as error:
            problems.append(Problem(report.places[k], "", error.field, error.reason))
    diagrams = tuple(report.diagrams[k] for k in sound)
    places = tuple(report.places[k] for k in sound)
    return replace(report, diagrams=diagrams, places=places, problems=tuple(problems))


def judge_report(report: ReadReport, rules: RuleSet, unit: str) -> RuleReport:
    """Judge the plans of a report. ``unit``: unit of boxes that state none. Raises ``ValueError``
    without shapely, and if the box sizes are implausible for the stated unit."""
    places, plans = _boxed_plans(report, unit)
    return RuleReport(
        report.path,
        rules,
        places,
        tuple(rule_set.judge(plan, rules) for plan in plans),
        num_without_boxes=len(report.diagrams) - len(plans),
        problems=tuple(problem.sentence() for problem in report.problems),
    )


def _boxed_plans(report: ReadReport, unit: str) -> tuple[tuple[str, ...], Sequence[FloorPlan]]:
    """Locations and plans of the diagrams with boxes."""
    check_installed()
    pairs = zip(report.places, report.diagrams, strict=True)
    places = tuple(place for place, diagram in pairs if diagram.boxes is not None)
    return places, plans_with_boxes(report.diagrams, unit)


def door_graph(plan: FloorPlan) -> RoomGraph:
    """Graph of the rooms of a plan and the outside, and the doors between them."""
    types = {FRONT_DOOR: "Outside", **dict(enumerate(kinds_of(plan)))}
    return RoomGraph.of(types, [door.rooms for door in plan.doors])


def relation_graphs(plan: FloorPlan) -> tuple[RoomGraph, RoomGraph]:
    """Graphs of the related rooms of a plan's diagram, and of the rooms with close floors."""
    types, most = dict(enumerate(kinds_of(plan))), threshold_of("metres", None) + TOLERANCE
    pairs, rooms = combinations(types, 2), plan.rooms
    close = [(i, j) for i, j in pairs if rooms[i].distance(rooms[j]) <= most]
    stated = [(i, j) for i, j, _ in plan.diagram.relations]
    return RoomGraph.of(types, stated), RoomGraph.of(types, close)


def access_report(report: ReadReport, unit: str) -> dict[str, Any]:
    """Space syntax of the doors of each plan, and the edit distance from its relations to those of
    its floors, as JSON. ``unit``: unit of boxes that state none."""
    found = []
    for place, plan in zip(*_boxed_plans(report, unit), strict=True):
        rooms = space_syntax(door_graph(plan), FRONT_DOOR)
        named = {room: name_of(plan, room) if room >= 0 else "outside" for room in rooms}
        began, distance = time.monotonic(), edit_distance(*relation_graphs(plan), seconds=SECONDS)
        found.append(
            {
                "place": place,
                "rooms": [{"room": named[room]} | each for room, each in rooms.items()],
                "edit_distance": distance,
                "edit_distance_is_exact": distance == 0 or time.monotonic() - began < SECONDS,
            }
        )
    return {"num_plans": len(found), "plans": found}


def _aligned_lines(rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a table; the first column is aligned to the left, other columns to the right."""
    width, *widths = (max(map(len, column)) for column in zip(*rows, strict=True))
    lines = []
    for first, *others in rows:
        cells = [cell.rjust(own) for cell, own in zip(others, widths, strict=True)]
        lines.append("  ".join([first.ljust(width), *cells]).rstrip())
    return lines
