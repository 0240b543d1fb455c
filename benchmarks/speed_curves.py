"""Loss curves: the variants of ``speed_variants.py`` from the same weights, at equal steps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, stdev
from typing import Any

import torch
from torch import Tensor

from discrete_diffusion.data import SplitBatches
from discrete_diffusion.evaluation.bound import sample_bounds
from discrete_diffusion.training.module import lr_factor
from speed_variants import CURVES, Plans, Trainee, Variant

POINTS = 4
WARMUP_STEPS = 50
BOUND_SEED = 7


def curves(
    plans: Plans, device: torch.device, *, steps: int, seeds: Sequence[int], draws: int
) -> dict[str, Any]:
    """The held-out bound of every variant at four points, and its differences to the baseline's.

    The bound is measured in float32, through the package's backbone, on the training weights (no
    average), with the same noise for all. A difference has two standard errors: over the held-out
    diagrams, paired; and over the seeds, which holds what the draws of training do.
    """
    at = [steps * (k + 1) // POINTS for k in range(POINTS)]
    found: dict[tuple[str, int], list[Tensor]] = {}
    for seed in seeds:
        for variant in CURVES:
            found[variant.name, seed] = _curve(variant, plans, device, at, seed, draws)
    rows = []
    for variant in CURVES:
        for k, step in enumerate(at):
            ours = [found[variant.name, seed][k] for seed in seeds]
            base = [found[CURVES[0].name, seed][k] for seed in seeds]
            apart = [a - b for a, b in zip(ours, base, strict=True)]
            means = [float(difference.mean()) for difference in apart]
            rows.append(
                {
                    "name": variant.name,
                    "step": step,
                    "nelbo": fmean(float(bounds.mean()) for bounds in ours),
                    "nelbo_by_seed": [float(bounds.mean()) for bounds in ours],
                    "difference": fmean(means),
                    "difference_by_seed": means,
                    "standard_error_over_diagrams": _error(torch.stack(apart).mean(dim=0)),
                    "standard_error_over_seeds": (
                        stdev(means) / math.sqrt(len(means)) if len(means) > 1 else None
                    ),
                }
            )
    num = len(next(iter(found.values()))[0])
    return {"steps": steps, "seeds": list(seeds), "draws": draws, "diagrams": num, "rows": rows}


def _curve(
    variant: Variant,
    plans: Plans,
    device: torch.device,
    at: Sequence[int],
    seed: int,
    draws: int,
) -> list[Tensor]:
    """Float64[M] at each of the steps ``at``: the bound of every held-out diagram."""
    trainee = Trainee(variant, plans, device, seed)
    held_out = SplitBatches(plans.data, "val", batch_size=plans.batch_size, seed=0)
    bounds: list[Tensor] = []
    taken, epoch = 0, seed * 1000
    while taken < at[-1]:
        epoch += 1
        whole = len(plans.train) // plans.batch_size
        rows = plans.shuffled(epoch, whole) if variant.dense else plans.bucketed(epoch)
        for batch in rows[: at[-1] - taken]:
            factor = lr_factor(
                taken, schedule="cosine", warmup_steps=WARMUP_STEPS, num_steps=at[-1]
            )
            trainee.step(batch, factor)
            taken += 1
            if taken in at:
                found = sample_bounds(
                    trainee.algorithm, held_out, draws=draws, seed=BOUND_SEED, device=device
                )
                bounds.append(found.unordered)
                mean = float(bounds[-1].mean())
                print(f"seed {seed}: {variant.name}: step {taken}: {mean:.3f}", flush=True)
    return bounds


def _error(values: Tensor) -> float:
    """Of the mean of values Float[M]."""
    return float(values.std()) / math.sqrt(len(values))
