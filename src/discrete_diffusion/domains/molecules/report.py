"""Report on sampled molecules: numbers, files, a picture."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

from torch import Tensor

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
        Headline("unique", share=True),
        Headline("novel", share=True),
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

    def save(self, samples: Tensor, folder: Path) -> None:
        if len(samples):
            molecules = decode(samples, self.data.vocab)
            write_molecules(molecules, folder)
            plot_molecules(molecules[:MAX_DRAWN], folder / "samples.png")

    def plot(self, samples: Tensor, path: Path) -> None:
        if len(samples):
            plot_molecules(decode(samples[:MAX_DRAWN], self.data.vocab), path)
