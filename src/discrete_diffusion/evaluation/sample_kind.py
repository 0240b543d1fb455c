"""Samples of one kind: sampling them, completing them, and evaluating them with real data."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from discrete_diffusion.config.values import counted
from discrete_diffusion.evaluation.measured_data import SEEDS
from discrete_diffusion.evaluation.model_evaluation import (
    ModelEvaluation,
    facts_of_files,
    sample_and_measure,
)
from discrete_diffusion.evaluation.model_scores import model_notes
from discrete_diffusion.evaluation.report import (
    Evaluation,
    Headline,
    Samples,
    SavedSamples,
    TokenReport,
    scalars_first,
)
from discrete_diffusion.evaluation.sample_scores import SampleScores
from discrete_diffusion.evaluation.tables import TableSection
from discrete_diffusion.evaluation.trained_model import (
    NUM_SAMPLES,
    Structure,
    complete_tokens,
    requested_sizes,
    sample_fresh,
    structure_notes,
    structure_sections,
)
from discrete_diffusion.sampling.exactness import exactness_facts

if TYPE_CHECKING:
    from torch import Tensor

    from discrete_diffusion.config.plugins import Registry
    from discrete_diffusion.contracts import SampleOutput
    from discrete_diffusion.evaluation.measured_data import RealData
    from discrete_diffusion.evaluation.requests import EvaluateRequest, Request, SampleRequest
    from discrete_diffusion.evaluation.trained_model import TrainedModel
    from discrete_diffusion.layout.vocab_config import VocabConfig
    from discrete_diffusion.sampling.model import Model
    from discrete_diffusion.sampling.partial_samples import Narrowing

logger = logging.getLogger(__name__)

S = TypeVar("S")


@dataclass(frozen=True)
class SampleFile(Generic[S]):
    """Samples read from a file of ``num`` lines.

    ``num_unreadable``: number of lines that are not samples; ``num_blank`` of these are blank.
    """

    samples: list[S]
    num: int
    num_unreadable: int
    num_blank: int = 0


class SampleKind(ABC, Generic[S]):
    """One kind of samples made of tokens; ``vocab``: the vocabulary, None for samples in files.

    ``heading``: heading of the real data in tables. ``files``: names of the files that ``write``
    writes; ``headlines``: shares of samples that ``sample`` logs. ``structures``: properties that
    samples can be required to have. ``seeds``, ``num_evaluated``: defaults of ``evaluate`` for the
    number of sampling seeds and of samples for each; None: as many as there are real samples.
    """

    heading: ClassVar[str]
    files: ClassVar[tuple[str, ...]]
    headlines: ClassVar[tuple[Headline, ...]]
    structures: ClassVar[Registry[Callable[[VocabConfig], Narrowing]]]
    seeds: ClassVar[int] = SEEDS
    num_evaluated: ClassVar[int | None] = None
    vocab: VocabConfig

    @abstractmethod
    def decode(self, tokens: Tensor) -> list[S]:
        """Decode tokens Int[M, L] into samples."""

    @abstractmethod
    def lines(self, samples: Sequence[S], **more: Sequence[Any]) -> str:
        """Format lines of JSON; ``more``: further keys, with a value for each sample."""

    @abstractmethod
    def write(self, samples: Sequence[S], folder: Path, **more: Sequence[Any]) -> str:
        """Write ``files``; return a sentence for the log if some content is missing, else ""."""

    @abstractmethod
    def plot(
        self,
        samples: Sequence[S],
        path: Path,
        given: Sequence[int] | None = None,
        inputs: Any = None,
    ) -> None:
        """Plot the first samples; completions with their lines ``given``, and the ``inputs``."""

    @abstractmethod
    def shares(self, samples: Sequence[S]) -> dict[str, float]:
        """Metrics that need only the samples and no other data."""

    @abstractmethod
    def read(self, path: str, request: EvaluateRequest) -> SampleFile[S]:
        """Read the samples of a file of any origin."""

    @abstractmethod
    def score(
        self,
        request: EvaluateRequest,
        sets: Sequence[Sequence[S]],
        real: RealData[S],
        unreadable: Sequence[int],
    ) -> SampleScores:
        """Measure all metrics of all sets with real data; ``unreadable``: bad samples per set."""

    def remarks(self, sets: Sequence[Sequence[S]], num_blank: int) -> list[str]:
        """Notes on the samples for the table; ``num_blank``: number of blank lines."""
        return []

    def structure(self, request: Request) -> Structure:
        """Find the structure that ``structure=`` names."""
        return Structure.requested(request, self.structures, self.vocab)


class SampleKindReport(TokenReport):
    """Report on samples of one kind, which writes and plots as the commands do."""

    @property
    @abstractmethod
    def kind(self) -> SampleKind[Any]:
        """Kind of the samples of ``data``."""

    def save(self, samples: Tensor, folder: Path) -> None:
        if len(samples):
            decoded = self.kind.decode(samples)
            self.kind.write(decoded, folder)
            self.kind.plot(decoded, folder / "samples.png")

    def plot(self, samples: Tensor, path: Path) -> None:
        if len(samples):
            self.kind.plot(self.kind.decode(samples), path)


@dataclass(frozen=True)
class SampleEvaluation(Evaluation, Generic[S]):
    """Result of ``evaluate`` of samples of one kind.

    ``facts``: entries of ``metrics.json`` on the measurement. ``sets``: the samples, by sampling
    seed or file. ``model``: scores of the model; None for files of samples, which have
    ``num_blank`` blank lines.
    """

    facts: dict[str, Any]
    kind: SampleKind[S]
    real: RealData[S]
    sets: list[list[S]]
    scores: SampleScores
    model: ModelEvaluation | None
    num_blank: int = 0

    def sections(self) -> list[TableSection]:
        """Tables, samples first."""
        model = [] if self.model is None else self.model.sections()
        return [*self.scores.sections(), *structure_sections(self.facts), *model]

    def notes(self) -> list[str]:
        notes = [f"{self.kind.heading}: {self.real.name}.", *self.scores.notes, *self.real.notes()]
        notes += [*structure_notes(self.facts), *self.kind.remarks(self.sets, self.num_blank)]
        return notes if self.model is None else [*notes, *model_notes(self.model.scores)]

    def metrics(self) -> dict[str, Any]:
        """Entries of ``metrics.json``, single numbers before lists and tables."""
        found = self.scores.as_dict() | ({} if self.model is None else self.model.metrics())
        return {**self.facts, **scalars_first(found)}

    def save(self, folder: Path) -> None:
        """Write the samples of the first set."""
        self.kind.write(self.sets[0], folder)

    def plot(self, folder: Path) -> None:
        self.kind.plot(self.sets[0], folder / "samples.png")
        if self.model is not None:
            self.model.plot(folder)


def evaluate_samples(
    request: EvaluateRequest, trained: TrainedModel, kind: SampleKind[S], real: RealData[S]
) -> SampleEvaluation[S]:
    """Evaluate sets of samples of a model, one for each seed, and the model itself."""
    assert real.on is not None
    trained.check_weights()
    # sample and measure the model
    tokens, facts, measured, scoring = sample_and_measure(
        request,
        trained,
        real.on,
        num=kind.num_evaluated or len(real.reference),
        seeds=kind.seeds,
        save=lambda drawn, folder: kind.write(kind.decode(drawn), folder),
        structure=kind.structure(request),
    )
    sets = [kind.decode(drawn) for drawn in tokens]
    # score the samples
    with scoring:
        scores = kind.score(request, sets, real, [0] * len(sets))
    return SampleEvaluation(facts | real.facts(), kind, real, sets, scores, measured)


def evaluate_sample_files(
    request: EvaluateRequest, kind: SampleKind[S], real: RealData[S]
) -> SampleEvaluation[S]:
    """Evaluate ``samples=FILE`` or ``samples=[A,B]``; ``ValueError`` for an empty list."""
    names = request.samples
    if not names:
        raise ValueError("samples=[]: give at least one file")
    # read the files
    files = [kind.read(name, request) for name in names]
    unreadable = [each.num_unreadable for each in files]
    facts = facts_of_files(names, [each.num for each in files], unreadable)
    sets = [each.samples for each in files]
    scores = kind.score(request, sets, real, unreadable)
    num_blank = sum(each.num_blank for each in files)
    return SampleEvaluation(facts | real.facts(), kind, real, sets, scores, None, num_blank)


def sample_kind(
    request: SampleRequest,
    trained: TrainedModel,
    kind: SampleKind[S],
    **size: int | Sequence[int] | None,
) -> Samples:
    """Sample ``num_samples`` times; ``size``: the option for sizes, such as ``num_nodes``."""
    wanted = requested_sizes(trained, kind.vocab.n_max, **size)
    num = NUM_SAMPLES if request.num_samples is None else request.num_samples
    structure = kind.structure(request)

    def lines(rows: Tensor, output: SampleOutput) -> str:
        return kind.lines(kind.decode(output.x0), **structure.weights(output.log_weights))

    # sample
    with trained.sharing() as shard:
        model = structure.narrowed(trained.model(shard, lines))
        drawn = sample_fresh(trained, model, num, entropy=(request.seed,), size=wanted)
    # facts of the samples
    facts = drawn.facts
    if structure:
        facts |= exactness_facts(trained.approximations(log_weights=drawn.log_weights))
        facts |= structure.facts([drawn])
    samples = kind.decode(drawn.tokens)
    more = structure.weights(drawn.log_weights)
    return _unwritten(
        request, kind, structure, counted(len(samples), "sample"), samples, facts, more
    )


@dataclass(frozen=True)
class Partials(Generic[S]):
    """Samples of which some tokens are known.

    ``tokens``: Int[M, L], negative where tokens are to be sampled; ``real``: Bool[M, L];
    ``decode``: makes samples of rows Int[b] and sampled tokens Int[b, L].
    """

    tokens: Tensor
    real: Tensor
    decode: Callable[[Tensor, Tensor], list[S]]


def complete_kind(
    request: SampleRequest,
    trained: TrainedModel,
    kind: SampleKind[S],
    *,
    noun: str,
    asked: Sequence[int],
    make: Callable[[Model], Partials[S]],
    order: str | None = None,
    inputs: Any = None,
) -> Samples:
    """Complete the objects in ``given``, called ``noun``, several times each.

    ``asked``: for each sample, its line in ``given``, which is written with it. ``make``: builds
    the partial samples for a model. ``order``: a reason for which the order of nodes makes the
    completions approximate, or None. ``inputs``: inputs shown in the picture, see
    ``SampleKind.plot``.
    """
    structure, num_inputs = kind.structure(request), len({*asked})

    def lines(rows: Tensor, output: SampleOutput) -> str:
        given, more = [asked[row] for row in rows.tolist()], structure.weights(output.log_weights)
        return kind.lines(partials.decode(rows, output.x0), given=given, **more)

    with trained.sharing() as shard:
        model = structure.narrowed(trained.model(shard, lines))
        partials = make(model)
        drawn = complete_tokens(model, partials.tokens, partials.real, entropy=(request.seed,))
    # whether they are exact
    samples = partials.decode(drawn.rows, drawn.tokens)
    real = partials.real[drawn.rows]
    reasons = [] if order is None else [order]
    reasons += trained.approximations(
        real=real,
        known=real & (partials.tokens[drawn.rows] >= 0),
        log_weights=drawn.log_weights if structure else None,
    )
    # facts of the completions
    facts = {
        "given": str(request.given),
        "num_inputs": num_inputs,
        "completions": len(asked) // num_inputs,
        **exactness_facts(reasons, of="completions"),
        **drawn.facts,
        **structure.facts([drawn], given=True),
    }
    # written with their lines
    what = f"{counted(len(samples), 'completion')} of {counted(num_inputs, noun)}"
    more: dict[str, Sequence[Any]] = {"given": [asked[row] for row in drawn.rows.tolist()]}
    more |= structure.weights(drawn.log_weights)
    return _unwritten(request, kind, structure, what, samples, facts, more, inputs)


def _unwritten(
    request: SampleRequest,
    kind: SampleKind[S],
    structure: Structure,
    what: str,
    samples: list[S],
    facts: dict[str, Any],
    more: Mapping[str, Sequence[Any]],
    inputs: Any = None,
) -> Samples:
    """Samples called ``what`` in the log; ``more``: further keys of each sample in the files."""

    def write() -> SavedSamples:
        note = kind.write(samples, request.out, **more)
        kind.plot(samples, request.out / request.picture, more.get("given"), inputs)
        if note:
            logger.info("%s", note)
        # metrics of the log line
        shares = kind.shares(samples)
        shown = ", ".join(
            each.format(shares[each.name]) for each in kind.headlines if each.name in shares
        )
        files = ", ".join(str(request.out / name) for name in (*kind.files, request.picture))
        line = f"{what} in {facts['seconds']:.1f} s: {shown}; {files}{structure.summary(facts)}"
        return SavedSamples({**facts, **shares}, line)

    return Samples(samples, write)
