"""``sample realise=true``: floor plans of samples, for the rules ``default``, with areas as in the
training data; ``habitable`` samples keep the plans that made them acceptable."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from discrete_diffusion.runtime import place_of_line
from floor_plans.diagrams.diagram import BubbleDiagram
from floor_plans.diagrams.files.fields import DiagramError
from floor_plans.drawings.drawn_plan import check_installed
from floor_plans.drawings.realised_files import PlanFiles, summary
from floor_plans.plans.box_model import cp_sat
from floor_plans.plans.verdict import map_in_threads
from floor_plans.rules.rule_set import read_rules
from floor_plans.solver.habitable import Habitable
from floor_plans.solver.realising import realise_all
from floor_plans.solver.requests import PlanRequest
from floor_plans.solver.spec import RoomAreas

if TYPE_CHECKING:
    from discrete_diffusion.evaluation import SampleRequest, TrainedModel
    from floor_plans.diagrams.partial import PartialDiagram

logger = logging.getLogger(__name__)

PICTURE = "floor_plans.svg"


def check_realise(request: SampleRequest) -> None:
    """Check that the packages for requested plans are installed, by ``ValueError``."""
    if request.realise:
        cp_sat()
        check_installed()


def check_given(given: object, partials: Mapping[int, PartialDiagram]) -> None:
    """Check the "areas" and "boundary" of lines, which completions carry into requests of plans.

    Raises ``ValueError`` naming a line with values that no plan can have.
    """
    request = PlanRequest(areas=RoomAreas())
    # a job with these values is built and dropped
    for line, partial in partials.items():
        rooms = tuple(0 if room is None else room for room in partial.rooms)
        try:
            request.job(line, BubbleDiagram(rooms, (), metadata=partial.metadata))
        except DiagramError as error:
            place = place_of_line(given, line)
            raise ValueError(f"{place}: {error}; realise=true reads it") from error


def warn_of_earlier_plans(folder: Path) -> None:
    """Warn if the folder holds plans of earlier samples."""
    if left := [
        name for name in PlanFiles(folder, picture=PICTURE).names if (folder / name).exists()
    ]:
        logger.warning(
            "%s: %s are left as they were, of earlier samples; realise=true replaces them",
            *(folder, ", ".join(left)),
        )


def realise_samples(
    request: SampleRequest,
    trained: TrainedModel,
    diagrams: Sequence[BubbleDiagram],
    areas: Callable[[], RoomAreas],
    habitable: Habitable | None = None,
) -> tuple[dict[str, Any], str]:
    """Write a dimensioned plan of every sample into ``request.out``.

    ``areas``: source of target areas, unless samples are ``habitable`` and have plans. Returns
    numbers and a sentence on them. A stop keeps the plans found so far.
    """
    folder = request.out
    # stopped before any plan
    if trained.stop_asked():  # while samples were taken
        warn_of_earlier_plans(folder)
        found = f"stopped before plans; plans realise {folder / 'samples.jsonl'} finds them"
        return {"num_diagrams": 0, "num_not_tried": len(diagrams)}, found
    files, threads = PlanFiles(folder, picture=PICTURE), torch.get_num_threads()
    # find plans, or take those of habitable samples
    if habitable is None:
        plans = PlanRequest(areas=areas(), seed=request.seed, rules=read_rules("default"))
        jobs = plans.jobs(diagrams)
        planned = realise_all(jobs, threads=threads)
    else:
        jobs = PlanRequest(rules=habitable.rules).jobs(diagrams)
        planned = map_in_threads(
            habitable.plan_of, diagrams, threads=threads, doing="finding plans"
        )
    numbers = files.write_found(jobs, planned, stop_asked=trained.stop_asked)
    return numbers, summary(numbers, files)
