"""Sampling in the studio: complete queued requests by the network, in batches, token by token."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from discrete_diffusion import sampling
from discrete_diffusion.algorithms import TokenAlgorithm
from discrete_diffusion.categorical import make_generator, uniform_draws
from discrete_diffusion.data import sample_sizes
from discrete_diffusion.domains import domain_of
from discrete_diffusion.layout import VocabConfig
from discrete_diffusion.sampling import Exactness, FirstHitting, PartialSamples
from floor_plans.diagrams import vocabulary
from floor_plans.diagrams.diagram import BubbleDiagram
from floor_plans.diagrams.partial import PartialDiagram
from floor_plans.diagrams.vocabulary import INVERSE, RELATIONS, ROOM_TYPES, vocabulary_of_graph
from floor_plans.learning.completions import ArrangedRows, approximations
from floor_plans.learning.sampling import Way
from floor_plans.learning.weighing import Arranged, Arranger
from floor_plans.studio.jobs import MOST_WAITING, TooBusy

MOST_ROWS = 32  # most diagrams in one batch

Revealed = dict[str, Any]
"""``{"completion": 0, "room": 2, "type": "Kitchen"}`` or ``{"completion": 0, "pair": [0, 2],
"relation": "left-of"}``."""


@dataclass(frozen=True)
class Ask:
    """Request for ``num`` completions of each of the ``partials``, determined by ``seed``.
    ``on_revealed`` gets the tokens that each step of the sampler reveals."""

    partials: Sequence[PartialDiagram]
    num: int = 1
    seed: int = 0
    on_revealed: Callable[[list[Revealed]], None] | None = None

    @property
    def rows(self) -> int:
        return len(self.partials) * self.num


@dataclass(frozen=True)
class Answer:
    """Diagrams of a request; ``approximate``: reasons why they are not exact samples, if any."""

    diagrams: list[BubbleDiagram]
    approximate: tuple[str, ...]


@dataclass(kw_only=True)
class RowByRow(FirstHitting):
    """First-hitting sampling with a generator for each sample, independent of the batch.
    ``on_revealed`` gets the positions of new tokens, Bool[B, L], and all tokens, Int[B, L]."""

    exactness = Exactness.MODEL

    generators: Sequence[torch.Generator] = ()
    on_revealed: Callable[[Tensor, Tensor], None]

    def uniform(self, samples: PartialSamples, where: Tensor) -> Tensor:
        pairs = zip(where.sum(dim=1).tolist(), self.generators, strict=True)
        draws = [uniform_draws((count,), generator) for count, generator in pairs]
        return torch.cat(draws).to(samples.x.device)

    def reveal(
        self, samples: PartialSamples, where: Tensor, t: Tensor, counts: Tensor | None = None
    ) -> None:
        super().reveal(samples, where, t, counts)
        self.on_revealed(where, samples.x)


class DiagramModel:
    """Model of diagrams, as ``load`` returns it, that completes diagrams for requests. Raises
    ``ValueError`` for one of another kind of data, or that does not reveal its tokens one by
    one."""

    def __init__(self, algorithm: Any) -> None:
        self.algorithm: TokenAlgorithm = algorithm
        self.checkpoint: Any = algorithm.sample.checkpoint
        self.path = str(self.checkpoint.path)
        # only diagrams, and only models that reveal tokens one by one
        data = self.checkpoint.config.data
        domain = domain_of(data)
        if data.domain != "bubble_diagrams":
            raise ValueError(
                f"checkpoint={self.path} was trained on {domain.title}; the studio takes models of "
                "bubble diagrams"
            )
        sampling.check_sampler(FirstHitting(), algorithm)
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
        """Raise ``ValueError`` for diagrams with too many rooms or of another vocabulary."""
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
        """Complete all requested diagrams in one batch. Each answer depends on its request alone,
        not on the rest of the batch."""
        # rooms of each partial diagram in slots of the network, ``num`` times
        at_once, cpu = sampling.rows_at_once(self.device), torch.device("cpu")
        network = (self.algorithm, self.vocab, self.node_order)
        arranged = [
            Arranger(*network, None, at_once, cpu, ask.num).arrange((partial, line, ask.seed))
            for ask in asks
            for line, partial in enumerate(ask.partials, start=1)
        ]
        batch = ArrangedRows(arranged, Way("", self.vocab))
        # one generator per row, seeded by its request
        sampler = RowByRow(
            generators=[make_generator(ask.seed, 1, k) for ask in asks for k in range(ask.rows)],
            on_revealed=_reporter(self.vocab, asks, arranged),
        )
        real, clamp = batch.real.to(self.device), batch.clamp.to(self.device)
        generator = make_generator(0)
        output = sampler.sample(self.algorithm, real, generator=generator, clamp=clamp)
        sampling.check_drawn(self.algorithm, output.x0, real)
        # number rooms as the requests do, and split the batch by request
        everything = batch.numbered(output.cpu(), torch.arange(len(real)))
        why = tuple(approximations(sampler, self.algorithm, everything))
        answers, start = [], 0
        for ask in asks:
            diagrams = everything.diagrams[start : start + ask.rows]
            start += ask.rows
            answers.append(Answer([replace(d, metadata={}) for d in diagrams], why))
        return answers


def _reporter(
    vocab: VocabConfig, asks: Sequence[Ask], arranged: Sequence[Arranged]
) -> Callable[[Tensor, Tensor], None]:
    """Return a function that reports the new tokens of a step, Int[B, L], at the positions
    ``revealed`` Bool[B, L], to each request, with the room numbers of that request."""
    codes = vocabulary.codes_of(vocab)
    orders = torch.cat([part.orders for part in arranged]).tolist()

    def report(revealed: Tensor, tokens: Tensor) -> None:
        revealed, tokens, start = revealed.cpu(), tokens.cpu(), 0
        for ask in asks:
            rows = slice(start, start + ask.rows)
            start += ask.rows
            if ask.on_revealed is None:
                continue
            news: list[Revealed] = []
            parts = (orders[rows], revealed[rows], tokens[rows].tolist())
            for k, (order, new, ids) in enumerate(zip(*parts, strict=True)):
                for at in new.nonzero().flatten().tolist():
                    # a room, or a pair read from its smaller room
                    if at < vocab.n_max:
                        room = ROOM_TYPES[codes.rooms[ids[at]]]
                        news.append({"completion": k, "room": order[at], "type": room})
                        continue
                    i, j = (order[slot] for slot in vocab.endpoints[at - vocab.n_max])
                    code = codes.relations[ids[at] - vocab.edge_offset]
                    if i > j:
                        i, j, code = j, i, INVERSE[code]
                    news.append({"completion": k, "pair": [i, j], "relation": RELATIONS[code]})
            ask.on_revealed(news)

    return report


class Batcher:
    """Queue of requests, answered in order and in batches. Requests that wait during a batch form
    the next one, of at most ``most_rows`` diagrams; cancelled requests leave the queue."""

    def __init__(
        self, model: DiagramModel, *, most_waiting: int = MOST_WAITING, most_rows: int = MOST_ROWS
    ) -> None:
        self._model, self._most_waiting, self._most_rows = model, most_waiting, most_rows
        self._waiting: deque[tuple[Ask, asyncio.Future[Answer]]] = deque()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="network")
        self._working: asyncio.Task[None] | None = None
        self.last_batch = 0  # number of requests in the last batch

    def __len__(self) -> int:
        return len(self._waiting)

    def submit(self, ask: Ask) -> asyncio.Future[Answer]:
        """Put a request into the queue. Raises ``TooBusy`` if the queue is full."""
        if len(self) >= self._most_waiting:
            raise TooBusy
        future = asyncio.get_running_loop().create_future()
        future.add_done_callback(self._leave)
        self._waiting.append((ask, future))
        if self._working is None or self._working.done():
            self._working = asyncio.ensure_future(self._work())
        return future

    def close(self) -> None:
        """Finish the batch that has begun."""
        self._thread.shutdown(cancel_futures=True)

    def _leave(self, future: asyncio.Future[Answer]) -> None:
        self._waiting = deque(each for each in self._waiting if each[1] is not future)

    async def _work(self) -> None:
        while self._waiting:
            batch, rows = list[tuple[Ask, asyncio.Future[Answer]]](), 0
            # at least one request, and more while they fit
            while self._waiting and (
                not batch or rows + self._waiting[0][0].rows <= self._most_rows
            ):
                ask, future = self._waiting.popleft()
                batch.append((_report_once(ask), future))
                rows += ask.rows
            self.last_batch = len(batch)
            await self._answer(batch)

    async def _answer(self, batch: list[tuple[Ask, asyncio.Future[Answer]]]) -> None:
        """Answer a batch; if it fails, answer each request alone, as only one may be at fault."""
        asks, loop = [ask for ask, _ in batch], asyncio.get_running_loop()
        try:
            answers = await loop.run_in_executor(self._thread, self._model.draw, asks)
        except Exception as error:  # passed on to the client
            if len(batch) > 1:
                for each in batch:
                    await self._answer([each])
            elif not batch[0][1].done():
                batch[0][1].set_exception(error)
            return
        for (_, future), answer in zip(batch, answers, strict=True):
            if not future.done():
                future.set_result(answer)


def _report_once(ask: Ask) -> Ask:
    """Return the request with a listener that gets each token once, and again if it changes."""
    report = ask.on_revealed
    if report is None:
        return ask
    known: dict[object, object] = {}

    def report_news(step: list[Revealed]) -> None:
        news = []
        for each in step:
            place = each["completion"], each.get("room"), tuple(each.get("pair", ()))
            value = each.get("type", each.get("relation"))
            if known.get(place) != value:
                known[place] = value
                news.append(each)
        if news or not step:
            report(news)

    return replace(ask, on_revealed=report_news)
