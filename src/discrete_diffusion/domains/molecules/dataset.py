"""Molecules as a ``GraphDataset``, split by distinct molecule."""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping, Sequence
from functools import cached_property
from itertools import pairwise

import torch
from torch import Tensor

from discrete_diffusion.categorical import make_generator
from discrete_diffusion.config.naming import counted
from discrete_diffusion.data.base import SPLITS, TokenDataset
from discrete_diffusion.data.graph_dataset import GraphDataset
from discrete_diffusion.domains.molecules.metrics.validity import judge
from discrete_diffusion.domains.molecules.molecule import Molecule, decode, encode
from discrete_diffusion.layout.vocab_config import VocabConfig

SMILES_ORDER = "smiles"
"""Atoms as the canonical SMILES writes them, neighbours mostly side by side."""


class MoleculeDataset(GraphDataset):
    """Molecules in three splits. ``splits``: atoms in the order of the canonical SMILES.

    ``node_order``: ``random`` relabels the atoms each time a molecule is read; ``smiles`` is the
    order of the canonical SMILES; ``canonical`` sorts by type and surroundings.

    ``source``: where they were read, for the log.
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
        encoded = {name: encode(splits[name], vocab) for name in SPLITS}
        super().__init__(encoded, vocab, node_order=node_order, log_num_orders=log_num_orders)
        self.source = source

    def molecules(self, split: str) -> list[Molecule]:
        """Molecules of a split."""
        x0 = self.splits[split].x0
        return decode(x0, self.vocab) if len(x0) else []

    @cached_property
    def training_smiles(self) -> frozenset[str]:
        """Canonical SMILES of the training molecules, by the relaxed rule."""
        found = (verdict.relaxed for verdict in judge(self.molecules("train")))
        return frozenset(text for text in found if text is not None)

    def beside(self, trained_on: MoleculeDataset | None) -> MoleculeDataset:
        made = super().beside(trained_on)
        made.__dict__.pop("training_smiles", None)  # of other molecules
        return made

    def identities(self, split: str) -> list[Hashable]:
        """The same molecule has the same atoms in the same order, in whatever file it stood."""
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


def split_rows(
    molecules: Sequence[Molecule], split: Sequence[float | None], seed: int
) -> dict[str, list[int]]:
    """Rows of the molecules that are train, val and test, in random order; equal ones stay
    together, so a split may have a few more than requested.

    ``split``: of each a share, or a whole number above 1; null for the rest. Raises ``ValueError``
    for what cannot be.
    """
    groups: dict[Molecule, list[int]] = {}
    for row, molecule in enumerate(molecules):
        groups.setdefault(molecule, []).append(row)
    distinct = list(groups.values())
    order = torch.randperm(len(distinct), generator=make_generator(seed)).tolist()
    rows = [row for k in order for row in distinct[k]]
    starts = [row == distinct[k][0] for k in order for row in distinct[k]]
    cuts = [0, *_cuts(len(rows), split), len(rows)]
    for k in (1, 2):
        while 0 < cuts[k] < len(rows) and not starts[cuts[k]]:
            cuts[k] += 1
    parts = [rows[a:b] for a, b in pairwise(cuts)]
    return dict(zip(SPLITS, parts, strict=True))


def _cuts(num: int, split: Sequence[float | None]) -> tuple[int, int]:
    """Numbers of molecules after which val and test begin."""
    error = ValueError(
        f"data.split={json.dumps(list(split))} of {num:,} molecules: expected train, val and test "
        "as shares or as numbers that fit, null for the rest, such as [0.8,0.1,0.1]"
    )
    if len(split) != 3 or sum(part is None for part in split) > 1:
        raise error
    if any(part is not None and (part < 0 or (part > 1 and part != int(part))) for part in split):
        raise error
    sizes = [part if part is None or part > 1 else round(num * part) for part in split]
    rest = num - sum(int(size) for size in sizes if size is not None)
    train, val, test = (rest if size is None else int(size) for size in sizes)
    off = num - (train + val + test)
    if min(train, val, test) < 0 or abs(off) > 2:  # shares are rounded
        raise error
    return train, min(num, train + val)


def without(molecules: Sequence[Molecule], held_out: Sequence[Sequence[Molecule]]) -> list[int]:
    """The rows of ``molecules`` that are in no held-out set."""
    known = {molecule for part in held_out for molecule in part}
    return [row for row, molecule in enumerate(molecules) if molecule not in known]
