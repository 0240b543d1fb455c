"""Block diffusion against enumeration; with one block it is MDLM, with blocks of one it is AR."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from discrete_diffusion.algorithms import BD3LM, MDLM, build_algorithm
from discrete_diffusion.algorithms.bd3lm import contiguous_blocks
from discrete_diffusion.algorithms.time_sampling import MASK_DRAWS, sample_blocks
from discrete_diffusion.categorical import make_generator
from discrete_diffusion.cli import compose
from discrete_diffusion.contracts import Batch
from discrete_diffusion.forward_process import Absorbing
from discrete_diffusion.layout import RPLAN_VOCAB_CONFIG, TokenLayout
from discrete_diffusion.noise_schedules import LogLinear
from toy_algorithms import ToyBackbone
from toy_world import (
    FULL,
    LENGTH,
    MASK,
    PAD,
    PADDED,
    ExactBackbone,
    ExactBlockBackbone,
    ExactRowBackbone,
    ToyWorld,
    all_schedules,
    quadrature,
    toy_layout,
)

BLOCKS = {"groups": None, "pairs": [2, 1], "ones": [1, 1, 1], "one": [3]}


WAYS = {"context": ExactBlockBackbone, "one block a call": ExactRowBackbone}
both_ways = pytest.mark.parametrize("way", WAYS)


def exact_bd3lm(
    schedule: str, lengths=None, tilt: float = 0.0, way: str = "context", **options
) -> BD3LM:
    layout = toy_layout()
    process = Absorbing(layout, all_schedules(layout)[schedule])
    return BD3LM(WAYS[way](process, tilt), process, block_lengths=lengths, **options).eval()


def integrate(world: ToyWorld, algorithm: BD3LM) -> float:
    """sum_b E_t E of the masked terms by quadrature; a shared t serves, as no term has two blocks.

    The network is called in its training form, with the clean sequence as context.
    """
    process = algorithm.process
    states = world.states(process)
    xt = states.repeat(len(world.x0), 1)
    x0 = world.x0.repeat_interleave(len(states), dim=0)
    real, masked = world.real.expand(len(xt), -1), xt == MASK
    total = 0.0
    for t, weight in quadrature():
        mass = world.log_q(process, states, t).sum(-1).exp().T * world.prob.unsqueeze(1)
        log_d0 = algorithm.denoise(xt, t.expand(len(xt)), real, {"context": x0}).double()
        nll = -log_d0.gather(-1, x0.unsqueeze(-1)).squeeze(-1)
        value = torch.where(masked & real, process.weight(t) * nll, 0.0).sum(dim=1)
        possible = mass.flatten() > 0
        total += float(weight * (mass.flatten() * value)[possible].sum())
    return total


@both_ways
def test_the_bound_is_tight_with_padding_and_a_wrong_denoiser_pays(way):
    padded, full = ToyWorld.make(PADDED), ToyWorld.make()
    for blocks in ("groups", "ones"):
        algorithm = exact_bd3lm("cosine", BLOCKS[blocks], way=way)
        assert integrate(padded, algorithm) == pytest.approx(padded.entropy, abs=1e-3)
    wrong = exact_bd3lm("cosine", tilt=2.0, way=way, time_conditioning=True)
    assert integrate(full, wrong) > full.entropy + 0.01


@pytest.mark.parametrize("time_conditioning", [False, True])
@pytest.mark.parametrize(
    ("schedule", "way", "blocks"),
    [
        ("per_group", "context", "groups"),
        ("per_group", "one block a call", "groups"),
        ("cosine", "one block a call", "ones"),
    ],
)
def test_the_shipped_loss_agrees(schedule, way, blocks, time_conditioning):
    """Every draw has the same mean, H of the mixture of full and padded data, of which some have a
    block of nothing but PAD; a wrong denoiser has its own bound, which the draw with one shared t
    must hit too."""
    worlds = [ToyWorld.make(FULL), ToyWorld.make(PADDED)]
    tilt = 4.0 if time_conditioning else 0.0
    algorithm = exact_bd3lm(
        schedule, BLOCKS[blocks], tilt=tilt, way=way, time_conditioning=time_conditioning
    )
    expected = sum(world.entropy for world in worlds) / 2
    if time_conditioning:
        expected = sum(integrate(world, algorithm) for world in worlds) / 2
    for draw in MASK_DRAWS:
        generator, means = make_generator(11), []
        for _ in range(12):
            rows = [w.x0[torch.multinomial(w.prob, 500, True, generator=generator)] for w in worlds]
            x0 = torch.cat(rows)[torch.randperm(1000, generator=generator)]
            output = algorithm.loss(Batch(x0, algorithm.layout.is_real(x0)), generator, draw)
            assert output.loss.item() == pytest.approx(output.nelbo.mean().item() / LENGTH)
            means.append(output.nelbo.double().mean())
        error = torch.stack(means).std().item() / math.sqrt(len(means))
        slack = 4.5 if draw == "uniform_count" else 6  # the others have infinite variance
        assert abs(torch.stack(means).mean().item() - expected) < slack * error + 1e-3, draw


def test_blocks_of_one_are_autoregressive_term_by_term():
    """The forced-mask draw has no variance left: -log p(x0) of every single sample."""
    algorithm = exact_bd3lm("per_group", [1, 1, 1])
    for world in (ToyWorld.make(FULL), ToyWorld.make(PADDED)):
        batch = Batch(world.x0, world.real.expand(len(world.x0), -1))
        nelbo = algorithm.loss(batch, make_generator(0), "uniform_count").nelbo.double()
        torch.testing.assert_close(nelbo, -world.prob.log(), rtol=1e-5, atol=1e-5)


def test_one_block_is_mdlm():
    layout, world = toy_layout(), ToyWorld.make()
    process = Absorbing(layout, all_schedules(layout)["per_group"])
    mdlm = MDLM(ExactBackbone(process, tilt=1.0), process).eval()
    batch = Batch(world.x0, world.real.expand(len(world.x0), -1))
    ours = exact_bd3lm("per_group", [3], tilt=1.0, time_conditioning=True)
    found, expected = (each.loss(batch, make_generator(3)).nelbo for each in (ours, mdlm))
    torch.testing.assert_close(found, expected)


def test_blocks_from_groups_sizes_and_lengths():
    vocab = RPLAN_VOCAB_CONFIG.layout()
    assert torch.equal(contiguous_blocks(vocab), vocab.group)
    assert contiguous_blocks(vocab, block_lengths=[8, 7, 21]).bincount().tolist() == [8, 7, 21]
    text = TokenLayout.flat(40, 12, mask_id=11)
    assert contiguous_blocks(text).bincount().tolist() == [16, 16, 8]
    assert contiguous_blocks(text, block_size=4).bincount().tolist() == [4] * 10
    assert contiguous_blocks(text, block_size=99).unique().tolist() == [0]
    support = vocab.support[:4]
    swapped = TokenLayout(
        support, mask_id=13, group=torch.tensor([1, 1, 0, 0]), group_names=("a", "b")
    )
    assert contiguous_blocks(swapped).tolist() == [0, 0, 1, 1]


def test_blocks_that_cannot_be_are_refused():
    layout = toy_layout()
    with pytest.raises(ValueError, match=r"block_lengths=\[2, 2\].*add up to 3"):
        contiguous_blocks(layout, block_lengths=[2, 2])
    with pytest.raises(ValueError, match=r"block_lengths=\[3, 0\]"):
        contiguous_blocks(layout, block_lengths=[3, 0])
    for size in (0, 1.5, "abc", True):
        with pytest.raises(ValueError, match=rf"algo\.block_size={size}: expected a whole number"):
            BD3LM(None, None, block_size=size)
    for lengths in (3, "abc", [1.5, 1.5], [True, 2], []):
        with pytest.raises(ValueError, match=r"algo\.block_lengths=.*: expected a list"):
            contiguous_blocks(layout, block_lengths=lengths)
    with pytest.raises(ValueError, match="leave one of them null"):
        contiguous_blocks(layout, block_size=1, block_lengths=[3])
    mixed = TokenLayout(
        layout.support, mask_id=MASK, group=torch.tensor([0, 1, 0]), group_names=("a", "b")
    )
    with pytest.raises(ValueError, match="groups a, b are not contiguous"):
        contiguous_blocks(mixed)


@pytest.mark.parametrize("options", [[], ["algo.block_size=4"], ["algo.block_lengths=[8,7,21]"]])
def test_a_fresh_network_costs_the_log_of_the_legal_ids(options):
    """With a shared schedule and blocks that hold one kind of token it costs it exactly."""
    algorithm = build_algorithm(compose("train", ["algo=bd3lm", "model=dit_tiny", *options]))
    vocab = RPLAN_VOCAB_CONFIG
    real = vocab.real_positions(torch.arange(1, 9))
    x0 = torch.where(real, algorithm.layout.support.long().argmax(dim=1), vocab.pad_id)
    nelbo = algorithm.eval().loss(Batch(x0, real), make_generator(0)).nelbo
    n = torch.arange(1.0, 9.0)
    expected = n * math.log(13) + n * (n - 1) / 2 * math.log(11)
    torch.testing.assert_close(nelbo, expected, rtol=1e-5, atol=1e-4)


BOTH = (ExactBlockBackbone, ExactRowBackbone)


def bd3lm(kind=ExactRowBackbone, lengths=(1, 1, 1), tilt: float = 0.0) -> BD3LM:
    process = Absorbing(toy_layout(), LogLinear())
    network = kind(process, tilt)
    return BD3LM(network, process, block_lengths=list(lengths), time_conditioning=tilt != 0)


def mixed(num: int) -> Batch:
    """Full and padded sequences in turn."""
    worlds = [ToyWorld.make(FULL), ToyWorld.make(PADDED)]
    x0 = torch.stack([worlds[k % 2].x0[k % 12] for k in range(num)])
    return Batch(x0, x0 != PAD)


class Rows(ToyBackbone):
    """Keeps the rows that it is shown."""

    def forward(self, x_t, group_idxs, sigma):
        self.x_t, self.sigma = x_t, sigma
        return super().forward(x_t, torch.zeros(len(x_t)) if sigma is None else sigma)


@pytest.mark.parametrize("time_conditioning", [False, True])
def test_a_row_has_clean_tokens_before_its_block_and_mask_behind(time_conditioning):
    process, batch, network = Absorbing(toy_layout(), LogLinear()), mixed(600), Rows()
    algorithm = BD3LM(
        network, process, block_lengths=[1, 1, 1], time_conditioning=time_conditioning
    )
    algorithm.loss(batch, make_generator(0))
    assert torch.equal(network.x_t == PAD, ~batch.real)
    clean = (network.x_t == batch.x0) & batch.real
    block = clean.sum(dim=1)  # blocks of one: a token drawn as MASK is the whole of its block
    assert torch.equal(clean, torch.arange(3) < block.unsqueeze(1))
    assert (network.x_t[batch.real & ~clean] == MASK).all()
    full, padded = block[0::2].bincount(), block[1::2].bincount(minlength=3)
    assert (full - 100).abs().max() < 40
    assert (padded - torch.tensor([150, 150, 0])).abs().max() < 40
    assert padded[2] == 0  # which would be nothing but PAD
    assert (network.sigma is not None) == time_conditioning


def test_blocks_are_drawn_among_those_that_hold_data():
    real = torch.tensor([[1, 1, 0, 0, 1, 0], [0, 0, 1, 0, 0, 0], [0, 0, 0, 0, 0, 0]]).bool()
    blocks = torch.tensor([0, 0, 1, 2, 2, 3])
    seen = [set(), set(), set()]
    for seed in range(20):
        block, num = sample_blocks(real, blocks, 4, make_generator(seed))
        assert num.tolist() == [2, 1, 0]
        for found, one in zip(seen, block.tolist(), strict=True):
            found.add(one)
    assert seen == [{0, 2}, {1}, {0}]
    even, _ = sample_blocks(torch.ones(60, 6).bool(), blocks, 4, make_generator(0))
    assert even.bincount().tolist() == [15, 15, 15, 15]
    again, _ = sample_blocks(real, blocks, None, make_generator(19))
    assert torch.equal(again, block)


def test_a_sample_of_nothing_but_pad_costs_nothing():
    x0 = torch.full((4, 3), PAD)
    nelbo = bd3lm().loss(Batch(x0, x0 != PAD), make_generator(0)).nelbo
    assert nelbo.tolist() == [0, 0, 0, 0]


def test_with_the_clean_sequence_it_predicts_every_block_as_the_other_way():
    algorithms, batch = [bd3lm(kind, (2, 1), 1.0).eval() for kind in BOTH], mixed(60)
    t = torch.linspace(0.05, 0.95, 60, dtype=torch.float64)
    xt = algorithms[0].process.corrupt(batch.x0, t, batch.real, make_generator(1))
    found = [a.denoise(xt, t, batch.real, a.teacher_forcing(batch)) for a in algorithms]
    torch.testing.assert_close(found[0][batch.real], found[1][batch.real])


def test_a_network_without_blocks_is_told_what_to_add():
    class Plain(nn.Module):
        def forward(self, x_t, sigma):
            return x_t

    with pytest.raises(ValueError, match=r"bd3lm needs .*group_idxs.*Plain\.forward\(x_t, sigma\)"):
        BD3LM(Plain(), Absorbing(toy_layout(), LogLinear()))
