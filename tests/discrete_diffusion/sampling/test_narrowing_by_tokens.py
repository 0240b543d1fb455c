"""A narrowing that reads the tokens drawn so far: satisfied, undone by the weights, else unseen."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from test_narrowing import EXACT, NUM, check_weights

from discrete_diffusion.categorical import make_generator
from discrete_diffusion.sampling import Narrowing, build_sampler, sample_in_batches
from discrete_diffusion.sampling.model import Model
from toy_samplers import CASES, ar, draw_from, exact, takes_steps
from toy_world import FULL, MASK, PADDED, VOCAB_SIZE, ToyWorld, noise_floor, total_variation

ORDER = torch.tensor([-1, 1, 1, -1, 0, 0])
"""Of every id, as a relation of pair (0, 1), (1, 2) or (0, 2): before, behind, or not known."""

ABSORBING = [
    (name, sampler)
    for name, sampler in CASES
    if exact(name).process.absorbing and sampler not in ("confidence", "first-surprise")
]


def runs_in_a_circle(x: torch.Tensor) -> torch.Tensor:
    """Bool[...]: 0 before 1 and 1 before 2, but 2 before 0; or the other way round."""
    first, second, both = ORDER[x].unbind(dim=-1)
    return (first == second) & (first == -both) & (first != 0)


class NoCircles(Narrowing):
    """Excludes an id if the others, where they are drawn, imply that it closes a circle."""

    def support(self, x, position):
        tried = x.unsqueeze(1).repeat(1, VOCAB_SIZE, 1)
        tried[torch.arange(len(x)), :, position] = torch.arange(VOCAB_SIZE)
        return ~runs_in_a_circle(tried)


class Refusing(NoCircles):
    """The same, told after the draw."""

    def support(self, x, position):
        return torch.ones(len(x), VOCAB_SIZE, dtype=torch.bool)

    def refuses(self, rows, x, position):
        return runs_in_a_circle(x)


class Probing(Refusing):
    probes = True


class Nothing(Refusing):
    def refuses(self, rows, x, position):
        return torch.zeros(len(rows), dtype=torch.bool)


@dataclass
class DeadEnds(Narrowing):
    """Nothing may follow two equal ids at positions 0 and 1."""

    def support(self, x, position):
        seen = (x[:, :2] != MASK).all(dim=1) & (x[:, 0] == x[:, 1])
        return ~seen.unsqueeze(1).expand(-1, VOCAB_SIZE)


def drawn(name, sampler, narrowing, num=NUM, *, real=FULL, seed=3, **options):
    steps = options.pop("steps", None)
    algorithm = exact(name) if isinstance(name, str) else name
    return build_sampler({"name": sampler, **options}).sample(
        algorithm,
        real.expand(num, -1),
        generator=make_generator(seed),
        steps=steps,
        narrowing=narrowing,
    )


def test_the_world_has_circles():
    world = ToyWorld.make()
    circles = runs_in_a_circle(world.x0)
    assert 0.1 < float(world.prob[circles].sum()) < 0.9


@pytest.mark.parametrize("narrowing", [NoCircles, Refusing])
@pytest.mark.parametrize(("name", "sampler"), ABSORBING)
def test_no_sample_runs_in_a_circle(name, sampler, narrowing):
    """Though all tokens of a call are drawn from what one call says."""
    steps = {"steps": 2} if takes_steps(name, sampler) else {}
    output = drawn(name, sampler, narrowing(), 400, **steps)
    assert not runs_in_a_circle(output.x0).any()
    assert (output.log_weights < -1e-6).any()
    assert output.log_weights.isfinite().all()


@pytest.mark.parametrize("sampler", [*EXACT, "autoregressive"])
def test_weights_recover_the_model_given_no_circle(sampler):
    world = ToyWorld.make()
    law = torch.where(runs_in_a_circle(world.x0), 0.0, world.prob)
    name = "ar" if sampler == "autoregressive" else "mdlm"
    output = drawn(name, sampler, NoCircles(), **EXACT.get(sampler, {}))
    check_weights(output.x0, output.log_weights, law, world)


@pytest.mark.parametrize("sampler", [*EXACT, "autoregressive"])
def test_weights_of_what_is_refused_are_exact_if_one_more_id_is_asked_about(sampler):
    world = ToyWorld.make()
    law = torch.where(runs_in_a_circle(world.x0), 0.0, world.prob)
    name = "ar" if sampler == "autoregressive" else "mdlm"
    options = EXACT.get(sampler, {})
    probed = drawn(name, sampler, Probing(), **options)
    check_weights(probed.x0, probed.log_weights, law, world)
    unasked = drawn(name, sampler, Refusing(), **options).log_weights.exp()
    error = float(unasked.std()) / NUM**0.5
    assert float(unasked.mean()) > float(law.sum()) + 6 * error


def test_samples_themselves_are_tilted():
    world = ToyWorld.make()
    law = torch.where(runs_in_a_circle(world.x0), 0.0, world.prob)
    share = world.distribution(drawn("mdlm", "first-hitting", NoCircles(), 60_000).x0)
    assert total_variation(share, law / law.sum()) > 2 * noise_floor(law / law.sum(), 60_000)


def test_weights_of_an_absent_position_are_one():
    output = drawn("mdlm", "first-hitting", NoCircles(), 500, real=PADDED)
    assert (output.log_weights == 0).all()


@pytest.mark.slow
def test_what_is_refused_is_drawn_as_if_it_had_been_excluded():
    world = ToyWorld.make()
    shares = [
        world.distribution(drawn("mdlm", "first-hitting", narrowing, 60_000, seed=seed).x0)
        for seed, narrowing in enumerate((NoCircles(), Refusing()))
    ]
    assert total_variation(*shares) < 1.5 * noise_floor(shares[0], 60_000)


def test_a_dead_end_has_weight_zero_and_the_others_are_exact():
    world = ToyWorld.make()
    dead = world.x0[:, 0] == world.x0[:, 1]
    output = drawn("ar", "autoregressive", DeadEnds(), 30_000)
    is_dead = output.x0[:, 0] == output.x0[:, 1]
    assert is_dead.any()
    assert (output.log_weights[is_dead].exp() == 0).all()
    assert (output.log_weights[~is_dead] == 0).all()
    check_weights(output.x0, output.log_weights, torch.where(dead, 0.0, world.prob), world)


def test_with_a_support_both_are_satisfied():
    world, algorithm = ToyWorld.make(), exact("mdlm")
    support = algorithm.layout.support.clone()
    support[0, 0] = False
    output = build_sampler({"name": "first-hitting"}).sample(
        algorithm,
        FULL.expand(NUM, -1),
        generator=make_generator(5),
        support=support.expand(NUM, -1, -1),
        narrowing=NoCircles(),
    )
    excluded = runs_in_a_circle(world.x0) | (world.x0[:, 0] == 0)
    check_weights(output.x0, output.log_weights, torch.where(excluded, 0.0, world.prob), world)


@pytest.mark.parametrize(("name", "sampler"), ABSORBING)
def test_what_narrows_nothing_changes_nothing(name, sampler):
    steps = {"steps": 2} if takes_steps(name, sampler) else {}
    for real in (FULL, PADDED):
        narrowed = drawn(name, sampler, Nothing(), 300, real=real, **steps)
        plain = draw_from(name, sampler, 300, real=real, seed=3, **steps)
        assert torch.equal(narrowed.x0, plain.x0)
        assert torch.equal(narrowed.nfe, plain.nfe)
        assert (narrowed.log_weights == 0).all()


def test_batches_have_a_narrowing_each_and_are_told_where_they_begin():
    made = []

    class Told(NoCircles):
        def __init__(self):
            made.append(self)

        def begin(self, x):
            self.start = x.clone()

    clamp = torch.full((90, 3), -1)
    clamp[:, 1] = 0
    sampler = build_sampler({"name": "first-hitting"})
    model = Model(exact("mdlm"), sampler, batch_size=40, narrowing=Told)
    output = sample_in_batches(model, FULL.expand(90, -1), generator=make_generator(1), clamp=clamp)
    assert len(made) == 3
    assert torch.cat([each.start for each in made]).tolist() == [[MASK, 0, MASK]] * 90
    assert not runs_in_a_circle(output.x0).any()


@pytest.mark.parametrize(
    ("name", "sampler", "options", "named"),
    [
        ("udlm", "ancestral", {}, "udlm with .* noise.*algo=mdlm"),
        ("mdlm", "confidence", {}, "'confidence'.*sampling=first-hitting"),
        ("mdlm", "entropy-bounded", {"order": "confidence"}, "'confidence'"),
        ("mdlm", "first-surprise", {}, "first-surprise.*sampling=first-hitting"),
    ],
)
def test_samplers_that_cannot_heed_it_refuse_it(name, sampler, options, named):
    with pytest.raises(ValueError, match=named):
        drawn(name, sampler, NoCircles(), 2, **options)
    assert ar().process.absorbing
