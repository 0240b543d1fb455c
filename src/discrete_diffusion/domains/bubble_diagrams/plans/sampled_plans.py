"""``sample realise=true``: floor plans of samples, for the rules ``default``, with areas as in the
training data; of ``habitable`` samples, those by which they were accepted."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from discrete_diffusion.domains.bubble_diagrams.diagram import BubbleDiagram
from discrete_diffusion.domains.bubble_diagrams.files.fields import DiagramError
from discrete_diffusion.domains.bubble_diagrams.plans.box_model import cp_sat
from discrete_diffusion.domains.bubble_diagrams.plans.formats.drawn_plan import check_installed
from discrete_diffusion.domains.bubble_diagrams.plans.habitable import Habitable
from discrete_diffusion.domains.bubble_diagrams.plans.realised_files import PlanFiles, summary
from discrete_diffusion.domains.bubble_diagrams.plans.realising import realise_all
from discrete_diffusion.domains.bubble_diagrams.plans.requests import PlanRequest
from discrete_diffusion.domains.bubble_diagrams.plans.room_sizes import RoomAreas
from discrete_diffusion.domains.bubble_diagrams.plans.rules.rule_file import read_rules
from discrete_diffusion.domains.bubble_diagrams.plans.threads import map_shared
from discrete_diffusion.runtime.given_objects import place_of_line

if TYPE_CHECKING:
    from discrete_diffusion.domains.bubble_diagrams.partial import PartialDiagram
    from discrete_diffusion.evaluation.requests import SampleRequest
    from discrete_diffusion.evaluation.trained_model import TrainedModel

logger = logging.getLogger(__name__)

PICTURE = "floor_plans.svg"


def check_realise(request: SampleRequest) -> None:
    """``ValueError`` if plans are requested and the packages that find them are not installed."""
    if request.realise:
        cp_sat()
        check_installed()


def check_given(given: object, partials: Mapping[int, PartialDiagram]) -> None:
    """``ValueError`` naming the line whose "areas" or "boundary" no plan can have: completions
    carry them, and a plan is requested with them."""
    request = PlanRequest(areas=RoomAreas())
    for line, partial in partials.items():
        rooms = tuple(0 if room is None else room for room in partial.rooms)
        try:
            request.job(line, BubbleDiagram(rooms, (), metadata=partial.metadata))
        except DiagramError as error:
            place = place_of_line(given, line)
            raise ValueError(f"{place}: {error}; realise=true reads it") from error


def warn_of_earlier_plans(folder: Path) -> None:
    """A line in the log if there are plans of other samples than those that are there now."""
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
    """Write a dimensioned plan of every sample into ``request.out``; numbers, and what to say. A
    stop leaves those that are found. ``areas``: what target areas are sampled from, unless samples
    are ``habitable`` and have their plans."""
    folder = request.out
    if trained.stop_asked():  # while samples were taken
        warn_of_earlier_plans(folder)
        found = f"stopped: no plan was looked for; plans realise {folder / 'samples.jsonl'} does so"
        return {"num_diagrams": 0, "num_not_tried": len(diagrams)}, found
    files, threads = PlanFiles(folder, picture=PICTURE), torch.get_num_threads()
    if habitable is None:
        plans = PlanRequest(areas=areas(), seed=request.seed, rules=read_rules("default"))
        jobs = plans.jobs(diagrams)
        planned = realise_all(jobs, threads=threads)
    else:
        jobs = PlanRequest(rules=habitable.rules).jobs(diagrams)
        planned = map_shared(habitable.plan_of, diagrams, threads=threads, doing="finding plans")
    numbers = files.write_found(jobs, planned, stop_asked=trained.stop_asked)
    return numbers, summary(numbers, files)
