"""The ways to put the rooms of a partial diagram into the slots of a sequence."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import torch
from torch import Tensor

from discrete_diffusion.data import inverse_ids
from discrete_diffusion.layout import VocabConfig
from floor_plans.diagrams.partial import PartialDiagram, encode_partial
from floor_plans.diagrams.tokens import codes_of


@dataclass(frozen=True)
class Arrangements:
    """Ways to put rooms of one partial diagram into slots.

    ``tokens``: Int64[R, L], what is known of the slots; MASK where unknown.
    ``slots``: Int64[R, n], the slot of each room of the file, -1 for one that has none yet.
    """

    tokens: Tensor
    slots: Tensor

    def __len__(self) -> int:
        return len(self.tokens)

    def at(self, rows: Tensor) -> Arrangements:
        """The rows Int[K]."""
        return Arrangements(self.tokens[rows], self.slots[rows])

    def orders(self, n_max: int) -> Tensor:
        """Int64[R, n_max]: slot k holds the room ``orders[r, k]``; every room has a slot."""
        rest = torch.arange(self.slots.shape[1], n_max).expand(len(self), -1)
        return torch.cat([self.slots.argsort(dim=1), rest], dim=1)


@dataclass(frozen=True)
class Choices:
    """Ways to continue arrangements by one known token.

    ``parents``: Int64[M], the row of the arrangement that each continues. ``positions``,
    ``tokens``: Int64[M], the token and where it stands. ``slots``: Int64[M, n], as in
    ``Arrangements``.
    """

    parents: Tensor
    positions: Tensor
    tokens: Tensor
    slots: Tensor

    def __len__(self) -> int:
        return len(self.parents)

    def taken(self, arrangements: Arrangements, rows: Tensor) -> Arrangements:
        """The ``arrangements`` continued by the choices of the rows Int[K]."""
        tokens = arrangements.tokens[self.parents[rows]]
        tokens[torch.arange(len(rows)), self.positions[rows]] = self.tokens[rows]
        return Arrangements(tokens, self.slots[rows])


class ArrangementTree:
    """Every arrangement of a partial diagram whose known types ascend along the slots, as in the
    canonical order; a level of the tree places one known token.

    ``steps``: those tokens in order: the id of a type, or a relation (i, j, r) as in the
    diagram.

    First come the types, each in a slot behind the one before. Then the relations, next always one
    that leaves the fewest choices: a room without a slot may take any free one that shows its type
    (MASK if that is unknown). After k steps all arrangements show the same k tokens, in different
    places; none is a dead end. Rooms without relations take what is left in the end, ascending
    among those of one type: nothing tells them apart.

    Every final token sequence is reached equally often: once for each way to renumber the rooms
    with relations that leaves the partial diagram as it is.
    """

    def __init__(self, partial: PartialDiagram, vocab: VocabConfig) -> None:
        self.partial, self.vocab = partial, vocab
        codes = codes_of(vocab)
        self._rooms = [None if room is None else codes.node_types[room] for room in partial.rooms]
        self._types = sorted(room for room in self._rooms if room is not None)
        self._relations = _fewest_choices_first(partial)
        self.steps: list[int | tuple[int, int, int]] = [*self._types, *self._relations]
        self._positions = vocab.edge_positions[: partial.num_rooms, : partial.num_rooms]
        self._edge_types, self._inverse = codes.edge_types, inverse_ids(vocab)

    def root(self) -> Arrangements:
        """All MASK; no room has a slot."""
        n = self.partial.num_rooms
        blank = encode_partial([PartialDiagram((None,) * n, ())], self.vocab)
        return Arrangements(blank, torch.full((1, n), -1))

    def choices(self, arrangements: Arrangements, step: int) -> Choices:
        """Every way to place the token of ``step`` in ``arrangements`` of all tokens before."""
        known = self.steps[step]
        if isinstance(known, tuple):
            return self._of_relation(arrangements, *known)
        return self._of_type(arrangements, known, num_left=len(self._types) - step)

    def outlook(
        self, arrangements: Arrangements, choices: Choices, step: int, log_d0: Tensor
    ) -> Tensor:
        """Float64[M]: an estimate of the log-probability of the relations after ``step``, given
        each choice: the sum over them of the log of D's mean over the pairs of slots left.

        ``log_d0``: Float64[R, L, V], of the ``arrangements``. Zeros unless ``step`` is a relation.
        """
        guess = torch.zeros(len(choices), dtype=torch.float64)
        if step < len(self._types):
            return guess
        shown = Arrangements(arrangements.tokens[choices.parents], choices.slots)
        for i, j, r in self._relations[step + 1 - len(self._types) :]:
            at_i, at_j = self._free(shown, i).double(), self._free(shown, j).double()
            d0 = log_d0[:, self._positions, self._tokens_of(r)].exp()  # (R, slot of i, slot of j)
            d0.diagonal(dim1=1, dim2=2).zero_()
            total = torch.einsum("mi,mij,mj->m", at_i, d0[choices.parents], at_j)
            number = at_i.sum(dim=1) * at_j.sum(dim=1) - (at_i * at_j).sum(dim=1)
            guess += (total / number).clamp(min=torch.finfo(torch.float64).tiny).log()
        return guess

    def filled(self, arrangements: Arrangements) -> Arrangements:
        """The ``arrangements`` of all tokens, with the rooms without relations in slots too."""
        slots = arrangements.slots.clone()
        for room in range(slots.shape[1]):
            free = self._free(Arrangements(arrangements.tokens, slots), room)
            slots[:, room] = free.long().argmax(dim=1)
        return Arrangements(arrangements.tokens, slots)

    def _of_type(self, arrangements: Arrangements, known: int, num_left: int) -> Choices:
        """``num_left``: the types that are not placed, this one included."""
        n = self.partial.num_rooms
        slot = torch.arange(n)
        shown = arrangements.tokens[:, :n] != self.vocab.mask_id
        last = torch.where(shown, slot, -1).amax(dim=1, keepdim=True)
        parents, positions = ((slot > last) & (slot <= n - num_left)).nonzero(as_tuple=True)
        tokens = torch.full_like(positions, known)
        return Choices(parents, positions, tokens, arrangements.slots[parents])

    def _of_relation(self, arrangements: Arrangements, i: int, j: int, r: int) -> Choices:
        at_i, at_j = self._free(arrangements, i), self._free(arrangements, j)
        both = at_i.unsqueeze(2) & at_j.unsqueeze(1)  # (R, slot of i, slot of j)
        both.diagonal(dim1=1, dim2=2).zero_()
        parents, slot_i, slot_j = both.nonzero(as_tuple=True)
        slots = arrangements.slots[parents]
        slots[:, i], slots[:, j] = slot_i, slot_j
        positions = self._positions[slot_i, slot_j]
        return Choices(parents, positions, self._tokens_of(r)[slot_i, slot_j], slots)

    def _tokens_of(self, r: int) -> Tensor:
        """Int64[n, n]: the token of "i r j" if i is in the first slot and j in the second."""
        token = torch.tensor(self.vocab.edge_offset + self._edge_types[r])
        slot = torch.arange(self.partial.num_rooms)
        return torch.where(slot.unsqueeze(1) < slot, token, self._inverse[token])

    def _free(self, arrangements: Arrangements, room: int) -> Tensor:
        """Bool[R, n]: the slots that a room may take, or the one that it has."""
        n, known = self.partial.num_rooms, self._rooms[room]
        has = arrangements.slots.unsqueeze(2) == torch.arange(n)  # (R, rooms, slots)
        shows = arrangements.tokens[:, :n] == (self.vocab.mask_id if known is None else known)
        none_yet = arrangements.slots[:, room : room + 1] < 0
        return torch.where(none_yet, shows & ~has.any(dim=1), has[:, room])


def as_numbered(partial: PartialDiagram, vocab: VocabConfig) -> Arrangements:
    """The arrangement that keeps the numbers of the file."""
    slots = torch.arange(partial.num_rooms).unsqueeze(0)
    return Arrangements(encode_partial([partial], vocab), slots)


def _fewest_choices_first(partial: PartialDiagram) -> list[tuple[int, int, int]]:
    """The relations, next always one that leaves the fewest choices of slots; of those, one whose
    rooms have the most relations, so that choices are soon weighed."""
    rooms, left, ordered = partial.rooms, list(partial.relations), []
    free = Counter(rooms)
    num_relations = Counter(end for i, j, _ in left for end in (i, j))
    placed: set[int] = set()

    def rank(relation: tuple[int, int, int]) -> tuple[int, int]:
        i, j, _ = relation
        of_i = 1 if i in placed else free[rooms[i]]
        of_j = 1 if j in placed else free[rooms[j]]
        if rooms[i] == rooms[j] and placed.isdisjoint((i, j)):
            of_j -= 1
        return of_i * of_j, -num_relations[i] - num_relations[j]

    while left:
        ordered.append(min(left, key=rank))
        left.remove(ordered[-1])
        for end in {*ordered[-1][:2]} - placed:
            placed.add(end)
            free[rooms[end]] -= 1
    return ordered
