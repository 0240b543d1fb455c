"""What is called exact of networks in blocks and of students of few calls, and what is not.

As in ``test_what_is_exact.py`` the networks are wrong, so that no two samplers agree by chance.
"""

from __future__ import annotations

from functools import cache
from itertools import pairwise

import pytest
import torch
from test_what_is_exact import CLAMPS, NUM, SAMPLERS, OrderDependent, made

from discrete_diffusion.algorithms import Distill
from discrete_diffusion.categorical import log_softmax_on
from discrete_diffusion.sampling import build_sampler
from discrete_diffusion.sampling.exactness import approximations
from laws import GridLaw, grid
from toy_samplers import absorbing, bd3lm, draw_from, fitting_samplers
from toy_world import FULL, MASK, VOCAB_SIZE, ExactBackbone, ToyWorld, noise_floor, total_variation

PLAN = torch.tensor([0, 1, 1])
NEAR = {("entropy-bounded", "untold")}  # called approximate, and near
IN_BLOCKS = [case for case in SAMPLERS if made(case).name in fitting_samplers(bd3lm())]


def reasons(sampler, algorithm, clamp, steps=None):
    known = None if clamp == "free" else (CLAMPS[clamp] >= 0).unsqueeze(0)
    return approximations(sampler, algorithm, steps=steps, real=FULL.unsqueeze(0), known=known)


def apart(output, law):
    return total_variation(ToyWorld.make().distribution(output.x0), law)


# -- blocks ---------------------------------------------------------------------------------------


@cache
def blocks(name):
    """The first position, then the two others."""
    if name == "told":
        return bd3lm(tilt=3.0)
    algorithm = bd3lm()
    algorithm.backbone.whole = OrderDependent(algorithm.process)
    return algorithm.eval()


@cache
def law_of_blocks(name, clamp):
    """Of the reverse process of each block with very many steps, begun with the clamped tokens."""
    algorithm, held = blocks(name), CLAMPS[clamp]
    law = GridLaw(algorithm, ToyWorld.make(), free=held < 0, held=held)
    for block in algorithm.blocks.unique():
        for t, s in pairwise(grid(algorithm, 500)):
            law.move(law.ancestral(t, s), algorithm.blocks == block)
    found = law.clean()
    return found / found.sum()


@pytest.mark.parametrize("name", ["told", "untold"])
@pytest.mark.parametrize("case", IN_BLOCKS)
def test_samples_in_blocks_follow_the_model_just_where_they_are_called_exact(case, name):
    law, algorithm, options = law_of_blocks(name, "free"), blocks(name), dict(SAMPLERS[case])
    why = reasons(made(case), algorithm, "free", options.get("steps"))
    options = {"name": case, **options}
    distance = apart(draw_from(algorithm, options.pop("name"), NUM, **options), law)
    floor = noise_floor(law, NUM) + 2e-3
    if not why:
        assert distance < floor
    elif (case, name) not in NEAR:
        assert distance > floor


def test_what_is_called_exact_in_blocks():
    told, untold = (
        {
            case
            for case in IN_BLOCKS
            if not reasons(made(case), blocks(name), "free", SAMPLERS[case].get("steps"))
        }
        for name in ("told", "untold")
    )
    assert told == {"first-hitting"}
    assert untold == {"first-hitting", "speculative"}


@pytest.mark.parametrize("name", ["told", "untold"])
def test_given_tokens_of_earlier_blocks_are_exact_and_later_ones_are_not_seen(name):
    algorithm, sampler = blocks(name), build_sampler({"name": "first-hitting"})
    for clamp in ("first", "last"):
        why = reasons(sampler, algorithm, clamp)
        held = CLAMPS[clamp]
        law = law_of_blocks(name, "free") * ((ToyWorld.make().x0 == held) | (held < 0)).all(dim=1)
        output = draw_from(algorithm, "first-hitting", NUM, clamp=held)
        near = apart(output, law / law.sum()) < noise_floor(law / law.sum(), NUM) + 2e-3
        assert (why == []) == near == (clamp == "first")


# -- students -------------------------------------------------------------------------------------


class Components(ExactBackbone):
    """It is told t, and each component bends its logits in a way of its own."""

    def forward(self, x_t, sigma=None, *, component=None):
        logits = super().forward(x_t, sigma)
        bends = torch.tensor([-2.0, 0.0, 2.0]).double()
        ramp = torch.linspace(-1, 1, VOCAB_SIZE) * torch.tensor([[1.0], [0.7], [-1.0]])
        each = logits.unsqueeze(1) + bends[:, None, None] * ramp  # (B, M, L, V)
        return each if isinstance(component, str) else each[torch.arange(len(x_t)), component]


@cache
def student(components):
    process = absorbing("log_linear")
    backbone = (ExactBackbone if components == 1 else Components)(process, tilt=3.0)
    algorithm = Distill(backbone, process, calls=2, components=components)
    algorithm.call_order.copy_(PLAN)
    return algorithm.eval()


@cache
@torch.no_grad()
def law_of_student(components):
    """Over its components, of a call's tokens together: the product over calls of the mean."""
    world, algorithm = ToyWorld.make(), student(components)
    total = torch.ones(len(world.x0), dtype=torch.float64)
    for call in range(algorithm.calls):
        hidden = call <= PLAN
        x_t = torch.where(hidden, MASK, world.x0)
        t = hidden.double().mean().expand(len(x_t))
        logits = algorithm.component_logits(x_t, t, FULL.expand(len(x_t), -1))
        p = log_softmax_on(logits, algorithm.layout.support).double().exp()
        tokens = world.x0[:, None, :, None].expand(-1, p.shape[1], -1, -1)
        of_tokens = p.gather(-1, tokens).squeeze(-1)[..., call == PLAN]  # (K, M, tokens)
        total *= of_tokens.prod(dim=-1).mean(dim=1)
    return total


@pytest.mark.parametrize("components", [1, 3])
@pytest.mark.parametrize("options", [{}, {"temperature": 0.6}, {"top_p": 0.7}])
def test_students_follow_their_own_law_just_where_they_are_called_exact(components, options):
    law, algorithm = law_of_student(components), student(components)
    assert float(law.sum()) == pytest.approx(1, abs=1e-5)
    why = reasons(build_sampler({"name": "few-call", **options}), algorithm, "free")
    distance = apart(draw_from(algorithm, "few-call", NUM, **options), law)
    assert (why == []) == (distance < noise_floor(law, NUM) + 1e-3) == (not options)


@pytest.mark.parametrize("components", [1, 3])
@pytest.mark.parametrize("clamp", ["first", "last"])
def test_completions_of_students_are_called_approximate(components, clamp):
    """They are where what is given is no whole call: a component does not heed it."""
    held, algorithm = CLAMPS[clamp], student(components)
    (why,) = reasons(build_sampler({"name": "few-call"}), algorithm, clamp)
    assert "not made for given tokens" in why
    law = law_of_student(components) * ((ToyWorld.make().x0 == held) | (held < 0)).all(dim=1)
    distance = apart(draw_from(algorithm, "few-call", NUM, clamp=held), law / law.sum())
    if clamp == "last":
        assert distance > noise_floor(law / law.sum(), NUM)
