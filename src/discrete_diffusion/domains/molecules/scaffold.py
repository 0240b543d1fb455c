"""``Scaffold``: a given part of a molecule, and the atoms at which more may be attached."""

from __future__ import annotations

import random
from dataclasses import dataclass

from discrete_diffusion.domains.molecules.molecule import (
    Molecule,
    MoleculeError,
    foreign_atoms,
    from_rdkit,
    is_mol_block,
    not_a_molecule,
    objection,
    parsed,
)
from discrete_diffusion.domains.molecules.smiles_files import read_rows
from discrete_diffusion.layout.vocab_config import VocabConfig
from discrete_diffusion.runtime.inputs import GivenObjects, place_of_line


@dataclass(frozen=True)
class Scaffold:
    """``molecule``: what is given. ``open_atoms``: of each atom, whether new ones may be attached;
    ``marked``: the file says where, and new bonds may join two such atoms. ``line``: its number
    in the file."""

    line: int
    molecule: Molecule
    open_atoms: tuple[bool, ...]
    marked: bool

    def __len__(self) -> int:
        return len(self.molecule.atoms)

    def walk(self, generator: random.Random) -> list[int]:
        """The atoms in the order of a random walk in depth, as SMILES visits them."""
        around: list[list[int]] = [[] for _ in self.molecule.atoms]
        for i, j, _ in self.molecule.bonds:
            around[i].append(j)
            around[j].append(i)
        order: list[int] = []
        starts = list(range(len(self)))
        generator.shuffle(starts)
        stack, seen = starts, set()
        while stack:
            atom = stack.pop()
            if atom not in seen:
                seen.add(atom)
                order.append(atom)
                following = [k for k in around[atom] if k not in seen]
                generator.shuffle(following)
                stack += following
        return order

    def tokens(
        self, order: list[int], slots: list[int], size: int, vocab: VocabConfig
    ) -> list[int]:
        """Ids of a molecule of ``size`` atoms, the unknown ones -1, with atom ``order[k]`` in slot
        ``slots[k]``.

        Known are the atoms; of pairs of them the bonds, and that there is none, unless new bonds
        may begin at both; and that there is none between an atom that is not open and a new one.
        """
        none = vocab.edge_offset + vocab.no_edge
        ids = [vocab.pad_id] * vocab.length
        ids[:size] = [-1] * size
        atom_in = dict(zip(slots, order, strict=True))
        bonds = {(i, j): kind for i, j, kind in self.molecule.bonds}
        for slot, atom in atom_in.items():
            ids[slot] = vocab.node_types.index(self.molecule.atoms[atom])
        for i in range(size):
            for j in range(i + 1, size):
                u, v = atom_in.get(i), atom_in.get(j)
                ends = [atom for atom in (u, v) if atom is not None]
                kind = None
                if u is not None and v is not None:
                    kind = bonds.get((min(u, v), max(u, v)))
                if kind is not None:
                    known = vocab.edge_offset + kind
                else:
                    may_be = all(self.open_atoms[atom] for atom in ends)
                    known = -1 if may_be and (self.marked or len(ends) < 2) else none
                ids[vocab.edge_position(i, j)] = known
        return ids


def read_scaffolds(
    given: str | GivenObjects, vocab: VocabConfig, *, keep_charges: bool
) -> list[Scaffold]:
    """The scaffolds of a file of SMILES or mol blocks, see ``read_rows``; or of objects, a text in
    SMILES each.

    An atom ``*`` (a dummy atom) marks where new atoms attach: at its neighbours and nowhere else.
    Without one, new atoms may attach anywhere, and there are no further bonds within the scaffold.

    Raises ``ValueError`` naming file and line for one that cannot be read, has an atom that
    ``vocab`` lacks, or leaves no slot for a new atom.
    """
    scaffolds = []
    for line, text in read_rows(given):
        try:
            scaffolds.append(_scaffold(line, text, vocab, keep_charges))
        except MoleculeError as error:
            raise ValueError(f"{place_of_line(given, line)}: {error}") from error
    if not scaffolds:
        raise ValueError(f"{given} holds no scaffold")
    return scaffolds


def _scaffold(line: int, text: str, vocab: VocabConfig, keep_charges: bool) -> Scaffold:
    from rdkit import rdBase

    with rdBase.BlockLogs():
        mol = parsed(text)
        if mol is None:
            written = parsed(text, sanitize=False)
            what = "" if is_mol_block(text) else f"{text}: "
            raise MoleculeError(
                not_a_molecule(text) if written is None else f"{what}{objection(written)}"
            )
        whole = from_rdkit(mol, keep_charges=keep_charges)
    dummies = {k for k, atom in enumerate(whole.atoms) if atom == "*"}
    kept = [k for k in range(len(whole.atoms)) if k not in dummies]
    place = {k: new for new, k in enumerate(kept)}
    marked = {
        end
        for i, j, _ in whole.bonds
        for end, other in ((i, j), (j, i))
        if other in dummies and end not in dummies
    }
    bonds = [(place[i], place[j], kind) for i, j, kind in whole.bonds if i in place and j in place]
    molecule = Molecule(tuple(whole.atoms[k] for k in kept), tuple(bonds))
    if not kept:
        raise MoleculeError("no atom is given")
    if foreign := foreign_atoms([molecule], vocab.node_types):
        raise MoleculeError(
            f"atom {foreign[0]} is none that the model knows: {', '.join(vocab.node_types)}"
        )
    if len(kept) >= vocab.n_max:
        raise MoleculeError(
            f"{len(kept)} atoms leave none to sample: the model samples at most {vocab.n_max}"
        )
    return Scaffold(line, molecule, tuple(k in marked or not dummies for k in kept), bool(dummies))
