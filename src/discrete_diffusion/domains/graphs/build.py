"""Graphs of files as a ``GraphDataset``, from a ``data`` config: one file, with or without splits,
or a file per split."""

from __future__ import annotations

import logging
from collections.abc import Hashable, Mapping, Sequence

import torch
from omegaconf import DictConfig

from discrete_diffusion.categorical import make_generator
from discrete_diffusion.config.values import counted
from discrete_diffusion.data import graph_tokens
from discrete_diffusion.data.base import SPLITS, given_paths, shares_of
from discrete_diffusion.data.graph_tokens import TypedGraph
from discrete_diffusion.domains.graphs import graph_set
from discrete_diffusion.domains.graphs.graph_set import canonical_key, check_installed
from discrete_diffusion.domains.graphs.readers import ReadGraphs, read_graphs
from discrete_diffusion.domains.graphs.records import ALL, GraphTypes
from discrete_diffusion.layout.vocab_config import VocabConfig

logger = logging.getLogger(__name__)

Splits = Mapping[str, Sequence[TypedGraph]]


class GraphFileDataset(graph_tokens.GraphDataset):
    """Graphs in splits. ``types``: names of the types of nodes and edges. ``kind``: what makes a
    graph valid, one of ``metrics.KINDS``, or None."""

    fixed_orders = ("bfs",)

    def __init__(
        self,
        splits: Splits,
        vocab: VocabConfig,
        *,
        node_order: str,
        types: GraphTypes,
        kind: str | None = None,
    ) -> None:
        self.types, self.kind = types, kind
        # canonical orders, which also give the number of orders
        labels = {
            name: [graph_set.node_labelling(graph) for graph in splits[name]] for name in SPLITS
        }
        if node_order == "bfs":
            splits = {
                name: [
                    graph_set.reordered_graph(
                        graph, graph_set.breadth_first_order(graph, labelling.canonical)
                    )
                    for graph, labelling in zip(splits[name], labels[name], strict=True)
                ]
                for name in SPLITS
            }
        # tokens in these orders
        super().__init__(
            {name: graph_tokens.encode_graphs(splits[name], vocab) for name in SPLITS},
            vocab,
            node_order=node_order,
            log_num_orders={
                name: torch.tensor([each.log_num_orders for each in part], dtype=torch.float64)
                for name, part in labels.items()
            },
        )

    def graphs(self, split: str) -> list[TypedGraph]:
        """Graphs of a split, in their order there."""
        x0 = self.splits[split].x0
        return graph_tokens.decode_graphs(x0, self.vocab) if len(x0) else []

    def identities(self, split: str) -> list[Hashable]:
        return [canonical_key(graph) for graph in self.graphs(split)]


def build_dataset(config: DictConfig, vocab: VocabConfig) -> GraphFileDataset:
    """Build the data set of ``data=graphs`` from one file, or from a file for each split.

    Splits in the file are kept; without them it is split by distinct graph. With a file for each
    split, held-out graphs are removed from training. Raises ``ValueError`` for paths that
    contradict each other, and the readers' errors.
    """
    check_installed()
    sources = _read_graph_files(config)
    for name, source in sources.items():
        logger.info("%s", source.summary(config["path" if name == "path" else f"{name}_path"]))
    one = sources.get("path")
    if one is None:
        # a file for each split: no graph that is held out is trained on
        for name, source in sources.items():
            if list(source.splits) != [ALL]:
                raise ValueError(
                    f"data.{name}_path={config[f'{name}_path']} has splits of its own; give it as "
                    "data.path"
                )
        splits = {name: sources[name].graphs if name in sources else [] for name in SPLITS}
        held_out = {canonical_key(graph) for name in SPLITS[1:] for graph in splits[name]}
        train = [graph for graph in splits["train"] if canonical_key(graph) not in held_out]
        if removed := len(splits["train"]) - len(train):
            logger.warning("left out of training %s, held out too", counted(removed, "graph"))
        splits["train"] = train
    elif list(one.splits) == [ALL]:
        splits = _split_by_graph(one.graphs, config.split, config.split_seed)
    else:
        # the file's own splits are kept, with a warning if they overlap
        if ALL in one.splits or not {"train", "val"} <= one.splits.keys():
            raise ValueError(
                f"{config.path} has the splits {', '.join(one.splits)}; expected train, val and "
                "test, or none, to be split by data.split"
            )
        splits = {name: one.splits.get(name, []) for name in SPLITS}
        known = set(map(canonical_key, splits["train"]))
        again = [canonical_key(graph) in known for name in SPLITS[1:] for graph in splits[name]]
        if any(again):
            logger.warning(
                "%s: %s to be held out, of %d, trained on too; its splits are kept",
                *(config.path, counted(sum(again), "graph"), len(again)),
            )
    return _graph_dataset(splits, config, vocab)


def build_test_graphs(config: DictConfig, vocab: VocabConfig) -> GraphFileDataset:
    """Build a data set whose test split is the graphs of ``path``: all graphs or, with a message in
    the log, only the test graphs of a file with splits. Raises the readers' errors."""
    check_installed()
    source = _read_graph_files(config)["path"]
    level = logging.WARNING if source.problems else logging.INFO
    logger.log(level, "%s", source.summary(config.path))
    # a file with splits is measured on its test graphs
    test = source.splits.get("test") or source.graphs
    if len(test) < len(source.graphs):
        logger.warning(
            "%s has splits of its own: of its %s the %s of its test split are measured",
            *(config.path, counted(len(source.graphs), "graph"), f"{len(test):,}"),
        )
    return _graph_dataset({"train": [], "val": [], "test": test}, config, vocab)


def _graph_dataset(splits: Splits, config: DictConfig, vocab: VocabConfig) -> GraphFileDataset:
    types, kind = GraphTypes.of(config), config.graph_family
    return GraphFileDataset(splits, vocab, node_order=config.node_order, types=types, kind=kind)


def largest_graph(config: DictConfig) -> int:
    """Number of nodes of the largest graph of a ``config.data``. Raises the errors of
    ``build_dataset``."""
    sources = _read_graph_files(config)
    return max(len(graph.nodes) for source in sources.values() for graph in source.graphs)


def _read_graph_files(config: DictConfig) -> dict[str, ReadGraphs]:
    """Read graphs, by split or, of one file, under ``path``."""
    if not (paths := given_paths(config)):
        raise ValueError(
            "data=graphs needs data.path=FILE, or data.train_path=FILE with data.val_path=FILE"
        )
    types = GraphTypes.of(config)
    options = {"skip_invalid": config.skip_invalid, "max_nodes": config.max_nodes}
    options["key"] = "data.skip_invalid"
    return {name: read_graphs(path, types, **options) for name, path in paths.items()}


def _split_by_graph(
    graphs: Sequence[TypedGraph], fractions: Sequence[float], seed: int
) -> dict[str, list[TypedGraph]]:
    """Split the distinct graphs at random; isomorphic graphs stay together, and all repeats are
    kept."""
    # isomorphic graphs have one key
    keys = [canonical_key(graph) for graph in graphs]
    distinct = list(dict.fromkeys(keys))
    if len(distinct) < len(SPLITS):
        logger.warning(
            "%s of %s: a split may be empty, since equal graphs stay together",
            *(counted(len(distinct), "distinct graph"), f"{len(graphs):,}"),
        )
    # shuffle the distinct graphs, and cut them by the fractions
    order = torch.randperm(len(distinct), generator=make_generator(seed)).tolist()
    splits = {}
    for name, part in shares_of(len(distinct), fractions).items():
        chosen = {distinct[k] for k in order[part]}
        splits[name] = [graph for graph, key in zip(graphs, keys, strict=True) if key in chosen]
    return splits
