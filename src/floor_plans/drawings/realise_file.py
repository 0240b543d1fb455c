"""Command ``plans realise``: floor plans for a file of diagrams."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from discrete_diffusion.config import unknown_name
from discrete_diffusion.runtime import StopSignals, refuse_overwriting
from floor_plans.diagrams.files.records import ReadReport
from floor_plans.drawings import FORMAT_NAMES
from floor_plans.drawings.drawing_style import DrawingStyle
from floor_plans.drawings.drawn_plan import check_installed
from floor_plans.drawings.ifc import check_ifc
from floor_plans.drawings.realised_files import PlanFiles, broken_rules, summary
from floor_plans.plans.box_model import cp_sat
from floor_plans.plans.floor_plan import FloorPlan, plans_with_boxes
from floor_plans.plans.outline import Outline
from floor_plans.rules.rule_set import read_rules
from floor_plans.solver.changing import changed_jobs
from floor_plans.solver.requests import PlanRequest
from floor_plans.solver.spec import RoomAreas

_PICTURES = (".svg", ".png")


def run_realise(options: argparse.Namespace, read: Callable[[str], ReadReport]) -> None:
    """Find a plan for every diagram of FILE. After Ctrl-C the plans found so far are written.

    ``read``: returns the ``ReadReport`` of a file. Raises ``ValueError`` for wrong options, and
    ``SystemExit`` if a plan breaks a rule and ``strict`` forbids it.
    """
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
        numbers = files.write(
            jobs, threads=threads, stop_asked=lambda: signals.received is not None
        )
    print(summary(numbers, files))
    if signals.received is not None:
        raise SystemExit(128 + signals.received)
    if options.strict and (broken := broken_rules(numbers)):
        print(f"discrete-diffusion: strict=true: {broken}", file=sys.stderr)
        raise SystemExit(1)


def checked_files(
    options: argparse.Namespace, read: Mapping[str, str | None]
) -> tuple[PlanFiles, int]:
    """Check the options. Returns the files to write and the number of threads.

    ``read``: files that the command reads, by option. Raises ``ValueError`` for wrong options,
    missing packages, and files that would be overwritten.
    """
    formats = _formats(options.formats)
    picture = Path(options.picture)
    if picture.suffix not in _PICTURES or picture.name != options.picture:
        raise ValueError(
            f"picture={picture}: expected a name in {' or '.join(_PICTURES)}, without a folder"
        )
    # threads and packages
    threads = _cores() if options.threads is None else options.threads
    if threads < 1:
        raise ValueError(f"threads={threads}: expected at least 1")
    cp_sat()
    check_installed()
    if "ifc" in formats:
        check_ifc()
    # files that may be written
    style = DrawingStyle(options.language, options.layers, options.storey)
    files = PlanFiles(Path(options.out), options.picture, formats, style)
    _check_folder(files, read, overwrite=options.overwrite)
    return files, threads


def request_of(options: argparse.Namespace, *, variants: int = 1) -> PlanRequest:
    """Request for plans with typical areas. Raises ``ValueError`` for wrong options."""
    return PlanRequest(
        total_area=options.total_area,
        outline=_outline(options),
        tolerance=options.tolerance,
        variants=variants,
        seed=options.seed,
        rules=read_rules(options.rules),
        hall=options.hall,
        front_door=_front_door(options.front_door),
        north=options.north,
    )


def _cores() -> int:
    """Cores that this process may use, if the system tells."""
    if hasattr(os, "sched_getaffinity"):  # not on macOS and Windows
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _formats(names: str) -> tuple[str, ...]:
    """Names of formats in an option."""
    words = names.strip("[]").replace(" ", "").split(",")
    formats = tuple(dict.fromkeys(word for word in words if word))
    for name in formats:
        if name not in FORMAT_NAMES:
            raise ValueError(f"formats={names}: {unknown_name('format', name, FORMAT_NAMES)}")
    return formats


def _check_folder(files: PlanFiles, read: Mapping[str, str | None], *, overwrite: bool) -> None:
    """Raise ``ValueError`` if the folder holds an input or earlier plans."""
    for option, file in read.items():
        refuse_overwriting(files.folder, files.names, option, [file])
    there = [name for name in files.names if (files.folder / name).exists()]
    if there and not overwrite:
        raise ValueError(
            f"out={files.folder} holds an earlier {', '.join(there)}; give overwrite=true to "
            "replace them, or another out=DIR"
        )


def _outline(options: argparse.Namespace) -> Outline:
    """Outline of the options: a boundary, in a file or as text, or a ratio."""
    if options.boundary is None:
        return Outline(ratio=options.ratio)
    path = Path(options.boundary)
    text = options.boundary
    try:
        # corners, or the name of a file
        if not text.lstrip().startswith("["):
            if not path.is_file():
                raise ValueError(
                    f"boundary={path}: no such file; expected a JSON file or the corners "
                    "[[x, y], ...] themselves, in metres"
                )
            text = path.read_text(encoding="utf-8-sig")
        corners = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(
            f"boundary={options.boundary}: not JSON ({error}); expected [[x, y], ...] in metres"
        ) from error
    return Outline(boundary=corners, ratio=options.ratio)


def _front_door(text: str | None) -> tuple[float, float] | None:
    """Parse ``[5.5,9]`` as a point. Raises ``ValueError`` for anything else."""
    if text is None:
        return None
    try:
        point = json.loads(text)
        if not isinstance(point, list):
            raise TypeError
        x, y = point
        return float(x), float(y)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"front_door={text}: expected its place [x,y] on the boundary, in metres"
        ) from error


def _earlier_plans(
    options: argparse.Namespace, read: Callable[[str], ReadReport], num: int
) -> list[FloorPlan | None]:
    """Earlier plan of each of ``num`` diagrams; None for a line that lacks one."""
    file = options.near
    diagrams = read(file).diagrams
    try:
        found = iter(plans_with_boxes(diagrams, options.unit))
    except ValueError as error:
        raise ValueError(f"near={file}: {error}") from error
    # one plan for each diagram, or one for all
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
        print(
            f"areas={options.areas}: {len(diagrams) - len(plans):,} of {len(diagrams):,} "
            "plans have no boxes and are left out"
        )
    return RoomAreas(plans)
