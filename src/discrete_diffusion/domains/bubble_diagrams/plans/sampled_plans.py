"""``sample realise=true``: floor plans of samples, with areas as in the training data."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from discrete_diffusion.data.given_objects import place_of_line
from discrete_diffusion.domains.bubble_diagrams.diagram import BubbleDiagram
from discrete_diffusion.domains.bubble_diagrams.files.fields import DiagramError
from discrete_diffusion.domains.bubble_diagrams.plans.box_model import cp_sat
from discrete_diffusion.domains.bubble_diagrams.plans.floor_plan import (
    floor_plans,
    plans_with_boxes,
)
from discrete_diffusion.domains.bubble_diagrams.plans.formats.drawing import check_installed
from discrete_diffusion.domains.bubble_diagrams.plans.realised_files import PlanFiles, summary
from discrete_diffusion.domains.bubble_diagrams.plans.requests import Request
from discrete_diffusion.domains.bubble_diagrams.plans.room_sizes import RoomAreas

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from discrete_diffusion.domains.bubble_diagrams.partial import PartialDiagram
    from discrete_diffusion.evaluation.requests import SampleRequest
    from discrete_diffusion.evaluation.trained_model import TrainedModel

logger = logging.getLogger(__name__)

PICTURE = "floor_plans.svg"

_NUM_GENERATED = 1000


def check_realise(request: SampleRequest) -> None:
    """``ValueError`` if plans are asked for and the packages that find them are not installed."""
    if request.realise:
        cp_sat()
        check_installed()


def check_given(given: object, partials: Mapping[int, PartialDiagram]) -> None:
    """``ValueError`` naming the line whose "areas" or "boundary" no plan can have: completions
    carry them, and a plan is asked for with them."""
    request = Request(areas=RoomAreas())
    for line, partial in partials.items():
        rooms = tuple(0 if room is None else room for room in partial.rooms)
        try:
            request.job(line, BubbleDiagram(rooms, (), metadata=partial.metadata))
        except DiagramError as error:
            place = place_of_line(given, line)
            raise ValueError(f"{place}: {error}; it is for realise=true") from error


def say_earlier(folder: Path) -> None:
    """A line in the log if there are plans of other samples than those that are there now."""
    if left := [
        name for name in PlanFiles(folder, picture=PICTURE).names if (folder / name).exists()
    ]:
        logger.warning(
            "%s: %s are left as they were, of earlier samples; realise=true replaces them",
            *(folder, ", ".join(left)),
        )


def realise_samples(
    request: SampleRequest, trained: TrainedModel, diagrams: Sequence[BubbleDiagram]
) -> tuple[dict[str, Any], str]:
    """Write a dimensioned plan of every sample into ``request.out``; numbers, and what to say.
    A stop leaves those that are found."""
    folder = request.out
    if trained.stop_asked():  # while samples were drawn
        say_earlier(folder)
        found = f"stopped: no plan was looked for; plans realise {folder / 'samples.jsonl'} does so"
        return {"num_diagrams": 0, "num_not_tried": len(diagrams)}, found
    plans = Request(areas=training_areas(trained.data_config), seed=request.seed)
    files = PlanFiles(folder, picture=PICTURE)
    numbers = files.write(
        plans.jobs(diagrams), threads=torch.get_num_threads(), stop_asked=trained.stop_asked
    )
    return numbers, summary(numbers, files)


def training_areas(config: DictConfig) -> RoomAreas:
    """To draw target areas from: of the plans that ``config``, a ``config.data``, trained on; or,
    where these have no boxes or are gone, typical ones, as the log then says."""
    if config.name != "plans":
        from discrete_diffusion.domains.bubble_diagrams.procedural.generator import generate_plans

        return RoomAreas(floor_plans(generate_plans(_NUM_GENERATED, config.plan_seed), "pixels"))
    from discrete_diffusion.domains.bubble_diagrams.build import read_plans

    path = config.path or config.train_path
    try:
        diagrams = read_plans(path, config, config.n_max).diagrams
        plans = plans_with_boxes(diagrams, config.get("unit", "pixels"))
    except (OSError, ValueError) as error:
        logger.warning("room areas are typical ones, not those of the training data: %s", error)
        return RoomAreas()
    if not plans:
        logger.info("room areas are typical ones: the plans of %s have no boxes", path)
    return RoomAreas(plans)
