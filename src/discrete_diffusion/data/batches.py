"""The batches of a data set: an endless stream to train on, and a split from end to end."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from functools import cached_property
from typing import TypeVar

import torch
from torch import Tensor

from discrete_diffusion.categorical import make_generator
from discrete_diffusion.contracts import Batch
from discrete_diffusion.data.base import Dataset, Examples, ExamplesOnDisk

D = TypeVar("D", bound=Dataset)

_ORDER_STREAM, _AUGMENT_STREAM, _CHOICE_STREAM = 10, 11, 12
"""Keep the randomness of batches apart from that of training steps with the same seed."""

_ROUNDS = 6
"""Of the network of ``Permutation``."""


def bucket_batches(
    sizes: Tensor, batch_size: int, generator: torch.Generator | None = None
) -> list[Tensor]:
    """Row indices in batches of equal size: samples of one size together, so a batch needs no PAD.

    ``sizes``: Int[M]. What is left over of each size goes, smallest first, into mixed batches,
    fewer than there are sizes; the last of them has fewer rows if ``batch_size`` does not divide M.
    With a generator, rows and batches come in random order; without, in a fixed one.
    """
    rows = torch.arange(len(sizes))
    if generator is not None:
        rows = rows[torch.randperm(len(sizes), generator=generator)]
    full: list[Tensor] = []
    rest: list[Tensor] = []
    for size in sizes.unique().tolist():
        *chunks, last = rows[sizes[rows] == size].split(batch_size)
        full += chunks
        (full if len(last) == batch_size else rest).append(last)
    if rest:
        full += torch.cat(rest).split(batch_size)
    if generator is not None:
        full = [full[k] for k in torch.randperm(len(full), generator=generator).tolist()]
    return full


class BatchStream:
    """Batches of the training split without end: batch k is a function of (seed, k).

    Every batch has ``batch_size`` samples, or all if there are fewer. The stream passes over the M
    samples again and again, each time in another random order, in rounds of as many whole batches
    as M samples make. A round is bucketed by size and begins with the samples of a pass that the
    round before left over, so a round in which two passes meet may hold a sample twice. After any
    round, no two samples have been shown a number of times that differs by more than one. Samples
    on disk are not bucketed: pass k is a ``Permutation``, which no memory holds.

    An iteration is an epoch: as many whole steps as come nearest to one pass over the samples, at
    least one. It begins where the last one ended. A step is ``accumulate`` batches of each of
    ``world_size`` processes; rank r takes every ``world_size``-th batch.

    ``state_dict``: how many batches all ranks have been given, so that an interrupted run goes on
    with the next batch, with more or fewer ranks too.

    Raises ``ValueError`` for a batch size below 1 or an empty split.
    """

    def __init__(
        self,
        dataset: Dataset,
        *,
        batch_size: int,
        seed: int,
        rank: int = 0,
        world_size: int = 1,
        accumulate: int = 1,
    ) -> None:
        self.examples = _examples(dataset, "train", batch_size)
        self.dataset, self.seed, self.rank, self.world_size = dataset, seed, rank, world_size
        num = len(self.examples)
        self.batch_size = min(batch_size, num)
        self._batches_per_round = num // self.batch_size
        self.steps_per_epoch = max(1, round(num / (self.batch_size * world_size * accumulate)))
        self._length = self.steps_per_epoch * accumulate
        self._given = 0  # batches of this rank
        self._round: tuple[int, list[Tensor]] | None = None

    def __len__(self) -> int:
        """Batches of this rank in an epoch."""
        return self._length

    def __iter__(self) -> Iterator[Batch]:
        for given in range(self._given, self._given + len(self)):
            # Before the yield: a loop that knows our length never requests what comes after it.
            self._given = given + 1
            yield self._batch(given * self.world_size + self.rank)

    def _batch(self, number: int) -> Batch:
        generator = make_generator(self.seed, _AUGMENT_STREAM, number)
        return self.dataset.augment(self.examples[self._rows(number)], generator)

    def _rows(self, number: int) -> Tensor:
        """Int[batch_size]: the samples of batch ``number`` of the stream."""
        index, k = divmod(number, self._batches_per_round)
        if isinstance(self.examples, ExamplesOnDisk):
            return self._of_permutations(number)
        if self._round is None or self._round[0] != index:
            self._round = (index, self._batches_of_round(index))
        return self._round[1][k]

    def _batches_of_round(self, index: int) -> list[Tensor]:
        num, size = self._batches_per_round * self.batch_size, len(self.examples)
        start, stop = index * num, (index + 1) * num
        passes = range(start // size, (stop - 1) // size + 1)  # one, or two that meet here
        first = passes[0] * size
        rows = torch.cat([self._order(k) for k in passes])[start - first : stop - first]
        generator = make_generator(self.seed, _ORDER_STREAM, 1, index)
        return [rows[b] for b in bucket_batches(self._sizes[rows], self.batch_size, generator)]

    def _of_permutations(self, number: int) -> Tensor:
        size = len(self.examples)
        places = number * self.batch_size + torch.arange(self.batch_size)
        rows = torch.empty_like(places)
        for k in range(int(places[0]) // size, int(places[-1]) // size + 1):
            own = places // size == k
            rows[own] = Permutation(size, self.seed, _ORDER_STREAM, 2, k)(places[own] - k * size)
        return rows

    def _order(self, number: int) -> Tensor:
        """Int[M]: the samples in the order of one pass."""
        generator = make_generator(self.seed, _ORDER_STREAM, 0, number)
        return torch.randperm(len(self.examples), generator=generator)

    @cached_property
    def _sizes(self) -> Tensor:
        return self.dataset.sizes(self.examples)

    def state_dict(self) -> dict[str, int]:
        """Position of the stream."""
        on_disk = {"permutation": 1} if isinstance(self.examples, ExamplesOnDisk) else {}
        return {"batches": self._given * self.world_size} | on_disk

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Go on from there at the next iteration.

        Where other ranks left off between our batches, those begun are given again.
        Raises ``ValueError`` for the state of a stream that drew other batches.
        """
        if not {*self.state_dict()} <= {*state}:
            raise ValueError(
                "the checkpoint is of an earlier version, which drew other batches, so the run "
                "cannot be resumed; start a new one from its weights: init.checkpoint=FILE"
            )
        self._given = state["batches"] // self.world_size


def with_fewer(dataset: D, split: str, most: int | None, seed: int) -> D:
    """The data set with at most ``most`` samples of a split, a choice that the seed decides; all of
    them if it is None."""
    examples = dataset.splits[split]
    if most is None or most >= len(examples):
        return dataset
    order = torch.randperm(len(examples), generator=make_generator(seed, _CHOICE_STREAM))
    some = copy(dataset)
    some.splits = {**dataset.splits, split: examples[order[:most].sort().values]}
    return some


class SplitBatches:
    """Every sample of a split once, in the same batches every time, each of one size if possible.

    Rank r of ``world_size`` takes every ``world_size``-th batch. All ranks get as many batches, so
    that processes make the same number of calls; where a rank runs out, earlier batches come again,
    for which ``counts`` is False, so that nothing is measured twice.

    A batch is a function of (seed, its number): the seed decides the form of samples that have
    several. ``sizes``: Int[M], of the samples in the order of the batches of all ranks.

    Raises ``ValueError`` for a batch size below 1 or an empty split.
    """

    def __init__(
        self,
        dataset: Dataset,
        split: str,
        *,
        batch_size: int,
        seed: int,
        rank: int = 0,
        world_size: int = 1,
    ) -> None:
        self.examples = _examples(dataset, split, batch_size)
        self.dataset, self.seed, self.rank, self.world_size = dataset, seed, rank, world_size
        sizes = dataset.sizes(self.examples)
        self._batches = bucket_batches(sizes, batch_size)
        self.sizes = sizes[torch.cat(self._batches)]
        self._length = -(-len(self._batches) // world_size)

    def __len__(self) -> int:
        """Batches of this rank."""
        return self._length

    def counts(self, position: int) -> bool:
        """True if this rank's batch number ``position`` is the first of its kind."""
        return position * self.world_size + self.rank < len(self._batches)

    def __iter__(self) -> Iterator[Batch]:
        for position in range(len(self)):
            k = (position * self.world_size + self.rank) % len(self._batches)
            generator = make_generator(self.seed, _AUGMENT_STREAM, 0, k)
            yield self.dataset.augment(self.examples[self._batches[k]], generator)


def _examples(dataset: Dataset, split: str, batch_size: int) -> Examples:
    """The samples of a split that is not empty."""
    if batch_size < 1:
        raise ValueError(f"batch_size={batch_size}: expected at least 1")
    examples = dataset.splits[split]
    if len(examples) == 0:
        raise ValueError(f"the {split} split is empty; give it more data or another share")
    return examples


class Permutation:
    """A random permutation of 0..M-1 in O(1) memory, a function of (M, seeds).

    A balanced Feistel network permutes 0..4^k-1, the least such number above M; a number outside
    goes through it again until it falls below M (cycle walking: Black & Rogaway, "Ciphers with
    arbitrary finite domains", CT-RSA 2002). Not for secrets.

    ``num``: M. ``seeds``: as of ``make_generator``.
    """

    def __init__(self, num: int, *seeds: int) -> None:
        self.num = num
        self._half = max(1, -(-max(num - 1, 1).bit_length() // 2))  # bits
        generator = make_generator(*seeds)
        self._keys = torch.randint(1 << 31, (_ROUNDS,), generator=generator).tolist()

    def __call__(self, places: Tensor) -> Tensor:
        """Int64[B] places in 0..M-1 -> what stands there, Int64[B]."""
        found = self._once(places)
        while bool((outside := found >= self.num).any()):
            found = torch.where(outside, self._once(found), found)
        return found

    def _once(self, x: Tensor) -> Tensor:
        mask = (1 << self._half) - 1
        left, right = x >> self._half, x & mask
        for key in self._keys:
            left, right = right, left ^ (_mixed(right ^ key) & mask)
        return (left << self._half) | right


def _mixed(x: Tensor) -> Tensor:
    """Bits of 32-bit numbers, mixed (the finaliser of MurmurHash3), as Int64."""
    x = (x ^ (x >> 16)) * 0x85EBCA6B & 0xFFFFFFFF
    x = (x ^ (x >> 13)) * 0xC2B2AE35 & 0xFFFFFFFF
    return x ^ (x >> 16)
