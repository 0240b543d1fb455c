"""Batches of a data set: an endless stream for training, and passes over whole splits."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TypeVar

import torch
from torch import Tensor

from discrete_diffusion.categorical import make_generator
from discrete_diffusion.contracts import Batch
from discrete_diffusion.data.base import Dataset, Examples, ExamplesOnDisk

D = TypeVar("D", bound=Dataset)

_ORDER_STREAM, _AUGMENT_STREAM, _CHOICE_STREAM = 10, 11, 12
"""Streams of random numbers, different from those of training steps with the same seed."""


def bucket_batches(
    sizes: Tensor, batch_size: int, generator: torch.Generator | None = None
) -> list[Tensor]:
    """Group row indices into batches of samples of one size, which need no PAD.

    ``sizes``: Int[M], size of each sample. The remainders of all sizes fill mixed batches, smallest
    first; the last batch is smaller if ``batch_size`` does not divide M. With a generator, rows and
    batches are in random order, otherwise in a fixed order.
    """
    # whole batches of each size, then the remainders
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
    """Endless batches of the training split; batch k is a function of (seed, k).

    Every batch has ``batch_size`` samples, or all if there are fewer. The stream passes over the M
    samples repeatedly, each time in another random order. A round consists of all whole batches of
    M samples, bucketed by size; it begins with the samples left over from the last round, so it may
    contain a sample twice. After any round, the numbers of times that two samples were used differ
    by at most one. Samples on disk are not bucketed: pass k is a ``Permutation`` in O(1) memory.

    An iteration is an epoch: the number of whole steps nearest to one pass, at least one. It begins
    where the last epoch ended. A step is ``accumulate`` batches of each of ``world_size``
    processes; rank r takes every ``world_size``-th batch.

    ``state_dict``: number of batches given to all ranks, so that an interrupted run resumes with
    the next batch, also with another number of ranks.

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
        self.examples = _examples_to_batch(dataset, "train", batch_size)
        self.dataset, self.seed, self.rank, self.world_size = dataset, seed, rank, world_size
        # whole batches of a pass, and steps of an epoch
        num = len(self.examples)
        self.batch_size = min(batch_size, num)
        self._batches_per_round = num // self.batch_size
        self.steps_per_epoch = max(1, round(num / (self.batch_size * world_size * accumulate)))
        self._length = self.steps_per_epoch * accumulate
        # batches of this rank
        self._given = 0
        self._round: tuple[int, list[Tensor]] | None = None

    def __len__(self) -> int:
        return self._length  # batches of this rank in an epoch

    def __iter__(self) -> Iterator[Batch]:
        for given in range(self._given, self._given + len(self)):
            # before the yield: a loop that knows our length does not go on after it
            self._given = given + 1
            number = given * self.world_size + self.rank
            generator = make_generator(self.seed, _AUGMENT_STREAM, number)
            yield self.dataset.training_batch(self.examples[self._rows(number)], generator)

    def _rows(self, number: int) -> Tensor:
        """Row numbers of batch ``number`` of the stream, Int[batch_size]."""
        size = len(self.examples)
        # on disk each pass is a permutation
        if isinstance(self.examples, ExamplesOnDisk):
            places = number * self.batch_size + torch.arange(self.batch_size)
            rows = torch.empty_like(places)
            for k in range(int(places[0]) // size, int(places[-1]) // size + 1):
                own = places // size == k
                permutation = Permutation(size, self.seed, _ORDER_STREAM, 2, k)
                rows[own] = permutation(places[own] - k * size)
            return rows
        # a round is a part of one pass, or the end of a pass and the beginning of the next
        index, k = divmod(number, self._batches_per_round)
        if self._round is None or self._round[0] != index:
            num = self._batches_per_round * self.batch_size
            start, stop = index * num, (index + 1) * num
            passes = range(start // size, (stop - 1) // size + 1)
            seeds = [make_generator(self.seed, _ORDER_STREAM, 0, each) for each in passes]
            orders = torch.cat([torch.randperm(size, generator=each) for each in seeds])
            rows = orders[start - passes[0] * size : stop - passes[0] * size]
            generator = make_generator(self.seed, _ORDER_STREAM, 1, index)
            buckets = bucket_batches(self._sizes[rows], self.batch_size, generator)
            self._round = (index, [rows[bucket] for bucket in buckets])
        return self._round[1][k]

    @cached_property
    def _sizes(self) -> Tensor:
        return self.dataset.sizes(self.examples)

    def state_dict(self) -> dict[str, int]:
        """Return the position of the stream."""
        on_disk = {"permutation": 1} if isinstance(self.examples, ExamplesOnDisk) else {}
        return {"batches": self._given * self.world_size} | on_disk

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Resume at the next iteration; with another number of ranks, a batch may come again.

        Raises ``ValueError`` for the state of a stream with other batches.
        """
        if not {*self.state_dict()} <= {*state}:
            raise ValueError(
                "the checkpoint is of an earlier version, which drew other batches, so the run "
                "cannot be resumed; start a new one from its weights: init.checkpoint=FILE"
            )
        self._given = state["batches"] // self.world_size


def with_fewer(dataset: D, split: str, most: int | None, seed: int) -> D:
    """Copy a data set with at most ``most`` samples in a split, chosen at random by the seed."""
    num = len(dataset.splits[split])
    if most is None or most >= num:
        return dataset
    # a random choice, in the order of the split
    order = torch.randperm(num, generator=make_generator(seed, _CHOICE_STREAM))
    return dataset.with_rows(split, order[:most].sort().values)


class SplitBatches:
    """Batches with every sample of a split once, grouped by size; the same in every iteration.

    Rank r of ``world_size`` takes every ``world_size``-th batch. All ranks get equally many, so
    that processes make the same number of calls; a rank that runs out repeats earlier batches, for
    which ``counts`` is False.

    A batch is a function of (seed, its number): the seed decides the form of samples that have
    several equivalent forms. ``sizes``: Int[M], sizes of the samples in the order of all ranks'
    batches.

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
        self.examples = _examples_to_batch(dataset, split, batch_size)
        self.dataset, self.seed, self.rank, self.world_size = dataset, seed, rank, world_size
        # batches of all ranks, and batches of this rank
        sizes = dataset.sizes(self.examples)
        self._batches = bucket_batches(sizes, batch_size)
        self.sizes = sizes[torch.cat(self._batches)]
        self._length = -(-len(self._batches) // world_size)

    def __len__(self) -> int:
        return self._length

    def counts(self, position: int) -> bool:
        """True if this rank's batch number ``position`` is not a repetition."""
        return position * self.world_size + self.rank < len(self._batches)

    def __iter__(self) -> Iterator[Batch]:
        for position in range(len(self)):
            k = (position * self.world_size + self.rank) % len(self._batches)
            generator = make_generator(self.seed, _AUGMENT_STREAM, 0, k)
            yield self.dataset.augment(self.examples[self._batches[k]], generator)


def _examples_to_batch(dataset: Dataset, split: str, batch_size: int) -> Examples:
    """Return a split; raise ``ValueError`` if it is empty or the batch size is below 1."""
    if batch_size < 1:
        raise ValueError(f"batch_size={batch_size}: expected at least 1")
    examples = dataset.splits[split]
    if len(examples) == 0:
        raise ValueError(
            f"the {split} split is empty; give it more data, or another share in data.split"
        )
    return examples


class Permutation:
    """Random permutation of 0..M-1 in O(1) memory, a function of (M, seeds).

    A balanced Feistel network permutes 0..4^k-1, the least such range above M; a number outside of
    0..M-1 goes through it again (cycle walking: Black & Rogaway, "Ciphers with arbitrary finite
    domains", CT-RSA 2002). Not for secrets.

    ``num``: M. ``seeds``: seeds as for ``make_generator``.
    """

    def __init__(self, num: int, *seeds: int) -> None:
        self.num = num
        # bits of half a number, and a random key for each of six rounds
        self._half = max(1, -(-max(num - 1, 1).bit_length() // 2))
        self._keys = torch.randint(1 << 31, (6,), generator=make_generator(*seeds)).tolist()

    def __call__(self, places: Tensor) -> Tensor:
        """Map places in 0..M-1, Int64[B], to the numbers there, Int64[B]."""
        found = self._once(places)
        while bool((outside := found >= self.num).any()):
            found = torch.where(outside, self._once(found), found)
        return found

    def _once(self, x: Tensor) -> Tensor:
        # both halves of the bits, one mixed into the other in every round
        mask = (1 << self._half) - 1
        left, right = x >> self._half, x & mask
        for key in self._keys:
            # finaliser of MurmurHash3 for 32-bit numbers
            mixed = right ^ key
            mixed = (mixed ^ (mixed >> 16)) * 0x85EBCA6B & 0xFFFFFFFF
            mixed = (mixed ^ (mixed >> 13)) * 0xC2B2AE35 & 0xFFFFFFFF
            left, right = right, left ^ ((mixed ^ (mixed >> 16)) & mask)
        return (left << self._half) | right
