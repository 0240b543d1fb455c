"""Samples without a network that have a structure by construction: what a narrowing alone gives.

    python benchmarks/structure_controls.py tree|planar|molecules FILE OUT [--num 40] [--seeds 5]

Writes ``OUT/NAME_SEED.jsonl`` for every control of FILE, a file of graphs or of SMILES, for
``discrete-diffusion evaluate domain=... samples=[...] reference=...``. Sizes, numbers of edges and
atoms are those of graphs of FILE, its training split if it has splits.

    kruskal_trees       pairs in random order, kept if they join two pieces
    uniform_trees       all labelled trees alike, by Prüfer's sequences: ln n^(n-2) nats
    planar_graphs       pairs in random order, kept if planar, as many as a graph of FILE has
    bonded_molecules    pairs in random order with orders of random bonds, kept if both atoms have
                        as much left, as many as a molecule of FILE has
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import combinations
from pathlib import Path

import networkx
import numpy as np
import torch

from discrete_diffusion.data import TypedGraph
from discrete_diffusion.domains.graphs.readers import read_graphs
from discrete_diffusion.domains.graphs.records import GraphTypes, write_graphs
from discrete_diffusion.models.graph_features import RevealedGraph, effective_resistance
from discrete_diffusion.sampling.graph_structures import is_planar
from record import command_line


def kruskal_trees(
    real: Sequence[TypedGraph], num: int, generator: np.random.Generator
) -> list[TypedGraph]:
    """Trees of the sizes of real graphs; paths between ends are shorter than in uniform ones."""

    def tree(like: TypedGraph) -> list[tuple[int, int]]:
        piece, kept = list(range(len(like.nodes))), []
        for i, j in _pairs(len(piece), generator):
            old, new = piece[j], piece[i]
            if old != new:
                kept.append((i, j))
                piece = [new if each == old else each for each in piece]
        return kept

    return [_graph(like, tree(like)) for like in _some(real, num, generator)]


def uniform_trees(
    real: Sequence[TypedGraph], num: int, generator: np.random.Generator
) -> list[TypedGraph]:
    """Trees of the sizes of real graphs, every labelled tree equally likely."""

    def tree(size: int) -> list[tuple[int, int]]:
        if size < 3:
            return [(0, 1)][: size - 1]
        sequence = generator.integers(size, size=size - 2).tolist()
        found = networkx.from_prufer_sequence(sequence)
        return [(min(edge), max(edge)) for edge in found.edges]

    return [_graph(like, tree(len(like.nodes))) for like in _some(real, num, generator)]


def planar_graphs(
    real: Sequence[TypedGraph], num: int, generator: np.random.Generator
) -> list[TypedGraph]:
    """Planar graphs of the sizes of real ones, with as many edges, or as fit."""

    def edges(like: TypedGraph) -> list[tuple[int, int]]:
        kept: list[tuple[int, int]] = []
        for pair in _pairs(len(like.nodes), generator):
            if len(kept) == len(like.edges):
                break
            if is_planar(len(like.nodes), [*kept, pair]):
                kept.append(pair)
        return kept

    return [_graph(like, edges(like)) for like in _some(real, num, generator)]


def posterior_trees(
    size: int, calls: int, num: int, generator: np.random.Generator
) -> list[networkx.Graph]:
    """Graphs sampled from the exact posterior of uniform trees in so many network calls, the pairs
    of one independently of each other: with one a call they are trees, with more they need not be.
    """
    pairs = np.array([*combinations(range(size), 2)]).reshape(-1, 2)
    order = np.stack([generator.permutation(len(pairs)) for _ in range(num)])
    edges, hidden = torch.zeros(num, size, size), (1 - torch.eye(size)).repeat(num, 1, 1)
    rows = np.arange(num)[:, None]
    for part in np.array_split(np.arange(len(pairs)), min(calls, len(pairs))):
        graph = RevealedGraph(edges[:, None], hidden, torch.ones(num, size))
        chance = effective_resistance(graph)[0].numpy()
        i, j = pairs[order[:, part]].transpose(2, 0, 1)  # (num, pairs of the call)
        drawn = torch.from_numpy(generator.random(i.shape) < chance[rows, i, j]).float()
        edges[rows, i, j] = edges[rows, j, i] = drawn
        hidden[rows, i, j] = hidden[rows, j, i] = 0
    return [networkx.from_numpy_array(each.numpy()) for each in edges]


def share_of_trees(file: Path, calls: int, *, num: int, seed: int) -> float:
    """Share of trees among samples of ``posterior_trees`` of sizes of ``file``: no network does
    better with as many calls, each of which reveals pairs independently."""
    found, generator = read_graphs(file), np.random.default_rng(seed)
    some = _some(found.splits.get("train", found.graphs), num, generator)
    sizes = Counter(len(like.nodes) for like in some)
    drawn = (posterior_trees(size, calls, k, generator) for size, k in sizes.items())
    return sum(networkx.is_tree(tree) for trees in drawn for tree in trees) / num


CONTROLS: dict[str, tuple[Callable[..., list[TypedGraph]], ...]] = {
    "tree": (kruskal_trees, uniform_trees),
    "planar": (planar_graphs,),
}
"""Of graphs, by the kind that they are valid as."""


def bonded_molecules(real: Sequence, num: int, generator: np.random.Generator) -> list:
    """Molecules with the atoms of real ones, in which no atom has more bonds than it takes."""
    from discrete_diffusion.domains.molecules.molecule import Molecule
    from discrete_diffusion.domains.molecules.valence import most_bonds

    kinds = [kind for molecule in real for _, _, kind in molecule.bonds] or [0]

    def bonds(like: Molecule) -> list[tuple[int, int, int]]:
        left = [most_bonds(atom) for atom in like.atoms]
        kept: list[tuple[int, int, int]] = []
        for i, j in _pairs(len(left), generator):
            kind = kinds[generator.integers(len(kinds))]
            if len(kept) < len(like.bonds) and kind < min(left[i], left[j]):
                kept.append((i, j, kind))
                left[i] -= kind + 1
                left[j] -= kind + 1
        return sorted(kept)

    some = _some(real, num, generator)
    return [Molecule(like.atoms, tuple(bonds(like))) for like in some]


def _some(real: Sequence, num: int, generator: np.random.Generator) -> list:
    """Real graphs that the samples are like, with replacement."""
    return [real[k] for k in generator.integers(len(real), size=num)]


def _pairs(num_nodes: int, generator: np.random.Generator) -> list[tuple[int, int]]:
    """All pairs of nodes, in random order."""
    pairs = list(combinations(range(num_nodes), 2))
    return [pairs[k] for k in generator.permutation(len(pairs))]


def _graph(like: TypedGraph, edges: Sequence[tuple[int, int]]) -> TypedGraph:
    """Without types."""
    return TypedGraph((0,) * len(like.nodes), tuple((i, j, 0) for i, j in sorted(edges)))


def write_controls(kind: str, file: Path, out: Path, num: int, seeds: int) -> list[Path]:
    """The files that are written."""
    written = []
    if kind == "molecules":
        from discrete_diffusion.domains.molecules.molecule_files import json_lines_of_molecules
        from discrete_diffusion.domains.molecules.reading import read_molecules

        molecules = read_molecules(file).molecules
        for seed in range(seeds):
            samples = bonded_molecules(molecules, num, np.random.default_rng(seed))
            written.append(out / f"bonded_molecules_{seed}.jsonl")
            out.mkdir(parents=True, exist_ok=True)
            written[-1].write_text(json_lines_of_molecules(samples))
        return written
    found = read_graphs(file)
    graphs = found.splits.get("train", found.graphs)
    for control in CONTROLS[kind]:
        for seed in range(seeds):
            samples = control(graphs, num, np.random.default_rng(seed))
            written.append(out / f"{control.__name__}_{seed}.jsonl")
            write_graphs(written[-1], samples, GraphTypes())
    return written


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("kind", choices=[*CONTROLS, "molecules"])
    parser.add_argument("file", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--num", type=int, default=40)
    parser.add_argument("--seeds", type=int, default=5)
    asked = parser.parse_args()
    for path in write_controls(asked.kind, asked.file, asked.out, asked.num, asked.seeds):
        print(path)


if __name__ == "__main__":
    main()
