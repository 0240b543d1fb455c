"""Report on sampled molecules: numbers, files, a picture."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from torch import Tensor

from discrete_diffusion.contracts import BoundEstimate
from discrete_diffusion.domains.molecules.build import MoleculeDataset
from discrete_diffusion.domains.molecules.metrics.validity import judge, sample_shares
from discrete_diffusion.domains.molecules.samples import MoleculeSamples
from discrete_diffusion.evaluation.comparison import Column
from discrete_diffusion.evaluation.sample_kind import SampleKindReport


class MoleculeReport(SampleKindReport):
    """Validity, uniqueness and novelty of sampled molecules."""

    headlines = MoleculeSamples.headlines
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
    def kind(self) -> MoleculeSamples:
        return MoleculeSamples(self.data.vocab)

    def measure(self, samples: Tensor) -> dict[str, float]:
        return sample_shares(judge(self.kind.decode(samples)), self.data.training_smiles)

    def findings(self, bound: BoundEstimate, samples: Tensor) -> dict[str, Any]:
        """Findings, with the numbers of molecules that ``unique`` and ``novel`` are shares of."""
        found = super().findings(bound, samples)
        num_valid = round(found.get("valid_relaxed", 0) * len(samples))
        num_unique = round(found.get("unique", 0) * num_valid)
        return {**found, "num_valid_relaxed": num_valid, "num_unique": num_unique}
