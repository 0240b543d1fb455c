"""Text as a ``TokenDataset``: windows of equal length in memory, or rows of files of ids on disk.

Files are read row by row, whatever their size. Rows of L tokens are made of a stretch of ids: whole
blocks, framed blocks, or a document each.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import torch
from einops import rearrange
from torch import Tensor

from discrete_diffusion.config.values import check_name
from discrete_diffusion.data.base import SPLITS, Examples, ExamplesOnDisk, TokenDataset
from discrete_diffusion.domains.text.subwords import SubwordVocabulary
from discrete_diffusion.domains.text.token_files import TokenFiles
from discrete_diffusion.domains.text.vocabulary import TextVocabulary, Vocabulary, check_ids
from discrete_diffusion.layout.token_layout import TokenLayout
from discrete_diffusion.runtime import progress

if TYPE_CHECKING:
    from discrete_diffusion.contracts import BoundEstimate
    from discrete_diffusion.domains.text.vocabulary import Vocabulary


def count_words(vocabulary: Vocabulary, pieces: Iterable[np.ndarray]) -> int:
    """Runs without white space in the text of ids, in pieces Int[n] that follow each other: a word
    across two counts once, and none goes on in another document."""
    num, within = 0, False
    for ids in pieces:
        for k, text in enumerate(vocabulary.documents(ids)):
            within = within and k == 0
            if text:
                num += len(text.split()) - (within and not text[0].isspace())
                within = not text[-1].isspace()
    return num


def units_of(nats: float, num_bytes: int, num_words: int) -> dict[str, float]:
    """The nats of a text as ``bits_per_byte``, nats / (ln 2 bytes), and ``perplexity_per_word``,
    exp(nats / words); without a word the former alone."""
    found = {"bits_per_byte": nats / math.log(2) / num_bytes}
    if num_words:
        found["perplexity_per_word"] = math.exp(min(nats / num_words, 700.0))
    return found


_ROWS = 4096
"""Windows that are made text at once."""


class TextDataset(TokenDataset):
    """Contiguous windows of ``length`` tokens that do not overlap; the last one of a split is
    filled up with PAD.

    A window is modelled by itself: no context of the one before it.

    ``ids``: Int64[N] of every split. ``source``: what the text is called in log and metrics.
    ``num_tokens``: N by split.
    """

    per_split: ClassVar[tuple[str, ...]] = ("splits", "whole", "num_tokens")
    vocabulary: Vocabulary

    def __init__(
        self,
        ids: dict[str, np.ndarray],
        vocabulary: TextVocabulary | SubwordVocabulary,
        *,
        layout: TokenLayout,
        source: str,
    ) -> None:
        self.vocabulary, self.layout, self.source = vocabulary, layout, source
        self.splits = {name: self._windows(ids[name]) for name in SPLITS}
        self.whole = self.splits  # of a copy with fewer samples, too
        self.num_tokens = {name: len(ids[name]) for name in SPLITS}

    def _windows(self, ids: np.ndarray) -> Examples:
        """Int64[N] -> x0 Int64[M, L], M = ceil(N / L)."""
        length, pad_id = self.layout.length, self.vocabulary.pad_id
        assert pad_id is not None
        num = math.ceil(len(ids) / length) * length
        x0 = torch.full((num,), pad_id)
        x0[: len(ids)] = torch.from_numpy(ids)
        real = torch.arange(num) < len(ids)
        return Examples(*(rearrange(x, "(m l) -> m l", l=length) for x in (x0, real)))

    @cached_property
    def _text_sizes(self) -> dict[str, tuple[int, int]]:
        return {}

    def text_sizes(self, split: str) -> tuple[int, int]:
        """Characters and UTF-8 bytes of the text that the tokens of a split stand for."""
        if split not in self._text_sizes:
            found = [self.vocabulary.sizes(ids) for ids in self.pieces(split)]
            self._text_sizes[split] = sum(n for n, _ in found), sum(n for _, n in found)
        return self._text_sizes[split]

    @cached_property
    def _num_words(self) -> dict[str, int]:
        return {}

    def num_words(self, split: str) -> int:
        """Words of the text that the tokens of a split stand for."""
        if split not in self._num_words:
            self._num_words[split] = count_words(self.vocabulary, self.pieces(split))
        return self._num_words[split]

    def pieces(self, split: str) -> Iterator[np.ndarray]:
        """Ids Int[n] of all of a split, in order."""
        examples = self.whole[split]
        for x0, real in zip(examples.x0.split(_ROWS), examples.real.split(_ROWS), strict=True):
            yield x0[real].numpy()

    def further_bounds(self, split: str, bound: BoundEstimate) -> dict[str, float]:
        """Bits per character and per byte, and perplexity per word, see ``units_of``.

            bits per token = nats per token / ln 2
            bits per character = bits per token * tokens / characters

        A window is modelled without the text before it. Of ids, bits per token alone.
        """
        tokens = self.num_tokens[split]
        bits = bound.per_token / math.log(2)
        error, whole = bound.standard_error, bound.per_sample
        per_sample_error = error / whole if whole else 0.0  # relative; a bound of 0 has none
        if self.vocabulary.unit == "ids":
            error = bits * per_sample_error
            return {"bits_per_token": bits, "bits_per_token_standard_error": error}
        characters, num_bytes = self.text_sizes(split)
        return {
            "bits_per_character": bits * tokens / characters,
            "bits_per_character_standard_error": bits * tokens / characters * per_sample_error,
            **units_of(bound.per_token * tokens, num_bytes, self.num_words(split)),
        }

    def unit_of_bound(self, split: str, num_tokens: float) -> tuple[str, float]:
        if self.vocabulary.unit == "ids":
            return "bits per token", math.log(2) * num_tokens
        characters = self.text_sizes(split)[0] / self.num_tokens[split]
        return "bits per character", math.log(2) * num_tokens * characters

    def fingerprint(self) -> str:
        """Fingerprint of the data and of what the ids mean: other characters are other data."""
        meaning = f"{super().fingerprint()} {self.vocabulary.meaning}"
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
