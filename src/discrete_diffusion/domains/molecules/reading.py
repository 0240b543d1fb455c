"""Molecules read from files of SMILES or mol blocks, with every row accounted for, and cached on
disk."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from discrete_diffusion.config.values import check_name, counted
from discrete_diffusion.data.canonical import canonical_orders
from discrete_diffusion.data.files import cache_dir, cached_arrays
from discrete_diffusion.domains.molecules import molecule as graphs
from discrete_diffusion.domains.molecules.metrics import is_connected
from discrete_diffusion.domains.molecules.molecule import BONDS, Molecule, MoleculeError
from discrete_diffusion.domains.molecules.molecule_files import Row, read_rows
from discrete_diffusion.layout.vocab_config import VocabConfig
from discrete_diffusion.runtime import progress

logger = logging.getLogger(__name__)

VERSION = 1
"""Version of the cached arrays and of how they are computed."""

MAX_NAMED = 5
"""Most rows that a message names one by one."""

_FEW = 2_000
"""Most rows of a file that is read again instead of cached."""

_MAX_ROWS, _MAX_TOKENS = 4_096, 1 << 23
"""Most molecules, and most of their tokens, whose symmetries are counted at once."""

_CACHED = {
    "line": (np.int64, (None,)),
    "num_atoms": (np.int16, (None,)),
    "atom": (np.uint8, (None,)),
    "num_bonds": (np.int16, (None,)),
    "bond": (np.int16, (None, 3)),
    "log_num_orders": (np.float64, (None,)),
    "facts": (np.uint8, (None,)),
}


class Problem(NamedTuple):
    """A row that is left out, and the reason."""

    line: int
    reason: str


@dataclass(frozen=True)
class ReadMolecules:
    """Molecules that were read from a file, and problems.

    ``molecules``: atoms in the order of the canonical SMILES; ``lines``: line of each molecule.
    ``log_num_orders``: Float64[M], log(n!/|Aut|). ``num_recovered``: number of molecules that rdkit
    refuses with their charges and accepts without them.
    """

    path: str
    molecules: list[Molecule]
    lines: list[int]
    log_num_orders: Tensor
    problems: list[Problem]
    num_recovered: int

    def __len__(self) -> int:
        return len(self.molecules)

    def only(self, atoms: Sequence[str], n_max: int) -> ReadMolecules:
        """Keep molecules of at most ``n_max`` atoms, all among ``atoms``; other molecules become
        problems."""
        # molecules that the vocabulary can represent
        kept, problems = [], [*self.problems]
        for k, molecule in enumerate(self.molecules):
            if len(molecule.atoms) > n_max:
                reason = f"{len(molecule.atoms)} atoms, more than data.max_nodes={n_max}"
            elif foreign := graphs.foreign_atoms([molecule], atoms):
                reason = f"atom {foreign[0]} is not in data.atoms={list(atoms)}"
            else:
                kept.append(k)
                continue
            problems.append(Problem(self.lines[k], reason))
        return replace(
            self,
            molecules=[self.molecules[k] for k in kept],
            lines=[self.lines[k] for k in kept],
            log_num_orders=self.log_num_orders[kept],
            problems=sorted(problems),
        )

    def refuse_problems(self, remedy: str) -> None:
        """Raise ``ValueError`` naming the first problem, if there is one, and a remedy."""
        if self.problems:
            line, reason = self.problems[0]
            others = len(self.problems) - 1
            more = f" (and {others:,} more)" if others else ""
            raise ValueError(f"{self.path}, line {line:,}: {reason}{more}; {remedy}")

    def summary(self) -> str:
        """Sentence such as ``FILE: 133,247 molecules; left out 3 rows: line 7: ...``"""
        # what was read, and what was unusual
        parts = [f"{self.path}: {len(self):,} molecules"]
        if self.num_recovered:
            parts.append(
                f"{self.num_recovered:,} of them cannot be with the charges that the file has"
            )
        if pieces := sum(not is_connected(each) for each in self.molecules):
            parts.append(f"{pieces:,} in several pieces")
        if dummies := sum(map(graphs.has_dummy, self.molecules)):
            parts.append(
                f"{dummies:,} with the atom *, which is not an element and is kept as a type"
            )
        # rows that were left out
        if self.problems:
            named = ", ".join(f"line {line:,}: {why}" for line, why in self.problems[:MAX_NAMED])
            more = ", ..." if len(self.problems) > MAX_NAMED else ""
            parts.append(f"left out {counted(len(self.problems), 'row')}: {named}{more}")
        return "; ".join(parts)


def read_molecules(
    path: str | Path, *, charges: str = "kept", column: str | None = None
) -> ReadMolecules:
    """Read the molecules of a file by ``read_rows``; molecules of a long file are cached on disk.

    ``charges``: ``kept``, an atom with a formal charge has a type of its own; ``ignored``, it
    counts as its element, as in the benchmarks of QM9.

    Every molecule is written as canonical SMILES without stereochemistry and read again, so that
    equal molecules get the same Kekulised bonds and the same order of atoms. Raises the errors of
    ``read_rows``, and ``ValueError`` for unknown ``charges`` and without rdkit.
    """
    graphs.check_installed()
    check_name("data.charges", charges, graphs.CHARGES)
    # short files are parsed, long ones cached
    rows = read_rows(path, column)
    if len(rows) <= _FEW:
        arrays = _arrays(rows, charges, str(path))
    else:
        from rdkit import __version__ as rdkit_version

        # a cache of these rows, as this rdkit reads them
        digest = hashlib.sha256(f"{rdkit_version} {charges}\n".encode())
        digest.update("\n".join(f"{row.line} {row.text}" for row in rows).encode())
        arrays = cached_arrays(
            cache_dir() / f"molecules-v{VERSION}-{digest.hexdigest()[:24]}.npz",
            f"molecules of {path}",
            _CACHED,
            lambda: _arrays(rows, charges, str(path)),
        )
    # flat lists of atoms and bonds
    facts = json.loads(arrays["facts"].tobytes())
    atoms = [facts["atoms"][k] for k in arrays["atom"].tolist()]
    bonds = list(map(tuple, arrays["bond"].tolist()))
    # cut at the last atom and bond of each molecule
    last_atom, last_bond = arrays["num_atoms"].cumsum(), arrays["num_bonds"].cumsum()
    molecules, a, b = [], 0, 0
    for next_a, next_b in zip(last_atom.tolist(), last_bond.tolist(), strict=True):
        molecules.append(Molecule(tuple(atoms[a:next_a]), tuple(bonds[b:next_b])))
        a, b = next_a, next_b
    return ReadMolecules(
        str(path),
        molecules,
        arrays["line"].tolist(),
        torch.from_numpy(arrays["log_num_orders"].copy()),
        [Problem(*problem) for problem in facts["problems"]],
        facts["num_recovered"],
    )


def molecule_of(text: str, *, keep_charges: bool) -> tuple[Molecule, bool]:
    """Molecule of SMILES or a mol block, and True if it was read without its charges.

    Raises ``MoleculeError`` with the reason if the text is not a molecule.
    """
    from rdkit import rdBase

    # as written, or without charges
    with rdBase.BlockLogs():
        mol = graphs.parse_molecule(text)
        recovered = mol is None
        if mol is None:
            # charges that will be dropped may be the only fault
            mol = None if keep_charges else graphs.parse_molecule(text, sanitize=False)
            if mol is None:
                raise MoleculeError(graphs.reason_of_refusal(text))
            mol.UpdatePropertyCache(strict=False)
        if mol.GetNumAtoms() == 0:
            raise MoleculeError("no atoms")
        molecule = graphs.from_rdkit(mol, keep_charges=keep_charges)
        return canonical_molecule(molecule, keep_charges=keep_charges), recovered


def canonical_molecule(molecule: Molecule, *, keep_charges: bool) -> Molecule:
    """The same molecule with its atoms in the order of its canonical SMILES, Kekulised in that
    order. Raises ``MoleculeError`` if rdkit refuses it."""
    from rdkit import Chem

    # a sanitised molecule
    if not keep_charges:
        molecule = graphs.with_charged_atoms(molecule)
    mol = graphs.sanitised(molecule)
    if mol is None:
        raise MoleculeError(graphs.rdkit_objection(graphs.to_rdkit(molecule)))
    # its own SMILES fixes the order of atoms
    text = graphs.smiles_of(mol)
    again = Chem.MolFromSmiles(text)
    if again is None:
        raise MoleculeError(f"rdkit cannot read the canonical SMILES it writes, {text}")
    return graphs.from_rdkit(again, keep_charges=keep_charges)


def _arrays(rows: Sequence[Row], charges: str, name: str) -> dict[str, np.ndarray]:
    """Arrays of the cache: the atoms and bonds of all molecules, and other facts as JSON."""
    lines: list[int] = []
    molecules: list[Molecule] = []
    problems: list[Problem] = []
    num_recovered = 0
    # molecules and problems by row
    for row in progress.track(rows, f"reading {Path(name).name}", "molecules"):
        try:
            molecule, recovered = molecule_of(row.text, keep_charges=charges == "kept")
        except MoleculeError as error:
            problems.append(Problem(row.line, str(error)))
            continue
        lines.append(row.line)
        molecules.append(molecule)
        num_recovered += recovered
    # atoms as indices of their names
    names = graphs.foreign_atoms(molecules, ())
    index = {atom: k for k, atom in enumerate(names)}
    facts = {"atoms": names, "problems": problems, "num_recovered": num_recovered}
    # flat arrays
    return {
        "line": np.array(lines, dtype=np.int64),
        "num_atoms": np.array([len(molecule.atoms) for molecule in molecules], dtype=np.int16),
        "atom": np.array([index[a] for m in molecules for a in m.atoms], dtype=np.uint8),
        "num_bonds": np.array([len(molecule.bonds) for molecule in molecules], dtype=np.int16),
        "bond": np.array([b for m in molecules for b in m.bonds], np.int16).reshape(-1, 3),
        "log_num_orders": _log_num_orders(molecules, names),
        "facts": np.frombuffer(json.dumps(facts).encode(), dtype=np.uint8),
    }


def _log_num_orders(molecules: Sequence[Molecule], names: Sequence[str]) -> np.ndarray:
    """Float64[M], log(n!/|Aut|) of each molecule, in parts, because tokens take much more memory
    than molecules."""
    result = np.zeros(len(molecules))
    # parts of molecules of about one size, so that few tokens are padding
    left = sorted(range(len(molecules)), key=lambda k: len(molecules[k].atoms))
    parts = []
    while left:
        num = max(1, min(_MAX_ROWS, _MAX_TOKENS // len(molecules[left[-1]].atoms) ** 2))
        parts.append(left[-num:])
        del left[-num:]
    for part in progress.track(parts, "counting symmetries", "parts"):
        n_max = len(molecules[part[-1]].atoms)
        vocab = VocabConfig(n_max=n_max, node_types=tuple(names), edge_types=BONDS)
        encoded = graphs.encode_molecules([molecules[k] for k in part], vocab)
        result[part] = canonical_orders(encoded.x0, encoded.num_nodes, vocab).log_num_orders
    return result


def changed_rows(source: ReadMolecules, texts: Mapping[int, str]) -> list[tuple[int, str, str]]:
    """Find molecules changed by a round trip, apart from stereochemistry and isotopes.

    Return their lines, and canonical SMILES before and after. ``texts``: SMILES or mol blocks of
    the file, by line.
    """
    from rdkit import rdBase

    changed = []
    rows = list(zip(source.lines, source.molecules, strict=True))
    # canonical SMILES before and after
    with rdBase.BlockLogs():
        for line, molecule in progress.track(rows, "comparing", "molecules"):
            charged = graphs.with_charged_atoms(molecule)
            mol = graphs.sanitised(molecule) or graphs.sanitised(charged)
            after = "nothing" if mol is None else graphs.smiles_of(mol)
            written = graphs.parse_molecule(texts[line])
            before = "what rdkit refuses" if written is None else graphs.smiles_of(written)
            if before != after:
                changed.append((line, before, after))
    return changed
