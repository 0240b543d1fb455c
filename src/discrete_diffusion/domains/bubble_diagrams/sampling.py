"""``sample`` of a model of diagrams: fresh ones, or completions of a file of partial ones."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from discrete_diffusion.categorical import make_generator
from discrete_diffusion.domains.bubble_diagrams import write_diagrams
from discrete_diffusion.domains.bubble_diagrams.arranging import UnseenError
from discrete_diffusion.domains.bubble_diagrams.completion import (
    Completions,
    approximations,
    complete,
)
from discrete_diffusion.domains.bubble_diagrams.diagram import Diagrams
from discrete_diffusion.domains.bubble_diagrams.files.readers import numbered_partials
from discrete_diffusion.domains.bubble_diagrams.files.writers import lines_of
from discrete_diffusion.domains.bubble_diagrams.metrics.structure import (
    never_valid,
    structure_metrics,
)
from discrete_diffusion.domains.bubble_diagrams.pictures.drawing import (
    MAX_DRAWN,
    CompletedRow,
    draw_completions,
)
from discrete_diffusion.domains.bubble_diagrams.plans.lookahead import SolverWork
from discrete_diffusion.domains.bubble_diagrams.plans.rejection import (
    TRIES,
    DrawnDiagram,
    keep_buildable,
)
from discrete_diffusion.domains.bubble_diagrams.plans.sampled_plans import (
    check_given,
    check_realise,
    realise_samples,
    say_earlier,
)
from discrete_diffusion.domains.bubble_diagrams.plans.ways import REJECTING, Way, check_partial
from discrete_diffusion.domains.bubble_diagrams.report import save_diagrams
from discrete_diffusion.domains.bubble_diagrams.tokens import decode
from discrete_diffusion.domains.bubble_diagrams.trajectory_files import save_trajectory
from discrete_diffusion.domains.domain import Drawn, Sampled
from discrete_diffusion.evaluation.token_samples import draw_fresh
from discrete_diffusion.naming import counted

if TYPE_CHECKING:
    from omegaconf import DictConfig
    from torch import Tensor

    from discrete_diffusion.domains.bubble_diagrams import BubbleDiagram, PartialDiagram
    from discrete_diffusion.evaluation.trained_model import TrainedModel
    from discrete_diffusion.layout import VocabConfig

logger = logging.getLogger(__name__)

NUM_SAMPLES = 64
"""If ``num_samples`` does not say."""

COMPLETIONS = 4
"""If ``completions`` does not say."""

MAX_COLUMNS = 8
"""Completions of a line that the picture shows."""

MAX_NAMED = 5
"""Lines that a warning names one by one."""


def sample_diagrams(config: DictConfig, trained: TrainedModel, vocab: VocabConfig) -> Drawn:
    """Draw ``num_samples`` diagrams, of ``num_rooms`` rooms if that is given.

    Written as ``samples.jsonl`` and ``samples.png``; with ``trajectory`` the states on the way."""
    size = _asked_rooms(config, trained, vocab)
    num = NUM_SAMPLES if config.num_samples is None else config.num_samples
    way = Way.asked(config, vocab)
    check_realise(config)
    if way.name in REJECTING:
        return _sample_rejecting(config, trained, way, num, size)

    def diagrams_of(drawn: Any, tokens: Tensor) -> list[BubbleDiagram]:
        return way.weighted(decode(tokens, vocab), drawn.log_weights)

    with trained.sharing() as shard:
        model = trained.on(shard, lambda _, output: lines_of(diagrams_of(output, output.x0)))
        drawn = draw_fresh(
            trained,
            way.on(model),
            num,
            config.seed,
            size=size,
            trajectories=config.trajectory,
        )
        weights = way.facts(drawn.log_weights, way.work(shard))
    diagrams = Diagrams(diagrams_of(drawn, drawn.tokens))
    if weights:
        logger.info("%s", way.said(weights))

    def write() -> Sampled:
        save_diagrams(diagrams, Path(str(config.out)), config.picture)
        save_trajectory(drawn.trajectory, Path(str(config.out)), vocab)
        facts = {
            "num_samples": len(diagrams),
            "network_calls_per_sample": drawn.network_calls,
            "seconds": drawn.seconds,
            **weights,
        }
        return _sampled(config, trained, counted(len(diagrams), "sample"), diagrams, facts)

    return Drawn(diagrams, write)


def _sample_rejecting(
    config: DictConfig,
    trained: TrainedModel,
    way: Way,
    num: int,
    size: int | Sequence[int] | None,
) -> Drawn:
    """The same, drawn until ``num`` have a floor plan. The first round draws what is drawn without
    ``buildable``, unless that narrows it."""
    start, vocab = time.perf_counter(), way.vocab
    with trained.sharing() as shard:
        model = way.on(trained.on(shard))

        def draw(turn: int, asked: int) -> list[DrawnDiagram]:
            stream = (turn,) if turn else ()
            drawn = draw_fresh(trained, model, asked, config.seed, stream=stream, size=size)
            found = way.weighted(decode(drawn.tokens, vocab), drawn.log_weights)
            numbers = (drawn.nfe.tolist(), drawn.log_weights.tolist())
            return [DrawnDiagram(*each) for each in zip(found, *numbers, strict=True)]

        def write_kept(kept: Sequence[DrawnDiagram]) -> None:
            if trained.append is not None and shard.world_size == 1:
                trained.append(lines_of(each.diagram for each in kept))

        kept = keep_buildable(
            draw, num, tries=config.tries or TRIES, shard=shard, on_kept=write_kept
        )
    diagrams = Diagrams(each.diagram for each in kept.samples)
    log_weights = torch.tensor([each.log_weight for each in kept.samples], dtype=torch.float64)
    facts = {
        "num_samples": len(diagrams),
        "seconds": time.perf_counter() - start,
        **kept.facts,
        **way.facts(log_weights, SolverWork()),
    }

    def write() -> Sampled:
        save_diagrams(diagrams, Path(str(config.out)), config.picture)
        save_trajectory(None, Path(str(config.out)), vocab)
        what = counted(len(diagrams), "buildable sample")
        return _sampled(config, trained, what, diagrams, facts)

    return Drawn(diagrams, write)


def _asked_rooms(
    config: DictConfig, trained: TrainedModel, vocab: VocabConfig
) -> int | list[int] | None:
    """What ``num_rooms`` says: a number, or several to draw as often as in the training data among
    these.

    Raises ``ValueError`` for one that the model does not know, or, among several, has not seen.
    """
    asked = config.num_rooms
    several = None if asked is None or isinstance(asked, int) else [*asked]
    seen = {n for n, count in enumerate(trained.checkpoint.size_counts) if count}
    for size in several or ([] if asked is None else [asked]):
        if size > vocab.n_max:
            raise ValueError(
                f"num_rooms={size}: {trained.path} was trained on diagrams of at most "
                f"{vocab.n_max} rooms; ask for fewer, or train with data.n_max={size}"
            )
        if several and size not in seen:
            raise ValueError(
                f"num_rooms={asked}: {trained.path} was trained on no diagram of {size} rooms, so "
                f"none would be drawn among the others; num_rooms={size} alone draws them"
            )
    return several or asked


def complete_file(config: DictConfig, trained: TrainedModel, vocab: VocabConfig) -> Drawn:
    """Complete every line of ``given``; written as ``samples.jsonl`` and a picture, and the
    trajectory, if one is asked for.

    Raises ``ValueError`` naming file, line and field for a line that is wrong, and for one that the
    model cannot complete.
    """
    if Path(str(config.given)).suffix == ".npz":
        raise ValueError(
            f"given={config.given}: {trained.path} was trained on diagrams; give partial diagrams, "
            "JSON lines (docs/completion.md)"
        )
    way = Way.asked(config, vocab)
    check_realise(config)
    partials = numbered_partials(str(config.given), n_max=vocab.n_max, codes=config.codes)
    if config.realise:
        check_given(str(config.given), partials)
    for line, partial in partials.items() if way.name else ():
        check_partial(partial, f"{config.given}, line {line}")
    _warn_of_never_valid(str(config.given), partials)
    each = COMPLETIONS if config.completions is None else config.completions
    with trained.sharing() as shard:
        start = time.perf_counter()
        try:
            completed = complete(
                trained.sampler,
                trained.algorithm,
                list(partials.values()),
                lines=list(partials),
                vocab=vocab,
                node_order=trained.data_config.node_order,
                generator=make_generator(config.seed, 1, device=trained.device),
                completions=each,
                steps=trained.steps,
                way=way,
                batch_size=way.rows_at_once(trained.batch_size),
                max_arrangements=config.max_arrangements,
                trajectories=config.trajectory,
                shard=shard,
                on_drawn=trained.on(shard, lambda _, diagrams: lines_of(diagrams)).on_drawn,
            )
        except UnseenError as error:
            raise ValueError(f"{config.given}, {error}") from error
        seconds = time.perf_counter() - start
        weights = way.facts(completed.log_weights, way.work(shard))
    if weights:
        logger.info("%s", way.said(weights))
    if reasons := "; ".join(approximations(trained.sampler, trained.algorithm, completed)):
        logger.info("the completions are approximate: %s", reasons)

    def write() -> Sampled:
        facts = {
            "completions": each,
            "seconds": seconds,
            "exact": not reasons,
            "approximate_because": reasons or None,
            **weights,
        }
        return _write_completed(config, trained, partials, completed, facts, vocab)

    return Drawn(Diagrams(completed.diagrams), write)


def _write_completed(
    config: DictConfig,
    trained: TrainedModel,
    partials: Mapping[int, PartialDiagram],
    completed: Completions,
    facts: dict[str, Any],
    vocab: VocabConfig,
) -> Sampled:
    folder, diagrams = Path(str(config.out)), completed.diagrams
    folder.mkdir(parents=True, exist_ok=True)
    write_diagrams(folder / "samples.jsonl", diagrams)
    _draw(diagrams, partials, folder / config.picture)
    save_trajectory(completed.trajectory, folder, vocab)
    facts = {
        "given": str(config.given),
        "num_inputs": len(partials),
        "num_samples": len(diagrams),
        "network_calls_per_sample": float(completed.network_calls.double().mean()),
        "scoring_calls_per_sample": completed.num_scored / len(diagrams),
        "scoring_batches_per_input": completed.num_batches / len(partials),
        "arrangement_errors": completed.arrangement_errors,
        **facts,
    }
    what = f"{counted(len(diagrams), 'completion')} of {counted(len(partials), 'partial diagram')}"
    return _sampled(config, trained, what, diagrams, facts)


def _warn_of_never_valid(path: str, partials: Mapping[int, PartialDiagram]) -> None:
    """Name the lines of which no completion can be valid, the first few of them with the reason."""
    reasons = {line: why for line, partial in partials.items() if (why := never_valid(partial))}
    for line, why in [*reasons.items()][:MAX_NAMED]:
        logger.warning("%s, line %d: no completion can be valid: %s", path, line, why)
    if len(reasons) > MAX_NAMED:
        more = counted(len(reasons) - MAX_NAMED, "more line")
        logger.warning("%s: nor can those of %s", path, more)


def _draw(
    diagrams: Sequence[BubbleDiagram], partials: Mapping[int, PartialDiagram], path: Path
) -> None:
    """The first lines, a row each, and the first completions of each."""
    of_line: dict[int, list[BubbleDiagram]] = {}
    for diagram in diagrams:
        of_line.setdefault(diagram.metadata["given"], []).append(diagram)
    rows = [
        CompletedRow(f"line {line}, given", partials[line], tuple(completions[:MAX_COLUMNS]))
        for line, completions in of_line.items()
    ]
    shown = max(len(row.completions) for row in rows)
    draw_completions(rows[: max(1, MAX_DRAWN // shown)], path)


def _sampled(
    config: DictConfig,
    trained: TrainedModel,
    what: str,
    diagrams: list[BubbleDiagram],
    facts: dict[str, Any],
) -> Sampled:
    numbers = structure_metrics(diagrams)
    shares = ", ".join(f"{k} {100 * numbers[k]:.1f} %" for k in ("valid", "transitive"))
    folder = Path(str(config.out))
    files = f"{folder / 'samples.jsonl'}, {folder / config.picture}"
    said = f"{what} in {facts['seconds']:.1f} s: {shares}; {files}"
    if config.realise:
        plans, found = realise_samples(config, trained, diagrams)
        facts, said = {**facts, "plans": plans}, f"{said}\n{found}"
    else:
        say_earlier(folder)
    return Sampled({**facts, **numbers}, said)
