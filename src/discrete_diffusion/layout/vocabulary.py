"""``Vocabulary``: what samples are; of plain sequences, ``Sequences``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from discrete_diffusion.layout.token_layout import TokenLayout, first_positions


class Vocabulary(ABC):
    """What samples are: ``Sequences``, ``VocabConfig`` of graphs, ``Numbers`` of other states."""

    @property
    def largest(self) -> int:
        """Size of the largest sample."""
        raise TypeError(f"{type(self).__name__} has no sizes: it is not of ids")

    def layout(self) -> TokenLayout:
        """The legal ids by position."""
        raise TypeError(f"{type(self).__name__} has no layout: it is not of ids")

    def real_positions(self, sizes: Tensor) -> Tensor:
        """Positions that carry data.

        Args:
            sizes: Int[B], lengths; of graphs, numbers of nodes.

        Returns:
            Bool[B, L].
        """
        raise TypeError(f"{type(self).__name__} has no positions: it is not of ids")

    @abstractmethod
    def digest(self) -> dict[str, Any]:
        """Meaning, for checkpoints: one is refused where it differs.

        Returns:
            Values that JSON can hold, by name.
        """


@dataclass(frozen=True)
class Numbers(Vocabulary):
    """The vocabulary of samples that are no ids.

    Args:
        meaning: what a checkpoint holds of them.
    """

    meaning: Mapping[str, Any]

    def digest(self) -> dict[str, Any]:
        """Copy of ``meaning``."""
        return dict(self.meaning)


@dataclass(frozen=True)
class Sequences(Vocabulary):
    """The vocabulary of plain sequences: every id but MASK and PAD is legal at every position.

    Args:
        length: L, number of positions.
        vocab_size: V, number of ids, MASK and PAD included.
        mask_id: the id of MASK.
        pad_id: the id of PAD, or None.
        num_given: number of leading positions that are given.
    """

    length: int
    vocab_size: int
    mask_id: int
    pad_id: int | None = None
    num_given: int = 0

    @classmethod
    def of(cls, data_config: Mapping[str, Any]) -> Sequences:
        """The sequences of a ``config.data``.

        Args:
            data_config: ``length``, ``vocab_size``, ``mask_id`` and, optionally, ``pad_id`` and
                ``source_length``, the number of positions that are given, the first ones.

        Returns:
            Their vocabulary.

        Raises:
            ValueError: a key is not set; the message names it.
        """
        for key in ("length", "vocab_size", "mask_id"):
            if data_config.get(key) is None:
                raise ValueError(
                    f"data.{key} is not set; plain sequences need data.length, data.vocab_size and "
                    "data.mask_id"
                )
        return cls(
            data_config["length"],
            data_config["vocab_size"],
            data_config["mask_id"],
            data_config.get("pad_id"),
            data_config.get("source_length") or 0,
        )

    @property
    def largest(self) -> int:
        """Number of positions that are not given."""
        return self.length - self.num_given

    def layout(self) -> TokenLayout:
        """Layout with one group named ``token``."""
        return TokenLayout.flat(
            self.length,
            self.vocab_size,
            mask_id=self.mask_id,
            pad_id=self.pad_id,
            num_given=self.num_given,
        )

    def real_positions(self, sizes: Tensor) -> Tensor:
        """The first ones that are not given, as many as ``sizes`` Int[B] say: Bool[B, L]."""
        return first_positions(self.length, self.num_given, sizes)

    def digest(self) -> dict[str, Any]:
        """Fingerprint of the layout."""
        return self.layout().digest()
