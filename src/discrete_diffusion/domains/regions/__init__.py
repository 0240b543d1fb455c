"""Regions of a genome as rows of motif scores: simulated, or read from a table."""

from discrete_diffusion.domains.regions.dataset import RegionDataset
from discrete_diffusion.domains.regions.table import RegionTable, read_regions, write_regions

__all__ = ["RegionDataset", "RegionTable", "read_regions", "write_regions"]
