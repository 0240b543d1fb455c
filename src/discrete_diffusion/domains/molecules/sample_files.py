"""Samples of any origin: files of SMILES, or of graphs as ``samples.jsonl`` holds them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from discrete_diffusion.data.text_files import read_text, suffix_of
from discrete_diffusion.domains.molecules.metrics.validity import Verdict, judge
from discrete_diffusion.domains.molecules.molecule import (
    BONDS,
    Molecule,
    MoleculeError,
    from_rdkit,
    parse_atom,
)
from discrete_diffusion.domains.molecules.smiles_files import read_rows

_NONE = Verdict(None, None, None, None, connected=False)


@dataclass(frozen=True)
class ReadSamples:
    """``verdicts``: of all samples; ``molecules``: those that are graphs; ``num_unreadable``: the
    others, which no rule calls valid."""

    molecules: list[Molecule]
    verdicts: list[Verdict]

    @property
    def num_unreadable(self) -> int:
        return len(self.verdicts) - len(self.molecules)


def read_samples(path: str) -> ReadSamples:
    """The samples of a file: ``.jsonl``, graphs, see ``molecule_of_json``; else SMILES, of which
    those that rdkit refuses are samples too.

    Raises ``ValueError`` naming file, line and field for a line of JSON that is no graph.
    """
    if suffix_of(Path(path)) == ".jsonl":
        molecules: list[Molecule | None] = [*read_graphs(path)]
    else:
        molecules = [_graph_of(row.smiles) for row in read_rows(path)]
    graphs = [molecule for molecule in molecules if molecule is not None]
    found = iter(judge(graphs))
    return ReadSamples(graphs, [_NONE if each is None else next(found) for each in molecules])


def read_graphs(path: str) -> list[Molecule]:
    """The graphs of a file of JSON lines; blank lines are skipped."""
    found = []
    for number, line in enumerate(read_text(path).text.splitlines(), start=1):
        if line.strip():
            try:
                found.append(molecule_of_json(json.loads(line)))
            except ValueError as error:
                raise ValueError(f"{path}, line {number}: {error}") from error
    if not found:
        raise ValueError(f"{path} holds no molecule; expected a JSON object per line")
    return found


def molecule_of_json(value: Any) -> Molecule:
    """``{"atoms": ["C", "O"], "bonds": [[0, 1, "double"]]}``; other keys are not read. Raises
    ``ValueError`` naming the field."""
    if not isinstance(value, dict) or not isinstance(value.get("atoms"), list):
        raise ValueError('expected an object with a list "atoms", and "bonds"')
    atoms = value["atoms"]
    if not atoms:
        raise ValueError("atoms: empty; a molecule has at least one")
    for atom in atoms:
        parse_atom(str(atom))
    bonds, seen = [], set()
    for k, bond in enumerate(value.get("bonds", [])):
        if not (isinstance(bond, list) and len(bond) == 3 and bond[2] in BONDS[:-1]):
            kinds = ", ".join(BONDS[:-1])
            raise ValueError(f"bonds[{k}]={bond}: expected [i, j, type], of type {kinds}")
        i, j, kind = bond
        if not all(isinstance(end, int) and 0 <= end < len(atoms) for end in (i, j)) or i == j:
            raise ValueError(f"bonds[{k}]={bond}: expected two different atoms of {len(atoms)}")
        pair = (min(i, j), max(i, j))
        if pair in seen:
            raise ValueError(f"bonds[{k}]={bond}: these atoms have a bond already")
        seen.add(pair)
        bonds.append((*pair, BONDS.index(kind)))
    return Molecule(tuple(map(str, atoms)), tuple(sorted(bonds)))


def _graph_of(smiles: str) -> Molecule | None:
    """As it is written, charges kept; None for what is no SMILES, and an aromatic ring that is
    none."""
    from rdkit import Chem, rdBase

    with rdBase.BlockLogs():
        mol = Chem.MolFromSmiles(smiles)
        if mol is None:
            mol = Chem.MolFromSmiles(smiles, sanitize=False)
            if mol is None:
                return None
            mol.UpdatePropertyCache(strict=False)
        try:
            return from_rdkit(mol) if mol.GetNumAtoms() else None
        except MoleculeError:
            return None
