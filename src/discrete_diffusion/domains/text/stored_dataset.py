"""Text as files of ids that are read row by row, whatever their size.

Rows of L tokens are made of a stretch of ids: whole blocks, framed blocks, or a document each.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from discrete_diffusion.config.naming import check_name
from discrete_diffusion.data.base import SPLITS, Examples, ExamplesOnDisk
from discrete_diffusion.domains.text.dataset import TextDataset
from discrete_diffusion.domains.text.token_files import TokenFiles
from discrete_diffusion.domains.text.vocabulary import Vocabulary, check_ids
from discrete_diffusion.layout.token_layout import TokenLayout
from discrete_diffusion.runtime import progress

PACKS = ("wrap", "wrap_bos_eos", "pad")


@dataclass(frozen=True)
class Packing:
    """How ids become rows of ``length`` tokens.

    ``pack``: ``wrap``, blocks that lie side by side; ``wrap_bos_eos``, blocks of L - 2 between the
    tokens ``bos_id`` and ``eos_id`` (Sahoo et al., arXiv 2406.07524); ``pad``, rows of one document
    each, PAD behind it, a longer one in several rows. ``document_mask``: rows come with
    ``document_idxs``, the number of the document that each token belongs to, counted at ``eos_id``.

    Raises ``ValueError`` for an unknown ``pack``, one that needs a token which is not known, and a
    ``length`` that leaves no room for text.
    """

    pack: str
    length: int
    vocabulary: Vocabulary
    bos_id: int | None = None
    eos_id: int | None = None
    document_mask: bool = False

    def __post_init__(self) -> None:
        check_name("data.pack", self.pack, PACKS)
        if self.content < 1:
            least = 1 + self.length - self.content
            raise ValueError(
                f"data.length={self.length}: data.pack={self.pack} has a row of at least {least} "
                f"tokens, of which {least - 1} frame the text; give data.length={least} or more"
            )
        needs = {"bos_id", "eos_id"} if self.pack == "wrap_bos_eos" else set()
        needs |= {"eos_id"} if self.document_mask else set()
        for key in sorted(needs):
            if getattr(self, key) is None:
                what = (
                    "data.document_mask=true" if self.pack == "wrap" else f"data.pack={self.pack}"
                )
                raise ValueError(
                    f"{what} needs data.{key}, and the tokenizer has no such token; give its id, "
                    "or take data.pack=wrap and data.document_mask=false"
                )

    @property
    def content(self) -> int:
        """Ids of the text in a whole row."""
        return self.length - 2 * (self.pack == "wrap_bos_eos")

    def span(self, files: TokenFiles, start: int, stop: int) -> ExamplesOnDisk:
        """The rows of the ids ``start`` to ``stop - 1`` of ``files``; what is left at the end and
        fills no row is left out, but of ``pad``."""
        if self.pack == "pad":
            starts, sizes = self._of_documents(files, start, stop)
        else:
            num = max(0, (stop - start) // self.content)
            starts = None
            sizes = torch.tensor(self.length).expand(num)

        def read(rows: Tensor) -> Examples:
            first = start + rows * self.content if starts is None else starts[rows]
            return self._read(files, first.tolist(), sizes[rows])

        return ExamplesOnDisk(read, sizes)

    def _of_documents(self, files: TokenFiles, start: int, stop: int) -> tuple[Tensor, Tensor]:
        """Where rows of a document each begin, Int64[M], and how long they are, Int64[M]."""
        ends = files.document_ends(self.eos_id)
        ends = ends[(ends > start) & (ends <= stop)]
        begins = np.concatenate([[start], ends])[:-1]
        rows = -(-(ends - begins) // self.length)  # of each document
        document = np.repeat(np.arange(len(ends)), rows)
        place = np.arange(len(document)) - (np.cumsum(rows) - rows)[document]
        starts = begins[document] + place * self.length
        sizes = np.minimum(ends[document] - starts, self.length)
        return torch.from_numpy(starts.astype(np.int64)), torch.from_numpy(sizes.astype(np.int64))

    def _read(self, files: TokenFiles, starts: list[int], sizes: Tensor) -> Examples:
        """Rows that begin at the ids ``starts``."""
        content = sizes.clamp(max=self.content)
        found = [files.read(s, s + n) for s, n in zip(starts, content.tolist(), strict=True)]
        for start, ids in zip(starts, found, strict=True):
            check_ids(ids, self.vocabulary, files.where, start)
        real = torch.arange(self.length) < sizes.unsqueeze(1)  # (B, L)
        x0 = torch.full(real.shape, 0 if self.vocabulary.pad_id is None else self.vocabulary.pad_id)
        framed = int(self.pack == "wrap_bos_eos")
        for row, ids in zip(x0, found, strict=True):
            row[framed : framed + len(ids)] = torch.from_numpy(ids)
        if framed:
            assert self.bos_id is not None
            assert self.eos_id is not None
            x0[:, 0], x0[:, -1] = self.bos_id, self.eos_id
        return Examples(x0, real, conditions=self._documents(x0))

    def _documents(self, x0: Tensor) -> dict[str, Tensor]:
        if not self.document_mask:
            return {}
        assert self.eos_id is not None
        ends = (x0 == self.eos_id).long()
        return {"document_idxs": ends.cumsum(dim=1) - ends}  # (B, L)


def unused(files: TokenFiles, start: int, stop: int, packing: Packing) -> int:
    """Ids at the end of a span that are in no row."""
    return 0 if packing.pack == "pad" else (stop - start) % packing.content


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
