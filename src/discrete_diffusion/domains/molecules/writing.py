"""Files of sampled molecules: every graph as atoms and bonds, and as SMILES where it has one."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from discrete_diffusion.domains.molecules.molecule import (
    BONDS,
    NOTHING,
    Molecule,
    objection,
    sanitised,
    smiles_of,
    to_rdkit,
)
from discrete_diffusion.runtime.atomic_files import write_text

SMILES_FILE, GRAPH_FILE = "samples.smi", "samples.jsonl"


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
