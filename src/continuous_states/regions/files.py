"""Files of regions: tables of motif scores to train on, and windows of rows to fill.

A table has the motif scores of each peak, and its accessibility in each cell type. It is an
``.npz`` file, or a zarr folder in the layout of GET.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from continuous_states.algorithms.gaussian import RowScaling
from continuous_states.arrays import (
    StoredArrays,
    array_as_float32,
    array_as_names,
    open_npz,
    open_zarr,
    require_array,
    write_npz,
)
from discrete_diffusion.config import unknown_name
from discrete_diffusion.data import load_json
from discrete_diffusion.runtime import GivenObjects

logger = logging.getLogger(__name__)

Floats = NDArray[np.float32]
Flags = NDArray[np.bool_]

ACCESSIBILITY = "accessibility"
"""Name of the last feature."""

FARTHEST = 1e6
"""Largest observed number after scaling as in training; a larger number is refused as a mistake."""

_KEYS = ("data", "peak_names", "motif_names")
_ATPM = "atpm/"
_ARRAYS = ("rows", "masked", "feature_names")
_ARRAY_FILES = (b"PK", b"\x93N")
"""First bytes of the files that numpy.savez and numpy.save write."""


@dataclass(frozen=True)
class RegionTable:
    """Table of P peaks with K motifs.

    ``scores``: Float32[P, K] raw motif scores. ``peak_names``: P names such as ``chr1:100-600``.
    ``motif_names``: K distinct names. ``atpm``: by cell type Float32[P], accessibility of every
    peak, 0 where the cell type lacks the peak; may be empty. ``source``: name of the table in
    errors.

    Raises ``ValueError`` with the key and the fix for shapes that disagree, a repeated name, or a
    value that is negative or not finite.
    """

    scores: Floats
    peak_names: tuple[str, ...]
    motif_names: tuple[str, ...]
    atpm: Mapping[str, Floats] = field(default_factory=dict)
    source: str = "the table"

    def __post_init__(self) -> None:
        # a row per peak, a column per motif
        expected = (len(self.peak_names), len(self.motif_names))
        if self.scores.shape != expected:
            raise ValueError(
                f"{self.source}: data has shape {self.scores.shape}; expected {expected}, a row "
                "for each of peak_names and a column for each of motif_names"
            )
        _check_motif_names(self.motif_names, self.source)
        self._check_values("data", self.scores, [f"motif '{name}'" for name in self.motif_names])
        # a value per peak of every cell type
        for name, values in self.atpm.items():
            key = f"{_ATPM}{name}"
            if values.shape != expected[:1]:
                raise ValueError(
                    f"{self.source}: {key} has shape {values.shape}; expected {expected[:1]}, a "
                    "value for each of peak_names"
                )
            self._check_values(key, values[:, None], [f"cell type '{name}'"])

    def _check_values(self, key: str, values: Floats, columns: Sequence[str]) -> None:
        """Raise ``ValueError`` if a value of Float32[P, C] is negative or not finite."""
        if values.size == 0 or (values.min() >= 0 and np.isfinite(values.max())):
            return  # NaN fails the first comparison
        # the first value that is wrong
        row, column = np.argwhere(~((values >= 0) & np.isfinite(values)))[0].tolist()
        raise ValueError(
            f"{self.source}: {key} is {values[row, column]} at peak {self.peak_names[row]} (row "
            f"{row + 1}), {columns[column]}; expected finite numbers of at least 0: set it to 0 or "
            "leave the peak out"
        )


def read_regions(path: str | Path, *, cell_types: Sequence[str] | None = None) -> RegionTable:
    """Read the table at ``path``: ``data``, ``peak_names``, ``motif_names`` and any
    ``atpm/CELLTYPE``. ``cell_types``: cell types to read; None reads all. Raises
    ``FileNotFoundError`` or ``ValueError`` with file, key and fix for an array that is missing,
    damaged or of the wrong shape or type, an unknown cell type, and an array ``atpm`` without a
    cell type. Unused arrays are logged."""
    with _open_table(Path(path)) as store:
        source = store.source
        # keys that are wrong or not used
        if "atpm" in store.keys:
            raise ValueError(
                f"{source}: array 'atpm' has no cell type; name it atpm/CELLTYPE, e.g. "
                'np.savez(f, **{"atpm/b_cell": values})'
            )
        unused = sorted(key for key in store.keys - {*_KEYS} if not key.startswith(_ATPM))
        if unused:
            logger.info("%s: not used: %s", source, shortened_names(unused, most=8))
        # cell types in the requested order; all, sorted by name, if not requested
        known = sorted(key.removeprefix(_ATPM) for key in store.keys if key.startswith(_ATPM))
        if cell_types is not None and not known:
            raise ValueError(
                f"{source} has no arrays {_ATPM}CELLTYPE to choose from; leave out data.cell_types"
            )
        chosen = known if cell_types is None else list(dict.fromkeys(cell_types))
        for name in chosen:
            if name not in known:
                raise ValueError(f"{source}: {unknown_name('cell type', name, known)}")
        return RegionTable(
            scores=array_as_float32(_require_in_table(store, "data"), "data", source),
            peak_names=array_as_names(_require_in_table(store, "peak_names"), "peak_names", source),
            motif_names=_motif_names(store),
            atpm={
                name: array_as_float32(store.read(_ATPM + name), _ATPM + name, source)
                for name in chosen
            },
            source=source,
        )


def read_motif_names(path: str | Path) -> tuple[str, ...]:
    """Read only ``motif_names`` of the table at ``path``. Errors are those of ``read_regions``."""
    with _open_table(Path(path)) as store:
        return _motif_names(store)


def write_regions(path: str | Path, table: RegionTable) -> None:
    """Write ``table`` so that ``read_regions(path)`` returns it; ``path`` ends in ``.npz``."""
    path = Path(path)
    if path.suffix != ".npz":
        raise ValueError(f"{path}: expected a path that ends in .npz")
    names = {key: np.array(getattr(table, key), dtype=str) for key in ("peak_names", "motif_names")}
    atpm = {f"{_ATPM}{name}": values for name, values in table.atpm.items()}
    write_npz(path, {"data": table.scores, **names, **atpm})


def shortened_names(names: Sequence[str], most: int) -> str:
    """Shorten a list of names, such as ``a, b and 3 more``."""
    rest = len(names) - most
    return ", ".join(names[:most]) + (f" and {rest:,} more" if rest > 0 else "")


def _open_table(path: Path) -> AbstractContextManager[StoredArrays]:
    if not path.exists():
        raise FileNotFoundError(
            f"no regions at {path.absolute()}; check data.path (null: simulate)"
        )
    # a zarr folder, or an .npz file
    if path.is_dir():
        return open_zarr(path)
    if path.suffix == ".npz":
        return open_npz(path)
    raise ValueError(
        f"{path}: expected FILE.npz or a folder DIR.zarr (unpack an archive of one first)"
    )


def _require_in_table(store: StoredArrays, key: str) -> NDArray:
    return require_array(store, key, "data, peak_names and motif_names")


def _motif_names(store: StoredArrays) -> tuple[str, ...]:
    names = array_as_names(_require_in_table(store, "motif_names"), "motif_names", store.source)
    _check_motif_names(names, store.source)
    return names


def _check_motif_names(names: Sequence[str], source: str) -> None:
    if not names:
        raise ValueError(f"{source}: motif_names is empty; expected a name for each motif")
    if ACCESSIBILITY in names:
        raise ValueError(
            f"{source}: motif_names has '{ACCESSIBILITY}', the name of the feature that is made "
            "of atpm; rename the motif, or store the column as atpm/CELLTYPE"
        )
    if len(set(names)) < len(names):
        twice = next(name for k, name in enumerate(names) if name in names[:k])
        raise ValueError(f"{source}: motif_names has '{twice}' twice; give each motif one name")


@dataclass(frozen=True)
class GivenRows:
    """W windows to fill, of N rows of M raw features. ``rows``: Float32[W, N, M], 0 in masked rows
    without values in the file. ``masked``: Bool[W, N], rows to fill. ``has_truth``: True if the
    file has values for all masked rows."""

    rows: Tensor
    masked: Tensor
    has_truth: bool

    def __len__(self) -> int:
        return self.rows.shape[0]

    def __getitem__(self, windows: slice) -> GivenRows:
        return GivenRows(self.rows[windows], self.masked[windows], self.has_truth)


@dataclass(frozen=True)
class _Windows:
    """Array ``rows`` of a file, Float32[W, N, M], and rows to fill, ``masked`` Bool[W, N].
    ``single``: True if the stored array lacks the axis W."""

    values: Floats
    masked: Flags
    single: bool
    source: str

    def error(self, index: Iterable[int], what: str) -> ValueError:
        """Create an error such as ``rows[1, 3] is ...``, with the indices of the stored array."""
        stored = [str(k) for k in index][self.single :]
        place = f"rows[{', '.join(stored)}]" if stored else "rows"
        return ValueError(f"{self.source}: {place} {what}")


def read_given_rows(
    given: str | Path | GivenObjects,
    *,
    feature_names: Sequence[str],
    most_rows: int,
    scaling: RowScaling,
) -> GivenRows:
    """Read windows of one length from a ``.npz`` file, or from objects with the same arrays.

    ``rows``: raw values, (W, N, M) or, for one window, (N, M); all values of a row to fill are NaN,
    or it is None in the list of an object. ``masked``, optional: bool (W, N) or (N,), further rows
    to fill, with or without values. ``feature_names``, optional: text (M,), which must equal the
    model's. Other arrays are ignored, and logged.

    Raises ``FileNotFoundError`` or ``ValueError`` with file or object, array and index for a file
    that cannot be read, other shapes or types, other features than ``feature_names``, windows of
    more than ``most_rows`` rows, observed numbers that are missing, infinite or above ``FARTHEST``
    after the model's ``scaling``, and windows without a row to fill or without an observed row.
    """

    def read(store: StoredArrays) -> GivenRows:
        windows = _read_given_windows(store, len(feature_names), most_rows)
        if "feature_names" in store.keys:
            names = array_as_names(store.read("feature_names"), "feature_names", store.source)
            _check_given_names(names, feature_names, store.source)
        if others := sorted(store.keys - set(_ARRAYS)):
            logger.warning(
                "%s: ignored: %s; what is read is %s",
                *(store.source, shortened_names(others, most=8), ", ".join(_ARRAYS)),
            )
        # values that cannot be, or that training has never seen
        _check_given_windows(windows)
        _check_far_values(windows, scaling, feature_names)
        # masked rows without values become 0
        values, masked = windows.values, windows.masked
        known = np.isfinite(values)
        filled = np.where(masked[..., None] & ~known, np.float32(0), values)
        return GivenRows(torch.from_numpy(filled), torch.from_numpy(masked), bool(known.all()))

    if isinstance(given, GivenObjects):
        return _joined_windows(map(read, _object_stores(given, len(feature_names))), given)
    # a file: refuse other formats before numpy reads it
    path = Path(str(given))
    if not path.is_file():
        raise FileNotFoundError(f"no windows at {path.absolute()}; expected an .npz file")
    with path.open("rb") as file:
        if file.read(2) not in _ARRAY_FILES:
            raise ValueError(
                f"{path} is not an .npz file, and the model was trained on features: write windows "
                "with numpy.savez(FILE, rows=...)"
            )
    with open_npz(path) as store:
        return read(store)


def _object_stores(given: GivenObjects, num_features: int) -> list[StoredArrays]:
    """Arrays of every object or JSON line. Raises ``ValueError`` naming an object without
    arrays."""
    stores = []
    for k, value in enumerate(given.objects):
        place = f"{given}[{k}]"
        # an object, or a line of JSON
        try:
            parsed = load_json(value) if isinstance(value, str) else value
        except ValueError as error:
            raise ValueError(f"{place}: not valid JSON: {error}") from error
        if not isinstance(parsed, Mapping):
            raise ValueError(
                f'{place}: expected an object such as {{"rows": [[0.5, ...], None, ...]}}, got '
                f"{type(parsed).__name__}"
            )
        # arrays of the object, None as NaN
        arrays = {}
        for key, array in parsed.items():
            listed = _none_as_nan(array, num_features) if key == "rows" else array
            try:
                arrays[str(key)] = np.asarray(listed)
            except ValueError as error:
                raise ValueError(
                    f"{place}: {key} has parts of different lengths; expected an array"
                ) from error
        stores.append(StoredArrays(place, frozenset(arrays), arrays.__getitem__))
    return stores


def _none_as_nan(rows: Any, num_features: int) -> Any:
    """Nested lists in which NaN replaces None, for a number or for a whole row."""
    if not isinstance(rows, list | tuple):
        return rows
    nested = any(isinstance(part, list | tuple | np.ndarray) for part in rows)
    missing = [math.nan] * num_features if nested else math.nan
    return [missing if part is None else _none_as_nan(part, num_features) for part in rows]


def _joined_windows(windows: Iterable[GivenRows], given: GivenObjects) -> GivenRows:
    """Join the windows of all objects. Raises ``ValueError`` for different numbers of rows."""
    parts = list(windows)
    lengths = [part.masked.shape[1] for part in parts]
    for k, length in enumerate(lengths):
        if length != lengths[0]:
            raise ValueError(
                f"{given}[{k}]: windows of {length} rows, those of {given}[0] have {lengths[0]}; "
                "give windows of one length at once"
            )
    return GivenRows(
        rows=torch.cat([part.rows for part in parts]),
        masked=torch.cat([part.masked for part in parts]),
        has_truth=all(part.has_truth for part in parts),
    )


def _read_given_windows(store: StoredArrays, num_features: int, most_rows: int) -> _Windows:
    source, shape = store.source, f"(W, N, {num_features})"
    array = require_array(store, "rows", f"windows to fill, raw values {shape}")
    values = array_as_float32(array, "rows", source)
    if values.ndim not in (2, 3) or 0 in values.shape:
        raise ValueError(
            f"{source}: rows has shape {values.shape}; expected {shape} for W windows, or "
            f"(N, {num_features}) for one"
        )
    # as many features as the model, at most as many rows
    num_rows, num_found = values.shape[-2:]
    if num_found != num_features:
        raise ValueError(
            f"{source}: rows has {num_found} features, the model was trained on {num_features}; "
            "give those, in the order of its data"
        )
    if num_rows > most_rows:
        raise ValueError(
            f"{source}: a window has {num_rows} rows, the model was trained on {most_rows} at "
            "most; cut it into several windows"
        )
    # rows to fill: rows of only NaN, and rows flagged by ``masked``
    masked = np.asarray(np.isnan(values).all(axis=-1))
    if "masked" in store.keys:
        flags = store.read("masked")
        if flags.dtype != np.bool_ or flags.shape != masked.shape:
            raise ValueError(
                f"{source}: masked is {flags.dtype} of shape {flags.shape}; expected bool of shape "
                f"{masked.shape}, one per row"
            )
        masked |= flags
    if values.ndim == 2:
        return _Windows(values[None], masked[None], True, source)
    return _Windows(values, masked, False, source)


def _check_given_names(names: Sequence[str], expected: Sequence[str], source: str) -> None:
    if len(names) != len(expected):
        raise ValueError(
            f"{source}: feature_names holds {len(names)} names; expected {len(expected)}, one per "
            "feature"
        )
    for k, (name, known) in enumerate(zip(names, expected, strict=True)):
        if name != known:
            raise ValueError(
                f"{source}: feature_names[{k}] is {name!r}, the model was trained with {known!r} "
                "there; bring rows and names into the order of its data"
            )


def _check_given_windows(windows: _Windows) -> None:
    """Raise an error if an observed row is not finite, or a window lacks observed or hidden
    rows."""
    # an observed row that is not finite
    unclear = ~np.isfinite(windows.values).all(axis=2) & ~windows.masked
    if unclear.any():
        w, n = np.argwhere(unclear)[0].tolist()
        partly = np.isnan(windows.values[w, n]).any()
        what = "is partly NaN" if partly else "holds an infinite value"
        remedy = "give all of its numbers, or make all of them NaN to have the row filled"
        raise windows.error((w, n), f"{what}; {remedy}")
    # a window with rows of one kind
    for window, hidden in enumerate(windows.masked):
        if not hidden.any():
            remedy = "make rows NaN throughout, or name them in a bool array 'masked'"
            raise windows.error((window,), f"has no row to fill; {remedy}")
        if hidden.all():
            remedy = "so there is nothing to fill it from; give at least one"
            raise windows.error((window,), f"has no observed row, {remedy}")


def _check_far_values(windows: _Windows, scaling: RowScaling, feature_names: Sequence[str]) -> None:
    """Raise an error if an observed number is too far from those of training."""
    # distance from training, in units of its scale
    values = windows.values
    scaled = scaling(torch.from_numpy(values).to(scaling.scale.device)).cpu().numpy()
    far = (np.abs(scaled) > FARTHEST) & ~windows.masked[..., None]
    if far.any():
        w, n, k = np.argwhere(far)[0].tolist()
        limit = {
            "zscore": f"{FARTHEST:,.0f} training standard deviations from the mean",
            "max": f"{FARTHEST:,.0f} times the largest of training",
        }.get(scaling.how, f"{FARTHEST:,.0f}")
        raise windows.error(
            (w, n, k),
            f"is {values[w, n, k]:g} ({feature_names[k]}), more than {limit}; give raw values in "
            "the units of the training data, or make the row NaN to have it filled",
        )
