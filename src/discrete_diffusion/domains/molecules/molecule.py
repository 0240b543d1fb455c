"""``Molecule``: heavy atoms and Kekulised bonds, to and from rdkit and tokens."""

from __future__ import annotations

import re
import reprlib
from collections.abc import Iterable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from discrete_diffusion.data.graph_tokens import (
    EncodedGraphs,
    TypedGraph,
    decode_graphs,
    encode_graphs,
)
from discrete_diffusion.runtime.package import install_command

if TYPE_CHECKING:
    from torch import Tensor

    from discrete_diffusion.layout.vocab_config import VocabConfig

BONDS = ("single", "double", "triple", "none")
"""Edge types. There is no aromatic bond: rings are Kekulised."""

CHARGES = ("kept", "ignored")
"""Treatments of formal charges by a data set: atoms of their own types, or none at all."""

_MOST_ATOMS, _MOST_CHARACTERS, _MOST_CHARGE = 512, 1 << 13, 9

_LONG = reprlib.Repr()
_LONG.maxstring = 200

_ATOM = re.compile(r"([A-Z][a-z]?|\*)(?:([+-])([2-9]?))?")


class Molecule(NamedTuple):
    """``atoms``: an element each, with its formal charge if it has one: ``N``, ``O-``, ``Fe+2``.
    ``bonds``: (i, j, k), i < j, of type ``BONDS[k]``. Hydrogen is implied by valence.

    Stereochemistry, isotopes and radicals are not represented.
    """

    atoms: tuple[str, ...]
    bonds: tuple[tuple[int, int, int], ...]


NOTHING = Molecule((), ())
"""A sample that is no molecule at all: it has no atom."""

DUMMY = "*"
"""An atom that stands for any, where something may be attached."""


class MoleculeError(ValueError):
    """Why something is no molecule that can be represented."""


def check_installed() -> None:
    """``ValueError`` naming the extra ``molecules`` if rdkit is missing."""
    try:
        import rdkit  # noqa: F401
    except ImportError as error:
        raise ValueError(
            f"molecules take rdkit, which is not installed: {install_command('molecules')}"
        ) from error


def atom_name(symbol: str, charge: int) -> str:
    """``N``, ``N+``, ``O-``, ``Fe+2``."""
    if charge == 0:
        return symbol
    return symbol + ("+" if charge > 0 else "-") + (str(abs(charge)) if abs(charge) > 1 else "")


@cache
def parse_atom(name: str) -> tuple[int, int]:
    """Atomic number and formal charge of ``atom_name``; ``ValueError`` for what is none."""
    from rdkit import Chem

    found = _ATOM.fullmatch(name)
    if found is not None:
        symbol, sign, size = found.groups()
        charge = 0 if sign is None else int(f"{sign}{size or 1}")
        try:
            number = 0 if symbol == DUMMY else Chem.GetPeriodicTable().GetAtomicNumber(symbol)
        except RuntimeError:
            number = -1
        if number >= 0:
            return number, charge
    raise ValueError(f"{name!r} is no atom; expected an element with its charge, as in C, N+, Fe+2")


def is_mol_block(text: str) -> bool:
    """True of several lines, which SMILES are not."""
    return "\n" in text


def parsed(text: str, *, sanitize: bool = True) -> Any:
    """The rdkit molecule of SMILES or of a mol block, without hydrogen that it lists; None if rdkit
    refuses it. Raises ``MoleculeError`` for one that is too large to be a graph of tokens."""
    from rdkit import Chem

    is_block = is_mol_block(text)
    if len(text) > _MOST_CHARACTERS and not is_block:
        raise MoleculeError(f"SMILES of {len(text):,} characters, more than {_MOST_CHARACTERS:,}")
    read = Chem.MolFromMolBlock if is_block else Chem.MolFromSmiles
    mol = read(text, sanitize=sanitize)
    if mol is not None and mol.GetNumAtoms() > _MOST_ATOMS:
        raise MoleculeError(
            f"{mol.GetNumAtoms():,} atoms, more than {_MOST_ATOMS}: a token for each pair of them "
            "is more than memory holds"
        )
    if mol is None or sanitize or not is_block:
        return mol
    mol.UpdatePropertyCache(strict=False)
    return Chem.RemoveHs(mol, sanitize=False)


def not_a_molecule(text: str) -> str:
    """Why rdkit refuses even the syntax of a text."""
    return "is no mol block" if is_mol_block(text) else f"{_LONG.repr(text)} is no SMILES"


def from_rdkit(mol: Any, *, keep_charges: bool = True) -> Molecule:
    """The heavy atoms and Kekulised bonds of an rdkit molecule, in its order, which is Kekulised in
    place. Raises ``MoleculeError`` for an aromatic ring that cannot be Kekulised and for a bond
    that is none of ``BONDS``."""
    from rdkit import Chem

    try:
        Chem.Kekulize(mol, clearAromaticFlags=True)
    except Chem.KekulizeException as error:
        raise MoleculeError(f"{str(error).strip()}") from error
    charges = [mol.GetAtomWithIdx(k).GetFormalCharge() for k in range(mol.GetNumAtoms())]
    if keep_charges and max(map(abs, charges), default=0) > _MOST_CHARGE:
        raise MoleculeError(f"a charge of {max(charges, key=abs):+d}; expected -9 to +9")
    # By index: rdkit's own iterators take several times as long.
    atoms = tuple(
        atom_name(_symbol(mol.GetAtomWithIdx(k)), charge if keep_charges else 0)
        for k, charge in enumerate(charges)
    )
    bonds = []
    for bond in map(mol.GetBondWithIdx, range(mol.GetNumBonds())):
        order = int(bond.GetBondType())  # of rdkit's enumeration, beyond 3 are other kinds
        if order not in (1, 2, 3):
            kind = str(bond.GetBondType()).lower()
            raise MoleculeError(f"a bond is {kind}; expected single, double or triple")
        i, j = bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()
        bonds.append((min(i, j), max(i, j), order - 1))
    return Molecule(atoms, tuple(sorted(bonds)))


def _symbol(atom: Any) -> str:
    """Symbol of its element; ``*`` for a dummy atom, whatever its file calls it."""
    return str(atom.GetSymbol()) if atom.GetAtomicNum() else DUMMY


@cache
def _atom_of(name: str) -> Any:
    from rdkit import Chem

    number, charge = parse_atom(name)
    atom = Chem.Atom(number)
    atom.SetFormalCharge(charge)
    return atom


def to_rdkit(molecule: Molecule) -> Any:
    """Convert to an rdkit molecule that is not sanitised, its atoms in the same order."""
    from rdkit import Chem

    kinds = (Chem.BondType.SINGLE, Chem.BondType.DOUBLE, Chem.BondType.TRIPLE)
    mol = Chem.RWMol()
    for name in molecule.atoms:
        mol.AddAtom(_atom_of(name))
    for i, j, kind in molecule.bonds:
        mol.AddBond(i, j, kinds[kind])
    return mol


def with_charged_atoms(molecule: Molecule) -> Molecule:
    """The same with N+ for N of four bonds and O+ for O of three, as in ammonium: what is lost
    where charges are ignored and bonds still tell."""
    valence = [0] * len(molecule.atoms)
    for i, j, kind in molecule.bonds:
        valence[i] += kind + 1
        valence[j] += kind + 1
    charged = {("N", 4): "N+", ("O", 3): "O+"}
    named = zip(molecule.atoms, valence, strict=True)
    return Molecule(tuple(charged.get(pair, pair[0]) for pair in named), molecule.bonds)


def sanitised(molecule: Molecule) -> Any:
    """Convert to a sanitised rdkit molecule; None if rdkit refuses it, say for its valences."""
    from rdkit import Chem

    mol = to_rdkit(molecule)
    try:
        Chem.SanitizeMol(mol)
    except (Chem.MolSanitizeException, ValueError):
        return None
    return mol


def objection(mol: Any) -> str:
    """Message of rdkit about a molecule that it refuses."""
    from rdkit import Chem

    try:
        found = [problem.Message() for problem in Chem.DetectChemistryProblems(mol)]
    except RuntimeError:  # of an atom with millions of hydrogens
        found = []
    return " ".join(found[0].split()) if found else "cannot be sanitised"


def smiles_of(mol: Any) -> str:
    """The canonical SMILES of an rdkit molecule, without stereochemistry."""
    from rdkit import Chem

    return str(Chem.MolToSmiles(mol, isomericSmiles=False))


def encode(molecules: Sequence[Molecule], vocab: VocabConfig) -> EncodedGraphs:
    """Molecules as tokens, atoms in their order.

    Raises ``ValueError`` for an atom that ``vocab.node_types`` lacks, and for too many."""
    return encode_graphs([as_graph(molecule, vocab) for molecule in molecules], vocab)


def as_graph(molecule: Molecule, vocab: VocabConfig) -> TypedGraph:
    """Graph with the indices of types in place of their names."""
    index = {name: k for k, name in enumerate(vocab.node_types)}
    if foreign := foreign_atoms([molecule], vocab.node_types):
        raise ValueError(f"atom {foreign[0]} is none of data.atoms={list(vocab.node_types)}")
    return TypedGraph(tuple(index[atom] for atom in molecule.atoms), molecule.bonds)


def has_dummy(molecule: Molecule) -> bool:
    """True if an atom is ``DUMMY``, charged or not."""
    return any(atom[0] == DUMMY for atom in molecule.atoms)


def foreign_atoms(molecules: Iterable[Molecule], known: Sequence[str]) -> list[str]:
    """The atoms that are not among the known ones, each once."""
    atoms = dict.fromkeys(atom for molecule in molecules for atom in molecule.atoms)
    return [atom for atom in atoms if atom not in known]


def decode(tokens: Tensor, vocab: VocabConfig) -> list[Molecule]:
    """The molecules of tokens Int[B, L]. Raises what ``decode_graphs`` does."""
    return [
        Molecule(tuple(vocab.node_types[k] for k in graph.nodes), graph.edges)
        for graph in decode_graphs(tokens, vocab)
    ]
