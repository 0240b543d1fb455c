"""``plans make``: sample diagrams that meet a brief, find a plan of each, keep the best."""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from discrete_diffusion.config import counted
from discrete_diffusion.runtime import Stop, StopSignals, is_stopping
from floor_plans.briefs.brief import SOLVER_HAS_FACTS, Brief, PlanFacts
from floor_plans.briefs.reading import brief_of, read_brief
from floor_plans.diagrams.diagram import BubbleDiagram
from floor_plans.diagrams.files.fields import DiagramError
from floor_plans.drawings.realise_file import checked_files, request_of
from floor_plans.drawings.realised_files import WITHHELD, PlanFiles
from floor_plans.plans.floor_plan import FloorPlan
from floor_plans.plans.outline import FREE, Outline
from floor_plans.rules.finding import HALL, Parameters
from floor_plans.rules.rule_set import RuleSet, read_rules
from floor_plans.solver.realised import Job, Realised, Scores, Shortfall, rank_key, ranked_variants
from floor_plans.solver.realising import StopAsked, realise_all
from floor_plans.solver.requests import NEVER, PlanRequest
from floor_plans.solver.room_constraints import HALL_TYPE

ROUNDS = 3
"""Most times that ``candidates`` diagrams are sampled while too few plans keep the rules."""

AnyBrief = TypeVar("AnyBrief", bound=Mapping[str, Any] | str | None)
"""A brief: its content, or its file."""

_WIDE_DOOR, _TURNING = 0.9, 1.5
"""Clear width of a door that a wheelchair passes, and of the circle that it turns in, metres (DIN
18040-2)."""


@dataclass(frozen=True)
class MadePlan:
    """Floor plan of a sampled diagram: the ``job``, its result with this plan alone (``found``),
    and the ``scores`` of the plan."""

    job: Job
    found: Realised
    scores: Scores

    @property
    def plan(self) -> FloorPlan:
        """Rooms, doors and outline in metres; ``to_json()`` is a line of plans.jsonl."""
        return self.found.plans[0]

    @property
    def given_up(self) -> tuple[Shortfall, ...]:
        """Requirements and rules that the plan does not meet."""
        return self.found.shortfalls[0]

    @property
    def broken(self) -> tuple[str, ...]:
        """Requested rules that the plan breaks."""
        return rules_of(self.given_up)


def make_plans(
    model: Any,
    request: PlanRequest | None = None,
    *,
    num: int = 6,
    candidates: int | None = None,
    brief: Mapping[str, Any] | str | None = None,
    num_rooms: int | None = None,
    strict: bool = True,
    threads: int = 1,
) -> list[MadePlan]:
    """Make floor plans: sample diagrams of a model, find a plan of each, keep the best ``num``.

    ``request``: areas, outline, rules and seed; None: typical areas, any outline, the rules
    ``default``, and an added hall if one fits or they need one, see ``PlanRequest``.
    ``candidates``: number of diagrams to sample, twice ``num`` by default; equal ones count once.
    ``brief``: a file or its content, whose ``area``, ``outline``, ``front_door`` and ``north`` go
    to the solver. ``num_rooms``: None: as in the training data. ``strict``: withhold plans that
    break a rule; while fewer than ``num`` are left, sample ``candidates`` other diagrams,
    ``ROUNDS`` times in all; in a given outline, search no plan of a diagram whose rules the solver
    shows to be impossible. False: rank all.

    Returns the plans, best first: by unmet requirements, then broken rules, then mean score;
    perhaps fewer than ``num``. Raises ``ValueError`` for a number out of its range, a brief that is
    wrong or cannot be met, no diagram that fits the request, or without OR-Tools; ``ImportError``
    without shapely.
    """
    # the request, with facts of the brief
    request = PlanRequest(rules=read_rules("default")) if request is None else request
    request, asked = with_brief(request, brief)
    # sample diagrams, find a plan of each, keep the best
    search = PlanSearch(model, request, num, candidates, asked, num_rooms, strict, threads)
    return search.best(filter(None, search.tried(search.jobs()[0])))


def with_brief(request: PlanRequest, brief: AnyBrief) -> tuple[PlanRequest, AnyBrief | Brief]:
    """Return the request with the area, outline, front door, north and rules that a brief states,
    without a hall if it excludes entrances, and the brief, with the plot that ``total_area`` needs;
    ``ValueError`` if both state a fact."""
    if brief is None:
        return request, brief
    # each fact of the plan may be stated once
    read = brief_of(brief) if isinstance(brief, Mapping) else read_brief(brief)
    facts = read.facts_with_plot(None if read.plan_facts.area else request.total_area, brief)
    site, more = facts.site, dict[str, Any]()
    for key, name in (("area", "total_area"), ("front_door",) * 2, ("north",) * 2):
        if (stated := getattr(facts, key)) is not None:
            if (given := getattr(request, name)) is not None:
                is_found = site is not None and key == "front_door" and key not in read.sources
                said = "the site: of the brief finds it" if is_found else f"the brief states {key}"
                raise ValueError(f"{name}={given}: {said}; leave one out")
            more[name] = stated
    if facts.outline is not None:
        if request.outline != FREE:
            raise ValueError("boundary or ratio: the brief states an outline; leave one out")
        more["outline"] = Outline(boundary=facts.outline)
    if site is not None:
        more["site"] = site.to_json()
        if request.north is not None:
            more["north"] = site.north(request.north)
    if rules := _rules_of(facts, request.rules):
        more["rules"] = RuleSet(
            f"{request.rules.name} and the brief", {**request.rules.rules, **rules}
        )
    # in files an added hall is an entrance
    if any(HALL_TYPE in rule.kind.types and rule.number.most == 0 for rule in read.counts):
        more["hall"] = NEVER
    asked = brief if facts == read.plan_facts else replace(read, plan_facts=facts)
    return replace(request, **more), asked


def _rules_of(facts: PlanFacts, base: RuleSet) -> dict[str, Parameters]:
    """Rules that a brief adds to the rules of ``base``, or changes."""
    found: dict[str, Parameters] = {}
    # areas: of several bounds on a kind of rooms the tightest
    if facts.areas is not None:
        least, most = dict[str, float](), dict[str, float]()
        for rule in facts.areas:
            for name in rule.kind.names:
                least[name] = max(least.get(name, 0.0), rule.least)
                if rule.most is not None:
                    most[name] = min(most.get(name, rule.most), rule.most)
        found["clear_area"] = {"least": least, "most": most}
    # doors between kinds of rooms
    for key, name in (("doors", "door"), ("no_door", "no_door"), ("open", "open")):
        if pairs := getattr(facts, key):
            found[name] = {
                "pairs": tuple((frozenset(a.names), frozenset(b.names)) for a, b in pairs)
            }
    # daylight: outer walls for more kinds of rooms
    default = read_rules("default").rules
    if facts.light is not None:
        own = base.rules.get("facade", {**default["facade"], "rooms": ()})
        more = (name for kind in facts.light for name in kind.names)
        found["facade"] = {**own, "rooms": tuple(dict.fromkeys((*own["rooms"], *more)))}
    # a wheelchair: wide doors, and space to turn
    if facts.accessible:
        own = base.rules.get("doors", default["doors"])["least"]
        wide = {
            name: max(_WIDE_DOOR, own.get(name, 0.0)) for name in {*own, *default["doors"]["least"]}
        }
        found["doors"] = {"least": wide}
        found["turning"] = {"across": _TURNING, "every": ("Entrance", HALL), "some": ("Bathroom",)}
    return found


@dataclass(frozen=True)
class PlanSearch:
    """Search for the best ``num`` plans of diagrams of a model; see ``make_plans`` for the
    arguments. ``ruled_out``: diagrams of which no plan keeps all rules, as the solver shows."""

    model: Any
    request: PlanRequest
    num: int
    candidates: int | None = None
    brief: Mapping[str, Any] | str | Brief | None = None
    num_rooms: int | None = None
    strict: bool = True
    threads: int = 1
    ruled_out: list[BubbleDiagram] = field(default_factory=list)

    def diagrams(self, seed: int) -> list[BubbleDiagram]:
        """Sample distinct diagrams from the model."""
        # check numbers before sampling
        candidates = 2 * self.num if self.candidates is None else self.candidates
        if self.num < 1:
            raise ValueError(f"num={self.num}: expected at least 1")
        if candidates < self.num:
            raise ValueError(f"candidates={candidates}: expected at least num={self.num}")
        # sample, and drop duplicates
        asked = {"brief": self.brief, "num_rooms": self.num_rooms}
        chosen = {name: value for name, value in asked.items() if value is not None}
        token = SOLVER_HAS_FACTS.set(True)  # no warning of facts that the model does not know
        try:
            drawn = self.model.sample(candidates, seed=seed, **chosen)
        finally:
            SOLVER_HAS_FACTS.reset(token)
        return list({(each.rooms, each.relations): each for each in drawn}.values())

    def jobs(self) -> tuple[list[Job], list[DiagramError]]:
        """Return ``possible_jobs`` of the first diagrams."""
        return possible_jobs(self.request, self.diagrams(self.request.seed))

    def tried(
        self, jobs: Sequence[Job], stop_asked: StopAsked = lambda: False
    ) -> Iterator[MadePlan | None]:
        """Yield a plan for every diagram that is tried, None where none is found: of the ``jobs``,
        and if ``strict``, while plans break rules and fewer than ``num`` keep them, of other
        diagrams, sampled with a seed of its own in each of the ``ROUNDS``."""
        tried: set[Any] = set()
        kept, broken, first = 0, False, self.request.seed
        for seed in range(first, first + ROUNDS):
            if seed > first:
                if not self.strict or not broken or kept >= self.num:
                    return
                # other diagrams
                tried |= {(job.diagram.rooms, job.diagram.relations) for job in jobs}
                try:
                    drawn = self.diagrams(seed)
                    new = [each for each in drawn if (each.rooms, each.relations) not in tried]
                    jobs = possible_jobs(self.request, new)[0] if new else []
                except ValueError:
                    return  # the brief or the areas allow no others
            # plans of these
            asked = [replace(job, strict=self.strict) for job in jobs]
            plans = realise_all(asked, threads=self.threads, stop_asked=stop_asked)
            with closing(plans) as found_plans:
                for job, any_order in zip(jobs, found_plans, strict=True):
                    if stop_asked() and not any_order.plans:
                        return  # this search was given up
                    found, scores = ranked_variants(any_order)
                    made = MadePlan(job, found, scores[0]) if found.plans else None
                    if made is None and found.excluded:
                        broken = True
                        self.ruled_out.append(job.diagram)
                    yield made
                    if stop_asked():
                        return
                    if made is not None:
                        broken, kept = broken or bool(made.broken), kept + (not made.broken)

    def best(self, made: Iterable[MadePlan]) -> list[MadePlan]:
        """Return the best ``num`` plans, best first; if ``strict``, of those that keep all
        rules."""
        return ranked(each for each in made if not (self.strict and each.broken))[: self.num]


def ranked(made: Iterable[MadePlan]) -> list[MadePlan]:
    """Sort plans, best first."""
    return sorted(made, key=lambda each: rank_key(each.given_up, each.scores))


def possible_jobs(
    request: PlanRequest, diagrams: Sequence[BubbleDiagram]
) -> tuple[list[Job], list[DiagramError]]:
    """Return jobs of the diagrams whose rooms fit the request, and errors of the other diagrams.

    Raises ``ValueError`` if no job remains.
    """
    jobs: list[Job] = []
    left_out: list[DiagramError] = []
    for number, diagram in enumerate(diagrams, start=1):
        try:
            jobs.append(request.job(number, diagram))
        except DiagramError as error:
            left_out.append(error)
    if not jobs:
        raise ValueError(
            f"no plan is possible of {counted(len(left_out), 'different diagram')}; of the first: "
            f"{left_out[0]}"
        )
    return jobs, left_out


def rules_of(given_up: Iterable[Shortfall]) -> tuple[str, ...]:
    """Names of the rules broken in the shortfalls, without repetition."""
    return tuple(dict.fromkeys(each.rule for each in given_up if each.rule))


def no_plan_reason(num_diagrams: int, broken: Sequence[Sequence[str]]) -> str:
    """Return a sentence why no plan is left; ``broken``: the rules that each plan breaks."""
    if not broken:
        return f"no plan was found of {counted(num_diagrams, 'different diagram')}"
    return f"{counted(len(broken), 'plan')} found, and each breaks a rule: {_rule_counts(broken)}"


def _rule_counts(broken: Iterable[Sequence[str]]) -> str:
    """Text such as ``entry by 2, airy by 1``."""
    counts = Counter(rule for rules in broken for rule in rules)
    return ", ".join(f"{rule} by {num}" for rule, num in counts.most_common())


def run_make(options: argparse.Namespace) -> None:
    """Sample diagrams, find a plan of each until a signal ends the search, write the best.

    Plans that ``strict`` withholds are written into a folder of their own. Raises ``ValueError``
    for wrong options, and if no plan is left.
    """
    # check options before sampling
    files, threads = checked_files(options, {"brief": options.brief}, also=(WITHHELD,))
    (request, brief), began = with_brief(request_of(options), options.brief), time.perf_counter()
    model, num, candidates = options.load(options.checkpoint), options.num, options.candidates
    rooms, strict = options.num_rooms, options.strict == "true"
    search = PlanSearch(model, request, num, candidates, brief, rooms, strict, threads)
    jobs, left_out = search.jobs()
    if left_out:
        print(
            f"{counted(len(left_out), 'different diagram')} left out; of the first: {left_out[0]}"
        )
    # search for plans until enough diagrams are tried, or a signal asks to stop
    with StopSignals() as signals:
        signals.promise, signals.finish_step = "writing the best plans that are found", True
        tried = list(search.tried(jobs, is_stopping))
        made = [each for each in tried if each is not None]
        stopped = signals.received
        if stopped is not None and not made:
            raise Stop(stopped, where=signals.where)

    def write(files: PlanFiles, plans: Sequence[MadePlan]) -> str:
        found = [each.found for each in plans]
        _, said = files.write_found([each.job for each in plans], found, began=began)
        return said

    # write the best, and in a folder of their own the plans that break rules
    if best := search.best(made):
        said = write(files, best)
        print(f"the best {counted(len(best), 'plan')} of ", end="")
        print(f"{counted(len(tried), 'different diagram')}, best first\n{said}")
    broken = [each for each in made if each.broken] if strict else []
    apart = replace(files, folder=files.folder / WITHHELD)
    earlier = [] if best else [*files.left, *(files.folder / name for name in files.names)]
    if broken:
        write(apart, ranked(broken))
        print(
            f"{counted(len(broken), 'plan')} withheld, for broken rules: "
            f"{_rule_counts(each.broken for each in broken)}; {apart.folder} has them; "
            "strict=false ranks them too"
        )
    if ruled_out := search.ruled_out:
        print(
            f"{counted(len(ruled_out), 'different diagram')} left out, of which no plan keeps all "
            "rules in this outline, as the solver shows; strict=false plans them too"
        )
    # what an earlier call wrote, and this one did not
    earlier += apart.left if broken else [apart.folder]
    if earlier := [path for path in earlier if path.exists()]:
        print(f"left as they were, of earlier plans: {', '.join(map(str, earlier))}")
    if stopped is not None:
        if not best:
            print("stopped before any plan kept all rules")
        raise SystemExit(128 + stopped)
    if not best:
        why = no_plan_reason(len(tried), [each.broken for each in broken])
        raise ValueError(f"{why}; raise candidates, or request less")
