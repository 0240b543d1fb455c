"""``discrete-diffusion plans realise``: dimensioned floor plans of a file of diagrams."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from discrete_diffusion.domains.bubble_diagrams.plans.outline import Outline
    from discrete_diffusion.domains.bubble_diagrams.plans.room_sizes import RoomAreas

FORMAT_NAMES = ("dxf", "geojson", "wkt", "houseganpp", "rlvr")
"""Of ``formats.writing.FORMATS``, whose modules need shapely."""

_PICTURES = (".svg", ".png")


def realise_options(parser: argparse.ArgumentParser) -> None:
    """Of the sub-command, beside those of reading plans."""
    parser.add_argument("file", metavar="FILE", help="diagrams, as sample writes them")
    parser.add_argument("--out", required=True, metavar="DIR", help="the folder to write into")
    parser.add_argument(
        "--areas",
        metavar="FILE",
        help="plans with boxes (in --unit), of whose rooms target areas are drawn, of the same "
        "types; without it areas are typical of their types. A line's own "
        '"areas": [m2 or null, ...] count first',
    )
    parser.add_argument(
        "--total-area", type=float, metavar="M2", help="of all rooms; drawn areas are scaled to it"
    )
    parser.add_argument(
        "--tolerance",
        type=float,
        default=0.1,
        metavar="T",
        help="how far an area may be off its target, a share (default: %(default)s)",
    )
    parser.add_argument(
        "--ratio",
        type=float,
        metavar="R",
        help="the outline is a rectangle R times as wide as high",
    )
    parser.add_argument(
        "--boundary",
        metavar="XY",
        help="the outline, a polygon in metres: [[0,0],[12,0],[12,8],[0,8]], or a JSON file with "
        'such a list; a line\'s own "boundary" counts first',
    )
    parser.add_argument(
        "--variants", type=int, default=1, metavar="K", help="different plans of each diagram"
    )
    parser.add_argument("--seed", type=int, default=0, help="another one gives other plans")
    parser.add_argument(
        "--formats",
        metavar="NAMES",
        default="",
        help=f"also a file of each plan, in a folder for each format: {','.join(FORMAT_NAMES)}",
    )
    parser.add_argument(
        "--picture", default="plans.svg", metavar="NAME", help=".svg or .png (default: %(default)s)"
    )
    parser.add_argument(
        "--threads", type=int, metavar="P", help="that share the work (default: one per core)"
    )
    parser.add_argument("--overwrite", action="store_true", help="replace what DIR holds of these")


def run_realise(options: argparse.Namespace, read: Any) -> None:
    """Find a dimensioned plan for every diagram of FILE."""
    from discrete_diffusion.domains.bubble_diagrams.plans.box_model import cp_sat
    from discrete_diffusion.domains.bubble_diagrams.plans.formats.drawn_plan import check_installed
    from discrete_diffusion.domains.bubble_diagrams.plans.realised_files import PlanFiles, summary
    from discrete_diffusion.domains.bubble_diagrams.plans.requests import Request

    formats = _formats(options.formats)
    picture = Path(options.picture)
    if picture.suffix not in _PICTURES or picture.name != options.picture:
        raise ValueError(
            f"picture={picture}: expected a name in {' or '.join(_PICTURES)}, without a folder"
        )
    threads = _cores() if options.threads is None else options.threads
    if threads < 1:
        raise ValueError(f"threads={threads}: expected at least 1")
    cp_sat()
    check_installed()
    files = PlanFiles(Path(options.out), options.picture, formats)
    _check_folder(files, options)
    outline = _outline(options)
    request = Request(
        areas=_areas(options, read),
        total_area=options.total_area,
        outline=outline,
        tolerance=options.tolerance,
        variants=options.variants,
        seed=options.seed,
    )
    report = read(options.file)
    print(report.summary())
    jobs = request.jobs(report.diagrams, report.places)
    try:
        print(summary(files.write(jobs, threads=threads), files))
    except KeyboardInterrupt:
        print(f"discrete-diffusion: stopped; {files.left_over()}", file=sys.stderr)
        raise SystemExit(130) from None


def _cores() -> int:
    """That this process may use, where the system says it."""
    if hasattr(os, "sched_getaffinity"):  # not on macOS and Windows
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _formats(names: str) -> tuple[str, ...]:
    from discrete_diffusion.config.naming import unknown_name

    words = names.strip("[]").replace(" ", "").split(",")
    formats = tuple(dict.fromkeys(word for word in words if word))
    for name in formats:
        if name not in FORMAT_NAMES:
            raise ValueError(f"formats={names}: {unknown_name('format', name, FORMAT_NAMES)}")
    return formats


def _check_folder(files: Any, options: argparse.Namespace) -> None:
    from discrete_diffusion.runtime.atomic_files import refuse_overwriting

    refuse_overwriting(files.folder, files.names, "FILE", [options.file])
    refuse_overwriting(files.folder, files.names, "areas", [options.areas])
    there = [name for name in files.names if (files.folder / name).exists()]
    if there and not options.overwrite:
        raise ValueError(
            f"out={files.folder} holds an earlier {', '.join(there)}; give overwrite=true to "
            "replace them, or another out=DIR"
        )


def _outline(options: argparse.Namespace) -> Outline:
    from discrete_diffusion.domains.bubble_diagrams.plans.outline import Outline

    if options.boundary is None:
        return Outline(ratio=options.ratio)
    path = Path(options.boundary)
    text = options.boundary
    try:
        if not text.lstrip().startswith("["):
            if not path.is_file():
                raise ValueError(
                    f"boundary={path}: no such file; expected a JSON file or the corners "
                    "[[x, y], ...] themselves, in metres"
                )
            text = path.read_text()
        corners = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(
            f"boundary={options.boundary}: not JSON ({error}); expected [[x, y], ...] in metres"
        ) from error
    return Outline(boundary=corners, ratio=options.ratio)


def _areas(options: argparse.Namespace, read: Any) -> RoomAreas:
    from discrete_diffusion.domains.bubble_diagrams.plans.floor_plan import plans_with_boxes
    from discrete_diffusion.domains.bubble_diagrams.plans.room_sizes import RoomAreas

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
