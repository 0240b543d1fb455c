"""Runs of ``discrete-diffusion data`` and ``plans`` with their options."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from functools import partial
from typing import Any

from discrete_diffusion.config import counted
from floor_plans.briefs.making import run_make
from floor_plans.commands.conversion import check_target, plan_format, write_target
from floor_plans.commands.description import describe, print_description
from floor_plans.diagrams.files.foreign_files import refuse_features
from floor_plans.diagrams.files.records import ReadReport
from floor_plans.diagrams.metrics.structure import structure_metrics
from floor_plans.diagrams.procedural.generator import embedded_plans
from floor_plans.drawings.readers import ReadOptions, read_report
from floor_plans.drawings.realise_file import drop_invalid_plans, judge_report, run_realise
from floor_plans.plans.box_model import cp_sat, is_installed
from floor_plans.plans.contradiction import NUM_DECIDED, impossible_plans, infeasible_plans
from floor_plans.plans.floor_plan import plans_with_boxes
from floor_plans.rules.finding import check_extents, check_rooms
from floor_plans.rules.rule_set import read_rules


def _read(file: str, options: argparse.Namespace, *, skip_invalid: bool) -> ReadReport:
    """Read a file; plans may have an added hall in excess of ``n_max`` rooms."""
    refuse_features(file)
    return read_report(
        file,
        ReadOptions(
            skip_invalid=skip_invalid,
            n_max=options.n_max,
            halls=1,
            threshold=options.threshold,
            unit=options.unit,
            codes=options.code_table,
            names=options.names,
        ),
    )


def _read_with_directions(file: str, options: argparse.Namespace) -> ReadReport:
    """Read a file of diagrams with directions; ``ValueError`` for others."""
    report = _read(file, options, skip_invalid=options.skip_invalid)
    if not all(diagram.vocabulary.has_directions for diagram in report.diagrams):
        raise ValueError(
            f"{file}: its plans say which rooms meet, not their directions (left-of, above, ...), "
            "which a floor plan needs"
        )
    return report


def describe_file(options: argparse.Namespace) -> None:
    """Print counts of ``file``, or of the embedded plans, as tables or JSON."""
    facts: dict[str, Any]
    # the embedded plans, or a file
    if options.file is None:
        title, diagrams = embedded_plans()
        facts = {"source": title}
    else:
        report = _read(options.file, options, skip_invalid=options.skip_invalid)
        title, diagrams = report.summary(), list(report.diagrams)
        facts = {
            "source": str(report.path),
            f"num_{report.unit}": report.num_records,
            "num_invalid": len(report.problems),
            "num_flagged_duplicates": report.num_duplicates,
            "left_out": dict(report.left_out),
            "room_codes": list(report.codes),
            "num_doubtful": report.num_doubtful,
            "remarks": {remark.kind: remark.num for remark in report.remarks},
        }
    # counts and metrics, as JSON or tables
    counts, structure = describe(diagrams), structure_metrics(diagrams)
    if options.json:
        print(json.dumps({**facts, **asdict(counts), "structure": structure}, indent=2))
    else:
        print_description(title, counts, structure)


def check_file(options: argparse.Namespace) -> None:
    """Print the invalid plans of ``file``, and warnings on plans that cannot be built.

    With ``rules``, it prints judgements of floor plans. Raises ``SystemExit`` for invalid plans and
    broken rules.
    """
    rules = read_rules(options.rules)
    if options.json and not rules.rules:
        raise ValueError("--json prints judgements: give --rules too, such as --rules default")
    num = options.plans
    if num is None:
        num = NUM_DECIDED if is_installed() else 0
    elif num < 0:
        raise ValueError(f"--plans {num}: expected at least 0")
    elif num:
        cp_sat()  # before anything is read
    # read and judge, then print
    report = _read(options.file, options, skip_invalid=True)
    check = check_rooms if rules.rules else None
    report = drop_invalid_plans(report, options.unit, check=check)
    judged = judge_report(report, rules, options.unit) if rules.rules else None
    if judged is None or not options.json:
        _print_problems(report, num)
    if judged is None:
        _warn_of_units(report, options.unit)
    if judged is not None:
        print(json.dumps(judged.to_json(), indent=2) if options.json else judged.text())
    if report.problems or not (judged is None or judged.is_kept):
        raise SystemExit(1)


def _print_problems(report: ReadReport, num: int) -> None:
    """Print problems and warnings; ``num``: number of diagrams that the solver tries to build."""
    for problem in report.problems:
        print(problem.sentence())
    if report.num_records > 1 or not report.problems:  # else the one sentence suffices
        print(report.counts() + ("" if report.problems else "; all can be read"))
    for warning in impossible_plans(report):
        print(f"warning: {warning}")
    for warning in infeasible_plans(report, num) if num else ():
        print(f"warning: {warning}")
    were_tried = all(each.vocabulary.has_directions for each in report.diagrams[:num])
    if 0 < num < len(report.diagrams) and were_tried:
        first = counted(num, "diagram")
        print(f"floor plans were searched of the first {first}; --plans N: of the first N")


def _warn_of_units(report: ReadReport, unit: str) -> None:
    """Warn of boxes in another unit than given; with rules this is an error."""
    try:
        plans_with_boxes(report.diagrams, unit)
    except ValueError as error:
        print(f"warning: {report.path}: {error}")


def convert_file(options: argparse.Namespace) -> None:
    """Write the plans of ``source`` as ``target``."""
    check_target(options)  # before anything is read
    report = _read(options.source, options, skip_invalid=options.skip_invalid)
    if options.skip_invalid and plan_format(options) is not None:
        report = drop_invalid_plans(report, options.unit, check=check_extents)
    print(report.summary())
    print(write_target(options, report.diagrams))


def realise_file(options: argparse.Namespace) -> None:
    """Find a floor plan for every diagram of ``file``."""
    run_realise(options, partial(_read_with_directions, options=options))


def make_files(options: argparse.Namespace) -> None:
    """Sample diagrams, find their plans, write the best."""
    run_make(options)
