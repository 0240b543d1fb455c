"""Bubble diagrams as a ``TokenDataset``: splits by distinct diagram, and the node order."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from discrete_diffusion.categorical import make_generator
from discrete_diffusion.data.base import SPLITS, Examples, TokenDataset, shares_of
from discrete_diffusion.domains.bubble_diagrams.canonical import canonical_orders
from discrete_diffusion.domains.bubble_diagrams.symmetries import images
from discrete_diffusion.domains.bubble_diagrams.tokens import (
    EncodedDiagrams,
    random_orders,
    relabel,
)
from discrete_diffusion.layout import VocabConfig
from discrete_diffusion.naming import unknown_name
from discrete_diffusion.types import Batch

NODE_ORDERS = ("random", "canonical", "given")


class DiagramDataset(TokenDataset):
    """Diagrams in three splits that share no diagram, not even relabelled.

    ``node_order``: rooms carry no order, so tokens need one. ``random`` relabels the rooms each
    time a diagram is drawn; ``canonical`` computes one from the diagram alone, so equal diagrams
    get equal tokens; ``given`` keeps the source's.

    ``symmetry``: ``mirror`` or ``square`` adds the images of every training diagram, see
    ``SYMMETRIES``, except those that are held out themselves.

    ``splits``: encoded diagrams by split name; build them with ``split_by_diagram``.
    """

    size_unit = "rooms"

    def __init__(
        self,
        splits: dict[str, EncodedDiagrams],
        vocab: VocabConfig,
        *,
        node_order: str,
        symmetry: str = "none",
    ) -> None:
        if node_order not in NODE_ORDERS:
            raise ValueError(unknown_name("node order", node_order, NODE_ORDERS))
        self.vocab, self.layout, self.node_order = vocab, vocab.layout(), node_order
        self.bound = "ordered_random" if node_order == "random" else "ordered_fixed"
        self.symmetry, self._num_given = symmetry, len(splits["train"])
        held_out = [splits[name] for name in SPLITS if name != "train"]
        added = without_held_out(images(splits["train"], vocab, symmetry), held_out, vocab)
        splits = {**splits, "train": joined([splits["train"], added])}
        self.splits = {name: self._examples(splits[name]) for name in SPLITS}

    def unit_of_bound(self, split: str, num_tokens: float) -> tuple[str, float]:
        return "nats per unordered diagram", 1.0

    def originals(self, split: str) -> Examples:
        """A split without the images that ``symmetry`` has added."""
        examples = self.splits[split]
        return examples[torch.arange(self._num_given if split == "train" else len(examples))]

    def _examples(self, diagrams: EncodedDiagrams) -> Examples:
        x0, num_rooms = diagrams.x0, diagrams.num_rooms
        orders = canonical_orders(x0, num_rooms, self.vocab)
        if self.node_order == "canonical":
            x0 = relabel(x0, num_rooms, orders.orders, self.vocab)
        return Examples(x0, diagrams.real, orders.log_num_orders)

    def augment(self, examples: Examples, generator: torch.Generator) -> Batch:
        if self.node_order != "random":
            orders = torch.zeros(len(examples), dtype=torch.float64)
            return Batch(examples.x0, examples.real, orders)
        return self.exchangeable(examples, generator)

    def exchangeable(self, examples: Examples, generator: torch.Generator) -> Batch:
        """The examples under a uniformly random order of their rooms."""
        num_rooms = self.sizes(examples)
        order = random_orders(num_rooms, self.vocab.n_max, generator)
        x0 = relabel(examples.x0, num_rooms, order, self.vocab)
        return Batch(x0, examples.real, examples.log_num_orders)

    def real_positions(self, sizes: Tensor) -> Tensor:
        return self.vocab.real_positions(sizes)

    def sizes(self, examples: Examples) -> Tensor:
        return examples.real[:, : self.vocab.n_max].sum(dim=1)

    def summary(self) -> str:
        parts = ", ".join(f"{len(self.splits[name]):,} {name}" for name in SPLITS)
        added = len(self.splits["train"]) - self._num_given
        shown = f" (train with {added:,} {self.symmetry} images)" if added else ""
        return f"{parts} diagrams{shown}; node order {self.node_order}"


def split_by_diagram(
    diagrams: EncodedDiagrams, vocab: VocabConfig, *, fractions: Sequence[float], seed: int
) -> dict[str, EncodedDiagrams]:
    """Split so that a diagram and its relabellings stay together; repeats keep their weight.

    ``fractions``: shares of train, val and test *distinct* diagrams, summing to 1.
    Raises ``ValueError`` for other fractions.
    """
    keys = distinct_keys(diagrams, vocab)
    num = int(keys.max()) + 1 if len(keys) else 0
    order = torch.randperm(num, generator=make_generator(seed))
    parts = shares_of(num, fractions)
    return {name: diagrams[torch.isin(keys, order[part])] for name, part in parts.items()}


def without_held_out(
    train: EncodedDiagrams, held_out: Sequence[EncodedDiagrams], vocab: VocabConfig
) -> EncodedDiagrams:
    """The training diagrams that are not, up to relabelling, among the held-out ones."""
    if len(train) == 0:
        return train
    keys = distinct_keys(joined([train, *held_out]), vocab)
    return train[~torch.isin(keys[: len(train)], keys[len(train) :])]


def distinct_keys(diagrams: EncodedDiagrams, vocab: VocabConfig) -> Tensor:
    """Int[M]: equal for diagrams equal up to relabelling, numbered 0, 1, ..."""
    if len(diagrams) == 0:
        return torch.zeros(0, dtype=torch.long)
    orders = canonical_orders(diagrams.x0, diagrams.num_rooms, vocab).orders
    canonical = relabel(diagrams.x0, diagrams.num_rooms, orders, vocab)
    return canonical.unique(dim=0, return_inverse=True)[1]


def joined(parts: Sequence[EncodedDiagrams]) -> EncodedDiagrams:
    """Diagrams one after the other."""
    return EncodedDiagrams(
        *(torch.cat([getattr(p, f) for p in parts]) for f in ("x0", "real", "num_rooms"))
    )
