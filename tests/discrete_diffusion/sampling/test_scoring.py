"""The log-probability of known tokens against marginals computed by enumeration."""

from __future__ import annotations

import itertools

import pytest
import torch

from discrete_diffusion.algorithms import AR, BD3LM, MDLM
from discrete_diffusion.categorical import make_generator
from discrete_diffusion.forward_process import Absorbing
from discrete_diffusion.sampling.likelihood import log_prob_of, unseen_position
from toy_algorithms import TOYS
from toy_world import (
    FULL,
    LENGTH,
    PADDED,
    ExactBackbone,
    ExactBlockBackbone,
    ExactCausalBackbone,
    ToyWorld,
    all_schedules,
    toy_layout,
)

SCHEDULES = all_schedules(toy_layout())


def mdlm(schedule: str = "log_linear", tilt: float = 0.0) -> MDLM:
    process = Absorbing(toy_layout(), SCHEDULES[schedule])
    return MDLM(ExactBackbone(process, tilt), process).eval()


def subsets(real):
    positions = real.nonzero().flatten().tolist()
    for size in range(len(positions) + 1):
        for chosen in itertools.combinations(positions, size):
            known = torch.zeros(LENGTH, dtype=torch.bool)
            known[list(chosen)] = True
            yield known


def exact(world, known):
    """log p of what each row of ``world.x0`` says at ``known``: Float64[K]."""
    seen = world.x0[:, known]
    same = (seen.unsqueeze(1) == seen.unsqueeze(0)).all(-1)
    return (same.double() @ world.prob).log()


def score(algorithm, world, known, **options):
    num = len(world.x0)
    return log_prob_of(
        algorithm,
        world.x0,
        known.expand(num, -1),
        world.real.expand(num, -1),
        generator=make_generator(0),
        **options,
    )


@pytest.mark.parametrize("name", ["meld", "sedd-absorbing", "d3pm-absorbing"])
def test_every_absorbing_algorithm_is_scored_alike(name):
    world, algorithm = ToyWorld.make(), TOYS[name].exact(SCHEDULES["cosine"])
    for known in subsets(FULL):
        found = score(algorithm, world, known).log_prob
        torch.testing.assert_close(found, exact(world, known), atol=1e-5, rtol=0)


@pytest.mark.parametrize("schedule", ["log_linear", "per_group"])
def test_every_subset_of_rows_of_any_size_has_its_exact_marginal(schedule):
    algorithm, parts = mdlm(schedule), []
    for real in (FULL, PADDED):
        world = ToyWorld.make(real)
        parts += [(world.x0, known, real, exact(world, known)) for known in subsets(real)]
    tokens = torch.cat([x0 for x0, *_ in parts])
    known, real = (torch.cat([part[k].expand(len(part[0]), -1) for part in parts]) for k in (1, 2))
    found = log_prob_of(algorithm, tokens, known, real, generator=make_generator(0), batch_size=7)
    expected = torch.cat([part[3] for part in parts])
    assert found.log_prob.dtype == torch.float64
    torch.testing.assert_close(found.log_prob, expected, atol=1e-5, rtol=0)


def test_a_state_that_rows_share_is_evaluated_once():
    world = ToyWorld.make()
    assert score(mdlm(), world, torch.tensor([False] * 3)).num_evaluated == 0
    assert score(mdlm(), world, torch.tensor([True, False, False])).num_evaluated == 1
    assert score(mdlm(), world, FULL).num_evaluated == 1 + 3 + 3 * 4


def test_the_network_is_told_the_masked_share():
    """A denoiser bent by sigma: the sum of its own logs at t = 1, 2/3, 1/3."""
    world, algorithm = ToyWorld.make(), mdlm("cosine", tilt=2.0)
    expected = torch.zeros(len(world.x0), dtype=torch.float64)
    x = torch.full_like(world.x0, algorithm.layout.mask_id)
    for k in range(LENGTH):
        share = torch.full((len(x),), 1 - k / LENGTH, dtype=torch.float64)
        t = algorithm.process.schedule.inverse(share)
        log_d0 = algorithm.denoise(x, t, FULL.expand(len(x), -1))[:, k]
        expected += log_d0.gather(1, world.x0[:, k : k + 1]).squeeze(1)
        x[:, k] = world.x0[:, k]
    found = score(algorithm, world, FULL).log_prob
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)
    assert (found - world.prob.log()).abs().max() > 0.1


@pytest.mark.parametrize("name", ["udlm", "marginal", "gidd"])
def test_other_noise_takes_known_tokens_for_independent(name):
    world, algorithm = ToyWorld.make(), TOYS[name].exact(SCHEDULES["log_linear"])
    for known in subsets(FULL):
        alone = [exact(world, torch.arange(LENGTH) == k) for k in known.nonzero().flatten()]
        expected = sum(alone, start=torch.zeros(len(world.x0), dtype=torch.float64))
        found = score(algorithm, world, known)
        torch.testing.assert_close(found.log_prob, expected, atol=1e-4, rtol=0)
        assert found.num_evaluated == 1


def test_blockwise_and_autoregressive_models_score_what_they_see():
    layout = toy_layout()
    process = Absorbing(layout, SCHEDULES["log_linear"])
    causal = AR(ExactCausalBackbone(process), process)
    blockwise = BD3LM(ExactBlockBackbone(process), process, block_lengths=[1, 2])
    world = ToyWorld.make()
    seen = {causal: ["000", "100", "110", "111"], blockwise: ["000", "100", "110", "101", "111"]}
    for algorithm, patterns in seen.items():
        for known in subsets(FULL):
            rows = known.unsqueeze(0)
            if "".join(str(int(k)) for k in known) in patterns:
                assert unseen_position(algorithm, rows, FULL.unsqueeze(0)) is None
                found = score(algorithm, world, known).log_prob
                torch.testing.assert_close(found, exact(world, known), atol=1e-5, rtol=0)
                continue
            row, position = unseen_position(algorithm, rows, FULL.unsqueeze(0))
            assert row == 0
            assert known[position]
            with pytest.raises(ValueError, match=f"position {position} of row 0 is known"):
                score(algorithm, world, known)


@pytest.mark.parametrize("name", ["mdlm", "udlm"])
def test_no_sequences_have_no_log_probs(name):
    algorithm, nothing = TOYS[name].exact(SCHEDULES["cosine"]), torch.zeros(0, LENGTH).long()
    found = log_prob_of(
        algorithm, nothing, nothing.bool(), nothing.bool(), generator=make_generator(0)
    )
    assert (found.log_prob.shape, found.log_prob.dtype) == ((0,), torch.float64)
    assert found.num_evaluated == 0


def test_logits_that_are_nan_are_told():
    world, algorithm = ToyWorld.make(), mdlm()
    algorithm.backbone.register_forward_hook(lambda *call: call[-1] * torch.nan)
    with pytest.raises(ValueError, match=r"ExactBackbone\.forward.*NaN or infinite logits while"):
        score(algorithm, world, FULL)
