"""What is said of a set of samples: numbers and a picture, if the data has any."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from torch import Tensor

from discrete_diffusion.data import TokenDataset
from discrete_diffusion.data.bubble_diagrams import BubbleDiagram, decode, write_diagrams
from discrete_diffusion.data.bubble_diagrams.dataset import DiagramDataset
from discrete_diffusion.metrics import DiagramSet, bubble_metrics
from discrete_diffusion.viz import draw_grid

MAX_DRAWN = 36


class SampleReport:
    """Metrics of samples against a held-out split, and their picture.

    Bubble diagrams have both; other data has neither yet, and reports nothing.
    """

    def __init__(self, data: TokenDataset, split: str = "val") -> None:
        self.vocab = data.vocab if isinstance(data, DiagramDataset) else None
        self.reference: DiagramSet | None = None  # measured once, for every validation
        if self.vocab is not None and len(data.splits[split]):
            self.reference = DiagramSet(decode(data.splits[split].x0, self.vocab))

    def measure(self, tokens: Tensor) -> dict[str, float]:
        """Sample metrics by name; tokens Int[B, L]."""
        if self.vocab is None or self.reference is None or len(tokens) == 0:
            return {}
        return bubble_metrics(decode(tokens, self.vocab), self.reference)

    def save(self, tokens: Tensor, folder: Path) -> None:
        """Write ``samples.jsonl`` and ``samples.png`` into a folder."""
        if self.vocab is None or len(tokens) == 0:
            return
        save_diagrams(decode(tokens, self.vocab), folder)

    def draw(self, tokens: Tensor, path: Path) -> None:
        """Draw the first samples as a grid."""
        if self.vocab is not None and len(tokens):
            draw_grid(decode(tokens[:MAX_DRAWN], self.vocab), path)


def save_diagrams(
    diagrams: Sequence[BubbleDiagram], folder: Path, picture: str = "samples.png"
) -> None:
    """Write ``samples.jsonl`` and a grid of the first ones (.png or .svg) into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    write_diagrams(folder / "samples.jsonl", diagrams)
    draw_grid(diagrams[:MAX_DRAWN], folder / picture)
