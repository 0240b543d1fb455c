"""Common part of all reports of fresh samples of tokens."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from torch import Tensor

from discrete_diffusion.contracts import BoundEstimate
from discrete_diffusion.evaluation.bound import blind_bounds
from discrete_diffusion.evaluation.comparison import Column
from discrete_diffusion.evaluation.intervals import plus_minus
from discrete_diffusion.evaluation.report import Headline, Report
from discrete_diffusion.evaluation.token_samples import TokenSamples, fresh_sizes, sample_tokens

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from discrete_diffusion.data.base import TokenDataset
    from discrete_diffusion.sampling.model import Model


class TokenReport(Report):
    """Fresh samples Int[num, L] of a model of tokens, beside a split of ``data``.

    ``axes``: the figure of ``compare`` shows the first of them that was measured. ``axes`` and
    ``headlines`` are the ``columns`` unless they are set. ``config``: of ``train``, None where
    nothing of it is needed.
    """

    axes: ClassVar[tuple[Column, ...]] = ()

    def __init_subclass__(cls) -> None:
        cls.axes = cls.axes or cls.columns
        named = tuple(Headline(each.name, each.share, each.counted) for each in cls.columns)
        cls.headlines = cls.headlines or named

    def __init__(
        self, data: TokenDataset, split: str = "val", config: DictConfig | None = None
    ) -> None:
        self.data, self.split, self.config = data, split, config

    def sample(self, model: Model, num: int, seed: int, stream: tuple[int, ...] = ()) -> Tensor:
        return self.drawn(model, num, seed, stream).tokens

    def drawn(
        self, model: Model, num: int, seed: int, stream: tuple[int, ...] = ()
    ) -> TokenSamples:
        """``sample`` with the network calls that it took."""
        entropy = (seed, *stream)
        sizes = fresh_sizes(num, self.data.size_counts(), entropy=entropy)
        return sample_tokens(model, self.data.real_positions(sizes), entropy=entropy)

    def measure_real(self, num: int) -> dict[str, float]:
        """``measure`` of the split itself, beside that of ``num`` samples."""
        return self.measure(self.data.splits[self.split].x0)

    def plot(self, samples: Tensor, path: Path) -> None:
        """Unless overridden, there is no picture."""

    def findings(self, bound: BoundEstimate, samples: Tensor) -> dict[str, Any]:
        return {
            **bound.as_dict(),
            **self.data.further_bounds(self.split, bound),
            **blind_bounds(self.data, self.split),
            "num_samples": len(samples),
            **self.measure(samples),
        }

    def summary(self, metrics: Mapping[str, Any]) -> str:
        bound = next((k for k in metrics if k.startswith("nelbo_unordered")), None) or next(
            k for k in metrics if k.startswith("nelbo_")
        )
        error = metrics.get(f"{bound}_standard_error", metrics["nelbo_standard_error"])
        baselines = f"blind {metrics['nelbo_blind']:.2f}, untrained {metrics['nelbo_uniform']:.2f}"
        if (start := metrics.get("nelbo_uniform_ordered_fixed")) is not None:
            baselines += f"; of one order {metrics['nelbo_blind_ordered_fixed']:.2f}, {start:.2f}"
        shown = [each for each in self.headlines if each.name in metrics]
        parts = [
            f"{bound} {plus_minus(metrics[bound], error, 2)} nats ({baselines})",
            *self.further_parts(metrics),
            *(
                each.format(
                    metrics[each.name],
                    None if each.counted == "num_samples" else metrics.get(each.counted),
                )
                for each in shown
            ),
        ]
        return f"metrics: {', '.join(parts)}  [{metrics['num_samples']} samples]"

    def further_parts(self, metrics: Mapping[str, Any]) -> list[str]:
        """Text between the bound and the headlines of the last line."""
        return []
