"""Held-out dialogues summarised, and the dialogues of others in their place."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from discrete_diffusion.algorithms.base import HasMode, eval_mode
from discrete_diffusion.categorical import make_generator
from discrete_diffusion.domains.dialogue import PairDataset, nearest_other
from discrete_diffusion.sampling import Sampler
from discrete_diffusion.shards import Shard
from discrete_diffusion.types import SampleOutput

_SUMMARY_STREAM = 75
"""Keeps these draws apart from what else is drawn with the same seed."""


@dataclass(frozen=True)
class Summaries:
    """M pairs of a split, in its order, and what was generated.

    ``dialogues``, ``references``: the texts of the pairs. ``generated``: a summary of each
    dialogue. ``shuffled``: one of the dialogue of another pair, the one that ``nearest_other``
    names, with the same noise; empty if none were asked for or all dialogues are the same.
    ``nfe``: Float64[M], network calls per summary. ``seconds``: that the sampler took for
    ``generated``, of all processes together.
    """

    dialogues: tuple[str, ...]
    references: tuple[str, ...]
    generated: tuple[str, ...]
    shuffled: tuple[str, ...]
    nfe: Tensor
    seconds: float = 0.0

    def __len__(self) -> int:
        return len(self.generated)


def summarise_held_out(
    algorithm: HasMode,
    sampler: Sampler[Any],
    data: PairDataset,
    split: str,
    *,
    num: int | None,
    seed: int,
    steps: int | None = None,
    batch_size: int,
    device: torch.device | str = "cpu",
    shard: Shard | None = None,
    shuffled: bool = True,
) -> Summaries:
    """A summary of each of the first ``num`` dialogues of a split (None: of all), in eval mode,
    and, if ``shuffled``, one of another of these dialogues: what does not depend on the dialogue is
    as good there.

    A sampler of tokens draws the ids behind a dialogue that is given. ``shard``: every process asks
    for the same, works on some of the batches and returns all. Each batch has a generator of its
    own, so nothing depends on the number of processes; summaries depend on ``batch_size``.

    Raises ``ValueError`` if the split is empty, for ``num`` below 0 or ``batch_size`` below 1.
    """
    if len(data.pairs[split]) == 0:
        raise ValueError(f"the {split} split is empty; give it more data or another share")
    for name, value, least in (("num", num, 0), ("batch_size", batch_size, 1)):
        if value is not None and value < least:
            raise ValueError(f"{name}={value}: expected at least {least}")
    pairs, sources = data.pairs[split][:num], data.ids[split].sources[:num]
    others = nearest_other([pair.dialogue for pair in pairs]) if shuffled else []
    other_sources = sources[others] if others else None
    drawing = _Drawing(algorithm, sampler, data, steps, device)

    def work(numbered: tuple[int, Tensor]) -> _Part:
        k, rows = numbered
        of_others = None if other_sources is None else other_sources[rows]
        return drawing.part(sources[rows], of_others, (seed, _SUMMARY_STREAM, k))

    batches = torch.arange(len(pairs)).split(batch_size) if pairs else ()
    with eval_mode(algorithm):
        parts = (shard or Shard()).map(work, enumerate(batches))
    return Summaries(
        dialogues=tuple(pair.dialogue for pair in pairs),
        references=tuple(pair.summary for pair in pairs),
        generated=tuple(text for part in parts for text in part.generated),
        shuffled=tuple(text for part in parts for text in part.shuffled),
        nfe=torch.cat([torch.zeros(0).double(), *(part.nfe for part in parts)]),
        seconds=sum(part.seconds for part in parts),
    )


@dataclass(frozen=True)
class _Part:
    """What was made of one batch; as in ``Summaries``."""

    generated: list[str]
    shuffled: list[str]
    nfe: Tensor
    seconds: float


@dataclass(frozen=True)
class _Drawing:
    """Draws batches; arguments as in ``summarise_held_out``."""

    algorithm: Any
    sampler: Sampler[Any]
    data: PairDataset
    steps: int | None
    device: torch.device | str

    def part(self, own: Tensor, others: Tensor | None, entropy: Sequence[int]) -> _Part:
        """Of dialogues ``own`` Int[b, S], and of ``others``, with generators made of ``entropy``,
        alike."""
        start = time.perf_counter()
        drawn = self._draw(own, entropy)
        seconds = time.perf_counter() - start
        shuffled = [] if others is None else self._texts(self._draw(others, entropy))
        generated = self._texts(drawn)
        return _Part(generated, shuffled, drawn.nfe.double().cpu(), seconds)

    def _draw(self, sources: Tensor, entropy: Sequence[int]) -> SampleOutput:
        """Summaries are the last ``target_length`` ids of the result."""
        sources = sources.to(self.device)
        free = torch.ones(len(sources), self.data.target_length, dtype=torch.bool).to(self.device)
        asked: dict[str, Any] = {"real": free, "conditions": {"source": sources}}
        if self.sampler.state == "tokens":
            given = sources.masked_fill(sources == self.algorithm.layout.pad_id, -1)
            asked = {
                "real": torch.cat([torch.zeros_like(sources).bool(), free], dim=1),
                "clamp": torch.cat([given, -free.long()], dim=1),
            }
        generator = make_generator(*entropy, device=self.device)
        return self.sampler.sample(self.algorithm, **asked, generator=generator, steps=self.steps)

    def _texts(self, drawn: SampleOutput) -> list[str]:
        return self.data.decode(drawn.x0[:, -self.data.target_length :])
