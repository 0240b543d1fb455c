"""``evaluate brief=FILE``: compare the answers of a model with the data that meet the brief."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discrete_diffusion.config import counted
from discrete_diffusion.evaluation import (
    Evaluation,
    RealVsReal,
    TableRow,
    TableSection,
    checkpoint_facts,
    sample_fresh,
    sampling_facts,
)
from discrete_diffusion.sampling import FirstHitting
from floor_plans.briefs.answering import Answer, BriefRequest
from floor_plans.briefs.brief_request import load_brief, stated_condition
from floor_plans.briefs.method_scores import Matches, MethodScores, method_sections
from floor_plans.briefs.particles import soft_guidance
from floor_plans.diagrams.files.graph_formats import write_diagrams
from floor_plans.diagrams.metrics.diagrams import coverage_by_others
from floor_plans.diagrams.pictures.diagram_pictures import MAX_DRAWN, plot_grid
from floor_plans.diagrams.pictures.statistics import plot_samples
from floor_plans.diagrams.tokens import decode
from floor_plans.diagrams.vocabulary import vocabulary_of_graph
from floor_plans.learning.build import real_data_for_model
from floor_plans.learning.evaluation import num_repeats, real_floors

if TYPE_CHECKING:
    from discrete_diffusion.evaluation import EvaluateRequest, TrainedModel
    from discrete_diffusion.layout import VocabConfig
    from floor_plans.briefs.brief import Brief
    from floor_plans.briefs.particles import SoftGuidance

logger = logging.getLogger(__name__)

NUM_SAMPLES = 256  # default of ``num_samples``
LOOKAHEAD_POWER = 1.0  # default of ``lookahead_power``

_ELSEWHERE = (
    "num_seeds",
    "num_solver_checks",
    "noise_samples",
    "time_bins",
    "likelihood_order",
    "num_orders",
)
"""Keys that measure samples without a brief, or the model itself."""

_OF_BRIEFS = ("method", "particles", "max_tries", "rejection_calls", "lookahead_power")
_SOFT = (0, 7)  # entropy of soft guidance, distinct from that of the other methods


@dataclass(frozen=True)
class BriefEvaluation(Evaluation):
    """Result of ``evaluate brief=FILE``.

    ``methods``: scores, the requested method first. ``by_held_out``: coverage of the matching
    training data by as many held-out diagrams; None if there are too few.
    """

    facts: dict[str, Any]
    brief: Brief
    matches: Matches
    methods: list[MethodScores]
    by_held_out: float | None

    def sections(self) -> list[TableSection]:
        # probability of the brief: by each method, then in the data
        rows = []
        for method in self.methods:
            if cell := method.probability_cell():
                shown = ""
                if "num_drawn" in method.facts and method is not self.methods[0]:
                    shown = f"{method.num_met:,} of {method.facts['num_drawn']:,}"
                name = f"the model, by {method.name}"
                rows.append(TableRow(name, cell, shown, meaning="± standard error"))
        # share of the data that meets the brief
        held_out, train = self.matches.held_out, self.matches.train
        for of in ([] if train is None else [train]) + [held_out]:
            cell, shown = f"{of.share:.2g} ± {of.standard_error:.1g}", f"{len(of):,} of {of.num:,}"
            rows.append(TableRow(of.name, cell, shown, meaning="± standard error"))
        heads = ("of", "share that meets the brief", "diagrams")
        return [
            TableSection("how rare the brief is", tuple(rows), heads),
            *method_sections(self.methods, self.matches, self.by_held_out),
        ]

    def notes(self) -> list[str]:
        # the brief, and the data that meet it
        notes = [f"Brief: {self.facts['brief']}.", *self.matches.notes()]
        if self.brief.buildable:
            notes.append("buildable was required of samples, not of data, which come from plans.")
        if stated := self.facts["told"]:
            notes.append(
                f"The model was conditioned on: {', '.join(stated)}. Its share that meets the "
                "brief is of what it draws then."
            )
        if unseen := self.brief.plan_facts.names:
            notes.append(f"No diagram shows {', '.join(unseen)}: the data have any value of it.")
        # notes on each method, then on what it is compared with
        asked = self.facts["num_samples"]
        for method in self.methods:
            notes += method.notes(asked)
        notes += self.facts["left_out"]
        # coverage and floors need data
        if (reference := self.matches.reference) is None:
            return notes
        notes.append(
            "Coverage counts whole diagrams, up to the order of their rooms, weighted by their "
            "frequency in the data. Under 'real data' stands its ceiling: the coverage of as many "
            "diagrams drawn from these data; for the ratio, that of as many held-out ones."
        )
        if (floors := self.methods[0].floors) is not None:
            sizes = (floors.num_samples, floors.num_reference)
            notes.append(
                f"Floor, under 'real data': {sizes[0]:,} real diagrams that meet the brief against "
                f"{sizes[1]:,} others, mean of {floors.draws} draws; in brackets: value / floor of "
                "as many."
            )
            if sizes != (len(self.methods[0].diagrams), len(reference)):
                notes.append(
                    "Too few real diagrams meet the brief for a floor at the sizes measured: a "
                    "smaller set has a higher floor, so the ratios flatter the samples."
                )
        return notes

    def metrics(self) -> dict[str, Any]:
        """Values for ``metrics.json``: single numbers before lists and tables."""
        train, reference = self.matches.train, self.matches.reference
        return {
            **self.facts,
            "reference": None if reference is None else reference.name,
            "num_reference": 0 if reference is None else len(reference),
            "coverage_train_by_held_out": self.by_held_out,
            "data": {
                "train": None if train is None else train.facts(),
                "held_out": self.matches.held_out.facts(),
            },
            "methods": {method.name: method.as_dict() for method in self.methods},
        }

    def save(self, folder: Path) -> None:
        """Write the samples of the requested method."""
        write_diagrams(folder / "samples.jsonl", self.methods[0].diagrams)

    def plot(self, folder: Path) -> None:
        drawn, reference = self.methods[0].diagrams, self.matches.reference
        plot_grid(drawn[:MAX_DRAWN], folder / "samples.png")
        if reference is not None:
            plot_samples(drawn, reference.diagrams, folder)


def refuse_options(request: EvaluateRequest) -> None:
    """Raise ``ValueError`` for options of briefs without a brief, or for options that exclude a
    brief with a brief."""
    # without a brief: options of briefs
    unused, why = list(_OF_BRIEFS), "is for brief=FILE; leave it out"
    # with a brief: options that measure samples without one
    if request.brief is not None:
        unused = [] if request.quick else list(_ELSEWHERE)
        why = "does not go with brief=, which measures samples of one seed; leave it out"
        for key, value in request.data.items():
            raise ValueError(f"data.{key!s}={value} does not go with brief=; leave one of them out")
    for key in unused:
        if request[key] is not None:
            raise ValueError(f"{key}={request[key]} {why}")


def evaluate_brief(
    request: EvaluateRequest, trained: TrainedModel, vocab: VocabConfig
) -> BriefEvaluation:
    """Answer ``brief`` as ``sample`` does, by plain rejection and by soft guidance, and compare all
    answers with the data that meet it; see docs/floor_plans/briefs.md."""
    start = time.perf_counter()
    # read the brief and the data that meet it
    brief, words = load_brief(request, vocab), vocabulary_of_graph(vocab)
    condition, stated = stated_condition(brief, trained, vocab)
    trained.check_weights()
    real = real_data_for_model(request, trained, vocab)
    assert real.on is not None
    matches = Matches.of(brief, real, words)
    num = NUM_SAMPLES if request.num_samples is None else int(request.num_samples)
    # sample by every method
    with trained.sharing() as shard:
        model = replace(trained.model(shard), on_sampled=None, shared_conditions=condition)
        asked = BriefRequest(request, trained, model, vocab, brief, shard, num)
        answers, left_out = _answers(request, asked)
        verdicts = {name: asked.meets(answer.diagrams) for name, answer in answers.items()}

    # score each answer, with floors of real data sets of the same size
    def floors_of(size: int) -> RealVsReal | None:
        if not size or matches.reference is None or len(matches.known) < 2:
            return None
        known, num_reference = matches.known.measured, len(matches.reference)
        return real_floors(known, size, num_reference, num_repeats(request), request.seed)

    floors = {size: floors_of(size) for size in {len(a.diagrams) for a in answers.values()}}
    scores = [
        MethodScores.of(name, answer, verdicts[name], matches, words, floors[len(answer.diagrams)])
        for name, answer in answers.items()
    ]
    # coverage of the training data by held-out data, as a yardstick
    by_held_out, train, size = None, matches.train, len(scores[0].diagrams)
    if (
        train is not None
        and len(train)
        and real.on.split != "train"
        and len(matches.held_out) >= size
    ):
        by_held_out = coverage_by_others(matches.held_out.measured, train.measured, size)
    facts = {
        **checkpoint_facts(request, trained, real.on.data),
        **sampling_facts(request, trained),
        "brief": str(request.brief),
        "num_held_out": len(real.reference),
        "num_held_out_available": real.num_available,
        "num_samples": num,
        "method": scores[0].name,
        **{key: scores[0].facts[key] for key in ("exact", "approximate_because")},
        "told": stated,
        "left_out": left_out,
        "seconds": time.perf_counter() - start,
    }
    return BriefEvaluation(facts, brief, matches, scores, by_held_out)


def _answers(request: EvaluateRequest, asked: BriefRequest) -> tuple[dict[str, Answer], list[str]]:
    """Return the answers by method, the requested method first, and sentences on methods that are
    left out."""
    soft, left_out = None, []
    if isinstance(asked.trained.sampler, FirstHitting):
        power = LOOKAHEAD_POWER if request.lookahead_power is None else request.lookahead_power
        soft = soft_guidance(asked.trained.sampler, asked.constraint, power)
    else:
        left_out.append(
            "soft_guidance is left out: it draws tokens one by one, and the sampler "
            f"{asked.trained.sampler.name} does not."
        )
    method = request.method or asked.chosen()
    logger.info("drawing %s by %s", counted(asked.num, "diagram"), method)
    if method == "rejection":
        answers = {method: asked.answer_by_rejection()}
    else:
        answers = {method: (answer := asked.answer_by_particles())}
        # plain rejection for comparison, with the network calls that the particles took
        calls = answer.facts["network_calls_per_sample"] * len(answer.diagrams)
        most = round(calls) if request.rejection_calls is None else request.rejection_calls
        if most:
            logger.info("drawing as many by rejection, with at most %s network calls", f"{most:,}")
            plain = asked.answer_by_rejection(most)
            answers["rejection"] = replace(plain, facts={**plain.facts, "rejection_calls": most})
        else:
            left_out.append("rejection is left out: rejection_calls=0.")
    if soft is not None:
        logger.info("drawing as many by soft guidance")
        answers["soft_guidance"] = _answer_by_soft_guidance(asked, soft)
    return answers, left_out


def _answer_by_soft_guidance(asked: BriefRequest, sampler: SoftGuidance) -> Answer:
    """Sample ``num`` diagrams of sizes that the brief allows; some may break the brief."""
    # as many samples as requested, none rejected
    drawn = sample_fresh(
        asked.trained,
        replace(asked.model, sampler=sampler, steps=None),
        asked.num,
        entropy=(asked.request.seed, *_SOFT),
        size=asked.sizes,
    )
    facts = {
        "exact": False,
        "approximate_because": f"every token is tilted by h^{sampler.lookahead_power:g}, with no "
        "weights; sizes come as in the training data among the brief's",
        "gamma": sampler.lookahead_power,
        "doubt": sampler.doubt,
        "network_calls_per_sample": drawn.network_calls,
    }
    return Answer(decode(drawn.tokens, asked.vocab), facts)
