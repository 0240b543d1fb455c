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
import logging
import math
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np

from discrete_diffusion.domains.cell_measurement import SampleScore
from discrete_diffusion.domains.molecules import distances
from discrete_diffusion.domains.molecules.molecule import (
    NOTHING,
    Molecule,
    sanitised,
    smiles_of,
    to_rdkit,
    with_charged_atoms,
)
from discrete_diffusion.runtime import progress

logger = logging.getLogger(__name__)

PROPERTIES = {
    "logp": "Crippen's octanol-water partition coefficient",
    "qed": "drug-likeness (Bickerton et al., 2012), 0 to 1",
    "weight": "molecular weight in daltons",
    "sa": "synthetic accessibility (Ertl and Schuffenhauer, 2009), 1 easy to 10 hard",
    "rings": "rings",
}

MIN_RINGS = 2
"""Least number of rings of a scaffold that counts, as in MOSES (arXiv 1811.12823)."""

MANY = 20_000
"""Least number of different molecules for which the cost is logged."""

_TRIED = 128
"""Most molecules that are measured to estimate the time of all molecules."""

_ALWAYS, _EACH = 0.5e9, 1e3
"""Bytes that ChemNet takes at work, and bytes for the facts of a molecule."""

_SYSTEM, _GROUP = Path("/proc/meminfo"), Path("/sys/fs/cgroup")


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


def judge(molecules: Sequence[Molecule]) -> list[Verdict]:
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
    mol = sanitised(molecule)
    if mol is not None:
        whole = smiles_of(mol)
        largest = whole if connected else smiles_of(_largest_fragment(mol))
        return Verdict(whole, largest, largest, largest, connected)
    # then with charges, then repaired
    charged = with_charged_atoms(molecule)
    mol = sanitised(charged)
    if mol is not None:
        relaxed = smiles_of(_largest_fragment(mol))
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
    mol = to_rdkit(molecule)
    while (atom := _overloaded_atom(mol)) is not None:
        bonds = list(mol.GetAtomWithIdx(atom).GetBonds())
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
    return None if repaired is None else smiles_of(repaired)


def _overloaded_atom(mol: Any) -> int | None:
    from rdkit import Chem

    operation = Chem.SanitizeFlags.SANITIZE_PROPERTIES
    for problem in Chem.DetectChemistryProblems(mol, sanitizeOps=operation):
        return int(problem.GetAtomIdx())
    return None


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
    return {
        "valid": lambda molecules: [verdict.valid is not None for verdict in judge(molecules)],
        "valid_relaxed": lambda molecules: [each.relaxed is not None for each in judge(molecules)],
        "connected": lambda molecules: [verdict.connected for verdict in judge(molecules)],
        "qed": _drug_likeness,
    }


def _drug_likeness(molecules: list[Molecule]) -> list[float]:
    smiles = [verdict.valid for verdict in judge(molecules)]
    valid = [each for each in smiles if each is not None]
    scores = dict(zip(valid, properties(valid)["qed"].tolist(), strict=True)) if valid else {}
    return [0.0 if each is None else scores[each] for each in smiles]


def properties(smiles: Sequence[str]) -> dict[str, np.ndarray]:
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


def scaffolds(smiles: Sequence[str]) -> Counter[str]:
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
        return properties(self.smiles)

    @cached_property
    def scaffolds(self) -> Counter[str]:
        return scaffolds(self.smiles)

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


def log_cost(sets: Sequence[MoleculeSet]) -> None:
    """Log the time to measure sets of many molecules, the reference included, and warn if memory
    or temporary disk is short. Small sets are not mentioned."""
    # distinct molecules, of which a few are tried
    distinct = [list(dict.fromkeys(each.smiles)) for each in sets]
    num = sum(map(len, distinct))
    if num < MANY:
        return
    largest = max(distinct, key=len)
    tried = largest[:: max(1, len(largest) // _TRIED)][:_TRIED]
    # molecules whose activations are not on disk
    new = num if distances.has_chemnet() else 0
    if new:
        known = zip(sets, distinct, strict=True)
        new -= sum(len(texts) for each, texts in known if distances.is_known(each.smiles))
    # room for all features, estimated from a few
    features = sum(len(distances.features_of_smiles(text)) for text in tried) / len(tried) * num
    kept, remedy = min(features, distances.MAX_KEPT), "take fewer reference molecules"
    needed = _ALWAYS + _EACH * num + distances.ENTRY_BYTES * (kept + 4 * distances.MAX_SORTED)
    warn_if_short(needed, f"measuring {num:,} molecules", remedy)
    on_disk, folder = distances.ENTRY_BYTES * (features - kept), tempfile.gettempdir()
    if on_disk > (free := shutil.disk_usage(folder).free):
        logger.warning(
            "NSPDK of %s molecules takes about %.1f GB in %s, where %.1f GB are free: set TMPDIR "
            "to another folder, or %s",
            *(f"{num:,}", on_disk / 1e9, folder, free / 1e9, remedy),
        )

    def seconds_each(measure: Callable[[], object]) -> float:
        start = time.perf_counter()
        measure()
        return (time.perf_counter() - start) / len(tried)

    # time of all, likewise
    nspdk = seconds_each(lambda: [distances.features_of_smiles(text) for text in tried])
    of_properties = seconds_each(lambda: MoleculeSet(tried).properties)
    seconds = {"NSPDK": num * nspdk, "properties": num * of_properties}
    if new:
        seconds["ChemNet"] = new * seconds_each(lambda: distances.activations_of(tried))
    clock = {name: str(timedelta(seconds=round(each))) for name, each in seconds.items()}
    logger.info(
        "about %s to measure %s different molecules: %s",
        timedelta(seconds=round(sum(seconds.values()))),
        f"{num:,}",
        ", ".join(f"{name} {each}" for name, each in clock.items()),
    )


def warn_if_short(needed: float, purpose: str, remedy: str) -> None:
    """Log a warning if ``needed`` bytes are more than are free.

    ``purpose``: what needs the memory; ``remedy``: how to need less.
    """
    available = available_memory()
    if available is not None and needed > available:
        logger.warning(
            "%s takes about %.1f GB of memory and %.1f GB are free: it may be killed; %s",
            *(purpose, needed / 1e9, available / 1e9, remedy),
        )


def available_memory() -> int | None:
    """Bytes of memory that the machine and the container of this process, if any, still allow; None
    if the system does not say."""
    limits: list[int] = []
    # free memory of the machine
    with suppress(OSError):
        lines = _SYSTEM.read_text().splitlines()
        limits = [1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")]
    # limit of the container
    with suppress(OSError):
        most, used = (
            (_GROUP / name).read_text().strip() for name in ("memory.max", "memory.current")
        )
        limits += [max(0, int(most) - int(used))] if most.isdecimal() else []
    return min(limits, default=None)
