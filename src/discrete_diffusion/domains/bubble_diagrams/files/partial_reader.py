"""Partial diagrams read from a file of JSON lines."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from discrete_diffusion.domains.bubble_diagrams.files.code_recognition import (
    CodedPlan,
    recognise_codes,
)
from discrete_diffusion.domains.bubble_diagrams.files.code_tables import (
    CODES_FIELD,
    OUR_TABLE,
    RoomCodes,
    check_table,
    codes_of,
)
from discrete_diffusion.domains.bubble_diagrams.files.fields import DiagramError
from discrete_diffusion.domains.bubble_diagrams.files.foreign_files import (
    HEAD_BYTES,
    foreign_format,
)
from discrete_diffusion.domains.bubble_diagrams.files.json_text import (
    load_json,
    numbered_lines,
    one_document,
)
from discrete_diffusion.domains.bubble_diagrams.files.report import Problem
from discrete_diffusion.domains.bubble_diagrams.partial import PartialDiagram
from discrete_diffusion.layout import RPLAN_VOCAB_CONFIG


def read_partials(
    path: str | os.PathLike[str],
    *,
    n_max: int = RPLAN_VOCAB_CONFIG.n_max,
    codes: str | None = None,
) -> list[PartialDiagram]:
    """The partial diagrams of a file, in its order; see ``numbered_partials``."""
    return list(numbered_partials(path, n_max=n_max, codes=codes).values())


def numbered_partials(
    path: str | os.PathLike[str],
    *,
    n_max: int = RPLAN_VOCAB_CONFIG.n_max,
    codes: str | None = None,
) -> dict[int, PartialDiagram]:
    """The partial diagrams of a file by the number of their line, from 1 on: one JSON object per
    line, see ``PartialDiagram.from_json``; blank lines are skipped. ``codes``: as for plans, see
    ``read_report``.

    Raises ``FileNotFoundError`` naming the path looked for, and ``ValueError`` naming file, line
    and field for the first line that is wrong, contradicts itself, has more than ``n_max`` rooms or
    a key ``given``, which is what completions call the line that they complete; and for room codes
    that fit several tables.
    """
    check_table(codes)
    path = Path(path)
    if path.is_dir():
        raise ValueError(f"{path} is a folder; give the path of a file of JSON lines")
    if not path.exists():
        raise FileNotFoundError(f"no file of partial diagrams at {path.absolute()}")
    with path.open("rb") as file:
        if foreign := foreign_format(path, file.read(HEAD_BYTES)):
            raise ValueError(f"{path}: {foreign}")
    if one_document(path):
        raise ValueError(
            f"{path}: one JSON text of several lines, or a list; expected one JSON object per "
            "line, a partial diagram each"
        )
    lines: dict[int, Any] = {}
    for number, text in numbered_lines(path):
        try:
            lines[number] = load_json(text)
        except DiagramError as error:
            raise _wrong_line(path, number, error) from error
    if not lines:
        raise ValueError(f"{path}: the file is empty; expected one JSON object per line")
    written = {number: _room_codes(data) for number, data in lines.items()}
    found = OUR_TABLE
    if codes is None:
        coded = (
            CodedPlan(path, f"line {number}", written[number], partial(_read, data, n_max))
            for number, data in lines.items()
        )
        found = recognise_codes(path, coded).tables[path]
    partials = {}
    for number, data in lines.items():
        table = written[number].read_by(codes, found)
        try:
            partials[number] = _read(data, n_max, table)
        except DiagramError as error:
            raise _wrong_line(path, number, error) from error
    return partials


def _wrong_line(path: Path, number: int, error: DiagramError) -> ValueError:
    return ValueError(Problem(path, f"line {number}", error.field, error.reason).sentence())


def _room_codes(data: object) -> RoomCodes:
    if not isinstance(data, Mapping):
        return RoomCodes()
    return codes_of(data.get("rooms"), data.get(CODES_FIELD))


def _read(data: Any, n_max: int, table: str | None) -> PartialDiagram:
    diagram = PartialDiagram.from_json(data, codes=table or OUR_TABLE)
    if type(diagram.metadata.get("given", 0)) is not int:
        raise DiagramError(
            "given", "completions have the number of their line under this key; rename it"
        )
    if diagram.num_rooms > n_max:
        raise DiagramError(
            "rooms", f"{diagram.num_rooms} rooms, more than the {n_max} that the model knows"
        )
    return diagram
