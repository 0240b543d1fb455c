"""Bodies of the requests and answers of the JSON API, as /openapi.json describes them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from floor_plans.diagrams.partial import PartialDiagram
from floor_plans.plans.floor_plan import Point
from floor_plans.rules import finding
from floor_plans.solver.changing import Change

MOST_DRAWN, MOST_PLANS = 16, 6

_PAIR = {"rooms": ["LivingRoom", "Kitchen"], "relations": [[1, 0, "left-of"]]}

_PLOT_DRAWING = (
    "0 SECTION 2 HEADER 9 $INSUNITS 70 6 0 ENDSEC 0 SECTION 2 ENTITIES "
    "0 POLYLINE 8 PLOT 66 1 70 1 0 VERTEX 8 PLOT 10 0 20 0 "
    "0 VERTEX 8 PLOT 10 8 20 0 0 VERTEX 8 PLOT 10 8 20 6 0 SEQEND 0 ENDSEC 0 EOF"
).replace(" ", "\n")
"""A triangle of 8 x 6 m."""

_Seed = Annotated[int, Field(ge=0, lt=2**53, description="the same seed gives the same answer")]
_Room = Annotated[
    int, Field(ge=0, lt=finding.MOST_ROOMS, description="number of a room, from 0 on")
]
_Rules = Literal["default", "irc", "none"]
_Metres = Annotated[float, Field(allow_inf_nan=False, ge=-finding.FARTHEST, le=finding.FARTHEST)]
_Drawn = Annotated[int, Field(ge=1, le=MOST_DRAWN, description="how many diagrams")]


def _example(**body: Any) -> ConfigDict:
    """Return the configuration of a body: no unknown keys, and an example in /openapi.json."""
    return ConfigDict(extra="forbid", json_schema_extra={"example": body})


class _Model(BaseModel):
    model_config = ConfigDict(use_attribute_docstrings=True)


class _Body(_Model):
    """Base of bodies, which refuses unknown keys."""

    model_config = ConfigDict(extra="forbid")


class Drawing(_Body):
    """Diagram, with rooms and relations as in a line of a plans file. In a partial diagram a room
    may be null, and an unlisted pair is unknown; "no-edge" means no relation."""

    rooms: list[str | None] = Field(min_length=1, max_length=finding.MOST_ROOMS)
    relations: list[tuple[int, int, str]] = Field(default=[], max_length=finding.MOST_ROOMS**2)

    def as_partial(self) -> PartialDiagram:
        """Convert to a partial diagram; ``DiagramError`` names a wrong or contradictory field."""
        return PartialDiagram.from_json(self.model_dump())

    def as_drawn(self) -> PartialDiagram:
        """Convert like ``as_partial``, but allow contradictory relations."""
        return PartialDiagram.from_json(self.model_dump(), may_contradict=True)


class _Asked(_Body):
    seed: _Seed = 0
    positions: bool = Field(default=False, description="also where to draw the rooms")


class _Streamed(_Asked):
    stream: bool = False
    """answer with server-sent events, as tokens are revealed"""


class CompleteBody(_Streamed):
    """A partial diagram to complete: given rooms and relations are kept, the rest is sampled."""

    model_config = _example(
        given={"rooms": ["LivingRoom", "Kitchen", None], "relations": [[1, 0, "left-of"]]},
        completions=2,
    )

    given: Drawing
    completions: _Drawn = 4


class SampleBody(_Streamed):
    """Request to sample new diagrams."""

    model_config = _example(num=1, num_rooms=4)

    num: _Drawn = 4
    num_rooms: int | None = Field(default=None, ge=1, le=finding.MOST_ROOMS)
    """null: as in the training data"""


class BriefBody(_Asked):
    """Request to sample diagrams that meet a brief, with the keys of docs/floor_plans/briefs.md."""

    model_config = _example(brief={"num_rooms": "4-5", "rooms": {"Kitchen": 1}}, num=1)

    brief: dict[str, Any]
    num: _Drawn = 4
    job: bool = Field(default=False, description="answer with 202 and a job, as /api/plan does")
    given: Drawing | None = Field(default=None, description="complete this so that it meets it")


class CheckBody(_Body):
    """Request to check a diagram, partial or complete, or a brief."""

    model_config = _example(diagram=_PAIR)

    diagram: Drawing | None = None
    complete: bool = False
    """pairs that are not listed have no relation, else are unknown"""
    brief: dict[str, Any] | None = None


class Lock(_Body):
    """A fixed room: its place (the box), or its size (width and height of the box)."""

    room: _Room
    keep: Literal["place", "size"]


class MovedWall(_Body):
    """A moved wall: the new coordinate of a side of a room, in metres of the plan, y downwards."""

    room: _Room
    side: Literal["left", "top", "right", "bottom"]
    to: _Metres = Field(description="x of left and right, y of top and bottom")


class NearBody(_Body):
    """Changes of an earlier plan. Rooms are numbered as in that plan; everything else moves as
    little as possible."""

    plan: dict[str, Any] = Field(description="as an answer has it")
    locked: list[Lock] = Field(default=[], max_length=finding.MOST_ROOMS)
    areas: dict[_Room, Annotated[float, Field(gt=0, le=10_000)]] = Field(
        default={}, max_length=finding.MOST_ROOMS
    )
    """square metres that rooms are to have"""
    moved: list[MovedWall] = Field(default=[], max_length=4 * finding.MOST_ROOMS)

    def as_change(self) -> Change:
        """Convert to a change of the solver; ``ValueError`` names a wrong key."""
        plan = finding.plan_within_limits(self.plan)
        finding.check_rooms(plan)
        places = finding.corners_of_boxes(plan)
        for wall in self.moved:
            x, y = places[0]
            to = (wall.to, y) if wall.side in ("left", "right") else (x, wall.to)
            finding.check_within("moved", [*places, to])
        locked = {lock.room: str(lock.keep) for lock in self.locked}
        moved = {(each.room, str(each.side)): each.to for each in self.moved}
        return Change(plan, locked, self.areas, moved)


class _OnPlot(_Body):
    boundary: list[tuple[_Metres, _Metres]] | None = Field(
        default=None, min_length=3, max_length=finding.MOST_CORNERS
    )
    """the plot, corners in metres"""
    front_door: tuple[_Metres, _Metres] | None = None
    """its place on the boundary, in metres"""
    north: float | None = Field(default=None, ge=-360, le=360)
    """degrees clockwise from up; plans with living rooms further south cost less"""
    total_area: float | None = Field(default=None, gt=0, le=10_000, description="square metres")
    ratio: float | None = Field(default=None, ge=0.1, le=10, description="width over height")
    seed: _Seed = 0


class RealiseBody(_OnPlot):
    """Request for a plan with dimensions of a complete diagram, or near an earlier plan."""

    model_config = _example(diagram=_PAIR, total_area=40)

    diagram: Drawing | None = Field(default=None, description="null: that of near")
    near: NearBody | None = None
    rules: _Rules = "none"


class PlanBody(_OnPlot):
    """Request for plans on a plot, of a given diagram or of sampled diagrams that meet a brief."""

    model_config = _example(
        diagram=_PAIR, boundary=[[0, 0], [8, 0], [8, 6], [0, 6]], rules="none", num=2
    )

    brief: dict[str, Any] | None = None
    """keys of docs/floor_plans/briefs.md"""
    diagram: Drawing | None = Field(default=None, description="plans of this one alone")
    near: NearBody | None = None
    """plans of the diagram, or that of this plan, near this plan"""
    num_rooms: int | None = Field(default=None, ge=1, le=finding.MOST_ROOMS)
    rules: _Rules = "default"
    num: int = Field(default=3, ge=1, le=MOST_PLANS, description="how many plans, best first")
    candidates: int | None = Field(default=None, ge=1, le=4 * MOST_PLANS)
    """diagrams to try; null: twice num"""
    livable: bool = Field(default=False, description="only plans that break none of the rules")


class PlotBody(_Body):
    """A drawing with the outline of a plot: the largest closed polyline on a layer BOUNDARY, or
    else on any layer."""

    model_config = _example(dxf=_PLOT_DRAWING)

    dxf: str = Field(min_length=1, description="the text of the file; its header states the unit")


class ExportBody(_Body):
    """Request to export a diagram, or a plan as /api/realise returns it, as a file."""

    model_config = _example(diagram=_PAIR, format="json")

    format: Literal["json", "svg", "graphml", "dxf", "geojson", "pdf", "ifc"]
    diagram: Drawing | None = None
    plan: dict[str, Any] | None = None
    language: Literal["en", "de"] = "en"
    """of the names of rooms in dxf, pdf and ifc"""


class Refusal(_Model):
    """Refusal of a request, with the reason."""

    error: str = Field(description="one sentence: what is wrong, where, and what was expected")


class DiagramAnswer(_Model):
    """A diagram, the object of a line of a plans file."""

    model_config = ConfigDict(extra="allow")

    rooms: list[str]
    relations: list[tuple[int, int, str]]
    positions: list[tuple[float, float, float]] = []
    """x, y and radius of every room, if they were requested"""


class Drawn(_Model):
    """Diagrams that were sampled."""

    diagrams: list[DiagramAnswer]
    approximate: list[str] = []
    """why they are not exact samples; empty if they are"""
    seconds: float


class Revealed(_Model):
    """A token that was revealed: the type of a room, or the relation of a pair."""

    completion: int
    room: int | None = None
    type: str | None = None
    pair: tuple[int, int] | None = None
    relation: str | None = None


class ContradictionAnswer(_Model):
    """Relations that contradict each other."""

    sentence: str
    pairs: list[tuple[int, int]]


class CheckedDiagram(_Model):
    """Result of checking a diagram."""

    ok: bool
    can_be_built: bool | None = Field(description="null: not decided, or it depends")
    contradiction: ContradictionAnswer | None
    warning: str | None


class CheckedBrief(_Model):
    """Result of checking a brief."""

    ok: bool
    rules: list[str] = Field(description="what it means, a sentence for each rule")
    verdict: str
    keys: list[str] = Field(description="of the brief, that contradict each other")
    because: list[str]


class PlanAnswer(_Model):
    """A floor plan, the object of a line of plans.jsonl: lengths in metres, y downwards."""

    model_config = ConfigDict(extra="allow")

    rooms: list[str]
    relations: list[tuple[int, int, str]]
    boxes: list[tuple[float, float, float, float]]
    unit: Literal["metres"]
    areas: list[float]
    doors: list[dict[str, Any]]
    boundary: list[Point] = []
    added: list[int] = Field(default=[], description="rooms that the diagram has not: a hall")


class PlotAnswer(_Model):
    """Corners of a plot in metres, y downwards, with the upper left of its box at 0, 0."""

    corners: list[Point]


class ScoresAnswer(_Model):
    """Scores of a plan: number of broken rules, and shares from 0 to 1."""

    num_broken: int
    compactness: float
    fill: float
    area_error: float
    light: float | None
    total: float


class OtherRelation(_Model):
    """A pair of rooms, and another relation with which a plan keeps all rules."""

    rooms: list[int]
    now: str
    relation: str


class ShownPlan(_Model):
    """A plan, its picture and its scores."""

    plan: PlanAnswer
    svg: str
    target_areas: list[float]
    scores: ScoresAnswer
    rules: dict[str, bool | None]
    """of the set default, if each is kept; null where it does not apply"""
    broken: list[str] = Field(description="rules that it breaks, of those it was planned for")
    given_up: list[str] = Field(description="what it does not meet, in sentences")
    why: list[str]
    """what of the rules the solver ruled out, and another relation that would do"""
    instead: OtherRelation | None


class NoPlan(_Model):
    """Answer if no plan was found, with the reason."""

    plan: None
    reason: str


class Plans(_Model):
    """Plans found, best first."""

    plans: list[ShownPlan]
    num_diagrams: int
    reason: str = Field(description="why there is none; empty if there is one")


class Accepted(_Model):
    """A job that was accepted; its state is at /api/jobs/{job}."""

    job: str


class JobState(_Model):
    """State of a job, and its answer or error."""

    job: str
    status: Literal["waiting", "working", "done", "failed", "cancelled"]
    place: int | None = Field(default=None, description="jobs of yours before it")
    done: int | None = Field(default=None, description="diagrams that were tried")
    total: int | None = None
    answer: Plans | Drawn | None = None
    """of /api/plan plans, of /api/brief diagrams"""
    error: str | None = None


class JobProgress(_Model):
    """Data of the event "progress"."""

    status: Literal["waiting", "working"]
    done: int | None = None
    total: int | None = None


class JobDone(_Model):
    """Data of the event "done", the last event of a job."""

    answer: Plans | Drawn


class RoomStyle(_Model):
    """A room type, with label and colour for drawing."""

    type: str
    label: str
    name: str
    colour: str
    size: float


class ModelFacts(_Model):
    """Facts of the model: its rooms, relations and sizes."""

    version: str
    backbone: str
    most_rooms: int
    sizes: list[int] = Field(description="numbers of rooms that it was trained on")
    most_drawn: int
    has_directions: bool
    relations: list[str]
    brief_keys: dict[str, dict[str, Any]]
    """JSON Schema of each key of a brief, with an example"""
    unknown_colour: str
    rooms: list[RoomStyle]


class Health(_Model):
    """Health of the studio: lengths of its queues, processes and running time."""

    status: Literal["ok"]
    waiting: int = Field(description="requests that wait for the network")
    jobs: int = Field(description="jobs that wait")
    workers: list[int] = Field(description="ids of the processes that look for plans now")
    last_batch: int
    seconds: float = Field(description="since it was started")
