"""What ``data convert`` writes, and where."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from discrete_diffusion.whole_files import is_same_file

if TYPE_CHECKING:
    from discrete_diffusion.domains.bubble_diagrams import BubbleDiagram

SUFFIXES = (".jsonl", ".json", ".graphml", ".svg", ".png")
PICTURES = (".svg", ".png")
MAX_DRAWN = 100
"""More diagrams than this in one picture cannot be read."""


@dataclass(frozen=True)
class Conversion:
    """Where diagrams are written, and how; the ending of ``target`` says the format.

    ``codes``: codes for names (.jsonl, .json). ``node_link``: networkx's objects (.json).
    ``each``: a picture per diagram. ``first``: how many diagrams to take, None for all.
    """

    target: Path
    codes: bool = False
    node_link: bool = False
    each: bool = False
    first: int | None = None

    def __post_init__(self) -> None:
        suffix, name = self.suffix, self.target.name
        if suffix not in SUFFIXES:
            raise ValueError(f"'{name}': expected a name that ends in {', '.join(SUFFIXES)}")
        if self.codes and (suffix not in (".jsonl", ".json") or self.node_link):
            raise ValueError(f"--codes is for .jsonl and .json; '{name}' is written with names")
        if self.node_link and suffix != ".json":
            raise ValueError(f"--node-link writes .json; got '{name}'")
        if self.each and suffix not in PICTURES:
            raise ValueError(f"--each is for pictures, .svg and .png; got '{name}'")
        if self.first is not None and self.first < 1:
            raise ValueError(f"--first {self.first}: expected at least 1")

    @classmethod
    def plan(cls, options: argparse.Namespace) -> Conversion:
        """The conversion that the options ask for.

        Raises ``ValueError`` if they contradict each other or the input would be overwritten.
        """
        target = Path(options.target)
        conversion = cls(
            target,
            codes=options.codes,
            node_link=options.node_link,
            each=options.each,
            first=options.first,
        )
        source = Path(options.source)
        inputs = [source, *source.iterdir()] if source.is_dir() else [source]
        if any(is_same_file(target, given) for given in inputs):
            raise ValueError(f"{target} is the input; choose another name for the output")
        if target.is_dir():
            raise ValueError(f"{target} is a folder; give the name of a file")
        return conversion

    @property
    def suffix(self) -> str:
        return self.target.suffix.lower()

    def write(self, diagrams: Sequence[BubbleDiagram]) -> str:
        """Write the diagrams; returns what was written, in a sentence.

        Raises ``ValueError`` if there are none, too many for one picture, or metadata that cannot
        be written as JSON.
        """
        from discrete_diffusion.domains.bubble_diagrams.files import writers

        taken = diagrams if self.first is None else diagrams[: self.first]
        if not taken:
            raise ValueError("no diagram was read, so nothing is written")
        count = f"{len(taken):,} of {len(diagrams):,}" if self.first else f"{len(taken):,}"
        where: Path = self.target
        if self.suffix in PICTURES:
            where = self._draw(taken)
        elif self.suffix == ".jsonl":
            writers.write_diagrams(self.target, taken, names=not self.codes)
        elif self.node_link:
            writers.write_node_link(self.target, taken)
        elif self.suffix == ".json":
            writers.write_json_list(self.target, taken, names=not self.codes)
        elif len(taken) == 1:
            writers.write_graphml(self.target, taken[0])
        else:
            where = self.target.with_suffix("")
            writers.write_each(where, self.suffix, taken, writers.write_graphml)
        return f"{where}: {count} diagrams written" + (
            "" if where == self.target else ", a file each"
        )

    def _draw(self, diagrams: Sequence[BubbleDiagram]) -> Path:
        from discrete_diffusion.domains.bubble_diagrams.files import writers
        from discrete_diffusion.domains.bubble_diagrams.pictures.drawing import (
            draw_diagram,
            draw_grid,
        )

        if self.each:
            folder = self.target.with_suffix("")
            writers.write_each(
                folder, self.suffix, diagrams, lambda path, diagram: draw_diagram(diagram, path)
            )
            return folder
        if len(diagrams) > MAX_DRAWN:
            raise ValueError(
                f"{len(diagrams):,} diagrams are too many for one picture; draw some with "
                f"--first {MAX_DRAWN}, or a file for each with --each"
            )
        self.target.parent.mkdir(parents=True, exist_ok=True)
        draw_grid(diagrams, self.target)
        return self.target
