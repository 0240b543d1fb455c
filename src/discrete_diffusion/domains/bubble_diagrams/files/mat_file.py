"""MATLAB files of version 5 to 7.2: the fields of one struct array.

Read here rather than by ``scipy.io.loadmat``, because that ends the whole process (segmentation
fault) on some damaged files. Only what plans need is read: numbers and text, by field name; no
cells, objects or code. Source: MathWorks, "MAT-File Format", R2023b, level 5.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from math import prod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Value = NDArray[np.generic] | str | None
"""Numbers in MATLAB's shape, text, or None for a value of any other kind."""

_HEADER_SIZE = 128
_HDF5_SIGNATURE = b"\x89HDF\r\n\x1a\n"
_MATRIX, _COMPRESSED = 14, 15
_STRUCT, _CHAR = 2, 4
_NUMBERS = range(6, 16)
"""Classes of a matrix."""

_COMPLEX = 0x800
_STORED = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8"}
_STORED |= {13: "u8"}
"""Types that numbers are stored as, often smaller than the class of their matrix."""

_TEXT = {1: "latin-1", 2: "latin-1", 4: "utf-16", 16: "utf-8", 17: "utf-16"}
_NAME_BYTES = 4096
"""Enough of a variable to tell its name."""


class MatFileError(ValueError):
    """A file that is damaged, of another version, or holds no such array."""


class _Element(NamedTuple):
    kind: int
    start: int
    stop: int
    next: int


class _Header(NamedTuple):
    """What a matrix says of itself; its contents start at ``position``."""

    matrix_class: int
    is_complex: bool
    shape: tuple[int, ...]
    name: str
    position: int


def is_mat_file(head: bytes) -> bool:
    """Whether a file that starts with these bytes was written by MATLAB or in its format."""
    return head.startswith(b"MATLAB") or head[_HEADER_SIZE - 4 : _HEADER_SIZE] in (
        b"\x00\x01IM",
        b"\x01\x00MI",
    )


def read_struct_array(content: bytes, name: str, fields: Sequence[str]) -> dict[str, list[Value]]:
    """Field -> its value in every record of the struct array ``name``, in MATLAB's order.

    ``content``: the file. A field that the array lacks has no key. Raises ``MatFileError``.
    """
    if _HDF5_SIGNATURE in (content[:8], content[512:520]) or content.startswith(b"MATLAB 7.3"):
        raise MatFileError(
            "a MATLAB file of version 7.3, which is not read; in MATLAB, load it and save it "
            f"again with save('{name}.mat', '{name}', '-v7')"
        )
    order = {b"IM": "<", b"MI": ">"}.get(content[126:_HEADER_SIZE])
    if order is None:
        raise MatFileError("not a MATLAB file of version 5 to 7.2, or cut short")
    found: list[bytes] = []
    names: list[str] = []
    reader = _Reader(content, order)
    position = _HEADER_SIZE
    while position < len(content):
        element = reader.element(position, len(content))
        stored = content[element.start : element.stop]
        if element.kind == _COMPRESSED:
            position = element.stop
            variable = _unpacked(stored, _NAME_BYTES)
        else:
            position = element.next
            variable = content[element.start - 8 : element.stop]
        names.append(_Reader(variable, order).variable_name())
        if names[-1] == name:
            found.append(_unpacked(stored) if element.kind == _COMPRESSED else variable)
    if len(found) != 1:
        times = f"it holds '{name}' {len(found)} times" if found else f"it holds {names[:8]}"
        raise MatFileError(f"expected one variable '{name}'; {times}")
    return _Reader(found[0], order).struct_array(fields)


def _unpacked(packed: bytes, most: int = 0) -> bytes:
    """At most so many bytes of a compressed element, or all of it, its checksum verified."""
    try:
        return zlib.decompressobj().decompress(packed, most) if most else zlib.decompress(packed)
    except zlib.error as error:
        raise MatFileError(f"damaged, or cut short ({error})") from error


class _Reader:
    """Elements in a piece of a file: every size is checked before anything is made of it."""

    def __init__(self, data: bytes, order: str) -> None:
        self.data, self.order = data, order
        self._tag = struct.Struct(f"{order}II")
        self._plain_header = struct.Struct(f"{order}6I2i2I")

    def element(self, position: int, end: int) -> _Element:
        """The element at a position, which must end before ``end``."""
        if position + 8 > end:
            raise MatFileError("damaged, or cut short: an element ends too early")
        kind, size = self._tag.unpack_from(self.data, position)
        if kind >> 16:  # up to 4 bytes, kept in the tag itself
            kind, size = kind & 0xFFFF, kind >> 16
            start, next_ = position + 4, position + 8
        else:
            start = position + 8
            next_ = start + size + -size % 8
        if start + size > end or (start == position + 4 and size > 4):
            raise MatFileError("damaged, or cut short: an element is longer than its place")
        return _Element(kind, start, start + size, next_)

    def variable_name(self) -> str:
        """The name of the variable that the data starts with; its end may be missing."""
        if len(self.data) < 8 or self._tag.unpack_from(self.data)[0] != _MATRIX:
            raise MatFileError("damaged: a variable is no matrix")
        return self._header(8, len(self.data)).name

    def struct_array(self, fields: Sequence[str]) -> dict[str, list[Value]]:
        """The fields of the struct array that the data is."""
        outer = self.element(0, len(self.data))
        header = self._header(outer.start, outer.stop)
        if header.matrix_class != _STRUCT:
            raise MatFileError(f"'{header.name}' is no struct array")
        length_at = self.element(header.position, outer.stop)
        length = self._integers(length_at, 5)
        names_at = self.element(length_at.next, outer.stop)
        if len(length) != 1 or length[0] < 1 or (names_at.stop - names_at.start) % length[0]:
            raise MatFileError("damaged: the field names of the struct array")
        names = [
            self._text(self.data[k : k + length[0]].split(b"\0")[0], "latin-1")
            for k in range(names_at.start, names_at.stop, length[0])
        ]
        if not names or len(set(names)) < len(names):
            raise MatFileError(f"the struct array '{header.name}' has no fields, or one twice")
        return self._columns(names, prod(header.shape), set(fields), names_at.next, outer.stop)

    def _columns(
        self, names: list[str], num_records: int, wanted: set[str], position: int, end: int
    ) -> dict[str, list[Value]]:
        if num_records * len(names) * 8 > end - position:
            raise MatFileError("damaged, or cut short: there are fewer records than it says")
        columns: dict[str, list[Value]] = {name: [] for name in names if name in wanted}
        for _ in range(num_records):
            for name in names:
                element = self.element(position, end)
                if element.kind != _MATRIX:
                    raise MatFileError("damaged: a value of the struct array is no matrix")
                if name in columns:
                    columns[name].append(self._value(element))
                position = element.next
        return columns

    def _header(self, start: int, stop: int) -> _Header:
        if start + 40 <= stop:  # two sizes and no name, as all values of records have
            a, b, flags, _, c, d, rows, columns, e, f = self._plain_header.unpack_from(
                self.data, start
            )
            if (a, b, c, d, e, f) == (6, 8, 5, 8, 1, 0) and rows >= 0 and columns >= 0:
                return _Header(
                    flags & 0xFF, bool(flags & _COMPLEX), (rows, columns), "", start + 40
                )
        return self._full_header(start, stop)

    def _full_header(self, start: int, stop: int) -> _Header:
        flags = self.element(start, stop)
        shape = self.element(flags.next, stop)
        name = self.element(shape.next, stop)
        said = self._integers(flags, 6)
        sizes = self._integers(shape, 5)
        if len(said) != 2 or len(sizes) < 2 or min(sizes) < 0 or name.kind != 1:
            raise MatFileError("damaged: the header of a matrix")
        return _Header(
            matrix_class=said[0] & 0xFF,
            is_complex=bool(said[0] & _COMPLEX),
            shape=sizes,
            name=self._text(self.data[name.start : name.stop], "latin-1"),
            position=name.next,
        )

    def _integers(self, element: _Element, kind: int) -> tuple[int, ...]:
        size = element.stop - element.start
        if element.kind != kind or size % 4:
            raise MatFileError("damaged: the header of a matrix")
        code = "I" if kind == 6 else "i"
        return struct.unpack_from(f"{self.order}{size // 4}{code}", self.data, element.start)

    def _value(self, element: _Element) -> Value:
        if element.start == element.stop:  # how MATLAB writes a field that was never set
            return np.zeros((0, 0))
        header = self._header(element.start, element.stop)
        is_text = header.matrix_class == _CHAR
        if header.is_complex or not (is_text or header.matrix_class in _NUMBERS):
            return None
        if header.position >= element.stop and prod(header.shape) == 0:
            return "" if is_text else np.zeros(header.shape)
        stored = self.element(header.position, element.stop)
        if is_text:
            if stored.kind not in _TEXT:
                raise MatFileError("damaged: text of an unknown kind")
            codec = _TEXT[stored.kind]
            codec += {"<": "-le", ">": "-be"}[self.order] if codec == "utf-16" else ""
            return self._text(self.data[stored.start : stored.stop], codec)
        if stored.kind not in _STORED:
            raise MatFileError("damaged: numbers of an unknown kind")
        dtype = np.dtype(self.order + _STORED[stored.kind])
        if stored.stop - stored.start != prod(header.shape) * dtype.itemsize:
            raise MatFileError("damaged: a matrix has more or fewer numbers than it says")
        numbers = np.frombuffer(self.data, dtype, prod(header.shape), stored.start)
        return numbers.reshape(header.shape, order="F")

    @staticmethod
    def _text(text: bytes, codec: str) -> str:
        try:
            return text.decode(codec)
        except UnicodeDecodeError as error:
            raise MatFileError(f"damaged: text that is not {codec}") from error
