"""Molecules read from files of SMILES or mol blocks, every row accounted for, and kept on disk."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from discrete_diffusion.config.values import check_name, counted
from discrete_diffusion.data.canonical import canonical_orders
from discrete_diffusion.data.files import cache_dir, cached_arrays
from discrete_diffusion.domains.molecules.metrics.validity import is_connected
from discrete_diffusion.domains.molecules.molecule import (
    BONDS,
    CHARGES,
    Molecule,
    MoleculeError,
    check_installed,
    encode,
    foreign_atoms,
    from_rdkit,
    has_dummy,
    is_mol_block,
    not_a_molecule,
    objection,
    parsed,
    sanitised,
    smiles_of,
    to_rdkit,
    with_charged_atoms,
)
from discrete_diffusion.domains.molecules.molecule_files import Row, read_rows
from discrete_diffusion.layout.vocab_config import VocabConfig
from discrete_diffusion.runtime import progress

logger = logging.getLogger(__name__)

VERSION = 1
"""Version of the cached arrays and of how they are computed."""

MAX_NAMED = 5
"""Rows that a message names one by one."""

_FEW = 2_000
"""Rows that are read again rather than kept on disk."""

_AT_ONCE, _TOKENS_AT_ONCE = 4_096, 1 << 23


class Problem(NamedTuple):
    """A row that is left out, and why."""

    line: int
    reason: str


@dataclass(frozen=True)
class ReadMolecules:
    """Contents of a file. ``molecules``: atoms in the order of the canonical SMILES; ``lines``: of
    each. ``log_num_orders``: Float64[M], log(n!/|Aut|). ``num_recovered``: molecules that rdkit
    refuses with their charges and takes without them.
    """

    path: str
    molecules: list[Molecule]
    lines: list[int]
    log_num_orders: Tensor
    problems: list[Problem]
    num_recovered: int

    def __len__(self) -> int:
        return len(self.molecules)

    def only(self, atoms: Sequence[str] | None, n_max: int | None) -> ReadMolecules:
        """Molecules that the vocabulary has all atoms and bonds of; the others are problems."""
        kept, problems = [], [*self.problems]
        for k, molecule in enumerate(self.molecules):
            reason = _too_much(molecule, atoms, n_max)
            if reason is None:
                kept.append(k)
            else:
                problems.append(Problem(self.lines[k], reason))
        return replace(
            self,
            molecules=[self.molecules[k] for k in kept],
            lines=[self.lines[k] for k in kept],
            log_num_orders=self.log_num_orders[kept],
            problems=sorted(problems),
        )

    def refuse_problems(self, remedy: str) -> None:
        """``ValueError`` naming the first problem, if there is one, and what to do."""
        if self.problems:
            line, reason = self.problems[0]
            others = len(self.problems) - 1
            more = f" (and {others:,} more)" if others else ""
            raise ValueError(f"{self.path}, line {line:,}: {reason}{more}; {remedy}")

    def summary(self) -> str:
        """``FILE: 133,247 molecules; left out 3 rows: line 7: ...``"""
        parts = [f"{self.path}: {len(self):,} molecules"]
        if self.num_recovered:
            parts.append(
                f"{self.num_recovered:,} of them cannot be with the charges that the file has"
            )
        if pieces := sum(not is_connected(each) for each in self.molecules):
            parts.append(f"{pieces:,} in several pieces")
        if dummies := sum(map(has_dummy, self.molecules)):
            parts.append(f"{dummies:,} with the atom *, which is no element and is kept as a type")
        if self.problems:
            named = ", ".join(f"line {line:,}: {why}" for line, why in self.problems[:MAX_NAMED])
            more = ", ..." if len(self.problems) > MAX_NAMED else ""
            parts.append(f"left out {counted(len(self.problems), 'row')}: {named}{more}")
        return "; ".join(parts)


def _too_much(molecule: Molecule, atoms: Sequence[str] | None, n_max: int | None) -> str | None:
    if n_max is not None and len(molecule.atoms) > n_max:
        return f"{len(molecule.atoms)} atoms, more than data.n_max={n_max}"
    if atoms is not None and (foreign := foreign_atoms([molecule], atoms)):
        return f"atom {foreign[0]} is none of data.atoms={list(atoms)}"
    return None


def read_molecules(
    path: str | Path, *, charges: str = "kept", column: str | None = None
) -> ReadMolecules:
    """The molecules of a file, see ``read_rows``; of a long one kept on disk.

    ``charges``: ``kept``, atoms with a formal charge are atoms of another type; ``ignored``, they
    are their element, which is how the benchmarks of QM9 count them.

    Every molecule is written as canonical SMILES without stereochemistry and read again, so that
    equal molecules get the same Kekulised bonds and the same order of atoms, however the file
    writes them. Raises what ``read_rows`` does, and ``ValueError`` for other ``charges`` and
    without rdkit.
    """
    check_installed()
    check_name("data.charges", charges, CHARGES)
    rows = read_rows(path, column)
    if len(rows) <= _FEW:
        arrays = _arrays(rows, charges, str(path))
    else:
        arrays = cached_arrays(
            _cache_path(rows, charges),
            f"molecules of {path}",
            _CACHED,
            lambda: _arrays(rows, charges, str(path)),
        )
    return _from_arrays(str(path), arrays)


def molecule_of(text: str, *, keep_charges: bool) -> tuple[Molecule, bool]:
    """One molecule of SMILES or a mol block, and whether it had to be read without its charges.

    Raises ``MoleculeError`` saying why it is none."""
    from rdkit import rdBase

    with rdBase.BlockLogs():
        mol = parsed(text)
        recovered = mol is None
        if mol is None:
            mol = _unsanitised(text, keep_charges)
        if mol.GetNumAtoms() == 0:
            raise MoleculeError("no atoms")
        molecule = from_rdkit(mol, keep_charges=keep_charges)
        return canonical(molecule, keep_charges=keep_charges), recovered


def canonical(molecule: Molecule, *, keep_charges: bool) -> Molecule:
    """The same molecule with its atoms in the order of its canonical SMILES, Kekulised in that
    order. ``MoleculeError`` if rdkit refuses it."""
    from rdkit import Chem

    if not keep_charges:
        molecule = with_charged_atoms(molecule)
    mol = sanitised(molecule)
    if mol is None:
        raise MoleculeError(objection(to_rdkit(molecule)))
    text = smiles_of(mol)
    again = Chem.MolFromSmiles(text)
    if again is None:
        raise MoleculeError(f"rdkit cannot read the canonical SMILES it writes, {text}")
    return from_rdkit(again, keep_charges=keep_charges)


def _unsanitised(text: str, keep_charges: bool) -> Any:
    """A molecule that rdkit refuses, for its charges to be dropped; ``MoleculeError`` saying why if
    they are kept."""
    mol = parsed(text, sanitize=False)
    if mol is None:
        raise MoleculeError(not_a_molecule(text))
    if keep_charges:
        what = "" if is_mol_block(text) else f"{text}: "
        raise MoleculeError(f"{what}{objection(mol)}")
    mol.UpdatePropertyCache(strict=False)
    return mol


_CACHED = {
    "line": (np.int64, (None,)),
    "num_atoms": (np.int16, (None,)),
    "atom": (np.uint8, (None,)),
    "num_bonds": (np.int16, (None,)),
    "bond": (np.int16, (None, 3)),
    "log_num_orders": (np.float64, (None,)),
    "facts": (np.uint8, (None,)),
}


def _cache_path(rows: Sequence[Row], charges: str) -> Path:
    from rdkit import __version__ as rdkit_version

    digest = hashlib.sha256(f"{rdkit_version} {charges}\n".encode())
    digest.update("\n".join(f"{row.line} {row.text}" for row in rows).encode())
    return cache_dir() / f"molecules-v{VERSION}-{digest.hexdigest()[:24]}.npz"


def _arrays(rows: Sequence[Row], charges: str, name: str) -> dict[str, np.ndarray]:
    """Arrays kept on disk: all molecules one after the other, and as JSON the rest."""
    keep = charges == "kept"
    found: list[tuple[int, Molecule]] = []
    problems: list[Problem] = []
    num_recovered = 0
    for row in progress.track(rows, f"reading {Path(name).name}", "molecules"):
        try:
            molecule, recovered = molecule_of(row.text, keep_charges=keep)
        except MoleculeError as error:
            problems.append(Problem(row.line, str(error)))
            continue
        found.append((row.line, molecule))
        num_recovered += recovered
    molecules = [molecule for _, molecule in found]
    names = foreign_atoms(molecules, ())
    index = {atom: k for k, atom in enumerate(names)}
    facts = {"atoms": names, "problems": problems, "num_recovered": num_recovered}
    return {
        "line": np.array([line for line, _ in found], dtype=np.int64),
        "num_atoms": np.array([len(molecule.atoms) for molecule in molecules], dtype=np.int16),
        "atom": np.array([index[a] for m in molecules for a in m.atoms], dtype=np.uint8),
        "num_bonds": np.array([len(molecule.bonds) for molecule in molecules], dtype=np.int16),
        "bond": np.array([b for m in molecules for b in m.bonds], np.int16).reshape(-1, 3),
        "log_num_orders": _log_num_orders(molecules, names),
        "facts": np.frombuffer(json.dumps(facts).encode(), dtype=np.uint8),
    }


def _log_num_orders(molecules: Sequence[Molecule], names: Sequence[str]) -> np.ndarray:
    """Float64[M]: log(n!/|Aut|); in parts, as their tokens take much more room than they do."""
    if not molecules:
        return np.zeros(0)
    found = np.zeros(len(molecules))
    for part in progress.track(_parts(molecules), "counting symmetries", "parts"):
        n_max = len(molecules[part[-1]].atoms)
        vocab = VocabConfig(n_max=n_max, node_types=tuple(names), edge_types=BONDS)
        graphs = encode([molecules[k] for k in part], vocab)
        found[part] = canonical_orders(graphs.x0, graphs.num_nodes, vocab).log_num_orders
    return found


def _parts(molecules: Sequence[Molecule]) -> list[list[int]]:
    """Numbers of molecules of about one size, so that few tokens are padding."""
    left = sorted(range(len(molecules)), key=lambda k: len(molecules[k].atoms))
    parts = []
    while left:
        num = max(1, min(_AT_ONCE, _TOKENS_AT_ONCE // len(molecules[left[-1]].atoms) ** 2))
        parts.append(left[-num:])
        del left[-num:]
    return parts


def _from_arrays(path: str, arrays: dict[str, np.ndarray]) -> ReadMolecules:
    facts = json.loads(arrays["facts"].tobytes())
    atoms = [facts["atoms"][k] for k in arrays["atom"].tolist()]
    bonds = list(map(tuple, arrays["bond"].tolist()))
    last_atom, last_bond = arrays["num_atoms"].cumsum(), arrays["num_bonds"].cumsum()
    molecules, a, b = [], 0, 0
    for next_a, next_b in zip(last_atom.tolist(), last_bond.tolist(), strict=True):
        molecules.append(Molecule(tuple(atoms[a:next_a]), tuple(bonds[b:next_b])))
        a, b = next_a, next_b
    return ReadMolecules(
        path,
        molecules,
        arrays["line"].tolist(),
        torch.from_numpy(arrays["log_num_orders"].copy()),
        [Problem(*problem) for problem in facts["problems"]],
        facts["num_recovered"],
    )


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
