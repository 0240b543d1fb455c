"""Data sets: samples of any state in three splits, in memory or on disk."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Self

import torch
from torch import Tensor

from discrete_diffusion.categorical import sample_categorical
from discrete_diffusion.contracts import Batch
from discrete_diffusion.layout.token_layout import TokenLayout, first_positions

if TYPE_CHECKING:
    from discrete_diffusion.contracts import BoundEstimate


SPLITS = ("train", "val", "test")


@dataclass(frozen=True)
class Examples:
    """Samples of a split, one per row.

    ``x0``, ``real``, ``log_num_orders`` (Float64 or None) and ``conditions`` are as in ``Batch``.
    """

    x0: Tensor
    real: Tensor
    log_num_orders: Tensor | None = None
    conditions: dict[str, Tensor] = field(default_factory=dict, kw_only=True)

    def __len__(self) -> int:
        return self.x0.shape[0]

    def __getitem__(self, rows: Tensor | slice) -> Examples:
        orders = None if self.log_num_orders is None else self.log_num_orders[rows]
        conditions = {name: value[rows] for name, value in self.conditions.items()}
        return Examples(self.x0[rows], self.real[rows], orders, conditions=conditions)

    def batch(self) -> Batch:
        return Batch(self.x0, self.real, self.log_num_orders, dict(self.conditions))


class Dataset(ABC):
    """Clean samples in three splits.

    ``state``: state of the samples, one of ``registry.STATES``.
    ``bound``: quantity that the mean NELBO of its batches bounds, per sample: ``ordered_random``
    (every batch relabels its samples at random), ``ordered_fixed`` (one order per sample),
    ``plain`` (sequences: order is part of the data) or, of real numbers, ``gaussian``.
    ``levels``: ascending values of an image's pixel, id k stands for level k; None if unrestricted.
    ``size_unit``: unit of ``sizes``. ``per_split``: names of attributes that are dicts by split.
    """

    state: ClassVar[str]
    splits: dict[str, Examples]
    bound: str
    size_unit: ClassVar[str] = "tokens"
    per_split: ClassVar[tuple[str, ...]] = ("splits",)
    levels: tuple[float, ...] | None = None

    def augment(self, examples: Examples, generator: torch.Generator) -> Batch:
        """Make a batch of examples; overridden if a sample has several equivalent forms."""
        return examples.batch()

    def training_batch(self, examples: Examples, generator: torch.Generator) -> Batch:
        """Make a batch of examples as a training step sees them."""
        return self.augment(examples, generator)

    def sizes(self, examples: Examples) -> Tensor:
        """Size of each sample, Int64[M]; it decides the number of real positions."""
        return examples.real.sum(dim=1)

    def size_counts(self) -> list[int]:
        """Number of training samples of size k, for k = 0, 1, ..."""
        return torch.bincount(self.sizes(self.splits["train"])).tolist()

    def with_rows(self, split: str, rows: Tensor) -> Self:
        """Copy the data set with some rows of a split."""
        made = copy(self)
        made.splits = {**self.splits, split: self.splits[split][rows]}
        return made

    def with_training_split(self, trained_on: Self | None) -> Self:
        """Copy the data set with the training split of another of the same class, if not None."""
        if trained_on is None:
            return self
        made = copy(self)
        for name in self.per_split:
            ours, theirs = getattr(self, name), getattr(trained_on, name)
            setattr(made, name, {**ours, "train": theirs["train"]})
        return made

    def identities(self, split: str) -> list[Hashable]:
        """Keys of the samples of a split; conditions and ``augment`` do not change a key."""
        rows = self.splits[split].x0.numpy()
        return [hashlib.blake2b(x.tobytes(), digest_size=16).digest() for x in rows]

    def losses(self, split: str) -> dict[str, Any]:
        """Changes of a split from its source by name, such as numbers of unknown words."""
        return {}

    def fingerprint(self) -> str:
        """Digest of the data, 16 hex digits, the same on every machine: SHA-256 of the meaning of
        the ids and of the samples of every split, in order."""
        # shape and numbers of every tensor
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
        """Text that defines the meaning of the data, as part of the fingerprint."""
        return ""

    def _meaning_tensors(self) -> list[Tensor]:
        """Tensors that define the meaning of the data, as part of the fingerprint."""
        return []

    def _condition_tensors(self, examples: Examples) -> list[Tensor]:
        """Conditions that belong to the data, in the order of their names."""
        return [examples.conditions[name] for name in sorted(examples.conditions)]

    @abstractmethod
    def summary(self) -> str:
        """Describe the data and its splits in a line for the log."""


class TokenDataset(Dataset):
    """Clean token sequences with a layout; graphs have a ``vocab``, too."""

    state = "tokens"
    layout: TokenLayout
    vocab: Any
    bound = "plain"

    @classmethod
    def from_rows(cls, x0: Tensor, layout: TokenLayout, fractions: Sequence[float]) -> Self:
        """Split sequences Int[M, L] in their order into shares that sum to 1."""
        made, whole = cls(), Examples(x0, layout.is_real(x0))
        whole.real[:, : layout.num_given] = False
        parts = shares_of(len(x0), fractions)
        made.layout, made.splits = layout, {name: whole[rows] for name, rows in parts.items()}
        return made

    def summary(self) -> str:
        parts = (f"{len(examples):,} {name}" for name, examples in self.splits.items())
        return f"samples: {', '.join(parts)}"

    def exchangeable(self, examples: Examples, generator: torch.Generator) -> Batch:
        """Make a batch of examples in random equivalent forms, even if ``augment`` does not."""
        return self.augment(examples, generator)

    def further_bounds(self, split: str, bound: BoundEstimate) -> dict[str, float]:
        """Convert a ``bound`` of a whole split to further units; returns values by name."""
        return {}

    def unit_of_bound(self, split: str, num_tokens: float) -> tuple[str, float]:
        """Unit of bounds in comparisons, and how many nats per sample (of ``num_tokens`` in the
        mean) it is."""
        return "nats per sequence", 1.0

    def real_positions(self, sizes: Tensor) -> Tensor:
        """Positions to fill for samples of ``sizes``, Int[B] -> Bool[B, L]: the first not given."""
        return first_positions(self.layout.length, self.layout.num_given, sizes)

    def clamp(self, split: str, num: int) -> Tensor | None:
        """Tokens that ``num`` fresh samples are given, from samples of a split: Int[num, L], -1
        where a token is sampled; None if nothing is given."""
        return None

    def _meaning(self) -> str:
        return repr((self.layout.mask_id, self.layout.pad_id))

    def _meaning_tensors(self) -> list[Tensor]:
        return [self.layout.support, self.layout.group]


def sample_sizes(counts: list[int], num: int, generator: torch.Generator) -> Tensor:
    """Sample ``num`` sizes from their histogram ``counts``, Int64[num]."""
    log_counts = torch.tensor(counts, dtype=torch.float64).log().clamp(min=-1e9)
    return sample_categorical(log_counts.expand(num, -1), generator)


def given_paths(config: Mapping[str, Any]) -> dict[str, str]:
    """Files in a ``config.data`` by split, or the file ``path`` of all splits; {} if none is given.

    Raises ``ValueError`` for paths that contradict each other.
    """
    # a file for each split, or one file for all splits
    paths = {name: config.get(f"{name}_path") for name in SPLITS}
    given = {name: path for name, path in paths.items() if path is not None}
    if config["path"] is not None:
        if given:
            raise ValueError("give data.path or data.train_path and data.val_path, not both")
        return {"path": config["path"]}
    if given and not {"train", "val"} <= given.keys():
        raise ValueError(
            f"data={config['name']} needs data.train_path=FILE and data.val_path=FILE together"
        )
    return given


def shares_of(num: int, fractions: Sequence[float]) -> dict[str, slice]:
    """Slices of train, val and test of ``num`` items; ``ValueError`` unless shares sum to 1."""
    if len(fractions) != 3 or min(fractions) < 0 or abs(sum(fractions) - 1) > 1e-6:
        raise ValueError(f"data.split={list(fractions)}: expected three shares that sum to 1")
    # ends of train and val
    first, second = round(num * fractions[0]), round(num * (fractions[0] + fractions[1]))
    return {"train": slice(0, first), "val": slice(first, second), "test": slice(second, num)}


_MOST_AT_ONCE = 4096
"""Largest number of samples to read at once, and to prepare an algorithm with."""


class ExamplesOnDisk(Examples):
    """``Examples`` on disk: rows are read when they are indexed.

    ``read``: function from row numbers, Int64[B], to examples. ``sizes``: Int64[M], number of real
    positions of each row, an expanded tensor if all are equal.
    """

    def __init__(self, read: Callable[[Tensor], Examples], sizes: Tensor) -> None:
        self.__dict__.update(read=read, sizes=sizes, conditions={})

    read: Callable[[Tensor], Examples]
    sizes: Tensor

    def __len__(self) -> int:
        return len(self.sizes)

    def __getitem__(self, rows: Tensor | slice) -> Examples:
        # row numbers of a slice or a mask
        if isinstance(rows, slice):
            rows = torch.arange(*rows.indices(len(self)))
        elif rows.dtype == torch.bool:
            rows = rows.nonzero().squeeze(1)
        return self.read(rows)

    def parts(self) -> list[Tensor]:
        """Divide the row numbers of the split into parts that fit into memory."""
        return list(torch.arange(len(self)).split(_MOST_AT_ONCE))

    def batch(self) -> Batch:
        """Make a batch of the first rows, at most ``_MOST_AT_ONCE``."""
        return self[:_MOST_AT_ONCE].batch()

    def __getattr__(self, name: str) -> Tensor:
        """Read ``x0`` or ``real`` of all rows at once, for held-out splits."""
        if name in ("x0", "real"):
            found: Tensor = getattr(self[:], name)
            return found
        raise AttributeError(name)
