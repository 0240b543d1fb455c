"""Molecules that contain a given scaffold: the scaffold put into slots, the rest drawn."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from discrete_diffusion.categorical import make_generator
from discrete_diffusion.data.base import sample_sizes
from discrete_diffusion.domains.molecules.build import SMILES_ORDER
from discrete_diffusion.domains.molecules.molecule import (
    Molecule,
    MoleculeError,
    decode,
    foreign_atoms,
    from_rdkit,
    is_mol_block,
    not_a_molecule,
    objection,
    parsed,
)
from discrete_diffusion.domains.molecules.molecule_files import read_rows
from discrete_diffusion.evaluation.sample_kind import Partials
from discrete_diffusion.layout.vocab_config import VocabConfig
from discrete_diffusion.runtime.inputs import GivenObjects, place_of_line
from discrete_diffusion.sampling.likelihood import log_prob_of

if TYPE_CHECKING:
    from discrete_diffusion.layout.vocab_config import VocabConfig
    from discrete_diffusion.sampling.model import Model


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


PROPOSALS = 16
"""Ways to place a scaffold that are weighed for each completion, if the order of atoms counts."""

_SIZES, _PLACES, _SCORES, _CHOICE = 30, 31, 32, 33


def completed_sizes(
    scaffolds: Sequence[Scaffold],
    num: int,
    size_counts: Sequence[int],
    *,
    seed: int,
    size: int | Sequence[int] | None = None,
) -> list[list[int]]:
    """Atoms of the ``num`` molecules for each scaffold, at least one more than it has: ``size``, a
    number or a choice of numbers, or drawn from ``size_counts``, how many molecules of each size
    were trained on.

    Raises ``ValueError`` if no size leaves room for one."""
    found = []
    for k, scaffold in enumerate(scaffolds):
        least = len(scaffold) + 1
        if isinstance(size, int) and size < least:
            raise ValueError(
                f"num_atoms={size}: the scaffold of line {scaffold.line} has {len(scaffold)} "
                f"atoms; ask for {least} or more"
            )
        if isinstance(size, int):
            found.append([size] * num)
            continue
        counts = [
            count if n >= least and (size is None or n in size) else 0
            for n, count in enumerate(size_counts)
        ]
        if not any(counts):
            raise ValueError(
                f"the scaffold of line {scaffold.line} has {len(scaffold)} atoms, and no molecule "
                f"that was trained on has more; ask for a number, num_atoms={least}"
            )
        found.append(sample_sizes(counts, num, make_generator(seed, _SIZES, k)).tolist())
    return found


@dataclass(frozen=True)
class PlacedScaffold:
    """Atom ``order[k]`` of a scaffold in slot ``slots[k]``; ``tokens``: ids of a molecule, negative
    where they are to be drawn."""

    order: list[int]
    slots: list[int]
    tokens: list[int]


def place_scaffolds(
    model: Model,
    scaffolds: Sequence[Scaffold],
    sizes: Sequence[Sequence[int]],
    vocab: VocabConfig,
    *,
    node_order: str,
    seed: int,
) -> Partials[Molecule]:
    """Molecules that contain each scaffold, one of each of its ``sizes``, of which nothing else is
    known; scaffold atoms come first, numbered as given, then the sampled ones.

    A model that knows molecules in random order takes the scaffold in the first slots: the exact
    conditional, where the sampler is exact. One of the order of SMILES has to be given the place of
    the scaffold's atoms stand: ``PROPOSALS`` walks over them, spread over random slots, are weighed
    by the model's probability of what they fix, and one is sampled: an approximation.

    Raises ``ValueError`` for another order.
    """
    if node_order not in ("random", SMILES_ORDER):
        raise ValueError(
            f"given=FILE takes a model of data.node_order=random or {SMILES_ORDER}; this one has "
            f"{node_order}"
        )
    rows = [scaffold for scaffold, each in zip(scaffolds, sizes, strict=True) for _ in each]
    num_atoms = list(chain(*sizes))
    chooser = None if node_order == "random" else random.Random(f"{seed} {_PLACES}")
    proposals = 1 if chooser is None else PROPOSALS
    placed = [
        _placed(scaffold, size, vocab, chooser)
        for scaffold, size in zip(rows, num_atoms, strict=True)
        for _ in range(proposals)
    ]
    partial = torch.tensor([place.tokens for place in placed])
    if proposals > 1:
        chosen = _chosen(_log_weights(model, partial, vocab, seed).view(-1, proposals), seed)
        partial, placed = partial[chosen], [placed[row] for row in chosen.tolist()]
    real = vocab.real_positions(torch.tensor(num_atoms))

    def molecules(rows: Tensor, tokens: Tensor) -> list[Molecule]:
        places = (placed[row] for row in rows.tolist())
        pairs = zip(decode(tokens, vocab), places, strict=True)
        return [_as_given(molecule, place.order, place.slots) for molecule, place in pairs]

    return Partials(partial, real, molecules)


def _placed(
    scaffold: Scaffold, size: int, vocab: VocabConfig, chooser: random.Random | None
) -> PlacedScaffold:
    """Place the atoms in the first slots; with a ``chooser``, a walk over its atoms, spread over
    random slots."""
    if chooser is None:
        order = slots = list(range(len(scaffold)))
    else:
        order = scaffold.walk(chooser)
        slots = sorted(chooser.sample(range(size), len(scaffold)))
    return PlacedScaffold(order, slots, scaffold.tokens(order, slots, size, vocab))


def _chosen(log_weights: Tensor, seed: int) -> Tensor:
    """Int[M], of log weights Float[M, P]: one of the P proposals of each, numbered through."""
    generator = make_generator(seed, _CHOICE)
    picked = torch.multinomial(log_weights.softmax(dim=1), 1, generator=generator).squeeze(1)
    return torch.arange(len(log_weights)) * log_weights.shape[1] + picked


def _log_weights(model: Model, partial: Tensor, vocab: VocabConfig, seed: int) -> Tensor:
    """Float64[R]: log-probability of all that is known of each."""
    real = partial != vocab.pad_id
    device = model.algorithm.layout.support.device
    found = log_prob_of(
        model.algorithm,
        *(part.to(device) for part in (partial.clamp(min=0), real & (partial >= 0), real)),
        generator=make_generator(seed, _SCORES, device=device),
        batch_size=model.rows_at_once,
    )
    return found.log_prob.cpu()


def _as_given(molecule: Molecule, order: Sequence[int], slots: Sequence[int]) -> Molecule:
    """Renumbered: atom ``order[k]`` of the scaffold was in slot ``slots[k]``."""
    new = dict(zip(slots, order, strict=True))
    others = (slot for slot in range(len(molecule.atoms)) if slot not in new)
    new.update({slot: len(order) + k for k, slot in enumerate(others)})
    atoms = [""] * len(molecule.atoms)
    for slot, place in new.items():
        atoms[place] = molecule.atoms[slot]
    ends = ((new[i], new[j], kind) for i, j, kind in molecule.bonds)
    bonds = [(min(i, j), max(i, j), kind) for i, j, kind in ends]
    return Molecule(tuple(atoms), tuple(sorted(bonds)))
