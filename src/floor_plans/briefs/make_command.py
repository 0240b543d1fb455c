"""``plans make``: floor plans from a brief, by a model and the solver."""

from __future__ import annotations

import argparse
import time

from discrete_diffusion.config import counted
from discrete_diffusion.runtime import Stop, StopSignals, is_stopping
from floor_plans.briefs.making import (
    best_plans,
    check_habitable,
    made_plans,
    none_found,
    possible_jobs,
    wished_diagrams,
    with_brief,
)
from floor_plans.drawings.realise_file import checked_files, request_of
from floor_plans.drawings.realised_files import summary
from floor_plans.solver.realising import Realised, realise_all


def run_make(options: argparse.Namespace) -> None:
    """Sample diagrams, find a plan of each, write the best. A signal ends the search, not the work:
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
    jobs, left_out = possible_jobs(request, diagrams)
    if left_out:
        print(
            f"{counted(len(left_out), 'different diagram')} left out; of the first: {left_out[0]}"
        )
    tried: list[Realised] = []
    with StopSignals() as signals:
        signals.promise, signals.finish_step = "writing the best plans that are found", True
        for found in realise_all(jobs, threads=threads, stop_asked=is_stopping):
            if is_stopping() and not found.plans:
                break  # it was given up
            tried.append(found)
            if is_stopping():
                break
        stopped = signals.received
        if stopped is not None and not any(each.plans for each in tried):
            raise Stop(stopped, where=signals.where)
    made = list(made_plans(jobs[: len(tried)], tried))
    best = best_plans(made, options.num, options.habitable)
    if not best:
        why = none_found(len(tried), [each.broken for each in made])
        raise ValueError(
            why if stopped is not None else f"{why}; raise candidates, or request less"
        )
    numbers = files.write_found(
        [each.job for each in best], [each.found for each in best], began=began
    )
    kept = ", without a broken rule" if options.habitable else ""
    diagrams_tried = counted(len(tried), "different diagram")
    print(f"the best {counted(len(best), 'plan')} of {diagrams_tried}{kept}, best first")
    print(summary(numbers, files))
    if stopped is not None:
        raise SystemExit(128 + stopped)
