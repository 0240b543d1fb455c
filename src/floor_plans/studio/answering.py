"""Work of the studio's processes: read bodies, check, convert files, answer briefs, find plans.

Everything here can be pickled, since it is sent to other processes.
"""

from __future__ import annotations

import asyncio
import json
import logging
import pickle
import re
import reprlib
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, TypeVar

import torch
from pydantic import BaseModel, ValidationError

from floor_plans.briefs import making
from floor_plans.briefs.brief import Brief
from floor_plans.briefs.checking import brief_verdict
from floor_plans.briefs.feasibility import feasibility
from floor_plans.briefs.reading import brief_of
from floor_plans.briefs.sentences import sentences
from floor_plans.diagrams.diagram import BubbleDiagram
from floor_plans.diagrams.files.fields import DiagramError
from floor_plans.diagrams.files.foreign_files import check_keys, check_metadata, load_plan_json
from floor_plans.diagrams.files.graph_formats import to_graphml
from floor_plans.diagrams.metrics.diagrams import never_valid
from floor_plans.diagrams.partial import PartialDiagram
from floor_plans.diagrams.pictures.diagram_pictures import plot_diagram, svg_of
from floor_plans.diagrams.pictures.placement import place_all
from floor_plans.diagrams.vocabulary import PlanVocabulary
from floor_plans.drawings.drawn_parts import DrawingStyle
from floor_plans.drawings.dxf_reading import plot_of_dxf
from floor_plans.drawings.plan_pictures import plot_plan
from floor_plans.drawings.realised_files import FORMATS
from floor_plans.plans.contradiction import contradiction, room_names
from floor_plans.plans.floor_plan import Point
from floor_plans.plans.outline import Outline
from floor_plans.plans.verdict import have_plans
from floor_plans.rules.finding import check_extents, plan_within_limits
from floor_plans.rules.rule_set import read_rules
from floor_plans.solver.realised import Job, rank_key, ranked_variants
from floor_plans.solver.realising import realise
from floor_plans.solver.requests import PlanRequest
from floor_plans.studio import bodies
from floor_plans.studio.jobs import Report, Workers
from floor_plans.studio.sampling import DiagramModel

logger = logging.getLogger(__name__)

A = TypeVar("A")
B = TypeVar("B", bound=BaseModel)
T = TypeVar("T")

_NO_DIRECTIONS = "{} which rooms meet, not their directions, which a floor plan needs"

_EFFORT = 0.3  # effort of the solver for each check

_PARTICLES = 256

Shown = tuple[tuple[float, ...], dict[str, Any]]  # sort key of a floor plan, and its JSON


@dataclass(frozen=True)
class PlanOrder:
    """Order of plans as the ``body`` states it: plans of one ``job``, or of diagrams that are
    sampled for a ``brief``."""

    body: bodies.PlanBody
    request: PlanRequest
    brief: Mapping[str, Any] | Brief | None
    job: Job | None


@dataclass(frozen=True)
class FoundPlans:
    """Plans of a job, best first, or the reason why none was found."""

    plans: tuple[Shown, ...]
    reason: str


def read_body(kind: type[B], content: bytes) -> B:
    """Read and validate a body; raise ``ValueError`` with a sentence that names the wrong key."""
    try:
        data = load_plan_json(content)
    except DiagramError as error:
        raise ValueError(f"the body is {error.reason}") from error
    if not isinstance(data, dict):
        raise ValueError(f"body: expected a JSON object, got {reprlib.repr(data)}")
    check_keys(data)
    check_metadata(data)
    try:
        return kind.model_validate(data)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        names = [str(part)[:80] for part in first["loc"] if not isinstance(part, int)]
        index = "".join(f"[{part}]" for part in first["loc"] if isinstance(part, int))
        reason = first["msg"][:1].lower() + first["msg"][1:]
        got = f", got {json.dumps(first['input'], default=str)}"
        got = "" if first["type"] == "missing" or len(got) >= 80 else got
        raise ValueError(f"{'.'.join(names) or 'body'}{index}: {reason}{got}") from None


def read_complete(content: bytes) -> tuple[bodies.CompleteBody, PartialDiagram]:
    """Read a request for completions, and its partial diagram."""
    body = read_body(bodies.CompleteBody, content)
    return body, body.given.as_partial()


def read_brief(content: bytes) -> tuple[bodies.BriefBody, PartialDiagram | None]:
    body = read_body(bodies.BriefBody, content)
    return body, None if body.given is None else body.given.as_partial()


def read_realise(content: bytes) -> Job:
    """Read a request to realise a diagram, or to change a plan, as a job."""
    body = read_body(bodies.RealiseBody, content)
    return _plan_job(body, _plan_request(body))


def read_plan(content: bytes) -> PlanOrder:
    """Read a request for plans."""
    body = read_body(bodies.PlanBody, content)
    is_given = body.diagram is not None or body.near is not None
    if is_given and (body.brief or body.num_rooms or body.candidates):
        raise ValueError("diagram: leave out brief, num_rooms and candidates, or the diagram")
    if body.candidates is not None and body.candidates < body.num:
        raise ValueError(f"candidates: {body.candidates} is below num={body.num}")
    asked = _plan_request(body)
    job = _plan_job(body, asked) if is_given else None
    if body.livable and not asked.rules.rules:
        raise ValueError("livable: rules=none requires nothing of a plan; leave one of them out")
    return PlanOrder(body, *making.with_brief(asked, body.brief), job)


def _plan_request(body: bodies.PlanBody | bodies.RealiseBody) -> PlanRequest:
    """Build the request for floor plans that a body states."""
    corners = None if body.boundary is None else tuple(body.boundary)
    return PlanRequest(
        total_area=body.total_area,
        outline=Outline(boundary=corners, ratio=body.ratio),
        seed=body.seed,
        rules=read_rules(body.rules),
        front_door=body.front_door,
        north=body.north,
    )


def _plan_job(body: bodies.PlanBody | bodies.RealiseBody, asked: PlanRequest) -> Job:
    """Build the job to find plans of a diagram, or to change an earlier plan."""
    given = None if body.diagram is None else body.diagram.model_dump()
    diagram = None if given is None else BubbleDiagram.from_json(given)
    if diagram is not None and not diagram.vocabulary.has_directions:
        raise ValueError("diagram: " + _NO_DIRECTIONS.format("it says"))
    if body.near is not None:
        return body.near.as_change().job(asked, diagram)
    if diagram is None:
        raise ValueError("body: give a diagram, or near, an earlier plan")
    (job,) = asked.jobs([diagram])
    return job


def answer_check(asked: tuple[bytes, int, PlanVocabulary]) -> dict[str, Any]:
    """Check that a brief can be met, or that a diagram has a floor plan; if not, say why.
    ``asked``: body, the model's ``n_max``, its vocabulary. ``can_be_built`` is None if undecided,
    or if it depends on unknown rooms or relations."""
    content, n_max, words = asked
    body = read_body(bodies.CheckBody, content)
    if (body.diagram is None) == (body.brief is None):
        raise ValueError("body: give a diagram or a brief, one of them")
    # a brief, with a sentence for each rule, and whether a diagram can meet it
    if body.diagram is None:
        brief = brief_of(body.brief or {})
        brief.facts_with_plot()
        possible = feasibility(brief, n_max, words)
        return {
            "ok": possible.can_be_met is not False,
            "rules": list(sentences(brief)),
            "verdict": brief_verdict(possible, brief, n_max, words, "the brief"),
            "keys": [source.key for source in possible.contradiction],
            "because": [source.text for source in possible.contradiction],
        }
    # a complete diagram has a floor plan, or relations that contradict each other
    drawn = body.diagram.as_drawn()
    diagram: BubbleDiagram | PartialDiagram = drawn
    answer, found, has_directions = None, None, drawn.vocabulary.has_directions
    if body.complete:
        diagram = BubbleDiagram.from_json(drawn.to_json())
    if isinstance(diagram, BubbleDiagram) and has_directions:
        (answer,) = have_plans([diagram], effort=_EFFORT)
    if has_directions and answer is not True:
        found = contradiction(diagram, effort=_EFFORT)
    # warnings on validity, with names of rooms in place of ``rooms[2]``
    invalid, names = never_valid(drawn), room_names(drawn)
    if invalid is not None:
        invalid = re.sub(r"rooms\[(\d+)\]", lambda match: names[int(match[1])], invalid)
    pairs = [] if found is None else [sorted(member[:2]) for member in found.members]
    return {
        "ok": found is None and invalid is None,
        "can_be_built": False if found else answer,
        "contradiction": None if found is None else {"sentence": found.sentence(), "pairs": pairs},
        "warning": invalid,
    }


def answer_plot(content: bytes) -> tuple[Point, ...]:
    """Read the corners of the plot in a drawing."""
    return plot_of_dxf(read_body(bodies.PlotBody, content).dxf.encode())


def answer_export(content: bytes) -> tuple[str, str, str | bytes]:
    """Export a diagram or plan; return stem, format and content of the file."""
    body = read_body(bodies.ExportBody, content)
    if (body.diagram is None) == (body.plan is None):
        raise ValueError("body: give a diagram or a plan, one of them")
    if body.diagram is not None:
        drawn = body.diagram.as_drawn()
        if body.format == "json":
            return "diagram", "json", json.dumps(drawn.to_json(), indent=1) + "\n"
        # other formats take complete diagrams, and some of them plans alone
        if body.format not in ("svg", "graphml"):
            raise ValueError(
                f"format: {body.format} draws a plan with dimensions; realise the diagram first "
                "(/api/realise) and send its plan"
            )
        if not drawn.is_complete:
            raise ValueError(
                f"format: {body.format} takes a complete diagram, and some rooms or pairs are "
                "open; complete it first, or take json"
            )
        diagram = BubbleDiagram.from_json(drawn.to_json())
        is_svg = body.format == "svg"
        text = svg_of(plot_diagram(diagram)) if is_svg else to_graphml(diagram)
        return "diagram", body.format, text
    # a plan, the object of ``FloorPlan.to_json``
    plan = plan_within_limits(body.plan or {})
    if body.format == "json":
        return "plan", "json", json.dumps(plan.to_json(), indent=1) + "\n"
    if body.format == "graphml":
        return "plan", "graphml", to_graphml(plan.to_diagram())
    # a drawing, without rooms or doors of no size
    check_extents(plan)
    if body.format == "svg":
        return "plan", "svg", svg_of(plot_plan(plan))
    style = DrawingStyle(body.language)
    return "plan", body.format, FORMATS[body.format].content_of(plan, style)


def diagrams_as_json(diagrams: Sequence[BubbleDiagram], *, positions: bool) -> list[dict[str, Any]]:
    """Convert diagrams to JSON; ``positions`` adds ``[x, y, radius]`` of each room, y downwards."""
    found = [diagram.to_json() for diagram in diagrams]
    if positions:
        for each, place in zip(found, place_all(diagrams), strict=True):
            rooms = zip(place.centres, place.radii, strict=True)
            each["positions"] = [[round(float(v), 3) for v in (x, y, r)] for (x, y), r in rooms]
    return found


def pickled_model(model: DiagramModel) -> bytes | DiagramModel:
    """Pickle a model for other processes. A model that cannot be pickled is returned unchanged, and
    sampling stays in this process."""
    try:
        return pickle.dumps(model)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        logger.warning("briefs are answered without other processes: %s", error)
        return model


_HERE = ThreadPoolExecutor(1)  # samples that no process can draw, one after the other


@lru_cache(maxsize=1)
def _model_of(model: bytes | DiagramModel) -> DiagramModel:
    """Load a pickled model in this process, which from then on computes on one core."""
    if isinstance(model, DiagramModel):
        return model
    torch.set_num_threads(1)
    found: DiagramModel = pickle.loads(model)
    return found


def load_model(model: bytes | DiagramModel) -> None:
    """Load the model in this process, if it is pickled."""
    _model_of(model)


async def run_sampling(workers: Workers, function: Callable[[A], T], ask: A, model: Any) -> T:
    """Call ``function(ask)``, which samples, in a process if the model is pickled, else here."""
    if isinstance(model, DiagramModel):
        return await asyncio.get_running_loop().run_in_executor(_HERE, function, ask)
    return await workers.run(function, ask)


def brief_answer(
    ask: tuple[bytes | DiagramModel, bodies.BriefBody, PartialDiagram | None],
) -> dict[str, Any]:
    """Sample diagrams for a brief, or completions of a partial diagram, as JSON. Raises
    ``ValueError`` if the brief is wrong, cannot be met, or is met too rarely."""
    start, (pickled, body, given) = time.perf_counter(), ask
    model = _model_of(pickled)
    # fresh diagrams, or completions without their metadata
    draw: Any = model.algorithm.sample
    how: dict[str, Any] = {"seed": body.seed, "brief": body.brief, "particles": _PARTICLES}
    if given is None:
        found = list(draw(body.num, **how))
    else:
        drawn = draw(given=given, num_completions=body.num, **how)
        found = [replace(diagram, metadata={}) for diagram in drawn]
    diagrams = diagrams_as_json(found, positions=body.positions)
    return {"diagrams": diagrams, "seconds": round(time.perf_counter() - start, 3)}


def shown_plans_of_job(job: Job) -> FoundPlans:
    """Find the plans of a job, with pictures and scores; runs in a process."""
    found, scores = ranked_variants(realise(job))
    why = found.explanation.sentences(found.names)
    instead = found.explanation.to_json(found.names).get("instead")
    plans = []
    for plan, shortfalls, score in zip(found.plans, found.shortfalls, scores, strict=True):
        shown = {
            "plan": plan.to_json(),
            "svg": svg_of(plot_plan(plan)),
            "target_areas": [round(area, 2) for area in found.areas],
            "scores": score.to_json(),
            "rules": score.kept,
            "broken": list(making.rules_of(shortfalls)),
            "given_up": [each.sentence() for each in shortfalls],
            "why": why,
            "instead": instead,
        }
        plans.append((rank_key(shortfalls, score), shown))
    return FoundPlans(tuple(plans), found.reason)


async def best_plans_of_order(
    model: bytes | DiagramModel, workers: Workers, order: PlanOrder, report: Report
) -> dict[str, Any]:
    """Find plans, best first, as JSON with pictures and scores. ``report`` gets the number of
    finished diagrams, and every plan. Raises ``ValueError`` for an order that is wrong or cannot be
    met."""
    body = order.body
    if order.job is not None:
        report(0, 1)
        job = replace(order.job, variants=body.num)
        found = await workers.run(shown_plans_of_job, job)
        jobs, every, reason = [order.job], list(found.plans), found.reason
    else:
        jobs = await run_sampling(workers, _sampled_jobs, (model, order), model)
        every, reason = [], ""
        report(0, len(jobs))
        # one job per process at a time, so that other requests get a turn
        turns = asyncio.Semaphore(workers.num)

        async def plans_of(job: Job) -> tuple[Shown, ...]:
            async with turns:
                return (await workers.run(shown_plans_of_job, job)).plans

        tasks = [asyncio.ensure_future(plans_of(job)) for job in jobs]
        try:
            for number, task in enumerate(asyncio.as_completed(tasks), start=1):
                plans = await task
                for _, shown in plans:
                    if not (body.livable and shown["broken"]):
                        report.send("found", shown)
                report(number, len(jobs))
                every += plans
        finally:
            for each in tasks:
                each.cancel()
    kept = [each for each in every if not (body.livable and each[1]["broken"])]
    best = [shown for _, shown in sorted(kept, key=lambda each: each[0])[: body.num]]
    if not best and not reason:
        reason = making.no_plan_reason(len(jobs), [shown["broken"] for _, shown in every])
    return {"plans": best, "num_diagrams": len(jobs), "reason": reason}


def _sampled_jobs(ask: tuple[bytes | DiagramModel, PlanOrder]) -> list[Job]:
    """Sample diagrams of a model, and build a job for each."""
    model, order = _model_of(ask[0]), ask[1]
    if not model.words.has_directions:
        raise ValueError(_NO_DIRECTIONS.format("the model's diagrams say"))
    body = order.body
    how = (body.num, body.candidates, order.brief, body.num_rooms)
    return making.PlanSearch(model.algorithm, order.request, *how).jobs()[0]
