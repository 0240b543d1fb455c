"""Look-ahead of particles: probability that an unfinished diagram will meet a brief."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import permutations, product
from math import prod
from operator import mul

import torch
from torch import Tensor

from discrete_diffusion.layout import VocabConfig
from floor_plans.briefs.brief import (
    ANY_RELATION,
    AnyRule,
    Brief,
    CountRule,
    Kind,
    Option,
    Quantity,
    RelationRule,
)
from floor_plans.briefs.particles import Constraint
from floor_plans.diagrams.vocabulary import INVERSE, codes_of

MOST_STATES = 4096
"""Most states of one automaton; past that rules, and options, count as independent."""

_AT_ONCE = 256  # choices of named rooms in one batch

_DOUBT = 1e-6
"""Share of every probability that is spread over all types, so that rounding excludes nothing."""


@dataclass(frozen=True)
class Beliefs:
    """Independent probabilities of rooms and relations, for R samples with W candidates each.

    A candidate is a possible value of the next token; an axis of 1 holds for all candidates.
    ``rooms``: Float64[R, W or 1, n, T], probability of each type at each slot, 0 at empty slots.
    ``relations``: Float64[R, W or 1, n, n, K], probability of each relation of slot i to slot j,
    read from i; 0 on the diagonal and at empty slots. ``vocab``: vocabulary of types and relations.
    """

    rooms: Tensor
    relations: Tensor
    vocab: VocabConfig

    @cached_property
    def present(self) -> Tensor:
        """Bool[R, 1, n]: True at slots that hold a room."""
        return self.rooms[:, :1].sum(dim=-1) > 0

    def kind_probability(self, kind: Kind) -> Tensor:
        """Float64[R, W or 1, n]: probability that the room at a slot is of a kind."""
        kept = [code in kind.types for code in codes_of(self.vocab).rooms]
        return self.rooms[..., kept].sum(dim=-1).clamp(max=1.0)

    def related(self, relations: frozenset[int]) -> Tensor:
        """Float64[R, W or 1, n, n]: probability that slot i has one of the relations to slot j."""
        kept = [code in relations for code in codes_of(self.vocab).relations]
        return self.relations[..., kept].sum(dim=-1).clamp(max=1.0)


class BriefConstraint(Constraint):
    """Constraint that diagrams meet a brief, except its number of rooms and ``buildable``.

    The look-ahead treats unsampled tokens as independent, with the probabilities of the network,
    and multiplies the probabilities of the rules. Room i is an A with probability a_i and a B with
    b_i, and has the relation to room j with r_ij:

    * counts: exact for independent rooms and all rules together, by dynamic programming over
      slots; the state is the number of rooms so far, capped where more makes no difference;
    * some A is R to B: 1 - prod over i, j of (1 - a_i b_j r_ij);
      no A is: prod of (1 - a_i b_j r_ij);
      every A is: prod over i of (1 - a_i prod_j (1 - b_j r_ij));
    * named rooms: 1 - prod over choices of different rooms of (1 - probability of their rules);
    * degree: prod over rooms of the probability (Poisson binomial) of few enough neighbours;
    * connected: 0 if the possible relations cannot connect the rooms, else the probability that no
      room is isolated;
    * options, of which one holds: exact for numbers of rooms, by the same states if they are few;
      else 1 - prod over options of (1 - p), with the probability p of all rules of the option.

    All are 0 or 1 for a finished diagram, and above 0 for one that can still meet the brief. A rule
    that should hold with probability p counts 1 / w + (1 - 1 / w) p, for its weight w: 1 or 1 / w
    for a finished diagram. Then the particles tend to p(G | C) prod w over the rules that G obeys.
    """

    def __init__(self, brief: Brief, vocab: VocabConfig) -> None:
        self.brief, self.vocab = brief, vocab
        codes = codes_of(vocab)
        back = [codes.edge_types[INVERSE[code]] for code in codes.relations]
        self._inverse = torch.tensor(back)
        self._any_type = vocab.layout().uniform_log_probs().exp()  # (L, V)
        self._ends = torch.tensor(vocab.endpoints).reshape(-1, 2)
        # options of counts alone; other options, each with an automaton of its own for its counts
        either = [rule.options for rule in brief.either if not rule.names]
        of_counts = [
            options
            for options in either
            if all(isinstance(rule, CountRule) for option in options for rule in option)
            and self._num_states([options]) <= MOST_STATES
        ]
        self._either = [[self._split(e) for e in o] for o in either if o not in of_counts]
        self._should = [(self._split(soft.option), soft.weight) for soft in brief.should]
        self._counts = self._counters([*(((rule,),) for rule in brief.counts), *of_counts])

    def _num_states(self, choices: Sequence[Sequence[Option]]) -> int:
        """Number of states of one automaton for the options of ``choices``."""
        return prod(cap + 1 for cap in _caps(choices, self.vocab.n_max).values())

    def _counters(self, choices: Sequence[Sequence[Option]]) -> list[_Counter]:
        """Build one automaton for all ``choices``, or one each if it had too many states."""
        together = self._num_states(choices) <= MOST_STATES
        groups = [choices] if together else [[options] for options in choices]
        return [_Counter(group, self.vocab) for group in groups if group]

    def _split(self, option: Option) -> tuple[list[RelationRule], list[_Counter]]:
        """Relations of an option, and the automata of its counts."""
        counts = [((rule,),) for rule in option if isinstance(rule, CountRule)]
        relations = [rule for rule in option if isinstance(rule, RelationRule)]
        return relations, self._counters(counts)

    def met(self, x: Tensor) -> Tensor:
        """Bool[R]: finished diagrams, tokens Int[R, L], that meet the brief."""
        return self.log_weights(x).isfinite()

    def log_weights(self, x: Tensor) -> Tensor:
        device, x = x.device, x.cpu()
        everything = self._probabilities(x, None)
        beliefs = Beliefs(*self._views(everything), self.vocab)
        return self._chances(beliefs, None)[:, 0].log().to(device)

    def log_chances(self, x: Tensor, position: Tensor, log_d0: Tensor) -> Tensor:
        device = x.device
        x, position, log_d0 = x.cpu(), position.cpu(), log_d0.cpu()
        found = torch.full((len(x), self.vocab.vocab_size), -torch.inf, dtype=torch.float64)
        is_node = position < self.vocab.n_max
        probabilities = self._probabilities(x, log_d0)
        # next tokens that are rooms: a candidate per type of the room at the position
        if len(rows := is_node.nonzero().squeeze(1)):
            rooms, relations = self._views(probabilities[rows])
            num, slot = self.vocab.num_node_types, position[rows]
            rooms = rooms.repeat(1, num, 1, 1)
            rooms[torch.arange(len(rows)), :, slot] = torch.eye(num, dtype=rooms.dtype)
            beliefs = Beliefs(rooms, relations, self.vocab)
            found[rows, :num] = self._chances(beliefs, slot).log()
        # next tokens that are relations: a candidate per relation of the pair, read from both rooms
        if len(rows := (~is_node).nonzero().squeeze(1)):
            rooms, relations = self._views(probabilities[rows])
            num, row = self.vocab.num_edge_types, torch.arange(len(rows))
            i, j = self._ends[position[rows] - self.vocab.n_max].unbind(dim=1)
            relations = relations.repeat(1, num, 1, 1, 1)
            every = torch.eye(num, dtype=rooms.dtype)
            relations[row, :, i, j] = every
            relations[row, :, j, i] = every[self._inverse]
            first, beliefs = self.vocab.edge_offset, Beliefs(rooms, relations, self.vocab)
            found[rows, first : first + num] = self._chances(beliefs, None).log()
        return found.to(device)

    def _probabilities(self, x: Tensor, log_d0: Tensor | None) -> Tensor:
        """Float64[R, L, V]: one-hot for sampled tokens, else from the network; 0 at PAD."""
        known = torch.nn.functional.one_hot(x, self.vocab.vocab_size).double()
        known[..., [self.vocab.mask_id, self.vocab.pad_id]] = 0.0
        if log_d0 is None:
            return known
        # sampled tokens are certain, the others as predicted, with a little doubt
        hidden = (x == self.vocab.mask_id).unsqueeze(-1)
        believed = (1 - _DOUBT) * log_d0.double().exp() + _DOUBT * self._any_type
        return torch.where(hidden, believed, known)

    def _views(self, probabilities: Tensor) -> tuple[Tensor, Tensor]:
        """Return ``rooms`` and ``relations`` of ``Beliefs``, with a candidate axis of 1."""
        n, offset = self.vocab.n_max, self.vocab.edge_offset
        rooms = probabilities[:, :n, : self.vocab.num_node_types]
        edges = probabilities[:, n:, offset : offset + self.vocab.num_edge_types]
        # each edge token fills both orders of its pair, the second with inverse relations
        i, j = self._ends.unbind(dim=1)
        relations = edges.new_zeros(len(rooms), n, n, self.vocab.num_edge_types)
        relations[:, i, j] = edges
        relations[:, j, i] = edges[..., self._inverse]
        return rooms.unsqueeze(1), relations.unsqueeze(1)

    def _chances(self, beliefs: Beliefs, slot: Tensor | None) -> Tensor:
        """Float64[R, W]: probability of all rules; ``slot`` as in ``_Counter.chances``."""
        chance = self._relation_chances(beliefs)
        for counter in self._counts:
            chance = chance * counter.chances(beliefs, slot)
        for options in self._either:
            none = reduce(mul, (1 - self._option_chance(each, beliefs, slot) for each in options))
            chance = chance * (1 - none)
        for option, weight in self._should:
            held = self._option_chance(option, beliefs, slot)
            chance = chance * (1 / weight + (1 - 1 / weight) * held)
        return chance

    def _option_chance(
        self,
        option: tuple[list[RelationRule], list[_Counter]],
        beliefs: Beliefs,
        slot: Tensor | None,
    ) -> Tensor:
        """Float64[R, W or 1]: probability of all rules of an option."""
        relations, counters = option
        parts = [_kind_rule_chance(rule, beliefs) for rule in relations]
        return reduce(mul, [*parts, *(each.chances(beliefs, slot) for each in counters)])

    def _relation_chances(self, beliefs: Beliefs) -> Tensor:
        """Float64[R, W]: product of the probabilities of all rules except counts and options."""
        chance = torch.ones_like(beliefs.rooms[..., 0, 0]) * torch.ones_like(
            beliefs.relations[..., 0, 0, 0]
        )
        for rule in (rule for rule in self.brief.relations if not rule.names):
            chance = chance * _kind_rule_chance(rule, beliefs)
        if self.brief.named:
            chance = chance * self._named_chance(beliefs)
        if self.brief.degree is not None:
            chance = chance * _degree_chance(beliefs, self.brief.degree.most)
        if self.brief.connected is not None:
            chance = chance * _connected_chance(beliefs)
        return chance

    def _named_chance(self, beliefs: Beliefs) -> Tensor:
        """Probability that some choice of distinct rooms for the names meets all their rules."""
        names, brief = list(self.brief.named), self.brief
        kinds = [beliefs.kind_probability(kind) for kind in brief.named.values()]
        # one row per choice of distinct slots for the names
        choices = torch.tensor([*permutations(range(self.vocab.n_max), len(names))])
        no_choice = None
        for part in choices.split(_AT_ONCE):
            chosen = dict(zip(names, part.unbind(dim=1), strict=True))
            # each room is of its kind, and each rule holds: (R, W or 1, choices)
            of_kind = [k[..., rooms] for k, rooms in zip(kinds, chosen.values(), strict=True)]
            chance = reduce(mul, of_kind)
            for rule in brief.named_rules:
                chance = chance * self._named_rule_chance(rule, chosen, beliefs)
            # choices count as independent: none of them holds with the product of 1 - chance
            none = (1 - chance).prod(dim=-1)
            no_choice = none if no_choice is None else no_choice * none
        assert no_choice is not None
        return 1 - no_choice

    def _named_rule_chance(
        self, rule: RelationRule | AnyRule, chosen: dict[str, Tensor], beliefs: Beliefs
    ) -> Tensor:
        """Float64[R, W or 1, C or 1]: probability of a rule for C choices of named rooms."""
        if isinstance(rule, AnyRule):
            rules = [[r for r in o if isinstance(r, RelationRule)] for o in rule.options]
            held = [[self._named_rule_chance(r, chosen, beliefs) for r in o] for o in rules]
            return 1 - reduce(mul, (1 - reduce(mul, each) for each in held))
        if not rule.names:
            return _kind_rule_chance(rule, beliefs).unsqueeze(-1)
        related = beliefs.related(rule.relations)
        subject, object = rule.subject, rule.object
        # between two named rooms: the relation of their pair
        if isinstance(subject, str) and isinstance(object, str):
            chance = related[..., chosen[subject], chosen[object]]
            return 1 - chance if rule.quantity is Quantity.NO else chance
        # from a named room to a kind: 1 - chance that no room of the kind is so related
        if isinstance(subject, str):
            assert isinstance(object, Kind)
            to_none = (1 - beliefs.kind_probability(object).unsqueeze(-2) * related).prod(dim=-1)
            none = to_none[..., chosen[subject]]
            return none if rule.quantity is Quantity.NO else 1 - none
        # from a kind to a named room
        assert isinstance(object, str)
        is_subject = beliefs.kind_probability(subject).unsqueeze(-1)
        if rule.quantity is Quantity.EVERY:
            return (1 - is_subject * (1 - related)).prod(dim=-2)[..., chosen[object]]
        none = (1 - is_subject * related).prod(dim=-2)[..., chosen[object]]
        return none if rule.quantity is Quantity.NO else 1 - none


def _kind_rule_chance(rule: RelationRule, beliefs: Beliefs) -> Tensor:
    """Float64[R, W or 1]: probability of a relation rule of kinds of rooms."""
    assert isinstance(rule.subject, Kind)
    assert isinstance(rule.object, Kind)
    subject = beliefs.kind_probability(rule.subject)
    to = beliefs.kind_probability(rule.object).unsqueeze(-2)
    to = to * beliefs.related(rule.relations)  # (..., i, j)
    if rule.quantity is Quantity.EVERY:
        return (1 - subject * (1 - to).prod(dim=-1)).prod(dim=-1)
    none = (1 - subject.unsqueeze(-1) * to).flatten(-2).prod(dim=-1)
    return none if rule.quantity is Quantity.NO else 1 - none


def _degree_chance(beliefs: Beliefs, most: int) -> Tensor:
    """Probability that no room has more than ``most`` neighbours, as if rooms were independent."""
    adjacent = beliefs.related(ANY_RELATION)
    # distribution of the number of neighbours, slot by slot; mass past ``most`` is dropped
    number = adjacent.new_zeros(*adjacent.shape[:-1], most + 1)
    number[..., 0] = 1
    for j in range(adjacent.shape[-1]):
        one = adjacent[..., j].unsqueeze(-1)
        more = torch.cat([torch.zeros_like(number[..., :1]), number[..., :-1]], dim=-1)
        number = number * (1 - one) + more * one
    return number.sum(dim=-1).prod(dim=-1)


def _connected_chance(beliefs: Beliefs) -> Tensor:
    """Probability that no room is isolated; 0 if possible relations cannot connect the rooms."""
    adjacent, present = beliefs.related(ANY_RELATION), beliefs.present
    # transitive closure of the pairs that can still be adjacent, by squaring
    reached = (adjacent > 0) | torch.eye(adjacent.shape[-1], dtype=torch.bool)
    for _ in range(adjacent.shape[-1].bit_length()):
        reached = (reached.double() @ reached.double()) > 0
    whole = (reached[..., 0, :] | ~present).all(dim=-1)
    single = present.sum(dim=-1) == 1
    isolated = (1 - adjacent).prod(dim=-1) * present
    return torch.where(single, 1.0, (1 - isolated).prod(dim=-1)) * whole


def _count_rules(choices: Sequence[Sequence[Option]]) -> list[CountRule]:
    """Count rules in all options."""
    rules = [rule for options in choices for option in options for rule in option]
    return [rule for rule in rules if isinstance(rule, CountRule)]


def _caps(choices: Sequence[Sequence[Option]], n_max: int) -> dict[frozenset[int], int]:
    """Number of rooms of each kind above which all rules treat numbers alike, at most ``n_max``."""
    caps: dict[frozenset[int], int] = {}
    for rule in _count_rules(choices):
        number, types = rule.number, rule.kind.types
        cap = number.least if number.most is None else number.most + 1
        caps[types] = max(caps.get(types, 0), min(cap, n_max))
    return caps


class _Counter:
    """Automaton that computes the probability of count rules for independent rooms: one option of
    each of ``choices`` holds."""

    def __init__(self, choices: Sequence[Sequence[Option]], vocab: VocabConfig) -> None:
        # a state is the number of rooms of each kind, capped
        kinds, caps = zip(*_caps(choices, vocab.n_max).items(), strict=True)
        states = [*product(*(range(cap + 1) for cap in caps))]
        index = {state: k for k, state in enumerate(states)}
        # a signature is the set of kinds that have a room type; types that share one are alike
        members = [tuple(code in kind for kind in kinds) for code in codes_of(vocab).rooms]
        nothing = tuple(False for _ in kinds)
        signatures = [nothing, *sorted({*members} - {nothing})]
        self._signature = torch.tensor([signatures.index(each) for each in members])
        # transitions: from each state, by a room of each signature
        self._next = torch.tensor(
            [
                [
                    index[tuple(min(s + m, c) for s, m, c in zip(state, each, caps, strict=True))]
                    for state in states
                ]
                for each in signatures
            ]
        )  # (signatures, states)
        # accepting states, already read one room ahead, for the slot in which candidates differ

        def holds(option: Option, state: tuple[int, ...]) -> bool:
            number = dict(zip(kinds, state, strict=True))
            return all(number[rule.kind.types] in rule.number for rule in _count_rules([[option]]))

        met = [
            all(any(holds(option, state) for option in options) for options in choices)
            for state in states
        ]
        self._accepts = torch.tensor(met, dtype=torch.float64)[self._next]

    def chances(self, beliefs: Beliefs, slot: Tensor | None) -> Tensor:
        """Probability that the rules hold, Float64[R, W]: one column per candidate type of the room
        at ``slot`` Int[R]; Float64[R, 1] if ``slot`` is None."""
        rooms = beliefs.rooms[:, 0]  # candidates differ only at ``slot``
        # probability of each signature at each slot; empty slots, and ``slot``, count nothing
        signature = rooms.new_zeros(*rooms.shape[:2], len(self._next))
        signature.index_add_(2, self._signature, rooms)
        signature[..., 0] = torch.where(beliefs.present[:, 0], signature[..., 0], 1.0)
        if slot is not None:
            nothing = torch.eye(len(self._next), dtype=signature.dtype)[0]
            signature[torch.arange(len(signature)), slot] = nothing
        # distribution over states, slot by slot
        state = rooms.new_zeros(len(rooms), self._next.shape[1])
        state[:, 0] = 1
        for k in range(rooms.shape[1]):
            after = torch.zeros_like(state)
            for s, move in enumerate(self._next):
                after.index_add_(1, move, state * signature[:, k, s].unsqueeze(1))
            state = after
        if slot is None:
            return state @ self._accepts[0].unsqueeze(1)
        return state @ self._accepts[self._signature].T
