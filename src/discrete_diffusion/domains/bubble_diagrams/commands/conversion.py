"""Files that ``data convert`` writes, and where; the ending of OUT says the format."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from discrete_diffusion.config.naming import counted
from discrete_diffusion.domains.bubble_diagrams.files import writers
from discrete_diffusion.domains.bubble_diagrams.plans.floor_plan import FloorPlan
from discrete_diffusion.domains.bubble_diagrams.plans.formats.drawn_plan import check_installed
from discrete_diffusion.domains.bubble_diagrams.plans.formats.ifc import check_ifc
from discrete_diffusion.domains.bubble_diagrams.plans.formats.plan_formats import (
    FORMATS,
    write_plan,
)
from discrete_diffusion.runtime.atomic_files import check_parent, is_same_file

if TYPE_CHECKING:
    from discrete_diffusion.domains.bubble_diagrams.diagram import BubbleDiagram

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
"""More diagrams than this in one picture cannot be read."""


def check_target(options: argparse.Namespace) -> None:
    """``ValueError`` if options contradict each other or the input would be overwritten."""
    target = Path(options.target)
    suffix, name = target.suffix.lower(), target.name
    if suffix not in SUFFIXES:
        raise ValueError(f"'{name}': expected a name that ends in {', '.join(SUFFIXES)}")
    if options.format is not None and (suffix != ".json" or options.node_link or options.codes):
        raise ValueError(
            f"--format {options.format} writes .json, without --codes and --node-link; got '{name}'"
        )
    if (format := _plan_format(options)) is not None:
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
    source = Path(options.source)
    inputs = [source, *source.iterdir()] if source.is_dir() else [source]
    if any(is_same_file(target, given) for given in inputs):
        raise ValueError(f"{target} is the input; choose another name for the output")
    if target.is_dir():
        raise ValueError(f"{target} is a folder; give the name of a file")
    check_parent("OUT", target)
    if target.exists() and not options.overwrite:
        raise ValueError(f"{target} is there already; give --overwrite to replace it")


def _plan_format(options: argparse.Namespace) -> str | None:
    """The name in ``FORMATS`` of what is written; None if diagrams are, without dimensions."""
    ending = Path(options.target).suffix.lower().removeprefix(".")
    is_plan = ending in FORMATS and f".{ending}" not in PICTURES
    return options.format or (ending if is_plan else None)


def write_target(options: argparse.Namespace, diagrams: Sequence[BubbleDiagram]) -> str:
    """Write the diagrams; returns what was written, in a sentence.

    Raises ``ValueError`` if there are none, too many for one picture, metadata that cannot be
    written as JSON, or no boxes in a diagram that is to be written as a plan.
    """
    target = Path(options.target)
    suffix, folder = target.suffix.lower(), target.with_suffix("")
    format = _plan_format(options)
    num_bare = 0
    if format is not None and options.skip_invalid:
        with_boxes = [diagram for diagram in diagrams if diagram.boxes is not None]
        num_bare = len(diagrams) - len(with_boxes)
        diagrams = with_boxes
    taken = diagrams[: options.first]
    if not taken:
        raise ValueError("no diagram was read, so nothing is written")
    one_each = suffix == ".graphml" or format is not None
    in_folder = options.each or (one_each and len(taken) > 1)
    plans = [] if format is None else _plans(taken, options)
    write_each = partial(
        writers.write_each, folder, suffix, replaced=_print_place if options.overwrite else None
    )
    if format is not None and in_folder:
        write_each(plans, lambda path, plan: write_plan(path, plan, format))
    elif format is not None:
        write_plan(target, plans[0], format)
    elif suffix in PICTURES:
        _draw(taken, target, write_each if in_folder else None)
    elif suffix == ".jsonl":
        writers.write_diagrams(target, taken, names=not options.codes)
    elif options.node_link:
        writers.write_networkx_json(target, taken)
    elif suffix == ".json":
        writers.write_json_list(target, taken, names=not options.codes)
    elif in_folder:
        write_each(taken, writers.write_graphml)
    else:
        writers.write_graphml(target, taken[0])
    written = f"{len(taken):,} of " if options.first else ""
    written += f"{counted(len(diagrams), 'diagram')} written"
    left_out = f"; {num_bare:,} without boxes left out" if num_bare else ""
    if in_folder:
        return f"{folder}: {written}, a file each{left_out}"
    return f"{target}: {written}{left_out}"


def _plans(diagrams: Sequence[BubbleDiagram], options: argparse.Namespace) -> list[FloorPlan]:
    """The dimensioned plans of diagrams with boxes; ``ValueError`` if one has none, or doors or a
    boundary that cannot be."""
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
        except ValueError as error:
            raise ValueError(f"diagram {number}: {error}") from error
    return plans


def _print_place(aside: Path) -> None:
    print(f"what was there is now {aside}")


def _draw(
    diagrams: Sequence[BubbleDiagram], target: Path, write_each: Callable[..., None] | None
) -> None:
    """One picture, or one each in a folder by ``write_each``."""
    from discrete_diffusion.domains.bubble_diagrams.pictures.diagram_pictures import (
        plot_diagram,
        plot_grid,
    )

    if write_each is not None:
        write_each(diagrams, lambda path, each: plot_diagram(each, path))
        return
    if len(diagrams) > MAX_DRAWN:
        raise ValueError(
            f"{len(diagrams):,} diagrams are too many for one picture; draw some with "
            f"--first {MAX_DRAWN}, or a file for each with --each"
        )
    plot_grid(diagrams, target)
