"""Use that a model makes of its conditions: its bound with right and wrong facts, and obedience."""

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
    from floor_plans.learning.dataset import DiagramDataset

NUM = 300
"""Held-out diagrams at most, on whose facts the model is conditioned."""

GUIDANCE = (1.0, 2.0)
"""Weights at which samples are taken, to see how many obey."""

_BOUND, _SAMPLES, _OTHERS = (31,), (32,), (33,)
"""Keep the samples apart."""


@dataclass(frozen=True)
class ConditioningScores:
    """``more``: by what is changed of all facts, how many nats more a diagram takes, mean and
    standard error over ``num`` held-out diagrams. ``obeyed``: by guidance, the share of samples
    with the number of rooms and all counts that the model was given, with nothing else given; none
    if it is given no counts."""

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
            "Conditions: samples above were given none; the bound is that of diagrams with "
            "all their facts. Nats more: of the same diagrams and noise, ± standard error."
        )


def measure_conditioning(
    model: Model, data: DiagramDataset, split: str, seed: int
) -> ConditioningScores | None:
    """Scores of the first ``NUM`` diagrams of a split; None for a model without conditions."""
    facts, examples = data.facts, data.splits[split][:NUM]
    if facts is None or not len(examples):
        return None
    condition, size = examples.conditions["condition"], model.rows_at_once
    other = _derangement(len(examples), seed)
    changed = {"told all": condition, "told nothing": torch.full_like(condition, torch.nan)}
    for name in facts.names:
        columns = facts.columns(name)
        changed[f"not told its {name}"] = condition.masked_fill(columns, torch.nan)
        changed[f"told the {name} of another"] = condition.where(~columns, condition[other])
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
    obeyed = {}
    if "counts" in facts.names:
        of_rooms = [facts.columns(name) for name in facts.names if name in OF_ROOMS]
        asked = condition.masked_fill(~torch.stack(of_rooms).any(dim=0), torch.nan)
        obeyed = {w: _obeyed(model, facts, asked, examples.real, w, seed) for w in GUIDANCE}
    return ConditioningScores(len(examples), more, obeyed)


def _obeyed(
    model: Model, facts: Facts, asked: Tensor, real: Tensor, weight: float, seed: int
) -> float:
    """Share of samples, one for each row of ``asked``, that are as they should."""
    drawn = sample_in_batches(
        replace(model, sampler=replace(model.sampler, guidance=weight), on_sampled=None),
        real,
        generator=make_generator(seed, *_SAMPLES, device=model.device),
        conditions={"condition": asked},
    )
    found = facts.of_graphs(encode(decode(drawn.x0, facts.vocab), facts.vocab))
    return float((asked.isnan() | (found == asked)).all(dim=1).double().mean())


def _derangement(num: int, seed: int) -> Tensor:
    """Int[num]: another row for each, sampled at random."""
    order = torch.randperm(num, generator=make_generator(seed, *_OTHERS))
    return order[(order.argsort() + 1) % num]


def _mean_and_error(values: Tensor) -> tuple[float, float]:
    return float(values.mean()), float(values.std()) / len(values) ** 0.5
