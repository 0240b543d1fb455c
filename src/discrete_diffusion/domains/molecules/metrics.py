"""Metrics of samples of molecules: validity by the three rules of the literature, novelty,
properties, and distances from a reference.

* ``valid``: rdkit builds and sanitises the graph unchanged; of several fragments the largest counts
  (DiGress, arXiv 2209.14734, and its successors);
* ``relaxed``: the same after N of four bonds and O of three got a charge of +1 (the "relaxed
  validity" of DiGress; "validity without correction" of GDSS);
* ``corrected``: bonds of atoms with too many are made weaker until rdkit agrees (GDSS, arXiv
  2202.02514). Almost every graph passes, so it says little by itself.

Deviation: DiGress and GDSS add bonds one by one and charge at most one atom for each, so that they
refuse a bond which gives both of its ends one too many; here both are charged. A graph that rdkit
mends, such as a nitro group of five bonds, is valid by the other rules too.
"""

from __future__ import annotations

import importlib.util
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np

from discrete_diffusion.domains.cell_measurement import SampleScore
from discrete_diffusion.domains.molecules import distances
from discrete_diffusion.domains.molecules import molecule as graphs
from discrete_diffusion.domains.molecules.molecule import NOTHING, Molecule
from discrete_diffusion.runtime import progress

PROPERTIES = {
    "logp": "Crippen's octanol-water partition coefficient",
    "qed": "drug-likeness (Bickerton et al., 2012), 0 to 1",
    "weight": "molecular weight in daltons",
    "sa": "synthetic accessibility (Ertl and Schuffenhauer, 2009), 1 easy to 10 hard",
    "rings": "rings",
}

MIN_RINGS = 2
"""Least number of rings of a scaffold that counts, as in MOSES (arXiv 1811.12823)."""


@dataclass(frozen=True)
class Verdict:
    """Validity of one graph, as canonical SMILES by each rule; None where the rule is broken.

    ``whole``: all fragments; ``valid``, ``relaxed``: the largest fragment; ``corrected``: the same
    after repair. ``connected``: the graph is in one piece, valid or not.
    """

    whole: str | None
    valid: str | None
    relaxed: str | None
    corrected: str | None
    connected: bool


def verdicts_of(molecules: Sequence[Molecule]) -> list[Verdict]:
    """Verdicts of molecules; equal graphs are judged once."""
    from rdkit import rdBase

    known: dict[Molecule, Verdict] = {}
    with rdBase.BlockLogs():
        for molecule in progress.track(molecules, "building molecules", "molecules"):
            if molecule not in known:
                known[molecule] = _judge(molecule)
    return [known[molecule] for molecule in molecules]


def _judge(molecule: Molecule) -> Verdict:
    if molecule == NOTHING:
        return Verdict(None, None, None, None, connected=False)
    connected = is_connected(molecule)
    # the strictest rule first
    mol = graphs.sanitised(molecule)
    if mol is not None:
        whole = graphs.smiles_of(mol)
        largest = whole if connected else graphs.smiles_of(_largest_fragment(mol))
        return Verdict(whole, largest, largest, largest, connected)
    # then with charges, then repaired
    charged = graphs.with_charged_atoms(molecule)
    mol = graphs.sanitised(charged)
    if mol is not None:
        relaxed = graphs.smiles_of(_largest_fragment(mol))
        return Verdict(None, None, relaxed, relaxed, connected)
    return Verdict(None, None, None, _corrected(charged), connected)


def _largest_fragment(mol: Any) -> Any:
    from rdkit import Chem

    fragments = Chem.GetMolFrags(mol, asMols=True)
    return max(fragments, key=lambda fragment: fragment.GetNumAtoms())


def _corrected(molecule: Molecule) -> str | None:
    """Longest SMILES among the fragments of the repaired graph.

    As long as an atom has too many bonds, the strongest bond of the first such atom is made weaker
    by one.
    """
    from rdkit import Chem

    # weaken one bond at a time
    mol = graphs.to_rdkit(molecule)
    of_valence = Chem.SanitizeFlags.SANITIZE_PROPERTIES
    while problems := Chem.DetectChemistryProblems(mol, sanitizeOps=of_valence):
        bonds = list(mol.GetAtomWithIdx(problems[0].GetAtomIdx()).GetBonds())
        if not bonds:
            return None
        strongest = max(bonds, key=lambda bond: bond.GetBondTypeAsDouble())
        start, end = strongest.GetBeginAtomIdx(), strongest.GetEndAtomIdx()
        order = int(strongest.GetBondTypeAsDouble()) - 1
        mol.RemoveBond(start, end)
        if order:
            mol.AddBond(start, end, Chem.BondType.values[order])
    # the largest fragment counts
    repaired = Chem.MolFromSmiles(max(Chem.MolToSmiles(mol).split("."), key=len))
    return None if repaired is None else graphs.smiles_of(repaired)


def is_connected(molecule: Molecule) -> bool:
    """True if every atom can be reached from every other along bonds."""
    # union-find over bonds
    parent = list(range(len(molecule.atoms)))

    def root(k: int) -> int:
        while parent[k] != k:
            parent[k] = k = parent[parent[k]]
        return k

    for i, j, _ in molecule.bonds:
        parent[root(i)] = root(j)
    return len({root(k) for k in range(len(parent))}) == 1


def sample_shares(verdicts: Sequence[Verdict], known: frozenset[str] | None) -> dict[str, float]:
    """Shares of the samples, in [0, 1]; empty without samples.

    ``unique``: share of different molecules among those valid by the relaxed rule; ``novel``: share
    of these that are not among the ``known`` SMILES, the training molecules. Both are left out if
    no sample is valid, and ``novel`` also if ``known`` is None.
    """
    if not verdicts:
        return {}
    num = len(verdicts)
    # distinct valid molecules
    relaxed = [verdict.relaxed for verdict in verdicts if verdict.relaxed is not None]
    distinct = set(relaxed)
    # shares of all samples
    shares = {
        "valid": sum(verdict.valid is not None for verdict in verdicts) / num,
        "valid_relaxed": len(relaxed) / num,
        "valid_corrected": sum(verdict.corrected is not None for verdict in verdicts) / num,
        "connected": sum(verdict.connected for verdict in verdicts) / num,
        "valid_in_one_piece": sum(v.connected and v.valid is not None for v in verdicts) / num,
    }
    # shares of valid and of distinct ones
    if relaxed:
        shares["unique"] = len(distinct) / len(relaxed)
    if distinct and known is not None:
        shares["novel"] = len(distinct - known) / len(distinct)
    return shares


def molecule_rewards() -> dict[str, SampleScore]:
    """Scores of molecules by name: ``valid``, ``valid_relaxed`` and ``connected``, 1 or 0, and the
    drug-likeness ``qed`` in [0, 1] of valid ones, 0 for others."""

    def score_by(rule: Callable[[Verdict], bool]) -> SampleScore:
        return lambda molecules: [rule(verdict) for verdict in verdicts_of(molecules)]

    def drug_likeness(molecules: list[Molecule]) -> list[float]:
        smiles = [verdict.valid for verdict in verdicts_of(molecules)]
        valid = [each for each in smiles if each is not None]
        scores = molecule_properties(valid)["qed"].tolist() if valid else []
        known = dict(zip(valid, scores, strict=True))
        return [0.0 if each is None else known[each] for each in smiles]

    return {
        "valid": score_by(lambda verdict: verdict.valid is not None),
        "valid_relaxed": score_by(lambda verdict: verdict.relaxed is not None),
        "connected": score_by(lambda verdict: verdict.connected),
        "qed": drug_likeness,
    }


def molecule_properties(smiles: Sequence[str]) -> dict[str, np.ndarray]:
    """Float64[M] of every property that this rdkit can compute."""
    from rdkit import Chem
    from rdkit.Chem import QED, rdMolDescriptors

    # numbers of each distinct molecule
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
    # columns by name
    table = np.array([known[text] for text in smiles]).reshape(-1, len(PROPERTIES))
    return {
        name: table[:, k]
        for k, name in enumerate(PROPERTIES)
        if name != "sa" or accessibility is not None
    }


@cache
def _accessibility() -> Any:
    """Function for the synthetic accessibility of a molecule, from rdkit's contributions; None if
    they are not installed."""
    from rdkit.Chem import RDConfig

    # a script, which is not a package
    path = Path(RDConfig.RDContribDir) / "SA_Score" / "sascorer.py"
    if not path.is_file():
        return None
    spec = importlib.util.spec_from_file_location("sascorer", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.calculateScore


def scaffold_counts(smiles: Sequence[str]) -> Counter[str]:
    """Counts of each Bemis-Murcko scaffold of at least ``MIN_RINGS`` rings."""
    from rdkit import Chem
    from rdkit.Chem import rdMolDescriptors
    from rdkit.Chem.Scaffolds import MurckoScaffold

    counts: Counter[str] = Counter()
    # scaffolds of enough rings
    for text, count in Counter(smiles).items():
        scaffold = MurckoScaffold.GetScaffoldForMol(Chem.MolFromSmiles(text))
        if rdMolDescriptors.CalcNumRings(scaffold) >= MIN_RINGS:
            counts[Chem.MolToSmiles(scaffold)] += count
    return counts


def scaffold_similarity(one: Counter[str], other: Counter[str]) -> float:
    """Cosine of two counts of scaffolds, 1 for equal shares; NaN if either is empty."""
    lengths = [math.sqrt(sum(count**2 for count in each.values())) for each in (one, other)]
    if not all(lengths):
        return math.nan
    return sum(one[key] * other[key] for key in one) / math.prod(lengths)


def property_distances(
    one: dict[str, np.ndarray], other: dict[str, np.ndarray]
) -> dict[str, float]:
    """1-Wasserstein distance of each property, in its own unit, by name such as
    ``wasserstein_logp``."""
    from scipy.stats import wasserstein_distance

    return {
        f"wasserstein_{name}": float(wasserstein_distance(one[name], other[name])) for name in one
    }


class MoleculeSet:
    """Molecules as canonical ``smiles``, repeats included, with statistics computed once."""

    def __init__(self, smiles: Sequence[str]) -> None:
        self.smiles = list(smiles)

    def __len__(self) -> int:
        return len(self.smiles)

    @cached_property
    def properties(self) -> dict[str, np.ndarray]:
        return molecule_properties(self.smiles)

    @cached_property
    def scaffolds(self) -> Counter[str]:
        return scaffold_counts(self.smiles)

    @cached_property
    def features(self) -> distances.MeanFeatures:
        return distances.mean_features(self.smiles)


def all_distances(samples: MoleculeSet, reference: MoleculeSet) -> dict[str, float]:
    """Return ``fcd``, if it is installed, ``nspdk_mmd``, ``scaffold_similarity`` and distances
    of properties; empty if either set is empty. Similarity is left out if either set has no
    scaffold."""
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
    """The two distances that papers quote, ``fcd`` and ``nspdk_mmd``, with a ``suffix``."""
    found = {}
    if distances.has_chemnet():
        found[f"fcd{suffix}"] = distances.fcd(samples.smiles, reference.smiles)
    if len(samples) and len(reference):
        found[f"nspdk_mmd{suffix}"] = distances.nspdk_mmd(samples.features, reference.features)
    return {name: value for name, value in found.items() if not math.isnan(value)}
