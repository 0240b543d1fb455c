"""A trained model with a sampler: what samples come from, and what is measured."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from discrete_diffusion.runtime.atomic_files import refuse_overwriting
from discrete_diffusion.runtime.processes import Shard
from discrete_diffusion.sampling.exactness import approximations
from discrete_diffusion.sampling.model import Model

if TYPE_CHECKING:
    from omegaconf import DictConfig
    from torch import Tensor

    from discrete_diffusion.data.base import Dataset
    from discrete_diffusion.layout.vocabulary import Vocabulary


class KindOfData(Protocol):
    """Interface of evaluation to the kind of data of a model; ``domains.domain.Domain`` has it."""

    title: ClassVar[str]
    group_titles: ClassVar[Mapping[str, str]]
    data_sets_of_files: ClassVar[Mapping[str, str]]
    fixed_keys: ClassVar[tuple[str, ...]]
    options: ClassVar[Mapping[str, tuple[Any, ...]]]

    def complete(self, data: DictConfig) -> None: ...

    def build(self, data: DictConfig) -> Dataset: ...

    def test_data(self, data: DictConfig) -> Dataset: ...

    def vocabulary(self, data: Mapping[str, Any]) -> Vocabulary: ...

    def tokens(self, data: Mapping[str, Any], samples: Any) -> Tensor: ...

    def decode(self, data: Mapping[str, Any], tokens: Tensor) -> list[Any]: ...


@dataclass(frozen=True)
class TrainedModel:
    """The model of a checkpoint with a sampler, as ``sample`` and ``evaluate`` use it.

    ``algorithm``, ``config``, ``size_counts``, ``step``, ``data_fingerprint``, ``path``: as in
    ``Checkpoint``. ``domain``: the kind of data that it was trained on. ``sampling``: name and
    arguments of the sampler. ``device``: where it is. ``sharing``: a block inside which processes
    share the work, at the requested precision. ``append``: writes samples as they come; if a
    process by itself has it, a ``Stop`` ends the sampling with those that are finished.
    ``stop_asked``: what comes after the sampling calls it between its parts, and ends with what it
    has. ``another``: reads another checkpoint onto the device, as one with ``algorithm`` and
    ``config``, for what a second model measures.
    """

    path: str
    algorithm: Any
    config: DictConfig
    domain: KindOfData
    size_counts: list[int]
    step: int
    data_fingerprint: str | None
    sampler: Any
    sampling: dict[str, Any]
    device: str
    steps: int | None
    batch_size: int | None
    sharing: Callable[[], AbstractContextManager[Shard]]
    append: Callable[[str], None] | None = None
    stop_asked: Callable[[], bool] = lambda: False
    another: Callable[[str], Any] = field(kw_only=True)

    @property
    def data_config(self) -> DictConfig:
        """The ``config.data`` that it was trained with."""
        return self.config.data

    def on(self, shard: Shard, text: Callable[[Tensor, Any], str] | None = None) -> Model:
        """Its share of the work of a process. ``text``: what ``append`` is to write of rows Int[b]
        and of the samples for them."""
        on_sampled, append = None, self.append
        if append is not None and shard.world_size == 1:  # else none of them has all samples

            def on_sampled(rows: Tensor, drawn: Any) -> None:
                if text is not None:
                    append(text(rows, drawn))

        return Model(
            self.algorithm,
            self.sampler,
            self.device,
            self.steps,
            self.batch_size,
            shard,
            on_sampled,
        )

    def approximations(self, **request: Any) -> list[str]:
        """Why its samples do not follow the model's own distribution; see ``sampling.exactness``,
        which ``request`` is for."""
        return approximations(self.sampler, self.algorithm, steps=self.steps, **request)

    def refuse_overwriting_data(
        self, folder: Path, names: Iterable[str], other: Mapping[str, Any] | None
    ) -> None:
        """``ValueError`` if one of the ``names``, written into a folder, is a file that the model
        was trained on, or one of ``other`` data."""
        names = list(names)
        for data in (self.data_config, other or {}):
            for key, value in data.items():
                if str(key).endswith("path") and isinstance(value, str):
                    refuse_overwriting(folder, names, f"data.{key!s}", [value])

    def check_weights(self) -> None:
        """``ValueError`` for a model that has diverged."""
        if not all(weight.isfinite().all() for weight in self.algorithm.parameters()):
            raise ValueError(
                f"{self.path} cannot be sampled: its weights hold NaN or infinity, training has "
                "diverged; take an earlier checkpoint"
            )
