"""The flat and the pair denoiser side by side, by number of rooms, for ``speed.py``.

Presets ``bd_small`` and ``bd_pair_small``, of nearly as many parameters, untrained, on random legal
tokens of diagrams that fill all their slots: the arithmetic does not read them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from discrete_diffusion.cli import compose
from discrete_diffusion.layout import VocabConfig
from discrete_diffusion.models.registry import build_backbone
from speed_clock import Spent, exponent, interleaved, rates, timed
from speed_cost import WORKS, Model
from speed_variants import precision

NETWORKS = ("bd-denoiser", "bd-denoiser-pair")


@dataclass(frozen=True)
class Sizes:
    """``batches``: pairs (rooms, diagrams); ``calls``: of a work in one repeat."""

    batches: tuple[tuple[int, int], ...]
    calls: int


FULL = Sizes(batches=((4, 256), (6, 256), (8, 256), (16, 64), (32, 8), (64, 2)), calls=4)
GPU = Sizes(batches=((4, 4096), (6, 4096), (8, 4096), (16, 1024), (32, 128), (64, 16)), calls=8)
QUICK = Sizes(batches=((4, 8), (8, 8)), calls=1)


def model_of(network: str, n_max: int, num: int, device: torch.device) -> Model:
    vocab = VocabConfig(n_max=n_max)
    words = [f"algo.backbone={network}", f"data.n_max={n_max}", "model.dropout=0"]
    backbone = build_backbone(compose("train", words), vocab.vocab_size)
    return Model(vocab.layout(), backbone, vocab.real_positions(torch.full((num,), n_max)), device)


def networks(sizes: Sizes, device: torch.device, *, repeats: int, bfloat16: bool) -> dict[str, Any]:
    """Diagrams per second of a training step and of a network call, and the ratio to the flat one;
    the exponents of the seconds per diagram against n."""
    rows, fits = [], []
    for narrow in (False, True) if bfloat16 else (False,):
        for name, work in WORKS.items():
            costs: dict[str, list[float]] = {network: [] for network in NETWORKS}
            for n_max, num in sizes.batches:
                models = {network: model_of(network, n_max, num, device) for network in NETWORKS}
                runs = {
                    network: _run(partial(work, model), num, sizes.calls, narrow, device)
                    for network, model in models.items()
                }
                for run in runs.values():  # caches, allocator
                    run(0)
                spent = interleaved(runs, repeats)
                for network in NETWORKS:
                    found = rates(spent[network], spent[NETWORKS[0]])
                    clock = "per_second" if device.type == "cuda" else "per_cpu_second"
                    costs[network].append(1 / found[clock])
                    row = {"network": network, "work": name, "bfloat16": narrow, "rooms": n_max}
                    rows.append({**row, "batch": num, **found})
            for network in NETWORKS:
                fit = exponent([n_max for n_max, _ in sizes.batches], costs[network])
                fits.append({"network": network, "work": name, "bfloat16": narrow, **fit})
    return {"repeats": repeats, "calls": sizes.calls, "rows": rows, "fits": fits}


def _run(
    work: Callable[[], None], num: int, calls: int, bfloat16: bool, device: torch.device
) -> Callable[[int], Spent]:
    def several() -> int:
        with precision(bfloat16, device):
            for _ in range(calls):
                work()
        return num * calls

    return lambda repeat: timed(several, device)
