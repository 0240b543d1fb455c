"""``Molecule``: heavy atoms and Kekulised bonds, to and from rdkit and tokens."""

from __future__ import annotations

import re
import reprlib
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any, NamedTuple

from torch import Tensor

from discrete_diffusion.data import graph_tokens
from discrete_diffusion.data.graph_tokens import EncodedGraphs, TypedGraph
from discrete_diffusion.layout.vocab_config import VocabConfig
from discrete_diffusion.runtime.package import install_command

BONDS = ("single", "double", "triple", "none")
"""Edge types; aromatic rings are Kekulised."""

CHARGES = ("kept", "ignored")
"""Treatments of formal charges by a data set: charged atoms are types, or charges are dropped."""

_MAX_ATOMS, _MAX_CHARACTERS, _MAX_CHARGE = 512, 1 << 13, 9

_SHORTENED = reprlib.Repr()
_SHORTENED.maxstring = 200

_ATOM = re.compile(r"([A-Z][a-z]?|\*)(?:([+-])([2-9]?))?")


class Molecule(NamedTuple):
    """Heavy atoms and bonds; hydrogen is implied by valence.

    ``atoms``: elements with their formal charge, ``N``, ``O-``, ``Fe+2``. ``bonds``: (i, j, k), i <
    j, of type ``BONDS[k]``. Stereochemistry, isotopes and radicals are not represented.
    """

    atoms: tuple[str, ...]
    bonds: tuple[tuple[int, int, int], ...]


NOTHING = Molecule((), ())
"""Stand-in for a sample that is not a molecule: it has no atom."""

DUMMY = "*"
"""Placeholder atom that marks where something may be attached."""


class MoleculeError(ValueError):
    """Reason why a molecule cannot be read or represented."""


def check_installed() -> None:
    """Raise ``ValueError`` naming the extra ``molecules`` if rdkit is missing."""
    try:
        import rdkit  # noqa: F401
    except ImportError as error:
        raise ValueError(
            f"molecules take rdkit, which is not installed: {install_command('molecules')}"
        ) from error


def atom_name(symbol: str, charge: int) -> str:
    """Name of an atom: ``N``, ``N+``, ``O-``, ``Fe+2``."""
    if charge == 0:
        return symbol
    return symbol + ("+" if charge > 0 else "-") + (str(abs(charge)) if abs(charge) > 1 else "")


@cache
def parse_atom(name: str) -> tuple[int, int]:
    """Atomic number and formal charge of an ``atom_name``; ``ValueError`` for other text."""
    from rdkit import Chem

    # an element with its charge
    parts = _ATOM.fullmatch(name)
    if parts is not None:
        symbol, sign, size = parts.groups()
        charge = 0 if sign is None else int(f"{sign}{size or 1}")
        try:
            number = 0 if symbol == DUMMY else Chem.GetPeriodicTable().GetAtomicNumber(symbol)
        except RuntimeError:
            number = -1
        if number >= 0:
            return number, charge
    raise ValueError(
        f"{name!r} is not an atom; expected an element with its charge, as in C, N+, Fe+2"
    )


def parse_molecule(text: str, *, sanitize: bool = True) -> Any:
    """Parse SMILES or a mol block, without its explicit hydrogen; None if rdkit refuses it.

    Raises ``MoleculeError`` for a molecule that is too large to be a graph of tokens."""
    from rdkit import Chem

    is_block = "\n" in text
    # limits before and after parsing
    if len(text) > _MAX_CHARACTERS and not is_block:
        raise MoleculeError(f"SMILES of {len(text):,} characters, more than {_MAX_CHARACTERS:,}")
    read = Chem.MolFromMolBlock if is_block else Chem.MolFromSmiles
    mol = read(text, sanitize=sanitize)
    if mol is not None and mol.GetNumAtoms() > _MAX_ATOMS:
        raise MoleculeError(
            f"{mol.GetNumAtoms():,} atoms, more than {_MAX_ATOMS}: a token for each pair of them "
            "is more than memory holds"
        )
    # explicit hydrogen stays where sanitising is left out
    if mol is None or sanitize or not is_block:
        return mol
    mol.UpdatePropertyCache(strict=False)
    return Chem.RemoveHs(mol, sanitize=False)


def reason_of_refusal(text: str) -> str:
    """Reason why rdkit refuses SMILES or a mol block: its syntax, or its chemistry."""
    mol, is_block = parse_molecule(text, sanitize=False), "\n" in text
    if mol is None:
        return "is not a mol block" if is_block else f"{_SHORTENED.repr(text)} is not SMILES"
    return rdkit_objection(mol) if is_block else f"{text}: {rdkit_objection(mol)}"


def from_rdkit(mol: Any, *, keep_charges: bool = True) -> Molecule:
    """Heavy atoms and Kekulised bonds of an rdkit molecule, in its order; it is Kekulised in place.

    Raises ``MoleculeError`` for an aromatic ring that cannot be Kekulised, and for a bond that is
    not among ``BONDS``."""
    from rdkit import Chem

    try:
        Chem.Kekulize(mol, clearAromaticFlags=True)
    except Chem.KekulizeException as error:
        raise MoleculeError(f"{str(error).strip()}") from error
    # atoms with their charges, by index: rdkit's own iterators take several times as long
    charges = [mol.GetAtomWithIdx(k).GetFormalCharge() for k in range(mol.GetNumAtoms())]
    if keep_charges and max(map(abs, charges), default=0) > _MAX_CHARGE:
        raise MoleculeError(f"a charge of {max(charges, key=abs):+d}; expected -9 to +9")
    # a dummy atom is * under every name that a file gives it
    elements = (mol.GetAtomWithIdx(k) for k in range(len(charges)))
    symbols = [str(each.GetSymbol()) if each.GetAtomicNum() else DUMMY for each in elements]
    atoms = tuple(
        atom_name(symbol, charge if keep_charges else 0)
        for symbol, charge in zip(symbols, charges, strict=True)
    )
    # bonds of the orders that are represented
    bonds = []
    for bond in map(mol.GetBondWithIdx, range(mol.GetNumBonds())):
        order = int(bond.GetBondType())  # rdkit's numbers above 3 are other kinds
        if order not in (1, 2, 3):
            kind = str(bond.GetBondType()).lower()
            raise MoleculeError(f"a bond is {kind}; expected single, double or triple")
        i, j = bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()
        bonds.append((min(i, j), max(i, j), order - 1))
    return Molecule(atoms, tuple(sorted(bonds)))


@cache
def _atom_of(name: str) -> Any:
    from rdkit import Chem

    number, charge = parse_atom(name)
    atom = Chem.Atom(number)
    atom.SetFormalCharge(charge)
    return atom


def to_rdkit(molecule: Molecule) -> Any:
    """Convert to an rdkit molecule, not sanitised, with its atoms in the same order."""
    from rdkit import Chem

    kinds = (Chem.BondType.SINGLE, Chem.BondType.DOUBLE, Chem.BondType.TRIPLE)
    mol = Chem.RWMol()
    for name in molecule.atoms:
        mol.AddAtom(_atom_of(name))
    for i, j, kind in molecule.bonds:
        mol.AddBond(i, j, kinds[kind])
    return mol


def with_charged_atoms(molecule: Molecule) -> Molecule:
    """The same molecule with N+ for N of four bonds and O+ for O of three, as in ammonium: charges
    that follow from the bonds."""
    valence = [0] * len(molecule.atoms)
    for i, j, kind in molecule.bonds:
        valence[i] += kind + 1
        valence[j] += kind + 1
    charged = {("N", 4): "N+", ("O", 3): "O+"}
    named = zip(molecule.atoms, valence, strict=True)
    return Molecule(tuple(charged.get(pair, pair[0]) for pair in named), molecule.bonds)


def sanitised(molecule: Molecule) -> Any:
    """Convert to a sanitised rdkit molecule; None if rdkit refuses it."""
    from rdkit import Chem

    mol = to_rdkit(molecule)
    try:
        Chem.SanitizeMol(mol)
    except (Chem.MolSanitizeException, ValueError):
        return None
    return mol


def rdkit_objection(mol: Any) -> str:
    """rdkit's message about a molecule that it refuses."""
    from rdkit import Chem

    try:
        messages = [problem.Message() for problem in Chem.DetectChemistryProblems(mol)]
    except RuntimeError:  # for an atom with millions of hydrogens
        messages = []
    return " ".join(messages[0].split()) if messages else "cannot be sanitised"


def smiles_of(mol: Any) -> str:
    """Canonical SMILES of an rdkit molecule, without stereochemistry."""
    from rdkit import Chem

    return str(Chem.MolToSmiles(mol, isomericSmiles=False))


def encode_molecules(molecules: Sequence[Molecule], vocab: VocabConfig) -> EncodedGraphs:
    """Encode molecules as tokens, with atoms in their order.

    Raises ``ValueError`` for an atom that ``vocab.node_types`` lacks, and for too many atoms.
    """
    if foreign := foreign_atoms(molecules, vocab.node_types):
        raise ValueError(f"atom {foreign[0]} is not in data.atoms={list(vocab.node_types)}")
    index = {name: k for k, name in enumerate(vocab.node_types)}
    return graph_tokens.encode_graphs(
        [TypedGraph(tuple(index[atom] for atom in each.atoms), each.bonds) for each in molecules],
        vocab,
    )


def has_dummy(molecule: Molecule) -> bool:
    """True if a molecule has the atom ``DUMMY``, charged or not."""
    return any(atom[0] == DUMMY for atom in molecule.atoms)


def foreign_atoms(molecules: Iterable[Molecule], known: Sequence[str]) -> list[str]:
    """Atoms that are not among the ``known`` atoms, each once."""
    atoms = dict.fromkeys(atom for molecule in molecules for atom in molecule.atoms)
    return [atom for atom in atoms if atom not in known]


def decode_molecules(tokens: Tensor, vocab: VocabConfig) -> list[Molecule]:
    """Decode molecules from tokens Int[B, L]. Raises the errors of ``decode_graphs``."""
    return [
        Molecule(tuple(vocab.node_types[k] for k in graph.nodes), graph.edges)
        for graph in graph_tokens.decode_graphs(tokens, vocab)
    ]
