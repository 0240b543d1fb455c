"""Speed beside a dense baseline: training with its memory and curves, sampling, students of
few calls, cost; the pair denoiser beside the flat one; text; and the account of a step.

    python benchmarks/speed.py [--threads 2] [--device cpu] [--repeats 7] [--steps 24]
        [--only account,training,memory,curves,sampling,students,cost,networks,text]
        [--curve-steps 600] [--curve-seeds 2] [--checkpoint FILE] [--num 2000] [--seed 0]
        [--folder runs/speed] [--quick]

The baseline (``speed_baseline.py``) is masked diffusion with the same network over padded batches,
in float32, sampled in 100 ancestral steps. Repeats of all variants are interleaved and ratios are
taken within a repeat. Nothing else should run on the machine; ``curves`` alone does not mind.

Sampling needs a trained model; without ``--checkpoint`` it trains that of the samplers into
the folder, half an hour on two cores.

Each part is stored in the folder with its command, hardware and a digest of the package's code.
Once all parts are there, of one machine and one digest, they become
``benchmarks/results/speed.json`` (``speed_cuda.json`` of a GPU), which the tables of the docs are
written from. ``--quick`` checks that everything runs, on a small model, and publishes nothing.

On a GPU give it batches and plans enough: ``--device cuda --batch-size 4096 --num-plans 200000
--diagrams 4096``.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

import speed_account
import speed_cost
import speed_text
from discrete_diffusion.runtime.devices import multiplies_bfloat16
from record import Part, Record, Sections, command_line, digest_of_code, hardware, publish
from sampler_cells import FLAT, trained
from speed_account import Instructions, account, account_of, account_table
from speed_cost import cost_table, networks, networks_table
from speed_sampling import sampling, sampling_table, students, students_table
from speed_text import text, text_table
from speed_training import memory_table, peak_memory, throughput, training_table
from speed_variants import VARIANTS, Plans, curves, curves_table, usable

WRITERS = {
    "account": account_table,
    "training": training_table,
    "memory": memory_table,
    "curves": curves_table,
    "sampling": sampling_table,
    "students": students_table,
    "cost": cost_table,
    "networks": networks_table,
    "text": text_table,
}
"""What makes a text of the numbers of a part."""
PARTS = tuple(WRITERS)
QUICK_PLANS = ("data.num_plans=2000",)
QUICK_WORDS = ("model=bd_tiny", *QUICK_PLANS, "data.batch_size=32")
QUICK_RUN = ("trainer.max_steps=20", "eval.num_samples=0", "callbacks.num_samples=0")
QUICK = {"repeats": 2, "steps": 2, "curve_steps": 8, "num": 64, "diagrams": 16}
MEMORY_EPOCHS = 1
MEMORY_QUICK_BATCHES = 2
BOUND_DRAWS = 2


def options() -> argparse.Namespace:
    parser = command_line(__doc__, threads=2, quick=True)
    parser.add_argument("--only", default=",".join(PARTS), help="parts, separated by commas")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--steps", type=int, default=24, help="training steps of a repeat")
    parser.add_argument("--batch-size", type=int, help="of training; the data's own if not given")
    parser.add_argument("--num-plans", type=int, help="embedded plans; the data's own number")
    parser.add_argument("--curve-steps", type=int, default=600)
    parser.add_argument("--curve-seeds", type=int, default=2)
    parser.add_argument("--checkpoint", type=Path, help="to sample from; trained if not given")
    parser.add_argument("--diagrams", type=int, default=256, help="sampled in a repeat")
    parser.add_argument("--num", type=int, default=2000, help="samples whose quality is measured")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, default=Path("runs/speed"))
    parser.add_argument("--memory-of", help="one variant, in this process; prints JSON")
    parser.add_argument("--account-of", help="number formats, in this process; prints JSON")
    given = parser.parse_args()
    if unknown := set(given.only.split(",")) - set(PARTS):
        parser.error(f"--only {','.join(sorted(unknown))}: choose among {','.join(PARTS)}")
    if given.quick:
        vars(given).update(QUICK)
    return given


def words_of(given: argparse.Namespace) -> list[str]:
    """What the config of the data and the model is composed with."""
    words = list(QUICK_WORDS) if given.quick else []
    if given.batch_size is not None:
        words.append(f"data.batch_size={given.batch_size}")
    if given.num_plans is not None:
        words.append(f"data.num_plans={given.num_plans}")
    return words


def command_of(given: argparse.Namespace, part: str) -> str:
    """What was typed, or could have been, to measure a part; without the places of files."""
    shown = {
        "training": ("repeats", "steps", "batch_size", "num_plans"),
        "account": ("repeats",),
        "memory": ("batch_size", "num_plans"),
        "curves": ("curve_steps", "curve_seeds", "batch_size", "num_plans"),
        "sampling": ("repeats", "diagrams", "num"),
        "students": ("repeats", "diagrams"),
        "cost": ("repeats",),
        "networks": ("repeats",),
        "text": ("repeats",),
    }[part]
    words = [f"python benchmarks/speed.py --only {part}"]
    for name in ("device", "threads", *shown, "seed"):
        if (value := getattr(given, name)) is not None:
            words.append(f"--{name.replace('_', '-')} {value}")
    return " ".join(words)


def memory(given: argparse.Namespace, device: torch.device) -> dict[str, Any]:
    """Every variant in a process of its own, one after the other."""
    variants, notes = usable([v for v in VARIANTS if not v.lightning], device)
    if given.quick:
        variants = [v for v in variants if not v.dropout and not v.bfloat16 and not v.plain]
    rows = []
    for variant in variants:
        found = _in_own_process(given, ["--memory-of", variant.name])
        rows.append({**found, "baseline": variant.baseline})
        print(rows[-1], flush=True)
    return {"epochs": MEMORY_EPOCHS, "notes": notes, "rows": rows}


def _in_own_process(
    given: argparse.Namespace, what: Sequence[str], level: Instructions | None = None
) -> Any:
    """What this script prints for ``what``, held to the instructions of ``level``."""
    words = [sys.executable, __file__, *what]
    for name in ("device", "threads", "repeats", "batch_size", "num_plans", "seed"):
        if (value := getattr(given, name)) is not None:
            words += [f"--{name.replace('_', '-')}", str(value)]
    words += ["--quick"] if given.quick else []
    environment = {**os.environ, **(level.variables if level else {})}
    done = subprocess.run(words, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def measure(given: argparse.Namespace, part: str, device: torch.device) -> dict[str, Any]:
    """The numbers of a part."""
    folder = _folder(given)
    if part == "training":
        return throughput(
            Plans(words_of(given), given.seed),
            device,
            repeats=given.repeats,
            steps=given.steps,
            seed=given.seed,
            folder=folder,
        )
    if part == "account":
        return account(
            lambda level: _in_own_process(given, ["--account-of", level.formats], level), device
        )
    if part == "memory":
        return memory(given, device)
    if part == "curves":
        return curves(
            Plans(words_of(given), given.seed),
            device,
            steps=given.curve_steps,
            seeds=range(given.seed, given.seed + given.curve_seeds),
            draws=BOUND_DRAWS,
        )
    if part == "sampling":
        words = [*FLAT, f"threads={given.threads}"]
        words += [*QUICK_WORDS, *QUICK_RUN] if given.quick else []
        return sampling(
            given.checkpoint or trained(folder, "mdlm", words),
            device,
            repeats=given.repeats,
            diagrams=given.diagrams,
            num=given.num,
            seed=given.seed,
        )
    on_gpu = device.type == "cuda"
    if part == "text":
        lengths = speed_text.QUICK if given.quick else speed_text.GPU if on_gpu else None
        return text(lengths or speed_text.LENGTHS, device, repeats=given.repeats)
    bfloat16 = on_gpu or multiplies_bfloat16() is True
    if part == "students":
        return students(
            QUICK_PLANS if given.quick else (),
            device,
            repeats=given.repeats,
            diagrams=given.diagrams,
            seed=given.seed,
            bfloat16=bfloat16,
        )
    sizes = speed_cost.QUICK if given.quick else speed_cost.GPU if on_gpu else speed_cost.FULL
    if part == "networks":
        return networks(sizes, device, repeats=given.repeats, bfloat16=bfloat16)
    return speed_cost.cost(sizes, device, repeats=given.repeats)


def keep(given: argparse.Namespace, part: str, code: str, found: dict[str, Any]) -> None:
    """Store a part with those of the same machine, code and number of threads, and write the tables
    of all; publish them once they are complete.

    ``code``: the digest at the start, when the modules were read.
    """
    name = "speed" if given.device == "cpu" else f"speed_{given.device}"
    path = _folder(given) / f"{name}.json"
    stored = json.loads(path.read_text())["results"] if path.exists() else {}
    source = {"threads": given.threads, "hardware": hardware(), "code": code}
    stored[part] = {"command": command_of(given, part), **source, "found": found}
    others = [key for key in stored if any(stored[key][k] != x for k, x in source.items())]
    if others:
        print(f"left out, of another machine or other code: {', '.join(others)}", flush=True)
    results = {key: stored[key] for key in PARTS if key in stored and key not in others}
    path.write_text(json.dumps({"results": results}, indent=1) + "\n")
    page = "\n\n".join(f"## {title}\n\n{text}" for title, text in tables(results).items())
    (given.folder / f"{name}.md").write_text(page + "\n")
    if given.quick:
        return
    if missing := [key for key in PARTS if key not in results]:
        print(f"not published yet; still to measure: {','.join(missing)}", flush=True)
        return
    command = f"python benchmarks/speed.py --device {given.device} --threads {given.threads}"
    publish(name, command=command, seed=given.seed, results=results)


def _folder(given: argparse.Namespace) -> Path:
    """The folder of the parts; those of a quick check have their own."""
    folder: Path = given.folder / "quick" if given.quick else given.folder
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def sections(record: Record) -> Sections:
    """A table of each part; of a GPU with other marks, ``speed_cuda``."""
    texts = tables(record.results)
    return {(Part.SPEED, name.replace("speed", record.name)): x for name, x in texts.items()}


def tables(results: Mapping[str, dict[str, Any]]) -> dict[str, str]:
    """A text of every part that was measured, by name."""
    texts = {}
    for name in PARTS:
        if (part := results.get(name)) is not None:
            threads = f"{part['threads']} thread{'s' if part['threads'] > 1 else ''}"
            source = f"`{part['command']}`: {threads}, {part['hardware']}, code `{part['code']}`."
            texts[f"speed {name}"] = f"{source}\n\n{WRITERS[name](part['found'])}"
    return texts


def main() -> None:
    given = options()
    torch.set_num_threads(given.threads)
    device = torch.device(given.device)
    if given.memory_of is not None:
        num = MEMORY_QUICK_BATCHES if given.quick else None
        plans = Plans(words_of(given), given.seed)
        found = peak_memory(
            given.memory_of, plans, device, epochs=MEMORY_EPOCHS, seed=given.seed, num=num
        )
        print(json.dumps(found))
        return
    if given.account_of is not None:
        subjects = speed_account.GPU if device.type == "cuda" else speed_account.SUBJECTS
        found = account_of(
            speed_account.QUICK if given.quick else subjects,
            device,
            repeats=given.repeats,
            formats=given.account_of.split(","),
        )
        print(json.dumps(found))
        return
    chosen, code = given.only.split(","), digest_of_code()
    for part in PARTS:
        if part in chosen:
            print(f"--- {part}", flush=True)
            keep(given, part, code, measure(given, part, device))


if __name__ == "__main__":
    main()
