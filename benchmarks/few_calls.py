"""Few network calls a sample: ``planned`` and ``dilated`` next to ``first-hitting`` in as many.

    python benchmarks/few_calls.py --keep FOLDER [--text FILE] [--threads 1]

On plans of ``plans-small``, and on the characters of FILE by a ``dit_tiny`` that is not conditioned
on t, after 1,200 steps, and a judge, ``algo=ar``, after 600. Runs, orders of calls and measurements
are kept in FOLDER, and not made again. Writes ``benchmarks/results/few_calls.json``, whose rows of
text stay as they are if no FILE is given.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from compare import SHARED
from record import Part, Record, Sections, command_line, earlier, markdown_table, publish, typed
from runs import evaluate, kept_run

COLUMNS = {
    "plans": {
        "transitive": "transitive, %",
        "degree_tv": "degree TV",
        "relation_tv": "relation TV",
        "mode_coverage_weighted": "coverage, %",
        "buildable": "buildable, %",
    },
    "text": {"gen_ppl": "perplexity under the judge", "unigram_entropy": "entropy, nats"},
}
SHARES = ("transitive", "mode_coverage_weighted", "buildable")
SAMPLERS = {
    "plans": (("planned", 8), ("first-hitting", 8)),
    "text": (("first-hitting", 16), ("first-hitting", 8), ("dilated", 8)),
}
TRAINED = {
    "model": ("algo=mdlm", "algo.time_conditioning=false", "trainer.max_steps=1200"),
    "judge": ("algo=ar", "trainer.max_steps=600"),
}


def models(data: str, file: Path | None, folder: Path, threads: int) -> tuple[str, ...]:
    """Words of ``evaluate``: the model, which is trained if it is not there, and what is drawn."""
    if data == "plans":
        return "checkpoint=plans-small", "num_samples=1000", "num_seeds=5"
    words = (*SHARED, "data=text", f"data.path={file}", "data.length=64", "data.batch_size=64")
    words += ("algo.backbone=dit", "model=dit_tiny", "optim.lr=2e-3", "eval.num_samples=0")
    words += ("callbacks.ema_decay=0.995", "trainer.val_check_interval=600", f"threads={threads}")
    for name, own in TRAINED.items():
        kept_run(folder / name, (*words, *own))
    model, judge = (folder / name / "checkpoints" / "last.ckpt" for name in TRAINED)
    return f"checkpoint={model}", f"perplexity_model={judge}", "num_samples=1000"


def measured(data: str, file: Path | None, folder: Path, threads: int) -> list[dict[str, Any]]:
    """A row for each sampler."""
    words = (*models(data, file, folder, threads), "noise_samples=0", "num_held_out=2000")
    names = ("intervals", "num_samples", "network_calls_per_sample", "gen_ppl_standard_error")
    rows = []
    for name, steps in SAMPLERS[data]:
        asked = (*words, "pictures=false", f"sampling={name}", f"steps={steps}")
        place = folder / "measured" / f"{data}_{name}_{steps}"
        found = evaluate(place, *asked, f"threads={threads}")
        row = {key: found[key] for key in (*names, *COLUMNS[data]) if key in found}
        row |= {"real": {key: found.get("real", {}).get(key) for key in COLUMNS[data]}}
        rows.append({"sampler": name, "steps": steps, **row})
        print(rows[-1], flush=True)
    return rows


def shown(row: Mapping[str, Any], key: str) -> str:
    """A number with its interval, or its standard error; nothing if it was not measured."""
    if row.get(key) is None:
        return ""
    scale, digits = (100, 1) if key in SHARES else (1, 2 if row[key] > 1 else 4)
    text = f"{scale * row[key]:.{digits}f}"
    if key in row.get("intervals", {}):
        low, high = row["intervals"][key]
        return f"{text} ({scale * low:.{digits}f} to {scale * high:.{digits}f})"
    error = row.get(f"{key}_standard_error")
    return text if error is None else f"{text} ± {error:.{digits}f}"


def sections(record: Record) -> Sections:
    texts = {}
    for data, rows in record.results.items():
        table = [
            [f"`{row['sampler']}`", f"{row['network_calls_per_sample']:.1f}"]
            + [shown(row, key) for key in COLUMNS[data]]
            for row in rows
        ]
        if data == "plans":
            real = {"intervals": {}, **rows[0]["real"]}
            table.append(["real plans", "", *(shown(real, key) for key in COLUMNS[data])])
        head = ["sampler", "calls", *COLUMNS[data].values()]
        texts[Part.SAMPLERS, f"few calls {data}"] = markdown_table(head, table)
    return texts


def main() -> None:
    parser = command_line(__doc__, threads=1, keep=True)
    parser.add_argument("--text", type=Path, help="file of text")
    given = parser.parse_args()
    found, folder = dict(earlier("few_calls")), given.keep.absolute()
    found["plans"] = measured("plans", None, folder, given.threads)
    if given.text:
        found["text"] = measured("text", given.text.absolute(), folder, given.threads)
    publish("few_calls", command=typed(), seed=[*range(5)], results=found)


if __name__ == "__main__":
    main()
