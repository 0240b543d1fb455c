"""One file of token ids: NumPy's ``.npy``, or ``.bin`` as nanoGPT, llm.c and Megatron write it."""

from __future__ import annotations

import logging
import struct
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from discrete_diffusion.data.files import UNREADABLE
from discrete_diffusion.domains.text.file_kinds import LLMC, LLMC_MAGICS, MEGATRON_MAGIC
from discrete_diffusion.runtime.inputs import NPY, CompressedFileError, FileKind, Head, kind_of

logger = logging.getLogger(__name__)

ENDINGS = (".npy", ".bin")

EXPECTED = (
    ".npy of whole numbers, .bin of uint16 (uint32 above 65,536 ids), .bin of llm.c or of Megatron "
    "with its .idx, or a folder of them; encode text first: discrete-diffusion data tokenize "
    "FILE... --tokenizer NAME --out FOLDER"
)

_LLMC_HEADER = 1024
_MEGATRON_TYPES = {1: "u1", 2: "i1", 3: "<i2", 4: "<i4", 5: "<i8", 8: "<u2"}
_MEGATRON_HEADER = struct.Struct("<QBQQ")
"""Version, type of ids, sequences, places of documents."""

_LOOKED_AT, _PIECE = 64, 1 << 12
"""So many pieces of so many numbers are looked at for the width of ids."""

_FEWEST, _ENOUGH, _MOST_HIGH, _LEAST_LOW = 8, 64, 16, 4096
"""Pairs of halves that tell the width if the second of each is 0; pairs that do if it is below
``_MOST_HIGH``, and a first one is at least ``_LEAST_LOW``."""

_LEAST_TEXT = 16


@dataclass(frozen=True)
class TokenFile:
    """``num`` ids of type ``kind`` from byte ``offset`` of a file. ``places``: Int64[D], places
    behind its documents where the format has them."""

    path: Path
    kind: np.dtype
    offset: int
    num: int
    places: np.ndarray | None = None

    @property
    def num_bytes(self) -> int:
        return self.num * self.kind.itemsize

    @property
    def ends(self) -> np.ndarray:
        """Int64[D], places behind documents, as the format or ``data tokenize`` has them."""
        if self.places is not None:
            return self.places
        found: np.ndarray = np.load(documents_of(self.path))
        return found

    def read(self, start: int, stop: int) -> np.ndarray:
        """Int64[stop - start]."""
        at = self.offset + start * self.kind.itemsize
        return np.fromfile(self.path, self.kind, stop - start, offset=at).astype(np.int64)


def documents_of(path: Path) -> Path:
    """Where the ends of the documents of a shard are."""
    return path.with_suffix(".documents.npy")


def open_tokens(path: Path, kind: np.dtype, *, is_known: bool = False) -> TokenFile:
    """The ids of a file. ``kind``: of a ``.bin`` that does not say its own; unless it ``is_known``,
    wider ids are recognised by their halves.

    Raises ``FileNotFoundError`` or ``ValueError`` naming path and remedy."""
    if not path.is_file():
        raise FileNotFoundError(f"no file of ids at {path.absolute()}")
    try:
        found = kind_of(path, (NPY, LLMC, _PLAIN_IDS))
    except CompressedFileError:  # ids may begin as gzip does
        found = _PLAIN_IDS if path.suffix == ".bin" else None
    if found is NPY:
        return _array(path)
    if found not in (LLMC, _PLAIN_IDS):
        what = "text" if found is None else found.sentence()
        raise ValueError(f"{path} is {what}; expected {EXPECTED}")
    index = path.with_suffix(".idx")
    if found is LLMC:
        return _of_llmc(path)
    if index.is_file() and not is_known:
        return _of_megatron(path, index)
    _check_size(path, kind)
    if not is_known:
        kind = _width(path, kind)
    return TokenFile(path, kind, 0, path.stat().st_size // kind.itemsize)


def _is_plain(head: Head) -> bool:
    """True of a ``.bin`` that is not text."""
    if head.path.suffix != ".bin":
        return False
    try:
        text = head.content.decode("utf-8")
    except UnicodeDecodeError:
        return True
    return len(text) < _LEAST_TEXT or not all(c.isprintable() or c in "\t\r\n" for c in text)


_PLAIN_IDS = FileKind("token ids", _is_plain, is_text=False)


def _array(path: Path) -> TokenFile:
    try:
        found = np.load(path, mmap_mode="r", allow_pickle=False)
    except UNREADABLE as error:
        raise ValueError(f"{path} is no .npy of numbers: {error}") from error
    is_row = isinstance(found, np.memmap) and found.ndim == 1
    if not is_row or found.dtype.kind not in "iu" or not found.size:
        raise ValueError(
            f"{path} holds {found.dtype}{[*found.shape]}; expected the ids of a text, Int[N]"
        )
    return TokenFile(path, found.dtype, int(found.offset), int(found.size))


def _of_llmc(path: Path) -> TokenFile:
    """Ids behind a header of 256 numbers, the third of which is how many there are."""
    header = np.fromfile(path, "<i4", 3)
    kind = np.dtype(LLMC_MAGICS[int(header[0])])
    num = int(header[2]) if len(header) == 3 else 0
    if num < 1 or path.stat().st_size != _LLMC_HEADER + num * kind.itemsize:
        raise ValueError(
            f"{path} has {path.stat().st_size:,} bytes, and its header, of llm.c, says {num:,} ids "
            f"of {kind.itemsize} bytes behind {_LLMC_HEADER:,}; copy it anew"
        )
    return TokenFile(path, kind, _LLMC_HEADER, num)


def _of_megatron(path: Path, index: Path) -> TokenFile:
    """Ids whose type and documents an index of Megatron tells."""
    content = index.read_bytes()
    begin = len(MEGATRON_MAGIC)
    head = content[begin : begin + _MEGATRON_HEADER.size]
    if not content.startswith(MEGATRON_MAGIC) or len(head) < _MEGATRON_HEADER.size:
        raise ValueError(f"{index} is no index of Megatron; move it elsewhere to read {path.name}")
    version, code, num, num_places = _MEGATRON_HEADER.unpack(head)
    begin += _MEGATRON_HEADER.size
    if (
        version != 1
        or code not in _MEGATRON_TYPES
        or len(content) < begin + 12 * num + (8 * num_places)
    ):
        raise ValueError(
            f"{index} is damaged: version {version}, type of ids {code}, {num:,} sequences, "
            f"{len(content):,} bytes; copy it anew, or move it elsewhere to read {path.name} alone"
        )
    kind = np.dtype(_MEGATRON_TYPES[code])
    sizes = np.frombuffer(content, "<i4", num, begin).astype(np.int64)
    places = np.frombuffer(content, "<i8", num_places, begin + 12 * num)
    if (
        sizes.sum() * kind.itemsize != path.stat().st_size
        or not len(places)
        or (places.min() < 0 or places.max() > num)
        or (sizes.min(initial=0) < 0 or (np.diff(places) < 0).any())
    ):
        raise ValueError(
            f"{index} says {sizes.sum():,} ids of {kind.itemsize} bytes in documents up to "
            f"sequence {places.max(initial=0):,} of {num:,}, and {path.name} has "
            f"{path.stat().st_size:,} bytes; they do not belong together"
        )
    ends = np.append(0, np.cumsum(sizes))[places[1:]]
    return TokenFile(path, kind, 0, int(sizes.sum()), ends)


def _check_size(path: Path, kind: np.dtype) -> None:
    size = path.stat().st_size
    if not size or size % kind.itemsize:
        raise ValueError(f"{path} has {size:,} bytes, which are no ids of type {kind}")


def _width(path: Path, kind: np.dtype) -> np.dtype:
    """Type of ids: ``kind``, or one twice or four times as wide if the upper parts are 0 in all
    that is looked at."""
    num = path.stat().st_size // kind.itemsize
    file = TokenFile(path, kind, 0, num)
    starts = np.unique(np.linspace(0, max(num - _PIECE, 0), _LOOKED_AT).astype(np.int64) // 4 * 4)
    ids = np.concatenate([file.read(k, min(k + _PIECE, num) // 4 * 4 or num) for k in starts])
    for factor in (4, 2):
        wide = np.dtype(f"<u{kind.itemsize * factor}") if kind.itemsize * factor <= 8 else None
        if wide is None or num % factor or len(ids) % factor:
            continue
        low, *high = ids.reshape(-1, factor).T
        largest = max(int(each.max(initial=0)) for each in high)
        is_zero = largest == 0 and len(low) >= _FEWEST and low.any()
        is_small = largest < _MOST_HIGH and len(low) >= _ENOUGH and low.max() >= _LEAST_LOW
        if is_zero or (is_small and factor == 2 and kind.itemsize == 2):
            logger.info(
                "%s: read as ids of %d bytes: in all that was looked at, the upper part of each is "
                "below %d",
                *(path, wide.itemsize, largest + 1),
            )
            return wide
    return kind
