"""Token ids in files of any size, read in parts, and what ``data tokenize`` writes beside them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from discrete_diffusion.domains.text.token_formats import ENDINGS, EXPECTED, TokenFile, open_tokens

META, TOKENIZER = "meta.json", "tokenizer.json"
"""Files of a folder that ``data tokenize`` has written."""

_MOST_UINT16, _MOST_IDS = 1 << 16, 1 << 24
_SAMPLED, _PIECE = 256, 1 << 14
"""So many pieces of so many ids are checked first, and identify files without a digest."""

_SCANNED = 1 << 28
"""Bytes up to which a file is read whole for its largest id."""


@dataclass(frozen=True)
class TokensInMemory:
    """Ids Int64[N] in the place of a file; ``places``: behind documents."""

    ids: np.ndarray
    places: np.ndarray

    @property
    def ends(self) -> np.ndarray:
        return self.places

    @property
    def num(self) -> int:
        return len(self.ids)

    @property
    def num_bytes(self) -> int:
        return 0  # to be read

    def read(self, start: int, stop: int) -> np.ndarray:
        return self.ids[start:stop]


class TokenFiles:
    """N ids in files one behind the other.

    ``where``: what they are called in errors. ``meta``: what ``data tokenize`` wrote beside them,
    empty of files of others.
    """

    def __init__(
        self,
        files: Sequence[TokenFile | TokensInMemory],
        where: str,
        meta: Mapping[str, Any] | None = None,
    ) -> None:
        self.files, self.where, self.meta = files, where, meta or {}
        self._starts = np.cumsum([0, *(file.num for file in files)])

    @classmethod
    def of(cls, path: str | Path, vocab_size: int | None = None) -> TokenFiles:
        """The ids at ``path``: a file, or a folder of them in order of their names.

        ``vocab_size``: decides between uint16 and uint32 in a ``.bin`` that nothing else tells of.
        Raises ``FileNotFoundError`` or ``ValueError`` naming path and remedy.
        """
        path = Path(path)
        if not path.exists():
            raise FileNotFoundError(f"no file or folder of ids at {path.absolute()}")
        if path.is_file():
            return cls([open_tokens(path, kind_of_ids(vocab_size))], str(path))
        meta = read_meta(path)
        found = [path / each["file"] for each in meta["shards"]] if meta else _shards(path)
        kind = np.dtype(meta["dtype"]) if meta else kind_of_ids(vocab_size)
        files = [open_tokens(each, kind, is_known=meta is not None) for each in found]
        if meta and [file.num for file in files] != [each["tokens"] for each in meta["shards"]]:
            raise ValueError(
                f"{path}: its files have other lengths than {META} says; tokenize the text again"
            )
        return cls(files, str(path), meta)

    def __len__(self) -> int:
        return int(self._starts[-1])

    def read(self, start: int, stop: int) -> np.ndarray:
        """Int64[stop - start]: the ids from ``start`` to ``stop - 1``."""
        first = int(np.searchsorted(self._starts, start, "right")) - 1
        found = []
        while start < stop:
            begin = int(self._starts[first])
            end = min(stop, int(self._starts[first + 1]))
            found.append(self.files[first].read(start - begin, end - begin))
            start, first = end, first + 1
        return np.concatenate(found) if found else np.zeros(0, np.int64)

    def largest(self) -> int:
        """The largest id. Raises ``ValueError`` for files too large to be looked through, and for
        ids below 0."""
        if self._num_bytes > _SCANNED:
            raise ValueError(
                f"{self.where} is large, and its ids are not looked through; give data.vocab_size, "
                "the number of ids with MASK, or data.tokenizer"
            )
        ids = self.read(0, len(self))
        if ids[least := int(ids.argmin())] < 0:
            raise ValueError(f"{self.where}: id {ids[least]} at place {least}; expected 0 or more")
        if ids[most := int(ids.argmax())] >= _MOST_IDS:
            raise ValueError(
                f"{self.where}: id {ids[most]:,} at place {most:,}, and a table of so many ids is "
                f"more than memory holds; expected ids below {_MOST_IDS:,}"
            )
        return int(ids[most])

    def document_ends(self, eos_id: int | None) -> np.ndarray:
        """Int64[D], for each document the place behind its last id: as ``data tokenize`` wrote
        them, else behind every ``eos_id``. Raises ``ValueError`` where nothing tells."""
        if self.meta or all(file.places is not None for file in self.files):
            of_files = zip(self.files, self._starts, strict=False)
            return np.concatenate([file.ends + start for file, start in of_files])
        if eos_id is None or self._num_bytes > _SCANNED:
            raise ValueError(
                f"nothing says where the documents of {self.where} end; give data.eos_id, the "
                "token behind each, for files up to 268 MB, or make them by data tokenize"
            )
        ends: np.ndarray = np.flatnonzero(self.read(0, len(self)) == eos_id) + 1
        return ends if len(ends) and ends[-1] == len(self) else np.append(ends, len(self))

    def pieces(self) -> Iterator[tuple[int, np.ndarray]]:
        """Pieces at equal distances, each with the place where it begins; of few ids all."""
        starts = np.linspace(0, max(len(self) - _PIECE, 0), _SAMPLED).astype(np.int64)
        for start in np.unique(starts).tolist():
            yield start, self.read(start, min(start + _PIECE, len(self)))

    @property
    def _num_bytes(self) -> int:
        return sum(file.num_bytes for file in self.files)

    @cached_property
    def digest(self) -> str:
        """What identifies the ids: the digest of ``data tokenize``, else one of sizes and of
        pieces at equal distances."""
        if "digest" in self.meta:
            return str(self.meta["digest"])
        digest = hashlib.sha256(repr([file.num for file in self.files]).encode())
        for _, ids in self.pieces():
            digest.update(ids.tobytes())
        return digest.hexdigest()[:16]


def read_meta(folder: Path) -> dict[str, Any] | None:
    """What ``data tokenize`` wrote about a folder; None if it is none of its.

    Raises ``ValueError`` for a file that is damaged, or a folder that is not finished.
    """
    path = folder / META
    if not path.is_file():
        if list(folder.glob(f"{META}*")):
            raise ValueError(f"{folder} is not finished; run data tokenize again, which goes on")
        return None
    try:
        meta: dict[str, Any] = json.loads(path.read_text("utf-8"))
        if meta["format"] != 1:
            raise ValueError(f"it has format {meta['format']}, and this version reads 1")
        if lost := [key for key in ("shards", "dtype", "tokens") if key not in meta]:
            raise ValueError(f"it has no {lost[0]}")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"{path} is no {META} of data tokenize: {error}") from error
    return meta


def split_files(folder: str | Path) -> dict[str, Path]:
    """``train.bin``, ``val.bin`` and ``test.bin`` of a folder, as nanoGPT writes them, by split;
    none of a file, or of another folder."""
    folder = Path(folder)
    found = {}
    for split, names in (
        ("train", ("train",)),
        ("val", ("val", "validation")),
        ("test", ("test",)),
    ):
        paths = [folder / f"{name}{ending}" for name in names for ending in ENDINGS]
        if path := next((each for each in paths if each.is_file()), None):
            found[split] = path
    return found if {"train", "val"} <= {*found} else {}


def _shards(folder: Path) -> list[Path]:
    found = sorted(
        each
        for each in folder.iterdir()
        if each.suffix in ENDINGS and not each.name.endswith(".documents.npy")
    )
    if not found:
        raise ValueError(f"{folder} holds no ids; expected {EXPECTED}")
    return found


def kind_of_ids(vocab_size: int | None) -> np.dtype:
    """Type of ids in ``.bin`` files: uint16 while V fits, which None does."""
    return np.dtype("<u2" if (vocab_size or 0) <= _MOST_UINT16 else "<u4")


def meaning_of(meaning: str) -> str:
    """Short for what the ids of a vocabulary mean."""
    return hashlib.sha256(meaning.encode()).hexdigest()[:16]
