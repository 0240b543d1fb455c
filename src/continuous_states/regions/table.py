"""A table of regions: motif scores by peak, and how open each peak is in each cell type.

In a file it is an ``.npz`` file, or a zarr folder in the layout of GET.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from continuous_states.arrays import (
    StoredArrays,
    names_of,
    numbers_of,
    open_npz,
    require_array,
    write_npz,
)
from continuous_states.regions.zarr_store import open_zarr
from discrete_diffusion.config import unknown_name

logger = logging.getLogger(__name__)

Floats = NDArray[np.float32]

ACCESSIBILITY = "accessibility"
"""Name of the last feature."""

_KEYS = ("data", "peak_names", "motif_names")
_ATPM = "atpm/"


@dataclass(frozen=True)
class RegionTable:
    """P peaks with K motifs.

    ``scores``: Float32[P, K] raw motif scores. ``peak_names``: P names ``chr1:100-600``.
    ``motif_names``: K distinct names. ``atpm``: by cell type Float32[P], accessibility of every
    peak, 0 where the cell type has none; may be empty. ``source``: what errors call the table.

    Raises ``ValueError`` with the key and the fix for shapes that disagree, a name that comes twice
    and a value that is negative or not finite.
    """

    scores: Floats
    peak_names: tuple[str, ...]
    motif_names: tuple[str, ...]
    atpm: Mapping[str, Floats] = field(default_factory=dict)
    source: str = "the table"

    def __post_init__(self) -> None:
        expected = (len(self.peak_names), len(self.motif_names))
        if self.scores.shape != expected:
            raise ValueError(
                f"{self.source}: data has shape {self.scores.shape}; expected {expected}, a row "
                "for each of peak_names and a column for each of motif_names"
            )
        _check_motif_names(self.motif_names, self.source)
        self._check_values("data", self.scores, [f"motif '{name}'" for name in self.motif_names])
        for name, values in self.atpm.items():
            key = f"{_ATPM}{name}"
            if values.shape != expected[:1]:
                raise ValueError(
                    f"{self.source}: {key} has shape {values.shape}; expected {expected[:1]}, a "
                    "value for each of peak_names"
                )
            self._check_values(key, values[:, None], [f"cell type '{name}'"])

    def _check_values(self, key: str, values: Floats, columns: Sequence[str]) -> None:
        """Float32[P, C]: every value is finite and at least 0."""
        if values.size == 0 or (values.min() >= 0 and np.isfinite(values.max())):
            return  # NaN fails the first comparison
        row, column = np.argwhere(~((values >= 0) & np.isfinite(values)))[0].tolist()
        raise ValueError(
            f"{self.source}: {key} is {values[row, column]} at peak {self.peak_names[row]} (row "
            f"{row + 1}), {columns[column]}; expected finite numbers of at least 0: set it to 0 or "
            "leave the peak out"
        )


def read_regions(path: str | Path, *, cell_types: Sequence[str] | None = None) -> RegionTable:
    """The table at ``path``: ``data``, ``peak_names``, ``motif_names`` and any ``atpm/CELLTYPE``.

    ``cell_types``: the ones to read; None reads all. Raises ``FileNotFoundError`` or ``ValueError``
    with file, key and fix for what is missing, damaged or of the wrong shape or kind, for a cell
    type that is not there and for an array ``atpm`` of none. Arrays that are not used are logged.
    """
    with _open(Path(path)) as store:
        _check_keys(store)
        keys = {name: f"{_ATPM}{name}" for name in _chosen(store, cell_types)}
        return RegionTable(
            scores=numbers_of(_required(store, "data"), "data", store.source),
            peak_names=names_of(_required(store, "peak_names"), "peak_names", store.source),
            motif_names=_motif_names(store),
            atpm={
                name: numbers_of(store.read(key), key, store.source) for name, key in keys.items()
            },
            source=store.source,
        )


def read_motif_names(path: str | Path) -> tuple[str, ...]:
    """``motif_names`` of the table at ``path`` alone; errors as in ``read_regions``."""
    with _open(Path(path)) as store:
        return _motif_names(store)


def write_regions(path: str | Path, table: RegionTable) -> None:
    """Write ``table`` so that ``read_regions(path)`` gives it back; ``path`` ends in ``.npz``."""
    path = Path(path)
    if path.suffix != ".npz":
        raise ValueError(f"{path}: expected a path that ends in .npz")
    names = {key: np.array(getattr(table, key), dtype=str) for key in ("peak_names", "motif_names")}
    atpm = {f"{_ATPM}{name}": values for name, values in table.atpm.items()}
    write_npz(path, {"data": table.scores, **names, **atpm})


def first_names(names: Sequence[str], most: int) -> str:
    """``a, b and 3 more``."""
    rest = len(names) - most
    return ", ".join(names[:most]) + (f" and {rest:,} more" if rest > 0 else "")


def _open(path: Path) -> AbstractContextManager[StoredArrays]:
    if not path.exists():
        raise FileNotFoundError(
            f"no regions at {path.absolute()}; check data.path (null: simulate)"
        )
    if path.is_dir():
        return open_zarr(path)
    if path.suffix == ".npz":
        return open_npz(path)
    raise ValueError(
        f"{path}: expected FILE.npz or a folder DIR.zarr (unpack an archive of one first)"
    )


def _check_keys(store: StoredArrays) -> None:
    if "atpm" in store.keys:
        raise ValueError(
            f"{store.source}: array 'atpm' has no cell type; name it atpm/CELLTYPE, e.g. "
            'np.savez(f, **{"atpm/b_cell": values})'
        )
    unused = sorted(key for key in store.keys - set(_KEYS) if not key.startswith(_ATPM))
    if unused:
        logger.info("%s: not used: %s", store.source, first_names(unused, most=8))


def _required(store: StoredArrays, key: str) -> NDArray:
    return require_array(store, key, "data, peak_names and motif_names")


def _motif_names(store: StoredArrays) -> tuple[str, ...]:
    names = names_of(_required(store, "motif_names"), "motif_names", store.source)
    _check_motif_names(names, store.source)
    return names


def _check_motif_names(names: Sequence[str], source: str) -> None:
    """Check that there is one, each once, and none is the name of the last feature."""
    if not names:
        raise ValueError(f"{source}: motif_names is empty; expected a name for each motif")
    if ACCESSIBILITY in names:
        raise ValueError(
            f"{source}: motif_names has '{ACCESSIBILITY}', the name of the feature that is made "
            "of atpm; rename the motif, or store the column as atpm/CELLTYPE"
        )
    if len(set(names)) < len(names):
        twice = next(name for k, name in enumerate(names) if name in names[:k])
        raise ValueError(
            f"{source}: motif_names has '{twice}' twice; give every motif its own name"
        )


def _chosen(store: StoredArrays, cell_types: Sequence[str] | None) -> list[str]:
    """Cell types in the requested order, else by name."""
    known = sorted(key.removeprefix(_ATPM) for key in store.keys if key.startswith(_ATPM))
    if cell_types is None:
        return known
    if not known:
        raise ValueError(
            f"{store.source} has no arrays {_ATPM}CELLTYPE to choose from; leave out "
            "data.cell_types"
        )
    for name in cell_types:
        if name not in known:
            raise ValueError(f"{store.source}: {unknown_name('cell type', name, known)}")
    return list(dict.fromkeys(cell_types))
