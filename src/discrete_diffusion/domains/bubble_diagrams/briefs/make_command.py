"""``plans make``: floor plans from a brief, by a model and the solver."""

from __future__ import annotations

import argparse
import sys
import time

from discrete_diffusion.domains.bubble_diagrams.briefs.making import (
    MadePlan,
    best_plans,
    check_habitable,
    made_plans,
    none_found,
    wished_diagrams,
    with_brief,
)
from discrete_diffusion.domains.bubble_diagrams.plans.realise_file import checked_files, request_of
from discrete_diffusion.domains.bubble_diagrams.plans.realised_files import summary
from discrete_diffusion.domains.bubble_diagrams.plans.realising import realise_all


def run_make(options: argparse.Namespace) -> None:
    """Sample diagrams, find a plan of each, write the best. Ctrl-C ends the search, not the work:
    the best of those found are written.

    Raises ``ValueError`` for options that are wrong, and where no plan is left.
    """
    files, threads = checked_files(options, {"brief": options.brief})
    request, began = with_brief(request_of(options), options.brief), time.perf_counter()
    check_habitable(options.habitable, request)
    diagrams = wished_diagrams(
        options.load(options.checkpoint),
        request.seed,
        num=options.num,
        candidates=options.candidates,
        brief=options.brief,
        num_rooms=options.num_rooms,
    )
    jobs = request.jobs(diagrams)
    made: list[MadePlan] = []
    stopped = False
    try:
        for each in made_plans(jobs, realise_all(jobs, threads=threads)):
            made.append(each)
    except KeyboardInterrupt:
        stopped = True
        print("discrete-diffusion: stopped; other diagrams are not tried", file=sys.stderr)
    best = best_plans(made, options.num, options.habitable)
    if not best:
        why = none_found(len(jobs), [each.broken for each in made])
        raise ValueError(f"{why}; raise candidates, or request less")
    numbers = files.write_found(
        [each.job for each in best], [each.found for each in best], began=began
    )
    kept = ", all of which break no rule" if options.habitable else ""
    print(f"the best {len(best)} plans of {len(jobs)} different diagrams{kept}, best first")
    print(summary(numbers, files))
    if stopped:
        raise SystemExit(130)
