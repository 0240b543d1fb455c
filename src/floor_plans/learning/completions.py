"""Completions of partial diagrams: arrange, weigh, sample, restore room numbers, and write."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from discrete_diffusion.categorical import make_generator
from discrete_diffusion.config import counted
from discrete_diffusion.data import relabel
from discrete_diffusion.evaluation import Samples, warn_of_sizes
from discrete_diffusion.layout import VocabConfig
from discrete_diffusion.runtime import Shard, place_of_line, progress
from discrete_diffusion.sampling import Model, exactness_facts, sample_in_batches, sample_seeds
from discrete_diffusion.sampling import approximations as sampler_approximations
from floor_plans.diagrams.diagram import BubbleDiagram
from floor_plans.diagrams.files.graph_formats import lines_of
from floor_plans.diagrams.metrics.diagrams import never_valid
from floor_plans.diagrams.partial import PartialDiagram
from floor_plans.diagrams.pictures.diagram_pictures import MAX_DRAWN
from floor_plans.diagrams.pictures.trajectory import CompletedRow, plot_completions
from floor_plans.diagrams.tokens import decode
from floor_plans.diagrams.vocabulary import vocabulary_of_graph
from floor_plans.drawings.readers import numbered_partials
from floor_plans.learning import sampling
from floor_plans.learning.sampling import Way
from floor_plans.learning.weighing import Arranged, Arranger, UnseenError, known_and_real
from floor_plans.solver.requests import Diagrams

if TYPE_CHECKING:
    from discrete_diffusion.algorithms import TokenAlgorithm
    from discrete_diffusion.contracts import SampleOutput
    from discrete_diffusion.evaluation import SampleRequest, TrainedModel
    from discrete_diffusion.sampling import TokenSampler

logger = logging.getLogger(__name__)

COMPLETIONS = 4  # default of ``completions``
MAX_COLUMNS = 8  # most completions of a line in the picture
MAX_NAMED = 5  # most lines that get a warning of their own


@dataclass(frozen=True)
class Completions:
    """M completions, as ``complete_partials`` returns them.

    ``diagrams``: completions of the first partial diagram, then of the second, ...; with the room
    numbers and metadata of the partial diagram, and its line as ``given``.
    ``network_calls``: Int64[M]. ``log_weights``: Float64[M], see ``SampleOutput``. ``real``,
    ``known``: Bool[M, L], positions of the diagram, and positions that were given.
    ``num_scored``, ``num_batches``: as of ``Weighed``; ``arrangement_errors``: its errors by line.
    ``trajectory``: Int64[K, trajectories, L], numbered as in the file, or None.
    """

    diagrams: list[BubbleDiagram]
    network_calls: Tensor
    log_weights: Tensor
    real: Tensor
    known: Tensor
    num_scored: int
    num_batches: int
    arrangement_errors: dict[int, float]
    trajectory: Tensor | None

    @property
    def num_unknown(self) -> Tensor:
        """Int64[M]: number of sampled tokens of each completion."""
        return (self.real & ~self.known).sum(dim=1)


Draw = Callable[[Any, int, Sequence[int]], Completions]
"""Function that samples completions, of (sampler, number for each partial diagram, entropy)."""

Choose = Callable[[Sequence[int], Draw, int, Shard], tuple[Completions, dict[str, Any]]]
"""Function that chooses completions and returns facts, of (lines, ``Draw``, number for each line,
shard)."""


@dataclass(frozen=True, kw_only=True)
class CompletionRequest:
    """Request for ``num`` completions of each partial diagram.

    ``partials``: partial diagrams by line. ``node_order``: order of rooms in the model's data.
    ``way``: with "lookahead", completions have a floor plan if possible, and a ``log_weight``.
    ``max_arrangements``: most arrangements to keep at each step, see ``weigh_arrangements``.
    ``trajectories``: number of first diagrams whose intermediate states are kept.
    """

    partials: Mapping[int, PartialDiagram]
    vocab: VocabConfig
    node_order: str
    num: int = 1
    way: Way | None = None
    max_arrangements: int | None = None
    trajectories: int = 0


def complete_partials(
    model: Model, request: CompletionRequest, *, generator: torch.Generator
) -> Completions:
    """Sample the requested completions; every given room and relation is kept, and
    ``model.on_sampled`` gets the rows and diagrams of each batch.

    Samples (G, m) in proportion to p(G) over diagrams G and embeddings m of the partial diagram in
    G. A model of ``node_order`` canonical knows diagrams in that order only, so m is sampled first,
    in proportion to Z_m, the model's probability of the tokens that m fixes, see
    ``weigh_arrangements``; then the other tokens are sampled, with the fixed tokens clamped. In
    other orders all slots are equivalent (random) or the file's slots are right (given), so there
    is one m. A complete diagram costs no network call.

    Raises ``ValueError`` for a sampler that does not fit, and ``UnseenError`` naming line and room
    or relation.
    """
    model.sampler.check(model.algorithm, model.steps)
    way = request.way or Way("", request.vocab)
    model = way.apply_to(model)
    # sample arrangements, then the unknown tokens
    batch, finished = ArrangedRows(_arranged(model, request, generator), way), list[Tensor]()
    if (on_sampled := model.on_sampled) is not None:

        def report(rows: Tensor, output: SampleOutput) -> None:
            finished.append(rows)
            on_sampled(rows, batch.numbered(output, rows).diagrams)

        model = replace(model, on_sampled=report)
    output = sample_in_batches(
        model,
        batch.real,
        generator=generator,
        clamp=batch.clamp,
        trajectories=request.trajectories,
    )
    rows = torch.cat(finished).sort().values if finished else torch.arange(len(batch.real))
    return batch.numbered(output, rows)


def _arranged(
    model: Model, request: CompletionRequest, generator: torch.Generator
) -> list[Arranged]:
    """Sample ``num`` arrangements of the rooms of each partial diagram."""
    how = (request.node_order, request.max_arrangements, model.rows_at_once, generator.device)
    arranger = Arranger(model.algorithm, request.vocab, *how, request.num)
    # a seed for each line, so that lines can be shared among processes
    seeds = sample_seeds(generator, len(request.partials))
    with progress.task("weighing arrangements", len(seeds), "lines") as weighing:

        def arrange(line: tuple[PartialDiagram, int, int]) -> Arranged:
            found = arranger.arrange(line)
            weighing.advance(model.shard.world_size)
            return found

        numbered = request.partials.items()
        lines = [(each, k, seed) for (k, each), seed in zip(numbered, seeds, strict=True)]
        return model.shard.map(arrange, lines)


class ArrangedRows:
    """Arrangements of several partial diagrams, in rows to sample. ``real``, ``known``: Bool[M, L],
    real and known positions. ``clamp``: Int64[M, L], known tokens, -1 at others."""

    def __init__(self, arranged: Sequence[Arranged], way: Way) -> None:
        self._arranged, self._way = arranged, way
        tokens = torch.cat([part.tokens for part in arranged])
        self.known, self.real = known_and_real(tokens, way.vocab)
        self.clamp = torch.where(self.known, tokens, -1)

    def numbered(self, output: SampleOutput, rows: Tensor) -> Completions:
        """Restore the room numbers of the samples of ``rows`` Int[M]."""
        vocab, arranged = self._way.vocab, self._arranged
        # inverse of the arrangement of each row
        back = torch.cat([part.orders for part in arranged])[rows].argsort(dim=1)
        num_rooms = (output.x0[:, : vocab.n_max] != vocab.pad_id).sum(dim=1)

        def numbered(x: Tensor) -> Tensor:
            return relabel(x, num_rooms[: len(x)], back[: len(x)], vocab)

        # metadata of the partial diagram, with its line
        metadata = [
            {**part.partial.metadata, "given": part.line} for part in arranged for _ in part.tokens
        ]
        diagrams = [
            replace(diagram, metadata=metadata[row])
            for diagram, row in zip(decode(numbered(output.x0), vocab), rows.tolist(), strict=True)
        ]
        errors = {part.line: part.error for part in arranged if part.error is not None}
        frames = output.trajectory
        return Completions(
            diagrams=self._way.weighted(diagrams, output.log_weights),
            network_calls=output.nfe,
            log_weights=output.log_weights,
            real=self.real[rows],
            known=self.known[rows],
            num_scored=sum(part.num_scored for part in arranged),
            num_batches=sum(part.num_batches for part in arranged),
            arrangement_errors=errors,
            trajectory=None if frames is None else torch.stack([numbered(x) for x in frames]),
        )


def approximations(
    sampler: TokenSampler,
    algorithm: TokenAlgorithm,
    completed: Completions,
    steps: int | None = None,
) -> list[str]:
    """Reasons why completions are not exact samples of the conditional; empty if they are."""
    if not completed.num_unknown.any():
        return []
    # of the sampler, then of the arrangements
    reasons = sampler_approximations(
        sampler,
        algorithm,
        steps=steps,
        real=completed.real,
        known=completed.known,
        log_weights=completed.log_weights,
    )
    if completed.arrangement_errors:
        errors = completed.arrangement_errors.items()
        lines = ", ".join(f"{line} ({100 * error:.2g} %)" for line, error in errors)
        reasons.append(
            f"only a random part of the arrangements of line {lines} was weighed, within the error "
            f"of their total that is in brackets; a larger max_arrangements weighs more"
        )
    return reasons


def complete_file(
    request: SampleRequest, trained: TrainedModel, vocab: VocabConfig, choose: Choose | None = None
) -> Samples:
    """Complete every line of ``given``: ``samples.jsonl``, a picture, a trajectory if requested.
    ``choose``: chooses among sampled completions; None takes all. Raises ``ValueError`` naming
    file, line and field for a line that is wrong or cannot be completed."""
    # check the request and every line before sampling
    if Path(str(request.given)).suffix == ".npz":
        raise ValueError(
            f"given={request.given}: {trained.path} was trained on diagrams; give partial "
            "diagrams, JSON lines (docs/floor_plans/briefs.md)"
        )
    sampling.check_directions(request, trained, vocab)
    way = Way("", vocab) if choose is not None else Way.requested(request, vocab)
    completion = CompletionRequest(
        partials=read_given(request, vocab, way),
        vocab=vocab,
        node_order=trained.data_config.node_order,
        num=COMPLETIONS if request.num_completions is None else request.num_completions,
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
    why = approximations(trained.sampler, trained.algorithm, completed, trained.steps)
    if (num := choice_facts.get("num_particles")) is not None:
        why.append(f"{num} particles of each line represent the whole distribution")
    diagrams, partials = Diagrams(completed.diagrams), completion.partials
    facts = {
        "given": str(request.given),
        "num_inputs": len(partials),
        "num_samples": len(diagrams),
        "network_calls_per_sample": float(completed.network_calls.double().mean()),
        "scoring_calls_per_sample": completed.num_scored / len(diagrams),
        "scoring_batches_per_input": completed.num_batches / len(partials),
        "arrangement_errors": completed.arrangement_errors,
        "completions": completion.num,
        "seconds": seconds,
        **exactness_facts(why, of="completions"),
        **weights,
        **choice_facts,
    }
    what = f"{counted(len(diagrams), 'completion')} of {counted(len(partials), 'partial diagram')}"
    picture, trajectory = partial(_draw, diagrams, partials), completed.trajectory
    return sampling.unwritten(
        request, trained, what, diagrams, facts, trajectory=trajectory, plot=picture
    )


def read_given(request: SampleRequest, vocab: VocabConfig, way: Way) -> dict[int, PartialDiagram]:
    """Read the partial diagrams of ``given`` by line, and check that they can be completed. Warns
    of lines without a valid completion, with reasons for the first few."""
    sampling.check_realise(request)
    words = vocabulary_of_graph(vocab)
    partials = numbered_partials(
        request.given, max_nodes=vocab.n_max, room_codes=request.room_codes, vocabulary=words
    )
    if request.realise:
        sampling.check_given(request.given, partials)
    for line, each in partials.items() if way.name else ():
        sampling.check_partial(each, place_of_line(request.given, line))
    if not words.has_directions:
        return partials
    reasons = {line: why for line, each in partials.items() if (why := never_valid(each))}
    for line, why in [*reasons.items()][:MAX_NAMED]:
        place = place_of_line(request.given, line)
        logger.warning("%s: no completion can be valid: %s", place, why)
    if (more := len(reasons) - MAX_NAMED) > 0:
        logger.warning("%s: nor can those of %s", request.given, counted(more, "more line"))
    return partials


def _completed(
    request: SampleRequest, model: Model, completion: CompletionRequest, entropy: Sequence[int]
) -> Completions:
    """Sample completions with a generator seeded by ``entropy``; errors name the file as well."""
    generator = make_generator(request.seed, *entropy, device=model.device)
    try:
        return complete_partials(model, completion, generator=generator)
    except UnseenError as error:
        place = place_of_line(request.given, error.line)
        raise ValueError(f"{place}: {error.reason}") from error


def _draw(
    diagrams: Sequence[BubbleDiagram], partials: Mapping[int, PartialDiagram], path: Path
) -> None:
    """Plot the first lines, one per row, with the first completions of each."""
    by_line: dict[int, list[BubbleDiagram]] = {}
    for diagram in diagrams:
        by_line.setdefault(diagram.metadata["given"], []).append(diagram)
    rows = [
        CompletedRow(f"line {line}, given", partials[line], completions[:MAX_COLUMNS])
        for line, completions in by_line.items()
    ]
    shown = max(len(row.completions) for row in rows)
    plot_completions(rows[: max(1, MAX_DRAWN // shown)], path)
