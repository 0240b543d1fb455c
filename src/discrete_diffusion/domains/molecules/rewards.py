"""Rewards of molecules: validity and drug-likeness."""

from __future__ import annotations

from typing import TYPE_CHECKING

from discrete_diffusion.domains.molecules.metrics.molecule_set import properties
from discrete_diffusion.domains.molecules.metrics.validity import judge
from discrete_diffusion.domains.molecules.molecule import Molecule

if TYPE_CHECKING:
    from discrete_diffusion.domains.cell_measurement import SampleScore


def molecule_rewards() -> dict[str, SampleScore]:
    """Scores of molecules by name: ``valid``, ``valid_relaxed`` and ``connected``, 1 or 0, and the
    drug-likeness ``qed`` in [0, 1] of valid ones, 0 of others."""
    return {
        "valid": lambda molecules: [verdict.valid is not None for verdict in judge(molecules)],
        "valid_relaxed": lambda molecules: [each.relaxed is not None for each in judge(molecules)],
        "connected": lambda molecules: [verdict.connected for verdict in judge(molecules)],
        "qed": _drug_likeness,
    }


def _drug_likeness(molecules: list[Molecule]) -> list[float]:
    smiles = [verdict.valid for verdict in judge(molecules)]
    valid = [each for each in smiles if each is not None]
    found = dict(zip(valid, properties(valid)["qed"].tolist(), strict=True)) if valid else {}
    return [0.0 if each is None else found[each] for each in smiles]
