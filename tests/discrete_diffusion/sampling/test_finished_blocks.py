"""Keys and values of finished blocks are kept: equal tokens, fewer columns."""

from __future__ import annotations

import logging

import pytest
import torch
from torch import Tensor, nn

from discrete_diffusion.algorithms import AR, BD3LM, TokenAlgorithm
from discrete_diffusion.algorithms.block_reader import BlockReader
from discrete_diffusion.algorithms.preflight import try_backbone
from discrete_diffusion.categorical import make_generator
from discrete_diffusion.contracts import Batch, SampleOutput
from discrete_diffusion.evaluation.trained_model import sample_tokens
from discrete_diffusion.forward_process import Absorbing
from discrete_diffusion.layout import TokenLayout
from discrete_diffusion.models.attention import attend
from discrete_diffusion.models.dit import DiT
from discrete_diffusion.models.key_value_cache import KeyValueCache
from discrete_diffusion.noise_schedules import LogLinear
from discrete_diffusion.sampling import Model, Narrowing, build_sampler, partial_samples, tokens
from discrete_diffusion.sampling.partial_samples import PartialSamples
from toy_samplers import bd3lm, draw_from

LENGTH, VOCAB_SIZE, MASK, PAD = 22, 9, 7, 8
SAMPLERS = [
    ("first-hitting", {}),
    ("first-hitting", {"tokens_per_call": 3, "temperature": 0.7, "top_p": 0.9}),
    ("planned", {"calls": 2}),
    ("dilated", {}),
    ("entropy-bounded", {"entropy_budget": 1.0}),
    ("entropy-bounded", {"order": "entropy"}),
    ("entropy", {}),
    ("confidence", {"tokens_per_call": 2}),
    ("ancestral", {"steps": 6}),
    ("predictor-corrector", {"steps": 4}),
    ("renoise", {"steps": 4}),
    ("remdm", {"steps": 4}),
]


@pytest.fixture(autouse=True)
def calls_are_cheap(monkeypatch):
    """Samples of all sizes use the cache."""
    monkeypatch.setattr(partial_samples, "COLUMNS_OF_A_CALL", 0)


class OtherNetwork(nn.Module):
    """Two layers of attention over blocks, with a label and a cache, as a stranger writes them."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.tokens, self.labels = nn.Embedding(VOCAB_SIZE, width), nn.Embedding(3, width)
        self.places = nn.Parameter(torch.randn(LENGTH, width))
        self.qkv = nn.ModuleList(nn.Linear(width, 3 * width) for _ in range(2))
        self.head = nn.Linear(width, VOCAB_SIZE)

    def new_cache(self, positions: Tensor, groups: Tensor, num_samples: int) -> KeyValueCache:
        return KeyValueCache(positions, groups, num_samples, num_layers=2)

    def forward(self, x_t, sigma=None, *, group_idxs=None, label=None, keep=None, cache=None):
        if cache is None:
            places, mask = self.places, group_idxs[:, None, :] <= group_idxs[:, :, None]
            mask = mask[:, None] & (x_t != PAD)[:, None, None] | torch.eye(LENGTH).bool()
        else:
            places, mask = self.places[cache.columns], cache.mask
        x = self.tokens(x_t) + places
        if label is not None:
            x = x + self.labels(label if keep is None else label * keep)[:, None]
        if sigma is not None:
            x = x + sigma[:, None, None]
        for k, layer in enumerate(self.qkv):
            q, key, value = layer(x).unsqueeze(1).chunk(3, dim=-1)
            if cache is not None:
                key, value = cache.layers[k].extend(key, value)
            x = x + attend(q, key, value, mask)[:, 0]
        return self.head(x)


def built(kind: str = "dit", **options) -> TokenAlgorithm:
    """Networks of random weights in float64."""
    torch.manual_seed(0)
    support = torch.ones(LENGTH, VOCAB_SIZE, dtype=torch.bool)
    support[:, [MASK, PAD]] = False
    process = Absorbing(TokenLayout(support, mask_id=MASK, pad_id=PAD), LogLinear())
    if kind == "other":
        network: nn.Module = OtherNetwork()
    else:
        sizes = {"hidden_size": 16, "n_blocks": 2, "n_heads": 2, "causal": kind == "ar"}
        network = DiT(vocab_size=VOCAB_SIZE, pad_id=PAD, **sizes)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.normal_().div_(parameter.shape[-1] ** 0.5 if parameter.ndim > 1 else 1)
    if kind == "ar":
        return AR(network.double(), process, **options).eval()
    return BD3LM(network.double(), process, block_size=5, **options).eval()


def request(name: str) -> dict[str, Tensor | Narrowing]:
    """``real`` and what else a request of seven samples has."""
    real = torch.ones(7, LENGTH, dtype=torch.bool)
    clamp = torch.full(real.shape, -1)
    found: dict[str, Tensor | Narrowing] = {}
    if name == "pad":
        real = torch.arange(LENGTH) < torch.tensor([22, 22, 9, 9, 9, 3, 15]).unsqueeze(1)
    elif name == "prompt":
        clamp[:, :12] = torch.arange(12) % 7
    elif name == "blanks":
        chosen = torch.rand(real.shape, generator=make_generator(3)) < 0.6
        clamp[chosen] = torch.randint(7, (int(chosen.sum()),), generator=make_generator(4))
        clamp[0, 5:10] = 2  # a whole block
    elif name == "support":
        found["support"] = torch.rand(7, LENGTH, VOCAB_SIZE, generator=make_generator(5)) < 0.6
        found["support"][..., 0] = True
    elif name == "narrowing":
        found["narrowing"] = NoRepeats()
    return {"real": real, "clamp": clamp, **found}


class NoRepeats(Narrowing):
    """No token twice in a row."""

    def support(self, x: Tensor, position: Tensor) -> Tensor:
        before = x.gather(1, (position - 1).clamp(min=0).unsqueeze(1))
        return torch.ones(len(x), VOCAB_SIZE, dtype=torch.bool).scatter(1, before, False)


def sampled(algorithm, sampler: str, real, seed: int = 1, **options) -> SampleOutput:
    given = {
        k: options.pop(k) for k in ("clamp", "support", "narrowing", "conditions") if k in options
    }
    steps = options.pop("steps", None)
    return build_sampler({"name": sampler, **options}).sample(
        algorithm, real, generator=make_generator(seed), steps=steps, **given
    )


@pytest.fixture
def whole(monkeypatch):
    """Turns the cache off."""
    return lambda: monkeypatch.setattr(PartialSamples, "keeps_blocks", False)


def check_equal(algorithm: TokenAlgorithm, sampler: str, whole, **options) -> None:
    columns = count_columns(algorithm)
    found = sampled(algorithm, sampler, **options)
    few = sum(columns)
    columns.clear()
    whole()
    expected = sampled(algorithm, sampler, **options)
    assert torch.equal(found.x0, expected.x0)
    assert torch.equal(found.nfe, expected.nfe)
    torch.testing.assert_close(found.log_weights, expected.log_weights, atol=1e-4, rtol=0)
    assert 0 < few < sum(columns)


def count_columns(algorithm: TokenAlgorithm) -> list[int]:
    """Columns of each call of the network, times its samples."""
    computed: list[int] = []
    algorithm.backbone.register_forward_pre_hook(
        lambda module, args, given: computed.append(args[0].numel()), with_kwargs=True
    )
    return computed


@pytest.mark.parametrize("name", ["plain", "pad", "prompt", "blanks"])
@pytest.mark.parametrize(("sampler", "options"), SAMPLERS)
def test_every_sampler_samples_the_same_tokens(sampler, options, name, whole):
    check_equal(built(), sampler, whole, **request(name), **options)


@pytest.mark.parametrize("name", ["support", "narrowing"])
@pytest.mark.parametrize("sampler", ["first-hitting", "entropy", "entropy-bounded"])
def test_narrowed_samples_are_the_same(sampler, name, whole):
    check_equal(built(), sampler, whole, **request(name))


@pytest.mark.parametrize("name", ["plain", "pad", "blanks"])
@pytest.mark.parametrize("sampler", ["first-hitting", "ancestral"])
def test_a_network_conditioned_on_t_leaves_out_later_blocks(sampler, name, whole):
    check_equal(built(time_conditioning=True), sampler, whole, **request(name))


@pytest.mark.parametrize("name", ["plain", "pad", "prompt"])
@pytest.mark.parametrize("sampler", ["first-hitting", "autoregressive"])
def test_autoregressive_samples_are_the_same(sampler, name, whole):
    check_equal(built("ar"), sampler, whole, **request(name))


@pytest.mark.parametrize("guidance", [1.0, 2.0])
@pytest.mark.parametrize("name", ["plain", "pad", "blanks"])
def test_another_network_with_a_guided_condition(name, guidance, whole):
    algorithm = built("other", condition_dropout=0.1)
    given = {"label": torch.arange(7) % 3}
    options = {**request(name), "conditions": given, "guidance": guidance}
    check_equal(algorithm, "first-hitting", whole, **options)


def test_every_column_is_finished_once_and_read_with_the_next_block():
    algorithm = built()
    columns = count_columns(algorithm)
    real = torch.ones(2, LENGTH, dtype=torch.bool)
    output = sampled(algorithm, "first-hitting", real)
    assert (output.nfe == LENGTH).all()
    blocks = [5] * 5 + ([10] + [5] * 4) * 3 + [7, 2]
    assert columns == [2 * num for num in blocks]


@pytest.mark.parametrize("kind", ["dit", "other", "ar"])
def test_changed_tokens_of_finished_blocks_are_read_again(kind):
    """A flipped token before the block moves the prediction as it does without the cache."""
    algorithm = built(kind)
    x = torch.randint(7, (4, LENGTH), generator=make_generator(0))
    real, t = torch.ones_like(x, dtype=torch.bool), torch.full((4,), 0.5)
    reader = BlockReader(algorithm, x, real, {})
    before = None
    with torch.no_grad():
        for rows in (torch.arange(4), torch.tensor([2, 0])):
            for first, last in ((5, 10), (10, 15), (10, 15), (5, 10), (15, 20)):
                for flipped in (None, 0, 7, 3):
                    if flipped is not None and flipped < first:
                        x[rows, flipped] = (x[rows, flipped] + 1) % 7
                    state = x[rows].clone()
                    state[:, first:] = MASK
                    here = torch.zeros_like(state, dtype=torch.bool)
                    here[:, first : first + 1 if kind == "ar" else last] = True
                    found = reader.lazy_log_d0(rows, state, t[rows], here).read()
                    expected = algorithm.denoise(state, t[rows], real[rows])[here]
                    torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)
                    if before is not None and flipped == 0:
                        assert (found - before).abs().max() > 1e-3
                    before = found


def test_documents_and_networks_without_a_cache_compute_all_columns(caplog):
    tokens._log_computed.cache_clear()
    with caplog.at_level(logging.INFO):
        draw_from(bd3lm(), "first-hitting", 2)
    assert "all columns: ExactBlockBackbone has no new_cache" in caplog.text
    algorithm, real = built(), torch.ones(3, LENGTH, dtype=torch.bool)
    columns = count_columns(algorithm)
    documents = (torch.arange(LENGTH) // 11).expand(3, -1)
    sampled(algorithm, "first-hitting", real, conditions={"document_idxs": documents})
    assert set(columns) == {3 * LENGTH}


class Misplaced(OtherNetwork):
    """New columns stand at the first positions."""

    def forward(self, x_t, sigma=None, *, group_idxs=None, cache=None):
        if cache is not None:
            cache.positions = torch.arange(LENGTH) - cache.start
        return super().forward(x_t, sigma, group_idxs=group_idxs, cache=cache)


class Forgetful(OtherNetwork):
    """Keeps the first block alone."""

    def forward(self, x_t, sigma=None, *, group_idxs=None, cache=None):
        if cache is not None and cache.start > 5:
            for layer in cache.layers:
                layer._kept[:, :, :, 5 : cache.start] = 0
        return super().forward(x_t, sigma, group_idxs=group_idxs, cache=cache)


@pytest.mark.parametrize("kind", [OtherNetwork, Misplaced, Forgetful])
def test_a_wrong_cache_is_refused_before_training(kind):
    algorithm = built("other")
    algorithm.backbone.__class__ = kind
    algorithm = BD3LM(algorithm.backbone.float(), algorithm.process, block_size=5)
    x0 = torch.randint(7, (2, LENGTH), generator=make_generator(0))
    x0[1, 16:] = PAD
    batch = Batch(x0, x0 != PAD)
    if kind is OtherNetwork:
        try_backbone(algorithm, batch)
        return
    with pytest.raises(ValueError, match="with the cache of new_cache differ by"):
        try_backbone(algorithm, batch)


def test_the_log_says_what_a_sample_costs(caplog):
    sampler = build_sampler({"name": "first-hitting"})
    model = Model(built(), sampler, on_sampled=lambda rows, drawn: None)
    with caplog.at_level(logging.INFO):
        sample_tokens(model, torch.ones(2, LENGTH, dtype=torch.bool), entropy=(0,))
    cost = "22 network calls, 1 tokens a call, 5.64 columns a token"  # 5 5s, 3 (10 + 4 5s), 7 + 2
    assert cost in caplog.text


def test_the_choice_of_calls_is_no_cost_of_a_sample():
    real, columns = request("plain")["real"], []
    sampler = build_sampler({"name": "planned", "calls": 2})
    for _ in range(2):  # the first one chooses
        drawn = sampler.sample(built(), real, generator=make_generator(1))
        columns.append(drawn.columns.tolist())
    assert columns[0] == columns[1]


class Whole(BD3LM):
    """Fills block after block with a network that sees all of them."""

    is_block_causal = False


class Sharp(BD3LM):
    """Changes what the network returns."""

    def apply_backbone(self, x, sigma, conditions):
        return 3 * super().apply_backbone(x, sigma, conditions)


@pytest.mark.parametrize("kind", [Whole, Sharp])
def test_an_algorithm_that_predicts_otherwise_keeps_nothing(kind):
    algorithm = built()
    algorithm.__class__ = kind
    drawn = sampled(algorithm, "first-hitting", **request("plain"))
    assert (drawn.columns == drawn.nfe * LENGTH).all()


def test_short_samples_of_many_sizes_share_calls(monkeypatch):
    monkeypatch.setattr(partial_samples, "COLUMNS_OF_A_CALL", 256)
    drawn = sampled(built(), "first-hitting", **request("pad"))
    assert (drawn.columns == drawn.nfe * LENGTH).all()
    drawn = sampled(built(), "first-hitting", **request("plain"))
    assert (drawn.columns < drawn.nfe * LENGTH).all()


def test_rows_without_a_position_are_left_out():
    algorithm, real = built(), request("pad")["real"]
    x = torch.where(real, MASK, PAD)
    here = torch.zeros_like(real)
    here[[0, 3], [7, 6]] = True
    reader = BlockReader(algorithm, x, real, {})
    every, t = torch.arange(7), torch.full((7,), 0.5)
    found = reader.lazy_log_d0(every, x, t, here).read()
    torch.testing.assert_close(found, algorithm.denoise(x, t, real, {})[here])
    assert len(reader.lazy_log_d0(every, x, t, torch.zeros_like(real)).read()) == 0


def test_conditions_may_change_on_the_way():
    """As those of a mixture's component in ``few-call``."""
    real = request("plain")["real"]
    clamp = torch.full(real.shape, -1)
    found = []
    for keeps in (True, False):
        samples = PartialSamples.start(built("other"), real, clamp, make_generator(0))
        sampler = build_sampler({"name": "first-hitting"})
        if not keeps:
            samples.known = samples.x.new_zeros(samples.x.shape)
        rows, t, here = torch.arange(7), torch.full((7,), 0.5), torch.zeros_like(real)
        here[:, 0] = True
        for label in (0, 1):
            samples.conditions = {"label": torch.full((7,), label)}
            found.append(sampler.log_d0(samples, rows, t, here))
    torch.testing.assert_close(found[:2], found[2:])
    assert not torch.equal(found[0], found[1])
