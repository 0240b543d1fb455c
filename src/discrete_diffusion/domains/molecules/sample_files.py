"""Files of sampled molecules, as SMILES or as graphs in ``samples.jsonl``, read and written."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from discrete_diffusion.data.text_files import load_json, read_text, split_lines
from discrete_diffusion.domains.molecules.molecule import (
    BONDS,
    NOTHING,
    Molecule,
    MoleculeError,
    from_rdkit,
    objection,
    parse_atom,
    parsed,
    sanitised,
    smiles_of,
    to_rdkit,
)
from discrete_diffusion.domains.molecules.smiles_files import kind_of_molecules, read_rows
from discrete_diffusion.runtime.atomic_files import write_text
from discrete_diffusion.runtime.file_kinds import JSON_LINES

SMILES_FILE, GRAPH_FILE = "samples.smi", "samples.jsonl"


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


def as_json(molecule: Molecule) -> dict[str, Any]:
    """``{"atoms": ["C", "O"], "bonds": [[0, 1, "double"]], "smiles": "C=O"}``; ``smiles`` is null
    where rdkit refuses the graph, and ``why`` says why. ``NOTHING`` has no atoms."""
    from rdkit import rdBase

    with rdBase.BlockLogs():
        mol = None if molecule == NOTHING else sanitised(molecule)
        facts: dict[str, Any] = {
            "atoms": list(molecule.atoms),
            "bonds": [[i, j, BONDS[kind]] for i, j, kind in molecule.bonds],
            "smiles": None if mol is None else smiles_of(mol),
        }
        if mol is None:
            facts["why"] = objection(to_rdkit(molecule)) if molecule.atoms else "no molecule"
    return facts


def lines_of(molecules: Iterable[Molecule], **more: Sequence[Any]) -> str:
    """A line of JSON each, see ``as_json``. ``more``: further keys, a value for each molecule."""
    records = [as_json(molecule) for molecule in molecules]
    for key, values in more.items():
        for record, value in zip(records, values, strict=True):
            record[key] = value
    return "".join(f"{json.dumps(record)}\n" for record in records)


def write_molecules(molecules: Sequence[Molecule], folder: Path, **more: Sequence[Any]) -> int:
    """``samples.jsonl``, all of them, and ``samples.smi``, a SMILES per line of those that have
    one, with the number of its line in the other file. Returns how many have none."""
    lines = lines_of(molecules, **more)
    smiles = [json.loads(line)["smiles"] for line in lines.splitlines()]
    write_text(folder / GRAPH_FILE, lines)
    listed = [f"{text} {k}\n" for k, text in enumerate(smiles, start=1) if text is not None]
    write_text(folder / SMILES_FILE, "".join(listed))
    return smiles.count(None)
