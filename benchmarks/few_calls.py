"""Few network calls a sample: ``planned`` and ``dilated`` next to ``first-hitting`` in as many.

    python benchmarks/few_calls.py --keep FOLDER [--text FILE] [--threads 1]
    python benchmarks/few_calls.py --keep FOLDER --trees tree.json.gz [--threads 1]

On plans of ``plans-small``, and on the characters of FILE by a ``dit_tiny`` that is not conditioned
on t, after 1,200 steps, and a judge, ``algo=ar``, after 600. Runs, orders of calls and measurements
are kept in FOLDER, and not made again. Writes ``benchmarks/results/few_calls.json``, whose rows of
text stay as they are if no FILE is given.

With ``--trees`` on trees of 64 nodes alone, by ``experiment=tree`` of ``standard_sets.py``; writes
``few_calls_trees.json`` and ``docs/images/few_calls_trees.png``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, cast

import torch

from clock import Stopwatch
from compare import SHARED
from discrete_diffusion import load
from discrete_diffusion.api.requests import trained_model_here
from discrete_diffusion.categorical import make_generator
from discrete_diffusion.data.graph_tokens import decode_graphs
from discrete_diffusion.domains import domain_of
from discrete_diffusion.domains.graphs.graph_set import GraphSet
from discrete_diffusion.domains.graphs.metrics import novelty_shares
from discrete_diffusion.domains.graphs.readers import read_graphs
from discrete_diffusion.evaluation.requests import SampleRequest
from discrete_diffusion.evaluation.sample_scores import interval_entries, share_interval
from discrete_diffusion.evaluation.trained_model import TokenSamples, sample_tokens
from discrete_diffusion.layout import VocabConfig
from discrete_diffusion.runtime.processes import Shard
from discrete_diffusion.viz import chart_style
from record import (
    Figures,
    Part,
    Record,
    Sections,
    command_line,
    earlier,
    markdown_table,
    publish,
    typed,
)
from runs import evaluate, kept_run

VUN = "valid_unique_novel"
COLUMNS = {
    "plans": {
        "transitive": "transitive, %",
        "degree_tv": "degree TV",
        "relation_tv": "relation TV",
        "mode_coverage_weighted": "coverage, %",
        "buildable": "buildable, %",
    },
    "text": {"gen_ppl": "perplexity under the judge", "unigram_entropy": "entropy, nats"},
    "trees": {
        "surprises": "surprises",
        VUN: "V.U.N., %",
        "num_samples": "graphs",
        "cpu_seconds": "CPU-seconds a graph",
    },
}
SHARES = ("transitive", "mode_coverage_weighted", "buildable", VUN)
SAMPLERS = {
    "plans": (("planned", 8), ("first-hitting", 8)),
    "text": (("first-hitting", 16), ("first-hitting", 8), ("dilated", 8)),
}
CALLS, EXACT = (52, 104, 208, 416), 2080
"""Network calls of a tree, and those of one token each."""
SURPRISES = (0.9, 0.7, 0.5, 0.25)
TREES = {"first-surprise": 300, "planned": 100, "first-hitting": 50}
"""Graphs of each row by its sampler; with one token a call as many as of ``first-surprise``."""
TIMED = 25
"""Graphs whose CPU time is measured."""
CURVES = {
    "first-surprise": (chart_style.SAMPLED, "o-"),
    "planned": (chart_style.LINE, "s--"),
    "first-hitting": (chart_style.REAL, "^:"),
}
TRAINED = {
    "model": ("algo=mdlm", "algo.time_conditioning=false", "trainer.max_steps=1200"),
    "judge": ("algo=ar", "trainer.max_steps=600"),
}


def models(data: str, file: Path | None, folder: Path, threads: int) -> tuple[str, ...]:
    """Words of ``evaluate``: the model, which is trained if it is not there, and what is drawn."""
    if data == "plans":
        return "checkpoint=plans-small", "num_samples=1000", "num_seeds=5"
    words: tuple[str, ...] = (*SHARED, "data=text", f"data.path={file}", "data.length=64")
    words += ("data.batch_size=64", "algo.backbone=dit", "model=dit_tiny", "optim.lr=2e-3")
    words += ("eval.num_samples=0", "callbacks.ema_decay=0.995", f"threads={threads}")
    words += ("trainer.val_check_interval=600",)
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


def choose_calls(trained: Any, kept: Path) -> float:
    """CPU-seconds of the choice of the fewest ``CALLS``; the others have the same examples."""
    if not kept.exists():
        asked = SampleRequest(sampling={"name": "planned"})
        sampler = trained_model_here(asked, trained.sample.checkpoint).sampler
        watch, spent = Stopwatch(torch.device("cpu")), []
        for calls in CALLS:
            sampler.sample(trained, sampler.typical(1), generator=make_generator(0), steps=calls)
            spent.append(watch.stop(1).cpu)
        kept.write_text(json.dumps(spent[0]))
    return float(json.loads(kept.read_text()))


def measured_trees(file: Path, folder: Path, threads: int) -> dict[str, Any]:
    """A row for each sampler and number of calls, and CPU-seconds of the choice of calls."""
    torch.set_num_threads(threads)
    words = ["experiment=tree", f"threads={threads}", f"data.path={file}"]
    run = kept_run(folder / "tree" / "bd-denoiser-pair", [*words, "algo.backbone=bd-denoiser-pair"])
    trained, rows = load(run / "checkpoints" / "last.ckpt"), []
    choice = choose_calls(trained, folder / "choice.json")
    training = GraphSet(read_graphs(file).splits["train"])
    data = trained.sample.checkpoint.config.data
    vocab = cast(VocabConfig, domain_of(data).vocabulary(data))

    def sampled(num: int, name: str, calls: int | None, options: dict[str, float]) -> TokenSamples:
        request = SampleRequest(sampling={"name": name, **options}, steps=calls)
        found = trained_model_here(request, trained.sample.checkpoint)
        return sample_tokens(found.model(Shard()), found.sampler.typical(num), entropy=(0,))

    asked: list[tuple[str, int | None, dict[str, float]]] = []
    asked += [("first-surprise", None, {"surprises": number}) for number in SURPRISES]
    asked += [(name, calls, {}) for name in ("planned", "first-hitting") for calls in CALLS]
    asked.append(("first-hitting", EXACT, {}))
    for name, calls, options in asked:
        kept = folder / f"row_{name}_{calls or options['surprises']}.json"
        if not kept.exists():
            num = TREES["first-surprise" if calls == EXACT else name]
            drawn = sampled(num, name, calls, options)
            graphs = GraphSet(decode_graphs(drawn.tokens, vocab))
            row = {"sampler": name, "network_calls_per_sample": drawn.network_calls, **options}
            row |= {"num_samples": num, **novelty_shares(graphs, training, "tree")}
            row |= interval_entries({VUN: share_interval([row[VUN]], num)})
            kept.write_text(json.dumps(row))
        rows.append(json.loads(kept.read_text()))
        print(rows[-1], flush=True)
    # times one after the other, which other work on the machine may lengthen
    for row, (name, calls, options) in zip(rows, asked, strict=True):
        row["cpu_seconds"] = sampled(TIMED, name, calls, options).cpu_seconds / TIMED
    return {"trees": rows, "choice_cpu_seconds": choice}


def draw_trees(rows: list[dict[str, Any]], path: Path) -> None:
    """V.U.N. over network calls, a curve for each sampler; one token a call as a line."""
    figure = chart_style.new_figure(6.4, 3.6)
    axes = figure.subplots()
    exact = rows[-1]
    low, high = (100 * end for end in exact["intervals"][VUN])
    axes.axhspan(low, high, color=chart_style.FAINT_LINE, zorder=0)
    label = f"one token a call, {exact['cpu_seconds']:.1f} CPU-s"
    axes.axhline(100 * exact[VUN], color=chart_style.TEXT, lw=0.8, label=label)
    for name, (colour, style) in CURVES.items():
        own = [row for row in rows[:-1] if row["sampler"] == name]
        share = torch.tensor([row[VUN] for row in own])
        ends = torch.tensor([row["intervals"][VUN] for row in own]).T
        axes.errorbar(
            [row["network_calls_per_sample"] for row in own],
            100 * share,
            yerr=(100 * (ends - share).abs()).tolist(),
            fmt=style,
            color=colour,
            label=name,
            capsize=2,
            markersize=4.5,
        )
    axes.set(xscale="log", ylim=(0, 102))
    axes.set_xticks(CALLS, [*map(str, CALLS)], minor=False)
    axes.minorticks_off()
    labels = {"title": "Trees of 64 nodes", "xlabel": "network calls", "ylabel": "V.U.N., %"}
    chart_style.style_axes(axes, **labels, grid="both")
    chart_style.add_legend(axes)
    chart_style.save_figure(figure, path)


def figures(record: Record) -> Figures:
    rows = record.results.get("trees")
    return {} if rows is None else {"few_calls_trees.png": partial(draw_trees, rows)}


def shown(row: Mapping[str, Any], key: str) -> str:
    """A number with its interval, or its standard error; nothing if it was not measured."""
    if row.get(key) is None:
        return ""
    if key == "surprises":
        return f"{row[key]:g}"
    if isinstance(row[key], int):
        return f"{row[key]:,}"
    scale, digits = (100, 1) if key in SHARES else (1, 2 if row[key] > 1 else 4)
    text = f"{scale * row[key]:.{digits}f}"
    if key in row.get("intervals", {}):
        low, high = row["intervals"][key]
        return f"{text} ({scale * low:.{digits}f} to {scale * high:.{digits}f})"
    error = row.get(f"{key}_standard_error")
    return text if error is None else f"{text} ± {error:.{digits}f}"


def sections(record: Record) -> Sections:
    texts = {}
    for data in filter(record.results.get, COLUMNS):
        rows = record.results[data]
        table = [
            [f"`{row['sampler']}`", f"{row['network_calls_per_sample']:.1f}"]
            + [shown(row, key) for key in COLUMNS[data]]
            for row in rows
        ]
        if data == "plans":
            real = {"intervals": {}, **rows[0]["real"]}
            table.append(["real plans", "", *(shown(real, key) for key in COLUMNS[data])])
        head = ["sampler", "calls", *COLUMNS[data].values()]
        text = markdown_table(head, table)
        if (choice := record.results.get("choice_cpu_seconds")) is not None:
            text += f"\n\nChoosing the calls took {choice:.0f} CPU-seconds, once."
        texts[Part.SAMPLERS, f"few calls {data}"] = text
    return texts


def main() -> None:
    parser = command_line(__doc__, threads=1, keep=True)
    parser.add_argument("--text", type=Path, help="file of text")
    parser.add_argument("--trees", type=Path, help="file of trees")
    given = parser.parse_args()
    found, folder = dict(earlier("few_calls")), given.keep.absolute()
    if given.trees:
        found = measured_trees(given.trees.absolute(), folder, given.threads)
        publish("few_calls_trees", command=typed(), seed=0, results=found)
        return
    found["plans"] = measured("plans", None, folder, given.threads)
    if given.text:
        found["text"] = measured("text", given.text.absolute(), folder, given.threads)
    publish("few_calls", command=typed(), seed=[*range(5)], results=found)


if __name__ == "__main__":
    main()
