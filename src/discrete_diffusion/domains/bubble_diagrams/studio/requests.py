"""Bodies of requests that the JSON API takes, and the diagrams in them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from discrete_diffusion.domains.bubble_diagrams.diagram import BubbleDiagram
from discrete_diffusion.domains.bubble_diagrams.files.fields import (
    read_triple,
    relation_code,
    room_code,
)
from discrete_diffusion.domains.bubble_diagrams.partial import PartialDiagram
from discrete_diffusion.domains.bubble_diagrams.vocabulary import INVERSE

MOST_ROOMS = 64
"""In a body; a model takes as many as it was trained for."""

MOST_DRAWN = 16

MOST_PLANS = 6

_Seed = Annotated[int, Field(ge=0, lt=2**53, description="the same seed gives the same answer")]
_Drawn = Annotated[int, Field(ge=1, le=MOST_DRAWN, description="how many diagrams")]


class _Body(BaseModel):
    """Other keys are refused."""

    model_config = ConfigDict(extra="forbid")


class Refusal(BaseModel):
    """Why a request was not answered."""

    error: str = Field(description="one sentence: what is wrong, where, and what was expected")


class Drawing(_Body):
    """Rooms and relations as in a line of a plans file. Of a partial diagram a room may be null,
    and a pair that is not listed is unknown; "no-edge" says that there is no relation."""

    rooms: list[str | None] = Field(min_length=1, max_length=MOST_ROOMS)
    relations: list[tuple[int, int, str]] = Field(default=[], max_length=MOST_ROOMS**2)

    def as_partial(self) -> PartialDiagram:
        """``DiagramError`` naming the field that is wrong, or contradicts an earlier one."""
        return PartialDiagram.from_json(self.model_dump())

    def as_diagram(self) -> BubbleDiagram:
        """Complete: a pair that is not listed has no relation."""
        return BubbleDiagram.from_json(self.model_dump())

    def as_drawn(self) -> PartialDiagram:
        """``as_partial``, but relations may contradict each other."""
        rooms = [
            None if room is None else room_code(room, f"rooms[{k}]")
            for k, room in enumerate(self.rooms)
        ]
        relations = []
        for k, triple in enumerate(self.relations):
            where = f"relations[{k}]"
            i, j, name = read_triple(list(triple), len(rooms), where)
            code = relation_code(name, where)
            relations.append((i, j, code) if i < j else (j, i, INVERSE[code]))
        return PartialDiagram(tuple(rooms), tuple(relations))


class _Asked(_Body):
    seed: _Seed = 0
    positions: bool = Field(default=False, description="also where to draw the rooms")


class _Streamed(_Asked):
    stream: bool = Field(
        default=False, description="answer with server-sent events, as tokens are revealed"
    )


class CompleteBody(_Streamed):
    """Every given room and relation is kept, the rest is drawn."""

    given: Drawing
    completions: _Drawn = 4


class SampleBody(_Streamed):
    """Fresh diagrams."""

    num: _Drawn = 4
    num_rooms: int | None = Field(
        default=None, ge=1, le=MOST_ROOMS, description="null: as in the training data"
    )


class BriefBody(_Asked):
    """Diagrams that meet a brief, the keys of docs/briefs.md."""

    brief: dict[str, Any]
    num: _Drawn = 4
    given: Drawing | None = Field(default=None, description="complete this so that it meets it")


class CheckBody(_Body):
    """A diagram, partial or complete, or a brief: whether it can be."""

    diagram: Drawing | None = None
    complete: bool = Field(
        default=False, description="pairs that are not listed have no relation, else are unknown"
    )
    brief: dict[str, Any] | None = None


class RealiseBody(_Body):
    """A dimensioned plan of a complete diagram."""

    diagram: Drawing
    total_area: float | None = Field(default=None, gt=0, le=10_000, description="square metres")
    ratio: float | None = Field(default=None, ge=0.1, le=10, description="width over height")
    seed: _Seed = 0


class PlanBody(_Body):
    """Plans on a plot: of a diagram, or of the best of several that a brief allows."""

    brief: dict[str, Any] | None = Field(default=None, description="keys of docs/briefs.md")
    diagram: Drawing | None = Field(default=None, description="plans of this one alone")
    num_rooms: int | None = Field(default=None, ge=1, le=MOST_ROOMS)
    boundary: list[tuple[float, float]] | None = Field(
        default=None, min_length=3, max_length=MOST_ROOMS, description="the plot, corners in metres"
    )
    ratio: float | None = Field(default=None, ge=0.1, le=10, description="width over height")
    total_area: float | None = Field(default=None, gt=0, le=10_000, description="square metres")
    rules: Literal["default", "irc", "none"] = "default"
    num: int = Field(default=3, ge=1, le=MOST_PLANS, description="how many plans, best first")
    candidates: int | None = Field(
        default=None, ge=1, le=4 * MOST_PLANS, description="diagrams to try; null: twice num"
    )
    seed: _Seed = 0


class Accepted(BaseModel):
    """A job that was begun, at /api/jobs/{job}."""

    job: str


class JobState(BaseModel):
    """How far a job is. ``answer``: {"plans": [{"plan", "svg", "target_areas", "scores", "rules",
    "given_up"}, ...], "num_diagrams", "reason"}; ``rules``: of the set ``default``, if each is
    kept, null where it does not apply."""

    job: str
    status: Literal["waiting", "working", "done", "failed", "cancelled"]
    place: int | None = Field(default=None, description="jobs of yours before it")
    done: int | None = Field(default=None, description="diagrams that were tried")
    total: int | None = None
    answer: dict[str, Any] | None = None
    error: str | None = None


class ExportBody(_Body):
    """The text of a file: of a diagram, or of a plan as /api/realise gives it."""

    format: Literal["json", "svg", "graphml", "dxf", "geojson", "wkt", "pdf", "ifc"]
    diagram: Drawing | None = None
    plan: dict[str, Any] | None = None
    language: Literal["en", "de"] = Field(
        default="en", description="of the names of rooms in dxf, pdf and ifc"
    )
