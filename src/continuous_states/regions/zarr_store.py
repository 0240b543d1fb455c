"""Tables of regions in the public zarr layout of GET; needs the extra ``regions``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from continuous_states.arrays import StoredArrays
from discrete_diffusion.data import UNREADABLE, check_expansion
from discrete_diffusion.runtime import install_command

_HARMLESS = frozenset(
    {
        *("bytes", "vlen-utf8", "vlen-bytes", "transpose", "sharding_indexed", "shuffle", "delta"),
        *("blosc", "bz2", "gzip", "lz4", "lzma", "zlib", "zstd"),
        *("adler32", "crc32", "crc32c", "fletcher32"),
    }
)
"""Codecs that make numbers and texts of bytes and do nothing else. An array may name any codec that
is installed, such as one that unpickles."""


@dataclass(frozen=True)
class _ZarrArrays:
    source: str
    keys: frozenset[str]

    def read(self, key: str) -> NDArray:
        import zarr

        folder = Path(self.source) / key
        try:
            _check_codecs(folder)
            array = zarr.open_array(folder, mode="r")
            files = (file.stat().st_size for file in folder.rglob("*") if file.is_file())
            check_expansion(array.nbytes, sum(files), key)
            return np.asarray(array[...])
        except (*UNREADABLE, TypeError, AttributeError) as error:  # of descriptions
            raise ValueError(
                f"{self.source}: {key} cannot be read: {error}; write it anew as a plain "
                "array of numbers or text"
            ) from error


@contextmanager
def open_zarr(path: Path) -> Iterator[StoredArrays]:
    """The arrays of a zarr folder, format 2 or 3, and of the groups directly in it.

    Raises ``ValueError`` if zarr is not installed, or the folder is no zarr group.
    """
    try:
        import zarr  # noqa: F401
    except ImportError as error:
        raise ValueError(
            f"{path} needs zarr, which is not installed: {install_command('regions')}"
        ) from error
    if not _is_group(path):
        raise ValueError(
            f"{path} is not a zarr group; expected a folder with .zgroup or zarr.json in it"
        )
    keys = set()
    for child in path.iterdir():
        folders = child.iterdir() if _is_group(child) else [child]
        keys |= {
            folder.relative_to(path).as_posix()
            for folder in folders
            if _descriptions(folder) and not _is_group(folder)
        }
    yield _ZarrArrays(str(path), frozenset(keys))


def _check_codecs(folder: Path) -> None:
    """Raise ``ValueError`` for an array with a codec that is not ``_HARMLESS``."""
    for path in _descriptions(folder):
        described = json.loads(path.read_bytes())  # as zarr does, which escapes and encodings pass
        for name in _codecs(described):
            if not isinstance(name, str) or name.removeprefix("numcodecs.") not in _HARMLESS:
                raise ValueError(
                    f"{path.name} names the codec {name!r}, which is not loaded, because a codec "
                    f"may run code; those that are loaded: {', '.join(sorted(_HARMLESS))}"
                )


def _codecs(described: Any) -> Iterator[Any]:
    """Names of the codecs in the description of an array of format 2 or 3, those inside shards
    too."""
    for key in ("compressor", "filters", "codecs", "index_codecs", "storage_transformers"):
        found = described.get(key)
        for codec in found if isinstance(found, list) else [found]:
            if isinstance(codec, dict):
                inner = codec.get("configuration") or {}
                yield from [codec[k] for k in ("id", "name") if k in codec] or [None]
                yield from [inner["id"]] if "id" in inner else []
                yield from _codecs(inner)
            elif codec is not None:
                yield codec


def _is_group(folder: Path) -> bool:
    """Read off its files, as zarr would open it; False for one that cannot be read."""
    if (folder / ".zgroup").is_file():
        return True
    try:
        described = json.loads((folder / "zarr.json").read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(described, dict) and described.get("node_type") == "group"


def _descriptions(folder: Path) -> list[Path]:
    """The files that describe an array or group: type, shape, codecs."""
    paths = (folder / name for name in ("zarr.json", ".zarray", ".zgroup"))
    return [path for path in paths if path.is_file()]
