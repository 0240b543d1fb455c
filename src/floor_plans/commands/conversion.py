"""Files of ``data convert``; the suffix of OUT determines the format."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discrete_diffusion.config import counted
from discrete_diffusion.runtime import check_parent
from floor_plans.diagrams.files import graph_formats
from floor_plans.drawings.drawn_plan import check_installed
from floor_plans.drawings.ifc import check_ifc
from floor_plans.drawings.realised_files import FORMATS, write_plan
from floor_plans.plans.floor_plan import FloorPlan, check_units
from floor_plans.rules.finding import check_extents

if TYPE_CHECKING:
    from floor_plans.diagrams.diagram import BubbleDiagram

SUFFIXES = (
    ".jsonl",
    ".json",
    ".graphml",
    ".dxf",
    ".ifc",
    ".pdf",
    ".geojson",
    ".wkt",
    ".svg",
    ".png",
)
PICTURES = (".svg", ".png")
MAX_DRAWN = 100
"""Most diagrams in one picture."""


def check_target(options: argparse.Namespace) -> None:
    """Check the options of the output, by ``ValueError``; the input must not be overwritten."""
    target = Path(options.target)
    suffix, name = target.suffix.lower(), target.name
    if suffix not in SUFFIXES:
        raise ValueError(f"'{name}': expected a name that ends in {', '.join(SUFFIXES)}")
    # options have to fit the format
    if options.format is not None and (suffix != ".json" or options.node_link or options.codes):
        raise ValueError(
            f"--format {options.format} writes .json, without --codes and --node-link; got '{name}'"
        )
    if (format := plan_format(options)) is not None:
        check_installed()
        if format == "ifc":
            check_ifc()
    if options.codes and (suffix not in (".jsonl", ".json") or options.node_link):
        raise ValueError(f"--codes is for .jsonl and .json; '{name}' is written with names")
    if options.node_link and suffix != ".json":
        raise ValueError(f"--node-link writes .json; got '{name}'")
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
    """Write the diagrams and return a sentence on what was written.

    Raises ``ValueError`` for no diagrams, too many for one picture, metadata that cannot be written
    as JSON, and diagrams without boxes for a format of plans.
    """
    target = Path(options.target)
    suffix, folder = target.suffix.lower(), target.with_suffix("")
    format = plan_format(options)
    num_bare = 0
    if format is not None and options.skip_invalid:
        with_boxes = [diagram for diagram in diagrams if diagram.boxes is not None]
        num_bare = len(diagrams) - len(with_boxes)
        diagrams = with_boxes
    # one file, or a folder with a file each
    taken = diagrams[: options.first]
    if not taken:
        raise ValueError("no diagram was read, so nothing is written")
    items = taken if format is None else _plans(taken, options)
    takes_one, write = _writer(options)
    in_folder = takes_one and (options.each or len(taken) > 1)
    if in_folder:
        replaced = _print_place if options.overwrite else None
        graph_formats.write_each(folder, suffix, items, write, replaced=replaced)
    else:
        write(target, items[0] if takes_one else items)
    written = f"{len(taken):,} of " if options.first else ""
    written += f"{counted(len(diagrams), 'diagram')} written"
    left_out = f"; {num_bare:,} without boxes left out" if num_bare else ""
    if in_folder:
        return f"{folder}: {written}, a file each{left_out}"
    return f"{target}: {written}{left_out}"


def _writer(options: argparse.Namespace) -> tuple[bool, Callable[[Path, Any], object]]:
    """Function that writes a file, and True if each diagram gets a file of its own."""
    suffix = Path(options.target).suffix.lower()
    # plans and pictures
    if (format := plan_format(options)) is not None:
        return True, lambda path, plan: write_plan(path, plan, format)
    if suffix in PICTURES:
        return options.each, partial(_draw, each=options.each)
    # graphs and JSON
    if suffix == ".graphml":
        return True, graph_formats.write_graphml
    if options.node_link:
        return False, graph_formats.write_networkx_json
    write = graph_formats.write_diagrams if suffix == ".jsonl" else graph_formats.write_json_list
    return False, partial(write, names=not options.codes)


def _plans(diagrams: Sequence[BubbleDiagram], options: argparse.Namespace) -> list[FloorPlan]:
    """Build the dimensioned plans of diagrams with boxes.

    Raises ``ValueError`` for a diagram without boxes, wrong doors, boundaries or rooms, and boxes
    in another unit.
    """
    # every diagram needs boxes
    bare = [number for number, diagram in enumerate(diagrams, start=1) if diagram.boxes is None]
    if bare:
        raise ValueError(
            f"{len(bare):,} of {counted(len(diagrams), 'diagram')} without boxes, the first "
            f"number {bare[0]}; {Path(options.target).name} is of dimensioned plans. First "
            f"give them boxes: discrete-diffusion plans realise {options.source} out=FOLDER; or "
            "leave them out with --skip-invalid"
        )
    plans = []
    # each plan, then the unit of all
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


def _print_place(aside: Path) -> None:
    print(f"what was there is now {aside}")


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
