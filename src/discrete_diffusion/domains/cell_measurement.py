"""Measurement of a cell of ``compare``, a trained model, for a kind of data."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from discrete_diffusion.evaluation.comparison import BOUND, Column, Measure
from discrete_diffusion.evaluation.evaluation_protocol import (
    held_out_bounds,
    score_real_data,
    score_samples,
)
from discrete_diffusion.evaluation.measured_data import held_out_split

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from discrete_diffusion.algorithms.base import Algorithm
    from discrete_diffusion.evaluation.comparison import Baseline, Comparison
    from discrete_diffusion.evaluation.evaluation_protocol import EvaluationProtocol
    from discrete_diffusion.evaluation.report import TokenReport
    from discrete_diffusion.sampling.model import Model

SampleScore = Callable[[list[Any]], Sequence[float | None]]
"""Function that scores samples; None for a sample of unknown score."""


class CellMeasurement(ABC):
    """Measurement of the cells of a comparison, and baselines for their numbers.

    ``measures``: what is measured for each held-out sample, in the order of the table; ``nelbo`` is
    the bound. ``columns``: metrics of the table. ``axes``: metrics or measures for the figure, the
    first of which is shown.
    """

    measures: ClassVar[Mapping[str, Measure]] = {"nelbo": BOUND}
    columns: tuple[Column, ...] = ()
    axes: tuple[Column, ...] = ()

    def refusal(self, algorithm: Algorithm, num_samples: int) -> str | None:
        """Reason why an algorithm with so many samples has no number to compare, or None.

        ``algorithm``: built without memory for its weights.
        """
        return None

    def check_same(self, one: Any, other: Any) -> None:
        """Raise ``ValueError`` unless two data sets hold the same samples."""
        if one.fingerprint() != other.fingerprint():
            raise ValueError(f"two data sets: {one.summary()}; {other.summary()}; expected one")

    @abstractmethod
    def measure(
        self, model: Model, data: Any, protocol: EvaluationProtocol, folder: Path
    ) -> dict[str, Any]:
        """Measure a trained model; return the contents of ``cell.json``: ``metrics``, the numbers
        of each measure and, with ``bounds``, the numbers of ``nelbo``, their ``quantity``,
        ``ordering`` and ``rows``. Samples may be written into ``folder``.

        Raises ``ValueError`` if the numbers show that training went wrong.
        """

    def baselines(self, data: Any, num: int) -> tuple[Baseline, ...]:
        """Baselines, which need no network, on the first ``num`` held-out samples."""
        return ()

    def real_data(self, data: Any, num_samples: int, verdicts: int = 0) -> dict[str, float]:
        """Metrics of real data in place of ``num_samples`` samples of a model, or of ``verdicts``
        samples for slow metrics."""
        return {}

    def num_draws(self, config: DictConfig) -> int:
        """Number of samples for each held-out sample, from the config of a cell; 0 without a
        condition."""
        return 0

    def num_verdicts(self, config: DictConfig) -> int:
        """Number of samples for slow metrics, from the config of a cell; 0 if it has no such
        metrics."""
        return 0

    def notes(self, comparison: Comparison) -> list[str]:
        """Sentences under the table."""
        return []

    def show(self, comparison: Comparison, out: Path) -> list[str]:
        """Write samples of all models for comparison into ``out``; return the names of files."""
        return []


class TokenCells(CellMeasurement):
    """Measurement of models of tokens: the bound of held-out samples, and metrics of fresh samples.

    ``report``: measures the samples, and names columns and axes.
    """

    def __init__(self, report: type[TokenReport]) -> None:
        self._report = report
        self.columns, self.axes = report.columns, report.axes

    def report(self, data: Any, verdicts: int = 0) -> TokenReport:
        """Build the report against the held-out split. ``verdicts``: number of samples for slow
        metrics."""
        return self._report(data, held_out_split(data))

    def measure(
        self, model: Model, data: Any, protocol: EvaluationProtocol, folder: Path
    ) -> dict[str, Any]:
        bounds = held_out_bounds(model.algorithm, data, protocol, device=model.device)
        metrics = score_samples(model, data, protocol, self.report(data, protocol.verdicts))
        return {**bounds.as_dict(), "metrics": metrics}

    def real_data(self, data: Any, num_samples: int, verdicts: int = 0) -> dict[str, float]:
        return score_real_data(data, num_samples, self.report(data))
