"""``evaluate brief=FILE``: compare the answers of a model with the data that meet the brief."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from discrete_diffusion import evaluation
from discrete_diffusion.config import counted
from discrete_diffusion.evaluation import EvaluateRequest, Evaluation, TableRow, TableSection
from discrete_diffusion.layout import VocabConfig
from discrete_diffusion.runtime import progress
from discrete_diffusion.sampling import FirstHitting
from floor_plans.briefs.answering import Answer, BriefRequest
from floor_plans.briefs.brief import Brief
from floor_plans.briefs.brief_request import load_brief, stated_condition
from floor_plans.briefs.checking import exact_interval
from floor_plans.briefs.particles import SoftGuidance, steering_options
from floor_plans.diagrams.diagram import BubbleDiagram
from floor_plans.diagrams.files.graph_formats import write_diagrams
from floor_plans.diagrams.metrics.diagram_set import DiagramSet
from floor_plans.diagrams.metrics.diagrams import (
    DISTANCES,
    METRIC_MEANINGS,
    bubble_metrics,
    structure_metrics,
)
from floor_plans.diagrams.pictures.diagram_pictures import MAX_DRAWN, plot_grid
from floor_plans.diagrams.pictures.statistics import plot_samples
from floor_plans.diagrams.tokens import decode
from floor_plans.diagrams.vocabulary import vocabulary_of_graph
from floor_plans.learning.build import real_data_for_model
from floor_plans.learning.evaluation import num_repeats, real_floors

logger = logging.getLogger(__name__)

NUM_SAMPLES = 256  # default of ``num_samples``
LOOKAHEAD_POWER = 1.0  # default of ``lookahead_power``

ENOUGH = 100
"""Least number of matching held-out diagrams to serve as the reference; with fewer, distances are
mostly noise, and a note says so."""

_ELSEWHERE = (
    *("num_seeds", "num_solver_checks", "noise_samples", "time_bins"),
    *("likelihood_order", "num_orders"),
)
"""Keys that measure samples without a brief, or the model itself."""

_OF_BRIEFS = ("method", "particles", "max_tries", "rejection_calls", "lookahead_power")
_SOFT = (0, 7)  # entropy of soft guidance, distinct from that of the other methods

OF_SIZE = ("mode_coverage_weighted", "diversity")
"""Metrics that depend on the number of samples, with the value of real data as a floor."""

PROPERTIES = ("valid", "connected", "transitive", "inside_valid")
"""Properties of the samples in the table, as shares."""

SHOWN = tuple(name for name in DISTANCES if "_js" not in name and "unweighted" not in name)
"""Distances in the table; ``metrics.json`` has all."""


@dataclass(frozen=True)
class Matching:
    """Diagrams that meet a brief, out of ``num``; ``buildable`` is not checked. ``name``: name of
    the data in sentences."""

    name: str
    diagrams: list[BubbleDiagram]
    num: int

    @classmethod
    def of(cls, brief: Brief, name: str, data: Sequence[BubbleDiagram]) -> Matching:
        """Find the diagrams of the data that meet a brief."""
        looked_at = progress.track(data, f"looking at {name}", "diagrams")
        return cls(name, [each for each in looked_at if not brief.unmet(each)], len(data))

    def facts(self) -> dict[str, Any]:
        """Values for ``metrics.json``, with an exact 95 % interval of the share."""
        num_met = len(self.diagrams)
        return {
            "name": self.name,
            "num": self.num,
            "num_met": num_met,
            "share": num_met / self.num,
            "share_interval": list(exact_interval(num_met, self.num)),
        }


def reference_of(held_out: Matching, train: Matching | None) -> Matching | None:
    """Data that distances are measured from: held-out data if they have enough matches, else the
    data with more matches; None if no data meet the brief."""
    parts = [held_out, *([] if train is None or len(held_out.diagrams) >= ENOUGH else [train])]
    most = max(parts, key=lambda part: len(part.diagrams))
    return most if most.diagrams else None


def method_scores(
    answer: Answer, verdicts: Sequence[bool | None], reference: DiagramSet | None
) -> dict[str, Any]:
    """Numbers on the diagrams of one method; ``verdicts``: True for each that meets the brief."""
    num, num_met = len(answer.diagrams), sum(verdict is True for verdict in verdicts)
    calls = float(answer.facts["network_calls_per_sample"]) * max(num, 1)
    share = num_met / max(num, 1)
    # a method that keeps matches alone has no error
    is_sure = not num or (share == 1 and "probability" in answer.facts)
    drawn = DiagramSet(answer.diagrams, reference.vocabulary) if num and reference else None
    return {
        "num_samples": num,
        "num_met": num_met,
        "share_met": share,
        "share_met_standard_error": 0.0 if is_sure else evaluation.share_error(share, num),
        "distinct": len(DiagramSet(answer.diagrams).canonical_key_set) if num else 0,
        "network_calls": round(calls),
        "network_calls_per_met": calls / num_met if num_met else None,
        **answer.facts,
        "metrics": {} if drawn is None or reference is None else bubble_metrics(drawn, reference),
    }


@dataclass(frozen=True)
class BriefEvaluation(Evaluation):
    """Result of ``evaluate brief=FILE``.

    ``found``: values for ``metrics.json``, the requested method first. ``samples``: its diagrams.
    ``reference``: data that distances are measured from, empty without any.
    """

    found: dict[str, Any]
    brief: Brief
    samples: list[BubbleDiagram]
    reference: list[BubbleDiagram]

    def metrics(self) -> dict[str, Any]:
        return self.found

    def sections(self) -> list[TableSection]:
        # probability of the brief: by each method, then in the data
        methods, rows = self.found["methods"], []
        for k, (name, method) in enumerate(methods.items()):
            if (p := method.get("probability")) is not None:
                drawn = method.get("num_drawn")
                cell = f"{p:.2g} ± {method['probability_standard_error']:.1g}"
                cell = f"none of {drawn:,}" if p == 0 and drawn else cell
                shown = f"{method['num_met']:,} of {drawn:,}" if drawn and k else ""
                of = f"the model, by {name}"
                rows.append(TableRow(of, cell, shown, meaning="± standard error"))
        for of in filter(None, self.found["data"].values()):
            cell = f"{of['share']:.2g} ± {evaluation.share_error(of['share'], of['num']):.1g}"
            shown = f"{of['num_met']:,} of {of['num']:,}"
            rows.append(TableRow(of["name"], cell, shown, meaning="± standard error"))
        heads = ("of", "share that meets the brief", "diagrams")
        rare = TableSection("how rare the brief is", tuple(rows), heads)
        # what came back
        heads = ("metric", *(name.replace("_", " ") for name in methods), "real data")
        title = "what came back, and distances from the data that meet the brief (0 is best)"
        return [rare, TableSection(title, tuple(self._rows()), heads)]

    def _rows(self) -> Iterator[TableRow]:
        """Rows with a cell for each method, the requested one first, and one for real data."""
        methods = list(self.found["methods"].values())

        def row(name: str, cells: Iterator[str], real: str, meaning: str) -> TableRow:
            value, second, third, *others = [*cells, real, "", ""]
            return TableRow(name, value, second, third, meaning, others=tuple(others))

        def share_cell(m: dict[str, Any]) -> str:
            error = 100 * m["share_met_standard_error"] or None
            shown = evaluation.plus_minus(100 * m["share_met"], error, 1)
            return f"{shown} %" if m["num_samples"] else "-"

        def calls(m: dict[str, Any], key: str) -> str:
            return f"{m['network_calls'] / m[key]:,.0f}" if m[key] else "-"

        def metric_cell(m: dict[str, Any], key: str) -> str:
            if key not in m["metrics"]:
                return "-"
            # a distance with its ratio to the floor
            value, floor = m["metrics"][key], m.get("floors", {}).get(key, 0.0)
            ratio = f" ({value / floor:.1f})" if floor and key in DISTANCES else ""
            return f"{value:.{_digits(key)}f}{ratio}"

        # numbers and costs
        each = "network calls for each diagram"
        yield row("diagrams", (f"{m['num_samples']:,}" for m in methods), "", "that came back")
        yield row("share_met", map(share_cell, methods), "", "share that meets the brief")
        for key, num, meaning in (
            ("network_calls_per_sample", "num_samples", f"{each}, everything included"),
            ("network_calls_per_met", "num_met", f"{each} that meets the brief"),
        ):
            yield row(key, (calls(m, num) for m in methods), "", meaning)
        yield row("distinct", (f"{m['distinct']:,}" for m in methods), "", "different diagrams")
        # properties and distances, with floors where these depend on the size
        if methods[0]["metrics"]:
            floors = methods[0].get("floors", {})
            real = structure_metrics(self.reference)
            real |= {key: floors[key] for key in (*OF_SIZE, *SHOWN) if floors}
            for key in (*OF_SIZE, *PROPERTIES, *SHOWN):
                shown = f"{real[key]:.{_digits(key)}f}" if key in real else ""
                cells = (metric_cell(m, key) for m in methods)
                yield row(key, cells, shown, METRIC_MEANINGS[key])

    def notes(self) -> list[str]:
        # the brief, and the data that meet it
        found, data = self.found, [of for of in self.found["data"].values() if of is not None]
        counts = (f"{of['num_met']:,} of {of['num']:,} of {of['name']} meet it" for of in data)
        notes = [f"Brief: {found['brief']}.", f"In the data {'; '.join(counts)}."]
        num = len(self.reference)
        if not num:
            notes.append("No data meet the brief, so distances are not measured.")
        else:
            notes.append(f"Samples are compared with those of {found['reference']}.")
        if 0 < num < ENOUGH:
            notes.append(
                f"Only {counted(num, 'diagram')} of the data meet the brief: distances say little "
                "of so few; compare them with the floors."
            )
        if self.brief.buildable:
            notes.append("buildable was required of samples, not of data, which come from plans.")
        if stated := found["told"]:
            notes.append(
                f"The model was conditioned on: {', '.join(stated)}. Its share that meets the "
                "brief is of what it draws then."
            )
        if unseen := self.brief.plan_facts.names:
            notes.append(f"No diagram shows {', '.join(unseen)}: the data have any value of it.")
        # notes on each method
        for name, method in found["methods"].items():
            notes += self._notes_on(name.replace("_", " ").capitalize(), method)
        notes += found["left_out"]
        if sizes := next(iter(found["methods"].values())).get("floor_sizes"):
            notes.append(
                f"Floor, under 'real data': {sizes['num_samples']:,} real diagrams that meet the "
                f"brief against {sizes['num_reference']:,} others, mean of {sizes['draws']} draws; "
                "in brackets: value / floor of as many."
            )
        return notes

    def _notes_on(self, name: str, method: dict[str, Any]) -> Iterator[str]:
        """Yield sentences on exactness, and if a method stopped early or broke the brief."""
        num, asked, num_met = method["num_samples"], self.found["num_samples"], method["num_met"]
        yield (
            f"{name} draws from the model's own distribution given the brief."
            if method["exact"]
            else f"{name} is approximate: {method['approximate_because']}."
        )
        if num < asked:
            key = "rejection_calls" if "rejection_calls" in method else "max_tries"
            yield (
                f"{name} stopped with {counted(num, 'diagram')} of {asked:,}, after "
                f"{method['num_drawn']:,} samples and {method['network_calls']:,} network calls "
                f"(raise {key}= for more)."
            )
        if num_met < num:
            yield (
                f"{name}: {num - num_met:,} of {num:,} diagrams break the brief; they count in its "
                "distances."
            )

    def save(self, folder: Path) -> None:
        """Write the samples of the requested method."""
        write_diagrams(folder / "samples.jsonl", self.samples)

    def plot(self, folder: Path) -> None:
        plot_grid(self.samples[:MAX_DRAWN], folder / "samples.png")
        if self.reference:
            plot_samples(self.samples, self.reference, folder)


def _digits(name: str) -> int:
    return 5 if name.startswith("mmd_") else 4


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
    request: EvaluateRequest, trained: evaluation.TrainedModel, vocab: VocabConfig
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
    held_out, train = Matching.of(brief, real.name, real.reference), None
    if real.training is not None:
        train = Matching.of(brief, "the training data", real.training)
    reference = reference_of(held_out, train)
    num = NUM_SAMPLES if request.num_samples is None else int(request.num_samples)
    # sample by every method
    with trained.sharing() as shard:
        model = replace(trained.model(shard), on_sampled=None, shared_conditions=condition)
        asked = BriefRequest(request, trained, model, vocab, brief, shard, num)
        answers, left_out = _answers(request, asked)
        verdicts = {name: asked.meets(answer.diagrams) for name, answer in answers.items()}
    # score each answer, with floors of real data sets of the same size
    measured = None if reference is None else DiagramSet(reference.diagrams, words)
    methods = {
        name: method_scores(each, verdicts[name], measured) for name, each in answers.items()
    }
    known = Matching.of(brief, "all data", real.known).diagrams
    if measured is not None and len(known) >= 2:
        for size in {len(answer.diagrams) for answer in answers.values()} - {0}:
            floors = real_floors(
                DiagramSet(known, words), size, len(measured), num_repeats(request), request.seed
            )
            for name, answer in answers.items():
                if floors is not None and len(answer.diagrams) == size:
                    methods[name] |= floors.as_dict()
    # numbers, then tables
    name, first = next(iter(answers.items()))
    data = [] if reference is None else reference.diagrams
    found = {
        **evaluation.checkpoint_facts(request, trained, real.on.data),
        **evaluation.sampling_facts(request, trained),
        "brief": str(request.brief),
        "num_held_out": len(real.reference),
        "num_held_out_available": real.num_available,
        "num_samples": num,
        "method": name,
        **{key: first.facts[key] for key in ("exact", "approximate_because")},
        "told": stated,
        "left_out": left_out,
        "seconds": time.perf_counter() - start,
        "reference": None if reference is None else reference.name,
        "num_reference": len(data),
        "data": {"train": train and train.facts(), "held_out": held_out.facts()},
        "methods": methods,
    }
    return BriefEvaluation(found, brief, first.diagrams, data)


def _answers(request: EvaluateRequest, asked: BriefRequest) -> tuple[dict[str, Answer], list[str]]:
    """Return the answers by method, the requested method first, and sentences on methods that are
    left out."""
    left_out, sampler, soft = [], asked.trained.sampler, None
    if isinstance(sampler, FirstHitting):
        power = LOOKAHEAD_POWER if request.lookahead_power is None else request.lookahead_power
        options = steering_options(sampler)
        soft = SoftGuidance(constraint=asked.constraint, lookahead_power=power, **options)
    else:
        left_out.append(
            "soft_guidance is left out: it draws tokens one by one, and the sampler "
            f"{sampler.name} does not."
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
    # as many samples as requested, none rejected; some may break the brief
    if soft is not None:
        logger.info("drawing as many by soft guidance")
        model, entropy = replace(asked.model, sampler=soft, steps=None), (request.seed, *_SOFT)
        drawn = evaluation.sample_fresh(
            asked.trained, model, asked.num, entropy=entropy, size=asked.sizes
        )
        facts = {
            "exact": False,
            "approximate_because": f"every token is tilted by h^{soft.lookahead_power:g}, with no "
            "weights; sizes come as in the training data among the brief's",
            "gamma": soft.lookahead_power,
            "doubt": soft.doubt,
            "network_calls_per_sample": drawn.network_calls,
        }
        answers["soft_guidance"] = Answer(decode(drawn.tokens, asked.vocab), facts)
    return answers, left_out
