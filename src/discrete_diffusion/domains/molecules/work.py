"""All that this kind of data needs torch for, imported as one when ``domain`` first needs it."""

from __future__ import annotations

from discrete_diffusion.domains.cell_measurement import TokenCells
from discrete_diffusion.domains.molecules.build import build_molecules, complete_molecules
from discrete_diffusion.domains.molecules.evaluation import evaluate_files, evaluate_model
from discrete_diffusion.domains.molecules.molecule import decode, encode
from discrete_diffusion.domains.molecules.report import MoleculeReport
from discrete_diffusion.domains.molecules.rewards import molecule_rewards
from discrete_diffusion.domains.molecules.sampling import complete_file, sample_molecules

__all__ = [
    "MoleculeReport",
    "TokenCells",
    "build_molecules",
    "complete_file",
    "complete_molecules",
    "decode",
    "encode",
    "evaluate_files",
    "evaluate_model",
    "molecule_rewards",
    "sample_molecules",
]
