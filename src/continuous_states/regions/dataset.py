"""Regions as a ``Dataset``: windows of peaks, each a row of motif scores and accessibility."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from types import MappingProxyType

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from continuous_states.regions.table import first_names
from discrete_diffusion.data import SPLITS, Dataset, Examples

_CHUNK = 16
"""Windows looked at at once; a split may fill much of the memory."""


class RegionDataset(Dataset):
    """W windows of N neighbouring peaks with M features each.

    ``splits[...].x0``: Float32[W, N, M] raw: K motif scores, then accessibility; 0 in rows that are
    not ``real`` Bool[W, N], at the end of a shorter window.
    ``feature_names``: M names.
    ``programmes``: by split Int64[W, N], the regulatory programme each peak was simulated from, -1
    where not real; None for data that was read. The best prediction of a row from the others is not
    better than the mean row of its programme.
    ``places``: text by name and split that says where windows come from: ``peak_names`` text[W, N],
    "" where not real, and ``cell_types`` text[W], if the data names them; none if simulated.
    ``source``: what the data is called in the log.
    """

    state = "features"
    bound = "gaussian"

    def __init__(
        self,
        splits: dict[str, Examples],
        *,
        feature_names: tuple[str, ...],
        source: str,
        programmes: dict[str, Tensor] | None = None,
        places: Mapping[str, dict[str, NDArray[np.str_]]] = MappingProxyType({}),
    ) -> None:
        self.splits, self.feature_names, self.source = splits, feature_names, source
        self.programmes, self.places = programmes, places

    def beside(self, trained_on: RegionDataset | None) -> RegionDataset:
        """Data without programmes: those of one data set mean nothing in another."""
        made = super().beside(trained_on)
        if trained_on is not None:
            made.__dict__.pop("constant_features", None)  # of other training rows
            made.programmes = None
        return made

    @cached_property
    def constant_features(self) -> tuple[str, ...]:
        """Names of the features that have one value in all training rows; none without a row."""
        examples = self.splits["train"]
        if not examples.real.any():
            return ()
        window, row = examples.real.nonzero()[0].tolist()
        first = examples.x0[window, row]
        constant = torch.ones_like(first, dtype=torch.bool)
        for x0, real in zip(examples.x0.split(_CHUNK), examples.real.split(_CHUNK), strict=True):
            constant &= (x0[real] == first).all(dim=0)
        return tuple(
            name for name, k in zip(self.feature_names, constant.tolist(), strict=True) if k
        )

    def _meaning(self) -> str:
        return repr(self.feature_names)

    def summary(self) -> str:
        parts = ", ".join(f"{len(self.splits[name]):,} {name}" for name in SPLITS)
        rows = self.splits["train"].x0.shape[1]
        summary = (
            f"{self.source}: {parts} windows of up to {rows} regions, "
            f"{len(self.feature_names)} features each"
        )
        if constant := self.constant_features:
            summary += f", {len(constant):,} constant ({first_names(constant, most=4)})"
        return summary
