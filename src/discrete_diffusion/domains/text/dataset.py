"""Text as a ``TokenDataset``: windows of equal length, one after the other."""

from __future__ import annotations

import hashlib
import math
from typing import TYPE_CHECKING

import numpy as np
import torch
from einops import rearrange
from torch import Tensor

from discrete_diffusion.data.base import SPLITS, Examples, TokenDataset
from discrete_diffusion.domains.text.ids import IdVocabulary
from discrete_diffusion.domains.text.units import TextUnits
from discrete_diffusion.domains.text.vocabulary import TextVocabulary
from discrete_diffusion.layout.token_layout import TokenLayout, sequence_positions

if TYPE_CHECKING:
    from discrete_diffusion.types import BoundEstimate


class TextDataset(TokenDataset):
    """Contiguous windows of ``length`` tokens that do not overlap; the last one of a split is
    filled up with PAD, or, of ids, which have none, left out.

    A window is modelled by itself: no context of the one before it.

    ``ids``: Int64[N] of every split. ``source``: what the text is called in log and metrics.
    ``num_characters``: by split, what N tokens stand for; fewer than N where tokens are bytes.
    """

    per_split = ("splits", "whole", "num_tokens", "num_characters")

    def __init__(
        self,
        ids: dict[str, np.ndarray],
        vocabulary: TextVocabulary | IdVocabulary,
        *,
        layout: TokenLayout,
        source: str,
    ) -> None:
        self.vocabulary, self.layout, self.source = vocabulary, layout, source
        self.splits = {name: self._windows(ids[name]) for name in SPLITS}
        self.whole = self.splits  # of a copy with fewer samples, too
        self.num_tokens = {name: len(ids[name]) for name in SPLITS}
        self.num_characters = {name: self._count_characters(ids[name]) for name in SPLITS}

    def _windows(self, ids: np.ndarray) -> Examples:
        """Int64[N] -> x0 Int64[M, L], M = ceil(N / L), or floor(N / L) without PAD."""
        length = self.layout.length
        if self.vocabulary.pad_id is None:
            x0 = torch.from_numpy(ids[: len(ids) // length * length].reshape(-1, length))
            return Examples(x0, torch.ones_like(x0, dtype=torch.bool))
        num = math.ceil(len(ids) / length) * length
        x0 = torch.full((num,), self.vocabulary.pad_id)
        x0[: len(ids)] = torch.from_numpy(ids)
        real = torch.arange(num) < len(ids)
        return Examples(*(rearrange(x, "(m l) -> m l", l=length) for x in (x0, real)))

    def _count_characters(self, ids: np.ndarray) -> int:
        """A character of several bytes counts where its first byte is."""
        if self.vocabulary.unit != "bytes":
            return len(ids)
        return int(np.count_nonzero((ids & 0xC0) != 0x80))

    def real_positions(self, sizes: Tensor) -> Tensor:
        return sequence_positions({"length": self.layout.length}, sizes)

    def further_bounds(self, split: str, bound: BoundEstimate) -> dict[str, float]:
        """Bits per character and per byte, and perplexity per word, see ``TextUnits``.

            bits per token = nats per token / ln 2
            bits per character = bits per token * tokens / characters

        A window is modelled without the text before it. Of ids, bits per token alone.
        """
        tokens, characters = self.num_tokens[split], self.num_characters[split]
        bits = bound.per_token / math.log(2)
        per_sample_error = bound.standard_error / bound.per_sample  # relative
        if self.vocabulary.unit == "ids":
            error = bits * per_sample_error
            return {"bits_per_token": bits, "bits_per_token_standard_error": error}
        units = TextUnits.of(self.vocabulary, self.whole[split].x0)
        return {
            "bits_per_character": bits * tokens / characters,
            "bits_per_character_standard_error": bits * tokens / characters * per_sample_error,
            **units.bounds(bound.per_token * tokens),
        }

    def unit_of_bound(self, split: str, num_tokens: float) -> tuple[str, float]:
        if self.vocabulary.unit == "ids":
            return "bits per token", math.log(2) * num_tokens
        characters = self.num_characters[split] / self.num_tokens[split]
        return "bits per character", math.log(2) * num_tokens * characters

    def fingerprint(self) -> str:
        """Fingerprint of the data and of what the ids mean: other characters are other data."""
        meaning = f"{super().fingerprint()} {self.vocabulary.characters}"
        return hashlib.sha256(meaning.encode("utf-8")).hexdigest()[:16]

    def texts(self, split: str) -> list[str]:
        """The windows of a split as text."""
        return self.vocabulary.decode(self.splits[split].x0)

    def summary(self) -> str:
        what = self.vocabulary.unit
        parts = ", ".join(f"{self.num_tokens[name]:,} {name}" for name in SPLITS)
        return (
            f"{self.source}: {parts} {what} in windows of {self.layout.length}; "
            f"{int(self.layout.num_legal[0])} distinct ids"
        )
