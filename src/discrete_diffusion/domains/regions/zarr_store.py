"""Tables of regions in the public zarr layout of GET; needs the extra ``regions``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from discrete_diffusion.data.stored_arrays import StoredArrays

if TYPE_CHECKING:
    import zarr

INSTALL = 'pip install "discrete-diffusion[regions]"'


@dataclass(frozen=True)
class _ZarrArrays:
    group: zarr.Group
    source: str
    keys: frozenset[str]
    groups: frozenset[str]

    def read(self, key: str) -> NDArray:
        import zarr

        try:
            if any("pickle" in mark.read_text("utf-8") for mark in _marks(Path(self.source) / key)):
                raise ValueError("its codec unpickles Python objects, which are never loaded")
            array = self.group[key]
            if not isinstance(array, zarr.Array):
                raise ValueError("it is a group, expected an array")
            return np.asarray(array[...])
        except (OSError, ValueError, KeyError, TypeError, RuntimeError) as error:
            raise ValueError(
                f"{self.source}: {key} cannot be read: {error}; write it anew as a plain "
                "array of numbers or text"
            ) from error


@contextmanager
def open_zarr(path: Path) -> Iterator[StoredArrays]:
    """The arrays of a zarr folder, format 2 or 3; one level of groups.

    Raises ``ValueError`` if zarr is not installed, or the folder is no zarr group.
    """
    try:
        import zarr
    except ImportError as error:
        raise ValueError(f"{path} is read by zarr, which is not installed; {INSTALL}") from error
    try:
        group = zarr.open_group(path, mode="r", use_consolidated=False)  # what ``_marks`` sees
    except (OSError, ValueError) as error:
        raise ValueError(
            f"{path} is no zarr group; expected a folder with .zgroup or zarr.json: {error}"
        ) from error
    names = _children(path)
    keys = names | {f"{name}/{part}" for name in names for part in _children(path / name)}
    groups = {name for name in names if _is_group(path / name)}
    yield _ZarrArrays(group, str(path), frozenset(keys), frozenset(groups))


def _children(folder: Path) -> set[str]:
    """Arrays and groups directly below a folder; asking zarr would open each of them."""
    return {path.name for path in folder.iterdir() if _marks(path)} if folder.is_dir() else set()


def _is_group(folder: Path) -> bool:
    """As its files say; one that cannot be read is no group."""
    if (folder / ".zgroup").is_file():
        return True
    try:
        described = json.loads((folder / "zarr.json").read_text("utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(described, dict) and described.get("node_type") == "group"


def _marks(folder: Path) -> list[Path]:
    """The files that describe an array or group: type, shape, codecs."""
    paths = (folder / name for name in ("zarr.json", ".zarray", ".zgroup"))
    return [path for path in paths if path.is_file()]
