"""A trained model, and the same tuned by ``algo=reward_tuning``, on equal held-out data.

    python benchmarks/reward.py data.livable=true [--model CHECKPOINT] [--name NAME]
        [--reward buildable] [--steps 100] [--num 2000] [--verdicts 1000] [--threads 1]
        [--keep FOLDER]

Of the model in the box, or of another of diagrams; the first words are the data that it was
trained on, and other settings of the tuning, as ``train`` takes them. Writes
``benchmarks/results/reward.json``, or ``reward_NAME.json``, and its section of the docs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from discrete_diffusion.evaluation import share_interval
from record import Part, Record, Sections, command_line, markdown_table, percent, publish, typed
from runs import evaluate, evaluate_run, facts, kept_folder, kept_run, validations

TUNING = (
    "algo=reward_tuning",
    "data.batch_size=64",
    "optim.lr=5e-4",
    "optim.warmup_steps=5",
    "algo.trained_calls=32",
    "eval.num_samples=2",
    "eval.num_held_out=64",
    "callbacks.num_samples=2",
)
OTHERS = {"room multisets covered, weighted": "mode_coverage_weighted", "novel": "novelty"}
SHARES = ("buildable", "realisable", "transitive", "valid")


def measure(
    model: str,
    reward: str,
    steps: int,
    keep: Path,
    data: Sequence[str],
    options: Sequence[str],
) -> Any:
    """What ``evaluate`` says of a model before and after it is tuned, and how its reward rose.

    ``options``: the threads, and what else ``evaluate`` is told."""
    words = (*TUNING, f"init.checkpoint={model}", f"reward={reward}", f"trainer.max_steps={steps}")
    words = (*words, f"trainer.val_check_interval={max(1, steps // 10)}", *data, *options[:1])
    run = kept_run(keep / "tuned", words)
    batch_size = OmegaConf.load(run / "config.yaml").data.batch_size
    options = ("reference_repeats=0", "pictures=false", *options)
    return {
        "reward": reward,
        "batch_size": batch_size,
        "training": facts(run),
        "validations": validations(run, ("reward", "kl_to_teacher")),
        "before": evaluate(keep / "before", f"checkpoint={model}", *options),
        "after": evaluate_run(run, *options),
    }


def sections(record: Record) -> Sections:
    found = record.results
    before, after, training = found["before"], found["after"], found["training"]
    cells = [(name, *(_share(each, name) for each in (before, after))) for name in SHARES]
    coverage = "mode_coverage_weighted"
    cells.append(
        ("room multisets covered, weighted", percent(before[coverage]), percent(after[coverage]))
    )
    cells.append(("novel", percent(before["novelty"]), percent(after["novelty"])))
    cells.append(("bound, nats per diagram", _bound(before), _bound(after)))
    followed = found["validations"]
    last = len(followed["step"]) - 1
    batch_size = found.get("batch_size", 64)  # older results have none
    about = (
        f"{training['steps']} steps of {batch_size} "
        f"samples, {training['cpu_seconds'] / 60:.0f} CPU-minutes, solver and validation included; "
        f"in the last tenth the mean reward was {followed['reward'][last]:.3f} (in the first "
        f"{followed['reward'][0]:.3f}), the KL divergence from the model "
        f"{followed['kl_to_teacher'][last]:.2f} nats. {before['num_samples']:,} samples, "
        f"of which {before['num_verdicts']:,} are decided; in brackets Wilson's 95 % interval."
    )
    table = markdown_table(["", "before", "tuned"], cells)
    return {(Part.ALGORITHMS, record.name): f"{about}\n\n{table}"}


def _share(found: Mapping[str, Any], name: str) -> str:
    decided = name in ("buildable", "realisable")
    num = found["num_verdicts" if decided else "num_samples"]
    interval = share_interval([found[name]], num)
    return f"{percent(found[name])} ({100 * interval.low:.1f} to {100 * interval.high:.1f})"


def _bound(found: Mapping[str, Any]) -> str:
    error = found["nelbo_unordered_standard_error"]
    return f"{found['nelbo_unordered']:.2f} ± {error:.2f}"


def main() -> None:
    parser = command_line(__doc__, threads=1, keep=True)
    parser.add_argument("data", nargs="*", help="of the model: data.livable=true; other settings")
    parser.add_argument("--model", default="plans-small")
    parser.add_argument("--name", help="of the results of another model")
    parser.add_argument("--reward", default="buildable")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--num", type=int, default=2000, help="samples that are measured")
    parser.add_argument("--verdicts", type=int, default=1000, help="of them, by the solver")
    given = parser.parse_args()
    options = [f"threads={given.threads}", f"num_samples={given.num}", "num_seeds=1"]
    options.append(f"num_solver_checks={given.verdicts}")
    with kept_folder(given.keep) as keep:
        results = measure(given.model, given.reward, given.steps, keep, given.data, options)
    name = f"reward_{given.name}" if given.name else "reward"
    publish(name, command=typed(), seed=0, results=results)


if __name__ == "__main__":
    main()
