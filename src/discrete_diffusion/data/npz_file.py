"""Arrays by name in a ``.npz`` file, never a pickle."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib.npyio import NpzFile
from numpy.typing import NDArray

from discrete_diffusion.data.stored_arrays import StoredArrays
from discrete_diffusion.whole_files import written_whole


@dataclass(frozen=True)
class _NpzArrays:
    file: NpzFile
    source: str
    keys: frozenset[str]

    def read(self, key: str) -> NDArray:
        try:
            return self.file[key]
        except ValueError as error:
            if "pickle" not in str(error):
                raise ValueError(
                    f"{self.source}: {key} is damaged: {error}; copy it anew"
                ) from error
            raise ValueError(
                f"{self.source}: {key} holds Python objects, which are never loaded; save it as "
                "numbers, or text as array.astype(str)"
            ) from error
        except (OSError, EOFError, zipfile.BadZipFile, zlib.error) as error:
            raise ValueError(f"{self.source}: {key} is damaged: {error}; copy it anew") from error


@contextmanager
def open_npz(path: Path) -> Iterator[StoredArrays]:
    """The arrays of a ``.npz`` file. Raises ``ValueError`` if it is none."""
    with path.open("rb") as handle:  # numpy does not close what it cannot read
        try:
            file = np.load(handle, allow_pickle=False)
        except (OSError, EOFError, ValueError, zipfile.BadZipFile) as error:
            raise ValueError(
                f"{path} is no .npz file, or damaged (was it copied in full?); numpy.savez writes "
                "one"
            ) from error
        if not isinstance(file, NpzFile):
            raise ValueError(f"{path} holds one array; expected an .npz file with several by name")
        with file:
            yield _NpzArrays(file, str(path), frozenset(file.files))


def write_npz(path: Path, arrays: Mapping[str, Any]) -> None:
    """Write arrays by name, compressed, as a ``.npz`` file that appears whole."""
    with (
        written_whole(path) as unfinished,
        unfinished.open("wb") as file,  # given a name, numpy would append .npz to it
    ):
        np.savez_compressed(file, **arrays)
