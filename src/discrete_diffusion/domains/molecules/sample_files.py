"""Samples of any origin: files of SMILES, or of graphs as ``samples.jsonl`` holds them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from discrete_diffusion.data.text_files import load_json, read_text, split_lines
from discrete_diffusion.domains.molecules.molecule import (
    BONDS,
    NOTHING,
    Molecule,
    MoleculeError,
    from_rdkit,
    parse_atom,
    parsed,
)
from discrete_diffusion.domains.molecules.smiles_files import kind_of_molecules, read_rows
from discrete_diffusion.runtime.file_kinds import JSON_LINES


@dataclass(frozen=True)
class ReadSamples:
    """All samples of a file: ``molecules``, ``NOTHING`` where one is none. ``num_blank``: lines
    without anything, among those that are none."""

    molecules: list[Molecule]
    num_blank: int


def read_samples(path: str, *, skip_invalid: bool = False) -> ReadSamples:
    """The samples of a file, one for each line: JSON lines, graphs, see ``molecule_of_json``; else
    what ``read_rows`` reads. Blank lines and SMILES that rdkit refuses are samples too, and so are
    lines of JSON that are no graph, if ``skip_invalid``.

    Raises ``ValueError`` naming file, line and field for another line of JSON that is no graph.
    """
    if kind_of_molecules(path) is JSON_LINES:
        molecules, num_blank = _read_lines(path, skip_invalid)
    else:
        rows = read_rows(path, keep_blank=True)
        molecules = [_graph_of(row.text) for row in rows]
        num_blank = sum(not row.text for row in rows)
    return ReadSamples(molecules, num_blank)


def read_graphs(path: str) -> list[Molecule]:
    """The graphs of a file of JSON lines, ``NOTHING`` for a blank line."""
    return _read_lines(path, skip_invalid=False)[0]


def _read_lines(path: str, skip_invalid: bool) -> tuple[list[Molecule], int]:
    """And how many lines are blank."""
    lines = split_lines(read_text(path, JSON_LINES).text)
    found = []
    for number, line in enumerate(lines, start=1):
        try:
            found.append(molecule_of_json(load_json(line)) if line.strip() else NOTHING)
        except ValueError as error:
            if not skip_invalid:
                raise ValueError(
                    f"{path}, line {number}: {error}; correct it, or count such lines as samples "
                    "that are not valid with skip_invalid=true"
                ) from error
            found.append(NOTHING)
    return found, sum(not line.strip() for line in lines)


def molecule_of_json(value: Any) -> Molecule:
    """``{"atoms": ["C", "O"], "bonds": [[0, 1, "double"]]}``; other keys are not read.
    ``null``, and no atoms, are ``NOTHING``. Raises ``ValueError`` naming the field."""
    if value is None:
        return NOTHING
    if not isinstance(value, dict) or not isinstance(value.get("atoms"), list):
        raise ValueError('expected an object with a list "atoms", and "bonds"')
    atoms = value["atoms"]
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


def _graph_of(text: str) -> Molecule:
    """Graph as it is written, charges kept; ``NOTHING`` for what is no SMILES or mol block, and an
    aromatic ring that is none."""
    from rdkit import rdBase

    with rdBase.BlockLogs():
        try:
            mol = parsed(text)
            if mol is None:
                mol = parsed(text, sanitize=False)
                if mol is None:
                    return NOTHING
                mol.UpdatePropertyCache(strict=False)
            return from_rdkit(mol)
        except MoleculeError:
            return NOTHING
