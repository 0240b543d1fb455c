"""Parts of a backbone that a stage does not train: as they were, and unknown to the optimiser."""

from __future__ import annotations

import torch
from lightning.pytorch import Callback
from torch import nn

from continuous_states.algorithms.latent_seq2seq import TRAINED_PARTS
from discrete_diffusion.data import Dataset, Examples
from discrete_diffusion.training import EMA, DiffusionModule
from discrete_diffusion.training.callbacks import MovingAverage
from toy_latents import latent_algorithm, text_pairs
from toy_training import fit


class Pairs(Dataset):
    state, bound = "latent", "plain"

    def __init__(self) -> None:
        pairs = text_pairs(64)
        examples = Examples(pairs.x0, pairs.real, conditions=pairs.conditions)
        self.splits = dict.fromkeys(("train", "val", "test"), examples)

    def summary(self) -> str:
        return "pairs"


class Modes(Callback):
    """Which parts are in training mode, at every step."""

    def __init__(self) -> None:
        self.seen: set[frozenset[str]] = set()

    def on_train_batch_start(self, trainer, pl_module, batch, batch_idx) -> None:
        parts = pl_module.algorithm.backbone.named_children()
        self.seen.add(frozenset(name for name, part in parts if part.training))


def test_a_run_changes_what_its_stage_trains_and_nothing_else(tmp_path):
    algorithm, modes = latent_algorithm(stage="adapter"), Modes()
    parts = dict(algorithm.backbone.named_children())
    before = {name: [p.detach().clone() for p in part.parameters()] for name, part in parts.items()}
    module = DiffusionModule(
        algorithm, bound="plain", seed=0, lr=1e-2, lr_schedule="constant", weight_decay=0.1
    )
    trainer = fit(module, tmp_path, [EMA(decay=0.5), modes], steps=4, data=Pairs())
    own = set(TRAINED_PARTS["adapter"])
    assert modes.seen == {frozenset(own)}  # also after a validation
    for name, part in parts.items():
        same = [torch.equal(p, q) for p, q in zip(part.parameters(), before[name], strict=True)]
        assert all(same) if name not in own else not any(same), name
    held = {id(p) for group in trainer.optimizers[0].param_groups for p in group["params"]}
    assert held == {id(p) for name in own for p in parts[name].parameters()}


def test_weights_that_are_not_trained_are_not_averaged():
    """They are taken over once; the others move by 1 - 2 / 11 in the second step."""
    module = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2).requires_grad_(False))
    average = MovingAverage(module, device=torch.device("cpu"), decay=0.9)
    for value in (1.0, 2.0):
        for parameter in module.parameters():
            parameter.data.fill_(value)
        average.update_parameters(module)
    trained, frozen = average.module
    torch.testing.assert_close(trained.weight, torch.full((2, 2), 1 + 9 / 11))
    assert (frozen.weight == 1).all()
