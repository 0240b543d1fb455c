"""Guidance of token samplers by enumeration, and conditions that are encoded once."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from discrete_diffusion.algorithms import AR, MDLM, UDLM, TokenAlgorithm
from discrete_diffusion.categorical import effective_number, log_mean, make_generator
from discrete_diffusion.forward_process import Absorbing, Uniform
from discrete_diffusion.noise_schedules import LogLinear
from discrete_diffusion.sampling import Model, build_sampler, sample_in_batches
from floor_plans.briefs.particles import Move, Particles, systematic_rows
from toy_algorithms import ZeroBackbone
from toy_constraints import CONSTRAINTS, Toy
from toy_samplers import CODE, EVERY_STATE, fitting_samplers, takes_steps
from toy_world import (
    FULL,
    LENGTH,
    VOCAB_SIZE,
    ExactCausalBackbone,
    ToyWorld,
    noise_floor,
    total_variation,
    toy_layout,
)

WEIGHTS = (0.0, 0.5, 1.0, 2.5)
NONE = 2
"""The row of ``log_d0`` of a sample without a condition; before it those of the conditions."""


def exact_d0() -> Tensor:
    """D at every state by enumeration, given one of two conditions, each a world of its own, and
    given none, where both are equally likely: Float64[3, 216, 3, V]."""
    worlds = [ToyWorld.make(seed=0), ToyWorld.make(seed=1)]
    prob = (worlds[0].prob + worlds[1].prob) / 2
    worlds.append(ToyWorld(worlds[0].layout, FULL, worlds[0].x0, prob))
    half = torch.tensor([0.5], dtype=torch.float64)
    process = Absorbing(toy_layout(), LogLinear())
    return torch.stack([world.log_d0(process, EVERY_STATE, half) for world in worlds])


def guided_by_hand(log_d0: Tensor, weight: float) -> Tensor:
    """Of each condition, and 'none' as it is: D(condition)^w D(none)^(1 - w) over its sum."""
    given, without = log_d0[:NONE].exp(), log_d0[NONE:].exp()
    product = torch.where(given > 0, given**weight * without ** (1 - weight), 0.0)
    product = without.expand_as(given) if weight == 0 else product
    found = torch.cat([product / product.sum(dim=-1, keepdim=True), without])
    return found.log().clamp(min=-1e9)


class Conditional(nn.Module):
    """Says what a table has for the state and the condition, ``label`` Int[B]."""

    encoder_reads_time = False

    def __init__(self, log_d0: Tensor) -> None:
        super().__init__()
        self.log_d0, self.num_encoded, self.calls = log_d0, 0, 0

    def encode(self, label: Tensor) -> Tensor:
        self.num_encoded += 1
        return label

    def row(self, label, keep, encoded) -> Tensor:
        self.calls += 1
        which = self.encode(label) if encoded is None else encoded
        return which if keep is None else torch.where(keep, which, NONE)

    def forward(self, x_t, sigma=None, label=None, keep=None, encoded=None):
        return self.log_d0[self.row(label, keep, encoded), (x_t * CODE).sum(-1)]


class Causal(Conditional):
    """From left to right; D of a state is that of all that stands before a position."""

    causal = True
    new_cache = ExactCausalBackbone.new_cache

    def forward(self, x_t, sigma=None, label=None, keep=None, encoded=None, cache=None):
        row = self.row(label, keep, encoded)
        self.whole = lambda seen: self.log_d0[row, (seen * CODE).sum(-1)]
        return ExactCausalBackbone.forward(self, x_t, sigma, cache)


def built(name: str, log_d0: Tensor, **options) -> TokenAlgorithm:
    layout = toy_layout()
    if name == "udlm":
        return UDLM(Conditional(log_d0), Uniform(layout, LogLinear()), **options)
    process = Absorbing(layout, LogLinear())
    if name == "ar":
        return AR(Causal(log_d0), process, **options)
    return MDLM(Conditional(log_d0), process, **options)


CASES = [
    (name, sampler)
    for name in ("mdlm", "udlm", "ar")
    for sampler in fitting_samplers(built(name, torch.zeros(1)))
]


def draw(
    algorithm: TokenAlgorithm, sampler: str, num: int = 40, label: Tensor | None = None, **options
):
    conditions = {"label": torch.arange(num) % 2 if label is None else label, "unread": FULL}
    few = {"steps": 3} if takes_steps(algorithm, sampler) else {}
    return build_sampler({"name": sampler, **options}).sample(
        algorithm,
        FULL.expand(num, -1),
        generator=make_generator(3),
        conditions=conditions,
        **few,
    )


@pytest.mark.parametrize(("name", "sampler"), CASES)
def test_samples_are_those_of_the_guided_d(name, sampler):
    """A network that says D_w by itself draws the same, at half the calls; 1 is one call."""
    log_d0 = exact_d0()
    none = torch.full((40,), NONE)
    model = built(name, log_d0)
    for weight in WEIGHTS:
        guided = draw(built(name, log_d0, condition_dropout=0.1), sampler, guidance=weight)
        expected = draw(built(name, guided_by_hand(log_d0, weight)), sampler)
        assert torch.equal(guided.x0, expected.x0)
        assert torch.equal(guided.nfe, expected.nfe * (1 if weight == 1 else 2))
        if weight in (0.0, 1.0):
            plain = draw(model, sampler, label=none if weight == 0 else None)
            assert torch.equal(guided.x0, plain.x0)
    assert not torch.equal(draw(model, sampler).x0, draw(model, sampler, label=none).x0)


@pytest.mark.parametrize(("name", "sampler"), CASES)
def test_a_condition_is_encoded_once_unless_its_encoder_reads_the_time(name, sampler):
    once, always = (built(name, exact_d0(), condition_dropout=0.1) for _ in range(2))
    always.backbone.encoder_reads_time = True
    found = [draw(algorithm, sampler, guidance=2.0).x0 for algorithm in (once, always)]
    assert torch.equal(*found)
    assert once.backbone.num_encoded == 1
    assert always.backbone.num_encoded == always.backbone.calls == once.backbone.calls > 1
    assert once.encoded({"label": FULL, "unread": FULL}).keys() == {"encoded"}
    assert always.encoded({"label": FULL, "unread": FULL}).keys() == {"label"}


def test_particles_and_moves_are_of_the_model_given_its_condition():
    """Of one of the two worlds given "a 3 and no more than one", by enumeration."""
    num, label = 12_000, 1
    world = ToyWorld.make(seed=label)
    kept = world.prob * CONSTRAINTS["one three"](world.x0)
    law = kept / kept.sum()
    model, constraint = built("mdlm", exact_d0()), Toy("one three", "possible", FULL)
    conditions = {"label": torch.full((num,), label)}
    output = Particles(constraint=constraint).sample(
        model, FULL.expand(num, -1), generator=make_generator(4), conditions=conditions
    )
    assert log_mean(output.log_weights) == pytest.approx(float(kept.sum().log()), abs=0.08)
    rows = systematic_rows(output.log_weights, num, make_generator(5))
    floor = noise_floor(law, int(0.3 * effective_number(output.log_weights)))
    assert total_variation(world.distribution(output.x0[rows]), law) < floor
    start = world.x0[torch.multinomial(law, num, replacement=True, generator=make_generator(6))]
    move = Move(build_sampler({"name": "first-hitting"}), model, constraint, share=0.6)
    moved, accepted = move(
        start, FULL.expand(num, -1), generator=make_generator(7), conditions=conditions
    )
    assert 0.1 < accepted.double().mean() < 1
    assert total_variation(world.distribution(moved.x0), law) < noise_floor(law, num)


def test_every_row_of_many_is_drawn_from_its_own_condition():
    log_d0, num = exact_d0(), 3_000
    label = torch.arange(num) % 3 % 2
    drawn = sample_in_batches(
        Model(built("mdlm", log_d0), build_sampler({"name": "first-hitting"}), batch_size=100),
        FULL.expand(num, -1),
        generator=make_generator(0),
        conditions={"label": label},
    )
    for k in range(2):
        world, of_label = ToyWorld.make(seed=k), label == k
        found = world.distribution(drawn.x0[of_label])
        floor = noise_floor(world.prob, int(of_label.sum()))
        assert total_variation(found, world.prob) < floor


def test_guidance_needs_a_condition_and_a_model_that_can_do_without():
    log_d0 = torch.zeros(3, VOCAB_SIZE**3, LENGTH, VOCAB_SIZE)
    with pytest.raises(ValueError, match=r"guidance=2 .* algo.condition_dropout=0.1, or leave gui"):
        draw(built("mdlm", log_d0), "ancestral", guidance=2.0)
    sampler = build_sampler({"name": "ancestral", "guidance": 2.0})
    algorithm = built("mdlm", log_d0, condition_dropout=0.1)
    with pytest.raises(ValueError, match=r"given a condition; give conditions={'label': ..."):
        sampler.sample(algorithm, FULL.expand(2, -1), generator=make_generator(0))
    with pytest.raises(ValueError, match=r"given a condition; give conditions={'label': ..."):
        build_sampler({"name": "ancestral"}).sample(
            built("mdlm", log_d0), FULL.expand(2, -1), generator=make_generator(0)
        )
    algorithm = MDLM(ZeroBackbone(), Absorbing(toy_layout(), LogLinear()), condition_dropout=0.1)
    with pytest.raises(ValueError, match=r"sampling\.guidance=2 needs conditions=.*leave it out"):
        sampler.sample(algorithm, FULL.expand(2, -1), generator=make_generator(0))
