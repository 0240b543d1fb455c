"""A user's own windows of rows, some of which are to be filled: what ``given=FILE.npz`` holds."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from discrete_diffusion.data.regions.npz_file import open_npz
from discrete_diffusion.data.regions.stored_arrays import StoredArrays, names_of, numbers_of

Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class GivenRows:
    """W windows of N rows of M raw features.

    ``rows``: Float32[W, N, M], 0 in masked rows of which the file says nothing. ``masked``:
    Bool[W, N], rows to fill. ``has_truth``: whether the file has values for all of those.
    ``feature_names``: of the M features, if the file has them.
    """

    rows: Tensor
    masked: Tensor
    has_truth: bool
    feature_names: tuple[str, ...] | None

    def __len__(self) -> int:
        return self.rows.shape[0]


def read_given_rows(path: str | Path, *, num_features: int, most_rows: int) -> GivenRows:
    """The windows of a ``.npz`` file.

    ``rows``: (W, N, M) or, of one window, (N, M), raw values; a row to fill is NaN throughout.
    ``masked``, optional: bool (W, N) or (N,), further rows to fill, whatever they hold.
    ``feature_names``, optional: text (M,).

    Raises ``FileNotFoundError`` or ``ValueError`` with file, array and index for a file that cannot
    be read, other shapes or kinds, another number of features than ``num_features``, windows of
    more than ``most_rows`` rows, numbers that are missing or infinite in rows that are observed,
    and windows without a row to fill or one to fill it from.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"no windows at {path.absolute()}; expected an .npz file")
    with open_npz(path) as store:
        values, single = _values(store, num_features, most_rows)
        masked = _masked(store, values, single)
        names = None
        if "feature_names" in store.keys:
            names = names_of(store.read("feature_names"), "feature_names", store.source)
            _check_names(names, num_features, store.source)
        _check_windows(values, masked, single, store.source)
    hidden = masked[..., None]
    return GivenRows(
        rows=torch.from_numpy(np.where(hidden & ~np.isfinite(values), np.float32(0), values)),
        masked=torch.from_numpy(masked),
        has_truth=bool(np.isfinite(values).all()),
        feature_names=names,
    )


def _values(
    store: StoredArrays, num_features: int, most_rows: int
) -> tuple[NDArray[np.float32], bool]:
    """``rows`` as (W, N, M), and whether it is one window without its axis."""
    if "rows" not in store.keys:
        found = ", ".join(sorted(store.keys)) or "nothing"
        raise ValueError(
            f"{store.source} has no array 'rows' of windows to fill, raw values (W, N, "
            f"{num_features}); found {found}"
        )
    values = numbers_of(store.read("rows"), "rows", store.source)
    single = values.ndim == 2
    if values.ndim not in (2, 3) or 0 in values.shape:
        raise ValueError(
            f"{store.source}: rows has shape {values.shape}; expected (W, N, {num_features}) for W "
            f"windows, or (N, {num_features}) for one"
        )
    values = values[None] if single else values
    if values.shape[2] != num_features:
        raise ValueError(
            f"{store.source}: rows has {values.shape[2]} features, the model was trained on "
            f"{num_features}; give those, in the order of its data"
        )
    if values.shape[1] > most_rows:
        raise ValueError(
            f"{store.source}: a window has {values.shape[1]} rows, the model was trained on "
            f"{most_rows} at most; cut it into several windows"
        )
    return values, single


def _masked(store: StoredArrays, values: NDArray[np.float32], single: bool) -> Flags:
    """Rows that are NaN throughout or named."""
    masked = np.asarray(np.isnan(values).all(axis=2))
    if "masked" not in store.keys:
        return masked
    named = store.read("masked")
    expected = masked.shape[1:] if single else masked.shape
    if named.dtype != np.bool_ or named.shape != expected:
        raise ValueError(
            f"{store.source}: masked is {named.dtype} of shape {named.shape}; expected bool of "
            f"shape {expected}, one per row"
        )
    return masked | named.reshape(masked.shape)


def _check_names(names: tuple[str, ...], num_features: int, source: str) -> None:
    if len(names) != num_features:
        raise ValueError(
            f"{source}: feature_names holds {len(names)} names; expected {num_features}, one per "
            "feature"
        )


def _check_windows(values: NDArray[np.float32], masked: Flags, single: bool, source: str) -> None:
    """Every observed row is finite, and every window has rows of both kinds."""
    unclear = ~np.isfinite(values).all(axis=2) & ~masked
    if unclear.any():
        w, n = np.argwhere(unclear)[0].tolist()
        what = "is partly NaN" if np.isnan(values[w, n]).any() else "holds an infinite value"
        at = f"rows[{n}]" if single else f"rows[{w}, {n}]"
        raise ValueError(
            f"{source}: {at} {what}; give all of its numbers, or make all of them NaN to have the "
            "row filled"
        )
    for window, hidden in enumerate(masked):
        at = "rows" if single else f"rows[{window}]"
        if not hidden.any():
            raise ValueError(
                f"{source}: {at} has no row to fill; make rows NaN throughout, or name them in a "
                "bool array 'masked'"
            )
        if hidden.all():
            raise ValueError(
                f"{source}: {at} has no observed row, so there is nothing to fill it from; give at "
                "least one"
            )
