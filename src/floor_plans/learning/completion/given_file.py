"""``sample given=FILE``: completions of the partial diagrams of a file."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discrete_diffusion.categorical import make_generator
from discrete_diffusion.config import counted
from discrete_diffusion.evaluation import Samples, SavedSamples, warn_of_sizes
from discrete_diffusion.runtime import place_of_line
from discrete_diffusion.sampling import exactness_facts
from floor_plans.diagrams.files.graph_formats import lines_of, write_diagrams
from floor_plans.diagrams.metrics.structure import never_valid
from floor_plans.diagrams.pictures.diagram_pictures import MAX_DRAWN
from floor_plans.diagrams.pictures.trajectory import CompletedRow, plot_completions, save_trajectory
from floor_plans.diagrams.vocabulary import vocabulary_of_graph
from floor_plans.drawings.readers import numbered_partials
from floor_plans.learning.completion.completions import (
    Choose,
    CompletionRequest,
    Completions,
    approximations,
    complete,
)
from floor_plans.learning.completion.weighing import UnseenError
from floor_plans.learning.sampled_plans import check_given, check_realise
from floor_plans.learning.sampling import check_directions, sampled
from floor_plans.learning.ways import Way, check_partial
from floor_plans.solver.requests import Diagrams

if TYPE_CHECKING:
    from discrete_diffusion.evaluation import SampleRequest, TrainedModel
    from discrete_diffusion.layout import VocabConfig
    from discrete_diffusion.sampling import Model, TokenSampler
    from floor_plans.diagrams.diagram import BubbleDiagram
    from floor_plans.diagrams.partial import PartialDiagram

logger = logging.getLogger(__name__)

COMPLETIONS = 4
"""Default of ``completions``."""

MAX_COLUMNS = 8
"""Most completions of a line in the picture."""

MAX_NAMED = 5
"""Most lines that get a warning of their own."""


def complete_file(
    request: SampleRequest, trained: TrainedModel, vocab: VocabConfig, choose: Choose | None = None
) -> Samples:
    """Complete every line of ``given``; the result is written as ``samples.jsonl``, a picture and,
    if requested, a trajectory.

    ``choose``: chooses among sampled completions, such as those that meet a brief; None takes all.
    Raises ``ValueError`` naming file, line and field for a line that is wrong or cannot be
    completed.
    """
    # check the request and every line before sampling
    _check_file(request, trained)
    check_directions(request, trained, vocab)
    way = Way("", vocab) if choose is not None else Way.requested(request, vocab)
    completion = CompletionRequest(
        partials=_partials(request, vocab, way),
        vocab=vocab,
        node_order=trained.data_config.node_order,
        num=COMPLETIONS if request.completions is None else request.completions,
        way=way,
        max_arrangements=request.max_arrangements,
        trajectories=request.trajectory,
    )
    warn_of_sizes(trained, (each.num_rooms for each in completion.partials.values()))
    with trained.sharing() as shard:
        start = time.perf_counter()

        def draw(sampler: TokenSampler, num: int, entropy: Sequence[int]) -> Completions:
            model = replace(trained.model(shard), sampler=sampler, on_sampled=None)
            return _completed(request, model, replace(completion, num=num), entropy)

        choice_facts: dict[str, Any] = {}
        # all completions, or those that the choice takes
        if choose is None:
            model = trained.model(shard, lambda _, diagrams: lines_of(diagrams))
            completed = _completed(request, model, completion, (1,))
        else:
            completed, choice_facts = choose(list(completion.partials), draw, completion.num, shard)
        seconds = time.perf_counter() - start
        weights = way.facts(completed.log_weights, way.work(shard))
    if weights:
        logger.info("%s", way.summary(weights))
    # facts of the sampling
    why = _approximations(trained, completed, choice_facts.get("num_particles"))
    facts = {
        "completions": completion.num,
        "seconds": seconds,
        **exactness_facts(why, of="completions"),
        **weights,
        **choice_facts,
    }
    return Samples(
        Diagrams(completed.diagrams),
        lambda: _write_completed(request, trained, completion, completed, facts),
    )


def _check_file(request: SampleRequest, trained: TrainedModel) -> None:
    """Refuse a file of another domain, by ``ValueError``."""
    if Path(str(request.given)).suffix == ".npz":
        raise ValueError(
            f"given={request.given}: {trained.path} was trained on diagrams; give partial "
            "diagrams, JSON lines (docs/floor_plans/briefs.md)"
        )


def _approximations(
    trained: TrainedModel, completed: Completions, num_particles: int | None
) -> list[str]:
    """Reasons why completions are approximate; empty if they are exact."""
    why = approximations(trained.sampler, trained.algorithm, completed, trained.steps)
    if num_particles is not None:
        why.append(f"{num_particles} particles of each line represent the whole distribution")
    return why


def _partials(request: SampleRequest, vocab: VocabConfig, way: Way) -> dict[int, PartialDiagram]:
    """Read the partial diagrams of ``given`` by line, and check that they can be completed."""
    check_realise(request)
    words = vocabulary_of_graph(vocab)
    partials = numbered_partials(
        request.given, n_max=vocab.n_max, codes=request.codes, vocabulary=words
    )
    if request.realise:
        check_given(request.given, partials)
    # a floor plan has to be possible
    for line, partial in partials.items() if way.name else ():
        check_partial(partial, place_of_line(request.given, line))
    if words.has_directions:
        _warn_of_never_valid(request.given, partials)
    return partials


def _completed(
    request: SampleRequest, model: Model, completion: CompletionRequest, entropy: Sequence[int]
) -> Completions:
    """Complete with the generator of ``entropy``; errors name the file as well."""
    generator = make_generator(request.seed, *entropy, device=model.device)
    try:
        return complete(model, completion, generator=generator)
    except UnseenError as error:
        place = place_of_line(request.given, error.line)
        raise ValueError(f"{place}: {error.reason}") from error


def _write_completed(
    request: SampleRequest,
    trained: TrainedModel,
    completion: CompletionRequest,
    completed: Completions,
    facts: dict[str, Any],
) -> SavedSamples:
    folder, diagrams, partials = request.out, completed.diagrams, completion.partials
    folder.mkdir(parents=True, exist_ok=True)
    write_diagrams(folder / "samples.jsonl", diagrams)
    _draw(diagrams, partials, folder / request.picture)
    save_trajectory(completed.trajectory, folder, completion.vocab)
    # diagrams and pictures are written, facts are returned
    facts = {
        "given": str(request.given),
        "num_inputs": len(partials),
        "num_samples": len(diagrams),
        "network_calls_per_sample": float(completed.network_calls.double().mean()),
        "scoring_calls_per_sample": completed.num_scored / len(diagrams),
        "scoring_batches_per_input": completed.num_batches / len(partials),
        "arrangement_errors": completed.arrangement_errors,
        **facts,
    }
    what = f"{counted(len(diagrams), 'completion')} of {counted(len(partials), 'partial diagram')}"
    return sampled(request, trained, what, diagrams, facts)


def _warn_of_never_valid(given: object, partials: Mapping[int, PartialDiagram]) -> None:
    """Warn of lines without a valid completion, with reasons for the first few."""
    reasons = {line: why for line, partial in partials.items() if (why := never_valid(partial))}
    for line, why in [*reasons.items()][:MAX_NAMED]:
        place = place_of_line(given, line)
        logger.warning("%s: no completion can be valid: %s", place, why)
    if len(reasons) > MAX_NAMED:
        more = counted(len(reasons) - MAX_NAMED, "more line")
        logger.warning("%s: nor can those of %s", given, more)


def _draw(
    diagrams: Sequence[BubbleDiagram], partials: Mapping[int, PartialDiagram], path: Path
) -> None:
    """Plot the first lines, one per row, with the first completions of each."""
    by_line: dict[int, list[BubbleDiagram]] = {}
    for diagram in diagrams:
        by_line.setdefault(diagram.metadata["given"], []).append(diagram)
    rows = [
        CompletedRow(f"line {line}, given", partials[line], tuple(completions[:MAX_COLUMNS]))
        for line, completions in by_line.items()
    ]
    shown = max(len(row.completions) for row in rows)
    plot_completions(rows[: max(1, MAX_DRAWN // shown)], path)
