"""What a store of arrays promises, and names and numbers however it stores them."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray


class StoredArrays(Protocol):
    """Arrays by key in a file or folder that is open.

    ``source``: its path, for errors. ``keys``: of all arrays, those of a group as ``group/name``.
    """

    @property
    def source(self) -> str: ...

    @property
    def keys(self) -> frozenset[str]: ...

    def read(self, key: str) -> NDArray:
        """The array of a key. Raises ``ValueError`` naming ``source`` and ``key`` if it is damaged
        or needs code of its own to be read."""
        ...


def names_of(array: NDArray, key: str, source: str) -> tuple[str, ...]:
    """A one-dimensional array of text or UTF-8 bytes as strings.

    Raises ``ValueError`` naming ``source`` and ``key`` if it is something else.
    """
    if array.ndim == 1 and array.dtype.kind in "UT":
        return tuple(str(name) for name in array)
    if array.ndim == 1 and array.dtype.kind in "SO":
        values = array.tolist()
        if all(isinstance(value, bytes | str) for value in values):
            try:
                return tuple(v if isinstance(v, str) else v.decode("utf-8") for v in values)
            except UnicodeDecodeError as error:
                raise ValueError(
                    f"{source}: {key} is not UTF-8: {error}; write it as text"
                ) from error
    raise ValueError(
        f"{source}: {key} is {array.dtype} of shape {array.shape}; expected one name per row, as "
        "text"
    )


def numbers_of(array: NDArray, key: str, source: str) -> NDArray[np.float32]:
    """An array of numbers as Float32; ``ValueError`` naming ``source`` and ``key`` otherwise."""
    if array.dtype.kind not in "fiub":
        raise ValueError(
            f"{source}: {key} is {array.dtype}; expected numbers: save it as "
            "array.astype(numpy.float32)"
        )
    with np.errstate(over="ignore"):  # what float32 cannot hold becomes infinite, and is refused
        return np.ascontiguousarray(array, dtype=np.float32)
