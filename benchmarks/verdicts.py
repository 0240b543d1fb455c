"""Which plans and samples have a floor plan, how long that takes to decide, and why the others have
none.

    nice python benchmarks/verdicts.py --real plans.jsonl [--samples NAME=samples.jsonl ...]

Writes ``benchmarks/results/verdicts.json`` and its table in the docs. Seconds are those of the
process (CPU-seconds), of one solver with one thread; a busy machine makes them longer.
"""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from floor_plans import BubbleDiagram, generate_plans, read_diagrams
from floor_plans.plans.box_model import BoxRule
from floor_plans.plans.contradiction import contradiction
from floor_plans.plans.verdict import EFFORT, LEVELS, find_boxes
from record import Part, Record, Sections, command_line, markdown_table, percent, publish, typed

COARSE = BoxRule(grid=96, threshold=2, min_side=3, max_aspect=8)
"""A grid of 0.19 m, whose boxes need not be those of a plan on RPLAN's grid."""

OF_COARSE = 150
"""Diagrams that it is asked of."""


def quantiles(seconds: Sequence[float]) -> dict[str, float]:
    """Median, 95th and 99th percentile, and the longest."""
    return {
        "median": float(np.median(seconds)),
        "p95": float(np.quantile(seconds, 0.95)),
        "p99": float(np.quantile(seconds, 0.99)),
        "max": max(seconds),
    }


def decide(
    diagrams: Sequence[BubbleDiagram], level: str, rule: BoxRule
) -> tuple[dict[str, Any], list[int]]:
    """Shares and seconds, and which diagrams have no plan."""
    answers, seconds = [], []
    for diagram in diagrams:
        start = time.process_time()
        answers.append(find_boxes(diagram, level, rule=rule, effort=EFFORT)[0])
        seconds.append(time.process_time() - start)
    counts = Counter(answers)
    found = {
        "share": counts[True] / len(diagrams),
        "without": counts[False],
        "undecided": [k for k, answer in enumerate(answers) if answer is None],
        "seconds": quantiles(seconds),
    }
    return found, [k for k, answer in enumerate(answers) if answer is False]


def explain(diagrams: Sequence[BubbleDiagram], rows: Sequence[int]) -> dict[str, Any]:
    """Why each of these has no buildable plan, and how long finding that took."""
    said, seconds, sizes, irreducible = {}, [], Counter[int](), 0
    for k in rows:
        start = time.process_time()
        found = contradiction(diagrams[k])
        seconds.append(time.process_time() - start)
        if found is not None:
            said[k] = found.sentence()
            sizes[len(found.members)] += 1
            irreducible += found.is_irreducible
    return {
        "sentences": said,
        "sizes": dict(sorted(sizes.items())),
        "irreducible": irreducible,
        "seconds": quantiles(seconds) if seconds else None,
    }


def measure(name: str, diagrams: Sequence[BubbleDiagram]) -> dict[str, Any]:
    found: dict[str, Any] = {"diagrams": len(diagrams), "load": os.getloadavg()}
    for level in LEVELS:
        found[level], without = decide(diagrams, level, BoxRule())
        print(name, level, json.dumps(found[level]), flush=True)
    found["contradictions"] = explain(diagrams, without)  # of the last level, buildable
    some = diagrams[:OF_COARSE]
    found["coarse"] = {"diagrams": len(some), **decide(some, "buildable", COARSE)[0]}
    print(name, json.dumps([found["contradictions"], found["coarse"]]), flush=True)
    return found


def table(results: dict[str, Any]) -> str:
    rows, notes = [], []
    for name, found in results["sets"].items():
        for level in LEVELS:
            one = found[level]
            took = [f"{one['seconds'][key]:.2f}" for key in ("median", "p95", "p99", "max")]
            undecided = f"{len(one['undecided'])}"
            label = f"{name}, {found['diagrams']:,}"
            rows.append([label, level, percent(one["share"]), undecided, *took])
        why = found["contradictions"]
        if why["seconds"] is not None:
            sizes = ", ".join(f"{num} of {size}" for size, num in why["sizes"].items())
            notes.append(
                f"* {name}: {sum(why['sizes'].values())} sets of relations that contradict each "
                f"other ({sizes} members), {why['irreducible']} of them shown irreducible; "
                f"{why['seconds']['median']:.2f} CPU-s at the median, "
                f"{why['seconds']['p95']:.2f} at the 95th percentile."
            )
    head = ["diagrams", "level", "share", "undecided", "CPU-s, median", "p95", "p99", "longest"]
    coarse = ", ".join(
        f"{percent(found['coarse']['share'])} of {found['coarse']['diagrams']} ({name})"
        for name, found in results["sets"].items()
    )
    notes.append(
        f"* On a grid of {COARSE.grid} x {COARSE.grid} with a threshold of {COARSE.threshold}, "
        f"sides of {COARSE.min_side} and an aspect of {COARSE.max_aspect} fewer boxes fit: "
        f"{coarse} are buildable there."
    )
    return "\n\n".join([markdown_table(head, rows, left=2), "\n".join(notes)])


def sections(record: Record) -> Sections:
    loads = [found["load"][0] for found in record.results["sets"].values()]
    text = (
        f"Others kept {min(loads):.0f} "
        f"to {max(loads):.0f} processes busy meanwhile:\n\n{table(record.results)}"
    )
    return {(Part.PLANS, "verdicts"): text}


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("--real", type=Path, required=True, help="a file of real plans")
    parser.add_argument("--samples", nargs="*", default=[], metavar="NAME=FILE")
    parser.add_argument("--num", type=int, default=1_000, help="embedded plans")
    parser.add_argument("--seed", type=int, default=0, help="of the embedded plans")
    arguments = parser.parse_args()
    find_boxes(generate_plans(1)[0])  # the solver is imported
    sets = {
        "embedded plans": generate_plans(arguments.num, seed=arguments.seed),
        "real plans": read_diagrams(arguments.real),
    }
    for word in arguments.samples:
        name, _, file = word.partition("=")
        sets[name] = read_diagrams(file)
    results = {
        "effort": EFFORT,
        "rule": asdict(BoxRule()),
        "sets": {name: measure(name, diagrams) for name, diagrams in sets.items()},
    }
    publish("verdicts", command=typed(), seed=arguments.seed, results=results)


if __name__ == "__main__":
    main()
