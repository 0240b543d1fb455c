"""Tests that graphs are molecules, by the three rules of the literature.

* ``valid``: rdkit builds and sanitises the graph as it is; of several fragments the largest counts
  (DiGress, arXiv 2209.14734, and those that follow it);
* ``relaxed``: the same after N of four bonds and O of three got a charge of + 1 (the "relaxed
  validity" of DiGress; "validity without correction" of GDSS);
* ``corrected``: bonds of atoms with too many are made weaker until rdkit agrees (GDSS, arXiv
  2202.02514). Almost every graph passes, so it says little by itself.

Deviation: DiGress and GDSS add bonds one by one and charge at most one atom for each, so that they
refuse a bond which gives both of its ends one too many; here both are charged. What is valid as it
is, such as a nitro group of five bonds, which rdkit mends, is valid by the other rules.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from discrete_diffusion.domains.molecules.molecule import (
    NOTHING,
    Molecule,
    sanitised,
    smiles_of,
    to_rdkit,
    with_charged_atoms,
)
from discrete_diffusion.runtime import progress


@dataclass(frozen=True)
class Verdict:
    """Verdict on one graph. ``whole``: its canonical SMILES, all fragments; ``valid``, ``relaxed``:
    of its largest fragment; ``corrected``: likewise, repaired. None where the rule is broken.

    ``connected``: the graph is in one piece, whatever rdkit says.
    """

    whole: str | None
    valid: str | None
    relaxed: str | None
    corrected: str | None
    connected: bool


def judge(molecules: Sequence[Molecule]) -> list[Verdict]:
    """The verdict of each; equal graphs are looked at once."""
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
    mol = sanitised(molecule)
    if mol is not None:
        whole = smiles_of(mol)
        largest = whole if connected else smiles_of(_largest(mol))
        return Verdict(whole, largest, largest, largest, connected)
    charged = with_charged_atoms(molecule)
    mol = sanitised(charged)
    if mol is not None:
        relaxed = smiles_of(_largest(mol))
        return Verdict(None, None, relaxed, relaxed, connected)
    return Verdict(None, None, None, _corrected(charged), connected)


def _largest(mol: Any) -> Any:
    from rdkit import Chem

    fragments = Chem.GetMolFrags(mol, asMols=True)
    return max(fragments, key=lambda fragment: fragment.GetNumAtoms())


def _corrected(molecule: Molecule) -> str | None:
    """The longest SMILES among the fragments of the repaired graph: from the first atom with too
    many bonds, the strongest bond is made weaker by one, again and again."""
    from rdkit import Chem

    mol = to_rdkit(molecule)
    while (atom := _overloaded(mol)) is not None:
        bonds = list(mol.GetAtomWithIdx(atom).GetBonds())
        if not bonds:
            return None
        strongest = max(bonds, key=lambda bond: bond.GetBondTypeAsDouble())
        start, end = strongest.GetBeginAtomIdx(), strongest.GetEndAtomIdx()
        order = int(strongest.GetBondTypeAsDouble()) - 1
        mol.RemoveBond(start, end)
        if order:
            mol.AddBond(start, end, Chem.BondType.values[order])
    repaired = Chem.MolFromSmiles(max(Chem.MolToSmiles(mol).split("."), key=len))
    return None if repaired is None else smiles_of(repaired)


def _overloaded(mol: Any) -> int | None:
    """The first atom that rdkit finds to have too many bonds."""
    from rdkit import Chem

    operation = Chem.SanitizeFlags.SANITIZE_PROPERTIES
    for problem in Chem.DetectChemistryProblems(mol, sanitizeOps=operation):
        return int(problem.GetAtomIdx())
    return None


def is_connected(molecule: Molecule) -> bool:
    """True if every atom can be reached from every other along bonds."""
    return len(set(_roots(molecule))) == 1


def _roots(molecule: Molecule) -> Iterator[int]:
    """One atom of its fragment for every atom."""
    parent = list(range(len(molecule.atoms)))

    def root(k: int) -> int:
        while parent[k] != k:
            parent[k] = k = parent[parent[k]]
        return k

    for i, j, _ in molecule.bonds:
        parent[root(i)] = root(j)
    return map(root, range(len(parent)))


def sample_shares(verdicts: Sequence[Verdict], known: frozenset[str] | None) -> dict[str, float]:
    """Shares of the samples, in [0, 1]; {} of none.

    ``unique``: of those valid by the relaxed rule, how many different ones; ``novel``: of these,
    how many are not among the ``known`` SMILES, those of training; left out without them. Neither
    of samples of which none is valid.
    """
    if not verdicts:
        return {}
    num = len(verdicts)
    relaxed = [verdict.relaxed for verdict in verdicts if verdict.relaxed is not None]
    distinct = set(relaxed)
    shares = {
        "valid": sum(verdict.valid is not None for verdict in verdicts) / num,
        "valid_relaxed": len(relaxed) / num,
        "valid_corrected": sum(verdict.corrected is not None for verdict in verdicts) / num,
        "connected": sum(verdict.connected for verdict in verdicts) / num,
        "valid_in_one_piece": sum(v.connected and v.valid is not None for v in verdicts) / num,
    }
    if relaxed:
        shares["unique"] = len(distinct) / len(relaxed)
    if distinct and known is not None:
        shares["novel"] = len(distinct - known) / len(distinct)
    return shares
