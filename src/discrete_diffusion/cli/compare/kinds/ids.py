"""Ids by themselves, such as diagrams and text: bounds, and fresh samples beside real data."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from discrete_diffusion.cli.compare.kinds.kind import Kind, Quality

if TYPE_CHECKING:
    from discrete_diffusion.evaluation.equal_terms import EqualTerms


class Ids(Kind):
    """The bound of held-out samples, and metrics of samples drawn from nothing."""

    qualities = (
        Quality("transitive", "transitive samples", up=True, share=True),
        Quality("words_in_training", "known words", up=True, share=True),
        Quality("character_tv", "character TV"),
    )

    def measure(
        self,
        algorithm: Any,
        sampler: Any,
        data: Any,
        terms: EqualTerms,
        *,
        device: str,
        folder: Path,
    ) -> dict[str, Any]:
        from discrete_diffusion.evaluation.equal_terms import held_out_bounds, score_samples_drawn

        bounds = held_out_bounds(algorithm, data, terms, device=device)
        bounds.check()
        metrics = score_samples_drawn(algorithm, sampler, data, terms, device=device)
        return {**bounds.as_dict(), "metrics": metrics}

    def real_data(self, data: Any, num_samples: int) -> dict[str, float]:
        from discrete_diffusion.evaluation.equal_terms import score_real_data

        return score_real_data(data, num_samples)
