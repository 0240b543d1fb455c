"""A table of regions: motif scores by peak, and how open each peak is in each cell type."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

ACCESSIBILITY = "accessibility"
"""Name of the last feature."""


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
        check_motif_names(self.motif_names, self.source)
        self._check_values("data", self.scores, [f"motif '{name}'" for name in self.motif_names])
        for name, values in self.atpm.items():
            key = f"atpm/{name}"
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


def check_motif_names(names: Sequence[str], source: str) -> None:
    """Raise ``ValueError`` if there is none, one comes twice or takes the name of the last
    feature."""
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
