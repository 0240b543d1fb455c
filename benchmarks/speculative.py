"""Rounds, network evaluations and kept proposals of speculative sampling, on plans and on text.

    python benchmarks/speculative.py [--samples 256] [--text FILE --keep FOLDER]

The model of plans is ``plans-small``. With ``--text`` a ``dit_tiny`` that is not told t is trained
on the characters of FILE, in FOLDER, unless it is there. Writes
``benchmarks/results/speculative.json`` and its tables in the docs.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from discrete_diffusion.algorithms import TokenAlgorithm
from discrete_diffusion.categorical import make_generator
from discrete_diffusion.checkpoints import read_checkpoint
from discrete_diffusion.contracts import SampleOutput
from discrete_diffusion.data import sample_sizes
from discrete_diffusion.layout import VocabConfig
from discrete_diffusion.sampling import build_sampler
from floor_plans import decode
from floor_plans.diagrams.metrics.structure import structure_metrics
from record import Part, Record, Sections, command_line, markdown_table, percent, publish
from runs import kept_folder, kept_run

SEED, LEAST = 0, 12
PLANS: dict[str, dict[str, Any]] = {"first-hitting": {"name": "first-hitting"}} | {
    f"speculative, k = {k or 'all'}": {"name": "speculative", "draft_length": k}
    for k in (1, 2, 4, 8, None)
}
TEXTS = {name: PLANS[name] for name in list(PLANS) if name[-1] in "1248"}
TRAINING = (
    *("data=text", "data.length=128", "data.batch_size=32", "algo=mdlm", "algo.backbone=dit"),
    *("model=dit_tiny", "model.dropout=0", "algo.time_conditioning=false", "optim.lr=1e-3"),
    *("optim.warmup_steps=50", "callbacks.ema_decay=0.999", "callbacks.num_samples=0"),
    *("logger=none", "eval.num_samples=1", "eval.noise_samples=4", "threads=1"),
)


def counted(output: SampleOutput, free: Tensor, k: int | None) -> dict[str, float]:
    """Means over samples, ``free`` Int[B] tokens each; and of all proposals that were tested, the
    share that was kept.

    A round of which n tokens come has kept n - 1 proposals. It has refused one more, unless it drew
    as many as it could; the first round of a sample proposes nothing.
    """
    assert output.trajectory is not None
    new = (output.trajectory[1:] != output.trajectory[:-1]).sum(dim=2)  # (rounds, B)
    before = free - new.cumsum(dim=0) + new
    most = before if k is None else before.clamp(max=k)
    later = (new > 0) & (before < free)
    kept, refused = (new - 1)[later].sum(), ((new < most) & later).sum()
    found = {
        "tokens": float(free.double().mean()),
        "rounds": float((new > 0).sum(dim=0).double().mean()),
        "evaluations": float(output.nfe.double().mean()),
    }
    tested = float(kept + refused)
    return found | ({"kept": float(kept) / tested} if tested else {})


def measure(
    algorithm: TokenAlgorithm, real: Tensor, ways: Mapping[str, dict[str, Any]]
) -> tuple[dict[str, dict[str, float]], dict[str, Tensor]]:
    """What each way costs, and the tokens that it draws."""
    costs, tokens = {}, {}
    for name, options in ways.items():
        output = build_sampler(options).sample(
            algorithm, real, generator=make_generator(SEED), keep_trajectory=True
        )
        costs[name] = counted(output, real.sum(dim=1), options.get("draft_length", 1))
        tokens[name] = output.x0
        print(name, costs[name], flush=True)
    waits: dict[str, list[float]] = {name: [] for name in ways}
    for row in range(LEAST):
        for name, options in ways.items():
            sampler, start = build_sampler(options), time.perf_counter()
            sampler.sample(algorithm, real[row : row + 1], generator=make_generator(row))
            waits[name].append(time.perf_counter() - start)
    for name in ways:
        costs[name]["seconds_alone"] = statistics.mean(sorted(waits[name])[: LEAST // 2])
    return costs, tokens


def of_plans(num: int) -> dict[str, Any]:
    checkpoint = read_checkpoint("plans-small")
    vocab = VocabConfig(n_max=checkpoint.config.data.max_nodes)
    real = vocab.real_positions(sample_sizes(checkpoint.size_counts, num, make_generator(SEED)))
    costs, tokens = measure(checkpoint.algorithm, real, PLANS)
    for name, x0 in tokens.items():
        said = structure_metrics(decode(x0, vocab))
        costs[name] |= {key: said[key] for key in ("valid", "transitive")}
    return {"samples": num, "ways": costs}


def of_text(file: str, folder: Path, steps: int, num: int) -> dict[str, Any]:
    words = (*TRAINING, f"data.path={file}", f"trainer.max_steps={steps}")
    checkpoint = read_checkpoint(kept_run(folder, words) / "checkpoints" / "last.ckpt")
    real = torch.ones(num, checkpoint.algorithm.layout.length, dtype=torch.bool)
    costs, _ = measure(checkpoint.algorithm, real, TEXTS)
    return {"samples": num, "steps": checkpoint.step, "data": Path(file).name, "ways": costs}


def table(ways: Mapping[str, Mapping[str, float]]) -> str:
    heads = ["sampler", "tokens", "rounds", "network evaluations", "proposals kept"]
    heads += ["ms for one sample alone"]
    shares = [name for name in ("valid", "transitive") if name in next(iter(ways.values()))]
    rows = []
    for name, found in ways.items():
        kept = percent(found["kept"]) if "kept" in found else ""
        numbers = [f"{found[key]:.1f}" for key in ("tokens", "rounds", "evaluations")]
        alone = f"{1000 * found['seconds_alone']:.0f}"
        rows.append([name, *numbers, kept, alone, *(percent(found[share]) for share in shares)])
    return markdown_table([*heads, *shares], rows)


def sections(record: Record) -> Sections:
    plans, text = record.results["plans"], record.results.get("text")
    part, on = Part.SAMPLERS, "One thread."
    found = {
        (part, "speculative plans"): f"{table(plans['ways'])}\n\n{plans['samples']} samples. {on}"
    }
    if text:
        said = f"{text['samples']} samples of a model of {text['steps']:,} steps on {text['data']}."
        found[part, "speculative text"] = f"{table(text['ways'])}\n\n{said} {on}"
    return found


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("--samples", type=int, default=256)
    parser.add_argument("--text", metavar="FILE")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--keep", type=Path, metavar="FOLDER")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    results = {"plans": of_plans(arguments.samples)}
    command = f"python benchmarks/speculative.py --samples {arguments.samples}"
    if arguments.text:
        with kept_folder(arguments.keep) as folder:
            results["text"] = of_text(arguments.text, folder, arguments.steps, 24)
        command += f" --text {Path(arguments.text).name} --steps {arguments.steps}"
    publish("speculative", command=command, seed=SEED, results=results)


if __name__ == "__main__":
    main()
