"""Where the CPU-seconds of a training step and of a network call go, for ``speed.py``: by network,
size, number format and by the instructions that the libraries may use.

The work is profiled, which says in which operations its time goes; calls and Python are what the
same work takes of one graph of two nodes, where there is next to nothing to compute.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

from clock import product_rate, products, share_of_products, share_text, synchronise, timed
from discrete_diffusion.runtime.devices import multiplies_bfloat16
from record import markdown_table
from speed_cost import WORKS, model_of
from speed_variants import precision

KINDS = {
    "products": r"(add)?mm|(badd)?bmm|.*convolution.*|linear|mkldnn.*linear.*|dot|mv",
    "attention": r".*scaled_dot_product.*|.*softmax.*",
    "GELU, GLU": r"r?gelu.*|glu.*|sigmoid.*|silu.*",
    "layer norm": r".*layer_norm.*",
    "copies": r"copy_|cat|clone|.*pad.*|fill_|zero_|index.*|embedding.*|gather|scatter.*|_to_copy",
    "optimiser": r".*adamw.*|.*foreach.*|.*vector_norm.*",
}
"""Kind -> the names of PyTorch's operations, without ``aten::``; the first that fits counts."""
REST, CALLS = "elementwise, sums", "calls, Python"
ONE_GRAPH = 2
"""Nodes of the graph that leaves next to nothing to compute."""


@dataclass(frozen=True)
class Subject:
    """A network on a batch of ``batch`` graphs that fill all ``nodes``."""

    network: str
    nodes: int
    batch: int
    words: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        said = ", ".join(word.removeprefix("model.") for word in self.words)
        return f"`{self.network}`" + (f", {said}" if said else "")


_NARROW = ("model=bd_pair_tiny", "model.d_model=16", "model.d_pair=8", "model.n_layers=1")
_FEATURES = "model.features=[reach,resistance,walks,cycles]"
SUBJECTS = (
    Subject("bd-denoiser", 8, 256),
    Subject("bd-denoiser-pair", 8, 256),
    Subject("bd-denoiser-pair", 9, 256),
    Subject("bd-denoiser-pair", 38, 16),
    Subject("bd-denoiser-pair", 64, 8),
    Subject("bd-denoiser-pair", 64, 8, (*_NARROW, "model.n_heads=2", _FEATURES)),
)
GPU = tuple(replace(each, batch=16 * each.batch) for each in SUBJECTS)
QUICK = (Subject("bd-denoiser", 8, 4), Subject("bd-denoiser-pair", 8, 2))


@dataclass(frozen=True)
class Instructions:
    """What the libraries are held to, by ``variables`` of their environment; ``formats``: of the
    numbers that are multiplied fast so, separated by commas."""

    name: str
    variables: Mapping[str, str]
    formats: str


def levels(device: torch.device) -> list[Instructions]:
    """All that the processor has, and below that AVX-512 without AMX, and AVX2; of a GPU all."""
    if device.type == "cuda":
        return [Instructions("GPU", {}, "float32,bfloat16")]
    own = torch.backends.cpu.get_cpu_capability()
    formats = "float32,bfloat16" if multiplies_bfloat16() is True else "float32"
    found = [Instructions(f"all ({own})", {}, formats)]
    has_amx = any("amx" in name and bool(has) for name, has in torch.cpu.get_capabilities().items())
    for name, limit in (("AVX-512", "AVX512_CORE_BF16"), ("AVX2", "AVX2")):
        aten = name.replace("-", "").lower()
        lower = own.startswith("AVX512") if name == "AVX2" else has_amx
        if lower:
            variables = {"ONEDNN_MAX_CPU_ISA": limit, "ATEN_CPU_CAPABILITY": aten}
            variables["MKL_ENABLE_INSTRUCTIONS"] = aten.upper()
            found.append(Instructions(name, variables, "float32" if name == "AVX2" else formats))
    return found


def account(measure: Callable[[Instructions], list[Any]], device: torch.device) -> dict[str, Any]:
    """The account under each of ``levels``; ``measure``: ``account_of`` in a process of its own."""
    found = {level.name: measure(level) for level in levels(device)}
    rows = [{"instructions": name, **row} for name, each in found.items() for row in each]
    return {"rows": rows, "clock": "CPU-time" if device.type == "cpu" else "time"}


def account_of(
    subjects: Sequence[Subject], device: torch.device, *, repeats: int, formats: Sequence[str]
) -> list[dict[str, Any]]:
    """A row per subject, work and number format, under the instructions of this process."""
    rows = []
    for name in formats:
        rate = product_rate(device, getattr(torch, name))
        for subject in subjects:
            for work in WORKS:
                found = _account(Work(subject, work, device, name == "bfloat16"), repeats)
                share = share_of_products(found.pop("operations") / found["seconds"], rate)
                about = {"network": subject.name, "nodes": subject.nodes, "batch": subject.batch}
                about |= {"work": work, "format": name, "product_rate": rate}
                rows.append({**about, "share_of_products": share, **found})
                print(rows[-1], file=sys.stderr, flush=True)
    return rows


class Work:
    """A step or call, one of ``WORKS``, of a subject, to be called."""

    def __init__(self, subject: Subject, name: str, device: torch.device, bfloat16: bool) -> None:
        self.subject, self.name, self.device, self.bfloat16 = subject, name, device, bfloat16
        size = (subject.nodes, subject.batch)
        self.model = model_of(subject.network, *size, device, subject.words)

    def __call__(self) -> int:
        with precision(self.bfloat16, self.device):
            WORKS[self.name](self.model)
        return 1

    def of_one_graph(self) -> Work:
        one = replace(self.subject, nodes=ONE_GRAPH, batch=1)
        return Work(one, self.name, self.device, self.bfloat16)

    def seconds(self, repeats: int) -> float:
        """Of the fastest of ``repeats``: CPU-seconds, or seconds of a GPU."""
        self()  # caches, allocator
        spent = [timed(self, self.device) for _ in range(repeats)]
        return min(each.cpu if self.device.type == "cpu" else each.wall for each in spent)

    def by_kind(self, repeats: int) -> dict[str, float]:
        """Profiled microseconds by kind of operation; of a GPU those of the kernels."""
        on_gpu, spent = self.device.type == "cuda", dict.fromkeys([*KINDS, REST], 0.0)
        activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if on_gpu else [])]
        with profile(activities=activities) as found:
            for _ in range(repeats):
                self()
            synchronise(self.device)
        for event in found.key_averages():
            if event.device_type == DeviceType.CPU:  # kernels count where they are launched
                of = event.self_device_time_total if on_gpu else event.self_cpu_time_total
                spent[kind_of(event.key)] += of
        return spent


def _account(work: Work, repeats: int) -> dict[str, Any]:
    seconds = work.seconds(repeats)
    calls = min(work.of_one_graph().seconds(repeats), seconds)
    spent = work.by_kind(repeats)
    computed = (seconds - calls) / max(sum(spent.values()), 1e-9)
    shares = {kind: each * computed / seconds for kind, each in spent.items()}
    shares[CALLS] = calls / seconds
    return {"seconds": seconds, "shares": shares, "operations": products(work)}


def kind_of(name: str) -> str:
    """The kind of an operation, e.g. of ``aten::addmm``."""
    short = name.lower().removeprefix("aten::").removeprefix("_").removeprefix("native_")
    return next((kind for kind, names in KINDS.items() if re.fullmatch(names, short)), REST)


def account_table(found: Mapping[str, Any]) -> str:
    rates = {
        (row["instructions"], row["format"]): row["product_rate"]
        for row in found["rows"]
        if "product_rate" in row
    }
    said = ", ".join(f"{rate / 1e9:,.0f} in {name}, {isa}" for (isa, name), rate in rates.items())
    facts = (
        f"Shares of the {found['clock']} of a training step and of a network call. *{CALLS}*: what "
        "the same work takes of one graph of two nodes; the others by PyTorch's profiler."
    )
    if rates:
        facts += (
            " The last column is what matrix products alone would take at the rate that square "
            f"ones reach, over what all takes; GFLOP/s: {said}."
        )
    kinds = [*KINDS, REST, CALLS]
    several = len({row["instructions"] for row in found["rows"]}) > 1
    heads = ["", "n", "batch", "", "ms", *(f"{kind}, %" for kind in kinds)]
    heads += ["of the product rate, %"] if rates else []
    rows = []
    for row in found["rows"]:
        work = f"{row['work'].replace('_', ' ')}, {row['format']}"
        work += f", {row['instructions']}" if several else ""
        cells = [row["network"], str(row["nodes"]), str(row["batch"]), work]
        cells.append(f"{1e3 * row['seconds']:.0f}")
        cells += [f"{100 * row['shares'][kind]:.0f}" for kind in kinds]
        rows.append([*cells, *([share_text(row)] if rates else [])])
    return f"{facts}\n\n{markdown_table(heads, rows)}"
