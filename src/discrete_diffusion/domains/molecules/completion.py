"""``sample`` of a model of molecules, fresh or with a given scaffold, and ``evaluate`` against real
molecules."""

from __future__ import annotations

import logging
import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import torch
from torch import Tensor

from discrete_diffusion.categorical import make_generator
from discrete_diffusion.data.base import sample_sizes
from discrete_diffusion.domains.molecules import molecule as graphs
from discrete_diffusion.domains.molecules.build import SMILES_ORDER
from discrete_diffusion.domains.molecules.molecule import DUMMY, Molecule, MoleculeError
from discrete_diffusion.domains.molecules.molecule_files import read_rows
from discrete_diffusion.domains.molecules.reading import read_molecules
from discrete_diffusion.domains.molecules.samples import MoleculeSamples
from discrete_diffusion.evaluation import sample_kind
from discrete_diffusion.evaluation.measured_data import (
    RealData,
    check_reference,
    held_out_rows,
    measured_data,
    some_held_out,
)
from discrete_diffusion.evaluation.report import Samples
from discrete_diffusion.evaluation.requests import EvaluateRequest, SampleRequest
from discrete_diffusion.evaluation.sample_kind import Partials, SampleEvaluation
from discrete_diffusion.evaluation.trained_model import COMPLETIONS, TrainedModel, requested_sizes
from discrete_diffusion.layout.vocab_config import VocabConfig
from discrete_diffusion.runtime.inputs import GivenObjects, place_of_line
from discrete_diffusion.sampling.likelihood import log_prob_of
from discrete_diffusion.sampling.model import Model

logger = logging.getLogger(__name__)

PROPOSALS = 16
"""Number of ways to place a scaffold that are weighed for each completion in SMILES order."""

_SIZES, _PLACES, _SCORES, _CHOICE = 30, 31, 32, 33
"""Keys of independent random generators."""

_SMILES_ORDER_NOTE = (
    f"where a scaffold's atoms stand in the SMILES is sampled among {PROPOSALS} ways each, weighed "
    "by the model; a model of data.node_order=random needs no such choice"
)


@dataclass(frozen=True)
class Scaffold:
    """Given part of a molecule, from a ``line`` of a file.

    ``open_atoms``: for each atom, True if new atoms may be attached. ``marked``: the file marks
    these atoms, and new bonds may join two of them.
    """

    line: int
    molecule: Molecule
    open_atoms: tuple[bool, ...]
    marked: bool

    def __len__(self) -> int:
        return len(self.molecule.atoms)

    def walk(self, generator: random.Random) -> list[int]:
        """Atoms in the order of a random depth-first walk, as in SMILES."""
        # neighbours of each atom
        around: list[list[int]] = [[] for _ in self.molecule.atoms]
        for i, j, _ in self.molecule.bonds:
            around[i].append(j)
            around[j].append(i)
        # the last atom on the stack is next
        order: list[int] = []
        stack, seen = list(range(len(self))), set()
        generator.shuffle(stack)
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
        """Ids of a molecule of ``size`` atoms, with atom ``order[k]`` in slot ``slots[k]``; unknown
        ids are -1.

        The scaffold's atoms and bonds are known. Pairs of atoms have no bond where none may be
        added: between two of its atoms, unless both are open and marked, and between a closed atom
        and a new atom.
        """
        # unknown ids, then the scaffold's atoms
        none = vocab.edge_offset + vocab.no_edge
        ids = [vocab.pad_id] * vocab.length
        ids[:size] = [-1] * size
        atom_in = dict(zip(slots, order, strict=True))
        for slot, atom in atom_in.items():
            ids[slot] = vocab.node_types.index(self.molecule.atoms[atom])
        # a bond, no bond, or unknown, for each pair of slots
        bonds: dict[tuple[int, ...], int] = {(i, j): kind for i, j, kind in self.molecule.bonds}
        for i in range(size):
            for j in range(i + 1, size):
                ends = [atom_in[slot] for slot in (i, j) if slot in atom_in]
                if (pair := tuple(sorted(ends))) in bonds:
                    known = vocab.edge_offset + bonds[pair]
                else:
                    may_be = all(self.open_atoms[atom] for atom in ends)
                    known = -1 if may_be and (self.marked or len(ends) < 2) else none
                ids[vocab.edge_position(i, j)] = known
        return ids


def read_scaffolds(
    given: str | GivenObjects, vocab: VocabConfig, *, keep_charges: bool
) -> list[Scaffold]:
    """Scaffolds of a file of SMILES or mol blocks, see ``read_rows``, or of SMILES as objects.

    An atom ``*`` (a dummy atom) marks where new atoms attach: at its neighbours and nowhere else.
    Without a mark, new atoms may attach anywhere, and the scaffold gets no further bonds inside.

    Raises ``ValueError`` naming file and line for a scaffold that cannot be read, has an atom that
    ``vocab`` lacks, or leaves no slot for a new atom.
    """
    scaffolds = []
    # errors name file and line
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

    # parse, with the reason if that fails
    with rdBase.BlockLogs():
        mol = graphs.parse_molecule(text)
        if mol is None:
            raise MoleculeError(graphs.reason_of_refusal(text))
        whole = graphs.from_rdkit(mol, keep_charges=keep_charges)
    # dummy atoms are left out, and their neighbours are open
    dummies = {k for k, atom in enumerate(whole.atoms) if atom == DUMMY}
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
    # the model must be able to complete it
    if not kept:
        raise MoleculeError("no atom is given")
    if foreign := graphs.foreign_atoms([molecule], vocab.node_types):
        raise MoleculeError(
            f"the model does not know atom {foreign[0]}, only {', '.join(vocab.node_types)}"
        )
    if len(kept) >= vocab.n_max:
        raise MoleculeError(
            f"{len(kept)} atoms leave none to sample: the model samples at most {vocab.n_max}"
        )
    return Scaffold(line, molecule, tuple(k in marked or not dummies for k in kept), bool(dummies))


def completed_sizes(
    scaffolds: Sequence[Scaffold],
    num: int,
    size_counts: Sequence[int],
    *,
    seed: int,
    size: int | Sequence[int] | None = None,
) -> list[list[int]]:
    """Numbers of atoms of ``num`` molecules for each scaffold, more than the scaffold has.

    ``size``: a number or a choice of numbers. By default sizes are sampled from ``size_counts``,
    the numbers of training molecules of each size. Raises ``ValueError`` if no size leaves room.
    """
    sizes = []
    # a size for every completion
    for k, scaffold in enumerate(scaffolds):
        least = len(scaffold) + 1
        if isinstance(size, int) and size < least:
            raise ValueError(
                f"num_atoms={size}: the scaffold of line {scaffold.line} has {len(scaffold)} "
                f"atoms; ask for {least} or more"
            )
        if isinstance(size, int):
            sizes.append([size] * num)
            continue
        # sizes of training molecules that leave room
        counts = [
            count if n >= least and (size is None or n in size) else 0
            for n, count in enumerate(size_counts)
        ]
        if not any(counts):
            raise ValueError(
                f"the scaffold of line {scaffold.line} has {len(scaffold)} atoms, and no molecule "
                f"that was trained on has more; ask for a number, num_atoms={least}"
            )
        sizes.append(sample_sizes(counts, num, make_generator(seed, _SIZES, k)).tolist())
    return sizes


@dataclass(frozen=True)
class PlacedScaffold:
    """Scaffold with atom ``order[k]`` in slot ``slots[k]``. ``tokens``: ids of a molecule, negative
    where they are sampled."""

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
    """Partial molecules that contain each scaffold, one for each of its ``sizes``.

    For a model of random order the scaffold is in the first slots; completions follow the exact
    conditional distribution if the sampler is exact. For a model of the order of SMILES the slots
    have to be chosen: ``PROPOSALS`` random walks over the scaffold's atoms, in random slots, are
    weighed by the model's probability of the known tokens, and one is sampled. This is an
    approximation.

    In completions scaffold atoms come first, numbered as given, then the sampled atoms. Raises
    ``ValueError`` for another order.
    """
    if node_order not in ("random", SMILES_ORDER):
        raise ValueError(
            f"given=FILE takes a model of data.node_order=random or {SMILES_ORDER}; this one has "
            f"{node_order}"
        )
    # a row for each completion
    rows = [scaffold for scaffold, each in zip(scaffolds, sizes, strict=True) for _ in each]
    num_atoms = list(chain(*sizes))
    # one or several placements of each row
    chooser = None if node_order == "random" else random.Random(f"{seed} {_PLACES}")
    proposals = 1 if chooser is None else PROPOSALS
    placed = [
        _placed(scaffold, size, vocab, chooser)
        for scaffold, size in zip(rows, num_atoms, strict=True)
        for _ in range(proposals)
    ]
    partial = torch.tensor([place.tokens for place in placed])
    # the model chooses among proposals
    if proposals > 1:
        chosen = _choose_places(model, partial, vocab, seed)
        partial, placed = partial[chosen], [placed[row] for row in chosen.tolist()]
    # sampled molecules numbered as the scaffold is
    real = vocab.real_positions(torch.tensor(num_atoms))

    def molecules(rows: Tensor, tokens: Tensor) -> list[Molecule]:
        places = (placed[row] for row in rows.tolist())
        pairs = zip(graphs.decode_molecules(tokens, vocab), places, strict=True)
        return [_as_given(molecule, place.order, place.slots) for molecule, place in pairs]

    return Partials(partial, real, molecules)


def _placed(
    scaffold: Scaffold, size: int, vocab: VocabConfig, chooser: random.Random | None
) -> PlacedScaffold:
    """Place the scaffold's atoms in the first slots or, with a ``chooser``, in random slots in the
    order of a random walk."""
    if chooser is None:
        order = slots = list(range(len(scaffold)))
    else:
        order = scaffold.walk(chooser)
        slots = sorted(chooser.sample(range(size), len(scaffold)))
    return PlacedScaffold(order, slots, scaffold.tokens(order, slots, size, vocab))


def _choose_places(model: Model, partial: Tensor, vocab: VocabConfig, seed: int) -> Tensor:
    """Int[M], one of every ``PROPOSALS`` rows of partial molecules Int[M * PROPOSALS, L], sampled
    by the model's probability of their known tokens."""
    # known tokens that carry data
    real = partial != vocab.pad_id
    device = model.algorithm.layout.support.device
    estimate = log_prob_of(
        model.algorithm,
        *(part.to(device) for part in (partial.clamp(min=0), real & (partial >= 0), real)),
        generator=make_generator(seed, _SCORES, device=device),
        batch_size=model.rows_at_once,
    )
    log_weights = estimate.log_prob.cpu().view(-1, PROPOSALS)
    generator = make_generator(seed, _CHOICE)
    picked = torch.multinomial(log_weights.softmax(dim=1), 1, generator=generator).squeeze(1)
    return torch.arange(len(log_weights)) * PROPOSALS + picked


def _as_given(molecule: Molecule, order: Sequence[int], slots: Sequence[int]) -> Molecule:
    """Renumber a molecule whose slot ``slots[k]`` holds atom ``order[k]`` of the scaffold."""
    # new numbers of slots: the scaffold first
    new = dict(zip(slots, order, strict=True))
    others = (slot for slot in range(len(molecule.atoms)) if slot not in new)
    new.update({slot: len(order) + k for k, slot in enumerate(others)})
    # atoms and bonds with their new numbers
    atoms = [""] * len(molecule.atoms)
    for slot, place in new.items():
        atoms[place] = molecule.atoms[slot]
    ends = ((new[i], new[j], kind) for i, j, kind in molecule.bonds)
    bonds = [(min(i, j), max(i, j), kind) for i, j, kind in ends]
    return Molecule(tuple(atoms), tuple(sorted(bonds)))


def sample_molecules(request: SampleRequest, trained: TrainedModel, vocab: VocabConfig) -> Samples:
    """Sample ``num_samples`` molecules, of ``num_atoms`` atoms if that is given.

    Written as ``samples.smi``, ``samples.jsonl`` and a picture."""
    graphs.check_installed()
    kind = MoleculeSamples(vocab)
    return sample_kind.sample_kind(request, trained, kind, num_atoms=request.num_atoms)


def complete_file(request: SampleRequest, trained: TrainedModel, vocab: VocabConfig) -> Samples:
    """Sample ``num_completions`` molecules that contain each scaffold of ``given``.

    They are written as fresh molecules are, each with the line of its scaffold. Raises
    ``ValueError`` naming file and line for a wrong scaffold.
    """
    graphs.check_installed()
    data, molecules = trained.data_config, MoleculeSamples(vocab)
    # scaffolds of the file, and sizes of their completions
    scaffolds = read_scaffolds(request.given, vocab, keep_charges=data.charges == "kept")
    size = requested_sizes(trained, vocab.n_max, num_atoms=request.num_atoms)
    each = COMPLETIONS if request.num_completions is None else request.num_completions
    sizes = completed_sizes(scaffolds, each, trained.size_counts, seed=request.seed, size=size)
    # a scaffold that no molecule of the structure contains is refused before any sampling
    structure = molecules.structure(request)
    for scaffold, several in zip(scaffolds, sizes, strict=True):
        slots, distinct = list(range(len(scaffold))), sorted({*several})
        tokens = torch.tensor([scaffold.tokens(slots, slots, size, vocab) for size in distinct])
        place = place_of_line(request.given, scaffold.line)
        places = [f"{place}, in a molecule of {size} atoms" for size in distinct]
        structure.check_given(tokens, vocab.mask_id, places)
    return sample_kind.complete_kind(
        request,
        trained,
        molecules,
        noun="scaffold",
        asked=[scaffold.line for scaffold in scaffolds for _ in range(each)],
        make=lambda model: place_scaffolds(
            model, scaffolds, sizes, vocab, node_order=data.node_order, seed=request.seed
        ),
        order=_SMILES_ORDER_NOTE if data.node_order == SMILES_ORDER else None,
    )


def evaluate_model(
    request: EvaluateRequest, trained: TrainedModel, vocab: VocabConfig
) -> SampleEvaluation[Molecule]:
    """Measure a model, and its samples against the split that its checkpoint held out."""
    graphs.check_installed()
    on = measured_data(request, trained)
    data, split = on.data, on.split
    reference = some_held_out(request, data, split).molecules(split)
    training, num = data.molecules("train") or None, len(data.splits[split])
    real = RealData(on.name, reference, training, reference, num, on)
    return sample_kind.evaluate_samples(request, trained, MoleculeSamples(vocab), real)


def evaluate_files(request: EvaluateRequest) -> SampleEvaluation[Molecule]:
    """Measure ``samples=FILE`` or ``samples=[A,B]`` against ``reference=FILE``.

    Raises ``ValueError`` without a reference, and for an empty list.
    """
    graphs.check_installed()
    if request.samples and request.reference is None:
        raise ValueError(
            "samples=FILE needs reference=FILE, held-out molecules to compare with, as SMILES"
        )
    check_reference(request, of_files=True)
    # held-out and training molecules of files
    known = _read_real_molecules(request.reference, request)
    training = (
        None
        if request.training_data is None
        else _read_real_molecules(request.training_data, request)
    )
    reference = [known[row] for row in held_out_rows(request, len(known)).tolist()]
    real = RealData(str(request.reference), reference, training, known, len(known))
    return sample_kind.evaluate_sample_files(request, MoleculeSamples(), real)


def _read_real_molecules(path: str, request: EvaluateRequest) -> list[Molecule]:
    """Read the molecules of a file of SMILES; the log counts rows that cannot be read."""
    source = read_molecules(path, charges=request.charges)
    if not request.skip_invalid:
        source.refuse_problems("leave such rows out with skip_invalid=true")
    logger.log(logging.WARNING if source.problems else logging.INFO, "%s", source.summary())
    return source.molecules
