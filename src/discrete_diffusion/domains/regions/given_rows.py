"""A user's own windows of rows, some of which are to be filled: what ``given=FILE.npz`` holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from discrete_diffusion.data.npz_file import open_npz
from discrete_diffusion.data.stored_arrays import StoredArrays, names_of, numbers_of

if TYPE_CHECKING:
    from discrete_diffusion.algorithms.scaling import RowScaling

Flags = NDArray[np.bool_]

FARTHEST = 1e6
"""An observed number this far from those of training, on their scale, is taken for a mistake."""

_ARRAY_FILES = (b"PK", b"\x93N")
"""First bytes of what numpy.savez and numpy.save write."""


@dataclass(frozen=True)
class GivenRows:
    """W windows of N rows of M raw features.

    ``rows``: Float32[W, N, M], 0 in masked rows of which the file says nothing. ``masked``:
    Bool[W, N], rows to fill. ``has_truth``: whether the file has values for all of those.
    """

    rows: Tensor
    masked: Tensor
    has_truth: bool

    def __len__(self) -> int:
        return self.rows.shape[0]


def check_kind(path: str, checkpoint: str) -> None:
    """``ValueError`` for a file that holds no arrays, given to a ``checkpoint`` of features."""
    if not Path(path).is_file():
        return  # said by the reader
    with Path(path).open("rb") as file:
        if file.read(2) not in _ARRAY_FILES:
            raise ValueError(
                f"{path} is no .npz file, and {checkpoint} was trained on features: write windows "
                "with numpy.savez(FILE, rows=...)"
            )


def read_given_rows(
    path: str | Path,
    *,
    feature_names: Sequence[str],
    most_rows: int,
    scaling: RowScaling | None = None,
) -> GivenRows:
    """The windows of a ``.npz`` file.

    ``rows``: (W, N, M) or, of one window, (N, M), raw values; a row to fill is NaN throughout.
    ``masked``, optional: bool (W, N) or (N,), further rows to fill, whatever they hold.
    ``feature_names``, optional: text (M,), to be those of the model.

    Raises ``FileNotFoundError`` or ``ValueError`` with file, array and index for a file that cannot
    be read, other shapes or kinds, other features than ``feature_names``, windows of more than
    ``most_rows`` rows, numbers that are missing or infinite in rows that are observed, or above
    ``FARTHEST`` by the model's ``scaling``, and windows without a row to fill or one to fill it
    from.
    """
    path, num_features = Path(path), len(feature_names)
    if not path.is_file():
        raise FileNotFoundError(f"no windows at {path.absolute()}; expected an .npz file")
    with open_npz(path) as store:
        values, single = _values(store, num_features, most_rows)
        masked = _masked(store, values, single)
        if "feature_names" in store.keys:
            names = names_of(store.read("feature_names"), "feature_names", store.source)
            _check_names(names, feature_names, store.source)
        _check_windows(values, masked, single, store.source)
        if scaling is not None:
            _check_sizes(values, masked, single, scaling, feature_names, store.source)
    hidden = masked[..., None]
    return GivenRows(
        rows=torch.from_numpy(np.where(hidden & ~np.isfinite(values), np.float32(0), values)),
        masked=torch.from_numpy(masked),
        has_truth=bool(np.isfinite(values).all()),
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


def _check_names(names: Sequence[str], expected: Sequence[str], source: str) -> None:
    if len(names) != len(expected):
        raise ValueError(
            f"{source}: feature_names holds {len(names)} names; expected {len(expected)}, one per "
            "feature"
        )
    for k, (name, own) in enumerate(zip(names, expected, strict=True)):
        if name != own:
            raise ValueError(
                f"{source}: feature_names[{k}] is {name!r}, the model was trained with {own!r} "
                "there; bring rows and names into the order of its data"
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


def _check_sizes(
    values: NDArray[np.float32],
    masked: Flags,
    single: bool,
    scaling: RowScaling,
    feature_names: Sequence[str],
    source: str,
) -> None:
    """Every observed number is of a size that training has seen the like of."""
    scaled = scaling(torch.from_numpy(values).to(scaling.scale.device)).cpu().numpy()
    far = (np.abs(scaled) > FARTHEST) & ~masked[..., None]
    if not far.any():
        return
    w, n, k = np.argwhere(far)[0].tolist()
    at = f"rows[{n}, {k}]" if single else f"rows[{w}, {n}, {k}]"
    limit = {
        "zscore": f"{FARTHEST:,.0f} training standard deviations from the mean",
        "max": f"{FARTHEST:,.0f} times the largest of training",
    }.get(scaling.how, f"{FARTHEST:,.0f}")
    raise ValueError(
        f"{source}: {at} is {values[w, n, k]:g} ({feature_names[k]}), more than {limit}; give raw "
        "values in the units of the training data, or make the row NaN to have it filled"
    )
