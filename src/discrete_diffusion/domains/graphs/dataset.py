"""Graphs of files as a ``GraphDataset``."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import torch

from discrete_diffusion.data.base import SPLITS
from discrete_diffusion.data.graph_dataset import (
    GraphDataset,
    distinct_keys,
    split_by_graph,
    without_held_out,
)
from discrete_diffusion.data.graph_tokens import (
    EncodedGraphs,
    TypedGraph,
    decode_graphs,
    encode_graphs,
    joined,
)
from discrete_diffusion.domains.graphs.files.readers import ALL, ReadGraphs, read_graphs
from discrete_diffusion.domains.graphs.graph_types import GraphTypes
from discrete_diffusion.domains.graphs.libraries import check_installed
from discrete_diffusion.domains.graphs.symmetries import breadth_first_order, label
from discrete_diffusion.naming import counted

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from discrete_diffusion.layout import VocabConfig

logger = logging.getLogger(__name__)


class GraphFileDataset(GraphDataset):
    """``types``: names of the types of nodes and edges. ``kind``: what makes a graph valid, one of
    ``metrics.validity.KINDS``, or None."""

    fixed_orders = ("bfs",)

    def __init__(
        self,
        splits: Mapping[str, Sequence[TypedGraph]],
        vocab: VocabConfig,
        *,
        node_order: str,
        types: GraphTypes,
        kind: str | None = None,
    ) -> None:
        self.types, self.kind = types, kind
        labels = {name: [label(graph) for graph in splits[name]] for name in SPLITS}
        if node_order == "bfs":
            splits = {
                name: [
                    reordered(graph, breadth_first_order(graph, found.canonical))
                    for graph, found in zip(splits[name], labels[name], strict=True)
                ]
                for name in SPLITS
            }
        super().__init__(
            {name: encode_graphs(splits[name], vocab) for name in SPLITS},
            vocab,
            node_order=node_order,
            log_num_orders={
                name: torch.tensor([each.log_num_orders for each in found], dtype=torch.float64)
                for name, found in labels.items()
            },
        )

    def graphs(self, split: str) -> list[TypedGraph]:
        """Those of a split, in their order there."""
        x0 = self.splits[split].x0
        return decode_graphs(x0, self.vocab) if len(x0) else []


def reordered(graph: TypedGraph, order: Sequence[int]) -> TypedGraph:
    """The same graph; its k-th node is the old node ``order[k]``."""
    place = {node: k for k, node in enumerate(order)}
    edges = [(*sorted((place[i], place[j])), kind) for i, j, kind in graph.edges]
    nodes = tuple(graph.nodes[node] for node in order)
    return TypedGraph(nodes, tuple((i, j, kind) for i, j, kind in sorted(edges)))


def largest_graph(config: DictConfig) -> int:
    """Nodes of the largest graph of a ``config.data``. Raises as ``build_dataset`` does."""
    sources = _read_all(config, said=False)  # they will be when they are read for good
    return max(len(graph.nodes) for source in sources.values() for graph in source.graphs)


def build_dataset(config: DictConfig, vocab: VocabConfig) -> GraphFileDataset:
    """``data=graphs``: one file with splits of its own, which are kept; one that is split here, by
    distinct graph; or a file per split, where what is held out is removed from training.

    Raises ``ValueError`` for paths that contradict each other, and the readers' errors.
    """
    check_installed()
    types = GraphTypes.of(config)
    sources = _read_all(config)
    if "path" in sources:
        splits = _of_one_file(sources["path"], config, vocab)
    else:
        encoded = {name: encode_graphs(found.graphs, vocab) for name, found in sources.items()}
        encoded.setdefault("test", encode_graphs([], vocab))
        kept = without_held_out(encoded["train"], [encoded["val"], encoded["test"]], vocab)
        if removed := len(encoded["train"]) - len(kept):
            logger.warning("left out %d training graphs that are held out too", removed)
        splits = {**encoded, "train": kept}
    return GraphFileDataset(
        {name: decode_graphs(each.x0, vocab) if len(each) else [] for name, each in splits.items()},
        vocab,
        node_order=config.node_order,
        types=types,
        kind=config.kind,
    )


def _of_one_file(
    found: ReadGraphs, config: DictConfig, vocab: VocabConfig
) -> dict[str, EncodedGraphs]:
    if list(found.splits) == [ALL]:
        graphs = encode_graphs(found.graphs, vocab)
        return split_by_graph(graphs, vocab, fractions=config.split, seed=config.split_seed)
    if ALL in found.splits or not {"train", "val"} <= found.splits.keys():
        raise ValueError(
            f"{config.path} has the splits {', '.join(found.splits)}; expected train, val and "
            "test, or none, to be split by data.split"
        )
    splits = {name: encode_graphs(found.splits.get(name, []), vocab) for name in SPLITS}
    keys = distinct_keys(joined([splits[name] for name in SPLITS]), vocab)
    train, held_out = keys.split([len(splits["train"]), len(keys) - len(splits["train"])])
    if again := int(torch.isin(held_out, train).sum()):
        logger.warning(
            "%s: %s to be held out, of %d, trained on too; its splits are kept",
            config.path,
            counted(again, "graph"),
            len(held_out),
        )
    return splits


def _read_all(config: DictConfig, *, said: bool = True) -> dict[str, ReadGraphs]:
    """By ``path``, or by split. ``said``: in the log."""
    paths = {name: config.get(f"{name}_path") for name in SPLITS}
    if config.path is not None:
        if any(path is not None for path in paths.values()):
            raise ValueError("give data.path or data.train_path and data.val_path, not both")
        paths = {"path": config.path}
    elif paths["train"] is None or paths["val"] is None:
        raise ValueError(
            "data=graphs needs data.path=FILE, or data.train_path=FILE with data.val_path=FILE"
        )
    found = {}
    for name, path in paths.items():
        if path is not None:
            found[name] = read_graphs(
                path, GraphTypes.of(config), skip_invalid=config.skip_invalid, n_max=config.n_max
            )
            if said:
                logger.info("%s", found[name].summary(path))
    return found
