"""Molecules as a ``GraphDataset``, split by distinct molecule, from a ``data`` config."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from functools import cached_property
from itertools import pairwise

import torch
from omegaconf import DictConfig
from torch import Tensor

from discrete_diffusion.categorical import make_generator
from discrete_diffusion.config.values import counted
from discrete_diffusion.data.base import SPLITS, TokenDataset, given_paths
from discrete_diffusion.data.graph_tokens import GraphDataset
from discrete_diffusion.domains.molecules import molecule as graphs
from discrete_diffusion.domains.molecules.metrics import verdicts_of
from discrete_diffusion.domains.molecules.molecule import Molecule
from discrete_diffusion.domains.molecules.reading import ReadMolecules, read_molecules
from discrete_diffusion.layout.vocab_config import VocabConfig

logger = logging.getLogger(__name__)

SMILES_ORDER = "smiles"
"""Order of atoms in the canonical SMILES, mostly next to their neighbours."""

SOURCES = {
    "qm9": "QM9's SMILES are in qm9.csv of MoleculeNet and in gdb9.sdf of PyTorch Geometric",
    "zinc": "ZINC-250k's are in zinc250k.csv of GDSS and MoFlow, and in icml18-jtnn/data/zinc",
}
"""Where to find a data set, by ``data.name``."""

_REMEDY = "leave such rows out with data.skip_invalid=true"


class MoleculeDataset(GraphDataset):
    """Molecules in three splits, their atoms in the order of the canonical SMILES.

    ``node_order``: ``random`` relabels the atoms each time a molecule is read; ``smiles`` is the
    order of the canonical SMILES; ``canonical`` sorts by type and surroundings. ``source``: names
    of the files, for the log.
    """

    size_unit = "atoms"
    fixed_orders = (SMILES_ORDER,)

    def __init__(
        self,
        splits: Mapping[str, Sequence[Molecule]],
        vocab: VocabConfig,
        *,
        node_order: str,
        log_num_orders: Mapping[str, Tensor] | None = None,
        source: str = "",
    ) -> None:
        encoded = {name: graphs.encode_molecules(splits[name], vocab) for name in SPLITS}
        super().__init__(encoded, vocab, node_order=node_order, log_num_orders=log_num_orders)
        self.source = source

    def molecules(self, split: str) -> list[Molecule]:
        """Molecules of a split."""
        x0 = self.splits[split].x0
        return graphs.decode_molecules(x0, self.vocab) if len(x0) else []

    @cached_property
    def training_smiles(self) -> frozenset[str]:
        """Canonical SMILES of the training molecules, by the relaxed rule."""
        smiles = (verdict.relaxed for verdict in verdicts_of(self.molecules("train")))
        return frozenset(text for text in smiles if text is not None)

    def with_training_split(self, trained_on: MoleculeDataset | None) -> MoleculeDataset:
        made = super().with_training_split(trained_on)
        made.__dict__.pop("training_smiles", None)  # of other molecules
        return made

    def identities(self, split: str) -> list[Hashable]:
        """Rows of tokens, since a molecule has its atoms in the same order in every file."""
        return TokenDataset.identities(self, split)

    def unit_of_bound(self, split: str, num_tokens: float) -> tuple[str, float]:
        return "nats per unordered molecule", 1.0

    def summary(self) -> str:
        parts = ", ".join(f"{len(self.splits[name]):,} {name}" for name in SPLITS)
        types = ", ".join(self.vocab.node_types)
        return (
            f"{self.source}: {parts} molecules of at most {counted(self.vocab.n_max, 'atom')} "
            f"({types}); node order {self.node_order}"
        )


def complete_molecules(config: DictConfig) -> None:
    """Set in ``config`` what follows from the training file: ``atoms``, the most frequent first,
    and ``n_max``, the size of the largest molecule. Values that are given stay.

    Raises ``ValueError`` for unknown atoms, or charged atoms where charges are ignored.
    """
    graphs.check_installed()
    # values that are not given are read from the training file
    if config.atoms is None or config.max_nodes is None:
        source = _read_molecules_of(_molecule_paths(config)["train"], config)
        if not config.skip_invalid:
            source.refuse_problems(_REMEDY)
        if config.atoms is None:
            counts = Counter(atom for molecule in source.molecules for atom in molecule.atoms)
            config.atoms = [atom for atom, _ in counts.most_common()]
        if config.max_nodes is None:
            config.max_nodes = max(
                (len(molecule.atoms) for molecule in source.molecules), default=1
            )
    # atoms that were given may contradict the other keys
    charged = [atom for atom in config.atoms if graphs.parse_atom(atom)[1] != 0]
    if config.charges == "ignored" and charged:
        raise ValueError(
            f"data.atoms={list(config.atoms)}: {charged[0]} has a charge, and data.charges=ignored "
            "has none; take data.charges=kept, or leave such atoms out"
        )
    if len(set(config.atoms)) < len(config.atoms):
        raise ValueError(f"data.atoms={list(config.atoms)}: expected every atom once")


def build_molecules(config: DictConfig, vocab: VocabConfig) -> MoleculeDataset:
    """Build the data set of ``data=molecules``, ``qm9`` or ``zinc`` from a completed config.

    With a file per split, molecules held out for validation or test are removed from training and
    counted. Raises ``ValueError`` for paths that contradict each other, a row that the vocabulary
    cannot represent (unless ``skip_invalid``: then such rows are counted in the log), and a file
    without any molecule.
    """
    # molecules of every file whose atoms and bonds the vocabulary has
    read = {}
    for name, path in _molecule_paths(config).items():
        source = _read_molecules_of(path, config).only(vocab.node_types, vocab.n_max)
        if not config.skip_invalid:
            source.refuse_problems(_REMEDY)
        logger.log(logging.WARNING if source.problems else logging.INFO, "%s", source.summary())
        if not len(source):
            raise ValueError(f"{path} holds no molecule of data.atoms and data.max_nodes")
        read[name] = source
    train = read["train"]
    # one file is split here
    if config.path is not None:
        rows = split_rows(train.molecules, config.split, config.split_seed)
        of_split = dict.fromkeys(SPLITS, train)
    else:
        # rows of each file, without training molecules that are held out
        rows = {name: list(range(len(part))) for name, part in read.items()}
        held_out = {each for name in SPLITS[1:] if name in read for each in read[name].molecules}
        rows["train"] = [k for k, each in enumerate(train.molecules) if each not in held_out]
        if removed := len(train) - len(rows["train"]):
            logger.warning("left out %d training molecules that are held out too", removed)
        rows.setdefault("test", [])
        of_split = {name: read.get(name, train) for name in SPLITS}
    # tokens of each split
    return MoleculeDataset(
        {name: [of_split[name].molecules[row] for row in rows[name]] for name in SPLITS},
        vocab,
        node_order=config.node_order,
        log_num_orders={name: of_split[name].log_num_orders[rows[name]] for name in SPLITS},
        source=", ".join(part.path for part in read.values()),
    )


def _read_molecules_of(path: str, config: DictConfig) -> ReadMolecules:
    return read_molecules(path, charges=config.charges, column=config.column)


def _molecule_paths(config: DictConfig) -> dict[str, str]:
    """Files to read by split; one file that is split here is under ``train``."""
    given = given_paths(config)
    if not given:
        where = f"; {SOURCES[config.name]}" if config.name in SOURCES else ""
        raise ValueError(
            f"data={config.name} needs data.path=FILE, a file of SMILES, or data.train_path=FILE "
            f"with data.val_path=FILE{where}"
        )
    return {"train": given["path"]} if "path" in given else given


def split_rows(
    molecules: Sequence[Molecule], split: Sequence[float | None], seed: int
) -> dict[str, list[int]]:
    """Rows of train, val and test, in random order; equal molecules stay together, so that a split
    may have a few more than requested.

    ``split``: for each split a share or a whole number above 1, or null for the rest. Raises
    ``ValueError`` for shares or numbers that do not fit.
    """
    groups: dict[Molecule, list[int]] = {}
    for row, molecule in enumerate(molecules):
        groups.setdefault(molecule, []).append(row)
    # shuffle the distinct molecules
    distinct = list(groups.values())
    order = torch.randperm(len(distinct), generator=make_generator(seed)).tolist()
    rows = [row for k in order for row in distinct[k]]
    starts = [row == distinct[k][0] for k in order for row in distinct[k]]
    # move each cut to the next start of a group
    cuts = [0, *_split_cuts(len(rows), split), len(rows)]
    for k in (1, 2):
        while 0 < cuts[k] < len(rows) and not starts[cuts[k]]:
            cuts[k] += 1
    parts = [rows[a:b] for a, b in pairwise(cuts)]
    return dict(zip(SPLITS, parts, strict=True))


def _split_cuts(num: int, split: Sequence[float | None]) -> tuple[int, int]:
    """Numbers of molecules after which val and test begin."""
    error = ValueError(
        f"data.split={json.dumps(list(split))} of {num:,} molecules: expected train, val and test "
        "as shares or as numbers that fit, null for the rest, such as [0.8,0.1,0.1]"
    )
    # three parts, at most one of them open
    if len(split) != 3 or sum(part is None for part in split) > 1:
        raise error
    if any(part is not None and (part < 0 or (part > 1 and part != int(part))) for part in split):
        raise error
    # numbers of each part; null takes the rest
    sizes = [part if part is None or part > 1 else round(num * part) for part in split]
    rest = num - sum(int(size) for size in sizes if size is not None)
    train, val, test = (rest if size is None else int(size) for size in sizes)
    off = num - (train + val + test)
    if min(train, val, test) < 0 or abs(off) > 2:  # shares are rounded
        raise error
    return train, min(num, train + val)
