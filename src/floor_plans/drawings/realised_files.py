"""``PlanFiles``: a folder of realised plans: ``plans.jsonl``, a picture, other formats, numbers."""

from __future__ import annotations

import json
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from statistics import median
from typing import Any

from discrete_diffusion import runtime
from discrete_diffusion.config import Later, counted, unknown_name
from discrete_diffusion.runtime import write_text
from floor_plans.drawings.drawn_parts import DrawingStyle
from floor_plans.drawings.drawn_plan import check_installed
from floor_plans.drawings.dxf import dxf_of
from floor_plans.drawings.houseganpp import houseganpp_of, rlvr_of
from floor_plans.drawings.ifc import ifc_of
from floor_plans.drawings.polygon_files import geojson_of
from floor_plans.plans.floor_plan import FloorPlan
from floor_plans.rules.finding import added_rooms, check_extents
from floor_plans.solver.realised import SCORES, Job, Realised, Scores, ranked_variants
from floor_plans.solver.spec import area_bounds

plan_pictures: Any = Later("floor_plans.drawings.plan_pictures")  # imports matplotlib

DEFAULT = DrawingStyle()


@dataclass(frozen=True)
class PlanFormat:
    """Format of a plan: end of a file's name, content of a plan's file; ``is_read``: also read."""

    suffix: str
    content_of: Callable[[FloorPlan, DrawingStyle], str | bytes]
    is_read: bool = True


FORMATS = {
    "dxf": PlanFormat(".dxf", dxf_of),
    "ifc": PlanFormat(".ifc", ifc_of, is_read=False),
    "pdf": PlanFormat(".pdf", lambda *plan: plan_pictures.pdf_sheet(*plan), is_read=False),
    "svg": PlanFormat(".svg", lambda *plan: plan_pictures.svg_sheet(*plan), is_read=False),
    "geojson": PlanFormat(".geojson", lambda plan, _: geojson_of(plan)),
    "houseganpp": PlanFormat(".houseganpp.json", lambda plan, _: houseganpp_of(plan)),
    "rlvr": PlanFormat(".rlvr.json", lambda plan, _: rlvr_of(plan)),
}
"""Formats by name. A file of any of them holds one plan."""


def write_plan(path: Path, plan: FloorPlan, format: str, style: DrawingStyle = DEFAULT) -> None:
    """Write one plan in one of ``FORMATS``, whole or not at all. Raises ``ValueError`` for an
    unknown format, for metadata that JSON cannot hold, for a room or door without a size, and
    without the extra ``plans`` (for IFC, ``ifc``)."""
    if format not in FORMATS:
        raise ValueError(f"format={format}: {unknown_name('format of plans', format, FORMATS)}")
    check_installed()
    check_extents(plan)
    content = FORMATS[format].content_of(plan, style)
    if isinstance(content, str):
        write_text(Path(path), content)
        return
    with runtime.atomic_write(Path(path)) as unfinished:
        unfinished.write_bytes(content)


logger = logging.getLogger(__name__)

PLANS, NUMBERS, WITHHELD = "plans.jsonl", "plans.json", "withheld"
"""Names of the file with a plan in each line, of the file with numbers on all plans, and of the
folder of plans that ``plans make`` withholds."""

TYPICAL = "typical areas"  # name of the areas of rooms without a requested area

_MOST_EXPLAINED = 3  # plans for which the command explains why they break rules

PROVED, EXCLUDED, NOT_FOUND = "proved impossible", "the rules exclude each other", "not found"
"""Verdicts of the solver on a rule that a plan breaks."""


@dataclass(frozen=True)
class PlanFiles:
    """Files to write into ``folder``. ``picture``: name of the picture; ``formats``: formats, each
    with a folder of its own; ``style``: style of drawings."""

    folder: Path
    picture: str = "plans.svg"
    formats: tuple[str, ...] = ()
    style: DrawingStyle = DEFAULT

    @property
    def names(self) -> list[str]:
        """Names of the files and folders."""
        return [PLANS, NUMBERS, self.picture, *self.formats]

    @property
    def left(self) -> list[Path]:
        """Existing folders of formats that are not in ``formats``; they keep earlier plans."""
        others = [self.folder / name for name in FORMATS if name not in self.formats]
        return [folder for folder in others if folder.is_dir()]

    def write_found(
        self,
        jobs: Sequence[Job],
        plans: Iterable[Realised],
        *,
        stop_asked: Callable[[], bool] = lambda: False,
        began: float | None = None,
    ) -> tuple[dict[str, Any], str]:
        """Write the plans as they are found for the jobs, and return numbers and their summary.
        ``plans.jsonl`` has a line for each job, or ``variants`` lines, best first; a diagram
        without a plan has "no_plan", the reason. After a request to stop, the plans found so far
        are written, and the numbers state how many were not tried. ``began``: clock at the start
        of the search, in seconds."""
        began = time.perf_counter() if began is None else began
        text = ""
        realised: list[Realised] = []
        scores: list[tuple[Scores, ...]] = []
        folder, picture = self.folder, self.folder / self.picture
        with runtime.ensured_folder(folder), runtime.note_of_complete_files(folder, self.names):
            # lines of plans as they are found
            with runtime.growing_file(folder / PLANS) as append:
                for job, any_order in zip(jobs, plans, strict=True):
                    if stop_asked() and not any_order.plans:
                        break  # the search was stopped
                    found, scored = ranked_variants(any_order)
                    append(lines := _lines_of_job(len(realised) + 1, job, found, scored))
                    realised.append(found)
                    scores.append(scored)
                    text += lines
                    if stop_asked():
                        break
                write_text(folder / PLANS, text)
            numbers = numbers_of_plans(realised) | {"seconds": time.perf_counter() - began}
            pairs = [pair for pair in zip(jobs, realised, strict=False) if pair[1].plans]
            if raised := sum(len(_rooms_at_least_area(*pair)) for pair in pairs):
                numbers["num_areas_at_least"] = raised
            if len(realised) < len(jobs):
                numbers["num_not_tried"] = len(jobs) - len(realised)
            write_text(folder / NUMBERS, json.dumps(numbers, indent=2) + "\n")
            # the picture of the diagrams with a plan
            shown = [(k, found.plans) for k, found in enumerate(realised, start=1) if found.plans]
            picture.unlink(missing_ok=True)  # of other plans
            if shown:
                of_shown = [scored for scored in scores if scored]
                plan_pictures.plot_realised(shown, of_shown, picture)
            # a folder for each format, and files by number of diagram: dxf/7.dxf, dxf/7-2.dxf
            for name in self.formats:
                say = partial(logger.info, "the earlier %s is now %s", folder / name)
                with runtime.atomic_folder(folder / name, replaced=say) as unfinished:
                    for number, of_job in shown:
                        for variant, plan in enumerate(of_job, start=1):
                            path = unfinished / f"{_stem(number, variant)}{FORMATS[name].suffix}"
                            write_plan(path, plan, name, self.style)
        return numbers, summary(numbers, self, [unmet_kinds(*pair) for pair in pairs])


def _lines_of_job(number: int, job: Job, found: Realised, scores: Sequence[Scores]) -> str:
    """JSON lines of a job's plans, or of its diagram with the reason that it has none."""
    if not found.plans:
        objects = [job.diagram.to_json() | {"no_plan": found.reason}]
        objects[0].pop(SCORES, None)  # of an earlier plan
    else:
        targets: dict[str, Any] = {"target_areas": [round(area, 2) for area in found.areas]}
        if smallest := _rooms_at_least_area(job, found):
            targets["at_least"] = smallest
        pairs = zip(found.plans, scores, strict=True)
        objects = [plan.to_json() | targets | {SCORES: each.to_json()} for plan, each in pairs]
        for each, shortfalls in zip(objects, found.shortfalls, strict=True):
            if shortfalls:
                each["given_up"] = [shortfall.to_json() for shortfall in shortfalls]
            if found.excluded:
                each["rules_excluded"] = True
            each |= found.explanation.to_json(found.names)
    return "".join(json.dumps(each | {"diagram": number}) + "\n" for each in objects)


def _rooms_at_least_area(job: Job, found: Realised) -> list[int]:
    """Rooms whose target area equals the minimum area set by the rules."""
    least = [low for low, _ in area_bounds(job.diagram.rooms, job.spec.rules)]
    pairs = enumerate(zip(found.areas, least, strict=True))
    return [room for room, (area, need) in pairs if area == need]


def numbers_of_plans(realised: Sequence[Realised]) -> dict[str, Any]:
    """Numbers on the plans found: their count, unmet requirements and errors."""
    plans = [found for found in realised if found.plans]
    # broken rules of each plan, by the name of its files; a diagram without a plan has none
    broken: list[dict[str, Any]] = []
    for number, of_diagram in enumerate(realised, start=1):
        if not of_diagram.plans:
            broken.append({"plan": f"{number}", "rules": {}})
        other = EXCLUDED if of_diagram.excluded else NOT_FOUND
        for variant, shortfalls in enumerate(of_diagram.shortfalls, start=1):
            unmet = [each for each in shortfalls if each.rule]
            if rules := {each.rule: PROVED if each.proved else other for each in unmet}:
                why = of_diagram.explanation.sentences(of_diagram.names)
                broken.append({"plan": _stem(number, variant), "rules": rules, "why": why})
    off = [found.plans[0].largest_area_error(found.areas) for found in plans]
    first = [found.plans[0] for found in plans]
    error = {"median": median(off) if off else None, "max": max(off, default=None)}
    dead = [plan.dead_area / plan.outline.area for plan in first]
    kinds = [{each.kind for each in found.given_up} for found in plans]
    return {
        "num_diagrams": len(realised),
        "num_with_plan": len(plans),
        "num_plans": sum(len(found.plans) for found in realised),
        "num_all_met": sum(not found.given_up for found in plans),
        "given_up": dict(sorted(Counter(chain(*kinds)).items())),
        "broken": broken,
        "num_with_hall": sum(bool(added_rooms(plan.diagram)) for plan in first),
        "reasons": dict(Counter(found.reason.split(":")[0] for found in realised if found.reason)),
        "largest_area_error": error,
        "overlap": max((plan.overlap for plan in first), default=None),
        "dead_area": median(dead) if dead else None,
    }


def unmet_kinds(job: Job, found: Realised) -> set[str]:
    """Kinds of requirements that some of a job's plans do not meet. Areas that nobody requested are
    not "areas" but ``TYPICAL``."""
    kinds = {each.kind for each in found.given_up}
    off = {room for each in found.given_up if each.demand == "areas" for room in each.rooms}
    if missed := off & job.spec.typical:
        kinds = (kinds if off - missed else kinds - {"areas"}) | {TYPICAL}
    return kinds


def broken_rules(numbers: dict[str, Any]) -> str:
    """Describe every plan that breaks a rule, and every diagram without a plan, in a line each."""
    named = []
    for each in numbers["broken"]:
        rules = [f"{rule} ({why})" for rule, why in each["rules"].items()]
        words = [", ".join(rules) or "none was found", *each.get("why", [])]
        named.append(f"plan {each['plan']}: {'; '.join(words)}")
    return "\n".join(named)


def _stem(number: int, variant: int) -> str:
    """Stem of a plan's files: the number of its diagram, and of its variant from the second on."""
    return f"{number}" if variant == 1 else f"{number}-{variant}"


def summary(numbers: dict[str, Any], files: PlanFiles, unmet: Sequence[set[str]]) -> str:
    """Summarise the plans found and the files written, in one or two sentences. ``unmet``: the
    ``unmet_kinds`` of each diagram with a plan."""
    num, found = numbers["num_diagrams"], numbers["num_with_plan"]
    text = f"{found:,} of {counted(num, 'diagram')} {'has' if 1 in (num, found) else 'have'} a plan"
    if found < num:
        text += " (" + ", ".join(f"{n:,}: {why}" for why, n in numbers["reasons"].items()) + ")"
    # what the plans meet and miss
    if found:
        met, dead = sum(kinds <= {TYPICAL} for kinds in unmet), numbers["dead_area"]
        text += f"; {met:,} {'meets' if met == 1 else 'meet'} all that was requested"
        counts = Counter(chain(*unmet))
        missed = counts.pop(TYPICAL, 0)
        if counts:
            named = (f"{what} {n:,}" for what, n in sorted(counts.items()))
            text += f" (not met: {', '.join(named)})"
        if missed:
            of = counted(missed, "diagram")
            text += f"; {TYPICAL} are missed by more than the tolerance for {of}"
        if halls := numbers["num_with_hall"]:
            text += f"; {counted(halls, 'plan')} {'has' if halls == 1 else 'have'} an added hall"
        text += f"; dead area {dead:.0%} of the outline (median)"
    # remarks on areas and on what was not tried
    if raised := numbers.get("num_areas_at_least"):
        text += f"; target areas of {counted(raised, 'room')} are the least that the rules need"
    if left := numbers.get("num_not_tried"):
        text += f"; stopped: {counted(left, 'more diagram')} not tried"
    text += f"; {numbers['seconds']:.1f} s; {files.folder / PLANS}"
    # why rules are broken, for the first plans
    explained = [each for each in numbers["broken"] if each.get("why")]
    for each in explained[:_MOST_EXPLAINED]:
        text += f"\nplan {each['plan']}: {'; '.join(each['why'])}"
    if len(explained) > _MOST_EXPLAINED:
        more = counted(len(explained) - _MOST_EXPLAINED, "more plan")
        text += f"\nwhy {more} cannot keep all rules: {NUMBERS}"
    if files.left:
        text += f"\nleft as they were, of earlier plans: {', '.join(map(str, files.left))}"
    return text
