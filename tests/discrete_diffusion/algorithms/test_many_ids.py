"""The loss from a network's last states is the plain one, with no logits of all positions."""

from __future__ import annotations

import subprocess
import sys
from functools import partial

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from discrete_diffusion.algorithms import (
    AR,
    BD3LM,
    GIDD,
    MDLM,
    MELD,
    SEDD,
    UDLM,
    leaks,
    many_ids,
    preflight,
)
from discrete_diffusion.algorithms.many_ids import nll_of_states
from discrete_diffusion.algorithms.preflight import try_backbone
from discrete_diffusion.categorical import log_softmax_on, make_generator
from discrete_diffusion.contracts import Batch
from discrete_diffusion.forward_process import Absorbing, Hybrid, Uniform
from discrete_diffusion.layout import TokenLayout
from discrete_diffusion.models.dit import DiT
from discrete_diffusion.noise_schedules import Learned, LogLinear

LENGTH, VOCAB_SIZE, MASK, PAD, WIDTH = 9, 23, 21, 22, 16
CHUNK = 4
"""Rows at once in these tests."""
ALGORITHMS = {
    "mdlm": (MDLM, Absorbing),
    "meld": (MELD, Absorbing),
    "ar": (AR, Absorbing),
    "bd3lm": (partial(BD3LM, block_size=4), Absorbing),
    "sedd": (SEDD, Absorbing),
    "sedd uniform": (SEDD, Uniform),
    "udlm": (UDLM, Uniform),
    "udlm posterior": (partial(UDLM, parameterization="posterior"), Uniform),
    "gidd": (GIDD, Hybrid),
    "gidd elbo": (partial(GIDD, weighting="elbo"), Hybrid),
}
"""With their processes."""


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch):
    monkeypatch.setattr(many_ids, "AT_ONCE", CHUNK * VOCAB_SIZE + 1)
    monkeypatch.setattr(many_ids, "MANY_IDS", VOCAB_SIZE)


def layout_of_positions() -> TokenLayout:
    """Other legal ids at every position."""
    generator = make_generator(1)
    support = torch.rand(LENGTH, VOCAB_SIZE, generator=generator) < 0.5
    support[:, 0], support[:, [MASK, PAD]] = True, False
    return TokenLayout(support, mask_id=MASK, pad_id=PAD)


def some_data(layout: TokenLayout, num: int = 5) -> Batch:
    """Legal ids; every second sample is shorter."""
    x0 = legal_ids(layout, num)
    size = torch.where(torch.arange(num) % 2 == 0, LENGTH, LENGTH - 3)
    real = torch.arange(LENGTH) < size.unsqueeze(1)
    return Batch(x0.masked_fill(~real, PAD), real)


def legal_ids(layout: TokenLayout, num: int = 5) -> Tensor:
    generator = make_generator(2)
    weights = layout.support.double().expand(num, -1, -1).flatten(0, 1)
    return torch.multinomial(weights, 1, generator=generator).view(num, LENGTH)


def network(**options) -> DiT:
    torch.manual_seed(0)
    found = DiT(
        vocab_size=VOCAB_SIZE,
        hidden_size=WIDTH,
        n_blocks=2,
        n_heads=2,
        dropout=0.0,
        pad_id=PAD,
        **options,
    )
    for parameter in found.parameters():  # those that start at 0 would hide what is wrong
        nn.init.normal_(parameter, std=0.2)
    return found


def built(name: str, layout: TokenLayout):
    schedule = Learned(layout) if name == "meld" else LogLinear()
    algorithm, process = ALGORITHMS[name]
    return algorithm(network(causal=name == "ar"), process(layout, schedule))


def results(algorithm, batch: Batch) -> dict[str, Tensor]:
    """Loss, bound and every gradient."""
    algorithm.zero_grad()
    found = algorithm.loss(batch, make_generator(3))
    found.loss.backward()
    slopes = {name: p.grad.clone() for name, p in algorithm.named_parameters()}
    return {"loss": found.loss.detach(), "nelbo": found.nelbo, **slopes}


class Widest(TorchDispatchMode):
    """Most rows of V numbers, and of V ids, that an operation returned."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for x in tree_leaves(out):
            if isinstance(x, Tensor) and x.is_floating_point() and x.shape[-1:] == (VOCAB_SIZE,):
                held = 0 if x.is_meta else x.untyped_storage().nbytes() // x.element_size()
                self.rows = max(self.rows, min(x.numel(), held) // VOCAB_SIZE)
        return out


@pytest.mark.parametrize("name", ALGORITHMS)
def test_loss_and_gradients_are_those_of_the_plain_loss(name, monkeypatch):
    layout = layout_of_positions()
    algorithm, batch = built(name, layout), some_data(layout)
    with Widest() as widest:
        found = results(algorithm, batch)
    assert widest.rows <= max(CHUNK, WIDTH)  # the head's weights, transposed, have WIDTH rows
    monkeypatch.setattr(many_ids, "MANY_IDS", VOCAB_SIZE + 1)
    with Widest() as widest:
        expected = results(algorithm, batch)
    assert widest.rows >= batch.x0.numel()
    assert found.keys() == expected.keys()
    for key, value in expected.items():
        torch.testing.assert_close(found[key], value, rtol=1e-5, atol=1e-5, msg=key)
    assert all(value.any() for key, value in expected.items() if "head" in key)


def counted_of(how: str) -> Tensor:
    """Bool[5, LENGTH], so many True."""
    numbers = {"none": 0, "one": 1, "below": CHUNK - 1, "chunk": CHUNK, "above": CHUNK + 1}
    counted = torch.zeros(5 * LENGTH, dtype=torch.bool)
    where = torch.randperm(5 * LENGTH, generator=make_generator(4))
    counted[where[: numbers.get(how, 5 * LENGTH)]] = True
    return counted.view(5, LENGTH)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("how", ["none", "one", "below", "chunk", "above", "all"])
def test_rows_of_any_number(how, bias):
    """Values and gradients, of none, of one, about a chunk and of all."""
    layout, counted = layout_of_positions(), counted_of(how)
    x0 = legal_ids(layout).masked_fill(~counted, PAD)
    torch.manual_seed(0)
    head = nn.Linear(WIDTH, VOCAB_SIZE, bias=bias)
    states = torch.randn(5, LENGTH, WIDTH, requires_grad=True)
    weight = torch.rand(5, LENGTH)
    inputs = (states, *head.parameters())

    found = nll_of_states(head, states, x0, counted, layout.support)
    slopes = torch.autograd.grad((weight * found).sum(), inputs)
    log_d0 = log_softmax_on(head(states), layout.support)
    plain = -log_d0.gather(-1, x0.unsqueeze(-1)).squeeze(-1).masked_fill(~counted, 0.0)
    expected = torch.autograd.grad((weight * plain).sum(), inputs)

    assert not found[~counted].any()
    torch.testing.assert_close(found, plain, rtol=1e-5, atol=1e-5)
    for slope, other in zip(slopes, expected, strict=True):
        torch.testing.assert_close(slope, other, rtol=1e-5, atol=1e-5)


def test_products_in_bfloat16_are_summed_in_float32():
    """The values are those of bfloat16 logits; gradients of the head are float32 sums."""
    layout, counted = layout_of_positions(), counted_of("all")
    x0, head = legal_ids(layout), nn.Linear(WIDTH, VOCAB_SIZE)
    states = torch.randn(5, LENGTH, WIDTH, requires_grad=True)
    with torch.autocast("cpu", torch.bfloat16):
        logits = head(states)
        found = nll_of_states(head, states, x0, counted, layout.support)
    assert logits.dtype == torch.bfloat16
    assert found.dtype == torch.float32
    plain = -log_softmax_on(logits.float(), layout.support).gather(-1, x0.unsqueeze(-1)).squeeze(-1)
    torch.testing.assert_close(found, plain, rtol=1e-2, atol=1e-2)
    inputs = (states, head.weight, head.bias)
    slopes = torch.autograd.grad(found.sum(), inputs)
    expected = torch.autograd.grad(plain.sum(), inputs)
    for slope, other in zip(slopes, expected, strict=True):
        assert slope.dtype == torch.float32
        torch.testing.assert_close(slope, other, rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_nothing_is_read_back_from_a_device(name):
    """On the meta device, which holds no numbers, all rows are computed."""
    layout = layout_of_positions()
    algorithm, batch = built(name, layout), some_data(layout)
    try_backbone(algorithm, batch)
    algorithm.loss(batch, make_generator(0))  # what is measured of a process once is known now
    batch = algorithm.prepare_batch(batch).to("meta")
    loss = algorithm.to("meta").loss(batch, make_generator(0)).loss
    loss.backward()
    assert algorithm.backbone.head.weight.grad.is_meta


class Halved(MDLM):
    """An algorithm with logits of its own."""

    def logits(self, x_t, t, real, conditions=None):
        return super().logits(x_t, t, real, conditions) / 2


class Sharper(MDLM):
    """An algorithm with a D of its own ..."""

    def denoise(self, x_t, t, real, conditions=None):
        logits = self.logits(x_t, t, real, conditions)
        return log_softmax_on(2 * logits, self.layout.support)


class SharperUDLM(UDLM):
    """... and one whose bound reads the whole of it."""

    denoise = Sharper.denoise


class SharperSEDD(SEDD):
    def log_prediction(self, x_t, t, real, conditions=None):
        return super().log_prediction(x_t, t, real, conditions) / 2


@pytest.mark.parametrize("kind", [Halved, Sharper, SharperUDLM, SharperSEDD])
def test_an_algorithm_that_changes_logits_or_d_is_obeyed(kind, monkeypatch):
    layout = layout_of_positions()
    process = (Uniform if kind is SharperUDLM else Absorbing)(layout, LogLinear())
    algorithm, batch = kind(network(), process), some_data(layout)
    found = algorithm.loss(batch, make_generator(3))
    monkeypatch.setattr(many_ids, "MANY_IDS", VOCAB_SIZE + 1)
    assert torch.equal(found.loss, algorithm.loss(batch, make_generator(3)).loss)


class WrongStates(DiT):
    """States that the head is not applied to."""

    def forward(self, x_t, sigma=None, *, states=False):
        found = super().forward(x_t, sigma, states=states)
        return 2 * found if states else found


class NarrowStates(DiT):
    def forward(self, x_t, sigma=None, *, states=False):
        found = super().forward(x_t, sigma, states=states)
        return found[..., 1:] if states else found


@pytest.mark.parametrize(
    ("kind", "words"), [(WrongStates, "head"), (NarrowStates, r"\(5, [29], 15\).*\(5, [29], 16\)")]
)
@pytest.mark.parametrize("most", [leaks.MOST_LOGITS, 2 * 5 * VOCAB_SIZE])
def test_states_that_do_not_fit_the_head_are_refused(kind, words, most, monkeypatch):
    monkeypatch.setattr(leaks, "MOST_LOGITS", most)
    monkeypatch.setattr(preflight, "MOST_LOGITS", most)
    layout = layout_of_positions()
    backbone = kind(vocab_size=VOCAB_SIZE, hidden_size=WIDTH, n_blocks=1, n_heads=2, pad_id=PAD)
    algorithm = MDLM(backbone, Absorbing(layout, LogLinear()))
    with pytest.raises(ValueError, match=words):
        try_backbone(algorithm, some_data(layout))


@pytest.mark.parametrize("name", ["mdlm", "ar", "bd3lm"])
def test_logits_of_a_few_columns_are_looked_at_where_there_are_many(name, monkeypatch, caplog):
    most = 2 * 5 * VOCAB_SIZE  # two columns of five samples
    monkeypatch.setattr(leaks, "MOST_LOGITS", most)
    monkeypatch.setattr(preflight, "MOST_LOGITS", most)
    layout = layout_of_positions()
    algorithm, batch = built(name, layout), some_data(layout)
    with Widest() as widest:
        try_backbone(algorithm, batch)
    assert widest.rows <= 4 * 5  # four columns a block, with a cache
    assert not caplog.records


STEP = """
import resource
resource.setrlimit(resource.RLIMIT_DATA, (4 * 2**30,) * 2)
import torch
from discrete_diffusion.algorithms import MDLM
from discrete_diffusion.algorithms.preflight import try_backbone
from discrete_diffusion.categorical import make_generator
from discrete_diffusion.contracts import Batch
from discrete_diffusion.forward_process import Absorbing
from discrete_diffusion.layout import TokenLayout
from discrete_diffusion.models.dit import DiT
from discrete_diffusion.noise_schedules import LogLinear

torch.set_num_threads(1)
num, length = 128_000, 8192
layout = TokenLayout.flat(length, num, mask_id=num - 1, pad_id=num - 2)
network = DiT(
    vocab_size=num, hidden_size=64, n_blocks=2, n_heads=4, cond_dim=64, dropout=0.1, pad_id=num - 2
)
algorithm = MDLM(network, Absorbing(layout, LogLinear()))
real = torch.arange(length)[None] < length - 100
x0 = torch.randint(num - 2, (1, length)).masked_fill(~real, num - 2)
layout.check(x0)
try_backbone(algorithm, Batch(x0, real))
optimizer = torch.optim.AdamW(algorithm.parameters())
algorithm.loss(Batch(x0, real), make_generator(0)).loss.backward()
optimizer.step()
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="memory is limited as on Linux")
def test_a_step_of_very_many_ids_takes_less_than_4_gib():
    subprocess.run([sys.executable, "-c", STEP], check=True)
