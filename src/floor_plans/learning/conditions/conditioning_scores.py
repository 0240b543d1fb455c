"""Scores of conditioning: the bound with right and wrong facts, and the share of obeyed counts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from discrete_diffusion.categorical import make_generator
from discrete_diffusion.data import Examples
from discrete_diffusion.evaluation import MeasurementSettings, TableRow, TableSection, sample_bounds
from discrete_diffusion.runtime import progress
from discrete_diffusion.sampling import sample_in_batches
from floor_plans.diagrams.tokens import decode, encode
from floor_plans.learning.conditions.fact_sizes import OF_ROOMS
from floor_plans.learning.conditions.facts import Facts

if TYPE_CHECKING:
    from discrete_diffusion.sampling import Model
    from floor_plans.learning.build import DiagramDataset

NUM = 300
"""Most held-out diagrams on whose facts the model is conditioned."""

GUIDANCE = (1.0, 2.0)
"""Guidance weights at which obedience is measured."""

_BOUND, _SAMPLES, _OTHERS = (31,), (32,), (33,)
"""Entropy of the bound, the samples and the exchanged facts."""


@dataclass(frozen=True)
class ConditioningScores:
    """Scores of a conditional model on ``num`` held-out diagrams.

    ``more``: increase of the bound in nats per diagram for each change of the facts, mean and
    standard error. ``obeyed``: share of samples with the given number of rooms and counts, by
    guidance weight; empty for a model without counts.
    """

    num: int
    more: dict[str, tuple[float, float]]
    obeyed: dict[float, float]

    def as_dict(self) -> dict[str, Any]:
        """Values for ``metrics.json``."""
        return {
            "told_num_held_out": self.num,
            "told": {
                name: {"nats_more": mean, "standard_error": error}
                for name, (mean, error) in self.more.items()
            },
            **{f"obeyed_at_guidance_{weight:g}": share for weight, share in self.obeyed.items()},
        }

    def section(self) -> TableSection:
        rows = [
            TableRow(f"nats more, {name}", f"{mean:.3f} ± {error:.3f}")
            for name, (mean, error) in self.more.items()
        ]
        rows += [
            TableRow(f"counts obeyed at sampling.guidance={weight:g}", f"{share:.3f}")
            for weight, share in self.obeyed.items()
        ]
        return TableSection(
            f"what the model makes of facts, {self.num} held-out diagrams", tuple(rows)
        )

    def note(self) -> str:
        return (
            "Conditions: the samples above are unconditional; the bound is conditional on all "
            "facts. Nats more: for the same diagrams and noise, ± standard error."
        )


def measure_conditioning(
    model: Model, data: DiagramDataset, split: str, seed: int
) -> ConditioningScores | None:
    """Measure the first ``NUM`` diagrams of a split; None for an unconditional model."""
    facts, examples = data.facts, data.splits[split][:NUM]
    if facts is None or not len(examples):
        return None
    condition, size = examples.conditions["condition"], model.rows_at_once
    other = _derangement(len(examples), seed)
    # the condition with all facts, none, one missing, one exchanged
    changed = {"told all": condition, "told nothing": torch.full_like(condition, torch.nan)}
    for name in facts.names:
        columns = facts.columns(name)
        changed[f"not told its {name}"] = condition.masked_fill(columns, torch.nan)
        changed[f"told the {name} of another"] = condition.where(~columns, condition[other])
    # bound of the same noisy diagrams under each change of the condition
    bounds: dict[str, Tensor] = {}
    batch = data.augment(examples, make_generator(seed, *_BOUND))
    for name, given in progress.track(list(changed.items()), "changing the conditions", "times"):
        rows = Examples(batch.x0, batch.real, batch.log_num_orders, conditions={"condition": given})
        batches = [rows[k : k + size].batch() for k in range(0, len(rows), size)]
        bounds[name] = sample_bounds(
            model.algorithm,
            batches,
            draws=2,
            settings=MeasurementSettings((seed, *_BOUND), model.device, model.shard),
        ).nelbo
    right = bounds.pop("told all")
    more = {name: _mean_and_error(found - right) for name, found in bounds.items()}
    # samples conditioned on counts only
    obeyed = {}
    if "counts" in facts.names:
        masks = [facts.columns(name) for name in facts.names if name in OF_ROOMS]
        asked = condition.masked_fill(~torch.stack(masks).any(dim=0), torch.nan)
        obeyed = {w: _obeyed(model, facts, asked, examples.real, w, seed) for w in GUIDANCE}
    return ConditioningScores(len(examples), more, obeyed)


def _obeyed(
    model: Model, facts: Facts, asked: Tensor, real: Tensor, weight: float, seed: int
) -> float:
    """Share of samples that have the facts of their row of ``asked``."""
    drawn = sample_in_batches(
        replace(model, sampler=replace(model.sampler, guidance=weight), on_sampled=None),
        real,
        generator=make_generator(seed, *_SAMPLES, device=model.device),
        conditions={"condition": asked},
    )
    # facts of the samples, compared where they are given
    found = facts.graph_facts(encode(decode(drawn.x0, facts.vocab), facts.vocab))
    return float((asked.isnan() | (found == asked)).all(dim=1).double().mean())


def _derangement(num: int, seed: int) -> Tensor:
    """Int[num]: a random derangement, which gives each row another one."""
    order = torch.randperm(num, generator=make_generator(seed, *_OTHERS))
    return order[(order.argsort() + 1) % num]


def _mean_and_error(values: Tensor) -> tuple[float, float]:
    return float(values.mean()), float(values.std()) / len(values) ** 0.5
