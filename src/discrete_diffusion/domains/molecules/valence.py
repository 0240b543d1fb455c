"""``Valence`` and ``ConnectedValence``: while a molecule is sampled, no atom gets more bonds than
its type takes, and it stays possible that the molecule is one piece."""

from __future__ import annotations

from dataclasses import dataclass
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


_SINGLE = BONDS.index("single")


class ConnectedValence(Valence):
    """Molecules of one piece, with the bonds of ``Valence``.

    A value is excluded by ``Valence``, or if the molecule with it fails one of two conditions. Let
    k be the pieces that its bonds make, and a pair *open* if it is MASK, lies between two of them,
    and each end has a bond left; of an end that is MASK, what the type takes that takes most. With

        e_i = min(bonds that atom i has left, pieces that open pairs join to i)
        e_P = min(sum of e_i over the atoms of P, pieces that open pairs join to P)

        1. sum_P e_P >= 2 (k - 1)
        2. open pairs join all pieces by ways that do not lead through one of e_P = 1

    They hold, too, after what follows from them, over and over: of k > 2, an open pair of two
    pieces of e_P = 1 is of no use; the only open pair of a piece is a bond.

    k - 1 open pairs become the bonds that join the pieces, at most one between the same two, e_P of
    them at P at most: the conditions are necessary, and nothing that has a completion is excluded.
    They are not sufficient: whether a graph has a spanning tree with at most so many edges at each
    node is hard to tell in general (a Hamiltonian path is one). So there are dead ends, in which no
    value is left: such a sample is finished without narrowing, need be neither valid nor connected,
    and has weight 0. Weighted, samples follow the model given both properties.
    """

    def __init__(self, vocab: VocabConfig) -> None:
        super().__init__(vocab)
        self._legal = vocab.layout().support

    def support(self, x: Tensor, position: Tensor) -> Tensor:
        device = x.device
        x, position = x.cpu(), position.cpu()
        allowed = super().support(x, position)
        row, value = (allowed & self._legal[position]).nonzero(as_tuple=True)
        tried = x[row]
        tried[torch.arange(len(row)), position[row]] = value
        allowed[row, value] = self.is_possible(tried)
        return allowed.to(device)

    def is_possible(self, x: Tensor) -> Tensor:
        """Bool[R]: whether molecules x Int[R, L] that ``Valence`` allows meet the conditions."""
        found = torch.ones(len(x), dtype=torch.bool)
        rows = torch.arange(len(x))
        while len(rows):
            pieces = self._pieces(x)
            found[rows] = pieces.may_be_joined
            x, changed = self._with_consequences(x, pieces)
            changed &= found[rows]
            x, rows = x[changed], rows[changed]
        return found

    def contradictions(self, x: Tensor) -> dict[int, str]:
        """An atom with too many bonds, or why there is no molecule of one piece."""
        x = x.cpu()
        found = super().contradictions(x)
        for row in (~self.is_possible(x)).nonzero().squeeze(1).tolist():
            found.setdefault(row, self.contradiction(x[row]))
        return found

    def contradiction(self, x: Tensor) -> str:
        pieces = self._pieces(x.unsqueeze(0))
        apart = pieces.apart[0].nonzero()
        if len(apart):
            node = int(apart[0])
            return f"no bond that is left open can join the piece of atom {node} to the others"
        return f"its {int(pieces.num)} pieces have too few bonds left to become one"

    def _pieces(self, x: Tensor) -> _Pieces:
        real = x[:, : self.vocab.n_max] != self.vocab.pad_id
        n = int(real.sum(dim=1).max())  # PAD in all is left out
        real = real[:, :n]
        left = self.left(x, torch.arange(n).expand(len(x), -1))
        piece = self.pieces(self.is_edge(self.pairs(x)))[:, :n]
        same = piece.unsqueeze(2) == piece.unsqueeze(1)
        can = real & (left > 0)
        is_open = (x[:, self.slots[:n, :n]] == self.vocab.mask_id) & ~same
        is_open &= can.unsqueeze(1) & can.unsqueeze(2)
        return _Pieces(same, real & ~same.tril(-1).any(dim=2), is_open, left)

    def _with_consequences(self, x: Tensor, pieces: _Pieces) -> tuple[Tensor, Tensor]:
        """x with no bond where none can be of use, else with bonds that have to be, Int[R, L]; and
        Bool[R], which have any of them."""
        vocab = self.vocab
        ends = pieces.of_its_own(pieces.ends)
        leaf = (ends == 1) & (pieces.num > 2).unsqueeze(1)
        useless = pieces.is_open & leaf.unsqueeze(1) & leaf.unsqueeze(2)
        only = pieces.of_its_own(pieces.is_open.sum(dim=2)) == 1
        forced = pieces.is_open & (only.unsqueeze(1) | only.unsqueeze(2))
        forced &= ~useless.flatten(1).any(dim=1)[:, None, None]
        n = useless.shape[1]
        i, j = torch.triu_indices(n, n, offset=1)
        pairs = x[:, self.slots[i, j]]
        pairs[useless[:, i, j]] = vocab.edge_offset + vocab.no_edge
        pairs[forced[:, i, j]] = vocab.edge_offset + _SINGLE
        x = x.index_copy(1, self.slots[i, j], pairs)
        return x, (useless | forced).flatten(1).any(dim=1)


@dataclass
class _Pieces:
    """Pieces that bonds make of molecules, each by its ``first`` atom, Bool[R, N].

    ``same``: Bool[R, N, N], atoms of one piece. ``is_open``: Bool[R, N, N], open pairs. ``left``:
    Int[R, N], bonds that atoms have left. ``num``: Int[R], how many pieces there are. ``near``:
    Bool[R, N, N], the pieces that open pairs join. ``ends``: Int[R, N], e_P. Of pieces at their
    first atoms, 0 elsewhere.
    """

    same: Tensor
    first: Tensor
    is_open: Tensor
    left: Tensor

    def __post_init__(self) -> None:
        self.num = self.first.sum(dim=1)
        to_piece = (self.is_open.float() @ self.same.float() > 0) & self.first.unsqueeze(1)
        self.near = (self.same.float() @ to_piece.float() > 0) & self.first.unsqueeze(2)
        of_atom = torch.minimum(self.left, to_piece.sum(dim=2)).clamp(min=0)
        self.ends = torch.minimum(self.of_its_own(of_atom), self.near.sum(dim=2))

    def of_its_own(self, values: Tensor) -> Tensor:
        """Int[R, N]: the sum of the values Int[R, N] over the piece of each atom."""
        return (self.same.float() @ values.float().unsqueeze(2)).squeeze(2).long()

    @property
    def apart(self) -> Tensor:
        """Bool[R, N]: the pieces that open pairs cannot join to that of the largest e_P."""
        passing = self.ends > 1
        reached = torch.zeros_like(self.first)
        start = (self.ends + self.first).argmax(dim=1, keepdim=True)
        reached.scatter_(1, start, True)
        passing = passing.scatter(1, start, True)
        while True:
            more = reached | (self.near & (reached & passing).unsqueeze(1)).any(dim=2)
            if torch.equal(more, reached):
                return self.first & ~reached
            reached = more

    @property
    def may_be_joined(self) -> Tensor:
        """Bool[R]: whether no condition is failed."""
        enough = self.ends.sum(dim=1) >= 2 * (self.num - 1)
        return enough & (self.left >= 0).all(dim=1) & ~self.apart.any(dim=1)
