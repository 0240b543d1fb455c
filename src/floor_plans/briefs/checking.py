"""``brief check``: print what a brief means, if it can be met, and how many plans meet it."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace

from discrete_diffusion.layout import RPLAN_VOCAB_CONFIG
from discrete_diffusion.runtime import install_command, progress
from floor_plans.briefs.brief import Brief
from floor_plans.briefs.feasibility import Feasibility, feasibility, has_floor_plan
from floor_plans.briefs.reading import read_brief
from floor_plans.briefs.sentences import relation_words, rooms_in_words, sentences
from floor_plans.diagrams.diagram import BubbleDiagram
from floor_plans.diagrams.procedural.generator import embedded_plans
from floor_plans.diagrams.vocabulary import DIRECTIONS, PlanVocabulary, vocabulary_named
from floor_plans.drawings.readers import read_diagrams
from floor_plans.plans.box_model import is_installed
from floor_plans.plans.contradiction import room_names

_CONFIDENCE = 0.95

_NUM_DECIDED = 20  # most matching plans for which a floor plan is searched


def check_brief(options: argparse.Namespace) -> None:
    """Print the meaning of the brief in ``options.file``, and whether it can be met.

    Raises ``SystemExit`` if no diagram meets it.
    """
    if options.max_nodes < 1:
        raise ValueError(f"--max-nodes {options.max_nodes}: expected at least 1")
    vocabulary = vocabulary_named(options.relations)
    embedded = (
        options.plans is None
        and vocabulary is DIRECTIONS
        and options.max_nodes == RPLAN_VOCAB_CONFIG.n_max
    )
    brief = read_brief(options.file)
    brief.facts_with_plot(file=options.file)
    for sentence in sentences(brief):
        print(sentence)
    for request in brief.left_out:
        print(f"warning: left out, as a diagram does not say it: {request}")
    found = feasibility(brief, options.max_nodes, vocabulary)
    # plans to count matches in: those of --plans, or the embedded ones
    title, plans = "", list[BubbleDiagram]()
    if found.can_be_met is not False and options.plans not in (None, "none"):
        title = options.plans
        plans = list(read_diagrams(title, max_nodes=options.max_nodes, vocabulary=vocabulary))
    elif found.can_be_met is not False and embedded:
        title, plans = embedded_plans()
    looked_at = progress.track(plans, "looking at plans", "plans")
    met = [plan for plan in looked_at if not brief.unmet(plan)]
    # a real plan is a better example than the solver's
    if found.example is not None and met and not brief.buildable:
        found = replace(found, example=met[0])
    print(f"\n{brief_verdict(found, brief, options.max_nodes, vocabulary, options.file)}")
    if found.can_be_met is False:
        raise SystemExit(1)
    if title:
        print(brief_rarity(brief, met, len(plans), title))
    elif options.plans is None:
        print("how rare it is was not counted; --plans FILE: in the plans of a file")


def brief_verdict(
    found: Feasibility, brief: Brief, max_nodes: int, vocabulary: PlanVocabulary, file: str
) -> str:
    """Return sentences on whether a brief can be met, with a line per contradictory rule."""
    scope = f"diagram of at most {max_nodes} rooms with relations={vocabulary.name}"
    # undecided
    if found.can_be_met is None:
        if found.example is None and brief.buildable:
            return f"Whether any {scope} that can be built meets it was not decided."
        more = f"; {install_command('plans')} decides it"
        return (
            f"No contradiction was found; whether any {scope} meets it was not decided"
            f"{'' if is_installed() else more}."
        )
    # feasible
    if found.example is not None:
        diagram, names = found.example, room_names(found.example)
        said = [f"{names[i]} {relation_words([r])} {names[j]}" for i, j, r in diagram.relations]
        relations = f"\n  {', '.join(said)}" if said else ""
        return f"It can be met, as by this diagram:\n  {rooms_in_words(diagram)}{relations}"
    # infeasible: the contradictory rules with their places
    what = "this" if len(found.contradiction) == 1 else "these together"
    lines = [f"No {scope} meets {what}:"]
    for each in found.contradiction:
        line = f", line {each.line}" if each.line else ""
        lines.append(f"  {file}{line}, key '{each.key}': {each.text}")
    unsure = "" if found.is_irreducible else "  (perhaps not all of these are needed)\n"
    return "\n".join([*lines, f"{unsure}Leave one of them out, or change it."])


def brief_rarity(brief: Brief, met: Sequence[BubbleDiagram], num: int, title: str) -> str:
    """Return a sentence on the share of plans that meet a brief, with an exact interval.

    With ``buildable`` it also counts floor plans of the first matches.
    """
    # share with its confidence interval
    low, high = exact_interval(len(met), num)
    confidence = f"{100 * _CONFIDENCE:.0f} %"
    aside = ", buildable aside" if brief.buildable else ""
    if not met:
        return (
            f"{title}: none of {num:,} meets it{aside}; their share is at most {high:.2g}, "
            f"with {confidence} confidence"
        )
    text = (
        f"{title}: {len(met):,} of {num:,} meet it{aside}, a share of "
        f"{len(met) / num:.2g} ({confidence} interval {low:.2g} to {high:.2g})"
    )
    # floor plans of the first matches
    if brief.buildable and is_installed():
        first = met[:_NUM_DECIDED]
        built = sum(map(has_floor_plan, first))
        text += f"; of the first {len(first)} of them {built} have a floor plan"
        text += ", so that it can be met" if built else ""
    return text


def exact_interval(hits: int, num: int) -> tuple[float, float]:
    """Exact confidence interval of a share, for ``hits`` among ``num`` (Clopper and Pearson 1934);
    one-sided at 0 and ``num`` hits."""
    from scipy.special import betaincinv

    if num == 0:
        return 0.0, 1.0
    # quantiles of beta distributions; one-sided without hits or misses
    rest = 1 - _CONFIDENCE
    tail = rest if hits in (0, num) else rest / 2
    low = 0.0 if hits == 0 else float(betaincinv(hits, num - hits + 1, tail))
    high = 1.0 if hits == num else float(betaincinv(hits + 1, num - hits, 1 - tail))
    return low, high
