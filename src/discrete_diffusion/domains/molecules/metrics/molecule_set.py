"""A set of molecules, measured once for every use: its properties, its distances from another."""

from __future__ import annotations

import importlib.util
import math
from collections import Counter
from collections.abc import Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np

from discrete_diffusion.domains.molecules.metrics import chemnet
from discrete_diffusion.domains.molecules.metrics.nspdk import (
    MeanFeatures,
    mean_features,
    nspdk_mmd,
)
from discrete_diffusion.runtime import progress

PROPERTIES = {
    "logp": "Crippen's octanol-water partition coefficient",
    "qed": "drug-likeness (Bickerton et al., 2012), 0 to 1",
    "weight": "molecular weight in daltons",
    "sa": "synthetic accessibility (Ertl and Schuffenhauer, 2009), 1 easy to 10 hard",
    "rings": "rings",
}

MIN_RINGS = 2
"""Least size of a scaffold that counts, as in MOSES (arXiv 1811.12823)."""


def properties(smiles: Sequence[str]) -> dict[str, np.ndarray]:
    """Float64[M] of every property that this rdkit can compute."""
    from rdkit import Chem
    from rdkit.Chem import QED, rdMolDescriptors

    accessibility = _accessibility()
    known: dict[str, tuple[float, ...]] = {}
    for text in progress.track(list(dict.fromkeys(smiles)), "properties", "molecules"):
        mol = Chem.MolFromSmiles(text)
        known[text] = (
            rdMolDescriptors.CalcCrippenDescriptors(mol)[0],
            QED.qed(mol),
            rdMolDescriptors._CalcMolWt(mol),
            math.nan if accessibility is None else accessibility(mol),
            rdMolDescriptors.CalcNumRings(mol),
        )
    table = np.array([known[text] for text in smiles]).reshape(-1, len(PROPERTIES))
    return {
        name: table[:, k]
        for k, name in enumerate(PROPERTIES)
        if name != "sa" or accessibility is not None
    }


@cache
def _accessibility() -> Any:
    """The score that rdkit ships among its contributions; None where it is not there."""
    from rdkit.Chem import RDConfig

    path = Path(RDConfig.RDContribDir) / "SA_Score" / "sascorer.py"
    if not path.is_file():
        return None
    spec = importlib.util.spec_from_file_location("sascorer", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.calculateScore


def property_distances(
    one: dict[str, np.ndarray], other: dict[str, np.ndarray]
) -> dict[str, float]:
    """``wasserstein_logp`` and so on: the 1-Wasserstein distance of each, in its own unit."""
    from scipy.stats import wasserstein_distance

    return {
        f"wasserstein_{name}": float(wasserstein_distance(one[name], other[name])) for name in one
    }


def scaffolds(smiles: Sequence[str]) -> Counter[str]:
    """Counts of each Bemis-Murcko scaffold of at least ``MIN_RINGS`` rings."""
    from rdkit import Chem
    from rdkit.Chem import rdMolDescriptors
    from rdkit.Chem.Scaffolds import MurckoScaffold

    found: Counter[str] = Counter()
    for text, count in Counter(smiles).items():
        scaffold = MurckoScaffold.GetScaffoldForMol(Chem.MolFromSmiles(text))
        if rdMolDescriptors.CalcNumRings(scaffold) >= MIN_RINGS:
            found[Chem.MolToSmiles(scaffold)] += count
    return found


def scaffold_similarity(one: Counter[str], other: Counter[str]) -> float:
    """The cosine of two counts of scaffolds, 1 for equal shares; NaN without any in either."""
    lengths = [math.sqrt(sum(count**2 for count in each.values())) for each in (one, other)]
    if not all(lengths):
        return math.nan
    return sum(one[key] * other[key] for key in one) / math.prod(lengths)


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
