"""Plans and partial diagrams read from files and folders, every one of them accounted for."""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from discrete_diffusion import progress
from discrete_diffusion.domains.bubble_diagrams.diagram import BubbleDiagram, Diagrams
from discrete_diffusion.domains.bubble_diagrams.files.code_recognition import recognise_codes
from discrete_diffusion.domains.bubble_diagrams.files.code_tables import (
    CODES_FIELD,
    OUR_TABLE,
    RoomCodes,
    check_table,
    codes_of,
)
from discrete_diffusion.domains.bubble_diagrams.files.fields import DiagramError
from discrete_diffusion.domains.bubble_diagrams.files.foreign_files import foreign_format
from discrete_diffusion.domains.bubble_diagrams.files.json_text import numbered_lines, one_document
from discrete_diffusion.domains.bubble_diagrams.files.plan_files import (
    count_other_files,
    plan_records,
    records_of_lines,
)
from discrete_diffusion.domains.bubble_diagrams.files.records import Problem, ReadReport
from discrete_diffusion.domains.bubble_diagrams.geometry import (
    check_one_unit,
    check_scale,
    threshold_of,
)
from discrete_diffusion.domains.bubble_diagrams.partial import PartialDiagram
from discrete_diffusion.layout import RPLAN_VOCAB_CONFIG

logger = logging.getLogger(__name__)

OTHER_FILES = "other files"


def read_diagrams(
    path: str | os.PathLike[str],
    *,
    skip_invalid: bool = False,
    n_max: int = RPLAN_VOCAB_CONFIG.n_max,
    threshold: float | None = None,
    unit: str = "pixels",
    codes: str | None = None,
) -> Diagrams:
    """The diagrams of a file or folder, in its order; see ``read_report``.

    What is left out (invalid plans under ``skip_invalid``, flagged duplicates, self-loops, walls)
    is logged.
    """
    report = read_report(
        path, skip_invalid=skip_invalid, n_max=n_max, threshold=threshold, unit=unit, codes=codes
    )
    if report.problems or report.num_duplicates or report.left_out:
        logger.log(logging.WARNING if report.problems else logging.INFO, "%s", report.summary())
    return Diagrams(report.diagrams)


def read_report(
    path: str | os.PathLike[str],
    *,
    skip_invalid: bool = False,
    n_max: int = RPLAN_VOCAB_CONFIG.n_max,
    threshold: float | None = None,
    unit: str = "pixels",
    codes: str | None = None,
) -> ReadReport:
    """Read plans and account for every line, record or file.

    * ``.json``: one plan, or a list of plans; JSON lines under this name are read too;
    * ``.graphml``: one plan, as ``BubbleDiagram.to_graphml`` writes it;
    * a MATLAB file: Graph2Plan's ``data.mat``, see ``graph2plan.plan_of_record``;
    * a folder: its .json, .jsonl and .graphml files in the order of their names;
    * any other file: JSON lines, a plan per line; one JSON object or list is read as in ``.json``.

    The fields of a plan in JSON tell its format: interchange, boxes, House-GAN++ or rendered, see
    ``line_formats.parse_plan``. Pickles are never loaded.

    ``codes``: the table of integer room codes (``CODE_TABLES``) where a plan or its format names
    none; None recognises it, see ``recognise_codes``. ``unit``: of boxes, one of ``UNITS``;
    ``threshold``: the gap up to which boxes are related, in their unit, None is the usual one, see
    ``threshold_of``.

    Raises ``FileNotFoundError`` naming the path looked for; ``ValueError`` naming file, line or
    record, field and reason for the first plan that is invalid or has more than ``n_max`` rooms
    (unless ``skip_invalid``: then the report lists it), for codes that fit several tables, boxes
    that can hardly be in ``unit`` (``check_scale``) or all in one (``check_one_unit``), and for
    arguments that cannot be.
    """
    path = Path(path)
    if n_max < 1:
        raise ValueError(f"n_max={n_max}: expected at least 1 room")
    gap = threshold_of(unit, threshold)
    check_table(codes)
    if not path.exists():
        raise FileNotFoundError(f"no plans file at {path.absolute()}")
    with progress.task(f"opening {path.name}"):
        records = plan_records(path, n_max, gap)
        found = recognise_codes(path, records, codes)
    diagrams: list[BubbleDiagram] = []
    measured: list[tuple[str, BubbleDiagram]] = []
    problems: list[Problem] = []
    left_out: Counter[str] = Counter()
    tables: dict[str, dict[Path, None]] = {}
    num_duplicates = 0
    for record in progress.track(records, f"reading {path.name}", "plans"):
        table = found.table_of(record)
        try:
            plan = record.read(table)
        except DiagramError as error:
            problems.append(record.problem(error))
            if not skip_invalid:
                raise ValueError(problems[0].sentence()) from error
            continue
        left_out.update(plan.left_out)
        if table is not None:
            tables.setdefault(table, {})[record.path] = None
        if plan.duplicate:
            num_duplicates += 1
            continue
        diagrams.append(plan.diagram)
        if plan.measured:
            measured.append((record.place, plan.diagram))
    _check_scale(path, measured, unit, threshold)
    if path.is_dir() and (num_others := count_other_files(path)):
        left_out[OTHER_FILES] = num_others
    units = {record.where.split(" ")[0] for record in records}
    return ReadReport(
        path=path,
        diagrams=tuple(diagrams),
        num_records=len(records),
        unit=f"{units.pop()}s" if units in ({"line"}, {"record"}) else "plans",
        problems=tuple(problems),
        num_duplicates=num_duplicates,
        left_out=dict(left_out),
        code_tables={name: tuple(tables[name]) for name in sorted(tables)},
        doubts=found.doubts,
    )


def _check_scale(
    path: Path, measured: list[tuple[str, BubbleDiagram]], unit: str, threshold: float | None
) -> None:
    plans = [(place, plan.boxes, len(plan.relations)) for place, plan in measured if plan.boxes]
    try:
        check_one_unit([(place, boxes) for place, boxes, _ in plans])
        check_scale([(boxes, num) for _, boxes, num in plans], unit=unit, threshold=threshold)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


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
    if foreign := foreign_format(path):
        raise ValueError(f"{path}: {foreign}")
    if one_document(path):
        raise ValueError(
            f"{path}: one JSON text of several lines, or a list; expected one JSON object per "
            "line, a partial diagram each"
        )

    def parse(data: Any, table: str | None) -> PartialDiagram:
        diagram = PartialDiagram.from_json(data, codes=table or OUR_TABLE)
        if type(diagram.metadata.get("given", 0)) is not int:
            raise DiagramError(
                "given", "completions keep the number of their line under this key; rename yours"
            )
        if diagram.num_rooms > n_max:
            raise DiagramError(
                "rooms", f"{diagram.num_rooms} rooms, more than the {n_max} that the model knows"
            )
        return diagram

    records = list(records_of_lines(path, _room_codes, parse))
    if not records:
        raise ValueError(f"{path}: the file is empty; expected one JSON object per line")
    found = recognise_codes(path, records, codes)
    partials = {}
    for (number, _), record in zip(numbered_lines(path), records, strict=True):
        try:
            partials[number] = record.read(found.table_of(record))
        except DiagramError as error:
            raise ValueError(record.problem(error).sentence()) from error
    return partials


def _room_codes(data: object) -> RoomCodes:
    if not isinstance(data, Mapping):
        return RoomCodes()
    return codes_of(data.get("rooms"), data.get(CODES_FIELD))
