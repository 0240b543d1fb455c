"""Report on sampled molecules: numbers, files, a picture."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

from torch import Tensor

from discrete_diffusion.contracts import BoundEstimate
from discrete_diffusion.domains.molecules.dataset import MoleculeDataset
from discrete_diffusion.domains.molecules.metrics.validity import judge, sample_shares
from discrete_diffusion.domains.molecules.molecule import decode
from discrete_diffusion.domains.molecules.pictures import MAX_DRAWN, plot_molecules
from discrete_diffusion.domains.molecules.writing import write_molecules
from discrete_diffusion.evaluation.comparison import Column
from discrete_diffusion.evaluation.report import Headline
from discrete_diffusion.evaluation.token_report import TokenReport


class MoleculeReport(TokenReport):
    """Validity, uniqueness and novelty of sampled molecules."""

    headlines = (
        Headline("valid", share=True),
        Headline("valid_relaxed", share=True),
        Headline("unique", share=True, counted="num_valid_relaxed"),
        Headline("novel", share=True, counted="num_unique"),
    )
    columns = (
        Column("valid", "valid", 1, up=True, share=True, of_samples=True),
        Column("valid, relaxed", "valid_relaxed", 1, up=True, share=True, of_samples=True),
        Column("in one piece", "connected", 1, up=True, share=True, of_samples=True),
        Column("unique", "unique", 1, up=True, share=True),
        Column("novel", "novel", 1, up=None, share=True),
    )
    axes = columns[:1]
    data: MoleculeDataset

    @cached_property
    def _known(self) -> frozenset[str]:
        return self.data.training_smiles

    def measure(self, samples: Tensor) -> dict[str, float]:
        if len(samples) == 0:
            return {}
        return sample_shares(judge(decode(samples, self.data.vocab)), self._known)

    def findings(self, bound: BoundEstimate, samples: Tensor) -> dict[str, Any]:
        """Findings, with the numbers of molecules that ``unique`` and ``novel`` are shares of."""
        found = super().findings(bound, samples)
        num_valid = round(found.get("valid_relaxed", 0) * len(samples))
        num_unique = round(found.get("unique", 0) * num_valid)
        return {**found, "num_valid_relaxed": num_valid, "num_unique": num_unique}

    def save(self, samples: Tensor, folder: Path) -> None:
        if len(samples):
            molecules = decode(samples, self.data.vocab)
            write_molecules(molecules, folder)
            plot_molecules(molecules[:MAX_DRAWN], folder / "samples.png")

    def plot(self, samples: Tensor, path: Path) -> None:
        if len(samples):
            plot_molecules(decode(samples[:MAX_DRAWN], self.data.vocab), path)
