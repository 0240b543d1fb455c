"""Three ways to samples that have a floor plan, beside plain samples.

    python benchmarks/buildable.py NAME=CHECKPOINT ... [--num 400] [--seed 0] [--ways WAY ...]

Writes ``benchmarks/results/buildable.json`` and tables of the docs. The reference is what the
checkpoint held out, at most 1,000 plans, of which those count that the same verdict finds
buildable; floors are of such plans against others, at the same sizes. Checkpoints and ways that are
not named keep what the results hold.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from discrete_diffusion.cli import compose
from discrete_diffusion.cli.sample import choose_devices, opened_model, request_of
from discrete_diffusion.data import CACHE_VARIABLE
from discrete_diffusion.domains import domain_of
from discrete_diffusion.domains.registry import evaluate_request_of
from discrete_diffusion.evaluation import EvaluateRequest, TrainedModel, sample_fresh
from discrete_diffusion.runtime import Shard
from floor_plans import BubbleDiagram, decode
from floor_plans.diagrams.metrics.diagram_set import DiagramSet
from floor_plans.diagrams.metrics.diagrams import (
    coverage_metrics,
    relation_distance,
    total_variation,
)
from floor_plans.diagrams.vocabulary import NO_EDGE
from floor_plans.learning.build import real_data_for_model
from floor_plans.learning.sampling import Way
from floor_plans.plans.buildable import EFFORT, DrawnDiagram, keep_buildable
from floor_plans.plans.verdict import have_plans
from record import Part, Record, Sections, command_line, earlier, markdown_table, percent, publish

REFERENCE, REFERENCE_REPEATS = 1000, 20
WAYS = {
    "plain": "plain",
    "rejection": "`true`",
    "narrowing": "`narrowing`",
    "lookahead": "`lookahead`",
}

Scores = dict[str, float]


@contextmanager
def no_kept_verdicts() -> Iterator[None]:
    """Every diagram is decided anew, so that the time is that of a first time."""
    kept = os.environ.get(CACHE_VARIABLE)
    with tempfile.TemporaryDirectory() as folder:
        os.environ[CACHE_VARIABLE] = folder
        try:
            yield
        finally:
            os.environ.pop(CACHE_VARIABLE)
            if kept is not None:
                os.environ[CACHE_VARIABLE] = kept


def buildable(diagrams: Sequence[BubbleDiagram]) -> list[BubbleDiagram]:
    answers = have_plans(diagrams, effort=EFFORT, threads=torch.get_num_threads())
    return [diagram for diagram, answer in zip(diagrams, answers, strict=True) if answer]


def distances(samples: Sequence[BubbleDiagram], reference: DiagramSet) -> Scores:
    drawn = DiagramSet.of(samples)
    return {
        "relation_tv": relation_distance(drawn, reference)["relation_tv"],
        "coverage": coverage_metrics(drawn, reference)["mode_coverage_weighted"],
    }


def weighted_relation_tv(
    samples: Sequence[BubbleDiagram], log_weights: torch.Tensor, reference: DiagramSet
) -> float:
    """The distance of the samples as their weights count them."""
    counts = np.stack([DiagramSet([d]).pair_histogram[:, :, :NO_EDGE].sum((0, 1)) for d in samples])
    pooled = (counts * log_weights.exp().numpy()[:, None]).sum(0)
    return float(total_variation(pooled, reference.pair_histogram[:, :, :NO_EDGE].sum((0, 1))))


def floors(known: Sequence[BubbleDiagram], num: int, num_reference: int) -> Scores:
    """What real plans score against others of their kind, mean over draws."""
    measured, found = DiagramSet(known).prepare(), []
    for draw in range(REFERENCE_REPEATS):
        order = np.random.default_rng([0, draw]).permutation(len(measured))
        ours, theirs = np.split(order[: num + num_reference], [num])
        found.append(distances(measured.select(ours), measured.select(theirs)))
    return {name: float(np.mean([each[name] for each in found])) for name in found[0]}


class Drawing:
    """Samples of a model by each way, with what they took."""

    def __init__(self, trained: TrainedModel, num: int, seed: int) -> None:
        self.trained, self.num, self.seed = trained, num, seed
        self.vocab = trained.domain.vocabulary(trained.data_config)
        self.drawing_seconds = 0.0
        self.plain: list[BubbleDiagram] = []

    def by(self, name: str) -> tuple[list[BubbleDiagram], torch.Tensor, Scores]:
        """Diagrams, their log weights, and what they took."""
        way = Way(name, self.vocab)
        start, self.drawing_seconds = time.process_time(), 0.0
        if name == "lookahead":
            drawn = self._draw(way, 0, self.num)
            found, work = [each.diagram for each in drawn], way.work(Shard())
            calls = sum(each.network_calls for each in drawn) / self.num
            facts = {
                "network_calls": calls,
                "network_seconds": (self.drawing_seconds - work.solver_seconds) / self.num,
                "solver_seconds": work.solver_seconds / self.num,
                "refused": work.num_refused / work.num_asked,
                "undecided": work.num_undecided,
            }
        else:
            kept = keep_buildable(lambda turn, num: self._draw(way, turn, num), self.num)
            drawn = kept.samples
            found = [each.diagram for each in drawn]
            deciding = time.process_time() - start - self.drawing_seconds
            facts = {
                "acceptance": kept.acceptance,
                "network_calls": kept.facts["network_calls_per_sample"],
                "network_seconds": self.drawing_seconds / self.num,
                "solver_seconds": deciding / self.num,
                "undecided": kept.num_undecided,
            }
        log_weights = torch.tensor([each.log_weight for each in drawn], dtype=torch.float64)
        weights = way.facts(log_weights, way.work(Shard())) if way.weighs else {}
        names = ("mean_weight", "effective_samples")
        return found, log_weights, facts | {key: weights[key] for key in names if key in weights}

    def _draw(self, way: Way, turn: int, num: int) -> list[DrawnDiagram]:
        start = time.process_time()
        model = way.apply_to(self.trained.model(Shard()))
        entropy = (self.seed, turn) if turn else (self.seed,)
        drawn = sample_fresh(self.trained, model, num, entropy=entropy)
        self.drawing_seconds += time.process_time() - start
        diagrams = decode(drawn.tokens, self.vocab)
        if way.name == "rejection" and turn == 0:
            self.plain = diagrams
            self.plain_facts = {
                "network_calls": drawn.network_calls,
                "network_seconds": self.drawing_seconds / num,
                "solver_seconds": 0.0,
            }
        numbers = (drawn.nfe.tolist(), drawn.log_weights.tolist())
        return [DrawnDiagram(*each) for each in zip(diagrams, *numbers, strict=True)]


def measured(checkpoint: str, num: int, seed: int, ways: Sequence[str]) -> dict[str, Any]:
    """The ways, and what they are measured against."""
    config = compose("evaluate", [f"checkpoint={checkpoint}", "threads=1"])
    request = request_of(EvaluateRequest, config)
    trained = opened_model(config, request, choose_devices(config))
    request = evaluate_request_of(domain_of(trained.data_config), request, trained.path)
    real = real_data_for_model(request, trained, trained.domain.vocabulary(trained.data_config))
    held_out = real.reference[: REFERENCE + num]
    enough = len(held_out) == REFERENCE + num
    fit = buildable(held_out)
    reference = DiagramSet(fit[:REFERENCE])
    known = fit if enough else buildable(real.known)
    found: dict[str, Any] = {
        "num_held_out": len(held_out),
        "held_out_buildable": len(fit) / len(held_out),
        "num_reference": len(reference),
        "floors": floors(known, num, len(reference)),
        "ways": {},
    }
    drawing = Drawing(trained, num, seed)
    for name in ways:
        with no_kept_verdicts():
            samples, log_weights, facts = drawing.by(name)
        if name == "rejection":
            found["ways"]["plain"] = scored(drawing.plain, reference) | drawing.plain_facts
        scores = scored(samples, reference) | facts
        if name != "rejection":
            scores["relation_tv_weighted"] = weighted_relation_tv(samples, log_weights, reference)
        found["ways"][name] = scores
    return found


def scored(samples: Sequence[BubbleDiagram], reference: DiagramSet) -> Scores:
    drawn = DiagramSet(samples)
    transitive = drawn.horizontally_transitive & drawn.vertically_transitive
    return {
        "num_samples": len(drawn),
        "buildable": len(buildable(samples)) / len(drawn),
        "transitive": float(transitive.mean()),
        **distances(drawn, reference),
    }


def table(found: Mapping[str, Any]) -> str:
    """A row per way; distances beside their floors."""
    heads = ["`buildable=`", "buildable", "transitive", "kept of all drawn"]
    heads += ["network calls", "CPU-s, network", "CPU-s, solver"]
    heads += ["relation TV (ratio to floor)", "weighted", "coverage", "effective samples"]
    floor, rows = found["floors"], []
    for name, scores in found["ways"].items():
        shown = WAYS[name]
        kept, weighted = scores.get("acceptance"), scores.get("relation_tv_weighted")
        effective = scores.get("effective_samples")
        rows.append(
            [
                shown,
                percent(scores["buildable"]),
                percent(scores["transitive"]),
                "" if kept is None else percent(kept),
                f"{scores['network_calls']:.1f}",
                f"{scores['network_seconds']:.2f}",
                f"{scores['solver_seconds']:.2f}",
                f"{scores['relation_tv']:.4f} ({scores['relation_tv'] / floor['relation_tv']:.2f})",
                "" if weighted is None else f"{weighted:.4f}",
                percent(scores["coverage"]),
                "" if effective is None else f"{effective:.0f} of {scores['num_samples']:,}",
            ]
        )
    shares = [percent(found["held_out_buildable"]), *[""] * 5]
    distance = [f"{floor['relation_tv']:.4f}", "", percent(floor["coverage"]), ""]
    rows.append(["held-out plans, floors", *shares, *distance])
    return markdown_table(heads, rows)


def sections(record: Record) -> Sections:
    return {
        (Part.PLANS, f"buildable {name}"): table(found) for name, found in record.results.items()
    }


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("checkpoints", nargs="+", metavar="NAME=CHECKPOINT")
    parser.add_argument("--num", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    ways = ["rejection", "narrowing", "lookahead"]
    parser.add_argument("--ways", nargs="+", choices=ways, default=ways)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    for word in arguments.checkpoints:
        name, _, checkpoint = word.partition("=")
        command = f"python benchmarks/buildable.py {name}=CHECKPOINT --num {arguments.num}"
        command += f" --seed {arguments.seed}"
        new = measured(checkpoint, arguments.num, arguments.seed, arguments.ways)
        results = earlier("buildable")
        former = results.get(name, {"command": ""})
        if former["command"] == command:
            both = former["ways"] | new["ways"]
            new["ways"] = {way: both[way] for way in WAYS if way in both}
        results[name] = new | {"command": command}
        publish(
            "buildable",
            command="python benchmarks/buildable.py NAME=CHECKPOINT ...",
            seed=arguments.seed,
            results=results,
        )


if __name__ == "__main__":
    main()
