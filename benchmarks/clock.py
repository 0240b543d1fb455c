"""How time and memory are taken: interleaved repeats, ratios within one, peaks, fits; and the
columns of tables that show them."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from einops import rearrange
from scipy.stats import linregress
from torch.nn.functional import conv2d
from torch.profiler import ProfilerActivity, profile
from torch.utils.flop_counter import FlopCounterMode, sdpa_backward_flop_count, sdpa_flop_count

MIB = 2**20
_PRODUCTS, _SIZE, _PROBE = 20, 1024, 256
_SEQUENCES = (1, 16)
"""Numbers of sequences that the columns of a convolution are cut into: oneDNN has another kernel
for several (``models/acceleration.py``)."""
_GPU_SIZE = 8192
"""Of a GPU, which launches a smaller product in as much time as it takes."""
_SLOW_SECONDS = 1.0
"""A product of matrices of ``_SIZE`` that takes longer is measured at ``_PROBE``."""
_LONGEST = 2.0
"""Seconds after which a way to multiply is repeated no more."""


@dataclass(frozen=True)
class Spent:
    """What a piece of work took: ``cpu`` seconds of all threads of this process, ``wall`` seconds;
    ``done``: how many diagrams (or calls) came of it."""

    cpu: float
    wall: float
    done: int


def synchronise(device: torch.device) -> None:
    """Wait for what a GPU was given to do; nothing to wait for on the CPU."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


class Stopwatch:
    """Runs from when it is made."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        synchronise(device)
        self._cpu, self._wall = time.process_time(), time.perf_counter()

    def stop(self, done: int) -> Spent:
        """What has been spent since, on so much work."""
        synchronise(self.device)
        cpu, wall = time.process_time(), time.perf_counter()
        return Spent(cpu - self._cpu, wall - self._wall, done)


def timed(work: Callable[[], int], device: torch.device) -> Spent:
    """Run ``work``, which returns how much it did."""
    watch = Stopwatch(device)
    return watch.stop(work())


def interleaved(
    variants: Mapping[str, Callable[[int], Spent]], repeats: int, say: Callable[[str], None] = print
) -> dict[str, list[Spent]]:
    """Every variant once per repeat, in the order given and, every other time, backwards, so that
    a machine that slows down favours none. A variant is told the number of the repeat."""
    found: dict[str, list[Spent]] = {name: [] for name in variants}
    for repeat in range(repeats):
        names = list(variants) if repeat % 2 == 0 else list(variants)[::-1]
        for name in names:
            spent = variants[name](repeat)
            found[name].append(spent)
            say(
                f"repeat {repeat}: {name}: {spent.done / spent.cpu:.1f} per CPU-second, "
                f"{spent.done / spent.wall:.1f} per second"
            )
    return found


def rates(spent: Sequence[Spent], baseline: Sequence[Spent]) -> dict[str, Any]:
    """Medians over the repeats, and of the ratios to the baseline of the same repeat."""
    out: dict[str, Any] = {}
    for clock, name in (("cpu", "per_cpu_second"), ("wall", "per_second")):
        rate = [s.done / getattr(s, clock) for s in spent]
        other = [s.done / getattr(s, clock) for s in baseline]
        ratio = [ours / theirs for ours, theirs in zip(rate, other, strict=True)]
        out[name] = median(rate)
        out[f"{name}_ratio"] = {"median": median(ratio), "low": min(ratio), "high": max(ratio)}
        out[f"{name}_repeats"] = rate
    return out


linear_of_onednn = getattr(torch.ops.mkldnn, "_linear_pointwise", None)
"""None where PyTorch has no oneDNN."""
_ATTENTION = "_scaled_dot_product_flash_attention_for_cpu"
_UNCOUNTED: dict[Any, Callable[..., int]] = {
    getattr(torch.ops.aten, _ATTENTION): lambda q, k, v, *_, **__: sdpa_flop_count(q, k, v),
    getattr(torch.ops.aten, f"{_ATTENTION}_backward"): (
        lambda grad, q, k, v, *_, **__: sdpa_backward_flop_count(grad, q, k, v)
    ),
}
if linear_of_onednn is not None:
    _UNCOUNTED[linear_of_onednn] = lambda x, weight, *_, **__: 2 * math.prod(x) * weight[0]
"""Operations of CPUs that PyTorch's counter leaves out, with their count from shapes."""


def products(work: Callable[[], object]) -> int:
    """Floating-point operations of all matrix products and convolutions that ``work`` makes, those
    inside of fused attention too. Six per parameter and token would be more: a third of the
    parameters, those of adaLN, multiply once a sample."""
    with FlopCounterMode(display=False, custom_mapping=_UNCOUNTED) as counter:
        work()
    return counter.get_total_flops()


def product_rate(device: torch.device, dtype: torch.dtype) -> float:
    """Floating-point operations per second of the fastest product of square matrices here: the best
    of repeats, on the CPU by CPU time and by every way that the networks multiply: the product
    itself, convolutions of one column, and oneDNN's own product. There matrices are smaller where
    the processor has no units for the format, and a large one takes seconds."""
    if device.type != "cpu":
        return _product_rate(device, dtype, size=_GPU_SIZE, repeats=_PRODUCTS)
    probed = _product_rate(device, dtype, size=_PROBE, repeats=1)
    if 2 * _SIZE**3 / probed > _SLOW_SECONDS:
        return probed
    return _product_rate(device, dtype, size=_SIZE, repeats=_PRODUCTS)


def product_rows(device: torch.device) -> int:
    """Rows of the matrices of ``product_rate``."""
    return _SIZE if device.type == "cpu" else _GPU_SIZE


def _product_rate(device: torch.device, dtype: torch.dtype, *, size: int, repeats: int) -> float:
    left, right = torch.randn(2, size, size, device=device).to(dtype)
    works: list[Callable[[], object]] = [lambda: left @ right]
    if device.type == "cpu":  # of a GPU's in float32 the operands are cut to 19 bits
        kernels = right.T[:, :, None, None].contiguous(memory_format=torch.channels_last)
        for num in _SEQUENCES:
            image = rearrange(left, "(b l) d -> b d 1 l", b=num)  # channels last
            works.append(partial(conv2d, image, kernels))
        if linear_of_onednn is not None:
            works.append(partial(linear_of_onednn, left, kernels[:, :, 0, 0], None, "none", [], ""))
    best = 0.0
    with torch.no_grad():
        for work in works:
            work()
            whole = Stopwatch(device)
            for _ in range(repeats):
                watch = Stopwatch(device)
                work()
                spent = watch.stop(1)
                seconds = spent.cpu if device.type == "cpu" else spent.wall
                best = max(best, 2 * size**3 / seconds)
                if whole.stop(1).wall > _LONGEST:
                    break
    return best


def shares_of_products(
    rows: Sequence[dict[str, Any]],
    each: Mapping[str, float],
    low: Collection[str],
    device: torch.device,
) -> dict[str, float]:
    """Add to the rows of ``rates`` their ``share_of_products``: of what products of square matrices
    reach in the same number format. Returns those rates, by format.

    ``each``: operations of a diagram by the name of a row, see ``products``; rows that are not
    there get no share. ``low``: names of those in bfloat16.
    """
    clock = "per_cpu_second" if device.type == "cpu" else "per_second"
    formats = {"float32": torch.float32, **({"bfloat16": torch.bfloat16} if low else {})}
    reached = {name: product_rate(device, dtype) for name, dtype in formats.items()}
    for row in rows:
        if row["name"] in each:
            whole = reached["bfloat16" if row["name"] in low else "float32"]
            row["share_of_products"] = share_of_products(each[row["name"]] * row[clock], whole)
    return reached


def share_of_products(operations: float, rate: float) -> float:
    """Share that ``operations`` per second have of the ``product_rate``.

    Raises ``ValueError`` above 1: then the rate is not the fastest that the processor multiplies.
    """
    if operations > rate:
        raise ValueError(
            f"{operations / 1e9:,.0f} GFLOP/s are {operations / rate:.0%} of a product rate of "
            f"{rate / 1e9:,.0f}: product_rate misses a faster way to multiply, or something else "
            "ran while it was measured"
        )
    return operations / rate


def share_text(row: Mapping[str, Any]) -> str:
    """The share of the product rate of a row in percent, a dash if it was not measured."""
    share = row.get("share_of_products")
    return "–" if share is None else f"{100 * share:.0f}"


def seconds_each(
    works: Mapping[float, Callable[[], object]],
    device: torch.device,
    repeats: int,
    least: float = 0.2,
) -> dict[float, dict[str, float]]:
    """Median seconds of one call of each work, repeats interleaved; short ones are called as often
    as fills ``least`` seconds."""

    def calls(work: Callable[[], object], number: int) -> int:
        for _ in range(number):
            work()
        return number

    numbers = {}
    for key, work in works.items():
        work()  # caches, allocator, compilation
        once = timed(lambda work=work: calls(work, 1), device)
        numbers[key] = max(1, round(least / max(once.wall, 1e-9)))
    found: dict[float, list[Spent]] = {key: [] for key in works}
    for _ in range(repeats):
        for key, work in works.items():
            found[key].append(timed(lambda w=work, k=key: calls(w, numbers[k]), device))
    return {
        key: {
            "cpu_seconds": median(s.cpu / s.done for s in spent),
            "seconds": median(s.wall / s.done for s in spent),
        }
        for key, spent in found.items()
    }


def exponent(sizes: Sequence[float], seconds: Sequence[float]) -> dict[str, float]:
    """p of seconds ~ size^p by least squares on logarithms, with its standard error."""
    fit = linregress(np.log(sizes), np.log(seconds))
    return {"exponent": float(fit.slope), "standard_error": float(fit.stderr)}


class MemoryPeak:
    """How far memory rises above what it is now: MiB of resident memory, or of CUDA's allocator.

    Raises ``OSError`` where the kernel does not let a process reset its peak (Linux does).
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        if device.type == "cuda":
            torch.cuda.synchronize(device)
            torch.cuda.reset_peak_memory_stats(device)
            self.before = torch.cuda.memory_allocated(device) / MIB
        else:
            Path("/proc/self/clear_refs").write_text("5")  # the peak starts from here
            self.before = _resident("VmRSS")

    def rise(self) -> float:
        """MiB from the start to the peak so far."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
            return torch.cuda.max_memory_allocated(self.device) / MIB - self.before
        return _resident("VmHWM") - self.before


def peak_of_tensors(work: Callable[[], None]) -> float:
    """MiB of tensors that are alive at once during ``work`` and were made in it, at most: what
    PyTorch's CPU allocator has handed out, whatever the C library makes of it."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as found:
        work()
    assert found.profiler is not None
    events = [e for e in found.profiler.kineto_results.events() if e.name() == "[memory]"]
    events.sort(key=lambda event: event.start_ns())
    return max(accumulate(event.nbytes() for event in events)) / MIB


def _resident(name: str) -> float:
    """MiB of a line of the process's status."""
    found = re.search(rf"^{name}:\s+(\d+) kB", Path("/proc/self/status").read_text(), re.MULTILINE)
    if found is None:
        raise OSError(f"the kernel does not tell {name}")
    return int(found[1]) / 1024


SPEED = ("diagrams per CPU-second", "ratio", "diagrams per second", "ratio")


def ratio_words(ratio: Mapping[str, float]) -> str:
    """A ratio of ``rates``, with the lowest and the highest of the repeats."""
    return f"{ratio['median']:.2f} ({ratio['low']:.2f} to {ratio['high']:.2f})"


def rate_titles(found: Mapping[str, Any]) -> list[str]:
    """Of the columns of ``rate_cells``; measurements from before the share was taken have none."""
    return [*SPEED, *(["of the product rate, %"] if "product_rate" in found else [])]


def rate_cells(found: Mapping[str, Any], row: Mapping[str, Any]) -> list[str]:
    out = []
    for clock in ("per_cpu_second", "per_second"):
        ratio = row[f"{clock}_ratio"]
        rate = row[clock]
        out += [f"{rate:,.0f}" if rate >= 100 else f"{rate:.1f}", ratio_words(ratio)]
    if "product_rate" in found:
        out.append(share_text(row))
    return out


def product_rates(found: Mapping[str, Any]) -> str:
    """What the shares of the product rate are of."""
    rates = found.get("product_rate", {})
    said = " and ".join(f"{rate / 1e9:,.0f} GFLOP/s in {name}" for name, rate in rates.items())
    of = f"Products of square matrices of {found.get('product_rows', _SIZE):,} rows reach"
    return (
        f" {of} {said}; the share of the product rate is of that, counting matrix products alone."
        if said
        else ""
    )
