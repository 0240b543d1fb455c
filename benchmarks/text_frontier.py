"""Perplexity of sampled text under a judge over its entropy, by temperature and steps.

    python benchmarks/text_frontier.py --model RUN --judge RUN [--num 64] [--threads 1] [--quick]

``--model`` and ``--judge`` are runs on the same text, such as

    discrete-diffusion train data=text data.path=FILE algo.backbone=dit model=dit_tiny
        trainer.max_steps=800 optim.lr=0.002 algo=mdlm      (and again with algo=ar)

The model is sampled by ``ancestral``, whose steps are given. Beside it stand as many held-out
windows, the judge's own samples, and three texts that no model wrote: the words of the windows
shuffled, their characters shuffled, and one window over and over. ``--quick`` checks that it runs,
and writes nothing.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
from matplotlib.lines import Line2D
from torch import Tensor

from discrete_diffusion import load
from discrete_diffusion.api.requests import trained_model_here
from discrete_diffusion.categorical import make_generator
from discrete_diffusion.domains import domain_of
from discrete_diffusion.domains.text.judge import Judge, read_judge
from discrete_diffusion.domains.text.report import text_quality
from discrete_diffusion.evaluation import SampleRequest, held_out_split, sample_fresh
from discrete_diffusion.runtime import Shard
from discrete_diffusion.viz import MUTED_TEXT, REAL, new_figure, save_figure, style_axes
from record import Figures, Part, Record, Sections, command_line, markdown_table, publish, typed
from sampler_figures import COLOURS, MARKERS

SEED = 0
TEMPERATURES = (0.5, 0.7, 0.85, 1.0)
STEPS = (8, 32, 128)
QUICK = {"num": 8, "temperatures": (1.0,), "steps": (4,)}
FIGURE = "text_frontier.png"
SHOWN = (
    *("held-out text", "the judge itself"),
    *("held-out words shuffled", "held-out characters shuffled"),
)
HEAD = ("text", "calls", "gen_ppl", "bits per byte", "entropy", "distinct-1/2/3", "repetition")


def options() -> argparse.Namespace:
    parser = command_line(__doc__, threads=1, quick=True)
    parser.add_argument("--model", required=True, help="run that is sampled")
    parser.add_argument("--judge", required=True, help="run of algo=ar")
    parser.add_argument("--num", type=int, default=64, help="samples of every row")
    given = parser.parse_args()
    vars(given).update({"temperatures": TEMPERATURES, "steps": STEPS})
    if given.quick:
        vars(given).update(QUICK)
    return given


def drawn(run: str, num: int, **settings: Any) -> tuple[Tensor, float]:
    """Samples of a run, Int[num, L], and network calls for each."""
    checkpoint = load(run).sample.checkpoint
    request = SampleRequest(**settings)
    trained = trained_model_here(request, checkpoint)
    found = sample_fresh(
        trained, trained.model(Shard()), num, entropy=(SEED,), size=checkpoint.config.data.length
    )
    return found.tokens, found.network_calls


def controls(
    windows: Tensor, texts: list[str], encode: Callable[[str], Tensor]
) -> dict[str, Tensor]:
    """Texts that no model wrote, Int[num, L] each."""
    generator = make_generator(SEED)
    words = " ".join(texts).split()
    order = torch.randperm(len(words), generator=generator).tolist()
    shuffled = encode(" ".join(words[k] for k in order))[: windows.numel()]
    shuffled = shuffled[: len(shuffled) // windows.shape[1] * windows.shape[1]]
    flat = windows.flatten()
    return {
        "held-out text": windows,
        "held-out words shuffled": shuffled.view(-1, windows.shape[1]),
        "held-out characters shuffled": flat[
            torch.randperm(len(flat), generator=generator)
        ].view_as(windows),
        "one held-out window over and over": windows[:1].expand_as(windows),
    }


def measured(given: argparse.Namespace) -> dict[str, Any]:
    """Quality of every row, and the CPU-seconds of all."""
    start = time.process_time()
    checkpoint = load(given.model).sample.checkpoint
    config = checkpoint.config.data
    judge: Judge = read_judge(given.judge, trained_model_here(SampleRequest(), checkpoint))
    data = domain_of(config).build(config)
    split = held_out_split(data)
    examples = data.splits[split]
    whole = examples[examples.real.all(dim=1)].x0
    windows = whole[torch.randperm(len(whole), generator=make_generator(SEED))[: given.num]]
    quality = partial(text_quality, data.vocabulary, judge=judge)
    encode = partial(_encoded, data.vocabulary)
    found = {
        name: {"quality": quality(tokens), "calls": None}
        for name, tokens in controls(windows, data.vocabulary.decode(windows), encode).items()
    }
    tokens, calls = drawn(given.judge, len(windows))
    found["the judge itself"] = {"quality": quality(tokens), "calls": calls}
    rows = []
    for steps in given.steps:
        for temperature in given.temperatures:
            sampling = {"name": "ancestral", "temperature": temperature}
            tokens, calls = drawn(given.model, len(windows), steps=steps, sampling=sampling)
            row = {"steps": steps, "temperature": temperature, "calls": calls}
            rows.append({**row, "quality": quality(tokens)})
            print(row, rows[-1]["quality"], flush=True)
    return {
        "num": len(windows),
        "length": windows.shape[1],
        "threads": given.threads,
        "source": Path(data.source).name,
        "cpu_seconds": time.process_time() - start,
        "others": found,
        "rows": rows,
    }


def _encoded(vocabulary: Any, text: str) -> Tensor:
    from discrete_diffusion.data.files import TextSource

    return torch.from_numpy(vocabulary.encode(TextSource("shuffled text", text)).copy())


def cells(name: str, row: Mapping[str, Any]) -> tuple[str, ...]:
    """A row of the table: no perplexity without the rest."""
    q, calls = row["quality"], row["calls"]
    error = q.get("gen_ppl_standard_error", 0.0)
    return (
        name,
        "" if calls is None else f"{calls:.0f}",
        f"{q['gen_ppl']:.2f} ± {error:.2f}",
        f"{q['gen_bits_per_byte']:.3f}",
        f"{q['unigram_entropy']:.3f}",
        "/".join(f"{q[f'distinct_{n}']:.2f}" for n in (1, 2, 3)),
        f"{100 * q['repetition_share']:.1f} %",
    )


def sections(record: Record) -> Sections:
    r = record.results
    rows = [cells(name, r["others"][name]) for name in r["others"]]
    rows += [
        cells(f"mdlm, {row['steps']} steps, temperature {row['temperature']:g}", row)
        for row in r["rows"]
    ]
    text = (
        f"{r['threads']} thread, "
        f"{r['cpu_seconds']:,.0f} CPU-seconds.\n\n"
        f"{r['num']} samples of {r['length']} characters for each row, of models of 800 steps on "
        f"{r['source']}; the judge is `algo=ar` of the same size and steps, its perplexity is per "
        "character. ± is a standard error over samples.\n\n"
        f"{markdown_table(HEAD, rows)}"
    )
    return {(Part.TEXT, record.name): text}


def figures(record: Record) -> Figures:
    return {FIGURE: partial(draw, record)}


def draw(record: Record, path: Path) -> None:
    """A curve per number of steps through the temperatures; what no model wrote by its name."""
    figure = new_figure(6.4, 4.2)
    axes = figure.subplots()
    by_steps: dict[int, list[Mapping[str, Any]]] = {}
    for row in record.results["rows"]:
        by_steps.setdefault(row["steps"], []).append(row)
    handles = []
    for (steps, rows), colour, marker in zip(by_steps.items(), COLOURS, MARKERS, strict=False):
        x, y = ([row["quality"][key] for row in rows] for key in ("unigram_entropy", "gen_ppl"))
        axes.plot(x, y, color=colour, marker=marker, markersize=5, linewidth=1.5)
        handles.append(
            Line2D([], [], color=colour, marker=marker, markersize=5, label=f"{steps} steps")
        )
        for row, across, up in zip(rows, x, y, strict=True):
            if steps == min(by_steps):
                axes.annotate(
                    f"{row['temperature']:g}",
                    (across, up),
                    xytext=(-5, 4),
                    textcoords="offset points",
                    ha="right",
                    fontsize=8,
                    color=MUTED_TEXT,
                )
    for name in SHOWN:
        q = record.results["others"][name]["quality"]
        where = (q["unigram_entropy"], q["gen_ppl"])
        axes.plot(*where, color=REAL, marker="*", markersize=9, linestyle="none")
        axes.annotate(
            name, where, xytext=(-8, -3), textcoords="offset points", ha="right", fontsize=8
        )
    axes.set_yscale("log")
    style_axes(
        axes,
        title="perplexity under the judge (log scale), temperatures beside the points",
        xlabel="unigram entropy of a sample, nats",
        grid="both",
    )
    axes.legend(handles=handles, frameon=False, fontsize=8.5, loc="upper left")
    save_figure(figure, path)


def main() -> None:
    given = options()
    torch.set_num_threads(given.threads)
    found = measured(given)
    if not given.quick:
        publish("text_frontier", command=typed(), seed=SEED, results=found)


if __name__ == "__main__":
    main()
