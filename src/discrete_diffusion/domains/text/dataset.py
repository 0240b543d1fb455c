"""Text as a ``TokenDataset``: windows of equal length in memory, or rows of files of ids on disk.

Files of any size are read row by row. A row of L tokens is a block of ids, a block between BOS and
EOS, or a document.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np
import torch
from einops import rearrange
from torch import Tensor

from discrete_diffusion.config.values import check_name
from discrete_diffusion.contracts import Batch, BoundEstimate
from discrete_diffusion.data.base import SPLITS, Examples, ExamplesOnDisk, TokenDataset
from discrete_diffusion.domains.text.subwords import SubwordVocabulary
from discrete_diffusion.domains.text.token_files import TokenFiles
from discrete_diffusion.domains.text.vocabulary import TextVocabulary, Vocabulary, check_ids
from discrete_diffusion.layout.token_layout import TokenLayout
from discrete_diffusion.runtime import progress

Span = tuple[TokenFiles, int, int]
"""Files, start and stop: the ids ``start`` to ``stop - 1`` of the files."""

PACKS = ("wrap", "wrap_bos_eos", "pad")

_WINDOWS = 4096
"""Windows that are decoded at once."""

_MAX_TEXTS = 2_000
"""Most rows of a split on disk that are decoded where its whole text would be needed."""

_READ = 1_000_000
"""Ids that are read at once when characters, bytes or words of a split are counted."""


def count_words(vocabulary: Vocabulary, pieces: Iterable[np.ndarray]) -> int:
    """Count the words, separated by white space, in the text of consecutive pieces of ids, Int[n].

    A word across two pieces counts once; each document begins a new word.
    """
    num, within = 0, False
    for ids in pieces:
        for k, text in enumerate(vocabulary.documents(ids)):
            within = within and k == 0
            if text:
                num += len(text.split()) - (within and not text[0].isspace())
                within = not text[-1].isspace()
    return num


def units_of(nats: float, num_bytes: int, num_words: int) -> dict[str, float]:
    """Convert the nats of a text to ``bits_per_byte``, nats / (ln 2 bytes), and, if it has words,
    to ``perplexity_per_word``, exp(nats / words)."""
    units = {"bits_per_byte": nats / math.log(2) / num_bytes}
    if num_words:
        units["perplexity_per_word"] = math.exp(min(nats / num_words, 700.0))
    return units


class TextDataset(TokenDataset):
    """Contiguous windows of ``length`` tokens that do not overlap; the last window of a split is
    padded.

    Each window is modelled without the text before it. ``ids``: Int64[N] for each split.
    ``source``: name of the text in log and metrics. ``num_tokens``: N by split. ``random_length``:
    probability that a training step cuts a row to its first n tokens, n uniform in 1..size (1 % in
    LLaDA, arXiv 2502.09992); needs PAD. Held-out rows are never cut.
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
        random_length: float = 0,
    ) -> None:
        self.vocabulary, self.layout, self.source = vocabulary, layout, source
        self.random_length = random_length
        self.splits = {name: self._windows(ids[name]) for name in SPLITS}
        self.whole = self.splits  # kept by a copy with fewer samples
        self.num_tokens = {name: len(ids[name]) for name in SPLITS}

    def _windows(self, ids: np.ndarray) -> Examples:
        """Cut ids Int64[N] into windows x0 Int64[M, L], M = ceil(N / L)."""
        length, pad_id = self.layout.length, self.vocabulary.pad_id
        assert pad_id is not None
        num = math.ceil(len(ids) / length) * length
        x0 = torch.full((num,), pad_id)
        x0[: len(ids)] = torch.from_numpy(ids)
        real = torch.arange(num) < len(ids)
        return Examples(*(rearrange(x, "(m l) -> m l", l=length) for x in (x0, real)))

    def training_batch(self, examples: Examples, generator: torch.Generator) -> Batch:
        batch, pad_id = super().training_batch(examples, generator), self.layout.pad_id
        if not self.random_length or pad_id is None:
            return batch
        # the first n of the tokens of some rows, then PAD
        cut, share = torch.rand(2, len(batch), generator=generator)
        sizes = batch.real.sum(dim=1)
        kept = torch.where(cut < self.random_length, (share * sizes).long() + 1, sizes)
        real = self.real_positions(kept.minimum(sizes))
        return replace(batch, x0=batch.x0.where(real, pad_id), real=real)

    @cached_property
    def _text_sizes(self) -> dict[str, tuple[int, int]]:
        return {}

    def text_sizes(self, split: str) -> tuple[int, int]:
        """Numbers of characters and UTF-8 bytes in the text of a split."""
        if split not in self._text_sizes:
            sizes = [self.vocabulary.sizes(ids) for ids in self.pieces(split)]
            self._text_sizes[split] = sum(n for n, _ in sizes), sum(n for _, n in sizes)
        return self._text_sizes[split]

    @cached_property
    def _num_words(self) -> dict[str, int]:
        return {}

    def num_words(self, split: str) -> int:
        """Number of words in the text of a split."""
        if split not in self._num_words:
            self._num_words[split] = count_words(self.vocabulary, self.pieces(split))
        return self._num_words[split]

    def pieces(self, split: str) -> Iterator[np.ndarray]:
        """Yield all ids of a split in order, Int[n]."""
        parts = (each.split(_WINDOWS) for each in (self.whole[split].x0, self.whole[split].real))
        for x0, real in zip(*parts, strict=True):
            yield x0[real].numpy()

    def further_bounds(self, split: str, bound: BoundEstimate) -> dict[str, float]:
        """Convert the bound to bits per character and per byte, and perplexity per word
        (``units_of``).

            bits per token = nats per token / ln 2
            bits per character = bits per token * tokens / characters

        Ids without a tokenizer have only bits per token.
        """
        tokens = self.num_tokens[split]
        bits = bound.per_token / math.log(2)
        # relative error of the bound, 0 for a bound of 0
        error, whole = bound.standard_error, bound.per_sample
        per_sample_error = error / whole if whole else 0.0
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
        """Fingerprint of the data and of the meaning of ids; changes if the characters change."""
        meaning = f"{super().fingerprint()} {self.vocabulary.meaning}"
        return hashlib.sha256(meaning.encode("utf-8")).hexdigest()[:16]

    def texts(self, split: str) -> list[str]:
        """Windows of a split as text."""
        return self.vocabulary.decode(self.splits[split].x0)

    def summary(self) -> str:
        what = self.vocabulary.unit
        parts = ", ".join(f"{self.num_tokens[name]:,} {name}" for name in SPLITS)
        return (
            f"{self.source}: {parts} {what} in windows of {self.layout.length}; "
            f"{int(self.layout.num_legal[0])} distinct ids"
        )


@dataclass(frozen=True)
class Packing:
    """Arrangement of ids in rows of ``length`` tokens.

    ``pack``: ``wrap``, consecutive blocks; ``wrap_bos_eos``, blocks of L - 2 between the tokens
    ``bos_id`` and ``eos_id`` (Sahoo et al., arXiv 2406.07524); ``pad``, one document in each padded
    row, a long document in several rows. ``document_mask``: rows have ``document_idxs``, the number
    of each token's document; a document ends at ``eos_id``.

    Raises ``ValueError`` for an unknown ``pack``, a missing token, and a ``length`` without room
    for text.
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
        # tokens that the tokenizer has to have
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
        """Number of ids of text in a full row."""
        return self.length - 2 * (self.pack == "wrap_bos_eos")

    def span(self, files: TokenFiles, start: int, stop: int) -> ExamplesOnDisk:
        """Return the rows of the ids ``start`` to ``stop - 1`` of ``files``.

        Unless rows are padded, ids at the end that do not fill a row are left out.
        """
        if self.pack == "pad":
            # each row from a single document
            ends = files.document_ends(self.eos_id)
            ends = ends[(ends > start) & (ends <= stop)]
            begins = np.concatenate([[start], ends])[:-1]
            # numbers of rows, then the document and place of each row
            num_rows = -(-(ends - begins) // self.length)
            document = np.repeat(np.arange(len(ends)), num_rows)
            place = np.arange(len(document)) - (np.cumsum(num_rows) - num_rows)[document]
            firsts = begins[document] + place * self.length
            lengths = np.minimum(ends[document] - firsts, self.length)
            starts, sizes = (torch.from_numpy(x.astype(np.int64)) for x in (firsts, lengths))
        else:
            num = max(0, (stop - start) // self.content)
            starts = None
            sizes = torch.tensor(self.length).expand(num)

        def read(rows: Tensor) -> Examples:
            first = start + rows * self.content if starts is None else starts[rows]
            return self._read(files, first.tolist(), sizes[rows])

        return ExamplesOnDisk(read, sizes)

    def _read(self, files: TokenFiles, starts: list[int], sizes: Tensor) -> Examples:
        """Read the rows with these ``starts`` and ``sizes``."""
        content = sizes.clamp(max=self.content)
        contents = [files.read(s, s + n) for s, n in zip(starts, content.tolist(), strict=True)]
        for start, ids in zip(starts, contents, strict=True):
            check_ids(ids, self.vocabulary, files.where, start)
        # padded, or framed by BOS and EOS
        real = torch.arange(self.length) < sizes.unsqueeze(1)  # (B, L)
        x0 = torch.full(real.shape, 0 if self.vocabulary.pad_id is None else self.vocabulary.pad_id)
        framed = int(self.pack == "wrap_bos_eos")
        for row, ids in zip(x0, contents, strict=True):
            row[framed : framed + len(ids)] = torch.from_numpy(ids)
        if framed:
            assert self.bos_id is not None
            assert self.eos_id is not None
            x0[:, 0], x0[:, -1] = self.bos_id, self.eos_id
        conditions = {}
        if self.document_mask:
            assert self.eos_id is not None
            ends = (x0 == self.eos_id).long()
            conditions["document_idxs"] = ends.cumsum(dim=1) - ends  # (B, L)
        return Examples(x0, real, conditions=conditions)

    def unused(self, start: int, stop: int) -> int:
        """Number of ids at the end of a span that are in no row."""
        return 0 if self.pack == "pad" else (stop - start) % self.content


class StoredTextDataset(TextDataset):
    """Rows that ``packing`` makes of each split's span of ids, read when they are needed.

    ``source``: name of the text in log and metrics. Raises ``ValueError`` for an id outside the
    vocabulary in some pieces of each file; all other ids are checked when they are read.
    """

    per_split = ("splits", "num_tokens", "spans")

    def __init__(
        self,
        spans: Mapping[str, Span],
        packing: Packing,
        *,
        layout: TokenLayout,
        source: str,
        random_length: float = 0,
    ) -> None:
        self.vocabulary, self.layout, self.source = packing.vocabulary, layout, source
        self.packing, self.spans, self.random_length = packing, dict(spans), random_length
        # check each file once, even if it has several spans
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
        if sizes.stride(0) == 0:  # all of one size
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
        """Fingerprint of file digests, spans, and the meaning of rows and ids."""
        packing = self.packing
        spans = [(files.digest, *span) for files, *span in map(self.spans.__getitem__, SPLITS)]
        rows = (packing.pack, packing.length, packing.bos_id, packing.eos_id, packing.document_mask)
        meaning = repr((spans, rows, self._meaning(), self.vocabulary.meaning))
        return hashlib.sha256(meaning.encode()).hexdigest()[:16]

    def texts(self, split: str) -> list[str]:
        """Rows of a split as text; of more than 2,000 rows, 2,000 at equal distances."""
        examples = self.splits[split]
        num = min(len(examples), _MAX_TEXTS)
        rows = torch.arange(num) * len(examples) // max(num, 1)
        return self.vocabulary.decode(examples[rows].x0)

    def pieces(self, split: str) -> Iterator[np.ndarray]:
        files, start, stop = self.spans[split]
        stop -= self.packing.unused(start, stop)
        parts = range(start, stop, _READ)
        for k in progress.track(parts, "counting bytes and words of the text", "million tokens"):
            yield files.read(k, min(k + _READ, stop))

    def summary(self) -> str:
        counts, left = [], 0
        for split in SPLITS:
            left += self.packing.unused(*self.spans[split][1:])
            counts.append(f"{len(self.splits[split]):,} {split}")
        kind = {"pad": "a document each", "wrap_bos_eos": "between BOS and EOS"}
        how = kind.get(self.packing.pack, "side by side")
        more = f"; {left:,} tokens at the ends of splits fill no row and are left out" * (left > 0)
        return (
            f"{self.source}: rows of {self.layout.length} {self.vocabulary.unit}, {how}: "
            f"{', '.join(counts)}; {sum(self.num_tokens.values()):,} tokens, "
            f"{int(self.layout.num_legal[0]):,} ids{more}"
        )
