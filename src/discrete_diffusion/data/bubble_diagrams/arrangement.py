"""Which slot of a sequence each room of a partial diagram can take."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, combinations, permutations, product

import torch
from torch import Tensor

from discrete_diffusion.data.bubble_diagrams.partial import PartialDiagram, encode_partial
from discrete_diffusion.data.bubble_diagrams.tokens import relabel
from discrete_diffusion.layout import VocabConfig

_MAX_LISTED = 20_000
"""Orders of the rooms that are listed one by one; beyond, a random part of them is drawn."""
_DRAWS_PER_ROW = 8


@dataclass(frozen=True)
class Arrangements:
    """Ways to put the rooms of one partial diagram into the slots of a sequence.

    ``orders``: Int64[R, n_max], slot k of arrangement r holds the file's room ``orders[r, k]``.
    ``tokens``: Int64[R, L], what each leads to, all different; MASK where unknown.
    ``are_all``: there are no others; False for a random part of them.
    """

    orders: Tensor
    tokens: Tensor
    are_all: bool

    def __len__(self) -> int:
        return len(self.orders)


def as_numbered(partial: PartialDiagram, vocab: VocabConfig) -> Arrangements:
    """The one arrangement that keeps the file's own numbers."""
    orders = torch.arange(vocab.n_max).unsqueeze(0)
    return Arrangements(orders, encode_partial([partial], vocab).tokens, are_all=True)


def sorted_by_type(
    partial: PartialDiagram, vocab: VocabConfig, *, max_rows: int, generator: torch.Generator
) -> Arrangements:
    """Arrangements whose known types ascend along the slots, as in the canonical order.

    A room of unknown type may take any slot. Orders of the rooms that lead to the same tokens,
    those that the partial diagram cannot tell apart, are one arrangement; as many lead to each, so
    none counts more. All of them if there are at most ``max_rows``, else so many at random.
    """
    by_type: dict[int, list[int]] = {}
    unknown: list[int] = []
    for k, room in enumerate(partial.rooms):
        (unknown if room is None else by_type.setdefault(room, [])).append(k)
    groups = [by_type[room] for room in sorted(by_type)]
    related = {end for i, j, _ in partial.relations for end in (i, j)}
    count = math.comb(partial.num_rooms, len(unknown))
    for group in (*groups, unknown):
        alike = sum(room not in related for room in group)
        count *= math.factorial(len(group)) // math.factorial(alike)
    are_all = count <= _MAX_LISTED
    if are_all:
        listed = list(_listed(groups, unknown, related))
    else:
        listed = _drawn(groups, unknown, _DRAWS_PER_ROW * max_rows, generator)
    orders = torch.arange(vocab.n_max).repeat(len(listed), 1)
    orders[:, : partial.num_rooms] = torch.tensor(listed)
    found = _distinct(partial, orders, vocab, are_all)
    if len(found) <= max_rows:
        return found
    chosen = torch.randperm(len(found), generator=generator)[:max_rows].sort().values
    return Arrangements(found.orders[chosen], found.tokens[chosen], are_all=False)


def _distinct(
    partial: PartialDiagram, orders: Tensor, vocab: VocabConfig, are_all: bool
) -> Arrangements:
    """The first of the orders Int[C, n_max] for each token sequence that they lead to."""
    encoded, num = encode_partial([partial], vocab), len(orders)
    tokens = relabel(encoded.tokens.expand(num, -1), encoded.num_rooms.expand(num), orders, vocab)
    distinct, row_of = tokens.unique(dim=0, return_inverse=True)
    first = torch.full((len(distinct),), num).scatter_reduce_(
        0, row_of, torch.arange(num), reduce="amin"
    )
    return Arrangements(orders[first], distinct, are_all)


def _listed(groups: list[list[int]], unknown: list[int], related: set[int]) -> Iterator[list[int]]:
    """Every order, but rooms of one type (or of none) that are not ``related`` in ascending order
    only: nothing tells those apart."""
    num_known = sum(map(len, groups))
    n = num_known + len(unknown)
    for *ties, others in product(*(_told_apart(group, related) for group in (*groups, unknown))):
        for slots in map(set, combinations(range(n), num_known)):
            known, rest = chain.from_iterable(ties), iter(others)
            yield [next(known) if slot in slots else next(rest) for slot in range(n)]


def _told_apart(rooms: list[int], related: set[int]) -> Iterator[list[int]]:
    """Every order of the rooms in which those that are not ``related`` ascend."""
    traced = [room for room in rooms if room in related]
    for places in permutations(range(len(rooms)), len(traced)):
        at = dict(zip(places, traced, strict=True))
        rest = iter([room for room in rooms if room not in related])
        yield [at[place] if place in at else next(rest) for place in range(len(rooms))]


def _drawn(
    groups: list[list[int]], unknown: list[int], num: int, generator: torch.Generator
) -> list[list[int]]:
    """``num`` orders, each as likely as any other."""

    def shuffled(rooms: list[int]) -> list[int]:
        return [rooms[k] for k in torch.randperm(len(rooms), generator=generator).tolist()]

    num_known = sum(map(len, groups))
    n = num_known + len(unknown)
    orders = []
    for _ in range(num):
        known = chain.from_iterable(shuffled(group) for group in groups)
        others = iter(shuffled(unknown))
        taken = set(torch.randperm(n, generator=generator)[:num_known].tolist())
        orders.append([next(known) if slot in taken else next(others) for slot in range(n)])
    return orders
