"""What ``speed.py`` trains: a ladder of variants, the batches of an epoch, a model in training.

Every rung adds one thing to the one above it, and all train ``bd_small`` with MDLM on the embedded
plans. The bucketed variants of a repeat train on the same batches, evenly spaced among those of an
epoch ordered by size, so that a few of them have the epoch's mix of room counts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.optim import AdamW

from discrete_diffusion.algorithms import build_algorithm
from discrete_diffusion.categorical import make_generator
from discrete_diffusion.cli import compose
from discrete_diffusion.data import TokenDataset, bucket_batches
from discrete_diffusion.domains import build_data
from discrete_diffusion.models.blocks import transformer
from discrete_diffusion.models.compiling import check_compiler, compile_backbone
from discrete_diffusion.models.tuned import FastLinear
from discrete_diffusion.types import Batch
from speed_baseline import DenseDenoiser, dense_loss

CLIP = 1.0
GOLDEN_RATIO = (math.sqrt(5) - 1) / 2
PLAN_STREAM, NOISE_STREAM = 30, 31


@dataclass(frozen=True)
class Variant:
    """``dense``: the baseline's network, loss and batches. ``plain``: which of the package's layers
    are PyTorch's own instead. ``lightning``: as ``discrete-diffusion train`` trains."""

    name: str
    dense: bool = False
    plain: tuple[str, ...] = ()
    bfloat16: bool = False
    compiled: bool = False
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
            compile_backbone(self.algorithm.backbone, device)

    def rows(self, epoch: int, num: int) -> list[Tensor]:
        return (self.plans.shuffled if self.variant.dense else self.plans.bucketed)(epoch, num)

    def step(self, rows: Tensor, lr_factor: float = 1.0) -> None:
        batch = self.plans.batch(rows, self.order).to(self.device)
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
