"""Token ids in files of any size, read in parts: NumPy's ``.npy``, ``.bin`` as nanoGPT writes it,
and folders of ``data tokenize``."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from discrete_diffusion.data.files import UNREADABLE
from discrete_diffusion.domains.text.domain import LLMC
from discrete_diffusion.runtime.inputs import NPY, CompressedFileError, FileKind, Head, kind_of

logger = logging.getLogger(__name__)

META, TOKENIZER = "meta.json", "tokenizer.json"
"""Files of a folder that ``data tokenize`` has written."""

ENDINGS = (".npy", ".bin")

EXPECTED = (
    ".npy of whole numbers, .bin of uint16 (uint32 above 65,536 ids), or a folder of them; encode "
    "text first: discrete-diffusion data tokenize FILE... --tokenizer NAME --out FOLDER"
)

_MAX_UINT16, _MAX_ID = 1 << 16, 1 << 24
_NUM_PIECES, _PIECE = 256, 1 << 14
"""Number and length of pieces that are checked first, and that identify files without a digest."""

_MAX_SCANNED = 1 << 28
"""Most bytes of files that are read whole for their largest id or for ends of documents."""

_NUM_PROBES, _PROBE = 64, 1 << 12
"""Number and length of pieces that are inspected for the width of ids."""

_FEW_PAIRS, _MANY_PAIRS, _MAX_HIGH, _MIN_LOW = 8, 64, 16, 4096
"""Ids are wide if at least ``_FEW_PAIRS`` have upper halves of 0, or at least ``_MANY_PAIRS`` have
upper halves below ``_MAX_HIGH`` and a lower half is at least ``_MIN_LOW``."""

_MIN_TEXT = 16


class TokenFiles:
    """N ids in consecutive files. ``where``: their name in errors. ``meta``: the meta data of
    ``data tokenize``, empty for other files."""

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
        """Ids at ``path``: a file, or a folder of files in the order of their names.

        ``vocab_size``: decides between uint16 and uint32 in a plain ``.bin``. Raises
        ``FileNotFoundError`` or ``ValueError`` naming path and remedy.
        """
        # one file
        path = Path(path)
        if not path.exists():
            raise FileNotFoundError(f"no file or folder of ids at {path.absolute()}")
        if path.is_file():
            return cls([open_tokens(path, dtype_of_ids(vocab_size))], str(path))
        # a folder, with or without meta data
        meta = read_meta(path)
        paths = (
            [path / each["file"] for each in meta["shards"]]
            if meta
            else sorted(
                each
                for each in path.iterdir()
                if each.suffix in ENDINGS and not each.name.endswith(".documents.npy")
            )
        )
        if not paths and not meta:
            raise ValueError(f"{path} holds no ids; expected {EXPECTED}")
        kind = np.dtype(meta["dtype"]) if meta else dtype_of_ids(vocab_size)
        files = [open_tokens(each, kind, is_known=meta is not None) for each in paths]
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
        parts = [np.zeros(0, np.int64)]
        while start < stop:
            begin = int(self._starts[first])
            end = min(stop, int(self._starts[first + 1]))
            parts.append(self.files[first].read(start - begin, end - begin))
            start, first = end, first + 1
        return np.concatenate(parts)

    def largest(self) -> int:
        """The largest id. Raises ``ValueError`` for files that are too large to scan, and for ids
        below 0."""
        # only small files are scanned
        if self._num_bytes > _MAX_SCANNED:
            raise ValueError(
                f"{self.where} is too large to scan for its largest id; give data.vocab_size, the "
                "number of ids with MASK, or data.tokenizer"
            )
        ids = self.read(0, len(self))
        # ids within the range of a table
        if ids[least := int(ids.argmin())] < 0:
            raise ValueError(f"{self.where}: id {ids[least]} at place {least}; expected 0 or more")
        if ids[most := int(ids.argmax())] >= _MAX_ID:
            raise ValueError(
                f"{self.where}: id {ids[most]:,} at place {most:,}, and a table of so many ids is "
                f"more than memory holds; expected ids below {_MAX_ID:,}"
            )
        return int(ids[most])

    def document_ends(self, eos_id: int | None) -> np.ndarray:
        """Int64[D], the position after each document, as ``data tokenize`` knows it, else after
        every ``eos_id``. Raises ``ValueError`` if neither is known."""
        # ends that are stored
        if self.meta or all(isinstance(file, TokensInMemory) for file in self.files):
            of_files = zip(self.files, self._starts, strict=False)
            return np.concatenate([file.ends + start for file, start in of_files])
        # ends by a token
        if eos_id is None or self._num_bytes > _MAX_SCANNED:
            raise ValueError(
                f"nothing says where the documents of {self.where} end; give data.eos_id, the "
                "token behind each, for files up to 268 MB, or make them by data tokenize"
            )
        ends: np.ndarray = np.flatnonzero(self.read(0, len(self)) == eos_id) + 1
        return ends if len(ends) and ends[-1] == len(self) else np.append(ends, len(self))

    def pieces(self) -> Iterator[tuple[int, np.ndarray]]:
        """Yield the start and the ids of pieces at equal distances; pieces of small files cover all
        ids."""
        starts = np.linspace(0, max(len(self) - _PIECE, 0), _NUM_PIECES).astype(np.int64)
        for start in np.unique(starts).tolist():
            yield start, self.read(start, min(start + _PIECE, len(self)))

    @property
    def _num_bytes(self) -> int:
        return sum(file.num_bytes for file in self.files)

    @cached_property
    def digest(self) -> str:
        """Digest of the ids, taken from ``data tokenize``, else computed from sizes and
        ``pieces``."""
        if "digest" in self.meta:
            return str(self.meta["digest"])
        digest = hashlib.sha256(repr([file.num for file in self.files]).encode())
        for _, ids in self.pieces():
            digest.update(ids.tobytes())
        return digest.hexdigest()[:16]


@dataclass(frozen=True)
class TokensInMemory:
    """Ids Int64[N] in memory instead of in a file; ``ends``: the position after each document."""

    ids: np.ndarray
    ends: np.ndarray

    num_bytes = 0  # on disk

    @property
    def num(self) -> int:
        return len(self.ids)

    def read(self, start: int, stop: int) -> np.ndarray:
        return self.ids[start:stop]


@dataclass(frozen=True)
class TokenFile:
    """``num`` ids of type ``kind`` from byte ``offset`` of a file."""

    path: Path
    kind: np.dtype
    offset: int
    num: int

    @property
    def num_bytes(self) -> int:
        return self.num * self.kind.itemsize

    @property
    def ends(self) -> np.ndarray:
        """Int64[D], the position after each document, as ``data tokenize`` wrote it."""
        ends: np.ndarray = np.load(documents_file(self.path))
        return ends

    def read(self, start: int, stop: int) -> np.ndarray:
        """Read the ids from ``start`` to ``stop - 1``, Int64[stop - start]."""
        at = self.offset + start * self.kind.itemsize
        return np.fromfile(self.path, self.kind, stop - start, offset=at).astype(np.int64)


def documents_file(path: Path) -> Path:
    """Path of the file with the ends of the documents of a shard."""
    return path.with_suffix(".documents.npy")


def read_meta(folder: Path) -> dict[str, Any] | None:
    """Read the meta data that ``data tokenize`` wrote about a folder; None for another folder.

    Raises ``ValueError`` for a file that is damaged, or a folder that is not finished.
    """
    path = folder / META
    # an unfinished folder is not another folder
    if not path.is_file():
        if list(folder.glob(f"{META}*")):
            raise ValueError(f"{folder} is not finished; run data tokenize again, which goes on")
        return None
    # the format of this version
    try:
        meta: dict[str, Any] = json.loads(path.read_text("utf-8"))
        if meta["format"] != 1:
            raise ValueError(f"it has format {meta['format']}, and this version reads 1")
        if lost := [key for key in ("shards", "dtype", "token_unit") if key not in meta]:
            raise ValueError(f"it has no {lost[0]}")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"{path} is not a {META} of data tokenize: {error}") from error
    return meta


def split_files(folder: str | Path) -> dict[str, Path]:
    """``train.bin``, ``val.bin`` and ``test.bin`` of a folder by split, as nanoGPT writes them;
    empty unless there are files for ``train`` and ``val``."""
    paths = {}
    # names that nanoGPT and others use
    for split, names in (
        ("train", ("train",)),
        ("val", ("val", "validation")),
        ("test", ("test",)),
    ):
        possible = [Path(folder) / f"{name}{ending}" for name in names for ending in ENDINGS]
        if path := next((each for each in possible if each.is_file()), None):
            paths[split] = path
    return paths if {"train", "val"} <= {*paths} else {}


def dtype_of_ids(vocab_size: int | None) -> np.dtype:
    """Type of ids in ``.bin`` files: uint16 if V fits or is not known, else uint32."""
    return np.dtype("<u2" if (vocab_size or 0) <= _MAX_UINT16 else "<u4")


def meaning_digest(meaning: str) -> str:
    """Digest of the ``meaning`` of a vocabulary."""
    return hashlib.sha256(meaning.encode()).hexdigest()[:16]


def open_tokens(path: Path, kind: np.dtype, *, is_known: bool = False) -> TokenFile:
    """Open a file of ids. ``kind``: type of the ids in a plain ``.bin``; unless it ``is_known``,
    wider types are recognised by the numbers.

    Raises ``FileNotFoundError`` or ``ValueError`` naming path and remedy.
    """
    # the kind by content or name
    if not path.is_file():
        raise FileNotFoundError(f"no file of ids at {path.absolute()}")
    try:
        of_file = kind_of(path, (NPY, LLMC, _PLAIN_IDS))
    except CompressedFileError:  # ids may begin as gzip does
        of_file = _PLAIN_IDS if path.suffix == ".bin" else None
    if of_file is NPY:
        # mapped, so that only the header is read
        try:
            array = np.load(path, mmap_mode="r", allow_pickle=False)
        except UNREADABLE as error:
            raise ValueError(f"{path} is not a .npy of numbers: {error}") from error
        # one row of whole numbers
        is_row = isinstance(array, np.memmap) and array.ndim == 1
        if not is_row or array.dtype.kind not in "iu" or not array.size:
            raise ValueError(
                f"{path} holds {array.dtype}{[*array.shape]}; expected the ids of a text, Int[N]"
            )
        return TokenFile(path, array.dtype, int(array.offset), int(array.size))
    if of_file is not _PLAIN_IDS:
        what = "text" if of_file is None else of_file.sentence()
        raise ValueError(f"{path} is {what}; expected {EXPECTED}")
    # plain ids
    if (index := path.with_suffix(".idx")).is_file() and not is_known:
        raise ValueError(
            f"{path} are the ids of the index {index.name}, which is not read; write them as .npy, "
            "or move the index elsewhere"
        )
    size = path.stat().st_size
    if not size or size % kind.itemsize:
        raise ValueError(f"{path} has {size:,} bytes, which are not ids of type {kind}")
    if not is_known:
        kind = _inferred_type(path, kind)
    return TokenFile(path, kind, 0, size // kind.itemsize)


def _is_plain(head: Head) -> bool:
    """True for a ``.bin`` that is not text."""
    if head.path.suffix != ".bin":
        return False
    try:
        text = head.content.decode("utf-8")
    except UnicodeDecodeError:
        return True
    return len(text) < _MIN_TEXT or not all(c.isprintable() or c in "\t\r\n" for c in text)


_PLAIN_IDS = FileKind("token ids", _is_plain, is_text=False)


def _inferred_type(path: Path, kind: np.dtype) -> np.dtype:
    """Return ``kind``, or a type of two or four times its width.

    The upper parts of all inspected numbers have to be 0 or, for ids of four bytes, small.
    """
    num = path.stat().st_size // kind.itemsize
    file = TokenFile(path, kind, 0, num)
    # probes at equal distances
    starts = np.unique(np.linspace(0, max(num - _PROBE, 0), _NUM_PROBES).astype(np.int64) // 4 * 4)
    ids = np.concatenate([file.read(k, min(k + _PROBE, num) // 4 * 4 or num) for k in starts])
    # the widest type first
    for factor in (4, 2):
        wide = np.dtype(f"<u{kind.itemsize * factor}") if kind.itemsize * factor <= 8 else None
        if wide is None or num % factor or len(ids) % factor:
            continue
        # the lower part of each id, and its upper parts
        low, *high = ids.reshape(-1, factor).T
        largest = max(int(each.max(initial=0)) for each in high)
        is_zero = largest == 0 and len(low) >= _FEW_PAIRS and low.any()
        is_small = largest < _MAX_HIGH and len(low) >= _MANY_PAIRS and low.max() >= _MIN_LOW
        if is_zero or (is_small and factor == 2 and kind.itemsize == 2):
            logger.info(
                "%s: read as ids of %d bytes: in every number inspected, the upper part of each is "
                "below %d",
                *(path, wide.itemsize, largest + 1),
            )
            return wide
    return kind
