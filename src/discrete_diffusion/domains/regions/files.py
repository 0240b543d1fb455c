"""Tables of regions from a path: an ``.npz`` file, or a zarr folder in the layout of GET."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discrete_diffusion.data.stored_arrays import StoredArrays, names_of, numbers_of, open_npz
from discrete_diffusion.domains.regions.table import RegionTable, check_motif_names
from discrete_diffusion.domains.regions.zarr_store import open_zarr
from discrete_diffusion.naming import unknown_name
from discrete_diffusion.whole_files import written_whole

logger = logging.getLogger(__name__)

_GROUP = "atpm"
_KEYS = ("data", "peak_names", "motif_names")
_MOST_SHOWN = 8
"""Names of arrays in a line of the log."""


def read_regions(path: str | Path, *, cell_types: Sequence[str] | None = None) -> RegionTable:
    """The table at ``path``: ``data``, ``peak_names``, ``motif_names`` and any ``atpm/CELLTYPE``.

    ``cell_types``: the ones to read; None reads all. Raises ``FileNotFoundError`` or ``ValueError``
    with file, key and fix for what is missing, damaged or of the wrong shape or kind, for a cell
    type that is not there and for an array ``atpm`` of none. Arrays that are not used are logged.
    """
    with _open(Path(path)) as store:
        _check_keys(store)
        return RegionTable(
            scores=numbers_of(_required(store, "data"), "data", store.source),
            peak_names=names_of(_required(store, "peak_names"), "peak_names", store.source),
            motif_names=_motif_names(store),
            atpm={
                name: numbers_of(store.read(f"{_GROUP}/{name}"), f"{_GROUP}/{name}", store.source)
                for name in _chosen(store, cell_types)
            },
            source=store.source,
        )


def read_motif_names(path: str | Path) -> tuple[str, ...]:
    """``motif_names`` of the table at ``path`` alone; errors as in ``read_regions``."""
    with _open(Path(path)) as store:
        return _motif_names(store)


def _open(path: Path) -> AbstractContextManager[StoredArrays]:
    if not path.exists():
        raise FileNotFoundError(f"no regions at {path.absolute()}; check data.path, null simulates")
    if path.is_dir():
        return open_zarr(path)
    if path.suffix == ".npz":
        return open_npz(path)
    raise ValueError(
        f"{path}: expected FILE.npz or a folder DIR.zarr (unpack an archive of one first)"
    )


def _check_keys(store: StoredArrays) -> None:
    arrays = store.keys - store.groups
    if _GROUP in arrays:
        raise ValueError(
            f"{store.source}: array '{_GROUP}' has no cell type; name it {_GROUP}/CELLTYPE, e.g. "
            f'np.savez(f, **{{"{_GROUP}/b_cell": values}})'
        )
    unused = sorted(key for key in arrays - set(_KEYS) if not key.startswith(f"{_GROUP}/"))
    if unused:
        rest = len(unused) - _MOST_SHOWN
        logger.info(
            "%s: not used: %s%s",
            store.source,
            ", ".join(unused[:_MOST_SHOWN]),
            f" and {rest} more" if rest > 0 else "",
        )


def _required(store: StoredArrays, key: str) -> NDArray:
    if key not in store.keys:
        found = ", ".join(sorted(store.keys)) or "nothing"
        raise ValueError(
            f"{store.source} has no array '{key}'; expected data, peak_names and motif_names, "
            f"found {found}"
        )
    return store.read(key)


def _motif_names(store: StoredArrays) -> tuple[str, ...]:
    names = names_of(_required(store, "motif_names"), "motif_names", store.source)
    check_motif_names(names, store.source)
    return names


def _chosen(store: StoredArrays, cell_types: Sequence[str] | None) -> list[str]:
    """Cell types in the order asked for, else by name."""
    prefix = f"{_GROUP}/"
    known = sorted(key.removeprefix(prefix) for key in store.keys if key.startswith(prefix))
    if cell_types is None:
        return known
    if not known:
        raise ValueError(
            f"{store.source} has no arrays {prefix}CELLTYPE to choose from; leave out "
            "data.cell_types"
        )
    for name in cell_types:
        if name not in known:
            raise ValueError(f"{store.source}: {unknown_name('cell type', name, known)}")
    return list(dict.fromkeys(cell_types))


def write_regions(path: str | Path, table: RegionTable) -> None:
    """Write ``table`` so that ``read_regions(path)`` gives it back; ``path`` ends in ``.npz``."""
    path = Path(path)
    if path.suffix != ".npz":
        raise ValueError(f"{path}: expected a path that ends in .npz")
    arrays: dict[str, Any] = {
        "data": table.scores,
        "peak_names": np.array(table.peak_names, dtype=str),
        "motif_names": np.array(table.motif_names, dtype=str),
        **{f"atpm/{name}": values for name, values in table.atpm.items()},
    }
    with written_whole(path) as unfinished, unfinished.open("wb") as file:
        np.savez_compressed(file, **arrays)
