"""Regions of a genome as rows of motif scores: simulated, or read from a table."""

from discrete_diffusion.domains.regions.dataset import RegionDataset
from discrete_diffusion.domains.regions.files import read_motif_names, read_regions, write_regions
from discrete_diffusion.domains.regions.simulator import (
    SimulatedWindows,
    SimulationSettings,
    simulate_windows,
)
from discrete_diffusion.domains.regions.table import RegionTable

__all__ = [
    "RegionDataset",
    "RegionTable",
    "SimulatedWindows",
    "SimulationSettings",
    "read_motif_names",
    "read_regions",
    "simulate_windows",
    "write_regions",
]
