"""Students of few calls beside the dense baseline, for ``speed.py``.

Untrained, because what a student costs does not depend on its weights; what its samples are worth
is in ``docs/results_samplers.md``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from discrete_diffusion.algorithms import build_algorithm
from discrete_diffusion.cli import compose
from discrete_diffusion.domains import build_data
from samplers import FLAT
from speed_clock import interleaved, products, rates, shares_of_products
from speed_sampling import DENSE_STEPS, Painter, Way

PAIR = ("experiment=bubble_mdlm",)
"""The same data with the pair denoiser; the baseline and ``FLAT`` have the flat network."""
CALLS = (6, 4)


def ways(bfloat16: bool) -> list[tuple[Way, tuple[str, ...]]]:
    """What is measured, and the words of its config; the baseline is the first."""
    found = [(Way("dense baseline, 100 steps", None, DENSE_STEPS), FLAT)]
    for narrow in (False, True) if bfloat16 else (False,):
        said = ", bfloat16" if narrow else ""
        for network, words in (("flat", FLAT), ("pair", PAIR)):
            name = f"{network} network, first-hitting{said}"
            found.append((Way(name, "first-hitting", bfloat16=narrow), words))
            for calls in CALLS:
                way = Way(f"{network} network, {calls} calls{said}", "few-call", bfloat16=narrow)
                found.append((way, (*words, "algo=distill", f"calls={calls}")))
    return found


def students(
    more: Sequence[str],
    device: torch.device,
    *,
    repeats: int,
    diagrams: int,
    seed: int,
    bfloat16: bool,
) -> dict[str, Any]:
    """Diagrams per second in batches of ``diagrams``, and network calls. ``more``: words of every
    config."""
    torch.manual_seed(seed)
    size_counts = build_data(compose("train", [*FLAT, *more])).size_counts()
    painters = {}
    for way, words in ways(bfloat16):
        config = compose("train", [*words, *more])
        algorithm = build_algorithm(config).to(device).eval()
        painters[way] = Painter(config, algorithm, size_counts, device, seed, diagrams)
    rows = []
    for way, painter in painters.items():  # allocator and caches
        real = painter.real(diagrams, 0)
        rows.append({"name": way.name, "calls": painter.draw(way, real, 0)[1]})
    works = {way.name: painter.timing(way, diagrams) for way, painter in painters.items()}
    spent = interleaved(works, repeats)
    each = {}
    for (way, painter), row in zip(painters.items(), rows, strict=True):
        row |= rates(spent[way.name], spent[rows[0]["name"]])
        real = painter.real(diagrams, 1, 0)
        each[way.name] = products(lambda w=way, p=painter, r=real: p.draw(w, r, 1, 0)) / diagrams
    low = {way.name for way in painters if way.bfloat16}
    reached = shares_of_products(rows, each, low, device)
    return {"product_rate": reached, "diagrams": diagrams, "repeats": repeats, "rows": rows}
