"""The report on generated summaries: numbers, examples, a file."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from continuous_states.dialogue.dataset import PairDataset
from continuous_states.dialogue.summarising import Summaries, summarise_held_out
from continuous_states.dialogue.summary_scores import SourceGap, score_summarising, source_gap
from continuous_states.reporting import known_numbers
from discrete_diffusion.contracts import BoundEstimate
from discrete_diffusion.evaluation import Headline, Report, plus_minus
from discrete_diffusion.runtime import write_text

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from discrete_diffusion.sampling import Model

logger = logging.getLogger(__name__)


class SummaryReport(Report):
    """Scores of summaries of the first pairs of a split beside those of baselines; files."""

    headlines = (
        Headline("exact_match", share=True),
        Headline("slot_accuracy", share=True),
        Headline("rouge_l"),
        Headline("shuffled_rouge_l"),
    )

    def __init__(
        self, data: PairDataset, split: str = "val", config: DictConfig | None = None
    ) -> None:
        self.data, self.split, self.config = data, split, config

    def sample(self, model: Model, num: int, seed: int, stream: tuple[int, ...] = ()) -> Summaries:
        return summarise_held_out(model, self.data, self.split, num=num, seed=seed + sum(stream))

    def model_facts(self, model: Model, num: int, *, draws: int, seed: int) -> dict[str, Any]:
        """Information that the own dialogue gives about the summaries that are sampled."""
        gap = self.source_gap(model, num, draws=draws, seed=seed)
        return {} if gap is None else gap.as_dict()

    def source_gap(
        self, model: Model, num: int | None, *, draws: int, seed: int
    ) -> SourceGap | None:
        """Gap of the first ``num`` pairs, all if it is None; None where the bound is of something
        else than a summary, or of one pair."""
        num_pairs = len(self.data.pairs[self.split][:num])
        bound = model.algorithm.bound or self.data.bound
        if num_pairs < 2 or not self.data.others(self.split) or bound != self.data.bound:
            return None
        rows = torch.arange(num_pairs)
        return source_gap(model, self.data, self.split, rows, draws=draws, entropy=(seed,))

    def findings(self, bound: BoundEstimate, samples: Summaries) -> dict[str, Any]:
        if len(samples):
            logger.info("%s", samples.examples())
        return super().findings(bound, samples)

    def summary(self, metrics: Mapping[str, Any]) -> str:
        bound = next(name for name in metrics if name.startswith("nelbo_"))
        shown = plus_minus(metrics[bound], metrics["nelbo_standard_error"], 2)
        parts = [f"{bound} {shown} nats"]
        if (gap := metrics.get("nelbo_source_gap")) is not None:
            parts.append(f"{gap:+.2f} beside another dialogue")
        if "rouge_l" in metrics:
            others = {"another_rouge_l": "another summary", "shuffled_rouge_l": "another dialogue"}
            parts.append(f"ROUGE-L {metrics['rouge_l']:.3f} ({known_numbers(metrics, others)})")
        parts += [
            f"{name.replace('_', ' ')} {100 * metrics[name]:.1f} %"
            for name in ("exact_match", "slot_accuracy")
            if name in metrics
        ]
        return f"metrics: {', '.join(parts)}  [{metrics.get('num_summaries', 0)} summaries]"

    def measure(self, found: Summaries) -> dict[str, float]:
        """Scores by name; none of no summary."""
        return score_summarising(found, self.data) if len(found) else {}

    def save(self, found: Summaries, folder: Path) -> None:
        """Write ``samples.jsonl`` into a folder."""
        if len(found):
            found.write(folder)

    def plot(self, found: Summaries, path: Path) -> None:
        """Write the first ones as text beside ``path``, as ``.txt``."""
        if len(found):
            write_text(path.with_suffix(".txt"), found.examples() + "\n")
