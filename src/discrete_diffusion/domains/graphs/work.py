"""All that this kind of data needs torch for, imported as one when ``domain`` first needs it."""

from __future__ import annotations

from discrete_diffusion.data.graph_tokens import decode_graphs, encode_graphs
from discrete_diffusion.domains.graphs.build import build_dataset, build_test_graphs, largest_graph
from discrete_diffusion.domains.graphs.evaluation import evaluate_files, evaluate_model
from discrete_diffusion.domains.graphs.libraries import check_installed
from discrete_diffusion.domains.graphs.metrics.validity import KINDS, graph_rewards
from discrete_diffusion.domains.graphs.report import GraphCells, GraphReport
from discrete_diffusion.domains.graphs.sampling import complete_graphs, sample_graphs

__all__ = [
    "KINDS",
    "GraphCells",
    "GraphReport",
    "build_dataset",
    "build_test_graphs",
    "check_installed",
    "complete_graphs",
    "decode_graphs",
    "encode_graphs",
    "evaluate_files",
    "evaluate_model",
    "graph_rewards",
    "largest_graph",
    "sample_graphs",
]
