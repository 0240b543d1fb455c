"""Solvers of the flow: Gaussian images come out as they should, the last step is the prediction."""

from __future__ import annotations

import re

import pytest
import torch

from continuous_states.sampling import Ode
from discrete_diffusion.categorical import make_generator
from discrete_diffusion.sampling import check_sampler
from discrete_diffusion.sampling.registry import SAMPLERS
from gaussian_images import GaussianImages, exact_flow
from guide_code import DOCS

IMAGES = GaussianImages()


def pixels(num: int) -> torch.Tensor:
    return torch.ones(num, 1, 3, 3, dtype=torch.bool)


def drawn(num: int, seed: int = 0, steps: int | None = None, **options):
    model = exact_flow(IMAGES, condition_dropout=0.1)
    _, sign = IMAGES.draw(num)
    found = Ode(**options).sample(
        model, pixels(num), conditions={"dtn": sign}, generator=make_generator(seed), steps=steps
    )
    return found, sign.flatten().double(), model.backbone


@pytest.mark.parametrize(
    ("options", "slack"),
    [
        ({"solver": "euler", "steps": 100}, 0.04),
        ({"solver": "heun", "steps": 40}, 0.03),
        ({"solver": "rk45", "rtol": 1e-4, "atol": 1e-4}, 0.03),
    ],
)
def test_images_have_the_law_of_their_condition(options, slack):
    num = 8000
    found, sign, _ = drawn(num, **options)
    flat = found.x0.flatten(1).double()
    for side in (1.0, -1.0):
        here = flat[sign == side]
        covariance = IMAGES.world.covariance
        spread = covariance.diagonal().sqrt()
        apart = (here.mean(dim=0) - side * IMAGES.mean) / spread
        assert apart.abs().max() < 4.5 / len(here) ** 0.5 + 0.02
        relative = (torch.cov(here.T) - covariance) / torch.outer(spread, spread)
        assert relative.abs().max() < 4.5 * (2 / len(here)) ** 0.5 + slack


def test_calls_are_counted_and_the_condition_is_encoded_once():
    found, _, backbone = drawn(5, solver="euler", steps=7)
    assert found.nfe.tolist() == [7] * 5
    assert backbone.encoded == 1
    assert backbone.times == pytest.approx([k / 7 for k in range(7, 0, -1)], abs=2e-4)
    assert drawn(5, solver="heun", steps=7)[0].nfe.tolist() == [13] * 5
    assert drawn(5, solver="euler", steps=7, guidance=2.0)[0].nfe.tolist() == [14] * 5
    few = int(drawn(5, solver="rk45", rtol=1e-2, atol=1e-2)[0].nfe[0])
    many = int(drawn(5, solver="rk45", rtol=1e-5, atol=1e-5)[0].nfe[0])
    assert few < many


def test_guidance_moves_away_from_what_is_drawn_without_the_condition():
    """With means m and 0 the guided mean of one step is w m."""
    found, sign, _ = drawn(6, steps=1, guidance=3.0)
    assert torch.allclose(found.x0.flatten(1).double(), 3 * sign[:, None] * IMAGES.mean, atol=1e-5)
    plain, _, _ = drawn(6, steps=1)  # at t = 1 nothing is known but the condition
    assert torch.allclose(plain.x0.flatten(1).double(), sign[:, None] * IMAGES.mean, atol=1e-5)
    none, _, _ = drawn(6, steps=1, guidance=0.0)
    assert torch.allclose(none.x0, torch.zeros_like(none.x0), atol=1e-5)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"solver": "eular"}, "did you mean 'euler'"),
        ({"steps": 0}, "sampling.steps=0"),
        ({"guidance": -1}, "sampling.guidance=-1"),
        ({"rtol": 0.0}, "sampling.rtol=0.0"),
    ],
)
def test_settings_that_there_are_not(options, says):
    with pytest.raises(ValueError, match=says):
        Ode(**options)


def test_requests_that_do_not_fit():
    sampler = Ode(guidance=2.0)
    with pytest.raises(ValueError, match=r"steps=5: sampling.solver=rk45 chooses its own steps"):
        drawn(2, solver="rk45", steps=5)
    with pytest.raises(ValueError, match=r"samples given a condition; give .*{'dtn': \.\.\.}"):
        Ode().sample(exact_flow(IMAGES), pixels(2), generator=make_generator(0))
    with pytest.raises(ValueError, match=r"sampling=ode .* leave clamp out"):
        Ode().sample(
            exact_flow(IMAGES), pixels(2), clamp=torch.zeros(2), generator=make_generator(0)
        )
    with pytest.raises(ValueError, match=r"train with algo\.condition_dropout"):
        check_sampler(sampler, exact_flow(IMAGES))


def test_the_page_has_the_samplers_that_there_are():
    table = (DOCS / "samplers.md").read_text().split("## The table")[1].split("\n## ")[0]
    assert sorted(re.findall(r"\[`([\w-]+)`\]\(\.\./src", table)) == sorted(SAMPLERS.names())


@pytest.mark.slow
def test_heun_converges_faster_than_euler():
    def apart(solver: str, steps: int) -> float:
        fine, _, _ = drawn(64, solver="heun", steps=200)
        found, _, _ = drawn(64, solver=solver, steps=steps)
        return float((found.x0 - fine.x0).square().mean().sqrt())

    assert apart("heun", 20) < apart("euler", 40) / 3
    assert apart("euler", 80) == pytest.approx(apart("euler", 40) / 2, rel=0.2)
