"""Maximum mean discrepancy under the neighbourhood subgraph pairwise distance kernel (NSPDK).

As GDSS (arXiv 2202.02514) measures it with EDeN: ``complexity=4``, discrete labels, linear kernel.
Bonds become vertices between their atoms. The neighbourhood of radius r of an atom is, at every
distance up to r, the multiset of (label, degree) there. A feature counts pairs of atoms at distance
d <= 4 with equal neighbourhoods of radius r <= 4, a half feature the second atom alone. Counts of
each (r, d) are scaled to unit length, then the whole vector. With those vectors phi,

    MMD^2 = | mean phi(x) - mean phi(y) |^2

Deviation: EDeN hashes features to 20 bits, of which many collide; here to 64, of which none do in
practice.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Hashable, Sequence
from typing import Any

from discrete_diffusion.domains.molecules.metrics.mean_features import MeanFeatures
from discrete_diffusion.runtime import progress

COMPLEXITY = 4
"""The largest radius and distance, in bonds."""

Features = dict[int, float]
"""By the hash, of 64 bits, of what is counted."""


def nspdk_mmd(one: MeanFeatures, other: MeanFeatures) -> float:
    """MMD of two sets by their ``mean_features``, squared as in GDSS."""
    return one.squared_distance(other)


def mean_features(smiles: Sequence[str]) -> MeanFeatures:
    """The mean of the features of every molecule; equal ones are looked at once."""
    found = MeanFeatures()
    counted = Counter(smiles)
    for text in progress.track(list(counted), "NSPDK", "molecules"):
        found.add(features_of_smiles(text), counted[text])
    return found


def features_of_smiles(smiles: str) -> Features:
    """Features of a molecule as rdkit perceives it, aromatic bonds counting as single, as GDSS
    does."""
    from rdkit import Chem

    mol = Chem.MolFromSmiles(smiles)
    labels: list[Hashable] = [atom.GetSymbol() for atom in mol.GetAtoms()]
    bonds = [
        (bond.GetBeginAtomIdx(), bond.GetEndAtomIdx(), int(bond.GetBondTypeAsDouble()))
        for bond in mol.GetBonds()
    ]
    return features(labels, bonds)


def features(labels: Sequence[Hashable], bonds: Sequence[tuple[int, int, Hashable]]) -> Features:
    """Features of a graph: the label of every vertex, and (i, j, label) of every edge."""
    num = len(labels)
    around: list[list[int]] = [[] for _ in range(num + len(bonds))]
    for k, (i, j, _) in enumerate(bonds, start=num):
        around[k] = [i, j]
        around[i].append(k)
        around[j].append(k)
    signs = [*labels, *(("bond", label) for _, _, label in bonds)]
    coloured = [(repr(sign), len(near)) for sign, near in zip(signs, around, strict=True)]
    shells = [_shells(root, around, 2 * COMPLEXITY) for root in range(num)]
    seen = [_neighbourhoods(each, coloured) for each in shells]

    counts: defaultdict[tuple[int, int], Counter[int]] = defaultdict(Counter)
    for v, shell in enumerate(shells):
        for distance in range(0, min(2 * COMPLEXITY + 1, len(shell)), 2):
            for u in shell[distance]:
                for radius in range(0, min(len(seen[v]), len(seen[u])), 2):
                    first, second = seen[v][radius], seen[u][radius]
                    low, high = (first, second) if first < second else (second, first)
                    of_kind = counts[radius, distance]
                    of_kind[hash((radius, distance, low, high))] += 1
                    of_kind[hash((radius, distance, second))] += 1
    found: Features = {}
    for of_kind in counts.values():
        length = math.sqrt(sum(count**2 for count in of_kind.values()))
        found.update({key: count / length for key, count in of_kind.items()})
    whole = math.sqrt(len(counts))  # every kind has length 1
    return {key: value / whole for key, value in found.items()}


def _shells(root: int, around: Sequence[Sequence[int]], most: int) -> list[list[int]]:
    """The vertices at distance 0, 1, ..., at most ``most``, as far as there are any."""
    shells, visited = [[root]], {root}
    while len(shells) <= most:
        reached = [w for v in shells[-1] for w in around[v] if w not in visited]
        if not reached:
            break
        visited.update(reached)
        shells.append(list(dict.fromkeys(reached)))
    return shells


def _neighbourhoods(
    shells: Sequence[Sequence[int]], coloured: Sequence[tuple[str, int]]
) -> list[int]:
    """Number, for every radius, that identifies the neighbourhood among others of this radius."""
    inside: tuple[Any, ...] = ()
    found = []
    for shell in shells:
        inside = (inside, tuple(sorted(coloured[v] for v in shell)))
        found.append(hash(inside))
    return found
