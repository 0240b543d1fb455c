"""``Valence``: while a molecule is sampled, no atom gets more bonds than its type takes."""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

from discrete_diffusion.domains.molecules.molecule import BONDS, Molecule, sanitised
from discrete_diffusion.layout.vocab_config import VocabConfig
from discrete_diffusion.sampling.graph_structures import GraphNarrowing

_UNLIMITED = 12
"""Bonds of an atom, after which it is taken to have no limit, such as a metal or ``*``."""


@cache
def most_bonds(atom: str) -> int:
    """Total order of bonds that an atom takes at most, as rdkit judges it unmended: 3 of ``N``, 4
    of ``N+``, 1 of ``O-``, 6 of ``S``; missing ones are hydrogen."""
    from rdkit import rdBase

    with rdBase.BlockLogs():
        for num in range(1, _UNLIMITED + 1):
            bonds = tuple((0, k, 0) for k in range(1, num + 1))
            if sanitised(Molecule((atom, *["C"] * num), bonds)) is None:
                return num - 1
    return 10**6


class Valence(GraphNarrowing):
    """The orders of an atom's bonds add up to at most ``most_bonds`` of its type.

    An order is excluded if it is more than what one of the ends has left; of an end that is MASK,
    what the type has left that takes most. A type is excluded if the atom's bonds are more than it
    takes already. Nothing else is: with no further bonds, and types that take most for the other
    MASKs, the molecule is complete. "none" always stays, and the type that takes most, since no
    bond before was allowed beyond it: there is no dead end.
    """

    def __init__(self, vocab: VocabConfig) -> None:
        super().__init__(vocab)
        self._order = torch.zeros(vocab.vocab_size, dtype=torch.long)  # of a bond, else 0
        for kind in range(vocab.no_edge):
            self._order[vocab.edge_offset + kind] = BONDS.index(vocab.edge_types[kind]) + 1
        self._takes = torch.tensor([most_bonds(atom) for atom in vocab.node_types])

    def support(self, x: Tensor, position: Tensor) -> Tensor:
        vocab, device = self.vocab, x.device
        x, position = x.cpu(), position.cpu()
        allowed = torch.ones(len(x), vocab.vocab_size, dtype=torch.bool)
        is_atom = position < vocab.n_max
        atoms, pairs = (rows.nonzero().squeeze(1) for rows in (is_atom, ~is_atom))
        used = self.used(x[atoms], position[atoms].unsqueeze(1))
        allowed[atoms, : vocab.num_node_types] = used <= self._takes
        left = self.left(x[pairs], self.ends[position[pairs] - vocab.n_max])
        allowed[pairs] = self._order <= left.amin(dim=1, keepdim=True)
        return allowed.to(device)

    def contradictions(self, x: Tensor) -> dict[int, str]:
        """An atom with too many bonds."""
        x = x.cpu()
        nodes = torch.arange(self.vocab.n_max).expand(len(x), -1)
        found: dict[int, str] = {}
        for row, node in (self.left(x, nodes) < 0).nonzero().tolist():
            kind, used = int(x[row, node]), int(self.used(x[row : row + 1], nodes[:1, [node]]))
            known = kind < self.vocab.num_node_types
            name = self.vocab.node_types[kind] if known else "of any type"
            most = int(self._takes[kind] if known else self._takes.max())
            found.setdefault(
                row, f"atom {node} ({name}) has bonds of total order {used}, more than {most}"
            )
        return found

    def used(self, x: Tensor, nodes: Tensor) -> Tensor:
        """Int[R, K]: total order of the bonds of K ``nodes`` Int[R, K] of each molecule."""
        around = self.slots[nodes]  # (R, K, n_max)
        tokens = x.gather(1, around.flatten(1)).view_as(around)
        return self._order[tokens].sum(dim=2)

    def left(self, x: Tensor, nodes: Tensor) -> Tensor:
        """Int[R, K]: what ``nodes`` Int[R, K] have left; MASK what it may have at most, PAD
        anything."""
        kind = x.gather(1, nodes)
        known = kind < self.vocab.num_node_types
        takes = torch.where(known, self._takes[kind.where(known, 0)], self._takes.max())
        return takes - self.used(x, nodes)
