"""``Domain``: one kind of data, and all that the rest of the package needs to know of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from discrete_diffusion.config.naming import check_name

if TYPE_CHECKING:
    from omegaconf import DictConfig
    from torch import Tensor

    from discrete_diffusion.data.base import Dataset
    from discrete_diffusion.domains.cell_measurement import CellMeasurement, SampleScore
    from discrete_diffusion.domains.option import Option
    from discrete_diffusion.domains.sub_command import SubCommand
    from discrete_diffusion.evaluation.report import Evaluation, Report, Samples
    from discrete_diffusion.evaluation.requests import EvaluateRequest, SampleRequest
    from discrete_diffusion.evaluation.trained_model import TrainedModel
    from discrete_diffusion.layout.token_layout import TokenLayout
    from discrete_diffusion.layout.vocab_config import VocabConfig
    from discrete_diffusion.runtime.file_kinds import FileKind

GRAPH_FEATURES = ("reach", "resistance", "walks", "cycles")
"""All features of a revealed graph, in the order in which networks have them: what a kind of data
whose edges are more than pairs sets as its ``graph_features``."""


class Domain(ABC):
    """One kind of data. An instance has no state; ``data`` is always a ``config.data``.

    Attributes:
        name: value of ``data.domain``.
        title: its samples in a word, in the plural.
        data_sets: by ``data.name``, the state of their samples, one of ``registry.STATES``; two of
            different states hold the same samples and have the same keys.
        data_files: keys of ``data`` that name a file or folder to read, or null.
        data_sets_of_files: by ``data.name`` of a data set that reads no files, the one that reads
            such samples from files.
        fixed_keys: keys of ``data`` that a trained model has fixed, such as the sizes of its
            samples, so that ``evaluate`` cannot replace them.
        needed_conditions: keys of ``data`` that, if true, give every training sample a tensor that
            the backbone must take, with its name.
        sample_options: keys of ``sample`` for its models, besides those of all kinds of data.
        evaluate_options: likewise of ``evaluate``.
        train_options: likewise of ``eval`` in ``train`` and ``compare``.
        remedies: by key, what to do where one means nothing.
        quick: values of keys of ``evaluate`` under ``quick=true``, which is refused without any.
        graph_features: what networks of its graphs read of what is revealed already, where
            ``model.features`` is null.
        group_titles: names of the groups of tokens in pictures.
        sample_files: files that ``sample`` may write beside ``metrics.json`` and the picture.
        streamed_file: the one of ``sample_files`` to which samples are written one by one, or None.
        file_kinds: kinds of files that only it reads, see ``runtime.file_kinds``.
        command_help, setting_help: lines of ``--help`` on commands and settings of its own.
        token_steps: sampling steps where its samples are ids in one of two states and no number is
            given; None for the sampler's own.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    data_sets: ClassVar[Mapping[str, str]]
    data_files: ClassVar[tuple[str, ...]] = ()
    data_sets_of_files: ClassVar[Mapping[str, str]] = {}
    fixed_keys: ClassVar[tuple[str, ...]] = ()
    needed_conditions: ClassVar[Mapping[str, str]] = {}
    sample_options: ClassVar[tuple[Option, ...]] = ()
    evaluate_options: ClassVar[tuple[Option, ...]] = ()
    train_options: ClassVar[tuple[Option, ...]] = ()
    remedies: ClassVar[Mapping[str, str]] = {}
    quick: ClassVar[Mapping[str, int]] = {}
    graph_features: ClassVar[tuple[str, ...]] = ()
    group_titles: ClassVar[Mapping[str, str]] = {}
    sample_files: ClassVar[tuple[str, ...]] = ()
    streamed_file: ClassVar[str | None] = None
    file_kinds: ClassVar[tuple[FileKind, ...]] = ()
    command_help: ClassVar[tuple[str, ...]] = ()
    setting_help: ClassVar[tuple[str, ...]] = ()
    token_steps: ClassVar[int | None] = None

    def options(self, command: str) -> dict[str, Option]:
        """Options of a command, by key.

        Args:
            command: ``sample``, ``evaluate`` or ``train``.

        Returns:
            The options that mean something for this kind of data.
        """
        options: tuple[Option, ...] = getattr(self, f"{command}_options")
        return {option.name: option for option in options}

    def state(self, data: Mapping[str, Any]) -> str:
        """State of its samples; of a data set without a name, the first state.

        Args:
            data: a ``config.data``.

        Returns:
            One of ``registry.STATES``.
        """
        return self.data_sets.get(str(data.get("name"))) or next(iter(self.data_sets.values()))

    def equivalent_data_sets(self, data: Mapping[str, Any]) -> dict[str, str]:
        """Data sets with the samples of ``data``, by state: its own one and those of other states.

        Args:
            data: a ``config.data``.

        Returns:
            State -> ``data.name``.
        """
        own, name = self.state(data), str(data.get("name"))
        others = {state: other for other, state in self.data_sets.items() if state != own}
        return {own: name, **others}

    def conditions(self, data: Mapping[str, Any]) -> tuple[str, ...]:
        """Names of the tensors that come with every sample.

        Args:
            data: a ``config.data``.

        Returns:
            The names, by default none.
        """
        return ()

    def condition_sizes(self, data: Mapping[str, Any]) -> tuple[int, ...] | None:
        """Sizes of the facts of a sample on which ``data.condition`` conditions a network.

        They make up the condition ``condition`` Float[B, sum], NaN where one is not known.

        Args:
            data: a ``config.data``.

        Returns:
            How many numbers each fact has; None: no fact is given to the network.
        """
        return None

    def complete(self, data: DictConfig) -> None:
        """Write into a ``config.data`` what only the data can decide.

        Args:
            data: a ``config.data``, changed in place.

        Raises:
            ValueError: a key contradicts the data; the message names it.
        """

    def graph(self, data: Mapping[str, Any]) -> VocabConfig | None:
        """The vocabularies and slots of samples that are graphs.

        Args:
            data: a ``config.data``.

        Returns:
            Its graph vocabulary; None of other samples.
        """
        return None

    def layout(self, data: Mapping[str, Any]) -> TokenLayout:
        """The legal ids by position: those of ``graph``, else of plain sequences.

        Args:
            data: a completed ``config.data``.

        Returns:
            The layout.

        Raises:
            ValueError: keys are not set; the message names them.
        """
        from discrete_diffusion.layout.token_layout import sequence_layout

        graph = self.graph(data)
        return sequence_layout(data) if graph is None else graph.layout()

    def real_positions(self, data: Mapping[str, Any], sizes: Tensor) -> Tensor:
        """Positions that carry data.

        Args:
            data: a completed ``config.data``.
            sizes: Int[B], lengths; of graphs, numbers of nodes.

        Returns:
            Bool[B, L].
        """
        from discrete_diffusion.layout.token_layout import sequence_positions

        graph = self.graph(data)
        return sequence_positions(data, sizes) if graph is None else graph.real_positions(sizes)

    def vocabulary(self, data: Mapping[str, Any]) -> dict[str, Any]:
        """Meaning of ids or numbers, kept in checkpoints: one is refused where it differs.

        Args:
            data: a completed ``config.data``.

        Returns:
            Values that JSON can hold, by name.
        """
        graph = self.graph(data)
        if graph is None:
            return self.layout(data).digest()
        names = {"node_types": graph.node_types, "edge_types": graph.edge_types}
        return {"n_max": graph.n_max, **{key: list(types) for key, types in names.items()}}

    @abstractmethod
    def build(self, data: DictConfig) -> Dataset:
        """The data set of a completed config.

        Args:
            data: a completed ``config.data``.

        Returns:
            Samples in splits.
        """

    def data_set(self, data: DictConfig) -> Dataset:
        """``build``, with a check of the data set's name.

        Args:
            data: a completed ``config.data``.

        Returns:
            Samples in splits.

        Raises:
            ValueError: ``data.name`` is none of ``data_sets``.
        """
        check_name("data set", str(data.name), self.data_sets)
        return self.build(data)

    def test_data(self, data: DictConfig) -> Dataset:
        """The data set of a trained model's config whose ``path`` names another file.

        All its samples are the split ``test``, the others are empty.

        Args:
            data: a ``config.data`` of a checkpoint, with another ``path``.

        Returns:
            Samples in splits.

        Raises:
            ValueError: such a model does not know a sample; the message names file, place and
                remedy.
        """
        data = data.copy()
        data.split = [0.0, 0.0, 1.0]
        self.complete(data)
        return self.build(data)

    def tokens(self, data: Mapping[str, Any], samples: Any) -> Tensor:
        """Samples as tokens.

        Args:
            data: a completed ``config.data``.
            samples: as ``load(...).sample`` returns them.

        Returns:
            Int[M, L].

        Raises:
            ValueError: a sample does not fit; unless overridden, for all.
        """
        raise ValueError(f"samples of {self.title} cannot be encoded; give tokens Int[M, L]")

    def decode(self, data: Mapping[str, Any], tokens: Tensor) -> list[Any]:
        """Samples of tokens, as ``load(...).sample`` returns them.

        Args:
            data: a completed ``config.data``.
            tokens: Int[M, L], on the CPU.

        Returns:
            M samples; unless overridden, rows of tokens.
        """
        return list(tokens)

    def rewards(
        self, data: Mapping[str, Any], file: str | None = None
    ) -> Mapping[str, SampleScore]:
        """Scores of samples that ``algo=reward`` can raise.

        Args:
            data: a completed ``config.data``.
            file: name of a file that may describe one more score, such as a brief, or None.

        Returns:
            By name, that of a file by its path; unless overridden none.

        Raises:
            ValueError: the file cannot be read, or says what no sample meets.
        """
        return {}

    @abstractmethod
    def report(self, data: Any, split: str, config: DictConfig) -> Report:
        """Report on samples beside a split.

        Args:
            data: the data set.
            split: name of the split to compare with.
            config: of ``train``; its ``eval`` says how to measure.

        Returns:
            The report, which measures nothing yet.
        """

    @abstractmethod
    def sample(self, request: SampleRequest, trained: TrainedModel) -> Samples:
        """Sample as requested.

        Args:
            request: how many samples, and which.
            trained: the model.

        Returns:
            The samples. Nothing is written until ``Samples.write`` is called, which only the
            command does.
        """

    def evaluate(self, request: EvaluateRequest, trained: TrainedModel) -> Evaluation:
        """Measure a model and its samples.

        Unless overridden, a model of tokens by itself, without samples.

        Args:
            request: how much is measured, and on which data.
            trained: the model.

        Returns:
            The measurements.

        Raises:
            ValueError: models of this state cannot be measured.
        """
        from discrete_diffusion.evaluation.model_evaluation import evaluate_token_model

        if self.state(trained.data_config) != "tokens":
            raise ValueError(f"evaluate cannot measure models of {self.title} yet")
        return evaluate_token_model(request, trained)

    def evaluate_files(self, request: EvaluateRequest) -> Evaluation:
        """Measure samples in files.

        Args:
            request: its ``samples`` names the files.

        Returns:
            The measurements.

        Raises:
            ValueError: files of this kind of data cannot be measured.
        """
        raise ValueError(
            f"samples={request.samples}: files of {self.title} cannot be measured; give "
            "checkpoint=FILE"
        )

    def cell_measurement(self) -> CellMeasurement:
        """Measurement of each cell of ``compare``.

        Returns:
            The measurement.

        Raises:
            ValueError: ``compare`` cannot measure this kind of data.
        """
        raise ValueError(f"compare cannot measure {self.title} yet; train and evaluate each model")

    def commands(self) -> Mapping[str, SubCommand]:
        """Sub-commands of ``discrete-diffusion data``.

        Returns:
            Sub-commands by name, by default none.
        """
        return {}

    def own_commands(self) -> Mapping[str, Mapping[str, SubCommand]]:
        """Sub-commands of ``discrete-diffusion WORD``, a word of its own.

        Returns:
            By word, sub-commands by name; one named "" is the command itself.
        """
        return {}
