"""Completions of several requests in one batch, reported token by token."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from discrete_diffusion.categorical import make_generator, uniform_draws
from discrete_diffusion.data import sample_sizes
from discrete_diffusion.domains import domain_of
from discrete_diffusion.sampling import (
    Exactness,
    FirstHitting,
    check_drawn,
    check_sampler,
    rows_at_once,
)
from floor_plans.diagrams.diagram import BubbleDiagram
from floor_plans.diagrams.partial import PartialDiagram
from floor_plans.diagrams.type_codes import codes_of
from floor_plans.diagrams.vocabulary import INVERSE, RELATIONS, ROOM_TYPES, vocabulary_of_graph
from floor_plans.learning.completion.completions import approximations, numbered_as_given
from floor_plans.learning.completion.weighing import Arranged, Arranger, known_and_real
from floor_plans.learning.ways import Way

if TYPE_CHECKING:
    from discrete_diffusion.algorithms import TokenAlgorithm
    from discrete_diffusion.layout import VocabConfig
    from discrete_diffusion.sampling import PartialSamples

Revealed = dict[str, Any]
"""``{"completion": 0, "room": 2, "type": "Kitchen"}`` or ``{"completion": 0, "pair": [0, 2],
"relation": "left-of"}``."""


@dataclass(frozen=True)
class Ask:
    """Request for ``num`` completions of each of the ``partials``, determined by ``seed``.

    ``on_revealed`` gets the tokens that each step of the sampler reveals.
    """

    partials: Sequence[PartialDiagram]
    num: int = 1
    seed: int = 0
    on_revealed: Callable[[list[Revealed]], None] | None = None

    @property
    def rows(self) -> int:
        return len(self.partials) * self.num


@dataclass(frozen=True)
class Answer:
    """Diagrams of a request; ``approximate``: why they are not exact samples, empty if they are."""

    diagrams: list[BubbleDiagram]
    approximate: tuple[str, ...]


@dataclass(kw_only=True)
class RowByRow(FirstHitting):
    """First-hitting sampling with a generator for each sample, independent of the batch.

    ``on_revealed`` gets the positions of new tokens, Bool[B, L], and all tokens, Int[B, L].
    """

    exactness = Exactness.MODEL

    generators: Sequence[torch.Generator] = ()
    on_revealed: Callable[[Tensor, Tensor], None]

    def uniform(self, samples: PartialSamples, where: Tensor) -> Tensor:
        counts = where.sum(dim=1).tolist()
        draws = [
            uniform_draws((count,), generator)
            for count, generator in zip(counts, self.generators, strict=True)
        ]
        return torch.cat(draws).to(samples.x.device)

    def reveal(
        self, samples: PartialSamples, where: Tensor, t: Tensor, counts: Tensor | None = None
    ) -> None:
        super().reveal(samples, where, t, counts)
        self.on_revealed(where, samples.x)


class DiagramModel:
    """A model of diagrams as ``load`` gives it.

    Raises ``ValueError`` for a model of another kind of data, or one that does not reveal its
    tokens one by one.
    """

    def __init__(self, algorithm: Any) -> None:
        self.algorithm: TokenAlgorithm = algorithm
        self.checkpoint: Any = algorithm.sample.checkpoint
        self.path = str(self.checkpoint.path)
        # only diagrams, and only samplers that reveal tokens one by one
        data = self.checkpoint.config.data
        domain = domain_of(data)
        if data.domain != "bubble_diagrams":
            raise ValueError(
                f"checkpoint={self.path} was trained on {domain.title}; the studio takes models of "
                "bubble diagrams"
            )
        check_sampler(FirstHitting(), algorithm)
        self.vocab: VocabConfig = domain.vocabulary(data)  # type: ignore[assignment]
        self.words = vocabulary_of_graph(self.vocab)
        self.node_order: str = data.node_order
        self.device = algorithm.layout.support.device

    @property
    def sizes(self) -> list[int]:
        """Numbers of rooms in the training data."""
        return [size for size, count in enumerate(self.checkpoint.size_counts) if count]

    def fresh(self, num: int, num_rooms: int | None, seed: int) -> list[PartialDiagram]:
        """Build ``num`` empty partial diagrams of ``num_rooms`` rooms; None: sizes as in the
        training data."""
        sizes = [num_rooms] * num
        if num_rooms is None:
            generator = make_generator(seed, 0)
            sizes = sample_sizes(self.checkpoint.size_counts, num, generator).tolist()
        return [PartialDiagram((None,) * size, ()) for size in sizes if size]

    def check(self, partials: Sequence[PartialDiagram]) -> None:
        """Refuse diagrams with too many rooms or of another vocabulary, by ``ValueError``."""
        # size and vocabulary
        for partial in partials:
            if partial.num_rooms > self.vocab.n_max:
                raise ValueError(
                    f"rooms: {partial.num_rooms} of them, but the model was trained on diagrams of "
                    f"at most {self.vocab.n_max}; take some out"
                )
            if lacking := self.words.lacks(partial.rooms, partial.relations):
                raise ValueError(
                    f"{lacking[0]}: the model does not know {lacking[1]!r}; it knows "
                    f"{', '.join((*self.words.room_types, *self.words.relations))}"
                )

    def draw(self, asks: Sequence[Ask]) -> list[Answer]:
        """Complete all requested diagrams in one batch.

        Each answer depends on its own seed only, not on the rest of the batch.
        """
        arranged = [part for ask in asks for part in self._arranged(ask)]
        tokens = torch.cat([part.tokens for part in arranged])
        known, real = known_and_real(tokens, self.vocab)
        # one generator per row, seeded by its request
        sampler = RowByRow(
            generators=[make_generator(ask.seed, 1, k) for ask in asks for k in range(ask.rows)],
            on_revealed=_Reporter(self.vocab, asks, arranged).report,
        )
        output = sampler.sample(
            self.algorithm,
            real.to(self.device),
            generator=make_generator(0),
            clamp=torch.where(known, tokens, -1).to(self.device),
        )
        check_drawn(self.algorithm, output.x0, real.to(self.device))
        output = output.cpu()
        # number rooms as the requests do, and split the batch by request
        everything = numbered_as_given(
            output, arranged, real, known, torch.arange(len(real)), Way("", self.vocab)
        )
        why = tuple(approximations(sampler, self.algorithm, everything))
        answers, start = [], 0
        for ask in asks:
            diagrams = everything.diagrams[start : start + ask.rows]
            start += ask.rows
            answers.append(Answer([replace(d, metadata={}) for d in diagrams], why))
        return answers

    def _arranged(self, ask: Ask) -> list[Arranged]:
        """Arrange the rooms of each partial diagram in slots of the network, ``num`` times."""
        arranger = Arranger(
            self.algorithm,
            self.vocab,
            self.node_order,
            None,
            rows_at_once(self.device),
            torch.device("cpu"),
            ask.num,
        )
        return [
            arranger.arrange((partial, line, ask.seed))
            for line, partial in enumerate(ask.partials, start=1)
        ]


class _Reporter:
    """Reports revealed tokens to each request, with the room numbers of that request."""

    def __init__(self, vocab: VocabConfig, asks: Sequence[Ask], arranged: Sequence[Arranged]):
        self.vocab, self.codes, self.asks = vocab, codes_of(vocab), asks
        self.orders = torch.cat([part.orders for part in arranged]).tolist()

    def report(self, revealed: Tensor, tokens: Tensor) -> None:
        """Report the new tokens of a step, at the positions ``revealed`` Bool[B, L]."""
        revealed, tokens, start = revealed.cpu(), tokens.cpu(), 0
        # split the rows by request
        for ask in self.asks:
            rows = range(start, start + ask.rows)
            start += ask.rows
            if ask.on_revealed is not None:
                ask.on_revealed(
                    [
                        {
                            "completion": k,
                            **self._revealed(row, position, int(tokens[row, position])),
                        }
                        for k, row in enumerate(rows)
                        for position in revealed[row].nonzero().flatten().tolist()
                    ]
                )

    def _revealed(self, row: int, position: int, token: int) -> Revealed:
        # a room, or a pair read from its smaller room
        order = self.orders[row]
        if position < self.vocab.n_max:
            return {"room": order[position], "type": ROOM_TYPES[self.codes.rooms[token]]}
        i, j = (order[slot] for slot in self.vocab.endpoints[position - self.vocab.n_max])
        code = self.codes.relations[token - self.vocab.edge_offset]
        if i > j:
            i, j, code = j, i, INVERSE[code]
        return {"pair": [i, j], "relation": RELATIONS[code]}
