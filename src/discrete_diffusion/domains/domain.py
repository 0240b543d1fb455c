"""``Domain``: one kind of data, and all that the rest of the package needs to know of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from discrete_diffusion.config.naming import check_name

if TYPE_CHECKING:
    from omegaconf import DictConfig
    from torch import Tensor

    from discrete_diffusion.data.base import Dataset
    from discrete_diffusion.domains.cell_measurement import CellMeasurement
    from discrete_diffusion.domains.option import Option
    from discrete_diffusion.evaluation.report import Drawn, Evaluation, Report
    from discrete_diffusion.evaluation.requests import EvaluateRequest, SampleRequest
    from discrete_diffusion.evaluation.trained_model import TrainedModel
    from discrete_diffusion.layout.token_layout import TokenLayout
    from discrete_diffusion.layout.vocab_config import VocabConfig


@dataclass(frozen=True)
class SubCommand:
    """Of ``discrete-diffusion data``. ``usage``: its arguments and what it does, a line;
    ``add_options``: to its parser; ``run``: with what was parsed, and ``load``, which opens a
    checkpoint as ``discrete_diffusion.load`` does. Its docstring is its help. ``writes_file``,
    ``writes_folder``: the option that names what it writes, which no other command writes then."""

    usage: str
    add_options: Callable[[ArgumentParser], None]
    run: Callable[[Namespace], None]
    writes_file: str = ""
    writes_folder: str = ""


class Domain(ABC):
    """One kind of data. An instance has no state; ``data`` is always a ``config.data``.

    ``name``: what ``data.domain`` says. ``title``: its samples in a word, in the plural.
    ``data_sets``: by ``data.name``, the state of their samples, one of ``registry.STATES``; two of
    different states hold the same samples and have the same keys. ``data_files``: keys of ``data``
    that name a file or folder to read, or null; one that is missing is refused at once.

    ``sample_options``, ``evaluate_options``: keys of these commands that mean something for its
    models, beside those that do for all; ``train_options``: keys under ``eval`` of ``train`` and
    ``compare``, how they measure its samples; ``remedies``: by key, what to do where one means
    nothing.

    ``sample_files``: what ``sample`` may write into ``out`` beside ``metrics.json`` and the
    picture; nothing of that is replaced unasked. ``growing``: the one of lines, if any, of which it
    writes the samples as they are drawn.

    ``quick``: keys of ``evaluate`` with the values that ``quick=true`` gives them; none, and it is
    refused.

    ``data_sets_of_files``: by ``data.name`` of a data set that reads no files, the one that reads
    such samples from files. ``fixed_keys``: keys of ``data`` that a trained model has fixed, such
    as the sizes of its samples, so that ``evaluate`` cannot replace them.

    ``group_titles``: what the groups of tokens are called in pictures. ``token_steps``: sampling
    steps where its samples are ids in one of two states and nothing else is said; None for the
    sampler's own.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    data_sets: ClassVar[Mapping[str, str]]
    data_files: ClassVar[tuple[str, ...]] = ()
    data_sets_of_files: ClassVar[Mapping[str, str]] = {}
    fixed_keys: ClassVar[tuple[str, ...]] = ()
    sample_options: ClassVar[tuple[Option, ...]] = ()
    evaluate_options: ClassVar[tuple[Option, ...]] = ()
    train_options: ClassVar[tuple[Option, ...]] = ()
    remedies: ClassVar[Mapping[str, str]] = {}
    quick: ClassVar[Mapping[str, int]] = {}
    group_titles: ClassVar[Mapping[str, str]] = {}
    sample_files: ClassVar[tuple[str, ...]] = ()
    growing: ClassVar[str | None] = None
    token_steps: ClassVar[int | None] = None

    def options(self, command: str) -> dict[str, Option]:
        """Those of ``sample``, ``evaluate`` or ``train``, by key."""
        options = {
            "sample": self.sample_options,
            "evaluate": self.evaluate_options,
            "train": self.train_options,
        }
        return {option.name: option for option in options[command]}

    # -- config

    def state(self, data: Mapping[str, Any]) -> str:
        """What its samples are; of a data set without a name, the first state."""
        return self.data_sets.get(str(data.get("name"))) or next(iter(self.data_sets.values()))

    def forms(self, data: Mapping[str, Any]) -> dict[str, str]:
        """State -> the data set that has the samples of ``data`` in it: its own one, and others of
        other states."""
        own, name = self.state(data), str(data.get("name"))
        others = {state: other for other, state in self.data_sets.items() if state != own}
        return {own: name, **others}

    def conditions(self, data: Mapping[str, Any]) -> tuple[str, ...]:
        """Names of the tensors that come with every sample."""
        return ()

    def condition_sizes(self, data: Mapping[str, Any]) -> tuple[int, ...] | None:
        """How many numbers each of the facts has that ``data.condition`` tells a network of every
        sample, as the condition ``condition`` Float[B, sum], NaN where one is not known; None: it
        is told nothing."""
        return None

    def complete(self, data: DictConfig) -> None:
        """Write into a ``config.data`` what only the data can say. ``ValueError`` naming the key
        for what contradicts it."""

    def graph(self, data: Mapping[str, Any]) -> VocabConfig | None:
        """The vocabularies and slots of samples that are graphs; None of others."""
        return None

    def layout(self, data: Mapping[str, Any]) -> TokenLayout:
        """Which ids are legal where: those of ``graph``, else of plain sequences.

        Raises ``ValueError`` naming the keys that are not set.
        """
        from discrete_diffusion.layout.token_layout import sequence_layout

        graph = self.graph(data)
        return sequence_layout(data) if graph is None else graph.layout()

    def real_positions(self, data: Mapping[str, Any], sizes: Tensor) -> Tensor:
        """Int[B] sizes -> Bool[B, L], the positions that carry data; of a graph the size is its
        number of nodes."""
        from discrete_diffusion.layout.token_layout import sequence_positions

        graph = self.graph(data)
        return sequence_positions(data, sizes) if graph is None else graph.real_positions(sizes)

    def vocabulary(self, data: Mapping[str, Any]) -> dict[str, Any]:
        """What ids or numbers mean, kept in checkpoints: one is refused where it differs."""
        graph = self.graph(data)
        if graph is None:
            return self.layout(data).digest()
        names = {"node_types": graph.node_types, "edge_types": graph.edge_types}
        return {"n_max": graph.n_max, **{key: list(types) for key, types in names.items()}}

    # -- data

    @abstractmethod
    def build(self, data: DictConfig) -> Dataset:
        """The data set of a completed config."""

    def data_set(self, data: DictConfig) -> Dataset:
        """``build``, with ``ValueError`` for a ``data.name`` that is none of ``data_sets``."""
        check_name("data set", str(data.name), self.data_sets)
        return self.build(data)

    def test_data(self, data: DictConfig) -> Dataset:
        """The data set of the config of a trained model whose ``path`` names another file: all its
        samples are the split ``test``, the others are empty.

        ``ValueError`` naming file, place and what to do for samples that such a model does not
        know.
        """
        data = data.copy()
        data.split = [0.0, 0.0, 1.0]
        self.complete(data)
        return self.build(data)

    # -- commands

    @abstractmethod
    def report(self, data: Any, split: str, config: DictConfig) -> Report:
        """Samples beside a split. ``config``: of ``train``; its ``eval`` says how to measure."""

    @abstractmethod
    def sample(self, request: SampleRequest, trained: TrainedModel) -> Drawn:
        """Draw samples as the request of ``sample`` says. Nothing is written until ``Drawn.write``
        is called, which only the command does."""

    def evaluate(self, request: EvaluateRequest, trained: TrainedModel) -> Evaluation:
        """Measure a model and its samples as the request of ``evaluate`` says; a model of tokens by
        itself, without samples, unless overridden."""
        from discrete_diffusion.evaluation.model_evaluation import evaluate_token_model

        if self.state(trained.data_config) != "tokens":
            raise ValueError(f"evaluate cannot measure models of {self.title} yet")
        return evaluate_token_model(request, trained)

    def evaluate_files(self, request: EvaluateRequest) -> Evaluation:
        """Measure the samples in the files of ``request.samples``."""
        raise ValueError(
            f"samples={request.samples}: files of {self.title} cannot be measured; give "
            "checkpoint=FILE"
        )

    def cell_measurement(self) -> CellMeasurement:
        """What ``compare`` measures."""
        raise ValueError(f"compare cannot measure {self.title} yet; train and evaluate each model")

    def commands(self) -> Mapping[str, SubCommand]:
        """Sub-commands of ``discrete-diffusion data`` by name."""
        return {}

    def own_commands(self) -> Mapping[str, Mapping[str, SubCommand]]:
        """By a word of its own, the sub-commands of ``discrete-diffusion WORD``; one named "" is
        the command itself."""
        return {}
