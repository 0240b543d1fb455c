"""A training step of a network of the size of GPT-2 small over 50,257 ids: seconds, memory, and
the share of the matrix-product rate.

    python benchmarks/base_text.py [--device cpu] [--algorithms mdlm ar bd3lm] [--model dit_base]
        [--batch-size 2] [--bfloat16] [--compile true] [--at-once 23] [--repeats 2] [--threads 1]
        [--quick]

The step is loss, gradients and fused AdamW on random ids, without dropout; every algorithm in a
process of its own, for its peak of memory: of the process, or of CUDA's allocator. Writes
``benchmarks/results/base_text.json`` (``base_text_cuda.json`` of a GPU), and its section of the
docs. ``--at-once`` tries chunks of another size in the loss: 2 to that power logits. ``--quick``
checks that it runs, on a small network, and writes nothing.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
from contextlib import nullcontext
from statistics import median
from typing import Any

import torch
from torch import nn
from torch.optim import AdamW

from clock import MIB, product_rate, products, share_of_products, share_text, timed
from discrete_diffusion.algorithms import AR, BD3LM, MDLM, SEDD, TokenAlgorithm, many_ids
from discrete_diffusion.categorical import make_generator
from discrete_diffusion.cli import compose
from discrete_diffusion.forward_process import Absorbing
from discrete_diffusion.layout import TokenLayout
from discrete_diffusion.models.acceleration import compile_backbone, tuned
from discrete_diffusion.models.dit import DiT
from discrete_diffusion.noise_schedules import LogLinear
from record import Part, Record, Sections, command_line, markdown_table, publish, typed
from vocabulary import data

LENGTH, IDS, BLOCK = 1024, 50_258, 16
"""Positions; GPT-2's ids and MASK; positions of a block of ``bd3lm``."""
ALGORITHMS = ("mdlm", "ar", "bd3lm", "sedd")
OF_NETWORK = ("hidden_size", "n_blocks", "n_heads", "cond_dim", "mlp_ratio")
QUICK = {"hidden_size": 16, "n_blocks": 2, "n_heads": 2}


def options() -> argparse.Namespace:
    parser = command_line(__doc__, threads=1, quick=True)
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--algorithms", nargs="+", choices=ALGORITHMS, default=ALGORITHMS[:3])
    parser.add_argument("--model", default="dit_base")
    parser.add_argument("--batch-size", type=int, default=2)
    parser.add_argument("--bfloat16", action="store_true", help="of products; float32 without")
    parser.add_argument("--compile", choices=("true", "reduce-overhead"))
    parser.add_argument("--at-once", type=int, help="the loss in chunks of 2**this logits")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--one", choices=ALGORITHMS, help="in this process; prints JSON")
    return parser.parse_args()


def algorithm_of(name: str, given: argparse.Namespace) -> TokenAlgorithm:
    """An algorithm with the network of ``--model``, as the registry builds it."""
    length = 32 if given.quick else LENGTH
    layout = TokenLayout.flat(length, IDS, mask_id=IDS - 1)
    sizes = compose("train", [f"model={given.model}", "algo.backbone=dit", "data=text"]).model
    chosen = {key: sizes[key] for key in OF_NETWORK} | (QUICK if given.quick else {})
    torch.manual_seed(0)
    backbone = tuned(DiT(vocab_size=IDS, dropout=0.0, causal=name == "ar", **chosen))
    process = Absorbing(layout, LogLinear())
    if name == "bd3lm":
        return BD3LM(backbone, process, block_lengths=[BLOCK] * (length // BLOCK))
    return {"mdlm": MDLM, "ar": AR, "sedd": SEDD}[name](backbone, process)


def measured(name: str, given: argparse.Namespace) -> dict[str, Any]:
    """Seconds of a step, matrix products in it, and how far memory rises."""
    device = torch.device(given.device)
    if given.at_once:
        many_ids.AT_ONCE, many_ids.ON_GPU = 2**given.at_once, 1
    algorithm = algorithm_of(name, given).to(device).train()
    optimizer = AdamW(algorithm.parameters(), lr=3e-4, fused=True)
    batch = data(IDS, algorithm.layout.length, given.batch_size).to(device)
    generator = make_generator(0, device=device)
    dtype = torch.bfloat16 if given.bfloat16 else torch.float32

    def step() -> int:
        with torch.autocast(device.type, dtype) if given.bfloat16 else nullcontext():
            loss = algorithm.loss(batch, generator).loss
        loss.backward()
        nn.utils.clip_grad_norm_(algorithm.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        return given.batch_size

    operations = products(step)  # before it is compiled, which hides them
    if given.compile:
        compile_backbone(algorithm.backbone, device, given.compile)
        step()
    step()
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
    spent = [timed(step, device) for _ in range(given.repeats)]
    clock = "cpu" if device.type == "cpu" else "wall"
    seconds = median(getattr(each, clock) for each in spent)
    rate = product_rate(device, dtype)
    peak = (
        torch.cuda.max_memory_allocated()
        if device.type == "cuda"
        else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    )
    return {
        "parameters": sum(p.numel() for p in algorithm.parameters()),
        "seconds": seconds,
        "tokens_per_second": given.batch_size * algorithm.layout.length / seconds,
        "operations": operations,
        "product_rate": rate,
        "share_of_products": share_of_products(operations / seconds, rate),
        "peak_mib": peak / MIB,
    }


def sections(record: Record) -> Sections:
    r = record.results
    on_gpu = r["device"] == "cuda"
    first = next(iter(r["algorithms"].values()))
    rate = first.get("product_rate", 0) / 1e9
    rows = [
        (
            f"`{name}`",
            f"{one['seconds']:.3f}" if on_gpu else f"{one['seconds']:.1f}",
            f"{one['tokens_per_second']:,.0f}",
            f"{one['peak_mib'] / 1024:.1f}",
            *([share_text(one)] if rate else []),
        )
        for name, one in r["algorithms"].items()
    ]
    clock = "second" if on_gpu else "CPU-second"
    head = (
        "",
        f"{clock}s a step",
        f"tokens per {clock}",
        "memory, GiB",
        *(["of the product rate, %"] if rate else []),
    )
    reached = f"{rate:,.0f} GFLOP/s" if rate < 1000 else f"{rate / 1000:,.0f} TFLOP/s"
    threads = "" if on_gpu else f"{r['threads']} thread, "
    text = (
        f"{threads}{first['parameters']:,} parameters, {r['batch_size']} samples of "
        f"{LENGTH:,} positions, "
        f"{'bfloat16' if r['bfloat16'] else 'float32'}"
        f"{f'; products of square matrices reach {reached}' if rate else ''}."
        f"\n\n{markdown_table(head, rows)}"
    )
    return {(Part.SPEED, record.name): text}


def main() -> None:
    given = options()
    torch.set_num_threads(given.threads)
    if given.one:
        print(json.dumps(measured(given.one, given)))
        return
    results = {k: v for k, v in vars(given).items() if k not in ("quick", "algorithms", "one")}
    results["algorithms"] = {}
    for name in given.algorithms:
        words = [sys.executable, *sys.argv, "--one", name]
        done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True)
        results["algorithms"][name] = one = json.loads(done.stdout.splitlines()[-1])
        print(f"{name}: {one}", flush=True)
    if not given.quick:
        record = "base_text" if given.device == "cpu" else f"base_text_{given.device}"
        publish(record, command=typed(), seed=0, results=results)


if __name__ == "__main__":
    main()
