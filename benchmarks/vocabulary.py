"""Losses and samples of many ids, in chunks of the positions that count, beside the plain ones.

    python benchmarks/vocabulary.py [--vocab-size 50257] [--length 1024] [--batch-size 8]
        [--algorithms mdlm ar] [--name NAME] [--repeats 2] [--threads 1] [--quick]
    python benchmarks/vocabulary.py --samples [--vocab-size 50257] [--length 1024]

Loss and gradients of a network of the width and depth of ``dit_small``: by MDLM, where half of the
positions count, and by AR, where all do, from -log D of the clean token alone; by UDLM, GIDD and
SEDD, whose bounds read the whole of D, in float64. *Chunked* is what the package does with so many
ids; *plain* makes the logits of all positions, as it does with few. Repeats are interleaved and
ratios taken within one, of the CPU time of the process; the memory is that of all tensors made in a
step, taken in a step of its own.

``--samples``: instead of losses, the first calls for one sample of which every other token is
given, by networks of the sizes of ``dit_tiny`` and ``dit_small``; plain makes the logits of all
positions in every call. Both ways must sample the same tokens.

Writes ``benchmarks/results/vocabulary.json``, or
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
from discrete_diffusion.algorithms.base import eval_mode
from discrete_diffusion.categorical import make_generator, uniform_draws
from discrete_diffusion.contracts import Batch
from discrete_diffusion.forward_process import Absorbing, ForwardProcess, Hybrid, Uniform
from discrete_diffusion.layout import TokenLayout
from discrete_diffusion.models.acceleration import tuned
from discrete_diffusion.models.dit import DiT
from discrete_diffusion.noise_schedules import LogLinear
from discrete_diffusion.sampling import TokenSampler, build_sampler
from discrete_diffusion.sampling.partial_samples import PartialSamples
from record import Part, Record, Sections, command_line, markdown_table, publish, typed

SIZES = {"dit_tiny": (64, 2), "dit_small": (128, 4)}
"""Width, and number of blocks."""
HEADS = 4
CALLS = 8
SAMPLERS: dict[str, dict[str, Any]] = {
    "first-hitting": {},
    "entropy": {},
    "entropy-bounded": {},
    "entropy-bounded, order=entropy": {"order": "entropy"},
    "confidence": {},
}
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
    parser.add_argument("--samples", action="store_true", help="measure sampling")
    parser.add_argument("--name", help="of another record")
    parser.add_argument("--repeats", type=int, default=2)
    given = parser.parse_args()
    if given.quick:
        vars(given).update(QUICK)
    return given


def algorithm_of(
    name: str, vocab_size: int, length: int, size: str = "dit_small"
) -> TokenAlgorithm:
    """An algorithm with a network as the registry builds it."""
    width, blocks = SIZES[size]
    layout = TokenLayout.flat(length, vocab_size, mask_id=vocab_size - 1)
    torch.manual_seed(SEED)
    backbone = DiT(
        vocab_size=vocab_size,
        hidden_size=width,
        n_blocks=blocks,
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


class EnoughError(Exception):
    """Raised in place of the next call."""


def first_calls(
    algorithm: TokenAlgorithm, sampler: TokenSampler, way: str, num: int
) -> PartialSamples:
    """The state of one sample after ``num`` calls; every other token is given from the start."""
    length, vocab_size = algorithm.layout.length, algorithm.layout.vocab_size
    given = data(vocab_size, length, 1).x0
    given[:, ::2] = -1
    real = torch.ones_like(given, dtype=torch.bool)
    called = 0

    def count(*_: Any) -> None:
        nonlocal called
        called += 1
        if called > num:
            raise EnoughError

    hook = algorithm.backbone.register_forward_pre_hook(count)
    try:
        with loss_taken(way), eval_mode(algorithm):
            samples = PartialSamples.start(algorithm, real, given, make_generator(SEED))
            sampler.run(samples)
    except EnoughError:
        pass
    finally:
        hook.remove()
    return samples


def measured_samples(given: argparse.Namespace, size: str) -> dict[str, Any]:
    """Milliseconds of a call of each sampler in both ways, and their ratios."""
    algorithm = algorithm_of("mdlm", given.vocab_size, given.length, size)
    with torch.no_grad():  # a head starts at 0, and then all entropies are equal
        algorithm.backbone.head.weight.normal_(std=0.5)
    found = {}
    for name, options in SAMPLERS.items():
        sampler = build_sampler({"name": name.partition(",")[0], **options})
        states: dict[str, PartialSamples] = {}

        def once(way: str, repeat: int, sampler=sampler, states=states) -> Spent:
            def work() -> int:
                states[way] = first_calls(algorithm, sampler, way, CALLS)
                return CALLS

            return timed(work, torch.device("cpu"))

        runs = {way: partial(once, way) for way in WAYS}
        for run in runs.values():  # caches, allocator
            run(0)
        spent = interleaved(runs, given.repeats)
        if not torch.equal(*(states[way].x for way in WAYS)):
            raise AssertionError(f"{size}, {name}: the ways sample different tokens")
        revealed = int((~states["chunked"].masked).sum()) - given.length // 2
        found[name] = {
            "tokens_per_call": revealed / CALLS,
            **{
                way: {
                    "milliseconds": median(1e3 * one.cpu / CALLS for one in spent[way]),
                    **rates(spent[way], spent["plain"]),
                }
                for way in WAYS
            },
        }
    return found


def sampling_sections(record: Record) -> Sections:
    r = record.results
    rows = []
    for size, found in r["samplers"].items():
        for name, one in found.items():
            plain, chunked = (one[way]["milliseconds"] for way in WAYS)
            words = ratio_words(one["chunked"]["per_cpu_second_ratio"])
            cells = (f"{one['tokens_per_call']:.2g}", f"{plain:,.0f}", f"{chunked:,.1f}", words)
            rows.append((f"{size}, {name}", *cells))
    head = (
        "network, sampler",
        "tokens a call",
        "plain, CPU-ms a call",
        "chunked",
        "speed to plain",
    )
    text = (
        f"{r['threads']} thread.\n\n"
        f"{r['vocab_size']:,} ids, one sample of {r['length']:,} positions; repeats: "
        f"{r['repeats']}, other work on the machine.\n\n{markdown_table(head, rows)}"
    )
    return {(Part.SPEED, record.name): text}


def sections(record: Record) -> Sections:
    r = record.results
    if "samplers" in r:
        return sampling_sections(record)
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
    left_out = ("quick", "algorithms", "name", "samples", *["batch_size"] * given.samples)
    results = {k: v for k, v in vars(given).items() if k not in left_out}
    of, names = ("samplers", list(SIZES)) if given.samples else ("algorithms", given.algorithms)
    results[of] = {}
    for name in names:
        results[of][name] = (measured_samples if given.samples else measured)(given, name)
        if not given.quick:  # what there is, as long as others are to come
            publish(record, command=typed(), seed=SEED, results=results)


if __name__ == "__main__":
    main()
