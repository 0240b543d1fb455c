"""A set of molecules, measured once for every use, and its distances from another."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from functools import cached_property

import numpy as np

from discrete_diffusion.domains.molecules.metrics import chemnet
from discrete_diffusion.domains.molecules.metrics.mean_features import MeanFeatures
from discrete_diffusion.domains.molecules.metrics.nspdk import mean_features, nspdk_mmd
from discrete_diffusion.domains.molecules.metrics.properties import (
    properties,
    property_distances,
    scaffold_similarity,
    scaffolds,
)


class MoleculeSet:
    """Molecules as canonical ``smiles``, repeats included."""

    def __init__(self, smiles: Sequence[str]) -> None:
        self.smiles = list(smiles)

    def __len__(self) -> int:
        return len(self.smiles)

    @cached_property
    def properties(self) -> dict[str, np.ndarray]:
        return properties(self.smiles)

    @cached_property
    def scaffolds(self) -> Counter[str]:
        return scaffolds(self.smiles)

    @cached_property
    def features(self) -> MeanFeatures:
        return mean_features(self.smiles)


def distances(samples: MoleculeSet, reference: MoleculeSet) -> dict[str, float]:
    """``fcd``, if it is installed, ``nspdk_mmd``, ``scaffold_similarity`` and distances of
    properties; {} without a molecule in either, no similarity without a scaffold in both."""
    if not len(samples) or not len(reference):
        return {}
    found = {
        **graph_distances(samples, reference),
        "scaffold_similarity": scaffold_similarity(samples.scaffolds, reference.scaffolds),
        **property_distances(samples.properties, reference.properties),
    }
    return {name: value for name, value in found.items() if not math.isnan(value)}


def graph_distances(
    samples: MoleculeSet, reference: MoleculeSet, suffix: str = ""
) -> dict[str, float]:
    """``fcd`` and ``nspdk_mmd``, the two that papers quote, under names that end in ``suffix``."""
    found = {}
    if chemnet.is_installed():
        found[f"fcd{suffix}"] = chemnet.fcd(samples.smiles, reference.smiles)
    if len(samples) and len(reference):
        found[f"nspdk_mmd{suffix}"] = nspdk_mmd(samples.features, reference.features)
    return {name: value for name, value in found.items() if not math.isnan(value)}
