"""Rows of L tokens made of a stretch of ids: whole blocks, framed blocks, or a document each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from discrete_diffusion.config.naming import check_name
from discrete_diffusion.data.base import Examples
from discrete_diffusion.data.examples_on_disk import ExamplesOnDisk
from discrete_diffusion.domains.text.ids import check_ids
from discrete_diffusion.domains.text.token_files import TokenFiles
from discrete_diffusion.domains.text.vocabulary import Vocabulary

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
