"""Arrangements of the rooms of a partial diagram in the slots of a sequence."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import torch
from torch import Tensor

from discrete_diffusion.data import inverse_ids
from discrete_diffusion.layout import VocabConfig
from floor_plans.diagrams.partial import PartialDiagram, encode_partial
from floor_plans.diagrams.vocabulary import codes_of


@dataclass(frozen=True)
class Arrangements:
    """R arrangements of the rooms of one partial diagram in slots.

    ``tokens``: Int64[R, L], tokens of the slots, MASK where unknown.
    ``slots``: Int64[R, n], slot of each room of the file, -1 for a room without a slot so far.
    """

    tokens: Tensor
    slots: Tensor

    def __len__(self) -> int:
        return len(self.tokens)

    def select(self, rows: Tensor) -> Arrangements:
        """Select the rows Int[K]."""
        return Arrangements(self.tokens[rows], self.slots[rows])

    def orders(self, n_max: int) -> Tensor:
        """Int64[R, n_max]: room in each slot, once all rooms have slots; empty slots come last."""
        rest = torch.arange(self.slots.shape[1], n_max).expand(len(self), -1)
        return torch.cat([self.slots.argsort(dim=1), rest], dim=1)


@dataclass(frozen=True)
class Choices:
    """M ways to extend arrangements by one known token. ``parents``: Int64[M], row of the extended
    arrangement. ``positions``, ``tokens``: Int64[M], the new token and its position. ``slots``:
    Int64[M, n], as in ``Arrangements``."""

    parents: Tensor
    positions: Tensor
    tokens: Tensor
    slots: Tensor

    def __len__(self) -> int:
        return len(self.parents)

    def extend(self, arrangements: Arrangements, rows: Tensor) -> Arrangements:
        """Extend the ``arrangements`` by the choices of the rows Int[K]."""
        tokens = arrangements.tokens[self.parents[rows]]
        tokens[torch.arange(len(rows)), self.positions[rows]] = self.tokens[rows]
        return Arrangements(tokens, self.slots[rows])


class ArrangementTree:
    """Tree of all arrangements of a partial diagram in canonical order; each level adds one token.

    ``steps``: the placed tokens in order. Types come first, by id, each in a slot after the
    previous one. Then come relations (i, j, r), always one with the fewest choices: a room without
    a slot may take any free slot with its type (MASK if that is unknown). After k steps all
    arrangements have the same k tokens, at different positions; no branch is a dead end. Finally
    rooms without relations take the remaining slots, in ascending order within a type, since they
    are interchangeable. Every final token sequence is reached equally often: once for each
    renumbering of the rooms with relations that leaves the partial diagram unchanged.
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
        """Root of the tree: all MASK, no room has a slot."""
        n = self.partial.num_rooms
        blank = encode_partial([PartialDiagram((None,) * n, ())], self.vocab)
        return Arrangements(blank, torch.full((1, n), -1))

    def choices(self, arrangements: Arrangements, step: int) -> Choices:
        """All ways to place the token of ``step`` in ``arrangements`` of the previous steps."""
        known, n = self.steps[step], self.partial.num_rooms
        if not isinstance(known, tuple):
            # a type: slots after the last type, with space for the types to come
            slot, num_left = torch.arange(n), len(self._types) - step
            has_type = arrangements.tokens[:, :n] != self.vocab.mask_id
            last = torch.where(has_type, slot, -1).amax(dim=1, keepdim=True)
            parents, positions = ((slot > last) & (slot <= n - num_left)).nonzero(as_tuple=True)
            tokens = torch.full_like(positions, known)
            return Choices(parents, positions, tokens, arrangements.slots[parents])
        # a relation: pairs of distinct slots for both rooms
        i, j, r = known
        at_i, at_j = self._free(arrangements, i), self._free(arrangements, j)
        both = at_i.unsqueeze(2) & at_j.unsqueeze(1)  # (R, slot of i, slot of j)
        both.diagonal(dim1=1, dim2=2).zero_()
        parents, slot_i, slot_j = both.nonzero(as_tuple=True)
        slots = arrangements.slots[parents]
        slots[:, i], slots[:, j] = slot_i, slot_j
        positions = self._positions[slot_i, slot_j]
        return Choices(parents, positions, self._tokens_of(r)[slot_i, slot_j], slots)

    def outlook(
        self, arrangements: Arrangements, choices: Choices, step: int, log_d0: Tensor
    ) -> Tensor:
        """Float64[M]: estimated log-probability of the relations after ``step``, for each choice.
        It is the sum, over relations, of the log of the mean of D over the remaining pairs of
        slots; 0 unless ``step`` is a relation. ``log_d0``: log of the network's probabilities D for
        the ``arrangements``, Float64[R, L, V]."""
        guess = torch.zeros(len(choices), dtype=torch.float64)
        if step < len(self._types):
            return guess
        shown = Arrangements(arrangements.tokens[choices.parents], choices.slots)
        for i, j, r in self._relations[step + 1 - len(self._types) :]:
            # mean of D over all pairs of distinct slots that rooms i and j may take
            at_i, at_j = self._free(shown, i).double(), self._free(shown, j).double()
            d0 = log_d0[:, self._positions, self._tokens_of(r)].exp()  # (R, slot of i, slot of j)
            d0.diagonal(dim1=1, dim2=2).zero_()
            total = torch.einsum("mi,mij,mj->m", at_i, d0[choices.parents], at_j)
            number = at_i.sum(dim=1) * at_j.sum(dim=1) - (at_i * at_j).sum(dim=1)
            guess += (total / number).clamp(min=torch.finfo(torch.float64).tiny).log()
        return guess

    def filled(self, arrangements: Arrangements) -> Arrangements:
        """Complete the ``arrangements``: rooms without relations take the remaining slots."""
        slots = arrangements.slots.clone()
        for room in range(slots.shape[1]):
            free = self._free(Arrangements(arrangements.tokens, slots), room)
            slots[:, room] = free.long().argmax(dim=1)
        return Arrangements(arrangements.tokens, slots)

    def _tokens_of(self, r: int) -> Tensor:
        """Int64[n, n]: token of "i r j" for i in the first slot and j in the second."""
        token = torch.tensor(self.vocab.edge_offset + self._edge_types[r])
        slot = torch.arange(self.partial.num_rooms)
        return torch.where(slot.unsqueeze(1) < slot, token, self._inverse[token])

    def _free(self, arrangements: Arrangements, room: int) -> Tensor:
        """Bool[R, n]: slots that a room may take, or the slot that it has."""
        n, known = self.partial.num_rooms, self._rooms[room]
        # slots with the type of the room that no other room has
        has = arrangements.slots.unsqueeze(2) == torch.arange(n)  # (R, rooms, slots)
        shows = arrangements.tokens[:, :n] == (self.vocab.mask_id if known is None else known)
        none_yet = arrangements.slots[:, room : room + 1] < 0
        return torch.where(none_yet, shows & ~has.any(dim=1), has[:, room])


def as_numbered(partial: PartialDiagram, vocab: VocabConfig) -> Arrangements:
    """Arrangement that keeps the room numbers of the file."""
    slots = torch.arange(partial.num_rooms).unsqueeze(0)
    return Arrangements(encode_partial([partial], vocab), slots)


def _fewest_choices_first(partial: PartialDiagram) -> list[tuple[int, int, int]]:
    """Order relations greedily by the fewest choices of slots, then by the most relations of their
    rooms, so that choices are weighed early."""
    rooms, left, ordered = partial.rooms, list(partial.relations), []
    free = Counter(rooms)
    num_relations = Counter(end for i, j, _ in left for end in (i, j))
    placed: set[int] = set()

    def rank(relation: tuple[int, int, int]) -> tuple[int, int]:
        i, j, _ = relation
        of_i, of_j = (1 if room in placed else free[rooms[room]] for room in (i, j))
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
