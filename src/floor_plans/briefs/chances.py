"""Probabilities that unfinished diagrams meet a brief: the look-ahead of its particles."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import permutations, product
from math import prod

import torch
from torch import Tensor

from discrete_diffusion.layout import VocabConfig
from discrete_diffusion.sampling import Constraint
from floor_plans.briefs.brief import BESIDE, Brief, CountRule, Kind, Quantity, RelationRule
from floor_plans.diagrams.type_codes import codes_of
from floor_plans.diagrams.vocabulary import INVERSE

MOST_STATES = 4096
"""Most states of the automaton that counts all kinds together; past that each rule counts alone."""

_AT_ONCE = 256
"""Choices of named rooms that are weighed at once."""

_DOUBT = 1e-6
"""Share of every belief that is spread over all types, so that rounding rules nothing out."""


@dataclass(frozen=True)
class Beliefs:
    """Independent probabilities of rooms and relations, for R samples and W worlds of each.

    ``rooms``: Float64[R, W or 1, n, T], of each type at each slot, all 0 where there is no room.
    ``relations``: Float64[R, W or 1, n, n, K], of each relation of slot i to slot j, read from i; 0
    on the diagonal and where there is no room. In world w the token in question has its w-th value.
    ``vocab``: names types and relations.
    """

    rooms: Tensor
    relations: Tensor
    vocab: VocabConfig

    @cached_property
    def present(self) -> Tensor:
        """Bool[R, 1, n]: where there is a room."""
        return self.rooms[:, :1].sum(dim=-1) > 0

    def of_kind(self, kind: Kind) -> Tensor:
        """Float64[R, W or 1, n]: that the room at a slot is of a kind."""
        kept = [code in kind.types for code in codes_of(self.vocab).rooms]
        return self.rooms[..., kept].sum(dim=-1).clamp(max=1.0)

    def related(self, relations: frozenset[int]) -> Tensor:
        """Float64[R, W or 1, n, n]: that slot i is so related to slot j."""
        kept = [code in relations for code in codes_of(self.vocab).relations]
        return self.relations[..., kept].sum(dim=-1).clamp(max=1.0)


class BriefConstraint(Constraint):
    """Constraint that diagrams meet a brief, its number of rooms and ``buildable`` aside.

    The look-ahead takes all that is not sampled yet as independent, as the network says of each
    token, and multiplies the chances of the rules:

    * counts: exact for independent rooms, all rules together, by dynamic programming over slots
      with the numbers of rooms so far, no further than they matter, as state;
    * some A is R to B: 1 - prod over i, j of (1 - a_i b_j r_ij);
      no A is: prod of (1 - a_i b_j r_ij);
      every A is: prod over i of (1 - a_i prod_j (1 - b_j r_ij));
    * named rooms: 1 - prod over choices of different rooms of (1 - chance of all their rules);
    * degree: prod over rooms of the chance (Poisson binomial) that few enough are beside them;
    * connected: 0 where what can still be related leaves the rooms apart, else the chance that no
      room is alone.

    All are 0 or 1 of a finished diagram, and above 0 of one that can still meet the brief.
    """

    def __init__(self, brief: Brief, vocab: VocabConfig) -> None:
        self.brief, self.vocab = brief, vocab
        codes = codes_of(vocab)
        back = [codes.edge_types[INVERSE[code]] for code in codes.relations]
        self._inverse = torch.tensor(back)
        self._any_type = vocab.layout().uniform_log_probs().exp()  # (L, V)
        self._ends = torch.tensor(vocab.endpoints).reshape(-1, 2)
        rules = [*brief.counts]
        together = prod(_cap(rule) + 1 for rule in rules) <= MOST_STATES
        groups = [rules] if together else [[rule] for rule in rules]
        self._counts = [_Counter(group, vocab) for group in groups if group]

    def met(self, x: Tensor) -> Tensor:
        """Bool[R]: of finished tokens Int[R, L]."""
        device, x = x.device, x.cpu()
        everything = self._probabilities(x, None)
        beliefs = Beliefs(*self._views(everything), self.vocab)
        return (self._chances(beliefs, None)[:, 0] > 0.5).to(device)

    def log_chances(self, x: Tensor, position: Tensor, log_d0: Tensor) -> Tensor:
        device = x.device
        x, position, log_d0 = x.cpu(), position.cpu(), log_d0.cpu()
        found = torch.full((len(x), self.vocab.vocab_size), -torch.inf, dtype=torch.float64)
        is_node = position < self.vocab.n_max
        probabilities = self._probabilities(x, log_d0)
        for rows, worlds, first in (
            (is_node.nonzero().squeeze(1), self._room_worlds, 0),
            ((~is_node).nonzero().squeeze(1), self._edge_worlds, self.vocab.edge_offset),
        ):
            if len(rows):
                rooms, relations = self._views(probabilities[rows])
                beliefs, slot = worlds(rooms, relations, position[rows])
                num = self.vocab.num_edge_types if first else self.vocab.num_node_types
                found[rows, first : first + num] = self._chances(beliefs, slot).log()
        return found.to(device)

    def _probabilities(self, x: Tensor, log_d0: Tensor | None) -> Tensor:
        """Float64[R, L, V]: 1 for what is sampled, else what the network says; 0 at PAD."""
        known = torch.nn.functional.one_hot(x, self.vocab.vocab_size).double()
        known[..., [self.vocab.mask_id, self.vocab.pad_id]] = 0.0
        if log_d0 is None:
            return known
        hidden = (x == self.vocab.mask_id).unsqueeze(-1)
        believed = (1 - _DOUBT) * log_d0.double().exp() + _DOUBT * self._any_type
        return torch.where(hidden, believed, known)

    def _views(self, probabilities: Tensor) -> tuple[Tensor, Tensor]:
        """``rooms`` and ``relations`` of ``Beliefs``, of one world."""
        n, offset = self.vocab.n_max, self.vocab.edge_offset
        rooms = probabilities[:, :n, : self.vocab.num_node_types]
        edges = probabilities[:, n:, offset : offset + self.vocab.num_edge_types]
        i, j = self._ends.unbind(dim=1)
        relations = edges.new_zeros(len(rooms), n, n, self.vocab.num_edge_types)
        relations[:, i, j] = edges
        relations[:, j, i] = edges[..., self._inverse]
        return rooms.unsqueeze(1), relations.unsqueeze(1)

    def _room_worlds(
        self, rooms: Tensor, relations: Tensor, position: Tensor
    ) -> tuple[Beliefs, Tensor]:
        """A world per type of the room at ``position`` Int[R], and its slot."""
        num = self.vocab.num_node_types
        rooms = rooms.repeat(1, num, 1, 1)
        rooms[torch.arange(len(rooms)), :, position] = torch.eye(num, dtype=rooms.dtype)
        return Beliefs(rooms, relations, self.vocab), position

    def _edge_worlds(
        self, rooms: Tensor, relations: Tensor, position: Tensor
    ) -> tuple[Beliefs, None]:
        """A world per relation of the pair at ``position`` Int[R]."""
        num, row = self.vocab.num_edge_types, torch.arange(len(rooms))
        i, j = self._ends[position - self.vocab.n_max].unbind(dim=1)
        relations = relations.repeat(1, num, 1, 1, 1)
        every = torch.eye(num, dtype=rooms.dtype)
        relations[row, :, i, j] = every
        relations[row, :, j, i] = every[self._inverse]
        return Beliefs(rooms, relations, self.vocab), None

    def _chances(self, beliefs: Beliefs, slot: Tensor | None) -> Tensor:
        """Float64[R, W] of all rules; ``slot`` Int[R]: where the worlds have other rooms."""
        chance = self._of_relations(beliefs)
        for counter in self._counts:
            chance = chance * counter.chances(beliefs, slot)
        return chance

    def _of_relations(self, beliefs: Beliefs) -> Tensor:
        """Float64[R, W]: the chances of all rules but counts, multiplied."""
        chance = torch.ones_like(beliefs.rooms[..., 0, 0]) * torch.ones_like(
            beliefs.relations[..., 0, 0, 0]
        )
        for rule in self.brief.of_kinds:
            assert isinstance(rule.subject, Kind)
            assert isinstance(rule.object, Kind)
            related = beliefs.related(rule.relations)
            subject, object = beliefs.of_kind(rule.subject), beliefs.of_kind(rule.object)
            chance = chance * _of_kinds(rule.quantity, subject, related, object)
        if self.brief.named:
            chance = chance * self._of_named(beliefs)
        if self.brief.degree is not None:
            chance = chance * _few_beside(beliefs, self.brief.degree.most)
        if self.brief.connected is not None:
            chance = chance * _connected(beliefs)
        return chance

    def _of_named(self, beliefs: Beliefs) -> Tensor:
        """Chance that there are different rooms for all names, of which the rules hold together."""
        names, brief = list(self.brief.named), self.brief
        kinds = [beliefs.of_kind(kind) for kind in brief.named.values()]
        choices = torch.tensor([*permutations(range(self.vocab.n_max), len(names))])
        chance = None
        for part in choices.split(_AT_ONCE):
            chosen = dict(zip(names, part.unbind(dim=1), strict=True))
            of_choice = _product(
                kind[..., rooms] for kind, rooms in zip(kinds, chosen.values(), strict=True)
            )
            for rule in brief.of_named:
                of_choice = of_choice * self._of_rule(rule, chosen, beliefs)
            none = (1 - of_choice).prod(dim=-1)
            chance = none if chance is None else chance * none
        assert chance is not None
        return 1 - chance

    def _of_rule(self, rule: RelationRule, chosen: dict[str, Tensor], beliefs: Beliefs) -> Tensor:
        """Float64[R, W or 1, C]: of C choices of named rooms."""
        related = beliefs.related(rule.relations)
        subject, object = rule.subject, rule.object
        if isinstance(subject, str) and isinstance(object, str):
            chance = related[..., chosen[subject], chosen[object]]
            return 1 - chance if rule.quantity is Quantity.NO else chance
        if isinstance(subject, str):
            assert isinstance(object, Kind)
            to_none = (1 - beliefs.of_kind(object).unsqueeze(-2) * related).prod(dim=-1)
            none = to_none[..., chosen[subject]]
            return none if rule.quantity is Quantity.NO else 1 - none
        assert isinstance(object, str)
        of_subject = beliefs.of_kind(subject).unsqueeze(-1)
        if rule.quantity is Quantity.EVERY:
            other = 1 - torch.eye(related.shape[-1], dtype=related.dtype)
            return (1 - of_subject * (1 - related) * other).prod(dim=-2)[..., chosen[object]]
        none = (1 - of_subject * related).prod(dim=-2)[..., chosen[object]]
        return none if rule.quantity is Quantity.NO else 1 - none


def _product(factors: Iterable[Tensor]) -> Tensor:
    found = None
    for factor in factors:
        found = factor if found is None else found * factor
    assert found is not None
    return found


def _of_kinds(quantity: Quantity, subject: Tensor, related: Tensor, object: Tensor) -> Tensor:
    """Float64[R, W or 1]: of a rule between two kinds of rooms, both Float64[..., n]."""
    to = object.unsqueeze(-2) * related  # (..., i, j)
    if quantity is Quantity.EVERY:
        return (1 - subject * (1 - to).prod(dim=-1)).prod(dim=-1)
    none = (1 - subject.unsqueeze(-1) * to).flatten(-2).prod(dim=-1)
    return none if quantity is Quantity.NO else 1 - none


def _few_beside(beliefs: Beliefs, most: int) -> Tensor:
    """Chance that no room has more than ``most`` others beside it, each room for itself."""
    beside = beliefs.related(BESIDE)
    number = beside.new_zeros(*beside.shape[:-1], most + 1)  # of neighbours so far
    number[..., 0] = 1
    for j in range(beside.shape[-1]):
        one = beside[..., j].unsqueeze(-1)
        more = torch.cat([torch.zeros_like(number[..., :1]), number[..., :-1]], dim=-1)
        number = number * (1 - one) + more * one
    return number.sum(dim=-1).prod(dim=-1)


def _connected(beliefs: Beliefs) -> Tensor:
    """0 where the rooms cannot be connected any more, else the chance that none is alone."""
    beside, present = beliefs.related(BESIDE), beliefs.present
    reached = (beside > 0) | torch.eye(beside.shape[-1], dtype=torch.bool)
    for _ in range(beside.shape[-1].bit_length()):
        reached = (reached.double() @ reached.double()) > 0
    whole = (reached[..., 0, :] | ~present).all(dim=-1)
    single = present.sum(dim=-1) == 1
    alone = (1 - beside).prod(dim=-1) * present
    return torch.where(single, 1.0, (1 - alone).prod(dim=-1)) * whole


def _cap(rule: CountRule) -> int:
    """The number past which more rooms make no difference."""
    return rule.number.least if rule.number.most is None else rule.number.most + 1


class _Counter:
    """The chance that some count rules hold together, of independent rooms."""

    def __init__(self, rules: list[CountRule], vocab: VocabConfig) -> None:
        caps = [_cap(rule) for rule in rules]
        states = [*product(*(range(cap + 1) for cap in caps))]
        index = {state: k for k, state in enumerate(states)}
        members = [
            tuple(code in rule.kind.types for rule in rules) for code in codes_of(vocab).rooms
        ]
        nothing = tuple(False for _ in rules)
        signatures = [nothing, *sorted({*members} - {nothing})]
        self._signature = torch.tensor([signatures.index(each) for each in members])
        self._next = torch.tensor(
            [
                [
                    index[tuple(min(s + m, c) for s, m, c in zip(state, each, caps, strict=True))]
                    for state in states
                ]
                for each in signatures
            ]
        )  # (signatures, states)
        met = [
            all(number in rule.number for rule, number in zip(rules, state, strict=True))
            for state in states
        ]
        self._accepts = torch.tensor(met, dtype=torch.float64)[self._next]

    def chances(self, beliefs: Beliefs, slot: Tensor | None) -> Tensor:
        """Float64[R, W] of a room at ``slot`` Int[R] for each of its types, [R, 1] without one."""
        rooms = beliefs.rooms[:, 0]  # the worlds differ in ``slot`` alone
        of = rooms.new_zeros(*rooms.shape[:2], len(self._next))
        of.index_add_(2, self._signature, rooms)
        of[..., 0] = torch.where(beliefs.present[:, 0], of[..., 0], 1.0)
        if slot is not None:
            of[torch.arange(len(of)), slot] = torch.eye(len(self._next), dtype=of.dtype)[0]
        state = rooms.new_zeros(len(rooms), self._next.shape[1])
        state[:, 0] = 1
        for k in range(rooms.shape[1]):
            after = torch.zeros_like(state)
            for s, move in enumerate(self._next):
                after.index_add_(1, move, state * of[:, k, s].unsqueeze(1))
            state = after
        if slot is None:
            return state @ self._accepts[0].unsqueeze(1)
        return state @ self._accepts[self._signature].T
