"""What is said of a set of samples: numbers, and something to look at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from discrete_diffusion.data import TokenDataset
from discrete_diffusion.data.bubble_diagrams import BubbleDiagram, decode, write_diagrams
from discrete_diffusion.data.bubble_diagrams.dataset import DiagramDataset
from discrete_diffusion.data.text import TextDataset, vocabulary_of, write_texts
from discrete_diffusion.evaluation.text_scores import TextReference
from discrete_diffusion.layout import VocabConfig
from discrete_diffusion.metrics import DiagramSet, bubble_metrics, structure_metrics
from discrete_diffusion.viz import draw_grid

MAX_DRAWN = 36
SAMPLE_TEXTS = "samples.txt"


class SampleReport:
    """Metrics of samples against a held-out split, and what they look like.

    Bubble diagrams have metrics and a picture, text has metrics and itself; other data has neither
    yet, and reports nothing.
    """

    def __init__(self, data: TokenDataset, split: str = "val") -> None:
        self.vocab = data.vocab if isinstance(data, DiagramDataset) else None
        self.text = data.vocabulary if isinstance(data, TextDataset) else None
        self.reference: DiagramSet | TextReference | None = None  # measured once, for every use
        if len(data.splits[split]) == 0:
            return
        if isinstance(data, DiagramDataset):
            self.reference = DiagramSet(decode(data.splits[split].x0, data.vocab))
        elif isinstance(data, TextDataset):
            self.reference = TextReference(data, split)

    def measure(self, tokens: Tensor) -> dict[str, float]:
        """Sample metrics by name; tokens Int[B, L]."""
        if len(tokens) == 0:
            return {}
        if self.text is not None and isinstance(self.reference, TextReference):
            return self.reference.measure(self.text.decode(tokens))
        if self.vocab is not None and isinstance(self.reference, DiagramSet):
            return bubble_metrics(decode(tokens, self.vocab), self.reference)
        return {}

    def save(self, tokens: Tensor, folder: Path) -> None:
        """Write ``samples.jsonl`` and ``samples.png``, or ``samples.txt``, into a folder."""
        if len(tokens) == 0:
            return
        if self.text is not None:
            write_texts(folder / SAMPLE_TEXTS, self.text.decode(tokens))
        elif self.vocab is not None:
            save_diagrams(decode(tokens, self.vocab), folder)

    def draw(self, tokens: Tensor, path: Path) -> None:
        """Draw the first samples as a grid; text is written beside ``path`` as ``.txt``."""
        first = tokens[:MAX_DRAWN]
        if len(first) == 0:
            return
        if self.text is not None:
            write_texts(path.with_suffix(".txt"), self.text.decode(first))
        elif self.vocab is not None:
            draw_grid(decode(first, self.vocab), path)


def save_diagrams(
    diagrams: Sequence[BubbleDiagram], folder: Path, picture: str = "samples.png"
) -> None:
    """Write ``samples.jsonl`` and a grid of the first ones (.png or .svg) into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    write_diagrams(folder / "samples.jsonl", diagrams)
    draw_grid(diagrams[:MAX_DRAWN], folder / picture)


@dataclass(frozen=True)
class SavedSamples:
    """``path``: the file to look at; ``numbers``: what samples say without a reference."""

    path: Path
    numbers: dict[str, float]


def save_samples(
    tokens: Tensor, data_config: Mapping[str, Any], folder: Path, picture: str = "samples.png"
) -> SavedSamples:
    """Write samples Int[B, L] of a model trained on ``data_config``, which says what they are:
    ``samples.jsonl`` and a picture of diagrams, ``samples.txt`` of text.

    Raises ``ValueError`` for other data.
    """
    if data_config.get("n_max") is not None:
        diagrams = decode(tokens, VocabConfig(n_max=data_config["n_max"]))
        save_diagrams(diagrams, folder, picture)
        return SavedSamples(folder / picture, structure_metrics(diagrams))
    if data_config.get("tokens") is None:
        raise ValueError(
            f"samples of data '{data_config.get('name')}' cannot be written: they are neither "
            "diagrams nor text; draw them in Python, with discrete_diffusion.load"
        )
    path = folder / SAMPLE_TEXTS
    write_texts(path, vocabulary_of(data_config).decode(tokens))
    return SavedSamples(path, {})
