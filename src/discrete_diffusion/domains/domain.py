"""``Domain``: one kind of data, as the rest of the package sees it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from discrete_diffusion.config.plugins import Later, LazyEntry

if TYPE_CHECKING:
    from omegaconf import DictConfig
    from torch import Tensor

    from discrete_diffusion.data import graph_tokens
    from discrete_diffusion.data.base import Dataset
    from discrete_diffusion.domains import cell_measurement
    from discrete_diffusion.domains.cell_measurement import CellMeasurement, SampleScore
    from discrete_diffusion.domains.commands import Option, SubCommand
    from discrete_diffusion.evaluation import model_evaluation
    from discrete_diffusion.evaluation.report import Evaluation, Report, Samples
    from discrete_diffusion.evaluation.requests import EvaluateRequest, SampleRequest
    from discrete_diffusion.evaluation.trained_model import TrainedModel
    from discrete_diffusion.layout import vocab_config
    from discrete_diffusion.layout.vocab_config import Vocabulary
    from discrete_diffusion.runtime.inputs import FileKind
else:
    graph_tokens = Later("discrete_diffusion.data.graph_tokens")
    vocab_config = Later("discrete_diffusion.layout.vocab_config")
    cell_measurement = Later("discrete_diffusion.domains.cell_measurement")
    model_evaluation = Later("discrete_diffusion.evaluation.model_evaluation")

GRAPH_FEATURES = ("reach", "resistance", "walks", "cycles")
"""All features of a revealed graph, in the order in which networks read them: the
``graph_features`` of kinds of data whose graphs have a structure beyond pairs."""


class Domain(ABC):
    """One kind of data, without state; ``data`` is always a ``config.data``.

    Three members have to be written: ``vocabulary``, with ``tokens`` and ``decode`` where samples
    are not rows of ids; ``build``, and ``report``. The others have a default. A class, or a
    ``LazyEntry``, with the same arguments can replace any method.

    Attributes:
        name: value of ``data.domain``.
        title: plural noun for its samples.
        data_sets: state of the samples by ``data.name``, one of ``registry.STATES``; data sets of
            different states hold the same samples and have the same keys.
        group_titles: names of the groups of tokens in pictures.
        graph_features: features of the revealed part of a graph that networks read, where
            ``model.features`` is null.
        data_files: keys of ``data`` that name a file or folder to read, or null.
        file_kinds: kinds of files that only this kind of data reads, see ``runtime.file_kinds``.
        reading_keys: keys of ``data`` that say how files are read, and nothing about the samples
            once they are read.
        fixed_keys: keys of ``data`` that a trained model has fixed, such as the sizes of its
            samples, so that ``evaluate`` cannot replace them.
        data_sets_of_files: data set that reads samples from files, by ``data.name`` of a data set
            that does not.
        needed_conditions: name of a tensor that the backbone must take, by the key of ``data`` that
            adds it to every training sample.
        options: its own keys of the commands ``sample`` and ``evaluate``; under ``train``, its keys
            of ``eval`` for ``train`` and ``compare``.
        remedies: remedy by key, for messages on keys that do not apply.
        quick: values of ``evaluate`` that ``quick=true`` sets; it is refused if there are none.
        token_steps: default of sampling steps for samples of ids, if the samples have another state
            too; None for the sampler's own default.
        sample_files: files that ``sample`` may write besides ``metrics.json`` and the picture.
        streamed_file: file among ``sample_files`` to which samples are written one by one, or None.
        commands: sub-commands by name, for each first word after ``discrete-diffusion``: under
            ``data`` they join those of other kinds of data; the name "" is the first word alone.
        command_help, setting_help: lines of ``--help`` on its commands and settings.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    data_sets: ClassVar[Mapping[str, str]]
    group_titles: ClassVar[Mapping[str, str]] = {}
    graph_features: ClassVar[tuple[str, ...]] = ()
    data_files: ClassVar[tuple[str, ...]] = ()
    file_kinds: ClassVar[tuple[FileKind, ...]] = ()
    reading_keys: ClassVar[tuple[str, ...]] = ()
    fixed_keys: ClassVar[tuple[str, ...]] = ()
    data_sets_of_files: ClassVar[Mapping[str, str]] = {}
    needed_conditions: ClassVar[Mapping[str, str]] = {}
    options: ClassVar[Mapping[str, tuple[Option, ...]]] = {}
    remedies: ClassVar[Mapping[str, str]] = {}
    quick: ClassVar[Mapping[str, int]] = {}
    token_steps: ClassVar[int | None] = None
    sample_files: ClassVar[tuple[str, ...]] = ()
    streamed_file: ClassVar[str | None] = None
    commands: ClassVar[Mapping[str, Mapping[str, SubCommand]]] = {}
    command_help: ClassVar[tuple[str, ...]] = ()
    setting_help: ClassVar[tuple[str, ...]] = ()

    def complete(self, data: DictConfig) -> None:
        """Fill in the keys of a ``config.data`` whose values depend on the data.

        Args:
            data: a ``config.data``, changed in place.

        Raises:
            ValueError: a key contradicts the data; the message names it.
        """

    def vocabulary(self, data: Mapping[str, Any]) -> Vocabulary:
        """Vocabulary of the samples: the legal ids by position, and what they mean.

        Args:
            data: a completed ``config.data``.

        Returns:
            The vocabulary; unless overridden, of plain sequences.

        Raises:
            ValueError: keys are not set; the message names them.
        """
        return vocab_config.Sequences.of(data)

    def conditions(self, data: Mapping[str, Any]) -> Mapping[str, tuple[int, ...]]:
        """Tensors that come with every sample.

        The tensor ``condition``, Float[B, sum], holds facts of samples, NaN if unknown.

        Args:
            data: a ``config.data``.

        Returns:
            Sizes of facts by the name of the tensor; an empty tuple for tensors without facts.
        """
        return {}

    def tokens(self, data: Mapping[str, Any], samples: Any) -> Tensor:
        """Convert samples to tokens.

        Args:
            data: a completed ``config.data``.
            samples: as ``load(...).sample`` returns them.

        Returns:
            Int[M, L].

        Raises:
            ValueError: a sample does not fit; unless overridden, any that is not a ``TypedGraph``.
        """
        known = self.vocabulary(data)
        if isinstance(known, vocab_config.VocabConfig):
            return graph_tokens.encode_graphs(samples, known).x0
        raise ValueError(f"samples of {self.title} cannot be encoded; give tokens Int[M, L]")

    def decode(self, data: Mapping[str, Any], tokens: Tensor) -> list[Any]:
        """Convert tokens to samples, as ``load(...).sample`` returns them.

        Args:
            data: a completed ``config.data``.
            tokens: Int[M, L], on the CPU.

        Returns:
            M samples; unless overridden, ``TypedGraph`` objects of graphs, else rows of tokens.
        """
        known = self.vocabulary(data)
        if isinstance(known, vocab_config.VocabConfig):
            return graph_tokens.decode_graphs(tokens, known)
        return list(tokens)

    def text_vocabulary(self, data: Mapping[str, Any]) -> Any:
        """Vocabulary that encodes text, of kinds of data whose samples are text.

        Args:
            data: a completed ``config.data``.

        Returns:
            An object with ``encode_each``, ``decode``, ``unknown`` and ``unit``.

        Raises:
            ValueError: samples are not text; unless overridden, always.
        """
        raise ValueError(f"a model of {self.title} is not a model of text")

    @abstractmethod
    def build(self, data: DictConfig) -> Dataset:
        """Build the data set of a completed config.

        Args:
            data: a completed ``config.data``.

        Returns:
            Samples in splits.
        """

    def test_data(self, data: DictConfig) -> Dataset:
        """Build the data set of the file ``path``, for a trained model with this config.

        All its samples are in the split ``test``; the other splits are empty.

        Args:
            data: a ``config.data`` of a checkpoint, with another ``path``.

        Returns:
            Samples in splits.

        Raises:
            ValueError: the model does not know a sample; the message names file, place and remedy.
        """
        data = data.copy()
        data.split = [0.0, 0.0, 1.0]
        self.complete(data)
        return self.build(data)

    @abstractmethod
    def report(self, data: Any, split: str, config: DictConfig) -> Report:
        """Build a report on samples against a split; a class works, too: ``report = MyReport``.

        Args:
            data: the data set.
            split: name of the split to compare with.
            config: config of ``train``, whose ``eval`` says how to measure.

        Returns:
            The report, which measures nothing yet.
        """

    def rewards(
        self, data: Mapping[str, Any], file: str | None = None
    ) -> Mapping[str, SampleScore]:
        """Scores of samples that ``algo=reward_tuning`` can raise.

        Args:
            data: a completed ``config.data``.
            file: name of a file that may describe one more score, such as a brief, or None.

        Returns:
            Functions that score samples, by name; the score of a file is named by its path.
            Empty unless overridden.

        Raises:
            ValueError: the file cannot be read, or no sample can meet what it requires.
        """
        return {}

    def sample(self, request: SampleRequest, trained: TrainedModel) -> Samples:
        """Sample as requested.

        Unless overridden, a model of tokens is sampled: fresh samples, or completions of the
        samples that an option ``given`` names, which ``tokens`` reads. ``report`` measures and
        writes them.

        Args:
            request: how many samples, and which.
            trained: the model.

        Returns:
            The samples. Nothing is written until ``Samples.write`` is called, which only the
            command does.

        Raises:
            ValueError: the model cannot be sampled, or not as requested.
        """
        self._check_state(trained, "sample cannot draw from")
        return model_evaluation.sample_token_model(request, trained, self.report)

    def evaluate(self, request: EvaluateRequest, trained: Any) -> Evaluation:
        """Measure a model and its samples, or files of samples.

        Unless overridden, a model of tokens is measured, and ``report`` measures its samples.

        Args:
            request: how much is measured, and on which data.
            trained: the ``TrainedModel``; None if ``request.samples`` names files, which is allowed
                only for kinds of data that have ``options`` with ``of_files``.

        Returns:
            The measurements.

        Raises:
            ValueError: the model cannot be measured.
        """
        self._check_state(trained, "evaluate cannot measure")
        report: Any = self.report
        return model_evaluation.evaluate_token_model(request, trained, report)

    def cell_measurement(self) -> CellMeasurement:
        """Return the object that measures each cell of ``compare``.

        Returns:
            The measurement; unless overridden, ``TokenCells(report)``, if ``report`` is a class.

        Raises:
            ValueError: ``compare`` cannot measure this kind of data.
        """
        report: Any = self.report
        report = report.load() if isinstance(report, LazyEntry) else report
        if isinstance(report, type):
            return cell_measurement.TokenCells(report)
        raise ValueError(f"compare cannot measure {self.title} yet; train and evaluate each model")

    def _check_state(self, trained: TrainedModel, what: str) -> None:
        if trained.algorithm.state != "tokens":
            raise ValueError(f"{what} models of {self.title} yet")
