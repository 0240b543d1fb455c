"""Network calls as a command shows them: how far a batch is, for every sampler, at no cost."""

from __future__ import annotations

import re

import pytest
import torch
from test_generate import generated, one_source

from continuous_states.sampling import Ode, RowAncestral
from discrete_diffusion.categorical import make_generator
from discrete_diffusion.contracts import SampleOutput
from discrete_diffusion.runtime import progress
from discrete_diffusion.sampling import FirstHitting, Model, sample_in_batches
from fake_processes import in_processes
from gaussian_images import GaussianImages, exact_flow
from gaussian_world import GaussianWorld, exact_model
from toy_latents import latent_algorithm
from toy_samplers import CASES, draw_from, exact, takes_steps
from toy_world import FULL

CALL = re.compile(r"call (\d+)(?: of at most (\d+))?$")


class Watched:
    """Network calls of a module, or of a function of an algorithm, and what was shown at each."""

    def __init__(self, patch: pytest.MonkeyPatch, owner: object, name: str) -> None:
        self.shown: list[str] = []
        self.shares: list[float] = []
        answer = getattr(owner, name)

        def call(*arguments, **options):
            assert progress._screen is not None
            task = progress._screen.tasks[-1]
            self.shown.append(progress.where())
            self.shares.append(task.share)
            task.wants_note = True  # as if a display had looked
            return answer(*arguments, **options)

        patch.setattr(owner, name, call, raising=False)

    def check(self) -> None:
        """Calls are counted from 1, their bound holds, and what is made never gets less."""
        assert self.shown
        found = [CALL.search(text) for text in self.shown]
        numbers = [int(match[1]) for match in found]
        assert numbers == list(range(1, len(numbers) + 1))
        assert all(int(match[2]) >= len(numbers) for match in found)
        assert self.shares == sorted(self.shares)
        assert self.shares[0] < 0.5
        assert len(numbers) < 3 or 0.0 < self.shares[-1] < 1.0


def shown(draw):
    """What ``draw`` returns while a task of one sample that is at hand is shown."""
    with progress.shown(lambda line: None, bar=False), progress.task("drawing", 1) as drawing:
        drawing.take()
        output = draw()
        assert drawing.note == ""
        return output


@pytest.mark.parametrize(("algorithm", "sampler"), CASES)
def test_samplers_of_tokens_count_their_calls_and_draw_the_same(algorithm, sampler, monkeypatch):
    def draw(model) -> SampleOutput:
        steps = 9 if takes_steps(algorithm, sampler) else None
        return draw_from(model, sampler, 7, seed=3, steps=steps)

    model = exact(algorithm)
    reads_columns = sampler == "autoregressive"  # the network is not asked as others ask it
    watched = None if reads_columns else Watched(monkeypatch, model, "denoise")
    output = shown(lambda: draw(model))
    if watched is not None:
        watched.check()
    alone = draw(exact(algorithm))
    for name in ("x0", "nfe", "log_weights"):
        assert torch.equal(getattr(output, name), getattr(alone, name)), name


@pytest.mark.parametrize("objective", ["mask", "ddpm"])
def test_rows(objective, monkeypatch):
    world = GaussianWorld(num_rows=5, num_features=2)
    x0, real = world.draw(4), torch.ones(4, 5, dtype=torch.bool)
    model = exact_model(world, objective=objective)
    name = "denoise_masked" if objective == "mask" else "denoise_noised"
    watched = Watched(monkeypatch, model, name)
    clamp = x0.masked_fill(torch.ones(4, 5, 1, dtype=torch.bool), torch.nan)
    sampler = RowAncestral(steps=6)
    shown(lambda: sampler.sample(model, real, clamp=clamp, generator=make_generator(0)))
    watched.check()


@pytest.mark.parametrize(("solver", "guidance"), [("euler", 1.0), ("heun", 2.0), ("rk45", 2.0)])
def test_fields(solver, guidance, monkeypatch):
    images = GaussianImages()
    model = exact_flow(images, condition_dropout=0.1)
    watched = Watched(monkeypatch, model, "denoise")
    _, sign = images.draw(3)
    sampler = Ode(solver=solver, steps=5, guidance=guidance)
    real = torch.ones(3, 1, 3, 3, dtype=torch.bool)
    output = shown(
        lambda: sampler.sample(model, real, conditions={"dtn": sign}, generator=make_generator(0))
    )
    last = CALL.search(watched.shown[-1])
    assert int(last[1]) == int(output.nfe[0])  # both calls of guidance count
    if solver != "rk45":
        assert last[2] == last[1]
    assert watched.shares == sorted(watched.shares)
    assert 0.0 < watched.shares[-1] <= 1.0


def test_texts_from_latents(monkeypatch):
    algorithm = latent_algorithm()
    watched = Watched(monkeypatch, algorithm.backbone.decoder, "forward")
    shown(lambda: generated(algorithm, one_source(5), length=6, stop_similarity=None))
    assert [CALL.search(text)[2] for text in watched.shown] == ["7"] * len(watched.shown)
    assert CALL.search(watched.shown[0])[1] == "2"  # after that of the latents


def test_several_processes_count_what_all_have_at_hand():
    at_hand = []

    class Seen(FirstHitting):
        def sample(self, *arguments, **options):
            at_hand.extend(task.at_hand for task in progress._screen.tasks)
            return super().sample(*arguments, **options)

    def work(shard):
        return sample_in_batches(
            Model(exact("mdlm"), Seen(), shard=shard),
            FULL.expand(96, -1),
            generator=make_generator(0),
        )

    with progress.shown(lambda line: None, bar=False, first=1e9, every=1e9):
        assert all(isinstance(each, SampleOutput) for each in in_processes(2, work))
    assert set(at_hand) <= {0.0, 64.0}
    assert 64.0 in at_hand
