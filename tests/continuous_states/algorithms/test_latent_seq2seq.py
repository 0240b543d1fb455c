"""Summaries from latents: what each stage computes and trains, against its equations."""

from __future__ import annotations

import math

import pytest
import torch
from lightning.pytorch import Callback
from torch import Tensor, nn

from continuous_states.algorithms.latent_seq2seq import TRAINED_PARTS, info_nce
from continuous_states.networks.latent_space import LatentSpaceModel
from discrete_diffusion.categorical import make_generator
from discrete_diffusion.contracts import Batch, LossOutput
from discrete_diffusion.data import Dataset, Examples
from discrete_diffusion.training import EMA, DiffusionModule
from discrete_diffusion.training.callbacks import MovingAverage
from toy_latents import EOS, SOURCE_PAD, D, K, latent_algorithm, latent_model, text_pairs
from toy_training import fit

NUMBERS = K * D
STAGES = [
    *({"stage": stage} for stage in TRAINED_PARTS),
    {"stage": "adapter", "adapter_uses_latent_model": True},
    {"stage": "joint", "latent_weight": 0.0},
]


def loss_of(algorithm, batch: Batch) -> LossOutput:
    return algorithm.loss(batch, make_generator(0), algorithm.evaluation_draw)


def text_costs(model: LatentSpaceModel, latents: Tensor, batch: Batch) -> list[float]:
    """-log p(summary | latents) of each pair, one token and one sample at a time."""
    costs = []
    for z, ids, real in zip(latents, batch.x0, batch.real, strict=True):
        read, cost = model.prefix(z[None]), 0.0
        for token in ids[real]:
            log_probs = model.decoder(read, num_logits=1)[0, -1].log_softmax(-1)
            cost -= float(log_probs[token])
            read = torch.cat([read, model.decoder.embed(token[None, None])], dim=1)
        costs.append(cost)
    return costs


def latents_of(model: LatentSpaceModel, ids: Tensor) -> Tensor:
    """Of texts one at a time; without their padding, unless there is nothing else."""
    found = []
    for row in ids:
        size = max(int((row != SOURCE_PAD).sum()), 1)
        found.append(model.encode(row[None, :size], row[None, :size] != SOURCE_PAD))
    return torch.cat(found)


def test_latents_that_are_the_same_for_all_cost_the_log_of_the_batch():
    row = torch.randn(1, K, D).expand(5, -1, -1)
    assert float(info_nce(row, row)) == pytest.approx(math.log(5))
    apart = torch.eye(5)[:, None].expand(-1, K, -1)
    assert float(info_nce(apart, apart)) == pytest.approx(math.log1p(4 * math.exp(-10)), abs=1e-6)
    a, b = torch.randn(2, 4, K, D).unbind()
    assert float(info_nce(a, b)) == pytest.approx(float(info_nce(b, a)))  # in both directions
    assert float(info_nce(3 * a, b)) == pytest.approx(float(info_nce(a, b)))  # cosines


@pytest.mark.parametrize("options", [STAGES[5], STAGES[3], STAGES[4]])
def test_the_nelbo_is_the_cost_of_the_text(options):
    batch = text_pairs()
    algorithm = latent_algorithm(**options).eval()
    model, moved = algorithm.backbone, options != {"stage": "adapter"}
    with torch.no_grad():
        source = batch.conditions["source" if moved else "encoded_target"]
        latents = latents_of(model, source)
        latents = model.middle(latents) if moved else latents
        expected = text_costs(model, latents, batch)
        end = Batch(torch.full((1, 1), EOS), torch.ones(1, 1, dtype=torch.bool))
        stop = text_costs(model, model.stop_latent()[None], end)
        output = loss_of(algorithm, batch)
    assert output.nelbo.tolist() == pytest.approx(expected, rel=1e-5)
    assert output.num_real.tolist() == [1, 2, 3, 4]
    assert float(output.loss) == pytest.approx((sum(expected) + stop[0]) / 11, rel=1e-5)


@pytest.mark.parametrize("stage", ["autoencode", "latent_model"])
def test_stages_without_text_are_a_regression_of_latents(stage):
    batch = text_pairs()
    algorithm = latent_algorithm(stage=stage, infonce_weight=0.3).eval()
    model = algorithm.backbone
    with torch.no_grad():
        stop = model.stop_latent()[None]
        z = torch.cat([latents_of(model, batch.conditions["source"]), stop])
        target = z
        if stage == "latent_model":
            target = torch.cat([latents_of(model, batch.conditions["encoded_target"]), stop])
        y = model.middle(z)
        output = loss_of(algorithm, batch)
    squares = (y - target).square().sum(dim=(1, 2))
    expected = squares.mean() / NUMBERS + 0.3 * info_nce(y, target)
    assert float(output.loss) == pytest.approx(float(expected), rel=1e-5)
    gaussian = squares[:-1] / 2 + NUMBERS / 2 * math.log(2 * math.pi)
    assert output.nelbo.tolist() == pytest.approx(gaussian.tolist(), rel=1e-5)
    assert output.num_real.tolist() == [NUMBERS] * 4
    assert algorithm.bound == "gaussian"


def test_the_distance_to_the_summary_is_added_to_the_joint_loss():
    batch, model = text_pairs(), latent_model()
    with torch.no_grad():
        plain, weighted = (
            loss_of(latent_algorithm(model, latent_weight=w).eval(), batch) for w in (0.0, 0.5)
        )
        apart = loss_of(latent_algorithm(model, stage="latent_model").eval(), batch).loss
    assert float(weighted.loss) == pytest.approx(float(plain.loss + 0.5 * apart), rel=1e-5)
    assert torch.equal(weighted.nelbo, plain.nelbo)


BOUNDS = (None, "gaussian", "gaussian", "reconstruction", None, None)
"""A summary from itself has another bound than a summary from its dialogue."""


@pytest.mark.parametrize(("options", "bound"), [*zip(STAGES, BOUNDS, strict=True)], ids=str)
def test_a_stage_trains_its_own_parts_and_has_its_bound(options, bound):
    algorithm = latent_algorithm(**options).train()
    assert algorithm.bound == bound
    algorithm.loss(text_pairs(), make_generator(0)).loss.backward()
    for name, part in algorithm.backbone.named_children():
        own = name in TRAINED_PARTS[options["stage"]]
        assert all(child.training == own for child in part.modules())
        for parameter in part.parameters():
            assert parameter.requires_grad == own
            assert (parameter.grad is not None and bool(parameter.grad.any())) == own, name


def test_no_gradient_goes_through_what_is_aimed_at():
    """Else the middle would be met half-way by the stop latent."""
    algorithm = latent_algorithm(stage="autoencode", infonce_weight=0.0).eval()
    stop, batch = algorithm.backbone.stop_latent.value, text_pairs()
    (slope,) = torch.autograd.grad(loss_of(algorithm, batch).loss, stop)
    aim = stop.detach().clone()
    moved = algorithm.backbone.middle(stop[None])[0]
    (expected,) = torch.autograd.grad((moved - aim).square().mean() / 5, stop)
    torch.testing.assert_close(slope, expected)


def test_in_joint_the_summary_is_moved_by_the_contrast_and_not_by_the_squared_error():
    model, batch = latent_model(), text_pairs()
    weight = model.compression.projection[0].weight

    def slope(loss: Tensor) -> Tensor:
        return torch.autograd.grad(loss, weight)[0]

    plain, weighted = (
        slope(
            loss_of(latent_algorithm(model, latent_weight=w, infonce_weight=0.3).eval(), batch).loss
        )
        for w in (0.0, 2.0)
    )
    stop = model.stop_latent()[None]
    y = model.middle(torch.cat([latents_of(model, batch.conditions["source"]), stop]))
    u = torch.cat([latents_of(model, batch.conditions["encoded_target"]), stop])
    apart = (y - u.detach()).square().mean() + 0.3 * info_nce(y, u)
    torch.testing.assert_close(weighted - plain, 2 * slope(apart), rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"stage": "adaptor"}, "unknown algo.stage 'adaptor'; did you mean 'adapter'"),
        ({"latent_weight": -1}, "algo.latent_weight=-1: expected a number, at least 0"),
        ({"infonce_weight": math.nan}, "algo.infonce_weight=nan"),
        (
            {"adapter_uses_latent_model": True},
            "adapter_uses_latent_model=true is an option of algo.stage=a",
        ),
        ({"stage": "latent_model", "latent_weight": 2.0}, "algo.latent_weight=2.0 is an option of"),
    ],
)
def test_settings_that_there_are_not(options, says):
    with pytest.raises(ValueError, match=says):
        latent_algorithm(**options)
    with pytest.raises(ValueError, match=r"unknown draw 'uniform'\. Available: exact"):
        latent_algorithm().loss(text_pairs(), make_generator(0), "uniform")


@pytest.mark.parametrize("options", STAGES[:4])
def test_columns_of_padding_alone_are_left_out_and_change_nothing(options):
    algorithm, batch = latent_algorithm(**options).eval(), text_pairs(3, longest=3)
    found = algorithm.prepare_batch(batch)
    assert found.x0.shape == found.real.shape == (3, 3)
    assert found.conditions["source"].shape == (3, 3)
    assert found.conditions["encoded_target"].shape == (3, 2)
    with torch.no_grad():
        short, long = loss_of(algorithm, found), loss_of(algorithm, batch)
    torch.testing.assert_close(short.nelbo, long.nelbo)
    torch.testing.assert_close(short.loss, long.loss)


def test_a_step_reads_nothing_back():
    """On the meta device, which holds no numbers."""
    algorithm, batch = latent_algorithm(), text_pairs()
    output = algorithm.to("meta").loss(algorithm.prepare_batch(batch).to("meta"), make_generator(0))
    output.loss.backward()
    assert output.nelbo.shape == (4,)


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
