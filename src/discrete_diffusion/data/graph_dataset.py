"""Graphs as a ``TokenDataset``: splits by distinct graph, and the order of the nodes."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

import torch
from torch import Tensor

from discrete_diffusion.categorical import make_generator
from discrete_diffusion.config.naming import unknown_name
from discrete_diffusion.contracts import Batch
from discrete_diffusion.data.base import SPLITS, Examples, TokenDataset, shares_of
from discrete_diffusion.data.canonical import canonical_orders
from discrete_diffusion.data.graph_tokens import EncodedGraphs, random_orders, relabel
from discrete_diffusion.layout.vocab_config import VocabConfig

NODE_ORDERS = ("random", "canonical", "given")


class GraphDataset(TokenDataset):
    """Graphs in three splits.

    ``node_order``: nodes carry no order, so tokens need one. ``random`` relabels the nodes each
    time a graph is read; ``canonical`` computes an order from the graph alone, so equal graphs get
    equal tokens; ``given`` keeps the source's. A domain may have further orders of its own: it then
    orders the nodes itself and names them in ``fixed_orders``.

    ``splits``: encoded graphs by split name, such as those of ``split_by_graph``.
    ``log_num_orders``: by split, Float64[M] log(n!/|Aut G|), where the caller knows it; else it is
    computed, together with the canonical order.
    """

    size_unit = "nodes"
    fixed_orders: tuple[str, ...] = ()

    def __init__(
        self,
        splits: Mapping[str, EncodedGraphs],
        vocab: VocabConfig,
        *,
        node_order: str,
        log_num_orders: Mapping[str, Tensor] | None = None,
    ) -> None:
        known = (*NODE_ORDERS, *self.fixed_orders)
        if node_order not in known:
            raise ValueError(unknown_name("node order", node_order, known))
        self.vocab, self.layout, self.node_order = vocab, vocab.layout(), node_order
        self.bound = "ordered_random" if node_order == "random" else "ordered_fixed"
        orders = log_num_orders or {}
        self.splits = {name: self._examples(splits[name], orders.get(name)) for name in SPLITS}

    def _examples(self, graphs: EncodedGraphs, log_num_orders: Tensor | None) -> Examples:
        x0 = graphs.x0
        if log_num_orders is None or self.node_order == "canonical":
            found = canonical_orders(x0, graphs.num_nodes, self.vocab)
            log_num_orders = found.log_num_orders
            if self.node_order == "canonical":
                x0 = relabel(x0, graphs.num_nodes, found.orders, self.vocab)
        return Examples(x0, graphs.real, log_num_orders, conditions=self.conditions_of(graphs))

    def conditions_of(self, graphs: EncodedGraphs) -> dict[str, Tensor]:
        """Conditions that come with graphs, whatever the order of their nodes."""
        return {}

    def augment(self, examples: Examples, generator: torch.Generator) -> Batch:
        if self.node_order != "random":
            orders = torch.zeros(len(examples), dtype=torch.float64)
            return Batch(examples.x0, examples.real, orders, dict(examples.conditions))
        return self.exchangeable(examples, generator)

    def exchangeable(self, examples: Examples, generator: torch.Generator) -> Batch:
        """The examples under a uniformly random order of their nodes."""
        num_nodes = self.sizes(examples)
        order = random_orders(num_nodes, self.vocab.n_max, generator)
        x0 = relabel(examples.x0, num_nodes, order, self.vocab)
        return Batch(x0, examples.real, examples.log_num_orders, dict(examples.conditions))

    def real_positions(self, sizes: Tensor) -> Tensor:
        return self.vocab.real_positions(sizes)

    def sizes(self, examples: Examples) -> Tensor:
        return examples.real[:, : self.vocab.n_max].sum(dim=1)

    def identities(self, split: str) -> list[Hashable]:
        """Equal up to relabelling."""
        examples = self.splits[split]
        if self.node_order == "canonical" or len(examples) == 0:
            return super().identities(split)
        num_nodes = self.sizes(examples)
        orders = canonical_orders(examples.x0, num_nodes, self.vocab).orders
        canonical = relabel(examples.x0, num_nodes, orders, self.vocab)
        return [row.numpy().tobytes() for row in canonical]

    def unit_of_bound(self, split: str, num_tokens: float) -> tuple[str, float]:
        return "nats per unordered graph", 1.0

    def summary(self) -> str:
        parts = ", ".join(f"{len(self.splits[name]):,} {name}" for name in SPLITS)
        return f"{parts} graphs; node order {self.node_order}"


def split_by_graph(
    graphs: EncodedGraphs, vocab: VocabConfig, *, fractions: Sequence[float], seed: int
) -> dict[str, EncodedGraphs]:
    """Split so that a graph and its relabellings stay together; repeats keep their weight.

    ``fractions``: shares of train, val and test *distinct* graphs, summing to 1.
    Raises ``ValueError`` for other fractions.
    """
    keys = distinct_keys(graphs, vocab)
    num = int(keys.max()) + 1 if len(keys) else 0
    order = torch.randperm(num, generator=make_generator(seed))
    parts = shares_of(num, fractions)
    return {name: graphs[torch.isin(keys, order[part])] for name, part in parts.items()}


def without_held_out(
    train: EncodedGraphs, held_out: Sequence[EncodedGraphs], vocab: VocabConfig
) -> EncodedGraphs:
    """The training graphs that are not, up to relabelling, among the held-out ones."""
    if len(train) == 0:
        return train
    keys = distinct_keys(EncodedGraphs.joined([train, *held_out]), vocab)
    return train[~torch.isin(keys[: len(train)], keys[len(train) :])]


def distinct_keys(graphs: EncodedGraphs, vocab: VocabConfig) -> Tensor:
    """Int[M]: equal for graphs equal up to relabelling, numbered 0, 1, ..."""
    if len(graphs) == 0:
        return torch.zeros(0, dtype=torch.long)
    orders = canonical_orders(graphs.x0, graphs.num_nodes, vocab).orders
    canonical = relabel(graphs.x0, graphs.num_nodes, orders, vocab)
    return canonical.unique(dim=0, return_inverse=True)[1]
