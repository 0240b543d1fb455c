"""Bodies of the answers of the JSON API, as /openapi.json describes them."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Point = tuple[float, float]


class Refusal(BaseModel):
    """Refusal of a request, with the reason."""

    error: str = Field(description="one sentence: what is wrong, where, and what was expected")


class DiagramAnswer(BaseModel):
    """A diagram, the object of a line of a plans file."""

    model_config = ConfigDict(extra="allow")

    rooms: list[str]
    relations: list[tuple[int, int, str]]
    positions: list[tuple[float, float, float]] = Field(
        default=[], description="x, y and radius of every room, if they were requested"
    )


class Drawn(BaseModel):
    """Diagrams that were sampled."""

    diagrams: list[DiagramAnswer]
    approximate: list[str] = Field(
        default=[], description="why they are not exact samples; empty if they are"
    )
    seconds: float


class Revealed(BaseModel):
    """A token that was revealed: the type of a room, or the relation of a pair."""

    completion: int
    room: int | None = None
    type: str | None = None
    pair: tuple[int, int] | None = None
    relation: str | None = None


class ContradictionAnswer(BaseModel):
    """Relations that contradict each other."""

    sentence: str
    pairs: list[tuple[int, int]]


class CheckedDiagram(BaseModel):
    """Result of checking a diagram."""

    ok: bool
    can_be_built: bool | None = Field(description="null: not decided, or it depends")
    contradiction: ContradictionAnswer | None
    warning: str | None


class CheckedBrief(BaseModel):
    """Result of checking a brief."""

    ok: bool
    rules: list[str] = Field(description="what it means, a sentence for each rule")
    verdict: str
    keys: list[str] = Field(description="of the brief, that contradict each other")
    because: list[str]


class PlanAnswer(BaseModel):
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


class PlotAnswer(BaseModel):
    """A plot: its corners in metres, y downwards, from 0, 0 on."""

    corners: list[Point]


class ScoresAnswer(BaseModel):
    """Scores of a plan, shares from 0 to 1 but for the number of broken rules."""

    num_broken: int
    compactness: float
    fill: float
    area_error: float
    light: float | None
    total: float


class OtherRelation(BaseModel):
    """A pair of rooms, and another relation with which a plan keeps all rules."""

    rooms: list[int]
    now: str
    relation: str


class ShownPlan(BaseModel):
    """A plan, its picture, and how good it is."""

    plan: PlanAnswer
    svg: str
    target_areas: list[float]
    scores: ScoresAnswer
    rules: dict[str, bool | None] = Field(
        description="of the set default, if each is kept; null where it does not apply"
    )
    broken: list[str] = Field(description="rules that it breaks, of those it was planned for")
    given_up: list[str] = Field(description="what it does not meet, in sentences")
    why: list[str] = Field(
        description="what of the rules the solver ruled out, and another relation that would do"
    )
    instead: OtherRelation | None


class NoPlan(BaseModel):
    """No plan, and why."""

    plan: None
    reason: str


class Plans(BaseModel):
    """Plans, best first."""

    plans: list[ShownPlan]
    num_diagrams: int
    reason: str = Field(description="why there is none; empty if there is one")


class Accepted(BaseModel):
    """A job that was begun, at /api/jobs/{job}."""

    job: str


class JobState(BaseModel):
    """State of a job, and its answer or error."""

    job: str
    status: Literal["waiting", "working", "done", "failed", "cancelled"]
    place: int | None = Field(default=None, description="jobs of yours before it")
    done: int | None = Field(default=None, description="diagrams that were tried")
    total: int | None = None
    answer: Plans | Drawn | None = Field(
        default=None, description="of /api/plan plans, of /api/brief diagrams"
    )
    error: str | None = None


class JobProgress(BaseModel):
    """Data of the event "progress"."""

    status: Literal["waiting", "working"]
    done: int | None = None
    total: int | None = None


class JobDone(BaseModel):
    """Data of the event "done", the last one."""

    answer: Plans | Drawn


class RoomStyle(BaseModel):
    """A type of rooms, and how it is drawn."""

    type: str
    label: str
    name: str
    colour: str
    size: float


class ModelFacts(BaseModel):
    """Facts of the model: its rooms, relations and sizes."""

    version: str
    backbone: str
    most_rooms: int
    sizes: list[int] = Field(description="numbers of rooms that it was trained on")
    most_drawn: int
    has_directions: bool
    relations: list[str]
    unknown_colour: str
    rooms: list[RoomStyle]


class Health(BaseModel):
    """Health of the studio: lengths of its queues, processes and running time."""

    status: Literal["ok"]
    waiting: int = Field(description="requests that wait for the network")
    jobs: int = Field(description="jobs that wait")
    workers: list[int] = Field(description="ids of the processes that look for plans now")
    last_batch: int
    seconds: float = Field(description="since it was started")
