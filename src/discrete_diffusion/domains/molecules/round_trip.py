"""Check that molecules come back the same from atoms and bonds."""

from __future__ import annotations

from collections.abc import Mapping

from discrete_diffusion.domains.molecules.molecule import (
    parsed,
    sanitised,
    smiles_of,
    with_charged_atoms,
)
from discrete_diffusion.domains.molecules.reading import ReadMolecules
from discrete_diffusion.runtime import progress


def changed_rows(found: ReadMolecules, texts: Mapping[int, str]) -> list[tuple[int, str, str]]:
    """Line, canonical SMILES before and after, of molecules that are others when they come back:
    without stereochemistry and isotopes, which are never kept. ``texts``: SMILES or mol blocks of
    the file, by line."""
    from rdkit import rdBase

    changed = []
    rows = list(zip(found.lines, found.molecules, strict=True))
    with rdBase.BlockLogs():
        for line, molecule in progress.track(rows, "comparing", "molecules"):
            mol = sanitised(molecule) or sanitised(with_charged_atoms(molecule))
            after = "nothing" if mol is None else smiles_of(mol)
            written = parsed(texts[line])
            before = "what rdkit refuses" if written is None else smiles_of(written)
            if before != after:
                changed.append((line, before, after))
    return changed
