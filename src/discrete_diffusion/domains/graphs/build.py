"""Graphs of files as a ``GraphDataset``, from a ``data`` config: one file, split by itself or here,
or three."""

from __future__ import annotations

import logging
from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING

import torch

from discrete_diffusion.categorical import make_generator
from discrete_diffusion.config.values import counted
from discrete_diffusion.data.base import SPLITS, given_paths, shares_of
from discrete_diffusion.data.graph_tokens import (
    GraphDataset,
    TypedGraph,
    decode_graphs,
    encode_graphs,
)
from discrete_diffusion.domains.graphs.files.readers import ReadGraphs, read_graphs
from discrete_diffusion.domains.graphs.files.records import ALL
from discrete_diffusion.domains.graphs.graph_types import GraphTypes
from discrete_diffusion.domains.graphs.libraries import check_installed
from discrete_diffusion.domains.graphs.symmetries import breadth_first_order, canonical_key, label
from discrete_diffusion.layout.vocab_config import VocabConfig

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from discrete_diffusion.layout.vocab_config import VocabConfig


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
        """Graphs of a split, in their order there."""
        x0 = self.splits[split].x0
        return decode_graphs(x0, self.vocab) if len(x0) else []

    def identities(self, split: str) -> list[Hashable]:
        return [canonical_key(graph) for graph in self.graphs(split)]


def reordered(graph: TypedGraph, order: Sequence[int]) -> TypedGraph:
    """The same graph; its k-th node is the old node ``order[k]``."""
    place = {node: k for k, node in enumerate(order)}
    edges = [(*sorted((place[i], place[j])), kind) for i, j, kind in graph.edges]
    nodes = tuple(graph.nodes[node] for node in order)
    return TypedGraph(nodes, tuple((i, j, kind) for i, j, kind in sorted(edges)))


logger = logging.getLogger(__name__)

Splits = dict[str, list[TypedGraph]]


def build_dataset(config: DictConfig, vocab: VocabConfig) -> GraphFileDataset:
    """``data=graphs``: one file with splits of its own, which are kept; one that is split here, by
    distinct graph; or a file per split, where what is held out is removed from training.

    Raises ``ValueError`` for paths that contradict each other, and the readers' errors.
    """
    check_installed()
    sources = _read_all(config)
    for name, found in sources.items():
        logger.info("%s", found.summary(config["path" if name == "path" else f"{name}_path"]))
    splits = (
        _of_one_file(sources["path"], config) if "path" in sources else _of_files(sources, config)
    )
    return _dataset(splits, config, vocab)


def build_test_graphs(config: DictConfig, vocab: VocabConfig) -> GraphFileDataset:
    """The graphs of ``path`` as the test split: all of a file without splits, else its test graphs,
    which is logged. Raises the readers' errors."""
    check_installed()
    found = _read_all(config)["path"]
    logger.log(
        logging.WARNING if found.problems else logging.INFO, "%s", found.summary(config.path)
    )
    test = found.splits.get("test") or found.graphs
    if len(test) < len(found.graphs):
        logger.warning(
            "%s has splits of its own: of its %s the %s of its test split are measured",
            *(config.path, counted(len(found.graphs), "graph"), f"{len(test):,}"),
        )
    return _dataset({"train": [], "val": [], "test": test}, config, vocab)


def _dataset(splits: Splits, config: DictConfig, vocab: VocabConfig) -> GraphFileDataset:
    return GraphFileDataset(
        splits,
        vocab,
        node_order=config.node_order,
        types=GraphTypes.of(config),
        kind=config.kind,
    )


def largest_graph(config: DictConfig) -> int:
    """Nodes of the largest graph of a ``config.data``. Raises as ``build_dataset`` does."""
    sources = _read_all(config)
    return max(len(graph.nodes) for source in sources.values() for graph in source.graphs)


def _of_one_file(found: ReadGraphs, config: DictConfig) -> Splits:
    if list(found.splits) == [ALL]:
        return _split(found.graphs, config.split, config.split_seed)
    if ALL in found.splits or not {"train", "val"} <= found.splits.keys():
        raise ValueError(
            f"{config.path} has the splits {', '.join(found.splits)}; expected train, val and "
            "test, or none, to be split by data.split"
        )
    splits = {name: found.splits.get(name, []) for name in SPLITS}
    known = set(map(canonical_key, splits["train"]))
    again = [canonical_key(graph) in known for name in SPLITS[1:] for graph in splits[name]]
    if any(again):
        logger.warning(
            "%s: %s to be held out, of %d, trained on too; its splits are kept",
            config.path,
            counted(sum(again), "graph"),
            len(again),
        )
    return splits


def _of_files(sources: Mapping[str, ReadGraphs], config: DictConfig) -> Splits:
    for name, found in sources.items():
        if list(found.splits) != [ALL]:
            raise ValueError(
                f"data.{name}_path={config[f'{name}_path']} has splits of its own; give it as "
                "data.path"
            )
    splits = {name: sources[name].graphs if name in sources else [] for name in SPLITS}
    held_out = {canonical_key(graph) for name in SPLITS[1:] for graph in splits[name]}
    train = [graph for graph in splits["train"] if canonical_key(graph) not in held_out]
    if removed := len(splits["train"]) - len(train):
        logger.warning("left out of training %s, held out too", counted(removed, "graph"))
    return {**splits, "train": train}


def _split(graphs: Sequence[TypedGraph], fractions: Sequence[float], seed: int) -> Splits:
    """Split so that a graph and its relabellings stay together; repeats keep their weight."""
    keys = [canonical_key(graph) for graph in graphs]
    distinct = list(dict.fromkeys(keys))
    if len(distinct) < len(SPLITS):
        logger.warning(
            "%s of %s: a split may be empty, since equal graphs stay together",
            *(counted(len(distinct), "distinct graph"), f"{len(graphs):,}"),
        )
    order = torch.randperm(len(distinct), generator=make_generator(seed)).tolist()
    splits = {}
    for name, part in shares_of(len(distinct), fractions).items():
        chosen = {distinct[k] for k in order[part]}
        splits[name] = [graph for graph, key in zip(graphs, keys, strict=True) if key in chosen]
    return splits


def _read_all(config: DictConfig) -> dict[str, ReadGraphs]:
    """Graphs by ``path``, or by split."""
    if not (paths := given_paths(config)):
        raise ValueError(
            "data=graphs needs data.path=FILE, or data.train_path=FILE with data.val_path=FILE"
        )
    types = GraphTypes.of(config)
    options = {
        "skip_invalid": config.skip_invalid,
        "n_max": config.n_max,
        "key": "data.skip_invalid",
    }
    return {name: read_graphs(path, types, **options) for name, path in paths.items()}
