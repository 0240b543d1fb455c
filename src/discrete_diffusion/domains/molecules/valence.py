"""``Valence`` and ``ConnectedValence``: constrain samples of molecules to valid valences, and to
one connected piece."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

from discrete_diffusion.domains.molecules.molecule import BONDS, Molecule, sanitised
from discrete_diffusion.layout.vocab_config import VocabConfig
from discrete_diffusion.sampling.graph_structures import GraphNarrowing

_UNLIMITED = 12
"""Number of bonds from which on an atom, such as a metal or ``*``, counts as unlimited."""


@cache
def most_bonds(atom: str) -> int:
    """Maximal total order of the bonds of an atom that rdkit accepts unchanged: 3 for ``N``, 4 for
    ``N+``, 1 for ``O-``, 6 for ``S``; missing bonds are hydrogen."""
    from rdkit import rdBase

    with rdBase.BlockLogs():
        for num in range(1, _UNLIMITED + 1):
            bonds = tuple((0, k, 0) for k in range(1, num + 1))
            if sanitised(Molecule((atom, *["C"] * num), bonds)) is None:
                return num - 1
    return 10**6


class Valence(GraphNarrowing):
    """Constrain molecules so that no atom exceeds the maximal valence of its type (``most_bonds``).

    A bond is excluded if its order exceeds the valence that one of its ends has left; a MASK atom
    counts as the type of the highest valence. A type is excluded if the bonds of the atom already
    exceed its valence. Nothing else is excluded, since the molecule can then be completed: without
    further bonds, and with the type of the highest valence for other MASK atoms. "none" and this
    type are always allowed, so that there are no dead ends.
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
        # types of atoms, by the bonds that they have
        is_atom = position < vocab.n_max
        atoms, pairs = (rows.nonzero().squeeze(1) for rows in (is_atom, ~is_atom))
        used = self.used(x[atoms], position[atoms].unsqueeze(1))
        allowed[atoms, : vocab.num_node_types] = used <= self._takes
        # orders of bonds, by what their ends have left
        left = self.left(x[pairs], self.ends[position[pairs] - vocab.n_max])
        allowed[pairs] = self._order <= left.amin(dim=1, keepdim=True)
        return allowed.to(device)

    def contradictions(self, x: Tensor) -> dict[int, str]:
        """Messages by row, each on the first atom whose bonds exceed its valence."""
        x = x.cpu()
        nodes = torch.arange(self.vocab.n_max).expand(len(x), -1)
        messages: dict[int, str] = {}
        for row, node in (self.left(x, nodes) < 0).nonzero().tolist():
            kind, used = int(x[row, node]), int(self.used(x[row : row + 1], nodes[:1, [node]]))
            known = kind < self.vocab.num_node_types
            name = self.vocab.node_types[kind] if known else "of any type"
            most = int(self._takes[kind] if known else self._takes.max())
            messages.setdefault(
                row, f"atom {node} ({name}) has bonds of total order {used}, more than {most}"
            )
        return messages

    def used(self, x: Tensor, nodes: Tensor) -> Tensor:
        """Int[R, K]: total order of the bonds of ``nodes`` Int[R, K]."""
        around = self.slots[nodes]  # (R, K, n_max)
        tokens = x.gather(1, around.flatten(1)).view_as(around)
        return self._order[tokens].sum(dim=2)

    def left(self, x: Tensor, nodes: Tensor) -> Tensor:
        """Int[R, K]: valence that ``nodes`` Int[R, K] have left, negative if exceeded. MASK counts
        as the type of the highest valence; values at PAD are meaningless."""
        kind = x.gather(1, nodes)
        known = kind < self.vocab.num_node_types
        takes = torch.where(known, self._takes[kind.where(known, 0)], self._takes.max())
        return takes - self.used(x, nodes)


_SINGLE = BONDS.index("single")


class ConnectedValence(Valence):
    """Constrain molecules to one connected piece, with valences as in ``Valence``.

    A value is excluded by ``Valence``, or if the molecule with it fails one of two conditions. Let
    k be the number of pieces that its bonds make, and a pair *open* if it is MASK, lies between two
    pieces, and both ends have valence left (MASK: as the type of the highest valence). With

        e_i = min(valence that atom i has left, pieces that open pairs join to i)
        e_P = min(sum of e_i over the atoms of P, pieces that open pairs join to P)

        1. sum_P e_P >= 2 (k - 1)
        2. open pairs join all pieces by paths that do not pass through a piece with e_P = 1

    They are checked again after their consequences, until there are none: if k > 2, an open pair
    between two pieces with e_P = 1 cannot be a bond; the only open pair of a piece must be one.

    The pieces are joined by bonds at k - 1 open pairs, at most one between the same two pieces and
    at most e_P at P: the conditions are necessary, and no value that has a completion is excluded.
    They are not sufficient: a spanning tree of bounded degree is hard to find in general (a
    Hamiltonian path is one). So there are dead ends, where no value is left: such a sample is
    finished without constraints, may be invalid or in pieces, and has weight 0. Weighted samples
    follow the model conditioned on both properties.
    """

    def __init__(self, vocab: VocabConfig) -> None:
        super().__init__(vocab)
        self._legal = vocab.layout().support

    def support(self, x: Tensor, position: Tensor) -> Tensor:
        device = x.device
        x, position = x.cpu(), position.cpu()
        allowed = super().support(x, position)
        # try every value that valence allows
        row, value = (allowed & self._legal[position]).nonzero(as_tuple=True)
        tried = x[row]
        tried[torch.arange(len(row)), position[row]] = value
        allowed[row, value] = self.is_possible(tried)
        return allowed.to(device)

    def is_possible(self, x: Tensor) -> Tensor:
        """Bool[R]: True for molecules x Int[R, L], allowed by ``Valence``, that meet the
        conditions."""
        possible = torch.ones(len(x), dtype=torch.bool)
        rows = torch.arange(len(x))
        while len(rows):
            pieces = self._pieces(x)
            possible[rows] = pieces.may_be_joined
            # again for the rows that have consequences
            x, changed = self._with_consequences(x, pieces)
            changed &= possible[rows]
            x, rows = x[changed], rows[changed]
        return possible

    def contradictions(self, x: Tensor) -> dict[int, str]:
        """Messages by row, each on an atom whose bonds exceed its valence, or on pieces that
        cannot be joined."""
        x = x.cpu()
        messages = super().contradictions(x)
        for row in (~self.is_possible(x)).nonzero().squeeze(1).tolist():
            messages.setdefault(row, self.contradiction(x[row]))
        return messages

    def contradiction(self, x: Tensor) -> str:
        """Reason why one molecule Int[L] cannot be one piece."""
        pieces = self._pieces(x.unsqueeze(0))
        apart = pieces.apart[0].nonzero()
        if len(apart):
            node = int(apart[0])
            return f"no bond that is left open can join the piece of atom {node} to the others"
        return f"its {int(pieces.num)} pieces have too few bonds left to become one"

    def _pieces(self, x: Tensor) -> _Pieces:
        real = x[:, : self.vocab.n_max] != self.vocab.pad_id
        n = int(real.sum(dim=1).max())  # without slots that are PAD in all rows
        real = real[:, :n]
        left = self.left(x, torch.arange(n).expand(len(x), -1))
        piece = self.pieces(self.is_edge(self.pairs(x)))[:, :n]
        same = piece.unsqueeze(2) == piece.unsqueeze(1)
        # MASK pairs of two pieces whose ends both have a bond left
        can = real & (left > 0)
        is_open = (x[:, self.slots[:n, :n]] == self.vocab.mask_id) & ~same
        is_open &= can.unsqueeze(1) & can.unsqueeze(2)
        first = real & ~same.tril(-1).any(dim=2)
        return _Pieces(same, first, is_open, left)

    def _with_consequences(self, x: Tensor, pieces: _Pieces) -> tuple[Tensor, Tensor]:
        """Set useless pairs of x to no bond; in rows without any, set necessary pairs to a bond.

        An open pair is useless between two of more than two pieces if both have e_P = 1, and
        necessary if it is the only open pair of a piece. Return x, Int[R, L], and Bool[R], True
        for rows that change.
        """
        vocab = self.vocab
        # bonds between two pieces that can have only one more are useless
        ends = pieces.sum_over_piece(pieces.ends)
        leaf = (ends == 1) & (pieces.num > 2).unsqueeze(1)
        useless = pieces.is_open & leaf.unsqueeze(1) & leaf.unsqueeze(2)
        # the only open pair of a piece is a bond
        only = pieces.sum_over_piece(pieces.is_open.sum(dim=2)) == 1
        forced = pieces.is_open & (only.unsqueeze(1) | only.unsqueeze(2))
        forced &= ~useless.flatten(1).any(dim=1)[:, None, None]
        # as tokens of the pairs
        n = useless.shape[1]
        i, j = torch.triu_indices(n, n, offset=1)
        pairs = x[:, self.slots[i, j]]
        pairs[useless[:, i, j]] = vocab.edge_offset + vocab.no_edge
        pairs[forced[:, i, j]] = vocab.edge_offset + _SINGLE
        x = x.index_copy(1, self.slots[i, j], pairs)
        return x, (useless | forced).flatten(1).any(dim=1)


@dataclass
class _Pieces:
    """Connected pieces of molecules, each represented by its ``first`` atom, Bool[R, N].

    ``same``: Bool[R, N, N], atoms of one piece. ``is_open``: Bool[R, N, N], open pairs. ``left``:
    Int[R, N], valence that atoms have left. ``num``: Int[R], number of pieces. ``near``: Bool[R, N,
    N], pieces that open pairs join, and ``ends``: Int[R, N], e_P; both are 0 except at first atoms.
    """

    same: Tensor
    first: Tensor
    is_open: Tensor
    left: Tensor

    def __post_init__(self) -> None:
        self.num = self.first.sum(dim=1)
        # pieces that open pairs of an atom reach, then those of a piece
        to_piece = (self.is_open.float() @ self.same.float() > 0) & self.first.unsqueeze(1)
        self.near = (self.same.float() @ to_piece.float() > 0) & self.first.unsqueeze(2)
        # e_i of each atom, and e_P of each piece
        of_atom = torch.minimum(self.left, to_piece.sum(dim=2)).clamp(min=0)
        self.ends = torch.minimum(self.sum_over_piece(of_atom), self.near.sum(dim=2))

    def sum_over_piece(self, values: Tensor) -> Tensor:
        """Int[R, N]: sum of values Int[R, N] over the piece of each atom."""
        return (self.same.float() @ values.float().unsqueeze(2)).squeeze(2).long()

    @property
    def apart(self) -> Tensor:
        """Bool[R, N]: pieces that open pairs cannot join to the piece with the largest e_P."""
        # search from that piece, through pieces of e_P > 1
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
        """Bool[R]: True where both conditions of ``ConnectedValence`` and all valences hold."""
        enough = self.ends.sum(dim=1) >= 2 * (self.num - 1)
        return enough & (self.left >= 0).all(dim=1) & ~self.apart.any(dim=1)
