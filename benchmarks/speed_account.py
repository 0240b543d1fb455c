"""Where the CPU-seconds of a training step and of a network call go, for ``speed.py``: by network,
size, number format and by the instructions that the libraries may use.

The work is profiled, which says in which operations its time goes; calls and Python are what the
same work takes of one graph of two nodes, where there is next to nothing to compute.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from clock import product_rate, products, timed
from discrete_diffusion.runtime.precision import multiplies_bfloat16
from record import markdown_table
from speed_cost import WORKS, model_of
from speed_variants import precision

KINDS = {
    "products": r"(add)?mm|(badd)?bmm|.*convolution.*|linear|mkldnn_linear.*|dot|mv",
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
QUICK = (Subject("bd-denoiser", 8, 4), Subject("bd-denoiser-pair", 8, 2))


@dataclass(frozen=True)
class Instructions:
    """What the libraries are held to, by ``variables`` of their environment; ``formats``: of the
    numbers that are multiplied fast so, separated by commas."""

    name: str
    variables: Mapping[str, str]
    formats: str


def levels() -> list[Instructions]:
    """All that the processor has, and below that AVX-512 without AMX, and AVX2."""
    own = torch.backends.cpu.get_cpu_capability()
    formats = "float32,bfloat16" if multiplies_bfloat16() is True else "float32"
    found = [Instructions(f"all ({own})", {}, formats)]
    for name, limit in (("AVX-512", "AVX512_CORE_BF16"), ("AVX2", "AVX2")):
        aten = name.replace("-", "").lower()
        lower = own.startswith("AVX512") if name == "AVX2" else _has_amx()
        if lower:
            variables = {"ONEDNN_MAX_CPU_ISA": limit, "ATEN_CPU_CAPABILITY": aten}
            variables["MKL_ENABLE_INSTRUCTIONS"] = aten.upper()
            found.append(Instructions(name, variables, "float32" if name == "AVX2" else formats))
    return found


def _has_amx() -> bool:
    find = getattr(torch.cpu, "get_capabilities", dict)
    return any("amx" in str(name) and bool(has) for name, has in find().items())


def account(measure: Callable[[Instructions], list[Any]]) -> dict[str, Any]:
    """The account under each of ``levels``; ``measure``: ``account_of`` in a process of its own."""
    rows = [{"instructions": level.name, **row} for level in levels() for row in measure(level)]
    return {"rows": rows}


def account_of(
    subjects: Sequence[Subject], *, repeats: int, formats: Sequence[str]
) -> list[dict[str, Any]]:
    """A row per subject, work and number format, under the instructions of this process."""
    rows = []
    for name in formats:
        rate = product_rate(torch.device("cpu"), getattr(torch, name))
        for subject in subjects:
            for work in WORKS:
                found = _account(subject, work, repeats=repeats, bfloat16=name == "bfloat16")
                share = found.pop("operations") / found["seconds"] / rate
                about = {"network": subject.name, "nodes": subject.nodes, "batch": subject.batch}
                about |= {"work": work, "format": name, "product_rate": rate}
                rows.append({**about, "share_of_products": share, **found})
                print(rows[-1], file=sys.stderr, flush=True)
    return rows


def _account(subject: Subject, name: str, *, repeats: int, bfloat16: bool) -> dict[str, Any]:
    work = _work(subject, name, bfloat16)
    small = Subject(subject.network, ONE_GRAPH, 1, subject.words)
    seconds = _least(work, repeats)
    calls = min(_least(_work(small, name, bfloat16), repeats), seconds)
    with profile(activities=[ProfilerActivity.CPU]) as found:
        for _ in range(repeats):
            work()
    spent = dict.fromkeys([*KINDS, REST], 0.0)
    for event in found.key_averages():
        spent[kind_of(event.key)] += event.self_cpu_time_total
    computed = (seconds - calls) / sum(spent.values())
    shares = {kind: each * computed / seconds for kind, each in spent.items()}
    shares[CALLS] = calls / seconds
    return {"seconds": seconds, "shares": shares, "operations": products(work)}


def _work(subject: Subject, name: str, bfloat16: bool) -> Callable[[], None]:
    words = subject.words
    model = model_of(subject.network, subject.nodes, subject.batch, torch.device("cpu"), words)

    def work() -> None:
        with precision(bfloat16, torch.device("cpu")):
            WORKS[name](model)

    return work


def _least(work: Callable[[], None], repeats: int) -> float:
    """CPU-seconds of the fastest of ``repeats``."""
    work()  # caches, allocator

    def once() -> int:
        work()
        return 1

    return min(timed(once, torch.device("cpu")).cpu for _ in range(repeats))


def kind_of(name: str) -> str:
    """The kind of an operation, e.g. of ``aten::addmm``."""
    short = name.lower().removeprefix("aten::").removeprefix("_").removeprefix("native_")
    return next((kind for kind, names in KINDS.items() if re.fullmatch(names, short)), REST)


def account_table(found: Mapping[str, Any]) -> str:
    rates = {(row["instructions"], row["format"]): row["product_rate"] for row in found["rows"]}
    said = ", ".join(f"{rate / 1e9:,.0f} in {name}, {isa}" for (isa, name), rate in rates.items())
    facts = (
        f"Shares of the CPU-time of a training step and of a network call. *{CALLS}*: what the "
        "same work takes of one graph of two nodes; the others by PyTorch's profiler. The last "
        "column is what matrix products alone would take at the rate that square ones reach, over "
        f"what all takes; GFLOP/s: {said}."
    )
    kinds = [*KINDS, REST, CALLS]
    several = len({row["instructions"] for row in found["rows"]}) > 1
    heads = ["", "n", "batch", "", "ms", *(f"{kind}, %" for kind in kinds)]
    heads.append("of the product rate, %")
    rows = []
    for row in found["rows"]:
        work = f"{row['work'].replace('_', ' ')}, {row['format']}"
        work += f", {row['instructions']}" if several else ""
        cells = [row["network"], str(row["nodes"]), str(row["batch"]), work]
        cells.append(f"{1e3 * row['seconds']:.0f}")
        cells += [f"{100 * row['shares'][kind]:.0f}" for kind in kinds]
        rows.append([*cells, f"{100 * row['share_of_products']:.0f}"])
    return f"{facts}\n\n{markdown_table(heads, rows)}"
