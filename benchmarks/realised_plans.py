"""Dimensioned plans of diagrams: how many are found, how well they meet their areas, how fast.

    python benchmarks/realised_plans.py plans.jsonl [--num 200] [--processes 2]
        [--rules default [--strict] [--only SET PLOT ...] [--keep FOLDER]]

Diagrams of the embedded generator and of a file of real plans; target areas are drawn from other
plans of the same set, rooms of the same type, once: no other areas are tried. Writes
``benchmarks/results/realised_plans.json`` and its table in the docs.

With ``--rules`` plans are planned for a set of rules and judged by it, as ``plans realise`` does by
default: diagrams of the generator, of its livable plans (``data.livable=true``), of the file and
of the model in the box, in a free outline, in 12 x 8 m and in an L. Writes
``benchmarks/results/plans_for_rules.json`` and its table; with ``--only real free`` that column
alone is measured, and the others stay. With ``--strict`` no plan is searched of a diagram that a
plot and the rules exclude, as in ``plans make``. With ``--keep`` a measurement that was stopped
goes on.
"""

from __future__ import annotations

import argparse
import json
import pickle
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from random import Random
from typing import Any

from discrete_diffusion import load
from floor_plans import BubbleDiagram, generate_plans, read_diagrams
from floor_plans.plans.floor_plan import FloorPlan, floor_plans
from floor_plans.plans.outline import FREE, Outline
from floor_plans.rules.checks import filled_share
from floor_plans.rules.finding import rooms_of
from floor_plans.rules.rule_set import ALL, RULES, RuleSet, judge, kept_shares, read_rules
from floor_plans.solver.realised import Job, Realised
from floor_plans.solver.realising import realise
from floor_plans.solver.requests import PlanRequest
from floor_plans.solver.shapes import OUTER_WALL, find_windows
from floor_plans.solver.spec import PlanSpec, RoomAreas
from record import Part, Record, Sections, earlier, markdown_table, percent, publish

SEED = 0
MOST = 200  # diagrams of the model in the box, of which the first are measured
RATIO, L_FILLED = 1.4, 0.7
"""Width / height of the rectangle; the share of the L-shape that the rooms' target areas fill."""


def l_shape(area: float) -> Outline:
    """A square without a quarter, of so many square metres."""
    side = (area / 0.75) ** 0.5
    half = side / 2
    corners = [(0, 0), (side, 0), (side, half), (half, half), (half, side), (0, side)]
    return Outline(boundary=tuple((float(x), float(y)) for x, y in corners))


def timed(job: Job) -> dict[str, Any]:
    """Facts of a job's plan, and the CPU-seconds it took."""
    began = time.process_time()
    found = realise(job)
    facts: dict[str, Any] = {"seconds": time.process_time() - began, "found": bool(found.plans)}
    if found.plans:
        (plan,) = found.plans
        facts |= {
            "met": not found.given_up,
            "area_error": plan.largest_area_error(found.areas),
            "overlap": plan.overlap,
            "dead": plan.dead_area / plan.outline.area,
            "honours": plan.honours_diagram,
        }
    return facts


def jobs_of(diagrams: Sequence[BubbleDiagram], plans: Sequence[FloorPlan], name: str) -> list[Job]:
    areas, jobs = RoomAreas(plans), []
    for k, diagram in enumerate(diagrams):
        drawn = areas.draw(diagram.rooms, Random(f"{SEED} {k}"))
        outlines = {
            "free": FREE,
            "rectangle": Outline(ratio=RATIO),
            "L-shape": l_shape(sum(drawn) / L_FILLED),
        }
        jobs.append(Job(replace(diagram, boxes=None), PlanSpec(drawn, outline=outlines[name])))
    return jobs


def summarised(facts: Sequence[dict[str, Any]]) -> dict[str, float]:
    found = [each for each in facts if each["found"]]
    seconds = sorted(each["seconds"] for each in facts)
    return {
        "num": len(facts),
        "found": len(found) / len(facts),
        "honours": sum(each["honours"] for each in found) / len(found),
        "met": sum(each["met"] for each in found) / len(facts),
        "areas_within_tenth": sum(each["area_error"] <= 0.1 + 1e-9 for each in found) / len(facts),
        "largest_overlap": max(each["overlap"] for each in found),
        "dead_area": statistics.median(each["dead"] for each in found),
        "seconds_median": statistics.median(seconds),
        "seconds_p95": seconds[int(0.95 * len(seconds))],
    }


SETS: dict[str, Callable[[argparse.Namespace], list[BubbleDiagram]]] = {
    "embedded": lambda options: list(generate_plans(options.num, seed=SEED)),
    "livable": lambda options: list(generate_plans(options.num, seed=SEED, livable=True)),
    "real": lambda options: list(read_diagrams(options.plans))[: options.num],
    "model in the box": lambda options: list(load("plans-small").sample(MOST, seed=SEED))[
        : options.num
    ],
}
RECTANGLE = ((0.0, 0.0), (12.0, 0.0), (12.0, 8.0), (0.0, 8.0))
PLOTS = {
    "free": FREE,
    "12 x 8 m": Outline(boundary=RECTANGLE),
    "L of 113 m2": l_shape(113.0),
}


def planned(job: Job) -> tuple[Realised, float]:
    """What was found for a job, and the CPU-seconds it took."""
    began = time.process_time()
    found = realise(job)
    return found, time.process_time() - began


def kept_outcomes(
    jobs: Sequence[Job], pool: Any, file: Path | None
) -> Iterator[tuple[Realised, float]]:
    """``planned`` of each job, in order; those that a ``file`` of before has are taken from it, and
    the others are added to it."""
    if file is None:
        yield from pool.map(planned, jobs)
        return
    num = 0
    with file.open("a+b") as kept:
        kept.seek(0)
        while num < len(jobs) and kept.peek(1):
            yield pickle.load(kept)
            num += 1
        for outcome in pool.map(planned, jobs[num:]):
            pickle.dump(outcome, kept)
            kept.flush()
            yield outcome


def kitchens_lit(plans: Sequence[FloorPlan]) -> list[int]:
    """Kitchens that have a window, and all."""
    kitchens = [rooms_of(plan, ["Kitchen"]) for plan in plans]
    lit = [{each.room for each in find_windows(plan)} for plan in plans]
    found = [room in of for rooms, of in zip(kitchens, lit, strict=True) for room in rooms]
    return [sum(found), len(found)]


def measure_rules(
    diagrams: Sequence[BubbleDiagram],
    outline: Outline,
    rules: RuleSet,
    pool: Any,
    keep: Path | None,
    strict: bool,
) -> dict[str, Any]:
    """Shares of plans that keep each rule; a diagram without a plan keeps none. ``keep``: a file
    with a line per diagram, its plan or why there is none; beside it lies what was found so far."""
    bare = [BubbleDiagram(each.rooms, each.relations) for each in diagrams]
    jobs = PlanRequest(outline=outline, rules=rules, seed=SEED).jobs(bare)
    jobs = [replace(job, strict=strict) for job in jobs]
    outcomes = list(kept_outcomes(jobs, pool, keep and keep.with_suffix(".pickle")))
    plans = [found.plans[0] for found, _ in outcomes if found.plans]
    if keep is not None:
        lines = [f.plans[0].to_json() if f.plans else {"no_plan": f.reason} for f, _ in outcomes]
        keep.write_text("".join(json.dumps(line) + "\n" for line in lines))
    seconds = sorted(each for _, each in outcomes)
    kept = kept_shares([judge(plan, rules) for plan in plans], rules)
    return {
        "num": len(jobs),
        "found": len(plans),
        "proved": sum(any(each.proved for each in found.given_up) for found, _ in outcomes),
        "excluded": sum(found.excluded for found, _ in outcomes),
        "instead": sum(found.explanation.instead is not None for found, _ in outcomes),
        "areas_met": sum(
            bool(found.plans) and all(each.demand != "areas" for each in found.given_up)
            for found, _ in outcomes
        ),
        "kept": {name: [share.num_kept, share.num_judged] for name, share in kept.items()},
        "kitchens_lit": kitchens_lit(plans),
        "honours": sum(plan.honours_diagram for plan in plans),
        "largest_overlap": max(plan.overlap for plan in plans),
        "fill": statistics.median(1 - plan.dead_area / plan.outline.area for plan in plans),
        "fill_with_walls": statistics.median(filled_share(plan, OUTER_WALL) for plan in plans),
        "seconds_median": statistics.median(seconds),
        "seconds_p95": seconds[int(0.95 * len(seconds))],
        "seconds_longest": seconds[-1],
    }


def measure_all_rules(options: argparse.Namespace, pool: Any) -> None:
    """Publish a column of the table as soon as it is measured; the others stay as they were."""
    rules = read_rules(options.rules)
    command = f"python benchmarks/realised_plans.py plans.jsonl --num {options.num}"
    command += f" --rules {options.rules}" + " --strict" * options.strict
    results: dict[str, Any] = {name: {} for name in SETS} | earlier("plans_for_rules")
    names, plots = ([k for k in of if k in options.only] or list(of) for of in (SETS, PLOTS))
    for name in names:
        diagrams = SETS[name](options)
        for plot in plots:
            keep = options.keep and options.keep / f"{name}, {plot}.jsonl".replace(" ", "_")
            found = measure_rules(diagrams, PLOTS[plot], rules, pool, keep, options.strict)
            results[name][plot] = found
            print(name, plot, found, flush=True)
            publish("plans_for_rules", command=command, seed=SEED, results=results)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("plans")
    parser.add_argument("--num", type=int, default=200)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--rules", help="default, irc, or a file: plan for them, judge by them")
    parser.add_argument("--strict", action="store_true", help="of --rules: as plans make does")
    parser.add_argument(
        "--keep", type=Path, help="of --rules: a folder for the plans; what it has is not redone"
    )
    parser.add_argument(
        "--only", nargs="+", default=(), choices=[*SETS, *PLOTS], help="of --rules: these columns"
    )
    options = parser.parse_args()
    if options.keep is not None:
        options.keep.mkdir(parents=True, exist_ok=True)
    if options.rules:
        with ProcessPoolExecutor(options.processes, get_context("spawn")) as pool:
            measure_all_rules(options, pool)
        return
    sets = {
        "embedded": generate_plans(1000, seed=SEED),
        "real": list(read_diagrams(options.plans)),
    }
    results = {}
    with ProcessPoolExecutor(options.processes, get_context("spawn")) as pool:
        for name, diagrams in sets.items():
            plans = floor_plans(diagrams, "pixels")
            dead = statistics.median(plan.dead_area / plan.outline.area for plan in plans)
            results[name] = {"own_dead_area": dead}
            for outline in ("free", "rectangle", "L-shape"):
                num = options.num if outline == "free" else options.num // 4
                jobs = jobs_of(diagrams[:num], plans, outline)
                facts = list(pool.map(timed, jobs))
                results[name][outline] = summarised(facts)
                print(name, outline, results[name][outline], flush=True)
    command = f"python benchmarks/realised_plans.py plans.jsonl --num {options.num}"
    publish("realised_plans", command=command, seed=SEED, results=results)


def sections(record: Record) -> Sections:
    if record.name == "plans_for_rules":
        return {(Part.PLANS, "plans for rules"): rules_table(record)}
    return {(Part.PLANS, "realised"): table(record.results)}


def rules_table(record: Record) -> str:
    """A row per rule, a column per set and outline."""
    found = {
        f"{name}, {plot}": each
        for name, plots in record.results.items()
        for plot, each in plots.items()
    }
    rows = [["plan found", *(f"{each['found']} of {each['num']}" for each in found.values())]]
    for rule in (ALL, *RULES):
        cells = [each["kept"].get(rule, [0, 0]) for each in found.values()]
        if any(num for _, num in cells):  # younger rules are not in an older record
            rows.append([f"`{rule}`", *(f"{kept} of {num}" if num else "" for kept, num in cells)])
    for title, key in (
        ("a broken rule is proved impossible", "proved"),
        ("all rules together are ruled out", "excluded"),
        ("one other relation would do", "instead"),
        ("all areas within 10 %", "areas_met"),
    ):
        rows.append([title, *(f"{each[key]} of {each['num']}" for each in found.values())])
    lit = [each["kitchens_lit"] for each in found.values()]
    rows.append(["kitchens with a window", *(f"{some} of {num}" for some, num in lit)])
    for title, key in (("filled, median", "fill"), ("and with walls", "fill_with_walls")):
        rows.append([title, *(percent(each[key]) for each in found.values())])
    rows.append(["relations exact", *(f"{f['honours']} of {f['found']}" for f in found.values())])
    rows.append(["largest overlap, m2", *(f"{f['largest_overlap']:.1g}" for f in found.values())])
    for title, key in (
        ("CPU-s, median", "seconds_median"),
        ("95 %", "seconds_p95"),
        ("longest", "seconds_longest"),
    ):
        rows.append([title, *(f"{f[key]:.1f}" if key in f else "" for f in found.values())])
    return markdown_table(["", *found], rows)


def table(results: dict[str, Any]) -> str:
    rows = []
    for name, outlines in results.items():
        for outline in ("free", "rectangle", "L-shape"):
            found = outlines[outline]
            rows.append(
                (
                    name,
                    outline,
                    percent(found["found"]),
                    percent(found["areas_within_tenth"]),
                    percent(found["met"]),
                    f"{found['largest_overlap']:.1f}",
                    percent(found["dead_area"]),
                    f"{found['seconds_median']:.2f}",
                    f"{found['seconds_p95']:.2f}",
                )
            )
        own = outlines["own_dead_area"]
        rows.append((name, "as they are", "", "", "", "", percent(own), "", ""))
    head = (
        "diagrams",
        "outline",
        "plan found",
        "all areas within 10 %",
        "and all doors",
        "largest overlap, m2",
        "dead area",
        "CPU-s, median",
        "95 %",
    )
    return markdown_table(head, rows, left=2)


if __name__ == "__main__":
    main()
