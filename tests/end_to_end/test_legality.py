"""No sample of any algorithm holds a MASK, a PAD at a real position, or a foreign id."""

from __future__ import annotations

import itertools

import pytest
import torch
from any_network import PROCESSES_OF, TOKEN_ALGORITHMS, algorithm_on, narrowings, random_layout
from hypothesis import given, settings
from hypothesis import strategies as st

from discrete_diffusion.algorithms import TokenAlgorithm, build_algorithm
from discrete_diffusion.categorical import make_generator
from discrete_diffusion.cli import compose
from discrete_diffusion.data import BatchStream, sample_sizes
from discrete_diffusion.domains import build_data
from discrete_diffusion.layout import VocabConfig
from discrete_diffusion.sampling import build_sampler, sample_in_batches
from discrete_diffusion.sampling.ancestral import GridSampler
from discrete_diffusion.sampling.model import Model
from toy_samplers import fitting_samplers, takes_steps

TEMPERATURES = (0.1, 1.0, 10.0)
MILLION = 1_000_000


def sample_and_check(algorithm: TokenAlgorithm, real, sampler: str, generator, **request) -> None:
    """Draw one sample per row and hold it to the layout, the clamp and the narrowed support."""
    options = {key: request.pop(key) for key in ("temperature", "top_p") if key in request}
    chosen = build_sampler({"name": sampler, **options})
    if not takes_steps(algorithm, sampler):
        request.pop("steps", None)
    tokens = chosen.sample(algorithm, real, generator=generator, **request).x0
    algorithm.layout.check(tokens, real)
    clamp, support = request.get("clamp"), request.get("support")
    if clamp is not None:
        assert torch.equal(tokens[clamp >= 0], clamp[clamp >= 0])
    if support is not None:
        free = real if clamp is None else real & (clamp < 0)
        assert support.gather(-1, tokens.unsqueeze(-1)).squeeze(-1)[free].all()


@pytest.mark.slow
@pytest.mark.parametrize(("name", "process"), PROCESSES_OF)
@settings(max_examples=12)
@given(
    length=st.integers(1, 5),
    num_ids=st.integers(3, 7),
    num_groups=st.integers(1, 3),
    padded=st.booleans(),
    scale=st.sampled_from([0.0, 1.0, 50.0, 1e4]),
    temperature=st.sampled_from(TEMPERATURES),
    top_p=st.sampled_from([0.05, 0.9, 1.0]),
    steps=st.integers(1, 4),
    seed=st.integers(0, 2**20),
)
def test_random_layouts(name, process, length, num_groups, padded, scale, steps, seed, **draw):
    """Any supports, groups and PAD patterns; any temperature, nucleus, clamp and narrowing."""
    num_ids, generator = draw.pop("num_ids"), make_generator(seed)
    layout = random_layout(length, num_ids, min(num_groups, length), padded=padded, seed=seed)
    algorithm = algorithm_on(layout, name, process, scale=scale, seed=seed)
    real = torch.ones(16, length, dtype=torch.bool)
    if padded:
        real &= torch.rand(real.shape, generator=generator) < 0.7
    requests = list(narrowings(layout, real, generator))
    for k, sampler in enumerate(fitting_samplers(algorithm)):
        for turn in (0, 1):  # two of the four for each sampler, others in the next example
            clamp, support = requests[(seed + k + 2 * turn) % len(requests)]
            request = {**draw, "steps": steps, "clamp": clamp, "support": support}
            sample_and_check(algorithm, real, sampler, generator, **request)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "process"), PROCESSES_OF)
def test_a_million_diagrams_in_all(name, process):
    """Bubble diagrams of up to 4 and up to 8 rooms, from random networks."""
    share = -(-MILLION // len(PROCESSES_OF))
    drawn, generator = 0, make_generator(7)
    algorithms = {
        n_max: algorithm_on(VocabConfig(n_max=n_max).layout(), name, process, scale=3.0, seed=n_max)
        for n_max in (4, 8)
    }
    cells = list(itertools.product(algorithms, fitting_samplers(algorithms[8]), TEMPERATURES))
    for n_max, sampler, temperature in cells:
        num = -(-share // len(cells))
        sizes = torch.randint(1, n_max + 1, (num,), generator=generator)
        for real in VocabConfig(n_max=n_max).real_positions(sizes).split(2048):
            request = {"temperature": temperature, "steps": 3}
            sample_and_check(algorithms[n_max], real, sampler, generator, **request)
            drawn += len(real)
    assert drawn * len(PROCESSES_OF) >= MILLION


TINY = {
    "bd-denoiser": ["model=bd_tiny", "model.d_model=32", "model.n_layers=1"],
    "dit": ["model=dit_tiny", "model.hidden_size=32", "model.n_blocks=1"],
}


def backbone_of(name: str) -> str:
    return compose("train", [f"algo={name}"]).algo.backbone


TRAINED = [name for name, build in TOKEN_ALGORITHMS.items() if not build.has_reward]
"""Without tuning by a reward, which samples in every step what ``mdlm`` samples here."""


@pytest.mark.slow
@pytest.mark.parametrize("name", TRAINED)
def test_trained_networks(name):
    """The backbone of its config, and dit, in whose head nothing keeps the ids legal."""
    for backbone in {backbone_of(name), "dit"}:
        torch.manual_seed(0)
        words = [f"algo={name}", f"algo.backbone={backbone}", *TINY[backbone]]
        config = compose(
            "train", [*words, "model.cond_dim=32", "model.n_heads=2", "data.num_plans=400"]
        )
        algorithm, data = build_algorithm(config), build_data(config)
        algorithm.process.fit(data.splits["train"].x0, data.splits["train"].real)
        optimizer = torch.optim.AdamW(algorithm.parameters(), lr=3e-3)
        stream = BatchStream(data, batch_size=64, seed=0)
        for epoch in range(7):
            if epoch in (0, 6):
                draw_and_check(algorithm, data, as_commands_do=epoch == 6)
            for k, batch in enumerate(stream):
                optimizer.zero_grad()
                algorithm.loss(batch, make_generator(epoch, k)).loss.backward()
                optimizer.step()


GRAPH_ALGORITHMS = [name for name in TOKEN_ALGORITHMS if name not in ("ar", "bd3lm")]


@pytest.mark.slow
@pytest.mark.parametrize("name", GRAPH_ALGORITHMS)
def test_random_pair_denoisers(name):
    """Every algorithm and sampler of bd-denoiser with the other network for graphs."""
    config = compose(
        "train", [f"algo={name}", "algo.backbone=bd-denoiser-pair", "model=bd_pair_tiny"]
    )
    algorithm = build_algorithm(config).eval()
    generator = make_generator(3)
    with torch.no_grad():
        for parameter in algorithm.backbone.parameters():
            noise = torch.empty_like(parameter).normal_(generator=generator)
            parameter.copy_(2 * noise / (1, *parameter.shape)[-1] ** 0.5)
    vocab = VocabConfig(n_max=8)
    real = vocab.real_positions(torch.randint(1, 9, (100,), generator=generator))
    for sampler in fitting_samplers(algorithm):
        sample_and_check(algorithm, real, sampler, generator, temperature=1.0, steps=8)


def draw_and_check(algorithm: TokenAlgorithm, data, *, as_commands_do: bool) -> None:
    """All sizes in one batch, at most 8 calls where that can be chosen; ``as_commands_do``: at
    temperature 1 in batches of one size, a token per call but for grids."""
    for sampler, temperature in itertools.product(fitting_samplers(algorithm), TEMPERATURES):
        generator = make_generator(1)
        real = data.real_positions(sample_sizes(data.size_counts(), 200, generator))
        if not (as_commands_do and temperature == 1):
            request = {"temperature": temperature, "steps": 8}
            sample_and_check(algorithm, real, sampler, generator, **request)
            continue
        chosen = build_sampler({"name": sampler})
        steps = 8 if isinstance(chosen, GridSampler) else None
        model = Model(algorithm, chosen, steps=steps)
        tokens = sample_in_batches(model, real, generator=generator).x0
        algorithm.layout.check(tokens, real)
