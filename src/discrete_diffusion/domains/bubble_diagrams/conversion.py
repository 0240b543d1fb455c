"""What ``data convert`` writes, and where; the ending of OUT says the format."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from discrete_diffusion.domains.bubble_diagrams.files import writers
from discrete_diffusion.whole_files import check_parent, is_same_file, put_aside

if TYPE_CHECKING:
    from discrete_diffusion.domains.bubble_diagrams import BubbleDiagram

SUFFIXES = (".jsonl", ".json", ".graphml", ".svg", ".png")
PICTURES = (".svg", ".png")
MAX_DRAWN = 100
"""More diagrams than this in one picture cannot be read."""


def check_target(options: argparse.Namespace) -> None:
    """``ValueError`` if options contradict each other or the input would be overwritten."""
    target = Path(options.target)
    suffix, name = target.suffix.lower(), target.name
    if suffix not in SUFFIXES:
        raise ValueError(f"'{name}': expected a name that ends in {', '.join(SUFFIXES)}")
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


def write_target(options: argparse.Namespace, diagrams: Sequence[BubbleDiagram]) -> str:
    """Write the diagrams; returns what was written, in a sentence.

    Raises ``ValueError`` if there are none, too many for one picture, or metadata that cannot be
    written as JSON.
    """
    target = Path(options.target)
    suffix, folder = target.suffix.lower(), target.with_suffix("")
    taken = diagrams[: options.first]
    if not taken:
        raise ValueError("no diagram was read, so nothing is written")
    in_folder = options.each or (suffix == ".graphml" and len(taken) > 1)
    if in_folder and folder.exists() and options.overwrite:
        print(f"what was there is now {put_aside(folder)}")
    if suffix in PICTURES:
        _draw(taken, target, folder if in_folder else None)
    elif suffix == ".jsonl":
        writers.write_diagrams(target, taken, names=not options.codes)
    elif options.node_link:
        writers.write_node_link(target, taken)
    elif suffix == ".json":
        writers.write_json_list(target, taken, names=not options.codes)
    elif in_folder:
        writers.write_each(folder, suffix, taken, writers.write_graphml)
    else:
        writers.write_graphml(target, taken[0])
    count = f"{len(taken):,} of {len(diagrams):,}" if options.first else f"{len(taken):,}"
    if in_folder:
        return f"{folder}: {count} diagrams written, a file each"
    return f"{target}: {count} diagrams written"


def _draw(diagrams: Sequence[BubbleDiagram], target: Path, folder: Path | None) -> None:
    """One picture, or one each in a folder."""
    from discrete_diffusion.domains.bubble_diagrams.pictures.drawing import draw_diagram, draw_grid

    if folder is not None:
        writers.write_each(
            folder, target.suffix.lower(), diagrams, lambda path, each: draw_diagram(each, path)
        )
        return
    if len(diagrams) > MAX_DRAWN:
        raise ValueError(
            f"{len(diagrams):,} diagrams are too many for one picture; draw some with "
            f"--first {MAX_DRAWN}, or a file for each with --each"
        )
    draw_grid(diagrams, target)
