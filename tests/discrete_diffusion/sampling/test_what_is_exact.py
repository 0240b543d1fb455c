"""What is called exact follows the model's own distribution; what is called approximate differs.

Two networks that are wrong: one is told t and depends on it; one is not, and its predictions are
those of no joint distribution. Neither has a distribution that every sampler agrees on.
"""

from __future__ import annotations

from functools import cache
from itertools import pairwise

import pytest
import torch

from discrete_diffusion.algorithms import MDLM, Distill
from discrete_diffusion.categorical import log_softmax_on, make_generator
from discrete_diffusion.sampling import build_sampler
from discrete_diffusion.sampling.base import Exactness
from discrete_diffusion.sampling.exactness import approximations, exactness_facts
from discrete_diffusion.sampling.first_hitting import FirstHitting
from laws import GridLaw, grid
from toy_samplers import absorbing, bd3lm, draw_from, exact, fitting_samplers
from toy_world import FULL, MASK, VOCAB_SIZE, ExactBackbone, ToyWorld, noise_floor, total_variation

NUM = 30_000
FREE = torch.tensor([-1, -1, -1])
CLAMPS = {"free": FREE, "first": torch.tensor([1, -1, -1]), "last": torch.tensor([-1, -1, 3])}
SAMPLERS = {
    "first-hitting": {},
    "two at once": {"name": "first-hitting", "tokens_per_call": 2},
    "colder": {"name": "first-hitting", "temperature": 0.7},
    "nucleus": {"name": "first-hitting", "top_p": 0.8},
    "margin": {},
    "entropy": {},
    "entropy-bounded": {"entropy_budget": 0.0},
    "wide": {"name": "entropy-bounded", "entropy_budget": 5.0},
    "sure first": {"name": "entropy-bounded", "entropy_budget": 0.0, "order": "confidence"},
    "confidence": {},
    "first-surprise": {},
    "ancestral": {"steps": 4},
    "predictor-corrector": {"steps": 4},
    "remdm": {"steps": 16},
    "renoise": {"steps": 16},
}
NEAR = {  # called approximate, and near: a distance that 30,000 samples hardly show
    ("entropy-bounded", "untold", "free"),
    ("first-surprise", "untold", "free"),
}


class OrderDependent(ExactBackbone):
    """It is not told t, and bends its logits by the share that is masked."""

    def forward(self, x_t, sigma=None):
        share = (x_t == MASK).double().mean(dim=1)
        ramp = torch.linspace(-1, 1, VOCAB_SIZE) * torch.tensor([[1.0], [-1.0], [0.5]])
        return super().forward(x_t) + 3.0 * (share - 0.4)[:, None, None] * ramp


@cache
def network(name):
    process = absorbing("log_linear")
    if name == "told":
        return MDLM(ExactBackbone(process, tilt=3.0), process).eval()
    return MDLM(OrderDependent(process), process, time_conditioning=False).eval()


@cache
def own_law(name, clamp="free"):
    """Of the reverse process with very many steps, begun with the clamped tokens."""
    algorithm, held = network(name), CLAMPS[clamp]
    law = GridLaw(algorithm, ToyWorld.make(), free=held < 0, held=held)
    for t, s in pairwise(grid(algorithm, 500)):
        law.move(law.ancestral(t, s))
    found = law.clean()
    return found / found.sum()


def made(case):
    return build_sampler(
        {"name": case, **{k: v for k, v in SAMPLERS[case].items() if k != "steps"}}
    )


def drawn(case, name, seed=2, **request):
    options = {"name": case, **SAMPLERS[case]}
    return draw_from(network(name), options.pop("name"), NUM, seed=seed, **options, **request)


def why_not(sampler, algorithm, clamp="free", **request):
    known = None if clamp == "free" else (CLAMPS[clamp] >= 0).unsqueeze(0)
    return approximations(sampler, algorithm, real=FULL.unsqueeze(0), known=known, **request)


def reasons(case, name, clamp="free", **request):
    steps = SAMPLERS[case].get("steps")
    return why_not(made(case), network(name), clamp, steps=steps, **request)


def apart(output, law):
    return total_variation(ToyWorld.make().distribution(output.x0), law)


@pytest.mark.parametrize("name", ["told", "untold"])
@pytest.mark.parametrize("case", list(SAMPLERS))
def test_fresh_samples_follow_the_model_just_where_they_are_called_exact(case, name):
    law, why = own_law(name), reasons(case, name)
    distance, floor = apart(drawn(case, name), law), noise_floor(law, NUM) + 2e-3
    if not why:
        assert distance < floor
    elif (case, name, "free") not in NEAR:
        assert distance > floor


@pytest.mark.parametrize("name", ["told", "untold"])
@pytest.mark.parametrize("clamp", ["first", "last"])
@pytest.mark.parametrize("case", ["first-hitting", "two at once", "confidence"])
def test_completions_called_exact_follow_the_process_begun_with_what_is_given(case, name, clamp):
    law, why = own_law(name, clamp), reasons(case, name, clamp)
    distance = apart(drawn(case, name, clamp=CLAMPS[clamp]), law)
    if not why:
        assert distance < noise_floor(law, NUM) + 2e-3
    else:
        assert distance > 0.01


def test_what_is_called_exact():
    """first-hitting alone."""
    for name in ("told", "untold"):
        assert {case for case in SAMPLERS if not reasons(case, name)} == {"first-hitting"}
    for case in ("margin", "entropy-bounded"):
        assert "order of its own" in reasons(case, "untold")[0]
    assert "steps" in reasons("ancestral", "told")[0]


@pytest.mark.parametrize("name", ["told", "untold"])
@pytest.mark.parametrize("case", ["first-hitting", "two at once"])
def test_weights_of_narrowed_samples_undo_the_tilt_where_it_is_said(case, name):
    world = ToyWorld.make()
    support = world.layout.support.clone()
    support[1, 2:] = False  # 0 or 1 in the middle
    output, law = drawn(case, name, support=support), own_law(name) * (world.x0[:, 1] < 2)
    why = reasons(case, name, log_weights=output.log_weights)
    assert "log_weight" in why[-1]
    assert apart(output, law / law.sum()) > 0.05  # without weights
    weighted = world.distribution(output.x0, output.log_weights.exp())
    distance = total_variation(weighted, law / law.sum())
    if len(why) == 1:
        assert "undo" in why[0]
        assert distance < 2 * noise_floor(law / law.sum(), NUM)
    else:
        assert "in part" in why[-1]
        assert distance > 0.02
    nothing = torch.zeros_like(output.log_weights)
    assert reasons("first-hitting", name, log_weights=nothing) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", ["d3pm-absorbing", "d3pm-uniform"])
def test_all_steps_of_a_model_of_discrete_steps_are_exact(name):
    world, algorithm = ToyWorld.make(), exact(name)
    all_steps, some = algorithm.num_steps, algorithm.num_steps // 16
    law = GridLaw(algorithm, world)
    for t, s in pairwise(torch.linspace(1, 0, all_steps + 1, dtype=torch.float64)):
        law.move(law.ancestral(t, s))
    sampler = build_sampler({"name": "ancestral"})
    assert approximations(sampler, algorithm, steps=all_steps) == []
    output = draw_from(algorithm, "ancestral", NUM, steps=all_steps)
    assert apart(output, law.clean()) < noise_floor(law.clean(), NUM)
    (why,) = approximations(sampler, algorithm, steps=some)
    assert f"{some} of the {all_steps} steps" in why
    few = draw_from(algorithm, "ancestral", NUM, steps=some)
    assert apart(few, law.clean()) > noise_floor(law.clean(), NUM)
    if algorithm.process.absorbing:
        (why,) = approximations(build_sampler({"name": "margin"}), algorithm)
    else:
        clamped = {"real": FULL.unsqueeze(0), "known": torch.tensor([[True, False, False]])}
        (why,) = approximations(sampler, algorithm, steps=all_steps, **clamped)
        assert "for noisy ones" in why


@pytest.mark.parametrize("sampler", ["autoregressive", "first-hitting"])
def test_left_to_right_prefixes_are_exact_and_the_rest_is_not_seen(sampler):
    world, algorithm = ToyWorld.make(), exact("ar")
    for clamp, seen in (("first", True), ("last", False)):
        held = CLAMPS[clamp]
        why = approximations(
            build_sampler({"name": sampler}),
            algorithm,
            real=FULL.unsqueeze(0),
            known=(held >= 0).unsqueeze(0),
        )
        law = world.prob * ((world.x0 == held) | (held < 0)).all(dim=1)
        output = draw_from(algorithm, sampler, NUM, clamp=held)
        near = apart(output, law / law.sum()) < noise_floor(law / law.sum(), NUM)
        assert (why == []) == near == seen
    assert approximations(build_sampler({"name": sampler}), algorithm) == []


def test_one_token_is_drawn_from_what_the_network_says_of_it():
    """In every order, if the network is not told t; in one call, whatever number that may take."""
    real, known = FULL.unsqueeze(0), torch.tensor([[True, False, True]])
    for case in ("margin", "ancestral", "two at once"):
        why = approximations(made(case), network("untold"), steps=None, real=real, known=known)
        assert why == []
    told = {"real": real, "known": known}
    assert approximations(made("two at once"), network("told"), **told) == []
    assert approximations(made("ancestral"), network("told"), **told)
    assert approximations(made("confidence"), network("told"), real=real, known=real) == []


class Stranger(FirstHitting):
    """Somebody's sampler, which draws the tokens as it likes."""

    name = "stranger"


class Outspoken(FirstHitting):
    name, exactness = "outspoken", Exactness.MODEL


def test_a_sampler_that_says_nothing_is_not_believed():
    """What it inherits may not be true of it."""
    (why,) = approximations(Stranger(), network("told"))
    assert "sampling=stranger does not state" in why
    assert approximations(Outspoken(), network("told")) == []
    assert approximations(Outspoken(tokens_per_call=3), network("told")) == [
        "several tokens are sampled per call"
    ]


def test_steps_are_counted_against_the_tokens_there_are():
    sampler, algorithm = FirstHitting(), network("told")
    assert approximations(sampler, algorithm, steps=3) == []
    assert approximations(sampler, algorithm, steps=2) == ["several tokens are sampled per call"]
    output = sampler.sample(algorithm, FULL.expand(4, -1), generator=make_generator(0), steps=3)
    assert (output.nfe == 3).all()


def test_every_reason_is_told():
    sampler = FirstHitting(temperature=0.5, top_p=0.9)
    why = approximations(sampler, network("told"), steps=1)
    facts = exactness_facts(why)
    assert facts["exact"] is False
    for named in ("several tokens", "sampling.temperature=0.5", "sampling.top_p=0.9"):
        assert named in facts["approximate_because"]
    assert exactness_facts([]) == {"exact": True, "approximate_because": None}


# -- blocks ---------------------------------------------------------------------------------------

IN_BLOCKS = [case for case in SAMPLERS if made(case).name in fitting_samplers(bd3lm())]


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
    why = why_not(made(case), algorithm, steps=options.get("steps"))
    options = {"name": case, **options}
    distance = apart(draw_from(algorithm, options.pop("name"), NUM, **options), law)
    floor = noise_floor(law, NUM) + 2e-3
    if not why:
        assert distance < floor
    elif (case, name, "free") not in NEAR:
        assert distance > floor


def test_what_is_called_exact_in_blocks():
    for name in ("told", "untold"):
        exact_ones = {
            case
            for case in IN_BLOCKS
            if not why_not(made(case), blocks(name), steps=SAMPLERS[case].get("steps"))
        }
        assert exact_ones == {"first-hitting"}


@pytest.mark.parametrize("name", ["told", "untold"])
def test_given_tokens_of_earlier_blocks_are_exact_and_later_ones_are_not_seen(name):
    algorithm, sampler = blocks(name), build_sampler({"name": "first-hitting"})
    for clamp in ("first", "last"):
        why = why_not(sampler, algorithm, clamp)
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


PLAN = torch.tensor([0, 1, 1])


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
    why = why_not(build_sampler({"name": "few-call", **options}), algorithm)
    distance = apart(draw_from(algorithm, "few-call", NUM, **options), law)
    assert (why == []) == (distance < noise_floor(law, NUM) + 1e-3) == (not options)


@pytest.mark.parametrize("components", [1, 3])
@pytest.mark.parametrize("clamp", ["first", "last"])
def test_completions_of_students_are_called_approximate(components, clamp):
    """They are where what is given is no whole call: a component does not heed it."""
    held, algorithm = CLAMPS[clamp], student(components)
    (why,) = why_not(build_sampler({"name": "few-call"}), algorithm, clamp)
    assert "not made for given tokens" in why
    law = law_of_student(components) * ((ToyWorld.make().x0 == held) | (held < 0)).all(dim=1)
    distance = apart(draw_from(algorithm, "few-call", NUM, clamp=held), law / law.sum())
    if clamp == "last":
        assert distance > noise_floor(law / law.sum(), NUM)
