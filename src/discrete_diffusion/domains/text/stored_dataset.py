"""Text as files of ids that are read row by row, whatever their size."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterator, Mapping

import numpy as np
import torch
from torch import Tensor

from discrete_diffusion.data.base import SPLITS, Examples
from discrete_diffusion.data.examples_on_disk import ExamplesOnDisk
from discrete_diffusion.domains.text.dataset import TextDataset
from discrete_diffusion.domains.text.ids import check_ids
from discrete_diffusion.domains.text.packing import Packing, unused
from discrete_diffusion.domains.text.token_files import TokenFiles
from discrete_diffusion.layout.token_layout import TokenLayout
from discrete_diffusion.runtime import progress

Span = tuple[TokenFiles, int, int]
"""Ids from the second number to the one before the third."""

_MOST_TEXTS = 2_000
"""Rows of a split that stand for it where all of its text would be needed."""

_READ = 1_000_000
"""Ids that are read at once where all of a split are counted."""


class StoredTextDataset(TextDataset):
    """Rows of ``packing`` over the ids of every split's span, read as they are needed.

    ``source``: what the text is called in log and metrics. Raises ``ValueError`` if there are ids
    of none of V among some pieces of every file; all are checked when they are read.
    """

    per_split = ("splits", "num_tokens", "spans")

    def __init__(
        self, spans: Mapping[str, Span], packing: Packing, *, layout: TokenLayout, source: str
    ) -> None:
        self.vocabulary, self.layout, self.source = packing.vocabulary, layout, source
        self.packing, self.spans = packing, dict(spans)
        for files in {id(files): files for files, _, _ in spans.values()}.values():
            for start, ids in files.pieces():
                check_ids(ids, self.vocabulary, files.where, start)
        rows = {split: packing.span(*self.spans[split]) for split in SPLITS}
        self.splits: dict[str, Examples] = {**rows}
        self.num_tokens = {split: int(each.sizes.sum()) for split, each in rows.items()}

    def sizes(self, examples: Examples) -> Tensor:
        if isinstance(examples, ExamplesOnDisk):
            return examples.sizes
        return super().sizes(examples)

    def size_counts(self) -> list[int]:
        sizes = self.sizes(self.splits["train"])
        if sizes.stride(0) == 0:  # of one size
            return [0] * self.layout.length + [len(sizes)]
        return torch.bincount(sizes).tolist()

    def identities(self, split: str) -> list[Hashable]:
        examples = self.splits[split]
        parts = examples.parts() if isinstance(examples, ExamplesOnDisk) else [slice(None)]
        return [
            hashlib.blake2b(x.tobytes(), digest_size=16).digest()
            for part in parts
            for x in examples[part].x0.numpy()
        ]

    def fingerprint(self) -> str:
        """Fingerprint of the digests of the files, of the spans and of what rows and ids mean."""
        packing = self.packing
        spans = [(files.digest, *span) for files, *span in map(self.spans.__getitem__, SPLITS)]
        rows = (packing.pack, packing.length, packing.bos_id, packing.eos_id, packing.document_mask)
        meaning = repr((spans, rows, self._meaning(), self.vocabulary.meaning))
        return hashlib.sha256(meaning.encode()).hexdigest()[:16]

    def texts(self, split: str) -> list[str]:
        """Rows of a split as text, at equal distances where there are more than 2,000."""
        examples = self.splits[split]
        num = min(len(examples), _MOST_TEXTS)
        rows = torch.arange(num) * len(examples) // max(num, 1)
        return self.vocabulary.decode(examples[rows].x0)

    def pieces(self, split: str) -> Iterator[np.ndarray]:
        files, start, stop = self.spans[split]
        stop -= unused(files, start, stop, self.packing)
        parts = range(start, stop, _READ)
        for k in progress.track(parts, "counting bytes and words of the text", "million tokens"):
            yield files.read(k, min(k + _READ, stop))

    def summary(self) -> str:
        counts, left = [], 0
        for split in SPLITS:
            left += unused(*self.spans[split], self.packing)
            counts.append(f"{len(self.splits[split]):,} {split}")
        kind = {"pad": "a document each", "wrap_bos_eos": "between BOS and EOS"}
        how = kind.get(self.packing.pack, "side by side")
        more = f"; {left:,} tokens at the ends of splits fill no row and are left out" * (left > 0)
        return (
            f"{self.source}: rows of {self.layout.length} {self.vocabulary.unit}, {how}: "
            f"{', '.join(counts)}; {sum(self.num_tokens.values()):,} tokens, "
            f"{int(self.layout.num_legal[0]):,} ids{more}"
        )
