"""Train ``experiment=plans_full`` with the pair and the flat network, and measure both.

    python benchmarks/quality.py [--seed 0] [--threads 2] [--keep FOLDER]
        [--networks NAME ...] [override ...]

Five sampling seeds each, beside their floors. Writes ``benchmarks/results/quality.json``, a table
of the docs and the pictures of the recipe's network beside it. The reference is the test
split, about 2,000 diagrams that training never saw. ``--keep FOLDER`` keeps the runs; those that
are there are not trained again. With ``--networks`` the others keep what the results hold, if it is
of the same seed and overrides.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from typing import Any

from discrete_diffusion.cli import compose
from discrete_diffusion.domains import build_data
from record import DOCS, RESULTS, Part, Record, Sections, command_line, publish
from runs import NETWORKS, evaluate_run, kept_folder, kept_run, table
from runs import facts as cost

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


def facts(found: Mapping[str, Any], hardware: str) -> str:
    """What every network took and reached, a sentence each."""
    threads = next(iter(found.values()))["threads"]
    lines = [f"On {threads} thread{'s' if threads > 1 else ''} ({hardware}):", ""]
    for network, results in found.items():
        trained, model = results["training"], results["evaluation"]
        lines.append(
            f"* `{network}`, {trained['parameters']:,} parameters, {trained['steps']:,} steps: "
            f"{trained['cpu_seconds'] / 60:.0f} CPU-minutes of training and its own evaluation; "
            f"{model['nelbo_unordered']:.2f} ± {model['nelbo_standard_error']:.2f} nats per "
            f"unordered diagram (blind {model['nelbo_blind']:.2f}); "
            f"{model['network_calls_per_sample']:.1f} network calls a sample"
        )
    return "\n".join(lines)


def kept_results(asked: str) -> dict[str, Any]:
    """What the results hold, by network, if they are of the same options."""
    if not (RESULTS / "quality.json").exists():
        return {}
    record = Record.read("quality")
    return dict(record.results) if f" {asked} --networks" in record.command else {}


def sections(record: Record) -> Sections:
    evaluations = {network: found["evaluation"] for network, found in record.results.items()}
    return {
        (Part.DEMO, "quality"): (
            f"{facts(record.results, record.hardware)}\n\n{table(evaluations, AIMS)}"
        )
    }


def main() -> None:
    parser = command_line(__doc__, threads=2, keep=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--networks", nargs="+", choices=NETWORKS, default=list(NETWORKS))
    parser.add_argument("overrides", nargs="*")
    arguments = parser.parse_intermixed_args()
    words = ["experiment=plans_full", "logger=none", *arguments.overrides]
    words += [f"seed={arguments.seed}", f"threads={arguments.threads}"]
    build_data(compose("train", words))  # drawn and cached before the clock starts
    asked = [*arguments.overrides, f"--seed {arguments.seed} --threads {arguments.threads}"]
    found = kept_results(" ".join(asked))
    with kept_folder(arguments.keep) as folder:
        for network in arguments.networks:
            run = kept_run(folder / network, [*words, f"algo.backbone={network}"])
            options = (f"num_samples={NUM}", f"num_seeds={SEEDS}", f"threads={arguments.threads}")
            trained = json.loads((run / "metrics.json").read_text())
            training = {k: v for k, v in trained.items() if not isinstance(v, dict | list)}
            found[network] = {
                "threads": arguments.threads,
                "training": training | cost(run),
                "evaluation": evaluate_run(run, *options),
            }
        for name in PICTURES if NETWORKS[0] in arguments.networks else ():
            picture = folder / NETWORKS[0] / "evaluation" / name
            shutil.copyfile(picture, DOCS / "images" / name)
    found = {network: found[network] for network in NETWORKS if network in found}
    networks = f"--networks {' '.join(found)}"
    command = " ".join(["python benchmarks/quality.py", *asked, networks])
    publish("quality", command=command, seed=arguments.seed, results=found)


if __name__ == "__main__":
    main()
