"""Small graphs of tests."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np

from discrete_diffusion.cli import main
from discrete_diffusion.data.graph_tokens import TypedGraph
from discrete_diffusion.domains.graphs.records import GraphTypes

TYPED = GraphTypes(nodes=("a", "b"), edges=("thin", "thick", "none"))


def graph(num_nodes: int, *edges: tuple[int, int]) -> TypedGraph:
    """Without types."""
    return TypedGraph((0,) * num_nodes, tuple((i, j, 0) for i, j in sorted(edges)))


def of_networkx(found: Any) -> TypedGraph:
    number = {node: k for k, node in enumerate(found)}
    return graph(len(found), *(tuple(sorted((number[u], number[v]))) for u, v in found.edges))


def relabelled(found: TypedGraph, order: Iterable[int]) -> TypedGraph:
    """Node k becomes node ``order[k]``."""
    place = [int(k) for k in order]
    nodes = np.empty(len(place), dtype=int)
    nodes[place] = found.nodes
    edges = [(*sorted((place[i], place[j])), kind) for i, j, kind in found.edges]
    return TypedGraph(tuple(nodes.tolist()), tuple(sorted(edges)))


PATH3, TRIANGLE, STAR4 = (
    graph(3, (0, 1), (1, 2)),
    graph(3, (0, 1), (0, 2), (1, 2)),
    graph(4, (0, 1), (0, 2), (0, 3)),
)


def train_on_trees(folder: Path, *words: str) -> Path:
    """The folder of a run of a few steps on trees of 3 to 7 nodes, in a file of their own splits: a
    network that draws anything. The validation split is ``samples.jsonl`` too."""
    trees = [of_networkx(nx.random_labeled_tree(3 + k % 5, seed=k)) for k in range(36)]
    records = [{"n": len(t.nodes), "edges": [[i, j] for i, j, _ in t.edges]} for t in trees]
    splits = {"train": records[:24], "val": records[24:30], "test": records[30:]}
    (folder / "trees.json").write_text(json.dumps(splits))
    (folder / "samples.jsonl").write_text("".join(json.dumps(r) + "\n" for r in records[24:30]))
    network = ["debug=smoke", "algo.backbone=bd-denoiser-pair", "model=bd_pair_tiny"]
    network += ["model.d_model=16", "model.d_pair=8", "logger=none"]
    data = ["data=graphs", f"data.path={folder}/trees.json", "data.graph_family=tree"]
    sampling = ["sampling=ancestral", "sampling.steps=5"]
    main(["train", *network, *data, *sampling, *words, f"hydra.run.dir={folder}/run"])
    return folder / "run"
