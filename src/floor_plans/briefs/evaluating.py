"""``evaluate brief=FILE``: compare the answers of a model with the data that meet the brief."""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from discrete_diffusion.config import counted
from discrete_diffusion.evaluation import (
    Floors,
    checkpoint_facts,
    metric_floors,
    sample_fresh,
    sampling_facts,
)
from discrete_diffusion.sampling import FirstHitting
from floor_plans.briefs.answering import Answer, BriefRequest
from floor_plans.briefs.brief_evaluation import BriefEvaluation
from floor_plans.briefs.brief_request import load_brief, softly_steered, stated_condition
from floor_plans.briefs.method_scores import Matches, MethodScores
from floor_plans.diagrams.metrics.diagrams import bubble_metrics, coverage_by_others
from floor_plans.diagrams.tokens import decode
from floor_plans.diagrams.vocabulary import vocabulary_of_graph
from floor_plans.learning.real_data import RealDiagrams, real_data_for_model

if TYPE_CHECKING:
    from discrete_diffusion.evaluation import EvaluateRequest, TrainedModel
    from discrete_diffusion.layout import VocabConfig
    from floor_plans.briefs.brief_request import SoftGuidance

logger = logging.getLogger(__name__)

NUM_SAMPLES = 256
"""Default of ``num_samples``."""

FLOOR_DRAWS = 20
"""Default of ``floor_draws``."""

GAMMA = 1.0
"""Default of ``gamma``."""

_ELSEWHERE = ("seeds", "verdicts", "bound_draws", "time_bins", "likelihood", "orders")
"""Keys that measure samples without a brief, or the model itself."""

_OF_BRIEFS = ("method", "particles", "tries", "rejection_calls", "gamma")

_SOFT = (0, 7)
"""Entropy of soft guidance, distinct from that of the other methods."""


def refuse_options(request: EvaluateRequest) -> None:
    """Refuse options of briefs in a request without a brief, and the reverse, by
    ``ValueError``."""
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
    answers with the data that meet it; see docs/briefs.md."""
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
        model = replace(trained.on(shard), on_sampled=None, shared_conditions=condition)
        asked = BriefRequest(request, trained, model, vocab, brief, shard, num)
        answers, left_out = _answers(request, asked)
        verdicts = {name: asked.meets(answer.diagrams) for name, answer in answers.items()}
    # score each answer, with floors of real data sets of the same size
    floors: dict[int, Floors | None] = {}
    scores = []
    for name, answer in answers.items():
        size = len(answer.diagrams)
        if size not in floors:
            floors[size] = _floors(request, matches, size)
        scores.append(MethodScores.of(name, answer, verdicts[name], matches, words, floors[size]))
    # coverage of the training data by held-out data, as a yardstick
    by_held_out, train = None, matches.train
    if train is not None and len(train) and real.on.split != "train":
        size = len(scores[0].diagrams)
        if len(matches.held_out) >= size:
            others = matches.held_out.measured
            by_held_out = coverage_by_others(others, train.measured, size)
    facts = {
        **_facts(request, trained, real),
        "num_samples": num,
        "method": scores[0].name,
        **{key: scores[0].facts[key] for key in ("exact", "approximate_because")},
        "told": stated,
        "left_out": left_out,
        "seconds": time.perf_counter() - start,
    }
    return BriefEvaluation(facts, brief, matches, scores, by_held_out)


def _facts(request: EvaluateRequest, trained: TrainedModel, real: RealDiagrams) -> dict[str, Any]:
    assert real.on is not None
    return {
        **checkpoint_facts(request, trained, real.on.data),
        **sampling_facts(request, trained),
        "brief": str(request.brief),
        "num_held_out": len(real.reference),
        "num_held_out_available": real.num_available,
    }


def _answers(request: EvaluateRequest, asked: BriefRequest) -> tuple[dict[str, Answer], list[str]]:
    """Answers by method, the requested one first, and sentences on methods that are left out."""
    soft, left_out = None, []
    if isinstance(asked.trained.sampler, FirstHitting):
        gamma = GAMMA if request.gamma is None else request.gamma
        soft = softly_steered(asked.trained.sampler, asked.constraint, gamma)
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
        "approximate_because": f"every token is tilted by h^{sampler.gamma:g}, with no weights; "
        "sizes come as in the training data among the brief's",
        "gamma": sampler.gamma,
        "doubt": sampler.doubt,
        "network_calls_per_sample": drawn.network_calls,
    }
    return Answer(decode(drawn.tokens, asked.vocab), facts)


def _floors(request: EvaluateRequest, matches: Matches, size: int) -> Floors | None:
    """Floors of the metrics: their values for ``size`` real diagrams that meet the brief."""
    draws = FLOOR_DRAWS if request.floor_draws is None else int(request.floor_draws)
    if not draws or not size or matches.reference is None or len(matches.known) < 2:
        return None
    return metric_floors(
        matches.known.measured.prepare(),
        bubble_metrics,
        num_samples=size,
        num_reference=len(matches.reference),
        draws=draws,
        seed=request.seed,
    )
