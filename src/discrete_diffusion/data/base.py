"""``Dataset``: a data set in whatever state, split, and the batches drawn from it."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor

from discrete_diffusion.categorical import draw, make_generator
from discrete_diffusion.layout import TokenLayout
from discrete_diffusion.types import Batch

SPLITS = ("train", "val", "test")
_ORDER_STREAM, _AUGMENT_STREAM = 10, 11
"""Keep the randomness of batches apart from that of training steps with the same seed."""


@dataclass(frozen=True)
class Examples:
    """One split, a sample per row: ``x0``, ``real``, ``log_num_orders`` (Float64 or None) and
    ``conditions`` as in ``Batch``."""

    x0: Tensor
    real: Tensor
    log_num_orders: Tensor | None = None
    conditions: dict[str, Tensor] = field(default_factory=dict, kw_only=True)

    def __len__(self) -> int:
        return self.x0.shape[0]

    def __getitem__(self, rows: Tensor) -> Examples:
        orders = None if self.log_num_orders is None else self.log_num_orders[rows]
        conditions = {name: value[rows] for name, value in self.conditions.items()}
        return Examples(self.x0[rows], self.real[rows], orders, conditions=conditions)

    def batch(self) -> Batch:
        """All of them, as they are."""
        return Batch(self.x0, self.real, self.log_num_orders, dict(self.conditions))


class Dataset(ABC):
    """Clean samples in three splits.

    ``state``: what a sample is, one of ``states.STATES``.
    ``bound``: which quantity the mean NELBO of its batches bounds, per sample: ``ordered_random``
    (every batch relabels its samples at random), ``ordered_fixed`` (one order per sample),
    ``plain`` (sequences: order is part of the data) or, of real numbers, ``gaussian``.
    ``levels``: of images, the few values that a pixel can have, ascending, id k stands for level k;
    None if a pixel can have any.
    """

    state: ClassVar[str]
    splits: dict[str, Examples]
    bound: str
    levels: tuple[float, ...] | None = None

    def augment(self, examples: Examples, generator: torch.Generator) -> Batch:
        """Examples as a batch; overridden where a sample has several equivalent forms."""
        return examples.batch()

    def size_counts(self) -> list[int]:
        """How many training samples have k real positions, for k = 0, 1, ..."""
        real = self.splits["train"].real
        return torch.bincount(real.sum(dim=1), minlength=real.shape[1] + 1).tolist()

    def fingerprint(self) -> str:
        """16 hex digits that say which data this is: SHA-256 of what the samples mean and of those
        of every split, in order; the same on every machine."""
        digest = hashlib.sha256(self._meaning().encode())
        tensors = self._meaning_tensors()
        for name in SPLITS:
            examples = self.splits[name]
            tensors += [examples.x0, examples.real, *self._condition_tensors(examples)]
        for tensor in tensors:
            digest.update(repr(tuple(tensor.shape)).encode())
            kind = "<f4" if tensor.is_floating_point() else "<i4"
            digest.update(tensor.cpu().numpy().astype(kind).tobytes())
        return digest.hexdigest()[:16]

    def _meaning(self) -> str:
        """What else than their numbers makes samples what they are, as text ..."""
        return ""

    def _meaning_tensors(self) -> list[Tensor]:
        """... and as tensors."""
        return []

    def _condition_tensors(self, examples: Examples) -> list[Tensor]:
        """The conditions that count as data, in order of their names."""
        return [examples.conditions[name] for name in sorted(examples.conditions)]

    @abstractmethod
    def summary(self) -> str:
        """One line for the log: what was read and how it was split."""


class TokenDataset(Dataset):
    """Clean token sequences with a layout."""

    state = "tokens"
    layout: TokenLayout
    bound = "plain"

    def exchangeable(self, examples: Examples, generator: torch.Generator) -> Batch:
        """Examples in a random one of their equivalent forms, whatever ``augment`` does."""
        return self.augment(examples, generator)

    @abstractmethod
    def real_positions(self, sizes: Tensor) -> Tensor:
        """Int[B] sizes -> Bool[B, L], the positions to fill for samples of those sizes."""

    def _meaning(self) -> str:
        return repr((self.layout.mask_id, self.layout.pad_id))

    def _meaning_tensors(self) -> list[Tensor]:
        return [self.layout.support, self.layout.group]


def draw_sizes(counts: list[int], num: int, generator: torch.Generator) -> Tensor:
    """Int64[num]: sizes drawn from a histogram of them."""
    log_counts = torch.tensor(counts, dtype=torch.float64).log().clamp(min=-1e9)
    return draw(log_counts.expand(num, -1), generator)


def bucket_batches(
    sizes: Tensor, batch_size: int, generator: torch.Generator | None = None
) -> list[Tensor]:
    """Row indices in batches of equal size: samples of one size together, so a batch needs no PAD.

    ``sizes``: Int[M]. What is left over of each size goes into a few mixed batches. With a
    generator, rows and batches come in random order; without, in a fixed one.
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
    """Batches of a split, an epoch at a time: batch k of epoch e is a function of (seed, e, k).

    ``train``: shuffled, another order each epoch, an incomplete last batch dropped if there are
    others; an iteration ends with the epoch and begins where the last one was left. Otherwise every
    sample once, the same batches every time. Rank r of ``world_size`` takes every
    ``world_size``-th batch. ``accumulate``: batches of a rank that make one step; an epoch of
    training ends with a whole step, if it has one.

    ``even``: every rank is given as many batches. Where the others run out, earlier ones come
    again, for which ``counts`` is False: processes that compute together make the same number of
    calls, and nothing is measured twice.

    ``state_dict`` / ``load_state_dict`` hold epoch and batch, so that an interrupted run goes on
    with the batch it would have seen next. The batch is counted over all ranks, so that a run may
    go on with more or fewer of them.

    Raises ``ValueError`` if the split is empty, or is to be trained on and has fewer batches than
    there are ranks.
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
        accumulate: int = 1,
        even: bool = False,
    ) -> None:
        if batch_size < 1:
            raise ValueError(f"batch_size={batch_size}: expected at least 1")
        self.examples = dataset.splits[split]
        if len(self.examples) == 0:
            raise ValueError(f"the {split} split is empty; give it more data or another share")
        self.dataset, self.train = dataset, split == "train"
        self.batch_size, self.seed = batch_size, seed
        self.rank, self.world_size, self.accumulate = rank, world_size, accumulate
        self.sizes = self.examples.real.sum(dim=1)
        self.epoch = self._position = 0
        self._num_batches = len(self._plan())  # the same every epoch
        own = len(range(rank, self._num_batches, world_size))
        self._length = -(-self._num_batches // world_size) if even else own
        if self.train and len(self) == 0:
            raise ValueError(
                f"{len(self.examples)} {split} samples make fewer batches of {batch_size} than "
                f"there are processes ({world_size}); lower data.batch_size"
            )

    def _plan(self) -> list[Tensor]:
        order = make_generator(self.seed, _ORDER_STREAM, self.epoch) if self.train else None
        batches = bucket_batches(self.sizes, self.batch_size, order)
        if self.train:
            batches = [b for b in batches if len(b) == self.batch_size] or batches
            step = self.world_size * self.accumulate
            whole = len(batches) // step * step
            return batches[: whole or len(batches) // self.world_size * self.world_size]
        return batches

    def __len__(self) -> int:
        return self._length

    def counts(self, position: int) -> bool:
        """Whether this rank's batch number ``position`` of an epoch is the first of its kind."""
        return position * self.world_size + self.rank < self._num_batches

    def __iter__(self) -> Iterator[Batch]:
        epoch, start = self.epoch, self._position if self.train else 0
        plan = self._plan()
        for position in range(start, len(self)):
            # Before the yield: a loop that knows our length never asks for what comes after it.
            self._position = (position + 1) % len(self)
            self.epoch = epoch + (position + 1 == len(self)) if self.train else 0
            k = (position * self.world_size + self.rank) % len(plan)
            generator = make_generator(self.seed, _AUGMENT_STREAM, epoch, k)
            yield self.dataset.augment(self.examples[plan[k]], generator)

    def state_dict(self) -> dict[str, int]:
        """Where the stream stands: epoch, and batches of it that all ranks have been given."""
        return {"epoch": self.epoch, "position": self._position * self.world_size}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Go on from there at the next iteration.

        Where other ranks left off between our batches, the one begun is given again; where they
        left less of the epoch than we take at a time, the next epoch begins.
        """
        self.epoch, self._position = state["epoch"], state["position"] // self.world_size
        if self._position >= len(self):
            self.epoch, self._position = self.epoch + 1, 0
