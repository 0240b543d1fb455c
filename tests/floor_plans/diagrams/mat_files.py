"""MATLAB files of plans, as Graph2Plan keeps them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from scipy.io import savemat

from floor_plans import BubbleDiagram


def mat_record(diagram: BubbleDiagram, dtype: Any = np.uint8) -> dict[str, Any]:
    """The fields of one plan."""
    return {
        "rType": np.array(diagram.rooms, dtype=dtype),
        "rEdge": np.array(diagram.relations, dtype=dtype).reshape(-1, 3),
    }


def write_mat(
    path: Path,
    records: list[dict[str, Any]],
    *,
    shape: tuple[int, ...] | None = None,
    **options: Any,
) -> None:
    """Write records as the struct array ``data``."""
    names = list(records[0])
    table = np.empty(len(records), dtype=[(name, object) for name in names])
    for k, record in enumerate(records):
        table[k] = tuple(record[name] for name in names)
    if shape is not None:
        table = table[: int(np.prod(shape))].reshape(shape)
    savemat(path, {"data": table}, **options)
