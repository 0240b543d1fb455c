"""``Structure``: what all samples of a request must be, such as a tree, and what that cost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch

from discrete_diffusion.categorical import effective_number, log_mean
from discrete_diffusion.config.values import counted
from discrete_diffusion.evaluation.json_values import finite_or_none
from discrete_diffusion.evaluation.table import TableRow, TableSection

if TYPE_CHECKING:
    from torch import Tensor

    from discrete_diffusion.config.plugins import Registry
    from discrete_diffusion.evaluation.requests import Request
    from discrete_diffusion.evaluation.token_samples import TokenSamples
    from discrete_diffusion.evaluation.trained_model import Model
    from discrete_diffusion.layout.vocab_config import VocabConfig
    from discrete_diffusion.sampling.partial_samples import Narrowing

_MEANINGS = {
    "forced_draws_per_sample": "tokens whose draw was changed",
    "dead_ends": "samples of weight 0: a token had no value left, so they need not have it",
    "mean_weight": "share of the model's own samples that have it, where weights are exact",
    "effective_samples": "equally weighted samples that these are worth, weighted",
}


@dataclass(frozen=True)
class Structure:
    """``name``: of a registered structure, or None: samples may be anything."""

    name: str | None
    _make: Callable[[], Narrowing] | None = None

    @classmethod
    def requested(
        cls,
        request: Request,
        structures: Registry[Callable[[VocabConfig], Narrowing]],
        vocab: VocabConfig,
    ) -> Structure:
        """Structure that ``structure=`` requests. ``ValueError`` for an unknown name."""
        if request.structure is None:
            return cls(None)
        build = structures.find(request.structure)
        return cls(request.structure, lambda: build(vocab))

    def __bool__(self) -> bool:
        return self.name is not None

    def on(self, model: Model) -> Model:
        """The model, its samples narrowed."""
        return replace(model, narrowing=self._make) if self else model

    def check_given(self, partial: Tensor, mask_id: int, places: Sequence[str]) -> None:
        """``ValueError``, naming the place of the first, if what is given cannot be completed.

        ``partial``: Int[M, L] with negative ids where nothing is given; ``places``: of each.
        """
        if self._make is None:
            return
        tokens = partial.masked_fill(partial < 0, mask_id)
        for row, why in self._make().contradictions(tokens).items():
            raise ValueError(
                f"{places[row]}: {why}, which structure={self.name} forbids; mend the line, or "
                "leave structure out"
            )

    def facts(self, drawn: Sequence[TokenSamples], *, given: bool = False) -> dict[str, Any]:
        """Entries of ``metrics.json`` on sets of samples. ``given``: of completions, whose weights
        compare within one input alone."""
        if not self:
            return {}
        log_weights = torch.cat([each.log_weights for each in drawn])
        forced = [each.num_forced for each in drawn if each.num_forced is not None]
        found: dict[str, Any] = {"structure": self.name}
        if len(log_weights):
            found["forced_draws_per_sample"] = float(torch.cat(forced).double().mean())
            dead_ends = int(log_weights.isneginf().sum())
            if dead_ends:
                found["dead_ends"] = dead_ends
            found["mean_weight"] = float(log_weights.exp().mean())
            if dead_ends < len(log_weights):
                found["log_mean_weight"] = log_mean(log_weights)
            if not given:
                each = [effective_number(one.log_weights) for one in drawn]
                found["effective_samples"] = sum(each) / len(each)
        return found

    def weights(self, log_weights: Tensor) -> dict[str, Sequence[Any]]:
        """What the lines of ``samples.jsonl`` say beside their samples, by key; null of weight
        0."""
        return {"log_weight": finite_or_none(log_weights.tolist())} if self else {}

    def summary(self, facts: dict[str, Any]) -> str:
        """Sentence for the log: a line of its own, "" without a structure."""
        if "forced_draws_per_sample" not in facts:
            return ""
        forced = facts["forced_draws_per_sample"]
        return f"\nstructure={self.name}: {forced:.2f} forced draws a sample; {_having(facts)}"


def _having(facts: dict[str, Any]) -> str:
    """What it says that samples have the structure."""
    found = "samples have it by construction, which says nothing about the model"
    if dead_ends := facts.get("dead_ends", 0):
        found += f" (but {counted(dead_ends, 'dead end')}, of weight 0, that need not have it)"
    return found


def structure_sections(facts: dict[str, Any]) -> list[TableSection]:
    """The table of a narrowing, from the facts that ``Structure.facts`` added; [] without one."""
    rows = tuple(
        TableRow(name, f"{facts[name]:.4g}", meaning=meaning)
        for name, meaning in _MEANINGS.items()
        if name in facts
    )
    return [TableSection(f"narrowed: structure={facts['structure']}", rows)] if rows else []


def structure_notes(facts: dict[str, Any]) -> list[str]:
    """How to read the numbers of narrowed samples; [] without a narrowing."""
    if "structure" not in facts:
        return []
    return [
        f"structure={facts['structure']} narrows what is sampled: {_having(facts)}, so V.U.N., "
        "valid and connected under it do not compare with those of free samples. Read them beside "
        "the forced draws, the free samples (structure left out) and samples made without a "
        "network. All numbers are of the samples as drawn, without their weights."
    ]
