"""From a ``data`` config to a ``MoleculeDataset``: one file split here, or a file per split."""

from __future__ import annotations

import logging
from collections import Counter
from typing import TYPE_CHECKING

from discrete_diffusion.data.base import SPLITS
from discrete_diffusion.domains.molecules.dataset import MoleculeDataset, split_rows, without
from discrete_diffusion.domains.molecules.molecule import check_installed, parse_atom
from discrete_diffusion.domains.molecules.reading import ReadMolecules, read_molecules

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from discrete_diffusion.layout.vocab_config import VocabConfig

logger = logging.getLogger(__name__)

SOURCES = {
    "qm9": "QM9's SMILES are in qm9.csv of MoleculeNet and in gdb9.sdf of PyTorch Geometric",
    "zinc": "ZINC-250k's are in zinc250k.csv of GDSS and MoFlow, and in icml18-jtnn/data/zinc",
}
"""Where to find a data set, by ``data.name``."""


def complete_molecules(config: DictConfig) -> None:
    """Write what the training file decides into ``config``: ``atoms``, the most frequent first, and
    ``n_max``, the largest molecule. Values that are given stay.

    Raises ``ValueError`` for atoms that are none, or charged ones where charges are ignored.
    """
    check_installed()
    if config.atoms is None or config.n_max is None:
        found = _read(_paths(config)["train"], config)
        if not config.skip_invalid:
            found.refuse_problems(_REMEDY)
        if config.atoms is None:
            counts = Counter(atom for molecule in found.molecules for atom in molecule.atoms)
            config.atoms = [atom for atom, _ in counts.most_common()]
        if config.n_max is None:
            config.n_max = max((len(molecule.atoms) for molecule in found.molecules), default=1)
    charged = [atom for atom in config.atoms if parse_atom(atom)[1] != 0]
    if config.charges == "ignored" and charged:
        raise ValueError(
            f"data.atoms={list(config.atoms)}: {charged[0]} has a charge, and data.charges=ignored "
            "has none; take data.charges=kept, or leave such atoms out"
        )
    if len(set(config.atoms)) < len(config.atoms):
        raise ValueError(f"data.atoms={list(config.atoms)}: expected every atom once")


_REMEDY = "leave such rows out with data.skip_invalid=true"


def build_molecules(config: DictConfig, vocab: VocabConfig) -> MoleculeDataset:
    """``data=molecules``, ``qm9`` or ``zinc`` with a completed config.

    With a file per split, molecules held out for validation or test are removed from training and
    counted. Raises ``ValueError`` for paths that contradict each other, a row that is no molecule
    of the vocabulary (unless ``skip_invalid``: then such rows are counted in the log), and a file
    without any.
    """
    read = {name: _usable(path, config, vocab) for name, path in _paths(config).items()}
    train = read["train"]
    if config.path is not None:
        rows = split_rows(train.molecules, config.split, config.split_seed)
        of_split = dict.fromkeys(SPLITS, train)
    else:
        held_out = [read[name].molecules for name in SPLITS[1:] if name in read]
        rows = {name: list(range(len(part))) for name, part in read.items()}
        rows["train"] = without(train.molecules, held_out)
        if removed := len(train) - len(rows["train"]):
            logger.warning("left out %d training molecules that are held out too", removed)
        rows.setdefault("test", [])
        of_split = {name: read.get(name, train) for name in SPLITS}
    return MoleculeDataset(
        {name: [of_split[name].molecules[row] for row in rows[name]] for name in SPLITS},
        vocab,
        node_order=config.node_order,
        log_num_orders={name: of_split[name].log_num_orders[rows[name]] for name in SPLITS},
        source=", ".join(part.path for part in read.values()),
    )


def _usable(path: str, config: DictConfig, vocab: VocabConfig) -> ReadMolecules:
    """Molecules of a file that the vocabulary has all atoms and bonds of."""
    found = _read(path, config).only(vocab.node_types, vocab.n_max)
    if not config.skip_invalid:
        found.refuse_problems(_REMEDY)
    logger.log(logging.WARNING if found.problems else logging.INFO, "%s", found.summary())
    if not len(found):
        raise ValueError(f"{path} holds no molecule of data.atoms and data.n_max")
    return found


def _read(path: str, config: DictConfig) -> ReadMolecules:
    return read_molecules(path, charges=config.charges, column=config.column)


def _paths(config: DictConfig) -> dict[str, str]:
    """The files to read by split; one to be split here is under ``train``."""
    separate = {name: config[f"{name}_path"] for name in SPLITS}
    given = {name: path for name, path in separate.items() if path is not None}
    if config.path is not None:
        if given:
            raise ValueError("give data.path or data.train_path and data.val_path, not both")
        return {"train": config.path}
    if not given:
        where = f"; {SOURCES[config.name]}" if config.name in SOURCES else ""
        raise ValueError(
            f"data={config.name} needs data.path=FILE, a file of SMILES, or data.train_path=FILE "
            f"with data.val_path=FILE{where}"
        )
    if "train" not in given or "val" not in given:
        raise ValueError("data.train_path=FILE and data.val_path=FILE are needed together")
    return given
