"""What it costs to meet the briefs of ``examples/briefs``: particles, beside rejection.

    python benchmarks/briefs.py --checkpoint RUN [--num 16] [--particles 256] [--threads 1]
        [--briefs family hard ...]

RUN: a model of the embedded plans, such as ``make demo`` leaves. Every brief is answered by
particles, and by rejection where more than one sample in fifty meets it. Writes
``benchmarks/results/briefs.json``, a section of ``docs/briefs.md`` and, of the last brief,
``docs/images/brief.png``. What ``--briefs`` leaves out stays as it is.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

from PIL import Image

from discrete_diffusion.checkpoints import read_checkpoint
from discrete_diffusion.cli import compose
from discrete_diffusion.cli.sample import run
from discrete_diffusion.domains.bubble_diagrams import read_diagrams
from discrete_diffusion.domains.bubble_diagrams.briefs.reading import read_brief
from record import DOCS, RESULTS, ROOT, Record, Sections, markdown_table, publish

EXAMPLES = ROOT / "examples" / "briefs"
BRIEFS = ("family", "family_placed", "hard", "hard_placed")
COMMON = 0.02
KEPT = (
    *("distinct", "probability", "probability_standard_error", "network_calls_per_sample"),
    *("effective_samples", "moves_accepted", "num_samples"),
)
_COLOURS = 64


def answer(name: str, method: str, words: list[str], folder: Path) -> dict[str, Any]:
    """Numbers of ``sample brief=``; all that it wrote is read again and judged."""
    file, out = EXAMPLES / f"{name}.yaml", folder / f"{name}_{method}"
    start = time.process_time()
    run(compose("sample", [*words, f"brief={file}", f"method={method}", f"out={out}"]))
    seconds = time.process_time() - start
    metrics = json.loads((out / "metrics.json").read_text())
    brief, drawn = read_brief(file), read_diagrams(out / "samples.jsonl")
    met = sum(not brief.unmet(diagram) for diagram in drawn)
    found = {key: metrics[key] for key in KEPT if key in metrics}
    return {**found, "met": met / len(drawn), "cpu_seconds": seconds}


def sections(record: Record) -> Sections:
    """A row per brief and method."""
    model, rows = record.results["model"], []
    for name, methods in record.results["briefs"].items():
        for method, found in methods.items():
            p, error = found["probability"], found["probability_standard_error"]
            rows.append(
                [
                    f"[{name}](../examples/briefs/{name}.yaml)",
                    method,
                    f"{p:.2g} ± {error:.1g}",
                    f"{100 * found['met']:.0f}",
                    f"{found['distinct']} of {found['num_samples']}",
                    f"{found['network_calls_per_sample']:,.0f}",
                    f"{model['calls'] / p:,.0f}",
                    f"{found['cpu_seconds']:.0f}",
                ]
            )
    heads = ["", "method", "share of the model's diagrams", "met, %", "distinct"]
    heads += ["calls a diagram", "rejection would take", "CPU-seconds in all"]
    about = (
        f"`{record.command}`, {record.hardware}: {model['algorithm']} with {model['backbone']}, "
        f"{model['steps']:,} steps, {model['calls']:.1f} calls a diagram without a brief."
    )
    return {("briefs.md", "briefs"): f"{about}\n\n{markdown_table(heads, rows, left=2)}"}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--checkpoint", type=Path, required=True)
    parser.add_argument("--num", type=int, default=16)
    parser.add_argument("--particles", type=int, default=256)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--briefs", nargs="+", default=list(BRIEFS))
    given = parser.parse_args()
    words = [f"checkpoint={given.checkpoint.absolute()}", f"num_samples={given.num}"]
    words.append(f"threads={given.threads}")
    path = RESULTS / "briefs.json"
    found = json.loads(path.read_text())["results"]["briefs"] if path.exists() else {}
    checkpoint = read_checkpoint(given.checkpoint)
    counts, config = checkpoint.size_counts, checkpoint.config
    calls = sum(n * (n + 1) / 2 * count for n, count in enumerate(counts)) / sum(counts)
    with tempfile.TemporaryDirectory() as scratch:
        for name in given.briefs:
            by_particles = [*words, f"particles={given.particles}"]
            found[name] = {"particles": answer(name, "particles", by_particles, Path(scratch))}
            if found[name]["particles"]["probability"] > COMMON:
                found[name]["rejection"] = answer(name, "rejection", words, Path(scratch))
        picture = Image.open(Path(scratch) / f"{name}_particles" / "samples.png").convert("RGB")
        picture.quantize(_COLOURS).save(DOCS / "images" / "brief.png", optimize=True)
    model = {"algorithm": config.algo.name, "backbone": config.algo.backbone}
    results = {"model": {**model, "steps": checkpoint.step, "calls": calls}, "briefs": found}
    options = f"--num {given.num} --particles {given.particles} --threads {given.threads}"
    command = f"python benchmarks/briefs.py --checkpoint {given.checkpoint.name} {options}"
    publish("briefs", command=command, seed=0, results=results)


if __name__ == "__main__":
    main()
