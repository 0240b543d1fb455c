"""A text to be summarised is seen as it is by algorithms on tokens, in training and sampling."""

from __future__ import annotations

from functools import cache

import pytest
import torch
from omegaconf import DictConfig
from torch import Tensor, nn

from continuous_states.dialogue.dataset import DialogueTokens
from continuous_states.dialogue.summaries import summarise_held_out
from dialogue_configs import dialogue_data
from discrete_diffusion.algorithms import TokenAlgorithm, build_algorithm
from discrete_diffusion.algorithms.block_reader import BlockReader
from discrete_diffusion.categorical import make_generator
from discrete_diffusion.cli import compose
from discrete_diffusion.domains import complete_data
from discrete_diffusion.sampling import Model, build_sampler
from discrete_diffusion.training import DiffusionModule
from toy_samplers import fitting_samplers

S = 52


@pytest.fixture(scope="module")
def data() -> DialogueTokens:
    found = dialogue_data("dialogue-tokens")
    assert isinstance(found, DialogueTokens)
    return found


@cache
def config_of(name: str) -> DictConfig:
    words = [f"algo={name}", "algo.backbone=dit", "model=dit_tiny", "data=dialogue-tokens"]
    return complete_data(compose("train", words))


def built(name: str, data: DialogueTokens) -> TokenAlgorithm:
    """With a network whose answers are not all the same."""
    torch.manual_seed(0)
    algorithm = build_algorithm(config_of(name))
    algorithm.prepare(data.splits["train"].batch())
    nn.init.normal_(algorithm.backbone.head.weight, std=0.5)
    for block in algorithm.backbone.blocks:
        for parameter in block.parameters():
            nn.init.normal_(parameter, std=0.2)
    return algorithm.eval()


def seen_by(algorithm: TokenAlgorithm) -> list[Tensor]:
    """A list that the input of every later call of the network is added to."""
    seen: list[Tensor] = []
    algorithm.backbone.register_forward_pre_hook(
        lambda network, args, kwargs: seen.append(args[0].clone()), with_kwargs=True
    )
    return seen


@pytest.mark.parametrize("name", ["mdlm", "udlm", "d3pm", "meld", "bd3lm", "ar"])
def test_the_text_is_seen_as_it_is(name, data):
    algorithm, batch = built(name, data), data.splits["train"][torch.arange(4)].batch()
    seen = seen_by(algorithm)
    algorithm.loss(batch, make_generator(0))
    assert seen
    assert all(torch.equal(x[:, :S], batch.x0[:, :S]) for x in seen)
    seen.clear()
    sampler = next(s for s in ("ancestral", "first-hitting") if s in fitting_samplers(algorithm))
    steps = None if name == "ar" else 2
    model = Model(algorithm, build_sampler({"name": sampler}), steps=steps, batch_size=2)
    found = summarise_held_out(model, data, "val", num=2, seed=0)
    sources = data.ids["val"].sources[:2]
    others = sources.roll(1, dims=0)
    assert len(found) == 2
    if name in ("bd3lm", "ar"):  # read once, without PAD
        texts = [row[row != data.layout.pad_id].tolist() for row in sources]
        assert all(any(row[: len(t)] == t for t in texts) for row in seen[0].tolist())
        return
    for x in seen:  # of one sample or of both
        rows = {tuple(row) for row in x[:, :S].tolist()}
        assert rows <= {tuple(row) for row in torch.cat([sources, others]).tolist()}


@pytest.mark.parametrize("name", ["mdlm", "ar"])
def test_a_known_packing_changes_nothing(name, data):
    algorithm = built(name, data)
    module = DiffusionModule(algorithm, bound=data.bound, seed=0, lr=1e-3)

    def nelbo(batch) -> Tensor:
        return algorithm.loss(batch, make_generator(1)).nelbo

    batch = data.splits["train"][torch.arange(6)].batch()
    known = nelbo(module.on_before_batch_transfer(batch, 0))
    torch.testing.assert_close(known, nelbo(batch))
    others = data.shuffled("train")[torch.arange(6)].batch()
    assert (nelbo(others) - known).abs().min() > 1e-3  # the text is read


def test_the_cache_of_ar_reads_the_text_too(data):
    algorithm = built("ar", data)
    batch = data.splits["train"].batch()
    lengths = (batch.x0[:, :S] != data.layout.pad_id).sum(dim=1)
    for length in lengths.unique()[:3]:
        x0, real = batch.x0[lengths == length], batch.real[lengths == length]
        with torch.no_grad():
            log_p = algorithm.denoise(x0, torch.zeros(len(x0)), real)
            reader = BlockReader(algorithm, x0, real, {})
            for k in (0, 1, 7, 15):
                here = torch.zeros_like(real)
                here[:, S + k] = True
                found = reader.lazy_log_d0(
                    torch.arange(len(x0)), x0, torch.zeros(len(x0)), here
                ).read()
                torch.testing.assert_close(found, log_p[:, S + k], rtol=1e-4, atol=1e-4)
