"""What training costs, as ``speed.py`` measures it: diagrams a second, and memory.

A batch is prepared within the time that is taken; the plan of an epoch is not.
"""

from __future__ import annotations

import logging
import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import Callback, Trainer
from torch import Tensor

from clock import (
    MemoryPeak,
    Spent,
    Stopwatch,
    interleaved,
    peak_of_tensors,
    product_rates,
    product_rows,
    products,
    rate_cells,
    rate_titles,
    rates,
    shares_of_products,
    timed,
)
from discrete_diffusion.contracts import Batch
from discrete_diffusion.training import EMA, DiffusionModule, MetricsLog
from record import markdown_table
from speed_variants import CLIP, VARIANTS, Plans, Trainee, usable


class Steps(Callback):
    """What the steps of ``Trainer.fit`` take, its start and its end left out."""

    def __init__(self, device: torch.device, num_diagrams: int) -> None:
        self.device, self.num_diagrams = device, num_diagrams

    def on_train_start(self, trainer: Trainer, pl_module: Any) -> None:
        self._watch = Stopwatch(self.device)

    def on_train_end(self, trainer: Trainer, pl_module: Any) -> None:
        self.spent = self._watch.stop(self.num_diagrams)


def fit(trainee: Trainee, batches: Sequence[Tensor], folder: Path) -> Spent:
    """The steps of Lightning's trainer, as the command sets it up, on the batches given."""

    class Stream:
        def __len__(self) -> int:
            return len(batches)

        def __iter__(self) -> Iterator[Batch]:
            return (trainee.plans.batch(rows, trainee.order) for rows in batches)

    logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)
    clock = Steps(trainee.device, sum(map(len, batches)))
    module = DiffusionModule(trainee.algorithm, bound="ordered_fixed", seed=0, lr=trainee.lr)
    trainer = Trainer(
        default_root_dir=folder,
        accelerator=trainee.device.type,
        devices=1,
        precision="bf16-mixed" if trainee.variant.bfloat16 else "32-true",
        max_steps=len(batches),
        max_epochs=-1,
        gradient_clip_val=CLIP,
        log_every_n_steps=20,
        limit_val_batches=0,
        logger=MetricsLog(str(folder)),
        callbacks=[EMA(decay=trainee.ema_decay), clock],
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a short run without validation, as it is meant
        trainer.fit(module, Stream())
    trainee.algorithm.to(trainee.device)  # Lightning leaves it on the CPU
    return clock.spent


def throughput(
    plans: Plans, device: torch.device, *, repeats: int, steps: int, seed: int, folder: Path
) -> dict[str, Any]:
    """Diagrams per second of every variant."""
    variants, notes = usable(VARIANTS, device)
    trainees = {v.name: Trainee(v, plans, device, seed) for v in variants}

    def run(trainee: Trainee) -> Callable[[int], Spent]:
        def one(repeat: int) -> Spent:
            batches = trainee.rows(repeat + 1, steps)
            if trainee.variant.lightning:
                return fit(trainee, batches, folder)
            return timed(lambda: trainee.train(batches), device)

        return one

    for trainee in trainees.values():  # allocator, caches and, of every size, compilation
        mixed = trainee.variant.dense
        trainee.train(plans.shuffled(0, 2) if mixed else plans.one_each())
    spent = interleaved({name: run(trainee) for name, trainee in trainees.items()}, repeats)
    rows = [
        {
            "name": v.name,
            "baseline": v.baseline,
            "dropout": v.dropout,
            **rates(spent[v.name], spent[v.baseline]),
        }
        for v in variants
    ]
    each = {
        v.name: _products_each(trainees[v.name], steps)
        for v in variants
        if not v.compiled  # whose products are inside of what is compiled
    }
    low = {v.name for v in variants if v.bfloat16}
    return {
        "product_rate": shares_of_products(rows, each, low, device),
        "product_rows": product_rows(device),
        "batch_size": plans.batch_size,
        "steps": steps,
        "repeats": repeats,
        "mean_real_tokens": float(plans.sizes.double().mean()),
        "notes": notes,
        "rows": rows,
    }


def _products_each(trainee: Trainee, steps: int) -> float:
    """Operations of matrix products for a diagram of a training step."""
    batches = trainee.rows(0, steps)
    return products(lambda: trainee.train(batches)) / sum(map(len, batches))


def peak_memory(
    name: str, plans: Plans, device: torch.device, *, epochs: int, seed: int, num: int | None
) -> dict[str, Any]:
    """MiB that training of one variant rises above what it finds; for a process of its own. On the
    CPU also those of tensors in a step of its largest batch.

    ``num``: batches of an epoch, evenly spaced; None: all. A batch of every size is among them.
    """
    variant = next(v for v in VARIANTS if v.name == name)
    trainee = Trainee(variant, plans, device, seed)
    if variant.dense:
        batches = plans.shuffled(0, math.ceil(len(plans.train) / plans.batch_size))[:num]
    else:
        batches = [*plans.one_each(), *plans.bucketed(0, num)]
    peak = MemoryPeak(device)
    for _ in range(epochs):
        trainee.train(batches)
    found = {"name": name, "mebibytes": peak.rise(), "steps": epochs * len(batches)}
    if device.type == "cpu":
        largest = max(batches, key=lambda rows: int(plans.sizes[rows].max()))
        found["tensor_mebibytes"] = peak_of_tensors(lambda: trainee.train([largest]))
    return found


def training_table(found: Mapping[str, Any]) -> str:
    facts = (
        f"Batches of {found['batch_size']}, on average {found['mean_real_tokens']:.1f} real tokens "
        f"per diagram; medians of {found['repeats']} repeats of {found['steps']} steps, ratios to "
        "the baseline of the same dropout in the same repeat, with the lowest and the highest."
        + product_rates(found)
    )
    rows = [[row["name"], *rate_cells(found, row)] for row in found["rows"]]
    notes = "".join(f"\n\n{note}" for note in found["notes"])
    return f"{facts}\n\n{markdown_table(['training', *rate_titles(found)], rows)}{notes}"


def memory_table(found: Mapping[str, Any]) -> str:
    by_name = {row["name"]: row for row in found["rows"]}
    heads = {"tensor_mebibytes": "tensors", "mebibytes": "resident"}
    kinds = [key for key in heads if key in found["rows"][0]]
    rows = []
    for row in found["rows"]:
        base = by_name[row["baseline"]]
        cells = [(f"{row[key]:.0f}", f"{row[key] / base[key]:.2f}") for key in kinds]
        rows.append([row["name"], *chain(*cells)])
    facts = f"Each in a process of its own; epochs of batches: {found['epochs']}."
    columns = [(f"{heads[key]}, MiB", "ratio to the baseline") for key in kinds]
    return f"{facts}\n\n{markdown_table(['training', *chain(*columns)], rows)}"
