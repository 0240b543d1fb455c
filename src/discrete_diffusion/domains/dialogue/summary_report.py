"""What is said of generated summaries: a table, examples, a file."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discrete_diffusion.domains.dialogue import PairDataset
from discrete_diffusion.domains.dialogue.summarising import Summaries, summarise_held_out
from discrete_diffusion.domains.dialogue.summary_scores import (
    SourceGap,
    SummarisingScores,
    measure_source_gap,
    score_summarising,
)
from discrete_diffusion.domains.domain import Headline, Report
from discrete_diffusion.evaluation.bound import BoundEstimate
from discrete_diffusion.evaluation.table import TableRow, TableSection
from discrete_diffusion.whole_files import written_whole

if TYPE_CHECKING:
    from discrete_diffusion.evaluation.trained_model import Model

logger = logging.getLogger(__name__)

SUMMARIES = "samples.jsonl"

_LONGEST_SHOWN = 2_000
"""Characters of a dialogue among examples."""

_WHO = {
    "{}": "the model",
    "shuffled_{}": "the model, from the dialogue of another pair",
    "another_{}": "the reference of another pair",
    "most_frequent_{}": "the most frequent training summary",
}
_WHAT = {
    "rouge_l": "F1 of the longest common subsequence of words with the reference",
    "exact_match": "share of summaries that are the reference",
    "slot_accuracy": "share of right slots",
    "distinct": "share of distinct summaries",
}


class SummaryReport(Report):
    """Scores of summaries of the first pairs of a split beside those of baselines; files."""

    headlines = (
        Headline("exact_match", share=True),
        Headline("slot_accuracy", share=True),
        Headline("rouge_l"),
        Headline("shuffled_rouge_l"),
    )

    def __init__(self, data: PairDataset, split: str = "val") -> None:
        self.data, self.split = data, split

    def sample(self, model: Model, num: int, seed: int, stream: tuple[int, ...] = ()) -> Summaries:
        return self.summarise(model, num, seed + sum(stream))

    def summarise(
        self, model: Model, num: int | None, seed: int, *, shuffled: bool = True
    ) -> Summaries:
        """Of the first ``num`` dialogues, all if it is None; ``shuffled``: of others too."""
        return summarise_held_out(
            model, self.data, self.split, num=num, seed=seed, shuffled=shuffled
        )

    def model_facts(self, model: Model, num: int, *, draws: int, seed: int) -> dict[str, Any]:
        """What the own dialogue tells, of the summaries that are drawn."""
        gap = self.source_gap(model, num, draws=draws, seed=seed)
        return {} if gap is None else gap.as_dict()

    def source_gap(
        self, model: Model, num: int | None, *, draws: int, seed: int
    ) -> SourceGap | None:
        """Of the first ``num`` pairs, all if it is None; None where the bound is of something else
        than a summary, or of one pair."""
        num_pairs = len(self.data.pairs[self.split][:num])
        bound = model.algorithm.bound or self.data.bound
        if num_pairs < 2 or not self.data.others(self.split) or bound != self.data.bound:
            return None
        return measure_source_gap(
            model.algorithm,
            self.data,
            self.split,
            num=num,
            draws=draws,
            seed=seed,
            batch_size=model.rows_at_once,
            device=model.device,
            shard=model.shard,
        )

    def findings(self, bound: BoundEstimate, samples: Summaries) -> dict[str, Any]:
        if len(samples):
            logger.info("%s", example_summaries(samples))
        return super().findings(bound, samples)

    def summary(self, metrics: Mapping[str, Any]) -> str:
        bound = next(name for name in metrics if name.startswith("nelbo_"))
        parts = [f"{bound} {metrics[bound]:.2f} ± {metrics['nelbo_standard_error']:.2f} nats"]
        if (gap := metrics.get("nelbo_source_gap")) is not None:
            parts.append(f"{gap:+.2f} beside another dialogue")
        if "rouge_l" in metrics:
            others = [
                f"{name} {metrics[key]:.3f}"
                for name, key in (
                    ("another summary", "another_rouge_l"),
                    ("another dialogue", "shuffled_rouge_l"),
                )
                if key in metrics
            ]
            parts.append(f"ROUGE-L {metrics['rouge_l']:.3f} ({', '.join(others)})")
        parts += [
            f"{name.replace('_', ' ')} {100 * metrics[name]:.1f} %"
            for name in ("exact_match", "slot_accuracy")
            if name in metrics
        ]
        return f"metrics: {', '.join(parts)}  [{metrics.get('num_summaries', 0)} summaries]"

    def scores(self, found: Summaries) -> SummarisingScores:
        """Model and baselines."""
        return score_summarising(found, self.data)

    def measure(self, found: Summaries) -> dict[str, float]:
        """Scores by name; none of no summary."""
        return self.scores(found).as_dict() if len(found) else {}

    def save(self, found: Summaries, folder: Path) -> None:
        """Write ``samples.jsonl`` into a folder."""
        if len(found):
            write_summaries(folder, found)

    def draw(self, found: Summaries, path: Path) -> None:
        """Write the first ones as text beside ``path``, as ``.txt``."""
        if len(found):
            path.with_suffix(".txt").write_text(example_summaries(found) + "\n", encoding="utf-8")


def summary_section(scores: SummarisingScores) -> TableSection:
    """Everybody's numbers, one metric after the other (± standard error over summaries), then the
    model's slots."""
    values = scores.as_dict()
    rows = [
        _row(name, values, f"{meaning}; {whose}")
        for what, meaning in _WHAT.items()
        for who, whose in _WHO.items()
        if (name := who.format(what)) in values
    ]
    rows += [
        _row(f"slot_{name}", values, "share of summaries with this slot right; the model")
        for name in scores.model.slots
    ]
    return TableSection("summaries of dialogues", tuple(rows))


def summary_notes(scores: SummarisingScores) -> list[str]:
    """What the numbers of ``summary_section`` are of, in sentences."""
    return [
        f"{scores.num_summaries:,} held-out dialogues, one summary each, {scores.calls:g} network "
        "calls a summary; ± is the standard error over summaries."
    ]


def example_summaries(found: Summaries, num: int = 5) -> str:
    """The first ``num`` dialogues as text, the middle of long ones left out, each with its
    reference, if there is one, and what was generated."""
    shown = zip(found.dialogues, found.references, found.generated, strict=True)
    return "\n\n".join(
        _shortened(dialogue)
        + (f"\n  reference: {reference}" * bool(reference))
        + f"\n  generated: {generated}"
        for dialogue, reference, generated in list(shown)[:num]
    )


def _shortened(text: str) -> str:
    half = _LONGEST_SHOWN // 2
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:half]} [...] {text[-half:]}"


def write_summaries(
    folder: Path, found: Summaries, beside: Sequence[Mapping[str, Any]] | None = None
) -> None:
    """Write ``samples.jsonl`` into a folder: ``dialogue``, ``summary`` (generated) and, where there
    is one, ``reference``, a JSON object per line. ``beside``: further keys of each; half
    characters in them are written as escapes."""
    texts = zip(found.dialogues, found.generated, found.references, strict=True)
    lines = [
        json.dumps(
            {**more, "dialogue": d, "summary": s, **({"reference": r} if r else {})},
            ensure_ascii=False,
        )
        for more, (d, s, r) in zip(beside or [{}] * len(found), texts, strict=True)
    ]
    folder.mkdir(parents=True, exist_ok=True)
    with written_whole(folder / SUMMARIES) as unfinished:
        unfinished.write_text(
            "".join(f"{line}\n" for line in lines), encoding="utf-8", errors="backslashreplace"
        )


def read_summaries(folder: Path) -> list[dict[str, str]]:
    """The lines that ``write_summaries`` wrote into a folder; none if it did not."""
    if not (file := folder / SUMMARIES).is_file():
        return []
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def _row(name: str, values: dict[str, float], meaning: str) -> TableRow:
    text = f"{values[name]:.4f}"
    if (error := values.get(f"{name}_standard_error")) is not None:
        text += f" ± {error:.4f}"
    return TableRow(name, text, meaning=meaning)
