"""Read and write named arrays in ``.npz`` files, and read zarr folders; nothing is unpickled."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib.npyio import NpzFile
from numpy.typing import NDArray

from discrete_diffusion.data import UNREADABLE, check_expansion, check_members
from discrete_diffusion.runtime import atomic_write, install_command

_HARMLESS = frozenset(
    {
        *("bytes", "vlen-utf8", "vlen-bytes", "transpose", "sharding_indexed", "shuffle", "delta"),
        *("blosc", "bz2", "gzip", "lz4", "lzma", "zlib", "zstd"),
        *("adler32", "crc32", "crc32c", "fletcher32"),
    }
)
"""Zarr codecs that only turn bytes into numbers and texts. Other installed codecs may run code, for
example by unpickling."""


@dataclass(frozen=True)
class StoredArrays:
    """Arrays of an open file or folder, or of Python objects. ``source``: path of the file or
    folder, or name of the objects, for errors. ``keys``: keys of all arrays; an array in a group
    has the key ``group/name``. ``read``: function that reads the array of a key; raises
    ``ValueError`` naming ``source`` and the key if the array is damaged or cannot be read without
    running code."""

    source: str
    keys: frozenset[str]
    read: Callable[[str], NDArray]


def require_array(store: StoredArrays, key: str, expected: str) -> NDArray:
    """Read the array of a key. Raises ``ValueError`` naming ``source``, ``key``, ``expected`` and
    the keys of the store if the array is missing."""
    if key not in store.keys:
        found = ", ".join(sorted(store.keys)) or "nothing"
        raise ValueError(f"{store.source} has no array '{key}'; expected {expected}; found {found}")
    return store.read(key)


def array_as_names(array: NDArray, key: str, source: str) -> tuple[str, ...]:
    """Convert a one-dimensional array of text or UTF-8 bytes to strings. Raises ``ValueError``
    naming ``source`` and ``key`` for other arrays."""
    if array.ndim == 1 and array.dtype.kind in "UTSO":
        try:
            names = [v.decode("utf-8") if isinstance(v, bytes) else v for v in array.tolist()]
        except UnicodeDecodeError as error:
            raise ValueError(f"{source}: {key} is not UTF-8: {error}; write it as text") from error
        if all(isinstance(name, str) for name in names):
            return tuple(names)
    raise ValueError(
        f"{source}: {key} is {array.dtype} of shape {array.shape}; expected one name per row, as "
        "text"
    )


def array_as_float32(array: NDArray, key: str, source: str) -> NDArray[np.float32]:
    """Convert an array of numbers to Float32. Raises ``ValueError`` naming ``source`` and ``key``
    for other arrays."""
    if array.dtype.kind not in "fiub":
        raise ValueError(
            f"{source}: {key} is {array.dtype}; expected numbers: save it as "
            "array.astype(numpy.float32)"
        )
    with np.errstate(over="ignore"):  # too large for float32 becomes infinite, and is refused
        return np.ascontiguousarray(array, dtype=np.float32)


@contextmanager
def open_npz(path: Path) -> Iterator[StoredArrays]:
    """Open the arrays of a ``.npz`` file. Raises ``ValueError`` for any other file."""
    with path.open("rb") as handle:  # numpy does not close what it cannot read
        try:
            file = np.load(handle, allow_pickle=False)
        except UNREADABLE as error:
            raise ValueError(
                f"{path} is not an .npz file, or damaged (was it copied in full?); numpy.savez "
                "writes one"
            ) from error
        # a single array, as numpy.save writes it, has no names
        if not isinstance(file, NpzFile):
            raise ValueError(f"{path} holds one array; expected an .npz file with several by name")

        def read(key: str) -> NDArray:
            try:
                return file[key]
            except UNREADABLE as error:
                if isinstance(error, ValueError) and "pickle" in str(error):
                    raise ValueError(
                        f"{path}: {key} holds Python objects, which are never loaded; save it as "
                        "numbers, or text as array.astype(str)"
                    ) from error
                raise ValueError(f"{path}: {key} is damaged: {error}; copy it anew") from error

        with file:
            check_members(file, str(path))
            yield StoredArrays(str(path), frozenset(file.files), read)


def write_npz(path: Path, arrays: Mapping[str, Any]) -> None:
    """Write named arrays as a compressed ``.npz`` file, which appears only when it is complete."""
    # an open file, as numpy would append .npz to a name
    with atomic_write(path) as unfinished, unfinished.open("wb") as file:
        np.savez_compressed(file, **arrays)


@contextmanager
def open_zarr(path: Path) -> Iterator[StoredArrays]:
    """Open the arrays of a zarr folder (format 2 or 3) and of its direct groups (the public layout
    of GET). Needs the extra ``regions``. Raises ``ValueError`` if zarr is not installed, or the
    folder is not a zarr group."""
    try:
        import zarr
    except ImportError as error:
        raise ValueError(
            f"{path} needs zarr, which is not installed: {install_command('regions')}"
        ) from error
    if not _is_zarr_group(path):
        raise ValueError(
            f"{path} is not a zarr group; expected a folder with .zgroup or zarr.json in it"
        )
    # arrays of the group, and of the groups in it
    keys = set()
    for child in path.iterdir():
        for folder in child.iterdir() if _is_zarr_group(child) else [child]:
            if _zarr_descriptions(folder) and not _is_zarr_group(folder):
                keys.add(folder.relative_to(path).as_posix())

    def read(key: str) -> NDArray:
        folder = path / key
        try:
            # nothing is decoded before codecs and sizes are checked
            for description in _zarr_descriptions(folder):
                _check_zarr_codecs(description)
            array = zarr.open_array(folder, mode="r")
            files = (file.stat().st_size for file in folder.rglob("*") if file.is_file())
            check_expansion(array.nbytes, sum(files), key)
            return np.asarray(array[...])
        except (*UNREADABLE, TypeError, AttributeError) as error:  # of descriptions
            raise ValueError(
                f"{path}: {key} cannot be read: {error}; write it anew as a plain array of numbers "
                "or text"
            ) from error

    yield StoredArrays(str(path), frozenset(keys), read)


def _check_zarr_codecs(description: Path) -> None:
    """Raise ``ValueError`` for a codec that is not ``_HARMLESS``."""
    for name in _zarr_codecs(json.loads(description.read_bytes())):  # decodes it as zarr does
        if not isinstance(name, str) or name.removeprefix("numcodecs.") not in _HARMLESS:
            raise ValueError(
                f"{description.name} names the codec {name!r}, which is not loaded, because a "
                f"codec may run code; those that are loaded: {', '.join(sorted(_HARMLESS))}"
            )


def _zarr_codecs(described: Any) -> Iterator[Any]:
    """Names of the codecs in the description of an array of format 2 or 3, also within shards."""
    for key in ("compressor", "filters", "codecs", "index_codecs", "storage_transformers"):
        found = described.get(key)
        for codec in found if isinstance(found, list) else [found]:
            if isinstance(codec, dict):
                inner = codec.get("configuration") or {}
                # a codec without a name is refused as None
                yield from [codec[k] for k in ("id", "name") if k in codec] or [None]
                yield from [inner["id"]] if "id" in inner else []
                yield from _zarr_codecs(inner)
            elif codec is not None:
                yield codec


def _is_zarr_group(folder: Path) -> bool:
    """True for a folder that zarr would open as a group; False for one that cannot be read."""
    if (folder / ".zgroup").is_file():
        return True
    try:
        described = json.loads((folder / "zarr.json").read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(described, dict) and described.get("node_type") == "group"


def _zarr_descriptions(folder: Path) -> list[Path]:
    """Metadata files of an array or group, which state type, shape and codecs."""
    paths = (folder / name for name in ("zarr.json", ".zarray", ".zgroup"))
    return [path for path in paths if path.is_file()]
