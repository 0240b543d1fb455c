"""Partial diagrams read from a file of JSON lines."""

from __future__ import annotations

import os
from pathlib import Path

from discrete_diffusion.data.bubble_diagrams.fields import DiagramError
from discrete_diffusion.data.bubble_diagrams.json_text import BYTE_ORDER_MARK, load_json
from discrete_diffusion.data.bubble_diagrams.partial import PartialDiagram
from discrete_diffusion.data.bubble_diagrams.report import Problem
from discrete_diffusion.layout import RPLAN_VOCAB_CONFIG


def read_partials(
    path: str | os.PathLike[str], *, n_max: int = RPLAN_VOCAB_CONFIG.n_max
) -> list[PartialDiagram]:
    """The partial diagrams of a file, in its order; see ``numbered_partials``."""
    return list(numbered_partials(path, n_max=n_max).values())


def numbered_partials(
    path: str | os.PathLike[str], *, n_max: int = RPLAN_VOCAB_CONFIG.n_max
) -> dict[int, PartialDiagram]:
    """The partial diagrams of a file by the number of their line, from 1 on: one JSON object per
    line, see ``PartialDiagram.from_json``; blank lines are skipped.

    Raises ``FileNotFoundError`` naming the path looked for, and ``ValueError`` naming file, line
    and field for the first line that is wrong, contradicts itself, has more than ``n_max`` rooms or
    a key ``given``, which is what completions call the line that they complete.
    """
    path = Path(path)
    if path.is_dir():
        raise ValueError(f"{path} is a folder; give the path of a file of JSON lines")
    if not path.exists():
        raise FileNotFoundError(f"no file of partial diagrams at {path.absolute()}")
    partials = {}
    with path.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            text = line.removeprefix(BYTE_ORDER_MARK)
            if not text.strip():
                continue
            try:
                partials[number] = _read(text, n_max)
            except DiagramError as error:
                problem = Problem(path, f"line {number}", error.field, error.reason)
                raise ValueError(problem.sentence()) from error
    if not partials:
        raise ValueError(f"{path}: the file is empty; expected one JSON object per line")
    return partials


def _read(line: bytes, n_max: int) -> PartialDiagram:
    partial = PartialDiagram.from_json(load_json(line))
    if type(partial.metadata.get("given", 0)) is not int:
        raise DiagramError(
            "given", "completions have the number of their line under this key; rename it"
        )
    if partial.num_rooms > n_max:
        raise DiagramError(
            "rooms", f"{partial.num_rooms} rooms, more than the {n_max} that the model knows"
        )
    return partial
