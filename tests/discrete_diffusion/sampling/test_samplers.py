"""Samplers besides their distribution: repeatability, temperature and top-p, modes, errors."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from discrete_diffusion.algorithms import TokenAlgorithm
from discrete_diffusion.categorical import make_generator, neg_inf
from discrete_diffusion.sampling import (
    FirstHitting,
    build_sampler,
    check_sampler,
    sample_in_batches,
)
from discrete_diffusion.sampling.model import Model
from discrete_diffusion.sampling.partial_samples import check_request
from discrete_diffusion.sampling.registry import SAMPLERS
from toy_samplers import CASES, draw_from, exact, runs_a_grid, takes_steps
from toy_world import FULL, LENGTH, MASK, PAD, PADDED, VOCAB_SIZE, ExactCausalBackbone, toy_layout

THREE = [("mdlm", "first-hitting"), ("udlm", "ancestral"), ("mdlm", "entropy-bounded")]
"""Samplers that take calls, steps, or neither."""


@pytest.fixture(params=CASES, ids=[f"{sampler}-{name}" for name, sampler in CASES])
def case(request) -> tuple[str, str]:
    """(algorithm, sampler)."""
    return request.param


def few(algorithm: str, sampler: str, steps: int = 6) -> dict[str, int]:
    return {"steps": steps} if takes_steps(algorithm, sampler) else {}


def test_same_seed_same_samples_and_the_global_rng_is_untouched(case):
    before = torch.random.get_rng_state()
    first, second, other = (
        draw_from(*case, 64, seed=seed, keep_trajectory=True, **few(*case)) for seed in (1, 1, 2)
    )
    assert torch.equal(first.trajectory, second.trajectory)
    assert torch.equal(first.nfe, second.nfe)
    assert not torch.equal(first.x0, other.x0)
    assert torch.equal(before, torch.random.get_rng_state())


def shape_denoise(
    algorithm: TokenAlgorithm, power: float, allowed: torch.Tensor, top_p: float
) -> None:
    """Its D becomes D^power on the ids ``allowed`` Bool[L, V], and of those only the likeliest stay
    whose predecessors have less than ``top_p`` together."""
    answer = algorithm.denoise

    def denoise(*args, **kwargs):
        log_d0 = answer(*args, **kwargs)
        p = log_d0.double().exp() ** power * allowed
        p /= p.sum(dim=-1, keepdim=True)
        likelier = p.unsqueeze(-2) > p.unsqueeze(-1)  # of an id, which others are
        p *= (likelier * p.unsqueeze(-2)).sum(dim=-1) < top_p
        p /= p.sum(dim=-1, keepdim=True)
        return p.clamp(min=1e-300).log().masked_fill(p == 0, neg_inf(log_d0.dtype)).to(log_d0)

    algorithm.denoise = denoise  # type: ignore[method-assign]


@pytest.mark.parametrize(
    ("name", "sampler"),
    [case for case in CASES if case[1] != "autoregressive"],  # which asks for D column by column
)
def test_d_is_tempered_then_narrowed_then_cut(name, sampler):
    """Once each, in that order: the tokens are those of a model whose D is of that shape."""
    allowed, support = toy_layout().support.clone(), None
    if sampler != "entropy-bounded":  # which counts the entropies as they were
        allowed[0, 1] = allowed[1, 0] = False
        support = allowed
    shaped = exact(name)
    shape_denoise(shaped, 1 / 1.6, allowed, 0.75)
    request = {"num": 300, "seed": 5, **few(name, sampler, 4)}
    if sampler == "first-surprise":  # which counts the surprises as they were
        request["surprises"] = 9.0
    expected = draw_from(shaped, sampler, **request).x0
    output = draw_from(name, sampler, temperature=1.6, top_p=0.75, support=support, **request)
    assert torch.equal(output.x0, expected)


def test_sampling_uses_eval_mode_and_restores_training(case):
    name, sampler = case
    algorithm, modes = exact(name), []

    class Spy(nn.Module):
        causal = True

        new_cache = ExactCausalBackbone.new_cache

        def forward(self, x_t, **others):
            modes.append(self.training)
            return torch.zeros(*x_t.shape, VOCAB_SIZE)

    algorithm.backbone = Spy()
    vars(algorithm).pop("logits", None)  # the class's own, which asks the backbone
    algorithm.train()
    draw_from(algorithm, sampler, 2, seed=4, **few(algorithm.name, sampler))
    assert modes
    assert not any(modes)
    assert algorithm.training
    assert algorithm.backbone.training

    def broken(x_t, **others):
        raise RuntimeError("out of order")

    algorithm.backbone.forward = broken
    with pytest.raises(RuntimeError, match="out of order"):
        draw_from(algorithm, sampler, 2, **few(algorithm.name, sampler))
    assert algorithm.training


def test_an_empty_request_gives_no_samples(case):
    output = draw_from(*case, 0, keep_trajectory=True, **few(*case))
    assert output.x0.shape == (0, LENGTH)
    assert output.nfe.shape == output.log_weights.shape == (0,)
    assert output.trajectory.shape == (1, 0, LENGTH)


def test_sizes_and_clamps_may_be_mixed(case):
    """Rows that are finished, short and long share the calls; each pays for its own."""
    name, sampler = case
    algorithm = exact(name)
    real = torch.stack([FULL, PADDED]).repeat(100, 1)
    clamp = torch.full_like(real, -1, dtype=torch.long)
    clamp[::3, 0], clamp[::5, 1] = 1, 2
    clamp[:2] = torch.tensor([[2, 0, 3], [0, 1, -1]])  # nothing left to draw
    output = sample_in_batches(
        Model(algorithm, build_sampler({"name": sampler}), batch_size=64, **few(name, sampler, 5)),
        real,
        generator=make_generator(8),
        clamp=clamp,
        trajectories=len(real),
    )
    assert (output.x0[~real] == PAD).all()
    assert (output.x0[clamp >= 0] == clamp[clamp >= 0]).all()
    algorithm.layout.check(output.x0, real)
    assert (output.nfe[:2] == 0).all()
    free = (real & (clamp < 0)).sum(dim=1)
    assert ((output.nfe > 0) == (free > 0)).all()
    if sampler in ("first-hitting", "confidence", "margin", "entropy", "autoregressive"):
        assert torch.equal(output.nfe, free)
    assert torch.equal(output.trajectory[-1], output.x0)
    finished = output.trajectory[:, :2]
    assert (finished == finished[0]).all()


def test_a_trajectory_begins_with_noise_and_ends_with_the_sample(case):
    name, sampler = case
    output = draw_from(name, sampler, 50, real=PADDED, keep_trajectory=True, **few(name, sampler))
    plain = draw_from(name, sampler, 50, real=PADDED, **few(name, sampler))
    assert plain.trajectory is None
    assert torch.equal(plain.x0, output.x0)
    assert torch.equal(output.trajectory[-1], output.x0)
    assert (output.trajectory[:, :, 2] == PAD).all()
    first = output.trajectory[0, :, :2]
    if exact(name).process.name in ("absorbing", "hybrid"):
        assert (first == MASK).all()
    else:
        assert toy_layout().support[torch.arange(2), first].all()
    if sampler == "ancestral" and exact(name).process.absorbing:
        hidden = output.trajectory == MASK
        assert not (hidden[1:] & ~hidden[:-1]).any()  # nothing goes back


@pytest.mark.parametrize(("name", "sampler"), THREE)
def test_a_clamp_may_not_hold_what_the_support_excludes(name, sampler):
    support = toy_layout().support.clone()
    support[0, 1] = False
    with pytest.raises(ValueError, match="clamp holds id 1 at sample 0, position 0"):
        draw_from(name, sampler, 2, clamp=torch.tensor([1, -1, -1]), support=support)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"real": torch.ones(2, 5, dtype=torch.bool)}, r"expected Bool\[B, 3\]"),
        ({"clamp": torch.tensor([[3, -1, -1]])}, "clamp holds id 3 at sample 0, position 0"),
        ({"clamp": torch.tensor([[MASK, -1, -1]])}, "clamp holds id 4"),
        ({"clamp": torch.tensor([[99, -1, -1]])}, "clamp holds id 99"),
        ({"clamp": torch.tensor([[-1, -1]])}, r"clamp: expected \(1, 3\)"),
        ({"real": PADDED.unsqueeze(0), "clamp": torch.tensor([[-1, -1, 3]])}, "holds id 3"),
        ({"support": torch.zeros(1, 3, 6, dtype=torch.bool)}, "support leaves no id at sample 0"),
        ({"support": torch.zeros(1, 3, 2, dtype=torch.bool)}, "support: expected"),
    ],
)
def test_requests_that_cannot_be_met_are_refused(arguments, message):
    request = {"real": FULL.expand(1, -1), **arguments}
    with pytest.raises(ValueError, match=message):
        FirstHitting().sample(exact("mdlm"), generator=make_generator(0), **request)


def test_every_sampler_refuses_a_clamp_on_an_illegal_id(case):
    with pytest.raises(ValueError, match="clamp holds id 3 at sample 0, position 0"):
        draw_from(*case, 1, clamp=torch.tensor([3, -1, -1]))


def test_an_id_beyond_the_vocabulary_is_not_taken_for_the_last_one():
    """The last id is legal here, unlike PAD."""
    layout = SimpleNamespace(
        length=1, vocab_size=2, num_given=0, support=torch.ones(1, 2, dtype=torch.bool)
    )
    real = torch.ones(1, 1, dtype=torch.bool)
    check_request(layout, real, torch.tensor([[1]]), None)
    with pytest.raises(ValueError, match="clamp holds id 2 at sample 0, position 0"):
        check_request(layout, real, torch.tensor([[2]]), None)


@pytest.mark.parametrize("name", SAMPLERS.names())
def test_a_bare_network_is_refused_with_what_to_write(name):
    network, sampler = nn.Identity(), build_sampler({"name": name})
    ways = [
        lambda: sampler.sample(network, FULL.expand(2, -1), generator=make_generator(0)),
        lambda: check_sampler(sampler, network),
        lambda: Model(network, sampler).sample_batch(FULL[None], generator=make_generator(0)),
    ]
    for way in ways:
        with pytest.raises(TypeError, match=r"algorithm, got Identity.*MDLM\(network, Absorbing"):
            way()


@pytest.mark.parametrize(("name", "sampler"), THREE)
def test_steps_below_one_are_refused(name, sampler):
    message = "steps=0: expected at least 1" if takes_steps(name, sampler) else "leave steps"
    with pytest.raises(ValueError, match=message):
        draw_from(name, sampler, 2, steps=0)


@pytest.mark.parametrize(
    ("name", "sampler"),
    [case for case in CASES if runs_a_grid(case[1]) and not exact(case[0]).process.absorbing],
)
def test_grids_spend_one_call_per_step_on_noise_that_leaves_doubt(name, sampler):
    clamp = torch.tensor([[0, 1, 2], [1, 2, 3], [1, -1, 3]])
    output = build_sampler({"name": sampler}).sample(
        exact(name),
        FULL.expand(3, -1),
        generator=make_generator(0),
        steps=5,
        clamp=clamp,
    )
    calls = 8 if sampler == "predictor-corrector" else 5  # none at the first and last step
    assert output.nfe.tolist() == [0, 0, calls]
    assert (output.x0[clamp >= 0] == clamp[clamp >= 0]).all()
