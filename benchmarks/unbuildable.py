"""Which samples of a model have no floor plan, and why: by number of rooms, size of the
contradiction, and relation.

    python benchmarks/unbuildable.py NAME=RUN [NAME=RUN ...] [--samples 300]

RUN: a run folder; runs that are not named keep what the results hold. Writes
``benchmarks/results/unbuildable.json`` and its table in the docs. Samples are plain ones of the
run's own sampler, seed 0; a contradiction is a set of pairs of rooms of which none can be left out
(see ``plans/contradiction.py``).
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from typing import Any

import torch

from discrete_diffusion import load
from discrete_diffusion.layout import RELATIONS
from floor_plans import BubbleDiagram
from floor_plans.diagrams.metrics.diagrams import structure_metrics
from floor_plans.diagrams.vocabulary import NO_EDGE
from floor_plans.plans.contradiction import contradiction
from floor_plans.plans.verdict import have_plans
from record import Part, Record, Sections, earlier, markdown_table, percent, publish
from verdicts import COARSE

_NUM_EXPLAINED = 12
_EFFORT = 0.3
"""Of each use of the solver, to find a contradiction."""


def measured(diagrams: list[BubbleDiagram]) -> dict[str, Any]:
    threads = torch.get_num_threads()
    buildable = have_plans(diagrams, threads=threads)
    coarse = have_plans(diagrams, rule=COARSE, threads=threads)
    realisable = [True] * len(diagrams)
    without = [k for k, answer in enumerate(buildable) if answer is False]
    answers = have_plans([diagrams[k] for k in without], "realisable", threads=threads)
    for k, answer in zip(without, answers, strict=True):
        realisable[k] = bool(answer)
    why = [
        found
        for k in without[:_NUM_EXPLAINED]
        if (found := contradiction(diagrams[k], effort=_EFFORT)) is not None
    ]
    members = [member for found in why for member in found.members]
    in_samples = Counter(RELATIONS[r] for diagram in diagrams for _, _, r in diagram.relations)
    pairs = sum(diagram.num_rooms * (diagram.num_rooms - 1) // 2 for diagram in diagrams)
    in_samples[RELATIONS[NO_EDGE]] = pairs - in_samples.total()
    in_conflicts = Counter(_one_direction(RELATIONS[code]) for _, _, code in members)
    by_direction: Counter[str] = Counter()
    for name, count in in_samples.items():
        by_direction[_one_direction(name)] += count
    return {
        "num": len(diagrams),
        "transitive": structure_metrics(diagrams)["transitive"],
        "realisable": sum(realisable) / len(diagrams),
        "buildable": sum(answer is True for answer in buildable) / len(diagrams),
        "undecided": sum(answer is None for answer in buildable) / len(diagrams),
        "buildable_by_the_stricter_rule": sum(answer is True for answer in coarse) / len(diagrams),
        "by_rooms": _by_rooms(diagrams, buildable),
        "contradictions_by_size": dict(sorted(Counter(len(f.members) for f in why).items())),
        "rooms_in_contradictions": dict(
            sorted(Counter(len({i for m in f.members for i in m[:2]}) for f in why).items())
        ),
        "overrepresented": {
            name: (count / len(members)) / (by_direction[name] / pairs)
            for name, count in in_conflicts.most_common()
            if by_direction[name]
        },
    }


def _one_direction(name: str) -> str:
    """``left-of`` for ``right-of`` too: which room comes first says nothing."""
    if name == RELATIONS[NO_EDGE]:
        return name
    code = RELATIONS.index(name)
    return RELATIONS[min(code, 9 - code)]


def _by_rooms(
    diagrams: list[BubbleDiagram], answers: list[bool | None]
) -> dict[int, tuple[int, float]]:
    """Diagrams of each size, and the share of them that is buildable."""
    found: dict[int, list[bool]] = {}
    for diagram, answer in zip(diagrams, answers, strict=True):
        found.setdefault(diagram.num_rooms, []).append(answer is True)
    return {n: (len(each), sum(each) / len(each)) for n, each in sorted(found.items())}


def table(results: dict[str, dict[str, Any]]) -> str:
    sizes = sorted({n for each in results.values() for n in each["by_rooms"]}, key=int)[-3:]
    rows = []
    for name, found in results.items():
        shares = [found["by_rooms"].get(n) for n in sizes]
        conflicts = found["contradictions_by_size"]
        large = sum(count for size, count in conflicts.items() if int(size) > 3)
        rows.append(
            (
                name,
                *(
                    percent(found[key])
                    for key in (
                        "transitive",
                        "realisable",
                        "buildable",
                        "buildable_by_the_stricter_rule",
                    )
                ),
                *("" if each is None else percent(each[1]) for each in shares),
                f"{large} of {sum(conflicts.values())}",
            )
        )
    head = (
        "samples of",
        "transitive",
        "realisable",
        "buildable",
        "on a coarse grid",
        *(f"{n} rooms" for n in sizes),
        "contradictions of more than 3 pairs",
    )
    return markdown_table(head, rows)


def sections(record: Record) -> Sections:
    return {(Part.PLANS, "unbuildable"): table(record.results)}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", nargs="+", metavar="NAME=RUN")
    parser.add_argument("--samples", type=int, default=300)
    options = parser.parse_args()
    results = earlier("unbuildable")
    for word in options.runs:
        name, _, run = word.partition("=")
        diagrams = list(load(run).sample(num=options.samples, seed=0))
        results[name] = json.loads(json.dumps(measured(diagrams)))
        print(name, results[name], flush=True)
    command = f"python benchmarks/unbuildable.py NAME=RUN ... --samples {options.samples}"
    publish("unbuildable", command=command, seed=0, results=results)


if __name__ == "__main__":
    main()
