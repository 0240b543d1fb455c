"""Pictures of molecules by rdkit."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from discrete_diffusion.domains.molecules.molecule import (
    Molecule,
    sanitised,
    to_rdkit,
    with_charged_atoms,
)
from discrete_diffusion.runtime.atomic_files import atomic_write, write_text

logger = logging.getLogger(__name__)

MAX_DRAWN = 36
"""Molecules in a picture."""

_COLUMNS, _SIZE = 6, (220, 190)

_CLOSE = 0.1
"""Share of a bond's length, 1.5: atoms nearer than this lie on each other."""


def plot_molecules(
    molecules: Sequence[Molecule], path: Path, legends: Sequence[str] | None = None
) -> None:
    """A grid of them, ``.png`` or ``.svg``; those that rdkit refuses are plotted all the same and
    called not valid. ``legends``: what stands below each. Where a library of the system that rdkit
    draws with is missing, as on servers, a warning says so, and no picture is made."""
    from rdkit import rdBase

    try:
        from rdkit.Chem import Draw
        from rdkit.Chem.Draw import MolDrawOptions
    except ImportError as error:
        logger.warning("%s is left out: rdkit cannot draw here (%s)", path, error)
        return

    shown, captions = [], []
    with rdBase.BlockLogs():
        for k, molecule in enumerate(molecules[:MAX_DRAWN]):
            mol, note = _drawable(molecule)
            shown.append(mol)
            captions.append(", ".join(filter(None, [legends[k] if legends else "", note])))
        options: Any = MolDrawOptions()
        options.prepareMolsBeforeDrawing = False  # or those that are not valid are refused
        svg = path.suffix.lower() == ".svg"
        drawing = Draw.MolsToGridImage(
            shown,
            molsPerRow=min(_COLUMNS, max(1, len(shown))),
            subImgSize=_SIZE,
            legends=captions,
            useSVG=svg,
            drawOptions=options,
        )
    if svg:
        write_text(path, drawing)
        return
    with atomic_write(path) as unfinished:
        drawing.save(unfinished)


def _drawable(molecule: Molecule) -> tuple[Any, str]:
    """Molecule with coordinates, and what is wrong with it."""
    from rdkit import Chem
    from rdkit.Chem import rdDepictor

    note = ""
    mol = sanitised(molecule)
    if mol is None:
        mol, note = sanitised(with_charged_atoms(molecule)), "valid with charges"
    if mol is None:
        mol, note = to_rdkit(molecule), "not valid"
        mol.UpdatePropertyCache(strict=False)
        Chem.FastFindRings(mol)
    rdDepictor.Compute2DCoords(mol)
    if note == "not valid" and _overlap(mol):
        _lay_on_a_circle(mol)
    return mol, note


def _overlap(mol: Any) -> bool:
    """True if two atoms lie on each other, where a bond between them could not be drawn."""
    places = mol.GetConformer().GetPositions()
    apart = np.linalg.norm(places[:, None] - places[None], axis=-1)
    return bool((apart[np.triu_indices(len(places), k=1)] < _CLOSE).any())


def _lay_on_a_circle(mol: Any) -> None:
    num = mol.GetNumAtoms()
    for k in range(num):
        angle, radius = 2 * math.pi * k / num, 0.25 * num
        place = (radius * math.cos(angle), radius * math.sin(angle), 0.0)
        mol.GetConformer().SetAtomPosition(k, place)
