"""Bubble diagrams as a ``GraphDataset``, with their mirror images."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from discrete_diffusion.data import SPLITS, EncodedGraphs, Examples, GraphDataset, without_held_out
from discrete_diffusion.layout import VocabConfig
from floor_plans.diagrams.symmetries import images

if TYPE_CHECKING:
    from torch import Tensor

    from floor_plans.learning.conditions.facts import Facts


class DiagramDataset(GraphDataset):
    """Diagrams in three splits that are disjoint up to relabelling.

    ``symmetry``: ``mirror`` or ``square`` adds the images of every training diagram, see
    ``SYMMETRIES``, except held-out ones. ``facts``: facts that the condition ``condition`` states
    of every diagram. ``node_order``, ``splits``: as for ``GraphDataset``.
    """

    size_unit = "rooms"

    def __init__(
        self,
        splits: dict[str, EncodedGraphs],
        vocab: VocabConfig,
        *,
        node_order: str,
        symmetry: str = "none",
        facts: Facts | None = None,
    ) -> None:
        self.facts, self.symmetry, self._num_given = facts, symmetry, len(splits["train"])
        # images of training diagrams, except held-out ones
        held_out = [splits[name] for name in SPLITS if name != "train"]
        added = without_held_out(images(splits["train"], vocab, symmetry), held_out, vocab)
        splits = {**splits, "train": EncodedGraphs.joined([splits["train"], added])}
        super().__init__(splits, vocab, node_order=node_order)

    def beside(self, trained_on: DiagramDataset | None) -> DiagramDataset:
        made = super().beside(trained_on)
        if trained_on is not None:
            made._num_given = trained_on._num_given
        return made

    def conditions_of(self, graphs: EncodedGraphs) -> dict[str, Tensor]:
        return {} if self.facts is None else {"condition": self.facts.graph_facts(graphs)}

    def unit_of_bound(self, split: str, num_tokens: float) -> tuple[str, float]:
        return "nats per unordered diagram", 1.0

    def originals(self, split: str) -> Examples:
        """Examples of a split without the images added by ``symmetry``."""
        examples = self.splits[split]
        return examples[torch.arange(self._num_given if split == "train" else len(examples))]

    def summary(self) -> str:
        parts = ", ".join(f"{len(self.splits[name]):,} {name}" for name in SPLITS)
        added = len(self.splits["train"]) - self._num_given
        shown = f" (train with {added:,} {self.symmetry} images)" if added else ""
        return f"{parts} diagrams{shown}; node order {self.node_order}"
