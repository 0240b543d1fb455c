"""Samples for given conditions, in batches that processes share."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from discrete_diffusion.algorithms import eval_mode
from discrete_diffusion.categorical import make_generator
from discrete_diffusion.data import Dataset, Examples
from discrete_diffusion.runtime import Stop, progress

if TYPE_CHECKING:
    from discrete_diffusion.sampling import Model

logger = logging.getLogger(__name__)

Tensors = Mapping[str, Tensor]
"""By name, with the same number of rows: one per sample."""


@dataclass(frozen=True)
class ConditionalSamples:
    """``values``: the samples, on the CPU, a row per row of the conditions, or of the first ones
    if a ``Stop`` came. ``seconds``: spent sampling, summed over processes."""

    values: Tensors
    seconds: float

    def __len__(self) -> int:
        return len(next(iter(self.values.values())))


def sample_conditional(
    model: Model,
    conditions: Tensors,
    draw: Callable[[Tensors, torch.Generator], Tensors],
    *,
    entropy: tuple[int, ...],
    batches: list[Tensor] | None = None,
) -> ConditionalSamples:
    """Call ``draw`` on each batch of the conditions, with the algorithm in eval mode.

    ``draw``: from a batch of conditions on the device of the model, and a generator there, to its
    samples. ``batches``: Int[b] rows that go together, every row in one of them; by default
    ``model.rows_at_once`` in order. There must be a row.

    The processes of ``model.shard`` share the batches; each returns all samples. Batch k has a
    generator of its own, seeded by ``entropy`` and k. So samples do not depend on the number of
    processes, and another call with other conditions has the same noise.
    A ``Stop`` ends the sampling as ``model.on_sampled`` says; then the samples before the first one
    that is missing are returned.
    """
    if batches is None:
        num = len(next(iter(conditions.values())))
        batches = list(torch.arange(num).split(model.rows_at_once))
    finished: list[tuple[Tensor, ConditionalSamples]] = []

    def work(numbered: tuple[int, Tensor]) -> ConditionalSamples:
        k, rows = numbered
        drawing.take(len(rows) * model.shard.world_size)
        start = time.perf_counter()
        given = {name: values[rows].to(model.device) for name, values in conditions.items()}
        drawn = draw(given, make_generator(*entropy, k, device=model.device))
        on_cpu = {name: values.cpu() for name, values in drawn.items()}
        part = ConditionalSamples(on_cpu, time.perf_counter() - start)
        if model.on_sampled is not None:
            finished.append((rows, part))
            model.on_sampled(rows, on_cpu)
        drawing.advance(len(rows) * model.shard.world_size)
        return part

    asked = total = sum(map(len, batches))
    with eval_mode(model.algorithm), progress.task("sampling", asked, "samples") as drawing:
        try:
            parts = model.shard.map(work, enumerate(batches))
        except Stop:
            total = _num_before_gap([rows for rows, _ in finished])
            if total == 0:
                raise
            batches, parts = map(list, zip(*finished, strict=True))
            logger.warning("the first %s of %s samples are finished", f"{total:,}", f"{asked:,}")
    return _joined(parts, torch.cat(batches).argsort()[:total])


def _joined(parts: Sequence[ConditionalSamples], rows: Tensor) -> ConditionalSamples:
    """Some ``rows`` Int[M] of all parts, one below the other."""
    names = parts[0].values
    return ConditionalSamples(
        {name: torch.cat([part.values[name] for part in parts])[rows] for name in names},
        sum(part.seconds for part in parts),
    )


def _num_before_gap(batches: Sequence[Tensor]) -> int:
    """How many of the rows 0, 1, 2, ... are in the batches before the first that is not."""
    if not batches:
        return 0
    rows = torch.cat([*batches]).sort().values
    return int((rows == torch.arange(len(rows))).long().cumprod(dim=0).sum())


def sampled_from_others(
    model: Model, draw: Callable[[Model], ConditionalSamples]
) -> ConditionalSamples | None:
    """Samples of a model from other conditions, to compare with: all, or None if a ``Stop`` comes
    before that and ``model.on_sampled`` is there."""
    try:
        return draw(replace(model, on_sampled=None))
    except Stop:
        if model.on_sampled is None:
            raise
        return None


def first_examples(data: Dataset, split: str, num: int | None) -> Examples:
    """The first ``num`` samples of a split, all if it is None.

    Raises ``ValueError`` for an empty split, or ``num`` below 0.
    """
    examples = data.splits[split]
    if len(examples) == 0:
        raise ValueError(f"the {split} split is empty; give it more data or another share")
    if num is not None and num < 0:
        raise ValueError(f"num={num}: expected at least 0")
    return examples[slice(num)]
