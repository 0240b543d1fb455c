"""Reward tuning on a world small enough to enumerate: its gradient, its optimum, its paths."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor, nn

from discrete_diffusion.algorithms.reward import RewardTuning
from discrete_diffusion.categorical import log_softmax_on, make_generator
from discrete_diffusion.contracts import Batch
from discrete_diffusion.forward_process import Absorbing
from discrete_diffusion.noise_schedules import LogLinear, PerGroup
from toy_world import (
    DROPOUT,
    FULL,
    LEGAL,
    LENGTH,
    MASK,
    PAD,
    PADDED,
    VOCAB_SIZE,
    toy_layout,
    turned,
)

BETA = 0.5


SHAPE = (VOCAB_SIZE**LENGTH, LENGTH, VOCAB_SIZE)


class Table(nn.Module):
    """A row of logits for every position of every state of three tokens: any D whatever.

    They turn with t, by ``turn``, and have dropout, as networks in use.
    """

    def __init__(self, logits: Tensor | None = None, *, turn: float = 4.0) -> None:
        super().__init__()
        self.logits = nn.Parameter(torch.zeros(SHAPE) if logits is None else logits.float())
        self.turn = turn

    def forward(self, x_t: Tensor, sigma: Tensor) -> Tensor:
        logits = turned(self.logits[number(x_t)], sigma, by=self.turn)
        return nn.functional.dropout(logits, DROPOUT, self.training)

    def at_any_time(self, x_t: Tensor) -> Tensor:
        """Logits of a table that does not turn, without dropout."""
        assert self.turn == 0
        return self.logits[number(x_t)]


def random_table(seed: int, **options: float) -> Table:
    return Table(torch.randn(SHAPE, generator=make_generator(seed)), **options)


def number(x: Tensor) -> Tensor:
    return (x * VOCAB_SIZE ** torch.arange(LENGTH)).sum(dim=-1)


@dataclass
class World:
    """All samples of a size, Int[K, 3], and a probability of each."""

    real: Tensor
    samples: Tensor
    prob: Tensor

    @classmethod
    def random(cls, real: Tensor, seed: int) -> World:
        legal = [ids if kept else (PAD,) for ids, kept in zip(LEGAL, real.tolist(), strict=True)]
        samples = torch.tensor(list(itertools.product(*legal)))
        weights = torch.rand(len(samples), generator=make_generator(seed), dtype=torch.float64)
        return cls(real, samples, (weights + 0.05) / (weights + 0.05).sum())

    def tilted(self) -> World:
        weights = self.prob * (reward(self.samples) / BETA).exp()
        return World(self.real, self.samples, weights / weights.sum())


def reward(x0: Tensor) -> Tensor:
    return ((x0[:, 0] + x0[:, 1]) % 3 == 0).double() + 0.25 * (x0[:, 1] == 1)


def exact(worlds: list[World]) -> Table:
    """The network whose D is that of the worlds, by summing over all samples; the same at any t."""
    table = torch.full(SHAPE, 1e-12, dtype=torch.float64)
    for world in worlds:
        for hidden in itertools.product((False, True), repeat=LENGTH):
            masked = torch.tensor(hidden) & world.real
            for x, p in zip(world.samples, world.prob, strict=True):
                state = number(x.masked_fill(masked, MASK))
                table[state, torch.arange(LENGTH), x] += p
    return Table(table.log(), turn=0)


def tuning(student: nn.Module, teacher: nn.Module, schedule=None, **options) -> RewardTuning:
    process = Absorbing(toy_layout(), schedule or LogLinear())
    found = RewardTuning(student, process, reward="any", beta=BETA, **options)
    found.teacher.load_state_dict(teacher.state_dict())
    found.score = reward
    found.train()  # as a step of training does
    return found


def batch_of(worlds: list[World], num: int) -> Batch:
    x0 = torch.stack([world.samples[0] for world in worlds]).repeat(num, 1)
    return Batch(x0, x0 != PAD)


def worlds_of_both_sizes() -> list[World]:
    return [World.random(FULL, 1), World.random(PADDED, 2)]


def path_log_probs(network: Table, world: World) -> Tensor:
    """log p(x | order) of every order and sample of a world: Float64[O, K]."""
    layout, found = toy_layout(), []
    positions = world.real.nonzero().flatten().tolist()
    for order in itertools.permutations(positions):
        x_t, total = world.samples.masked_fill(world.real, MASK), 0.0
        for position in order:
            log_d0 = log_softmax_on(network.at_any_time(x_t).double(), layout.support)[:, position]
            token = world.samples[:, position]
            total = total + log_d0.gather(1, token.unsqueeze(1)).squeeze(1)
            x_t = x_t.clone()
            x_t[:, position] = token
        found.append(total)
    return torch.stack(found)


def value(network: Table, teacher: Table, world: World) -> Tensor:
    log_p, log_q = path_log_probs(network, world), path_log_probs(teacher, world).detach()
    return (log_p.exp() * (reward(world.samples) - BETA * (log_p - log_q))).sum(dim=1).mean()


def test_under_the_tilted_law_every_advantage_and_the_gradient_are_zero():
    worlds = worlds_of_both_sizes()
    tuned, teacher = exact([world.tilted() for world in worlds]), exact(worlds)
    schedule = PerGroup(toy_layout(), exponents={"node": 2.0, "edge": 1.0})
    algorithm = tuning(tuned, teacher, schedule)
    batch = batch_of(worlds, 64)
    loss = algorithm.loss(batch, make_generator(0)).loss
    loss.backward()
    assert abs(float(loss.detach())) < 1e-5
    assert float(tuned.logits.grad.abs().max()) < 1e-5
    assert teacher.logits.grad is None
    stays = tuning(teacher, teacher)  # and without a tilt it is not
    stays.loss(batch, make_generator(0)).loss.backward()
    assert float(teacher.logits.grad.abs().max()) > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("trained_calls", [1, 2, 8])
def test_the_gradient_is_that_of_the_value_on_average(trained_calls):
    worlds = worlds_of_both_sizes()
    generator = make_generator(3)
    student, teacher = random_table(1, turn=0), random_table(2, turn=0)
    algorithm = tuning(student, teacher, trained_calls=trained_calls)
    expected = sum(value(student, teacher, world) for world in worlds) / len(worlds)
    [truth] = torch.autograd.grad(-expected / LENGTH, student.logits)
    directions = torch.stack([truth, torch.randn(SHAPE, generator=generator)]).flatten(1)
    found = []
    for _ in range(100):
        loss = algorithm.loss(batch_of(worlds, 64), generator).loss
        [gradient] = torch.autograd.grad(loss, student.logits)
        found.append(directions @ gradient.flatten())
    mean, error = torch.stack(found).mean(dim=0), torch.stack(found).std(dim=0) / 10
    assert bool(((mean - directions @ truth.flatten()).abs() < 4 * error).all())
    assert float(mean[0]) > 10 * float(error[0])  # it is seen at all


@pytest.mark.parametrize("scale", [1.0, 1e-9, 0.0])
def test_the_calls_of_few_failures_are_all_trained_and_count_as_they_should(scale):
    """One sample of 64 lacks the reward: it has half of all weight."""
    student = random_table(7)
    algorithm = tuning(student, student, trained_calls=1)
    paths = algorithm.sample_paths(batch_of([World.random(FULL, 1)], 64), make_generator(8))
    advantage = torch.full((64,), 1 / 63, dtype=torch.float64)
    advantage[5] = -1.0
    advantage *= scale
    found = torch.stack(
        [
            algorithm.surrogate(paths, advantage, make_generator(seed)).detach()
            for seed in range(300)
        ]
    )
    expected = -(advantage * paths.nll).mean()
    error = found.std() / 300**0.5
    assert abs(float(found.mean() - expected)) <= 4 * float(error) + 1e-15
    alone = scale * torch.eye(64, dtype=torch.float64)[5]
    algorithm.trained_calls = 3  # a multiple of its calls: no chance is left
    found = algorithm.surrogate(paths, alone, make_generator(0)).detach()
    torch.testing.assert_close(found, -(alone * paths.nll).mean(), rtol=1e-6, atol=0)


def test_paths_are_those_of_first_hitting():
    worlds = worlds_of_both_sizes()
    student = random_table(5, turn=0)
    algorithm = tuning(student, student)
    batch = batch_of(worlds, 8000)
    paths = algorithm.sample_paths(batch, make_generator(6))
    assert torch.equal(paths.batch.real, batch.real)
    for world in worlds:
        rows = (batch.real == world.real).all(dim=1)
        law = path_log_probs(student, world).exp().mean(dim=0)
        counts = (number(paths.batch.x0[rows]).unsqueeze(1) == number(world.samples)).sum(dim=0)
        error = (law * (1 - law) / int(rows.sum())).sqrt()
        assert int(counts.sum()) == int(rows.sum())
        assert bool(((counts / counts.sum() - law).abs() < 4.5 * error + 1e-9).all())
    assert bool((paths.times.diff(dim=1) <= 0).all())
    assert float(paths.log_ratio.abs().max()) < 1e-6


def test_the_calls_of_a_path_are_computed_again_as_they_were():
    """Each at the time of its row, by networks in eval mode: the log p of all calls is that of the
    path, and a teacher with the weights of the network has the same."""
    student = random_table(5)
    algorithm = tuning(student, student)
    paths = algorithm.sample_paths(batch_of(worlds_of_both_sizes(), 50), make_generator(6))
    size = paths.batch.real.sum(dim=1)
    row = torch.arange(len(size)).repeat_interleave(size)
    call = torch.cat([torch.arange(int(num)) for num in size])
    with torch.no_grad():
        log_p = algorithm._log_prob_of_calls(paths, row, call)
    total = torch.zeros(len(size), dtype=log_p.dtype).index_add(0, row, log_p)
    torch.testing.assert_close(-total, paths.nll.to(total), rtol=1e-6, atol=1e-6)
    assert float(paths.log_ratio.abs().max()) < 1e-6
    assert float(paths.times.std()) > 0.1
    other = tuning(student, random_table(6))  # and the ratio is seen at all
    paths = other.sample_paths(batch_of(worlds_of_both_sizes(), 50), make_generator(6))
    assert float(paths.log_ratio.abs().max()) > 0.1


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"beta": 0}, "algo.beta=0"),
        ({"group_size": 1}, "algo.group_size"),
        ({"trained_calls": 0}, "algo.trained_calls"),
    ],
)
def test_what_is_refused(options, named):
    layout = toy_layout()
    with pytest.raises(ValueError, match=named):
        RewardTuning(Table(), Absorbing(layout, LogLinear()), **options)
    with pytest.raises(ValueError, match=r"data\.batch_size"):
        tuning(Table(), Table(), group_size=3).grouped(batch_of(worlds_of_both_sizes(), 2))
