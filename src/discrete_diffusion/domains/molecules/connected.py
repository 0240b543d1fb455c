"""``ConnectedValence``: while a molecule is sampled, it stays possible that it is one piece."""

from __future__ import annotations

import torch
from torch import Tensor

from discrete_diffusion.domains.molecules.valence import Valence
from discrete_diffusion.layout.vocab_config import VocabConfig


class ConnectedValence(Valence):
    """Molecules of one piece, with the bonds of ``Valence``.

    A value is excluded by ``Valence``, or if the molecule with it fails one of two conditions. Let
    k be the pieces that its bonds make, and a pair *open* if it is MASK, lies between two of them,
    and each end has a bond left; of an end that is MASK, what the type takes that takes most.

        1. Open pairs join all pieces.
        2. sum_P e_P >= 2 (k - 1),   e_P = min(pieces that open pairs join to P,
                                              sum of e_i over the atoms i of P),
           e_i = min(bonds that i has left, pieces that open pairs join to i).

    k - 1 open pairs that become bonds join the pieces, at most one of them between the same two:
    e bounds how many of their ends lie at a piece or an atom, so that each condition is necessary
    and nothing is excluded that has a completion. They are not sufficient: whether a spanning tree
    with given largest degrees exists is hard to tell in general (it contains Hamiltonian paths). So
    there are dead ends, in which no value is left. Such a sample is finished without narrowing, may
    be neither valid nor connected, and has weight 0: weighted samples follow the model given both.
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
        """Bool[R]: whether molecules x Int[R, L] that ``Valence`` allows meet both conditions."""
        first, near, ends = self._pieces(x)
        enough = ends.sum(dim=1) >= 2 * (first.sum(dim=1) - 1)
        return enough & ~self._apart(first, near).any(dim=1)

    def contradictions(self, x: Tensor) -> dict[int, str]:
        """An atom with too many bonds, or why there is no molecule of one piece."""
        x = x.cpu()
        found = super().contradictions(x)
        first, near, _ = self._pieces(x)
        apart = self._apart(first, near)
        for row in (~self.is_possible(x)).nonzero().squeeze(1).tolist():
            why = f"its {int(first[row].sum())} pieces have too few bonds left to become one"
            if apart[row].any():
                node = int(apart[row].nonzero()[0])
                why = f"no bond that is left open can join the piece of atom {node} to atom 0"
            found.setdefault(row, why)
        return found

    def _pieces(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The pieces of x Int[R, L], each by its first atom: Bool[R, N], which atoms are first;
        Bool[R, N, N], the pieces that open pairs join; e_P Int[R, N], 0 at other atoms."""
        n = self.vocab.n_max
        left = self.left(x, torch.arange(n).expand(len(x), -1))
        real = x[:, :n] != self.vocab.pad_id
        piece = self.pieces(self.is_edge(self.pairs(x)))
        same = piece.unsqueeze(2) == piece.unsqueeze(1)
        first = real & ~same.tril(-1).any(dim=2)
        can = real & (left > 0)
        is_open = (x[:, self.slots] == self.vocab.mask_id) & ~same
        is_open &= can.unsqueeze(1) & can.unsqueeze(2)
        same_ = same.float()
        at_first = first.unsqueeze(1)
        to_piece = (is_open.float() @ same_ > 0) & at_first  # of an atom
        between = (same_ @ to_piece.float() > 0) & first.unsqueeze(2)
        of_atom = torch.minimum(left, to_piece.sum(dim=2)).clamp(min=0)
        of_piece = (same_ @ of_atom.float().unsqueeze(2)).squeeze(2).long()
        return first, between, torch.minimum(of_piece, between.sum(dim=2))

    def _apart(self, first: Tensor, near: Tensor) -> Tensor:
        """Bool[R, N]: the pieces that open pairs do not join to that of atom 0."""
        reached = torch.zeros_like(first)
        reached[:, 0] = True
        while True:
            more = reached | (near & reached.unsqueeze(1)).any(dim=2)
            if torch.equal(more, reached):
                return first & ~reached
            reached = more
