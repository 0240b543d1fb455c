"""``PlanRequest``: requests for floor plans, as jobs; ``Diagrams``: lists with ``realise``."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Annotated, Any

from discrete_diffusion.config import Bounds, Checked, Count, OneOf, Positive
from floor_plans.diagrams.diagram import BubbleDiagram
from floor_plans.diagrams.files.fields import DiagramError, finite_number
from floor_plans.plans.doors import front_door_problem
from floor_plans.plans.floor_plan import PLAN_KEYS, Point
from floor_plans.plans.outline import FREE, MOST_AREA, Outline
from floor_plans.rules.finding import remove_halls
from floor_plans.rules.rule_set import NO_RULES, RuleSet
from floor_plans.solver.realised import CIRCULATION_RULES, Job, Realised
from floor_plans.solver.realising import realise_all
from floor_plans.solver.spec import PlanSpec, RoomAreas, area_bounds, unfilled_area

AUTO, NEVER = HALLS = ("auto", "never")
"""Options for halls: "auto" adds one behind the front door of many rooms, see ``Job.wants_hall``,
or if the solver then satisfies more; "never"."""

_FILLED = (0.85, 0.8, 0.7, 0.6)
"""Shares of a boundary's area for all rooms together; the first that leads to a plan counts. Under
a rule on filling, the midpoint between its share and 1 is tried, then the first of these. Real
plans fill 0.75 of the box around them."""

_OTHER_DRAWS = 1  # further samples of areas if no plan has the first ones

_EARLIER_PLAN_KEYS = (
    *("target_areas", "at_least", "scores", "given_up", "rules_excluded", "conflicts", "instead"),
    *("no_plan", "diagram"),
)

CHANGE_KEYS = ("locked", "moved")
"""Keys of a diagram's line that say, next to "areas", how its plan is to change."""


@dataclass(frozen=True)
class PlanRequest(Checked):
    """Request for floor plans of diagrams.

    Args:
        areas: source of target areas, in square metres, for rooms without a given area.
        total_area: square metres of all rooms, to which sampled areas are scaled.
        outline: outline that the rooms have to fill.
        tolerance: deviation of each area from its target, as a share of it.
        variants: number of different plans of each diagram.
        seed: another seed samples other areas and finds other plans.
        rules: rules of living for the plans, see ``read_rules``.
        hall: "auto": a hall may be added if these rules require access; "never".
        front_door: point of the front door on the boundary of the outline, in metres.
        north: degrees clockwise from up; plans with living rooms in the south are preferred.
            North is stored in the metadata of plans, and plotted.
        site: lines of the site for the metadata of plans, see ``Site.to_json``.

    Raises:
        ValueError: a number is out of its range.
    """

    areas: RoomAreas = field(default_factory=RoomAreas)
    total_area: Positive | None = None
    outline: Outline = FREE
    tolerance: Annotated[float, Bounds(above=0, below=1)] = 0.1
    variants: Count = 1
    seed: int = 0
    rules: RuleSet = NO_RULES
    hall: Annotated[str, OneOf(HALLS)] = AUTO
    front_door: Point | None = None
    north: float | None = None
    site: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        # the front door is a place on the boundary
        if self.front_door is not None and not all(map(math.isfinite, self.front_door)):
            raise ValueError(f"front_door={list(self.front_door)}: expected [x, y] in metres")
        if self.front_door is not None and self.outline.boundary is not None:
            _check_front_door(self.front_door, self.outline)
        # the areas fit the boundary
        if self.total_area is not None and self.outline.boundary is not None:
            room = self.outline.area / (1 - self.tolerance)
            if self.total_area > room:
                raise ValueError(
                    f"total_area={self.total_area}: expected at most {room:.1f} m2; the boundary "
                    f"holds {self.outline.area:.1f} m2"
                )
            # and fill it, all rooms within half of the tolerance together
            if (fill := self.rules.rules.get("fill")) is not None:
                most = self.total_area * (1 + self.tolerance / 2)
                least = self.outline.area - unfilled_area(self.outline, fill)
                if most < least:
                    raise ValueError(
                        f"total_area={self.total_area:g}: rooms of {most:.1f} m2 at most cannot "
                        f"fill {fill['share']:.0%} of a boundary of {self.outline.area:g} m2, as "
                        f"rules={self.rules.name} require; give at least "
                        f"{math.ceil(10 * self.total_area * least / most) / 10:g}, or leave it out"
                    )

    def jobs(
        self, diagrams: Sequence[BubbleDiagram], places: Sequence[str] | None = None
    ) -> list[Job]:
        """Return a ``Job``, plans to find, for each diagram.

        The metadata of a diagram may hold "areas", square metres of every room or null, and
        "boundary", corners [x, y] in metres; both take precedence over the request. Its "north"
        counts if the request has none. Added rooms ("added") are left out.

        Args:
            diagrams: with relations between rooms.
            places: names of the diagrams in errors, see ``ReadReport``; None: their numbers.

        Returns:
            The jobs, in the order of the diagrams.

        Raises:
            DiagramError: a ``ValueError`` that names the diagram and the field that is wrong.
        """
        found = []
        for number, diagram in enumerate(diagrams, start=1):
            try:
                found.append(self.job(number, diagram))
            except DiagramError as error:
                place = f"plan {number}" if places is None else places[number - 1]
                raise DiagramError("", f"{place}, {error}") from error
        return found

    def job(self, number: int, diagram: BubbleDiagram) -> Job:
        """Return the plans to find for one diagram.

        Args:
            number: number of the diagram, from 1 on; determines which areas are sampled.
            diagram: with relations between rooms.

        Returns:
            The job.

        Raises:
            DiagramError: a ``ValueError`` that names the field that is wrong.
        """
        diagram = remove_halls(diagram)
        metadata = dict(diagram.metadata)
        # keys of an earlier plan leave the metadata
        own = {key: metadata.pop(key, None) for key in (*PLAN_KEYS, *_EARLIER_PLAN_KEYS)}
        for key in CHANGE_KEYS:
            if metadata.get(key):
                raise DiagramError(key, "needs near=FILE, the earlier plan; or leave it out")
        outline = self.outline
        if own["boundary"] is not None:
            outline = Outline(boundary=own["boundary"])
        # target areas: given, or sampled and scaled to the total
        given = given_areas(own["areas"], diagram.num_rooms)
        random = Random(f"{self.seed} {number}")
        bounds = self._area_bounds(diagram, given, outline)
        # total areas to try, small enough for a plan; None: areas as sampled
        totals: list[float | None] = [self.total_area] * (1 + _OTHER_DRAWS)
        if self.total_area is None and outline.boundary is not None:
            fill = self.rules.rules.get("fill")
            shares = _FILLED if fill is None else ((1 + fill["share"]) / 2, _FILLED[0])
            totals = [share * outline.area for share in shares]
        totals = [
            total for total in totals if total is None or total > sum(low for low, _ in bounds)
        ]
        totals = totals or [self.total_area or outline.area]
        areas, *others = (
            _scale_areas(self.areas.draw(diagram.rooms, random), given, total, bounds)
            for total in (totals if None in given else totals[:1])
        )
        if sum(areas) > MOST_AREA:
            raise DiagramError("areas", f"{sum(areas):g} m2 in all: expected at most {MOST_AREA:,}")
        # north and front door
        north = self.north
        if north is None and metadata.get("north") is not None:
            north = finite_number(metadata["north"], "north")
        more = {"north": north, "site": self.site}
        metadata |= {key: value for key, value in more.items() if value is not None}
        bare = replace(diagram, metadata=metadata)
        if self.front_door is not None:
            _check_front_door(self.front_door, outline)
        free = given if self.total_area is None else ()
        typical = frozenset(room for room, own in enumerate(free) if own is None)
        spec = PlanSpec(areas, self.tolerance, outline, self.rules, self.front_door, north, typical)
        hall = self.hall == AUTO and not self.rules.rules.keys().isdisjoint(CIRCULATION_RULES)
        return Job(bare, spec, self.variants, self.seed, tuple(others), hall)

    def _area_bounds(
        self, diagram: BubbleDiagram, given: Sequence[float | None], outline: Outline
    ) -> list[tuple[float, float]]:
        """Bounds of areas, given or required; refuse rules that need too much."""
        bounds = area_bounds(diagram.rooms, self.rules)
        bounds = [
            each if own is None else (own, own) for each, own in zip(bounds, given, strict=True)
        ]
        least = [low for low, _ in bounds]
        key, most = "total_area", self.total_area
        if most is None and outline.boundary is not None:
            key, most = "boundary", outline.area
        # what is given fits, but not what the rules require
        if most is not None and sum(own or 0.0 for own in given) < most < sum(least):
            raise DiagramError(
                key,
                f"{most:g} m2: rules={self.rules.name} need at least "
                f"{math.ceil(10 * sum(least)) / 10:.1f} m2 for these rooms; rules=none needs less",
            )
        return bounds


def realise_diagrams(
    diagrams: Sequence[BubbleDiagram], request: PlanRequest | None = None, *, threads: int = 1
) -> list[Realised]:
    """Find floor plans of diagrams, as ``plans realise`` does; see ``Diagrams.realise``."""
    request = PlanRequest() if request is None else request
    return list(realise_all(request.jobs(diagrams), threads=threads))


def _scale_areas(
    drawn: Sequence[float],
    given: Sequence[float | None],
    total: float | None,
    bounds: Sequence[tuple[float, float]],
) -> tuple[float, ...]:
    """Areas of all rooms: given, or sampled and scaled to the ``total``, if there is one."""
    areas = [0.0 if own is None else own for own in given]
    free = {k for k, own in enumerate(given) if own is None}
    while free:
        scale = 1.0
        if total is not None:
            # share the rest among free rooms
            left = total - sum(areas[k] for k in range(len(areas)) if k not in free)
            if left <= 0:
                raise DiagramError("areas", f"leave nothing of {total:.1f} m2 to the rooms of null")
            scale = left / sum(drawn[k] for k in free)
        # rooms out of their bounds get the nearest area within, and the others are scaled again:
        # first those that are too small, as in all they are the ones that have to fit
        small = {k for k in free if scale * drawn[k] < bounds[k][0]}
        large = {k for k in free if scale * drawn[k] > bounds[k][1]}
        fixed = small or large
        for k in fixed or free:
            low, high = bounds[k]
            areas[k] = min(max(scale * drawn[k], low), high)
        free = free - fixed if fixed else set()
    return tuple(areas)


def _check_front_door(place: Point, outline: Outline) -> None:
    """Raise ``DiagramError`` for a place off the boundary."""
    why = "its place is on a boundary; give boundary"
    if outline.boundary is not None:
        why = front_door_problem(place, outline.boundary)
    if why:
        raise DiagramError("", f"front_door={list(place)}: {why}")


def given_areas(areas: Any, num_rooms: int) -> list[float | None]:
    """Square metres or None for every room. Raises ``DiagramError`` for anything else."""

    def is_area(area: Any) -> bool:
        is_number = isinstance(area, int | float) and not isinstance(area, bool)
        return is_number and math.isfinite(area) and area > 0

    if areas is None:
        return [None] * num_rooms
    if (
        not isinstance(areas, list)
        or len(areas) != num_rooms
        or not all(area is None or is_area(area) for area in areas)
    ):
        raise DiagramError(
            "areas",
            f"expected square metres or null for each of the {num_rooms} rooms, got "
            f"{reprlib.repr(areas)}",
        )
    return [None if area is None else float(area) for area in areas]


class Diagrams(list[BubbleDiagram]):
    """List of diagrams; a notebook shows it as a picture of the first ``MAX_DRAWN``."""

    def _repr_svg_(self) -> str | None:
        from floor_plans.diagrams.pictures.diagram_pictures import MAX_DRAWN, svg_of_grid

        return svg_of_grid(self[:MAX_DRAWN]) if self else None

    def plot(self, path: str | Path) -> None:
        """Plot the diagrams into a file.

        Args:
            path: a ``.png`` or ``.svg`` file.

        Raises:
            ValueError: the file has another suffix, or the list is empty.
        """
        from floor_plans.diagrams.pictures.diagram_pictures import MAX_DRAWN, plot_grid

        plot_grid(self[:MAX_DRAWN], path)

    def realise(self, request: PlanRequest | None = None, *, threads: int = 1) -> list[Realised]:
        """Find dimensioned floor plans, as the command ``plans realise`` does.

        Args:
            request: areas, outline, variants and seed; None: typical areas, any outline.
            threads: number of threads that share the work.

        Returns:
            A ``Realised`` for each diagram: its ``plans`` in metres, or the ``reason`` why there
            is none.

        Raises:
            DiagramError: a ``ValueError`` that names the diagram and the field of its metadata that
                is wrong.
            ValueError: OR-Tools, of the extra ``plans``, is not installed.
            ImportError: shapely, of the same extra, is not installed.
        """
        return realise_diagrams(self, request, threads=threads)
