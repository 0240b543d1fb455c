"""``evaluate`` and ``sample`` of a model of tokens: scores, samples and sets of samples."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from discrete_diffusion.config.values import counted
from discrete_diffusion.data.base import SPLITS, TokenDataset
from discrete_diffusion.evaluation.measured_data import (
    NOISE_SAMPLES,
    SEEDS,
    MeasuredData,
    UnreadableDataError,
    checkpoint_data,
    checkpoint_facts,
    keep_samples,
    measured_data,
    sampling_facts,
    sampling_seeds,
    some_held_out,
)
from discrete_diffusion.evaluation.model_scores import (
    ModelScores,
    measure_likelihood,
    measure_orders,
    model_notes,
    model_sections,
    score_model,
)
from discrete_diffusion.evaluation.noise_levels import MASKED_SHARES
from discrete_diffusion.evaluation.pictures import plot_bound_by_time, plot_calibration
from discrete_diffusion.evaluation.report import Evaluation, Samples, SavedSamples
from discrete_diffusion.evaluation.sample_scores import (
    Interval,
    error_note,
    interval_entries,
    share_interval,
    shown_sizes,
)
from discrete_diffusion.evaluation.tables import TableRow, TableSection
from discrete_diffusion.evaluation.trained_model import (
    COMPLETIONS,
    NUM_SAMPLES,
    Structure,
    TokenSamples,
    complete_tokens,
    requested_sizes,
    sample_fresh,
)
from discrete_diffusion.runtime import progress
from discrete_diffusion.runtime.inputs import GivenObjects, place_of_line
from discrete_diffusion.runtime.processes import end_if_stopping
from discrete_diffusion.sampling.exactness import exactness_facts

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from discrete_diffusion.contracts import SampleOutput
    from discrete_diffusion.evaluation.report import Report, TokenReport
    from discrete_diffusion.evaluation.requests import EvaluateRequest, SampleRequest
    from discrete_diffusion.evaluation.trained_model import TrainedModel
    from discrete_diffusion.sampling.model import Model


logger = logging.getLogger(__name__)

TIME_BINS = 20
"""Default of ``time_bins``."""

NUM_EVALUATED = 1000
"""Default of ``num_samples`` of ``evaluate``."""


@dataclass(frozen=True)
class MeasuredSamples:
    """Samples of a model with their metrics.

    ``drawn``: the samples; ``values``: their metrics by ``report``; ``real``: metrics of held-out
    samples.
    """

    drawn: TokenSamples
    report: TokenReport
    values: dict[str, float]
    real: dict[str, float]

    def as_dict(self) -> dict[str, Any]:
        """Values for ``metrics.json``."""
        real = {f"{name}_real_data": value for name, value in self.real.items()}
        shares = interval_entries(self.shares) if self.shares else {}
        return {**self.drawn.facts, **self.values, **real, **shares}

    @property
    def shares(self) -> dict[str, Interval]:
        """Confidence intervals of metrics that are shares of samples."""
        return {
            column.name: share_interval(
                [self.values[column.name]], self.values.get(column.counted, len(self.drawn.tokens))
            )
            for column in self.report.columns
            if column.of_samples and column.name in self.values
        }

    def section(self) -> TableSection:
        """Table that compares the samples with real data."""
        shares = self.shares
        rows = [
            TableRow(
                name,
                shares[name].text(4) if name in shares else f"{value:.4f}",
                f"{self.real[name]:.4f}" if name in self.real else "",
            )
            for name, value in self.values.items()
        ]
        rows.append(TableRow("network_calls_per_sample", f"{self.drawn.network_calls:g}"))
        return TableSection(f"{len(self.drawn.tokens):,} samples", tuple(rows))


@dataclass(frozen=True)
class ModelEvaluation(Evaluation):
    """Result of ``evaluate`` for a model of tokens.

    ``facts``: entries of ``metrics.json`` on the measurement. ``reference``: name of the data.
    ``scores``: scores of the model, None if only samples were measured. ``absorbing``: True if
    noise masks tokens, False if it changes them. ``group_titles``: names of token groups.
    ``samples``: None if none were measured. ``measured_on``: the data, if its notes are shown.
    """

    facts: dict[str, Any]
    reference: str
    scores: ModelScores | None
    absorbing: bool = True
    group_titles: Mapping[str, str] = field(default_factory=dict)
    samples: MeasuredSamples | None = None
    measured_on: MeasuredData | None = None

    def metrics(self) -> dict[str, Any]:
        samples = {} if self.samples is None else self.samples.as_dict()
        scores = {} if self.scores is None else self.scores.as_dict()
        return {**self.facts, **samples, **scores}

    def sections(self) -> list[TableSection]:
        samples = [] if self.samples is None else [self.samples.section()]
        return [*samples, *model_sections(self.scores)]

    def notes(self) -> list[str]:
        other = [] if self.measured_on is None else self.measured_on.notes()
        shares = self.samples is not None and self.samples.shares
        errors = [error_note(1)] if shares else []
        return [f"Real data: {self.reference}.", *other, *errors, *model_notes(self.scores)]

    def save(self, folder: Path) -> None:
        if self.samples is not None:
            self.samples.report.save(self.samples.drawn.tokens, folder)

    def plot(self, folder: Path) -> None:
        if self.scores is not None:
            titles, token = self.group_titles, "masked token" if self.absorbing else "token"
            plot_calibration(self.scores.calibration, titles, folder / "calibration.png")
            by_time = self.scores.by_time
            plot_bound_by_time(by_time, titles, folder / "nelbo_by_t.png", token=token)


def num_passes(request: EvaluateRequest, length: int) -> int:
    """Maximum number of network calls of ``measure_model`` for a sample of ``length`` tokens."""
    if request.noise_samples == 0:
        return 0
    noise_samples = NOISE_SAMPLES if request.noise_samples is None else request.noise_samples
    time_bins = TIME_BINS if request.time_bins is None else request.time_bins
    paths = (request.get("likelihood_order") is not None) + (request.get("num_orders") or 0)
    return int(noise_samples + time_bins + len(MASKED_SHARES) + paths * length)


def measure_model(
    request: EvaluateRequest, model: Model, data: TokenDataset, split: str
) -> ModelScores | None:
    """Measure a model as requested; return None if ``noise_samples=0``.

    Paths of samplers, for ``likelihood`` and ``orders``, are a function of ``seed``, the data and
    the number of the order: they are the same for all models and batch sizes.
    """
    if request.noise_samples == 0:
        return None
    logger.info("measuring the model on %s held-out samples", f"{len(data.splits[split]):,}")
    # bound and calibration, then paths of samplers
    on, seed = (model, data, split), request.seed
    order, num = request.get("likelihood_order"), request.get("num_orders")
    scores = score_model(
        *on,
        noise_samples=NOISE_SAMPLES if request.noise_samples is None else request.noise_samples,
        time_bins=TIME_BINS if request.time_bins is None else request.time_bins,
        seed=seed,
    )
    nll = None if order is None else measure_likelihood(*on, order, seed)
    return replace(
        scores, likelihood=nll, orders=None if num is None else measure_orders(*on, num, seed)
    )


def evaluate_token_model(
    request: EvaluateRequest,
    trained: TrainedModel,
    report: Callable[[Any, str, DictConfig], TokenReport] | None = None,
) -> ModelEvaluation:
    """Evaluate a model of tokens on the split that its checkpoint held out, or on other data.

    ``report`` measures ``num_samples`` samples, see ``Domain.report``; without a report only the
    model is measured.
    """
    # the data and a report on them
    name, samples = trained.data_config.name, None
    if report is None and request.noise_samples == 0:
        raise ValueError(
            f"noise_samples=0: no metrics of samples exist for data={name}; leave it out"
        )
    measured_on = measured_data(request, trained)
    data, split = measured_on.data, measured_on.split
    facts = {**checkpoint_facts(request, trained, data), **measured_on.facts(request)}
    made = None if report is None else report(data, split, trained.config)
    # samples, then the model
    with trained.sharing() as shard:
        model = trained.model(shard)
        if made is None:
            logger.info("no metrics of samples exist for data=%s; measuring the model", name)
        else:
            num = NUM_EVALUATED if request.num_samples is None else request.num_samples
            logger.info("sampling %s samples", f"{num:,}")
            drawn = made.sample_with_calls(model, num, request.seed)
            keep_samples(request, shard, partial(made.save, drawn.tokens))
        scores = measure_model(request, model, some_held_out(request, data, split), split)
    # the result
    if made is not None:
        facts |= sampling_facts(request, trained)
        real = made.measure_real(len(drawn.tokens))
        samples = MeasuredSamples(drawn, made, made.measure(drawn.tokens), real)
    absorbing, titles = trained.algorithm.process.absorbing, trained.domain.group_titles
    return ModelEvaluation(facts, measured_on.name, scores, absorbing, titles, samples, measured_on)


def sample_and_measure(
    request: EvaluateRequest,
    trained: TrainedModel,
    measured: MeasuredData,
    *,
    num: int,
    save: Callable[[Tensor, Path], object],
    seeds: int = SEEDS,
    scoring: str = "scoring the samples",
    also: Callable[[Model], None] | None = None,
    structure: Structure | None = None,
) -> tuple[list[Tensor], dict[str, Any], ModelEvaluation, AbstractContextManager[Any]]:
    """Sample sets of a model, one for each seed, and measure it on the data ``measured``.

    Returns the samples Int[num, L] of each seed; entries of ``metrics.json`` on the sampling; the
    scores of the model; and the part of the progress called ``scoring``, a context to enter.

    ``num``, ``seeds``: defaults of samples per seed and of seeds. ``save``: writes the tokens of
    the first seed into ``request.out``, if given, so that a later stop keeps them. ``also``:
    measures the model further while processes share the work. ``structure``: property of the
    samples; the bound is that of the model without it.
    """
    # what is sampled and measured
    structure = structure or Structure(None)
    data, split = some_held_out(request, measured.data, measured.split), measured.split
    num, each = request.num_samples or num, sampling_seeds(request, seeds)
    parts = progress.parts(
        f"sampling {shown_sizes([num] * len(each))} samples",
        f"measuring the model on {len(data.splits[split]):,} held-out samples",
        scoring,
    )
    # sample, then measure the model
    with trained.sharing() as shard:
        model = trained.model(shard)
        with next(parts):
            narrowed = structure.narrowed(model)
            drawn = _sample_sets(
                request, trained, narrowed, num, each, save, len(data.splits[split])
            )
        with next(parts):
            scores = measure_model(request, model, data, split)
            if also is not None:
                also(model)
    # entries of metrics.json
    absorbing, titles = trained.algorithm.process.absorbing, trained.domain.group_titles
    facts = {
        **checkpoint_facts(request, trained, measured.data),
        "seeds": each,
        "num_samples": num,
        **sampling_facts(request, trained),
        "network_calls_per_sample": sum(samples.network_calls for samples in drawn) / len(drawn),
        "seconds": sum(samples.seconds for samples in drawn) / len(drawn),
        **structure.facts(drawn),
    }
    # scores of the model itself
    of_model = ModelEvaluation({}, measured.name, scores, absorbing, titles)
    return [samples.tokens for samples in drawn], facts, of_model, next(parts)


def _sample_sets(
    request: EvaluateRequest,
    trained: TrainedModel,
    model: Model,
    num: int,
    seeds: Sequence[int],
    save: Callable[[Tensor, Path], object],
    num_held_out: int,
) -> list[TokenSamples]:
    """Draw a set of samples for each seed; the first batch gives an estimate of the time."""
    start, logged = time.perf_counter(), False

    def estimate(rows: Tensor, output: SampleOutput) -> None:
        nonlocal logged
        if not logged:
            # time of all sets, and of the measurement by network calls
            seconds = time.perf_counter() - start
            drawing = seconds / len(rows) * num * len(seeds)
            passes = num_passes(request, model.algorithm.layout.length) * num_held_out
            measuring = seconds / float(output.nfe.sum()) * passes
            logger.info(
                "about %.0f s to draw the samples and %.0f s to measure the model",
                *(drawing, measuring),
            )
        logged = True

    # a set of each seed
    if model.shard.world_size == 1:
        model = replace(model, on_sampled=estimate)
    drawn = []
    for seed in progress.track(seeds, "samples", "sets"):
        drawn.append(samples := sample_fresh(trained, model, num, entropy=(seed,)))
        logger.info(
            "seed %d: %s samples in %.1f s", seed, f"{len(samples.tokens):,}", samples.seconds
        )
        if len(drawn) == 1:
            keep_samples(request, model.shard, partial(save, samples.tokens))
        end_if_stopping()
    return drawn


def facts_of_files(
    names: Sequence[str], sizes: Sequence[int], unreadable: Sequence[int]
) -> dict[str, Any]:
    """Entries of ``metrics.json`` on files of samples; warn if their ``sizes`` differ."""
    # distances of sets of unequal sizes do not compare
    same = len(set(sizes)) == 1
    if not same:
        logger.warning(
            "the sample files differ in size (%s): distances depend on it, so their mean mixes "
            "unlike numbers",
            ", ".join(map(str, sizes)),
        )
    return {
        "samples": list(names),
        "num_samples": sizes[0] if same else list(sizes),
        "num_unreadable_samples": list(unreadable),
    }


def sample_token_model(
    request: SampleRequest, trained: TrainedModel, report: Callable[[Any, str, DictConfig], Report]
) -> Samples:
    """Draw ``num_samples`` samples of the size set in the options, or complete lines of ``given``.

    ``Domain.tokens`` converts each line of ``given`` to tokens, -1 where a token is to be sampled.
    The ``report`` (see ``Domain.report``) writes and measures the samples; they are not measured if
    the data of the checkpoint cannot be read.
    """
    # sizes, or what is given
    domain, data = trained.domain, trained.data_config
    vocabulary = domain.vocabulary(data)
    options = domain.options.get("sample", ())
    asked = {option.name: request[option.name] for option in options if option.is_size}
    size = requested_sizes(trained, vocabulary.largest, **asked) if asked else None
    given, facts = request.get("given"), {}
    if given is not None:
        partial = _given_tokens(trained, given)
        each = request.get("num_completions") or COMPLETIONS
        facts = {"given": str(given), "num_inputs": len(partial), "completions": each}
        partial = partial.repeat_interleave(each, dim=0)
        real = vocabulary.layout().is_real(partial)
    # sample
    with trained.sharing() as shard:
        model, entropy = trained.model(shard), (request.seed,)
        if given is None:
            num = request.num_samples or NUM_SAMPLES
            drawn = sample_fresh(trained, model, num, entropy=entropy, size=size)
        else:
            drawn = complete_tokens(model, partial, real, entropy=entropy)
    if given is not None:
        reasons = trained.approximations(real=real, known=real & (partial >= 0))
        facts |= exactness_facts(reasons, of="completions")

    def write() -> SavedSamples:
        # measure with the data of the checkpoint
        measured: dict[str, float] = {}
        try:
            found = checkpoint_data(trained)
            split = next((s for s in reversed(SPLITS) if len(found.splits[s])), SPLITS[-1])
            made = report(found, split, trained.config)
            measured = made.measure(drawn.tokens)
        except UnreadableDataError as error:
            logger.warning("%s: the samples are written and not measured", error)
            empty = torch.zeros(0, trained.algorithm.layout.length, dtype=torch.long)
            nothing = TokenDataset.from_rows(empty, vocabulary.layout(), (0, 0, 1))
            nothing.vocab = vocabulary
            made = report(nothing, SPLITS[-1], trained.config)
        made.save(drawn.tokens, request.out)
        made.plot(drawn.tokens, request.out / request.picture)
        # the line for the log
        shown = [e.format(measured[e.name]) for e in made.headlines if e.name in measured]
        what = counted(len(drawn.tokens), "sample" if given is None else "completion")
        line = "; ".join([f"{what} in {drawn.seconds:.1f} s", *shown, str(request.out)])
        return SavedSamples({**facts, **drawn.facts, **measured}, line)

    return Samples(domain.decode(data, drawn.tokens), write)


def _given_tokens(trained: TrainedModel, given: str | GivenObjects) -> Tensor:
    """Read lines of a file, or objects, as tokens Int[M, L]; ``ValueError`` names a wrong line."""
    # objects, or lines of a file
    samples: list[Any]
    if isinstance(given, GivenObjects):
        samples = list(given.objects)
    else:
        with Path(given).open(encoding="utf-8") as file:
            samples = [line.rstrip("\n") for line in file]
    if not samples:
        raise ValueError(f"{given} is empty: expected a sample per line")
    # tokens of each
    found = []
    for number, sample in enumerate(samples, start=1):
        try:
            found.append(trained.domain.tokens(trained.data_config, [sample]))
        except ValueError as error:
            raise ValueError(f"{place_of_line(given, number)}: {error}") from error
    return torch.cat(found)
