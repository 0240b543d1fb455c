"""How the speed benchmark takes times: ratios within a repeat, order of turns, fits, peaks."""

from __future__ import annotations

import mmap
import sys

import pytest
import torch

import clock
from clock import (
    MemoryPeak,
    Spent,
    exponent,
    interleaved,
    products,
    rates,
    seconds_each,
    share_of_products,
    shares_of_products,
)
from discrete_diffusion.models import acceleration
from discrete_diffusion.models.transformer import MultiHeadSelfAttention
from speed_cost import WORKS, model_of

CPU = torch.device("cpu")


def test_ratios_are_taken_within_a_repeat():
    """The machine halves its speed twice; the ratio does not see it."""
    baseline = [Spent(1.0, 2.0, 10), Spent(2.0, 4.0, 10), Spent(4.0, 8.0, 10)]
    ours = [Spent(0.5, 1.0, 10), Spent(1.0, 1.0, 10), Spent(1.0, 4.0, 10)]
    found = rates(ours, baseline)
    assert found["per_cpu_second"] == 10
    assert found["per_cpu_second_ratio"] == {"median": 2.0, "low": 2.0, "high": 4.0}
    assert found["per_second_ratio"] == {"median": 2.0, "low": 2.0, "high": 4.0}
    assert found["per_second_repeats"] == [10, 10, 2.5]
    assert rates(baseline, baseline)["per_second_ratio"]["high"] == 1.0


def test_turns_go_back_and_forth():
    turns = []

    def variant(name):
        def one(repeat: int) -> Spent:
            turns.append((repeat, name))
            return Spent(1.0, 1.0, repeat)

        return one

    said: list[str] = []
    found = interleaved({name: variant(name) for name in "ab"}, 2, said.append)
    assert turns == [(0, "a"), (0, "b"), (1, "b"), (1, "a")]
    assert [s.done for s in found["a"]] == [0, 1]
    assert len(said) == 4


def test_exponents_are_those_of_power_laws():
    sizes = [4.0, 8.0, 16.0, 32.0]
    exact = exponent(sizes, [3 * s**1.5 for s in sizes])
    assert exact["exponent"] == pytest.approx(1.5)
    assert exact["standard_error"] == pytest.approx(0, abs=1e-7)
    bent = exponent(sizes, [s + s**2 for s in sizes])
    assert 1 < bent["exponent"] < 2
    assert bent["standard_error"] > 0.01


def test_short_work_is_repeated_and_divided_again(monkeypatch):
    now = 0.0
    calls = {1.0: 0, 2.0: 0}

    def work(seconds: float):
        def one() -> None:
            nonlocal now
            now += seconds / 1000
            calls[seconds] += 1

        return one

    for clock_of in ("process_time", "perf_counter"):
        monkeypatch.setattr(clock.time, clock_of, lambda: now)
    found = seconds_each({size: work(size) for size in calls}, CPU, repeats=2, least=0.1)
    assert calls == {1.0: 2 + 2 * 100, 2.0: 2 + 2 * 50}
    for milliseconds, spent in found.items():
        assert spent["seconds"] == spent["cpu_seconds"] == pytest.approx(milliseconds / 1000)


@pytest.mark.skipif(sys.platform != "linux", reason="the peak is read from Linux's /proc")
def test_a_peak_is_seen_after_it_is_gone():
    peak = MemoryPeak(CPU)
    with mmap.mmap(-1, 64 * 2**20) as block:  # of the system's own, never of a used heap
        block.write(bytes([1]) * len(block))
    assert peak.rise() > 60
    assert MemoryPeak(CPU).rise() < 40


def test_products_are_counted_forwards_and_backwards():
    weight = torch.zeros(5, 3, requires_grad=True)
    assert products(lambda: (torch.ones(2, 5) @ weight).sum().backward()) == 2 * (2 * 2 * 5 * 3)


@pytest.mark.parametrize("lags", [False, True])
def test_operations_are_those_of_the_products_that_are_made(monkeypatch, lags):
    """By an own count, a layer at a time, of a step in which every sample has a time of its own:
    six for each parameter and token would be a third more."""
    monkeypatch.setattr(acceleration, "_MKL_LAGS", lags)
    model = model_of("bd-denoiser", 8, 16, CPU, ["model=bd_tiny"])
    made = dict.fromkeys(("forward", "back"), 0)

    def linear(layer, given, out):
        (x,) = given
        count = 2 * out.numel() * layer.in_features
        made["forward"] += count
        made["back"] += count * (1 + x.requires_grad)

    def attention(layer, given, out):
        num, length, width = given[0].shape
        made["forward"] += 2 * 2 * num * length**2 * width
        made["back"] += 5 * 2 * num * length**2 * width  # one of them again, of the weights

    for module in model.algorithm.modules():
        if isinstance(module, torch.nn.Linear):
            module.register_forward_hook(linear)
        elif isinstance(module, MultiHeadSelfAttention):
            module.register_forward_hook(attention)
    counted = products(lambda: WORKS["training_step"](model))
    assert counted == sum(made.values())
    assert 6 * sum(p.numel() for p in model.parameters) * 16 * 36 > 1.3 * counted
    made["forward"] = 0
    assert products(lambda: WORKS["network_call"](model)) == made["forward"]


def test_products_of_onednn_are_counted():
    x, weight = torch.zeros(2, 5, 3), torch.zeros(7, 3, requires_grad=True)
    once = 2 * 2 * 5 * 3 * 7
    multiply = acceleration._OneDNNProduct.apply
    assert products(lambda: multiply(x, weight, None).sum().backward()) == 2 * once


@pytest.mark.parametrize("fastest", ["product", 1, 16, "onednn"])
def test_the_product_rate_is_that_of_the_fastest_way_to_multiply(monkeypatch, fastest):
    """Of an imagined processor, by each of its ways; all of them multiply the same matrices."""
    now, found = 0.0, []
    monkeypatch.setattr(clock.time, "process_time", lambda: now)
    convolved, multiplied, plain = clock.conv2d, clock.linear_of_onednn, torch.Tensor
    if multiplied is None:
        pytest.skip("PyTorch has no oneDNN here")

    def took(way, out):
        nonlocal now
        now += 0.25 if way == fastest else 1.0
        found.append((way, out))
        return out

    class Product(torch.Tensor):
        def __matmul__(self, other):
            return took("product", self.as_subclass(plain) @ other.as_subclass(plain))

    def convolution(image, kernels):
        out = convolved(image, kernels).as_subclass(plain)
        took(len(image), out.permute(0, 3, 2, 1).reshape(32, 32))

    def onednn(left, *rest):
        took("onednn", multiplied(left.as_subclass(plain), *rest))

    monkeypatch.setattr(clock, "conv2d", convolution)
    monkeypatch.setattr(clock, "linear_of_onednn", onednn)
    randn = torch.randn
    monkeypatch.setattr(torch, "randn", lambda *s, **o: randn(*s, **o).as_subclass(Product))
    rate = clock._product_rate(CPU, torch.float32, size=32, repeats=2)
    assert rate == 2 * 32**3 / 0.25
    outs = dict(found)
    assert set(outs) == {"product", 1, 16, "onednn"}
    for out in outs.values():
        torch.testing.assert_close(out, outs["product"])


def test_a_share_above_the_whole_is_refused():
    assert share_of_products(5e9, 1e10) == 0.5
    with pytest.raises(ValueError, match=r"12 GFLOP/s are 120% of a product rate of 10"):
        share_of_products(1.2e10, 1e10)


@pytest.mark.slow
def test_a_share_is_of_the_rate_of_its_own_format():
    rows = [
        {"name": name, "per_cpu_second": 1e3, "per_second": 1.0} for name in ("a", "b", "compiled")
    ]
    reached = shares_of_products(rows, {"a": 1e6, "b": 1e6}, ["b"], CPU)
    assert rows[0]["share_of_products"] == 1e9 / reached["float32"]
    assert rows[1]["share_of_products"] == 1e9 / reached["bfloat16"]
    assert "share_of_products" not in rows[2]
