"""A network, data and a trainer small enough to train in a blink: 8 batches an epoch."""

from __future__ import annotations

import logging

import torch
from lightning.pytorch import Trainer
from lightning.pytorch.callbacks import Checkpoint
from torch import nn

from discrete_diffusion.algorithms import MDLM
from discrete_diffusion.data import BatchStream, Examples, SplitBatches, TokenDataset
from discrete_diffusion.forward_process import Absorbing
from discrete_diffusion.noise_schedules import LogLinear
from discrete_diffusion.training import DiffusionModule
from discrete_diffusion.training.run_checkpoints import CheckpointFiles
from toy_world import PAD, ToyWorld, toy_layout

logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


class TinyBackbone(nn.Module):
    """Embeds, mixes, predicts; with an index buffer that averaging must not touch."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("index", torch.tensor([7, 11, 13]))
        self.embed = nn.Embedding(6, 8)
        self.mix = nn.Linear(24, 24)
        self.head = nn.Linear(8, 6)
        self.drop = nn.Dropout(0.1)

    def forward(self, x_t, sigma=None):
        hidden = self.drop(self.mix(self.embed(x_t).flatten(1)).relu())
        return self.head(hidden.unflatten(1, (3, 8)))


class ToyData(TokenDataset):
    """Samples of the toy world as a data set."""

    def __init__(self, num: int = 256) -> None:
        self.layout, world = toy_layout(), ToyWorld.make()
        rows = torch.multinomial(world.prob, num, True, generator=torch.Generator().manual_seed(0))
        x0 = world.x0[rows]
        examples = Examples(x0, x0 != PAD)
        self.splits = dict.fromkeys(("train", "val", "test"), examples)

    def size_counts(self):
        return [0, 0, 0, 256]

    def real_positions(self, sizes):
        return torch.arange(3) < sizes.unsqueeze(1)

    def summary(self):
        return "toy"


def make_module(**options) -> DiffusionModule:
    torch.manual_seed(0)
    algorithm = MDLM(TinyBackbone(), Absorbing(toy_layout(), LogLinear()))
    return DiffusionModule(
        algorithm, bound="plain", seed=0, **{"lr": 3e-3, "lr_schedule": "constant", **options}
    )


def streams(
    data: TokenDataset, *, batch_size: int, world_size: int = 1
) -> tuple[BatchStream, SplitBatches]:
    """What the first process of a run is trained and validated on."""
    options = {"batch_size": batch_size, "seed": 0, "world_size": world_size}
    return BatchStream(data, **options), SplitBatches(data, "val", **options)


def fit(
    module,
    folder,
    callbacks=(),
    steps=12,
    *,
    max_epochs=-1,
    val_check_interval=4,
    accumulate_grad_batches=1,
    batch_size=32,
    world_size=1,
    logger=False,
    data=None,
    **options,
):
    """``world_size``: the streams are those of the first of so many processes."""
    data = data or ToyData()
    trainer = Trainer(
        default_root_dir=folder,
        accelerator="cpu",
        max_steps=steps,
        max_epochs=max_epochs,
        logger=logger,
        log_every_n_steps=3,
        plugins=[CheckpointFiles()],
        enable_checkpointing=any(isinstance(c, Checkpoint) for c in callbacks),
        enable_progress_bar=False,
        enable_model_summary=False,
        val_check_interval=val_check_interval,
        check_val_every_n_epoch=None,
        accumulate_grad_batches=accumulate_grad_batches,
        callbacks=list(callbacks),
    )
    batches = streams(data, batch_size=batch_size, world_size=world_size)
    trainer.fit(module, *batches, weights_only=True, **options)
    return trainer
