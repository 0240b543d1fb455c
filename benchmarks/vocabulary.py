"""The loss over many ids, in chunks of the positions that count, beside the plain one.

    python benchmarks/vocabulary.py [--vocab-size 50257] [--length 1024] [--batch-size 8]
        [--algorithms mdlm ar] [--name NAME] [--repeats 2] [--threads 1] [--quick]

Loss and gradients of a network of the width and depth of ``dit_small``: by MDLM, where half of the
positions count, and by AR, where all do, from -log D of the clean token alone; by UDLM, GIDD and
SEDD, whose bounds read the whole of D, in float64. *Chunked* is what the package does with so many
ids; *plain* makes the logits of all positions, as it does with few. Repeats are interleaved and
ratios taken within one, of the CPU time of the process; the memory is that of all tensors made in a
step, taken in a step of its own. Writes ``benchmarks/results/vocabulary.json``, or
``vocabulary_NAME.json``, and its section of the docs. ``--quick`` checks that it runs, and writes
nothing.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from statistics import median
from typing import Any

import torch

from clock import Spent, interleaved, peak_of_tensors, rates, ratio_words, timed
from discrete_diffusion.algorithms import AR, GIDD, MDLM, SEDD, UDLM, TokenAlgorithm, many_ids
from discrete_diffusion.categorical import make_generator, uniform_draws
from discrete_diffusion.contracts import Batch
from discrete_diffusion.forward_process import Absorbing, ForwardProcess, Hybrid, Uniform
from discrete_diffusion.layout import TokenLayout
from discrete_diffusion.models.acceleration import tuned
from discrete_diffusion.models.dit import DiT
from discrete_diffusion.noise_schedules import LogLinear
from record import Part, Record, Sections, command_line, markdown_table, publish, typed

WIDTH, BLOCKS, HEADS = 128, 4, 4
ALGORITHMS: dict[str, tuple[type[TokenAlgorithm], type[ForwardProcess]]] = {
    "mdlm": (MDLM, Absorbing),
    "ar": (AR, Absorbing),
    "udlm": (UDLM, Uniform),
    "gidd": (GIDD, Hybrid),
    "sedd": (SEDD, Absorbing),
}
WAYS = ("plain", "chunked")
SEED = 0
QUICK = {"vocab_size": 600, "length": 32, "batch_size": 2, "repeats": 1}


def options() -> argparse.Namespace:
    parser = command_line(__doc__, threads=1, quick=True)
    parser.add_argument("--vocab-size", type=int, default=50_257, help="ids, MASK among them")
    parser.add_argument("--length", type=int, default=1024, help="positions of a sample")
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--algorithms", nargs="+", choices=[*ALGORITHMS], default=["mdlm", "ar"])
    parser.add_argument("--name", help="of another record")
    parser.add_argument("--repeats", type=int, default=2)
    given = parser.parse_args()
    if given.quick:
        vars(given).update(QUICK)
    return given


def algorithm_of(name: str, vocab_size: int, length: int) -> TokenAlgorithm:
    """An algorithm with a network as the registry builds it."""
    layout = TokenLayout.flat(length, vocab_size, mask_id=vocab_size - 1)
    torch.manual_seed(SEED)
    backbone = DiT(
        vocab_size=vocab_size,
        hidden_size=WIDTH,
        n_blocks=BLOCKS,
        n_heads=HEADS,
        dropout=0.0,
        causal=name == "ar",
    )
    algorithm, process = ALGORITHMS[name]
    return algorithm(tuned(backbone), process(layout, LogLinear()))


def data(vocab_size: int, length: int, num: int) -> Batch:
    """Random ids: the arithmetic does not read them."""
    u = uniform_draws((num, length), make_generator(SEED))
    x0 = (u * (vocab_size - 1)).long()
    return Batch(x0, torch.ones_like(x0, dtype=torch.bool))


@contextmanager
def loss_taken(way: str) -> Iterator[None]:
    """Inside, the loss is the plain or the chunked one, whatever the number of ids."""
    before = many_ids.MANY_IDS
    many_ids.MANY_IDS = 0 if way == "chunked" else 2**62
    try:
        yield
    finally:
        many_ids.MANY_IDS = before


def step(algorithm: TokenAlgorithm, batch: Batch, way: str) -> int:
    """Loss and gradients; the number of samples."""
    algorithm.zero_grad(set_to_none=True)
    with loss_taken(way):
        algorithm.loss(batch, make_generator(SEED)).loss.backward()
    return len(batch)


def measured(given: argparse.Namespace, name: str) -> dict[str, Any]:
    """Peak of tensors and CPU-seconds of both ways, and their ratios."""
    algorithm = algorithm_of(name, given.vocab_size, given.length)
    batch = data(given.vocab_size, given.length, given.batch_size)
    works = {way: partial(step, algorithm, batch, way) for way in WAYS}
    peaks = {}
    for way, work in works.items():
        algorithm.zero_grad(set_to_none=True)
        peaks[way] = peak_of_tensors(lambda work=work: [work()])
        print(f"{name}, {way}: {peaks[way]:,.0f} MiB at most", flush=True)

    def once(work: partial[int], repeat: int) -> Spent:
        return timed(work, torch.device("cpu"))

    spent = interleaved({way: partial(once, work) for way, work in works.items()}, given.repeats)
    return {
        way: {
            "peak_mib": peaks[way],
            "cpu_seconds": median(one.cpu for one in spent[way]),
            **rates(spent[way], spent["plain"]),
        }
        for way in WAYS
    }


def sections(record: Record) -> Sections:
    r = record.results
    rows = []
    for name, found in r["algorithms"].items():
        for way, one in found.items():
            words = ratio_words(one["per_cpu_second_ratio"])
            share = one["peak_mib"] / found["plain"]["peak_mib"]
            cells = (f"{one['peak_mib']:,.0f}", f"{share:.3f}", f"{one['cpu_seconds']:.1f}", words)
            rows.append((f"{name}, {way}", *cells))
    head = ("loss and gradients", "tensors, MiB", "ratio to plain", "CPU-seconds", "speed to plain")
    text = (
        f"{r['threads']} thread.\n\n"
        f"{r['vocab_size']:,} ids, {r['batch_size']} samples of {r['length']:,} positions; "
        f"repeats: {r['repeats']}, other work on the machine.\n\n{markdown_table(head, rows)}"
    )
    return {(Part.SPEED, record.name): text}


def main() -> None:
    given = options()
    torch.set_num_threads(given.threads)
    record = f"vocabulary_{given.name}" if given.name else "vocabulary"
    results = {k: v for k, v in vars(given).items() if k not in ("quick", "algorithms", "name")}
    results["algorithms"] = {}
    for name in given.algorithms:
        results["algorithms"][name] = measured(given, name)
        if not given.quick:  # what there is, as long as others are to come
            publish(record, command=typed(), seed=SEED, results=results)


if __name__ == "__main__":
    main()
