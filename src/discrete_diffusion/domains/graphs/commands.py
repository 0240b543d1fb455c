"""``discrete-diffusion data graphs FILE``: what a file of graphs holds."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections import Counter
from typing import TYPE_CHECKING

from discrete_diffusion.config.values import counted
from discrete_diffusion.domains.sub_command import SubCommand

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from discrete_diffusion.domains.graphs.files.readers import ReadGraphs


def check_options(parser: ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="graphs: a file or folder, see docs/graphs.md")
    parser.add_argument("--node-types", help="names of the types of nodes, such as a,b")
    parser.add_argument("--edge-types", help="of edges, the last for no edge, such as thin,none")


def check_file(options: Namespace) -> None:
    """Read a file or folder of graphs and say what it holds: how it was read, how many graphs,
    nodes, edges and types, what was dropped, and what cannot be read."""
    from discrete_diffusion.domains.graphs.files.readers import read_graphs
    from discrete_diffusion.domains.graphs.graph_types import GraphTypes

    default = GraphTypes()
    types = GraphTypes.of(
        {
            "node_types": _names(options.node_types) or list(default.nodes),
            "edge_types": _names(options.edge_types) or list(default.edges),
        }
    )
    found = read_graphs(options.file, types, skip_invalid=True)
    print(f"{options.file}: {counted(len(found.graphs), 'graph')}{_splits(found)}")
    print(f"read as: {_shares(found.notes.forms.items())}")
    for sentence in found.notes.sentences():
        print(sentence)
    _print_sizes(found)
    nodes = Counter(types.nodes[kind] for graph in found.graphs for kind in graph.nodes)
    edges = Counter(types.edges[kind] for graph in found.graphs for *_, kind in graph.edges)
    print(f"nodes: {_shares(nodes.most_common())}")
    print(f"edges: {_shares(edges.most_common()) or 'none'}")
    if found.problems:
        print(f"left out {counted(len(found.problems), 'graph')} that cannot be read:")
        for problem in found.problems[:5]:
            print(f"  {problem}")


def _print_sizes(found: ReadGraphs) -> None:
    from discrete_diffusion.domains.graphs.metrics.validity import is_connected

    graphs = found.graphs
    nodes, edges = [len(graph.nodes) for graph in graphs], [len(graph.edges) for graph in graphs]
    print(f"nodes of a graph: {_range(nodes)} (data.n_max={max(nodes)})")
    print(f"edges of a graph: {_range(edges)}")
    alone = sum(
        len(graph.nodes) - len({node for i, j, _ in graph.edges for node in (i, j)})
        for graph in graphs
    )
    pieces = sum(not is_connected(graph) for graph in graphs)
    print(f"in several pieces: {counted(pieces, 'graph')}", end="; ")
    print(f"without an edge: {counted(alone, 'node')}")


def _range(numbers: Sequence[int]) -> str:
    same = min(numbers) == max(numbers)
    return f"{min(numbers):,}" if same else f"{min(numbers):,} to {max(numbers):,}"


def _splits(found: ReadGraphs) -> str:
    if len(found.splits) == 1:
        return ""
    return f" ({_shares((name, len(graphs)) for name, graphs in found.splits.items())})"


def _shares(counts: Iterable[tuple[str, int]]) -> str:
    return ", ".join(f"{name} {number:,}" for name, number in counts)


def _names(given: str | None) -> list[str]:
    return [] if given is None else [name.strip() for name in given.strip("[]").split(",")]


COMMANDS = {
    "graphs": SubCommand(
        "FILE   what a file or folder of graphs holds, and how it was read",
        check_options,
        check_file,
    )
}
