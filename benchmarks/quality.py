"""Train ``experiment=bubble_mdlm``, sample it with five seeds, and measure it beside its floors.

    python benchmarks/quality.py [--seed 0] [--threads 2]

Writes ``benchmarks/results/quality.json``, a table of ``docs/results.md`` and the pictures beside
it. The reference is the test split, about 2,000 diagrams that training never saw.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from discrete_diffusion.cli import compose
from discrete_diffusion.cli.train import train
from discrete_diffusion.data import build_data
from evaluations import evaluate, table
from record import ROOT, hardware, write_result, write_section

NUM, SEEDS = 2000, 5
PICTURES = ("adjacency.png", "histograms.png", "calibration.png", "nelbo_by_t.png")
AIMS = {
    "valid": "at least 0.97",
    "transitive": "at least 0.92",
    "inside_valid": "within 0.02 of the data",
    "edges_per_diagram": "within 3 % of the data",
    "node_tv": "at most 3 floors",
    "relation_tv": "at most 3 floors",
}


def facts(results: dict[str, Any]) -> str:
    model = results["evaluation"]
    return (
        f"Training and its own evaluation took {results['minutes_of_training']:.1f} minutes on "
        f"{results['torch_threads']} threads ({hardware()}). The held-out bound is "
        f"{model['nelbo_unordered']:.2f} ± {model['nelbo_standard_error']:.2f} nats per unordered "
        f"diagram (blind {model['nelbo_blind']:.2f}); a sample takes "
        f"{model['network_calls_per_sample']:.1f} network calls."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    words = [f"seed={arguments.seed}", f"threads={arguments.threads}"]
    config = compose("train", ["experiment=bubble_mdlm", "logger=none", *words])
    build_data(config)  # drawn and cached before the clock starts
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        start = time.perf_counter()
        training = train(config, folder / "run")
        minutes = (time.perf_counter() - start) / 60
        checkpoint = folder / "run" / "checkpoints" / "last.ckpt"
        evaluation = folder / "evaluation"
        metrics = evaluate(
            evaluation,
            f"checkpoint={checkpoint}",
            f"num_samples={NUM}",
            f"seeds={SEEDS}",
            f"threads={arguments.threads}",
        )
        for name in PICTURES:
            shutil.copyfile(evaluation / name, ROOT / "docs" / "images" / name)
    results = {
        "minutes_of_training": minutes,
        "torch_threads": torch.get_num_threads(),
        "train": {k: v for k, v in training.items() if not isinstance(v, dict | list)},
        "evaluation": metrics,
    }
    command = f"python benchmarks/quality.py --seed {arguments.seed} --threads {arguments.threads}"
    write_result("quality", command=command, seed=arguments.seed, results=results)
    write_section("results.md", "quality facts", facts(results))
    write_section("results.md", "quality", table(metrics, AIMS))


if __name__ == "__main__":
    main()
