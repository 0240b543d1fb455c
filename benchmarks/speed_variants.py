"""What ``speed.py`` trains: a ladder of variants, the batches of an epoch, a model in training; and
whether the variants learn alike from the same weights, at equal steps.

Every rung adds one thing to the one above it, and all train ``bd_small`` with MDLM on the embedded
plans. The bucketed variants of a repeat train on the same batches, evenly spaced among those of an
epoch ordered by size, so that a few of them have the epoch's mix of room counts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.optim import AdamW

from discrete_diffusion.algorithms import build_algorithm
from discrete_diffusion.categorical import make_generator
from discrete_diffusion.cli import compose
from discrete_diffusion.contracts import Batch
from discrete_diffusion.data import SplitBatches, TokenDataset, bucket_batches
from discrete_diffusion.domains import build_data
from discrete_diffusion.evaluation import MeasurementSettings, sample_bounds
from discrete_diffusion.models import transformer
from discrete_diffusion.models.acceleration import (
    FastLinear,
    begin_step,
    check_compiler,
    compile_backbone,
)
from discrete_diffusion.runtime.devices import REDUCE_OVERHEAD
from discrete_diffusion.training.module import lr_factor
from record import markdown_table
from speed_baseline import DenseDenoiser, dense_loss

CLIP = 1.0
GOLDEN_RATIO = (math.sqrt(5) - 1) / 2
PLAN_STREAM, NOISE_STREAM = 30, 31
POINTS, WARMUP_STEPS, BOUND_SEED = 4, 50, 7
"""Of loss curves."""


@dataclass(frozen=True)
class Variant:
    """``dense``: the baseline's network, loss and batches. ``plain``: which of the package's layers
    are PyTorch's own instead. ``lightning``: as ``discrete-diffusion train`` trains."""

    name: str
    dense: bool = False
    plain: tuple[str, ...] = ()
    bfloat16: bool = False
    compiled: bool | str = False
    lightning: bool = False
    dropout: float = 0.0

    @property
    def baseline(self) -> str:
        """The variant it is compared with: the dense one of the same dropout."""
        return next(v.name for v in VARIANTS if v.dense and v.dropout == self.dropout)


VARIANTS = (
    Variant("dense baseline", dense=True),
    Variant("bucketed batches without PAD", plain=("attention", "linear")),
    Variant("+ the package's attention", plain=("linear",)),
    Variant("+ its linear layers: float32 as shipped"),
    Variant("+ bfloat16: trainer.precision=bf16-mixed", bfloat16=True),
    Variant("+ torch.compile", bfloat16=True, compiled=True),
    Variant("bfloat16 under Lightning, with EMA", bfloat16=True, lightning=True),
    Variant("dense baseline, dropout 0.1", dense=True, dropout=0.1),
    Variant("float32 as shipped, dropout 0.1", dropout=0.1),
    Variant("bfloat16, dropout 0.1", bfloat16=True, dropout=0.1),
    Variant("+ CUDA graphs: compile=reduce-overhead", bfloat16=True, compiled=REDUCE_OVERHEAD),
)
CURVES = (VARIANTS[0], VARIANTS[3], VARIANTS[4])


def usable(variants: Sequence[Variant], device: torch.device) -> tuple[list[Variant], list[str]]:
    """Those that this machine can train, and why the others cannot be."""
    reason = None
    try:
        check_compiler(device)
    except ValueError as error:
        reason = str(error)
    kept = [v for v in variants if reason is None or not v.compiled]
    kept = [v for v in kept if device.type == "cuda" or v.compiled != REDUCE_OVERHEAD]
    return kept, [] if reason is None else [f"torch.compile is left out: {reason}"]


@contextmanager
def plain_layers(which: Sequence[str]) -> Iterator[None]:
    """PyTorch's own in place of the package's: its fused ``attention``, its ``linear`` layers."""

    def fused(
        q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, *, causal: bool = False
    ) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal)

    shipped = transformer.attend, FastLinear.forward
    if "attention" in which:
        transformer.attend = fused
    if "linear" in which:
        FastLinear.forward = torch.nn.Linear.forward
    try:
        yield
    finally:
        transformer.attend, FastLinear.forward = shipped


def precision(bfloat16: bool, device: torch.device) -> AbstractContextManager[Any]:
    """Autocast to bfloat16, or nothing."""
    return torch.autocast(device.type, dtype=torch.bfloat16) if bfloat16 else nullcontext()


class Plans:
    """The embedded data and which rows of it make the batches of an epoch."""

    def __init__(self, words: Sequence[str], seed: int) -> None:
        self.words, self.seed = ("logger=none", *words), seed
        config = compose("train", list(self.words))
        self.batch_size: int = config.data.batch_size
        self.data: TokenDataset = build_data(config)
        self.train = self.data.splits["train"]
        self.sizes = self.train.real.sum(dim=1)

    def shuffled(self, epoch: int, num: int) -> list[Tensor]:
        """Rows of the first ``num`` batches of mixed sizes; further epochs if one is too short."""
        generator = make_generator(self.seed, PLAN_STREAM, epoch)
        batches: list[Tensor] = []
        while len(batches) < num:
            rows = torch.randperm(len(self.train), generator=generator)
            batches += rows[: len(rows) // self.batch_size * self.batch_size].split(self.batch_size)
        return batches[:num]

    def bucketed(self, epoch: int, num: int | None = None) -> list[Tensor]:
        """Rows of ``num`` batches, evenly spaced among an epoch's by size, in random order; all if
        ``num`` is None. Where the spacing starts is spread evenly over the epochs."""
        generator = make_generator(self.seed, PLAN_STREAM, epoch)
        batches = bucket_batches(self.sizes, self.batch_size, generator)
        batches = [rows for rows in batches if len(rows) == self.batch_size] or batches
        if num is None:
            return batches
        batches.sort(key=lambda rows: int(self.sizes[rows].sum()))
        start = epoch * GOLDEN_RATIO % 1
        chosen = [batches[int((k + start) * len(batches) / num)] for k in range(num)]
        return [chosen[k] for k in torch.randperm(num, generator=generator).tolist()]

    def one_each(self) -> list[Tensor]:
        """Rows of a bucketed batch of every kind: by its largest size, with and without PAD."""
        kinds = {
            (
                int(self.sizes[rows].max()),
                bool((self.sizes[rows] != self.sizes[rows[0]]).any()),
            ): rows
            for rows in self.bucketed(0)
        }
        return list(kinds.values())

    def batch(self, rows: Tensor, generator: torch.Generator) -> Batch:
        return self.data.augment(self.train[rows], generator)


class Trainee:
    """A model in training as a variant trains it."""

    def __init__(self, variant: Variant, plans: Plans, device: torch.device, seed: int) -> None:
        self.variant, self.plans, self.device = variant, plans, device
        config = compose("train", [*plans.words, f"model.dropout={variant.dropout}"])
        torch.manual_seed(seed)
        self.algorithm = build_algorithm(config).to(device).train()
        self.dense = DenseDenoiser(self.algorithm.backbone.denoiser).train()
        self.lr: float = config.optim.lr
        self.parameters = list(self.algorithm.parameters())
        self.optimizer = AdamW(self.parameters, lr=self.lr, weight_decay=0.0, fused=True)
        self.order = make_generator(seed, NOISE_STREAM, 0)
        self.generator = make_generator(seed, NOISE_STREAM, 1, device=device)
        self.ema_decay: float = config.callbacks.ema_decay
        if variant.compiled:
            compile_backbone(self.algorithm.backbone, device, variant.compiled)

    def rows(self, epoch: int, num: int) -> list[Tensor]:
        return (self.plans.shuffled if self.variant.dense else self.plans.bucketed)(epoch, num)

    def step(self, rows: Tensor, lr_factor: float = 1.0) -> None:
        batch = self.plans.batch(rows, self.order)
        if not self.variant.dense:
            batch = self.algorithm.prepare_batch(batch)
        if self.device.type == "cuda":
            batch = batch.pin_memory()
        batch = batch.to(self.device, non_blocking=True)
        if self.variant.compiled == REDUCE_OVERHEAD:
            begin_step()
        for group in self.optimizer.param_groups:
            group["lr"] = self.lr * lr_factor
        with precision(self.variant.bfloat16, self.device):
            if self.variant.dense:
                loss = dense_loss(self.dense, batch.x0, self.generator)
            else:
                loss = self.algorithm.loss(batch, self.generator).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.parameters, CLIP)
        self.optimizer.step()
        self.optimizer.zero_grad()

    def train(self, batches: Sequence[Tensor]) -> int:
        """A step per batch; how many diagrams that were."""
        with plain_layers(self.variant.plain):
            for rows in batches:
                self.step(rows)
        return sum(map(len, batches))


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
            over_diagrams = torch.stack(apart).mean(dim=0)
            rows.append(
                {
                    "name": variant.name,
                    "step": step,
                    "nelbo": fmean(float(bounds.mean()) for bounds in ours),
                    "nelbo_by_seed": [float(bounds.mean()) for bounds in ours],
                    "difference": fmean(means),
                    "difference_by_seed": means,
                    "standard_error_over_diagrams": (
                        float(over_diagrams.std()) / math.sqrt(len(over_diagrams))
                    ),
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
                    trainee.algorithm,
                    held_out,
                    draws=draws,
                    settings=MeasurementSettings((BOUND_SEED,), device),
                )
                bounds.append(found.unordered)
                mean = float(bounds[-1].mean())
                print(f"seed {seed}: {variant.name}: step {taken}: {mean:.3f}", flush=True)
    return bounds


def curves_table(found: Mapping[str, Any]) -> str:
    names = list(dict.fromkeys(row["name"] for row in found["rows"]))
    steps = list(dict.fromkeys(row["step"] for row in found["rows"]))
    cells = {(row["name"], row["step"]): row for row in found["rows"]}
    head = ["step", names[0]]
    for name in names[1:]:
        head += [name, "less the baseline"]
    rows = []
    for step in steps:
        line = [str(step), f"{cells[names[0], step]['nelbo']:.3f}"]
        for name in names[1:]:
            cell = cells[name, step]
            line += [f"{cell['nelbo']:.3f}", _apart(cell)]
        rows.append(line)
    facts = (
        f"Held-out bound in nats per diagram, {found['diagrams']:,} diagrams, {found['draws']} "
        f"draws each, mean over {len(found['seeds'])} seeds of {found['steps']} steps. Differences "
        "with their standard errors: over diagrams, paired; then over seeds."
    )
    return f"{facts}\n\n{markdown_table(head, rows)}"


def _apart(cell: Mapping[str, Any]) -> str:
    seeds = cell["standard_error_over_seeds"]
    over_seeds = "" if seeds is None else f"; {seeds:.3f}"
    return f"{cell['difference']:+.3f} (± {cell['standard_error_over_diagrams']:.3f}{over_seeds})"
