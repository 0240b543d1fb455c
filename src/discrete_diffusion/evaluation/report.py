"""Reports on samples, samples that are not written yet, and evaluations."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from torch import Tensor

from discrete_diffusion.contracts import BoundEstimate
from discrete_diffusion.evaluation.bound import blind_bounds
from discrete_diffusion.evaluation.comparison import Column
from discrete_diffusion.evaluation.sample_scores import plus_minus
from discrete_diffusion.evaluation.tables import TableSection, markdown, write_metrics
from discrete_diffusion.evaluation.trained_model import TokenSamples, fresh_sizes, sample_tokens
from discrete_diffusion.runtime.atomic_files import write_text

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from discrete_diffusion.data.base import TokenDataset
    from discrete_diffusion.sampling.model import Model


@dataclass(frozen=True)
class Headline:
    """A number measured on samples, logged while a model trains.

    ``share``: True if shown as percent; ``counted``: the metric that is the number of samples of a
    share.
    """

    name: str
    share: bool = False
    counted: str = "num_samples"

    def format(self, value: float, num: int | None = None) -> str:
        """Format as ``transitive 98.7 %``, or ``mean error 0.412``; ``-`` for NaN.

        A share of ``num`` samples is followed by the number: ``buildable 95.0 % of 40``.
        """
        number = f"{100 * value:.1f} %" if self.share else f"{value:.3f}"
        shown = f"{self.name.replace('_', ' ')} {'-' if math.isnan(value) else number}"
        return shown if num is None else f"{shown} of {num:,}"


class Report(ABC):
    """Methods that sample, measure, write and plot samples, compared with a split of a data set.

    ``headlines``: numbers that are logged while a model trains; ``columns``: numbers in the table
    of ``compare``.
    """

    headlines: ClassVar[tuple[Headline, ...]] = ()
    columns: ClassVar[tuple[Column, ...]] = ()

    @abstractmethod
    def sample(self, model: Model, num: int, seed: int, stream: tuple[int, ...] = ()) -> Any:
        """Sample ``num`` times; the samples are a function of weights, ``seed`` and ``stream``.

        ``stream`` keeps them apart from other samples of that seed. The processes of
        ``model.shard`` share the work, and each gets all samples.
        """

    @abstractmethod
    def measure(self, samples: Any) -> dict[str, float]:
        """Measure samples: numbers by name; {} without samples."""

    @abstractmethod
    def save(self, samples: Any, folder: Path) -> None:
        """Write samples, and a picture if there is one, into a folder."""

    @abstractmethod
    def plot(self, samples: Any, path: Path) -> None:
        """Plot the first samples; texts are written next to ``path``, as ``.txt``."""

    def model_facts(self, model: Model, num: int, *, draws: int, seed: int) -> dict[str, Any]:
        """Measure a model further on ``num`` held-out samples, with ``draws`` noise samples each.

        Every process calls this method.
        """
        return {}

    def findings(self, bound: BoundEstimate, samples: Any) -> dict[str, Any]:
        """Entries of ``metrics.json`` of a run on the bound and on the samples."""
        return {**bound.as_dict(), **self.measure(samples)}

    @abstractmethod
    def summary(self, metrics: Mapping[str, Any]) -> str:
        """Format the last line of a run, from its ``metrics.json``."""


@dataclass(frozen=True)
class SavedSamples:
    """Samples on disk. ``facts``: entries of ``metrics.json``; ``log_line``: line for the log."""

    facts: dict[str, Any]
    log_line: str


@dataclass(frozen=True)
class Samples:
    """Samples that are not written yet.

    ``samples``: samples as returned in Python; ``write``: measures them and writes them into
    ``config.out``.
    """

    samples: Any
    write: Callable[[], SavedSamples]


class Evaluation(ABC):
    """Result of ``evaluate``."""

    @abstractmethod
    def metrics(self) -> dict[str, Any]:
        """Entries of ``metrics.json``."""

    @abstractmethod
    def sections(self) -> list[TableSection]:
        """Tables of the results."""

    @abstractmethod
    def notes(self) -> list[str]:
        """Notes on how to read the tables."""

    def save(self, folder: Path) -> None:
        """Write the samples, if there are any."""

    def plot(self, folder: Path) -> None:
        """Write the pictures, if there are any."""

    def write(self, folder: Path, facts: Mapping[str, Any], head: str) -> None:
        """Write ``metrics.json`` with further ``facts``, ``table.md`` below ``head``, and samples.

        Warns if numbers are not finite.
        """
        write_metrics(folder, {**facts, **self.metrics()})
        write_text(folder / "table.md", markdown(self.sections(), self.notes(), head))
        self.save(folder)


def scalars_first(found: Mapping[str, Any]) -> dict[str, Any]:
    """Put single numbers before lists and tables."""
    scalars = {k: v for k, v in found.items() if not isinstance(v, dict | list)}
    return {**scalars, **found}


class TokenReport(Report):
    """Report on fresh samples Int[num, L] of a model of tokens, with a split of ``data``.

    ``axes``: candidates for the figure of ``compare``, which shows the first measured. ``axes`` and
    ``headlines`` are the ``columns`` unless they are set. ``config``: config of ``train``, or None.
    """

    axes: ClassVar[tuple[Column, ...]] = ()

    def __init_subclass__(cls) -> None:
        # columns stand in for what a class does not set
        cls.axes = cls.axes or cls.columns
        named = tuple(Headline(each.name, each.share, each.counted) for each in cls.columns)
        cls.headlines = cls.headlines or named

    def __init__(
        self, data: TokenDataset, split: str = "val", config: DictConfig | None = None
    ) -> None:
        self.data, self.split, self.config = data, split, config

    def sample(self, model: Model, num: int, seed: int, stream: tuple[int, ...] = ()) -> Tensor:
        return self.sample_with_calls(model, num, seed, stream).tokens

    def sample_with_calls(
        self, model: Model, num: int, seed: int, stream: tuple[int, ...] = ()
    ) -> TokenSamples:
        """Sample as ``sample`` does, with network calls and seconds."""
        entropy = (seed, *stream)
        sizes = fresh_sizes(num, self.data.size_counts(), entropy=entropy)
        clamp = self.data.clamp(self.split, num)
        return sample_tokens(model, self.data.real_positions(sizes), entropy=entropy, clamp=clamp)

    def measure_real(self, num: int) -> dict[str, float]:
        """Measure the split itself, to compare with ``num`` samples."""
        return self.measure(self.data.splits[self.split].x0)

    def plot(self, samples: Tensor, path: Path) -> None:
        pass  # unless overridden

    def findings(self, bound: BoundEstimate, samples: Tensor) -> dict[str, Any]:
        return {
            **bound.as_dict(),
            **self.data.further_bounds(self.split, bound),
            **blind_bounds(self.data, self.split),
            "num_samples": len(samples),
            **self.measure(samples),
        }

    def summary(self, metrics: Mapping[str, Any]) -> str:
        # the bound and its baselines
        bound = next((k for k in metrics if k.startswith("nelbo_unordered")), None) or next(
            k for k in metrics if k.startswith("nelbo_")
        )
        error = metrics.get(f"{bound}_standard_error", metrics["nelbo_standard_error"])
        baselines = f"blind {metrics['nelbo_blind']:.2f}, untrained {metrics['nelbo_uniform']:.2f}"
        if (start := metrics.get("nelbo_uniform_ordered_fixed")) is not None:
            baselines += f"; of one order {metrics['nelbo_blind_ordered_fixed']:.2f}, {start:.2f}"
        # shares with their numbers of samples, unless that is the number of all
        parts = [f"{bound} {plus_minus(metrics[bound], error, 2)} nats ({baselines})"]
        parts += self.further_parts(metrics)
        for each in self.headlines:
            if each.name in metrics:
                num = None if each.counted == "num_samples" else metrics.get(each.counted)
                parts.append(each.format(metrics[each.name], num))
        return f"metrics: {', '.join(parts)}  [{metrics['num_samples']} samples]"

    def further_parts(self, metrics: Mapping[str, Any]) -> list[str]:
        """Text between the bound and the headlines of the last line."""
        return []
