"""Electrical impedance tomography: conductivities of a disc with their boundary maps."""

from discrete_diffusion.domains.eit.dataset import EITLevels, FieldDataset
from discrete_diffusion.domains.eit.dtn_map import DtNSolver
from discrete_diffusion.domains.eit.files import read_phantoms
from discrete_diffusion.domains.eit.levels import (
    LEVELS,
    conductivity_to_levels,
    levels_to_conductivity,
)
from discrete_diffusion.domains.eit.mesh import Mesh, ring_mesh
from discrete_diffusion.domains.eit.simulator import (
    SimulationSettings,
    background_map,
    simulate_phantoms,
)

__all__ = [
    "LEVELS",
    "DtNSolver",
    "EITLevels",
    "FieldDataset",
    "Mesh",
    "SimulationSettings",
    "background_map",
    "conductivity_to_levels",
    "levels_to_conductivity",
    "read_phantoms",
    "ring_mesh",
    "simulate_phantoms",
]
