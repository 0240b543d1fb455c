"""Regions as a ``Dataset``: windows of peaks, each a row of motif scores and accessibility."""

from __future__ import annotations

from torch import Tensor

from discrete_diffusion.data.base import SPLITS, Dataset, Examples


class RegionDataset(Dataset):
    """W windows of N neighbouring peaks with M features each.

    ``splits[...].x0``: Float32[W, N, M] raw: K motif scores, then accessibility; 0 in rows that are
    not ``real`` Bool[W, N], at the end of a shorter window.
    ``feature_names``: M names.
    ``programmes``: by split Int64[W, N], the regulatory programme each peak was simulated from, -1
    where not real; None for data that was read. The best prediction of a row from the others is not
    better than the mean row of its programme.
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
    ) -> None:
        self.splits, self.feature_names = splits, feature_names
        self.source, self.programmes = source, programmes

    def _meaning(self) -> str:
        return repr(self.feature_names)

    def summary(self) -> str:
        parts = ", ".join(f"{len(self.splits[name]):,} {name}" for name in SPLITS)
        rows = self.splits["train"].x0.shape[1]
        return (
            f"{self.source}: {parts} windows of up to {rows} regions, "
            f"{len(self.feature_names)} features each"
        )
