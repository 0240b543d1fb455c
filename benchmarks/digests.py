"""Digests of what every recipe computes: what does a change of the code change?

    python benchmarks/digests.py write before.json [--only NAME ...]
    python benchmarks/digests.py compare before.json [--only NAME ...]

A case trains a recipe for three steps on little data with a fixed seed and one thread, then samples
and evaluates it. Kept of it, by name: the losses and validations, every weight, the metrics of all
three commands, tables and samples. Times, paths and versions are left out. ``compare`` runs the
cases again, prints what differs and ends with status 1 if anything does. Numbers are those of one
machine: write and compare on the same one.
"""

from __future__ import annotations

import hashlib
import json
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import chdir
from dataclasses import dataclass
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np
import torch

from discrete_diffusion.cli import main as command
from floor_plans import generate_plans, write_diagrams
from record import command_line

SHORT = (
    *("threads=1", "trainer.max_steps=3", "trainer.val_check_interval=2"),
    *("trainer.log_every_n_steps=1", "optim.warmup_steps=1"),
)
STEPS = ("seed=3", *SHORT)
ON_PLANS = ("data.num_plans=120", "data.batch_size=16", "callbacks.num_samples=4")
SCORED = ("eval.num_samples=12", "eval.noise_samples=2")
PLANS = (*STEPS, *ON_PLANS, *SCORED)
MAPS = (
    *("data.num_samples=40", "data.size=16", "data.mesh_rings=4", "data.num_boundary=8"),
    *("data.split=[0.8,0.1,0.1]", "data.batch_size=8", "callbacks.num_samples=2"),
    *("eval.num_samples=2", "eval.samples_per_condition=2"),
)
UNET = ("model.multipliers=[1,1]", "model.channels=8", "model.groups=4")
WINDOWS = ("data.num_windows=40", "data.batch_size=8", "callbacks.num_samples=2")
TALKS = (
    *("data.num_samples=40", "data.split=[0.7,0.1,0.2]", "data.batch_size=8"),
    *("callbacks.num_samples=2", "eval.num_samples=3"),
)
TEXT = ("data=text", "data.path=words.txt", "data.length=32", "data.batch_size=8")
TABLES = ("reference_repeats=2", "num_seeds=2", "num_samples=12", "noise_samples=2", "time_bins=2")
GIVEN = {
    "partial.jsonl": {
        "rooms": ["LivingRoom", "Kitchen", None, "Bathroom"],
        "relations": [[1, 0, "left-of"], [3, 1, "no-edge"]],
    },
    "rooms.jsonl": {"rooms": ["LivingRoom", "Kitchen", "Bathroom"], "relations": []},
}
"""Partial diagrams; the second for algorithms that fill a diagram from front to back."""


@dataclass(frozen=True)
class Case:
    """Words of ``train``, of each ``sample`` after it, and of ``evaluate``."""

    train: tuple[str, ...]
    samples: tuple[tuple[str, ...], ...] = (("num_samples=4",),)
    evaluate: tuple[str, ...] = ()


def completed(given: str) -> tuple[str, ...]:
    return (f"given={given}", "num_completions=2")


def on_plans(*words: str, samplers: Sequence[str] = (), given: str = "partial.jsonl") -> Case:
    chosen = [("num_samples=4", f"sampling={name}") for name in samplers]
    return Case((*PLANS, *words), (("num_samples=4",), *chosen, completed(given)), TABLES)


CASES: dict[str, Case] = {
    "demo": on_plans(
        "experiment=demo",
        samplers=("ancestral", "entropy-bounded", "margin", "remdm", "renoise"),
    ),
    "plans_full": on_plans("experiment=plans_full", "data.split=[0.6,0.2,0.2]"),
    "flat": on_plans("model=bd_tiny", "schedule=per_group"),
    "plans_small": Case(
        (*STEPS, *SCORED, "experiment=plans_small", "data.path=plans.jsonl", "data.batch_size=16"),
        (("num_samples=4", "num_rooms=6"), completed("partial.jsonl")),
        TABLES,
    ),
    **{
        name: on_plans("model=bd_tiny", f"algo={name}")
        for name in ("meld", "sedd", "udlm", "marginal", "gidd", "d3pm")
    },
    **{
        name: on_plans("model=dit_tiny", f"algo={name}", "algo.backbone=dit", given="rooms.jsonl")
        for name in ("bd3lm", "ar")
    },
    "text": Case((*STEPS, *SCORED, *TEXT, "algo.backbone=dit", "model=dit_tiny")),
    "regions": Case((*STEPS, *WINDOWS, "experiment=regions", "eval.num_samples=4")),
    "get_region_as_published": Case(
        (
            *(*STEPS, *WINDOWS, "experiment=get_region_as_published", "eval.num_samples=4"),
            *("model.d_model=32", "model.n_layers=1", "model.n_heads=4"),
            *("data.rows=32", "data.num_motifs=12"),
        )
    ),
    "eit": Case((*STEPS, *MAPS, *UNET, "experiment=eit", "sampling.steps=2")),
    "eit_levels": Case((*STEPS, *MAPS, *UNET, "experiment=eit_levels", "sampling.steps=2")),
    "eit_pretrain": Case((*STEPS, *MAPS, "experiment=eit_pretrain", "model.head_widths=[8]")),
    "dialogue": Case((*STEPS, *TALKS, "experiment=dialogue")),
    "dialogue-tokens": Case(
        (*STEPS, *TALKS, "data=dialogue-tokens", "algo.backbone=dit", "model=dit_tiny")
    ),
}
COMPARED: dict[str, tuple[str, ...]] = {
    "compare": (
        *(*SHORT, "seeds=[3]", "data.num_plans=120", "data.batch_size=16", "eval.num_samples=12"),
        *("algos=[mdlm,udlm]", "model=bd_tiny", "num_held_out=12", "noise_samples=2"),
    ),
}
_TIMES = ("seconds", "per_second", "time", "path", "checkpoint", "version", "hardware", "folder")


def digests(name: str, folder: Path) -> dict[str, str]:
    """What a case computes, by the name of the file and of the thing in it."""
    found: dict[str, str] = {}
    with chdir(folder):
        write_diagrams("plans.jsonl", generate_plans(120, seed=5))
        for given, partial in GIVEN.items():
            Path(given).write_text(json.dumps(partial) + "\n")
        Path("words.txt").write_text("the room beside the hall is small. " * 200)
        if name in COMPARED:
            command(["compare", *COMPARED[name], "out=compared"])
            return dict(_of_folder(Path("compared")))
        case = CASES[name]
        command(["train", *case.train, "hydra.run.dir=run"])
        found |= _of_folder(Path("run"))
        last = "checkpoint=run/checkpoints/last.ckpt"
        for k, words in enumerate(case.samples):
            command(["sample", last, "threads=1", *words, f"out=samples-{k}"])
            found |= _of_folder(Path(f"samples-{k}"))
        command(["evaluate", last, "threads=1", "pictures=false", *case.evaluate, "out=evaluated"])
        found |= _of_folder(Path("evaluated"))
    return found


def _of_folder(folder: Path) -> Iterator[tuple[str, str]]:
    """(name, digest) of everything in the files that hold results."""
    for path in sorted(folder.rglob("*")):
        name = path.as_posix()
        if path.name == "last.ckpt":
            weights = torch.load(path, weights_only=True)["state_dict"]
            for key, weight in sorted(weights.items()):
                yield f"{name} {key}", _digest(weight.numpy().tobytes())
        elif path.suffix == ".json":
            for key, value in _leaves("", json.loads(path.read_text())):
                if not any(part in key.lower() for part in _TIMES):
                    yield f"{name} {key}", _shown(value)
        elif path.suffix == ".npz":
            for key, array in np.load(path).items():
                yield f"{name} {key}", _digest(np.ascontiguousarray(array).tobytes())
        elif path.suffix in (".jsonl", ".txt") or path.name == "metrics.csv":
            yield name, _digest(path.read_bytes())
        elif path.suffix in (".md", ".csv"):
            sign = "|" if path.suffix == ".md" else ","
            yield name, _digest(_timeless(path.read_text(), sign).encode())


def _leaves(key: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, list) and any(isinstance(inner, Mapping) for inner in value):
        value = dict(enumerate(value))
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _leaves(f"{key}.{name}" if key else str(name), inner)
    else:
        yield key, value


def _timeless(text: str, sign: str) -> str:
    """A table without its columns of seconds."""
    rows = [line.split(sign) for line in text.splitlines()]
    heads = next((row for row in rows if any(map(_is_time, row))), [])
    kept = [not _is_time(cell) for cell in heads]
    return "\n".join(
        sign.join(compress(row, kept) if len(row) == len(kept) else row) for row in rows
    )


def _is_time(head: str) -> bool:
    return "seconds" in head or head.startswith((" s of ", " s per "))


def _shown(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 40 else _digest(text.encode())


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def differences(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """A line for everything that is not equal."""
    lines = []
    for name in sorted({*before, *after}):
        one, two = before.get(name, "absent"), after.get(name, "absent")
        if one != two:
            lines.append(f"{name}: {one} -> {two}")
    return lines


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("action", choices=("write", "compare"))
    parser.add_argument("file", type=Path)
    parser.add_argument("--only", nargs="+", choices=[*CASES, *COMPARED])
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    path = arguments.file.absolute()
    before = json.loads(path.read_text()) if arguments.action == "compare" else {}
    after, num_different = {}, 0
    for name in arguments.only or [*CASES, *COMPARED]:
        with tempfile.TemporaryDirectory() as folder:
            after[name] = digests(name, Path(folder))
        print(f"{name}: {len(after[name])} digests", flush=True)
        if arguments.action == "compare":
            for line in differences(before.get(name, {}), after[name]):
                print(f"  {line}", flush=True)
                num_different += 1
    if arguments.action == "write":
        path.write_text(json.dumps(after, indent=1) + "\n")
    sys.exit(1 if num_different else 0)


if __name__ == "__main__":
    main()
