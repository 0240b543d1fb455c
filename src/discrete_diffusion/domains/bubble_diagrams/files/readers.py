"""Plans read from files and folders, every one of them accounted for."""

from __future__ import annotations

import logging
import os
from collections import Counter
from pathlib import Path

from discrete_diffusion.domains.bubble_diagrams.diagram import BubbleDiagram
from discrete_diffusion.domains.bubble_diagrams.files.code_recognition import (
    CodedPlan,
    RecognisedCodes,
    recognise_codes,
)
from discrete_diffusion.domains.bubble_diagrams.files.code_tables import OUR_TABLE, check_table
from discrete_diffusion.domains.bubble_diagrams.files.fields import DiagramError
from discrete_diffusion.domains.bubble_diagrams.files.plan_files import (
    ReadOptions,
    count_other_files,
    plan_records,
)
from discrete_diffusion.domains.bubble_diagrams.files.report import Problem, ReadReport, place_of
from discrete_diffusion.domains.bubble_diagrams.geometry import (
    check_one_unit,
    check_scale,
    threshold_of,
)
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
) -> list[BubbleDiagram]:
    """The diagrams of a file or folder, in its order; see ``read_report``.

    What is left out (invalid plans under ``skip_invalid``, flagged duplicates, self-loops, walls)
    is logged.
    """
    report = read_report(
        path, skip_invalid=skip_invalid, n_max=n_max, threshold=threshold, unit=unit, codes=codes
    )
    if report.problems or report.num_duplicates or report.left_out:
        logger.log(logging.WARNING if report.problems else logging.INFO, "%s", report.summary())
    return list(report.diagrams)


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
    * a MATLAB file: Graph2Plan's ``data.mat``, see ``graph2plan.read_mat``;
    * a folder: its .json, .jsonl and .graphml files in the order of their names;
    * any other file: JSON lines, a plan per line; one JSON object or list is read as in ``.json``.

    A plan in JSON is told by its fields, see ``line_formats.parse_plan``: our interchange format
    ({"rooms", "relations"}), plans given as boxes ({"rooms" or "room_type", "boxes"}: relations by
    the geometric rule), House-GAN++ plans ({"room_type", "boxes", "ed_rm"}: likewise), or rendered
    plans with coarse room codes ({"room_type", "boxes", "rel"}). Pickles are never loaded.

    ``codes``: the table of integer room codes (``CODE_TABLES``) where a plan or its format names
    none; None recognises it, see ``recognise_codes``. ``unit``: of boxes,
    one of ``UNITS``; ``threshold``: the gap up to which boxes are related, in their unit, None is
    the usual one, see ``threshold_of``.

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
    records = list(plan_records(path, ReadOptions(n_max, gap)))
    found = RecognisedCodes({}, ())
    if codes is None:
        coded = (CodedPlan(each.path, each.record, each.written, each.read) for each in records)
        found = recognise_codes(path, coded)
    diagrams: list[BubbleDiagram] = []
    measured: list[tuple[str, BubbleDiagram]] = []
    problems: list[Problem] = []
    left_out: Counter[str] = Counter()
    tables: dict[str, dict[Path, None]] = {}
    num_duplicates = 0
    for record in records:
        table = record.written.read_by(codes, found.tables.get(record.path, OUR_TABLE))
        try:
            plan = record.read(table)
        except DiagramError as error:
            problem = Problem(record.path, record.record, error.field, error.reason)
            if not skip_invalid:
                raise ValueError(problem.sentence()) from error
            problems.append(problem)
            continue
        left_out.update(plan.left_out)
        if table is not None:
            tables.setdefault(table, {})[record.path] = None
        if plan.diagram is None:
            num_duplicates += 1
            continue
        diagrams.append(plan.diagram)
        if plan.measured:
            measured.append((place_of(record.path, record.record), plan.diagram))
    _check_scale(path, measured, unit, threshold)
    if path.is_dir() and (num_others := count_other_files(path)):
        left_out[OTHER_FILES] = num_others
    units = {record.record.split(" ")[0] for record in records}
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
    plans = [(place, plan, plan.boxes) for place, plan in measured if plan.boxes is not None]
    try:
        check_one_unit([(place, boxes) for place, _, boxes in plans])
        check_scale(
            [(boxes, len(plan.relations)) for _, plan, boxes in plans],
            unit=unit,
            threshold=threshold,
        )
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
