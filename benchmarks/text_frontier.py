"""Perplexity of sampled text under a judge, over its entropy or over what a sample costs.

    python benchmarks/text_frontier.py --model RUN --judge RUN [--num 64] [--threads 1] [--quick]
    python benchmarks/text_frontier.py --cost ar=RUN bd3lm-4=RUN mdlm=RUN ... --judge RUN

``--model`` and ``--judge`` are runs on the same text, such as

    discrete-diffusion train data=text data.path=FILE algo.backbone=dit model=dit_tiny
        trainer.max_steps=800 optim.lr=0.002 algo=mdlm      (and again with algo=ar)

The model is sampled by ``ancestral``, whose steps are given. Beside it stand as many held-out
windows, the judge's own samples, and three texts that no model wrote: the words of the windows
shuffled, their characters shuffled, and one window over and over.

``--cost`` measures CPU-seconds of a sample beside its perplexity, of ``algo=ar``, of ``algo=bd3lm``
with and without the cache of finished blocks, and of ``algo=mdlm`` by steps and ``refresh``; and
how far ``refresh`` is from exact samples. ``--quick`` checks that it runs, and writes nothing.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator
from torch import Tensor

from discrete_diffusion import load
from discrete_diffusion.algorithms.column_reader import ColumnReader
from discrete_diffusion.api.requests import trained_model_here
from discrete_diffusion.categorical import make_generator
from discrete_diffusion.domains import domain_of
from discrete_diffusion.domains.text.judge import Judge, read_judge
from discrete_diffusion.domains.text.report import text_quality
from discrete_diffusion.evaluation import SampleRequest, held_out_split, sample_fresh
from discrete_diffusion.evaluation.trained_model import TokenSamples
from discrete_diffusion.runtime import Shard
from discrete_diffusion.sampling import FirstHitting
from discrete_diffusion.sampling.partial_samples import PartialSamples
from discrete_diffusion.viz import LINE, MUTED_TEXT, REAL, new_figure, save_figure, style_axes
from record import Figures, Part, Record, Sections, command_line, markdown_table, publish, typed
from sampler_figures import COLOURS, MARKERS

SEED = 0
TEMPERATURES = (0.5, 0.7, 0.85, 1.0)
STEPS = (8, 32, 128)
QUICK = {"num": 8, "temperatures": (1.0,), "steps": (4,)}
STEPS_OF_COST, REFRESH = (8, 16, 32, 64, 128), (2, 4, 8, 16, 64, 256)
FIGURE, COST, COST_FIGURE = "text_frontier.png", "text_cost", "text_cost.png"
SHOWN = (
    *("held-out text", "the judge itself"),
    *("held-out words shuffled", "held-out characters shuffled"),
)
HEAD = ("text", "calls", "gen_ppl", "bits per byte", "entropy", "distinct-1/2/3", "repetition")


def options() -> argparse.Namespace:
    parser = command_line(__doc__, threads=1, quick=True)
    parser.add_argument("--model", help="run that is sampled")
    parser.add_argument("--cost", nargs="+", metavar="NAME=RUN", help="runs that are compared")
    parser.add_argument("--judge", required=True, help="run of algo=ar")
    parser.add_argument("--num", type=int, default=64, help="samples of every row")
    given = parser.parse_args()
    vars(given).update({"temperatures": TEMPERATURES, "steps": STEPS})
    if given.quick:
        vars(given).update(QUICK)
    return given


def drawn(run: str, num: int, **settings: Any) -> TokenSamples:
    """Samples of a run."""
    checkpoint = load(run).sample.checkpoint
    request = SampleRequest(**settings)
    trained = trained_model_here(request, checkpoint)
    return sample_fresh(
        trained, trained.model(Shard()), num, entropy=(SEED,), size=checkpoint.config.data.length
    )


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
    runs = dict(each.split("=", 1) for each in given.cost or [])
    checkpoint = load(next(iter(runs.values()), given.model)).sample.checkpoint
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
    if given.cost:
        train = data.splits["train"].x0
        of_ids = train.flatten()[
            torch.randint(train.numel(), windows.shape, generator=make_generator(SEED))
        ]
        found["unigram model"] = {"quality": quality(of_ids), "calls": None}
        further = costs(runs, len(windows), quality)
    else:
        own = drawn(given.judge, len(windows))
        found["the judge itself"] = {"quality": quality(own.tokens), "calls": own.network_calls}
        further = {"rows": frontier(given, len(windows), quality)}
    return {
        "num": len(windows),
        "length": windows.shape[1],
        "threads": given.threads,
        "source": Path(data.source).name,
        "cpu_seconds": time.process_time() - start,
        "others": found,
        **further,
    }


Quality = Callable[[Tensor], dict[str, float]]


def frontier(given: argparse.Namespace, num: int, quality: Quality) -> list[dict[str, Any]]:
    """Samples of ``ancestral`` by steps and temperature."""
    rows = []
    for steps in given.steps:
        for temperature in given.temperatures:
            sampling = {"name": "ancestral", "temperature": temperature}
            found = drawn(given.model, num, steps=steps, sampling=sampling)
            row = {"steps": steps, "temperature": temperature, "calls": found.network_calls}
            rows.append({**row, "quality": quality(found.tokens)})
            print(row, rows[-1]["quality"], flush=True)
    return rows


def ways(name: str) -> dict[str, dict[str, Any]]:
    """Requests for samples of a model, by what the table calls them."""
    if not name.startswith("mdlm"):
        return {"": {}, **({"all columns": {}} if name == "bd3lm-16" else {})}
    whole: dict[str, dict[str, Any]] = {
        f"{steps} steps": {"steps": steps, "sampling": {"name": "ancestral"}}
        for steps in STEPS_OF_COST
    }
    whole["a token a call"] = {}
    kept = {r: {"sampling": {"name": "first-hitting", "refresh": r}} for r in REFRESH}
    whole |= {f"a token a call, refresh {r}": request for r, request in kept.items()}
    few: dict[str, Any] = {"name": "ancestral", "refresh": 4}
    whole |= {f"{n} steps, refresh 4": {"steps": n, "sampling": few} for n in STEPS_OF_COST[1:]}
    return whole


def costs(runs: Mapping[str, str], num: int, quality: Quality) -> dict[str, Any]:
    """CPU-seconds and quality of ``num`` samples of each run in every way; errors of ``refresh``;
    bounds of the models."""
    rows, tokens = [], {}
    for name, run in runs.items():
        for way, request in ways(name).items():
            whole = way == "all columns"
            with patch.object(PartialSamples, "keeps_blocks", False) if whole else nullcontext():
                found = drawn(run, num, **request)
            tokens[way] = found.tokens
            assert not whole or torch.equal(tokens[""], tokens[way]), f"{name}: other tokens"
            row = {"model": name, "way": way, "calls": found.network_calls}
            row |= {"cpu_seconds": found.cpu_seconds / num, "quality": quality(found.tokens)}
            rows.append(row)
            print(row, flush=True)
    bounds = {
        name: json.loads((Path(run) / "metrics.json").read_text())["nelbo_plain_per_token"]
        for name, run in runs.items()
    }
    return {"rows": rows, "bounds": bounds, "lost": lost_by_refresh(runs["mdlm"], num)}


@dataclass(kw_only=True)
class Compared(FirstHitting):
    """``FirstHitting`` that also asks for D with columns kept, and adds up the divergences.

    ``lost``: Float64[B], for each ``refresh``: sum over calls of KL(D || D with columns kept) at
    the tokens revealed. Its mean is KL(paths || paths with columns kept), at least that of samples.
    """

    lost: dict[int, Tensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.kept: dict[int, ColumnReader] = {}

    def log_d0(
        self, samples: PartialSamples, rows: Tensor, t: Tensor, here: Tensor | None = None
    ) -> Tensor:
        exact = super().log_d0(samples, rows, t, here)
        assert here is not None
        for r in REFRESH:
            if r not in self.kept:
                start = (samples.algorithm, samples.x, samples.real, {})
                self.kept[r] = ColumnReader(*start, refresh=r)
                self.lost[r] = torch.zeros(len(samples.x), dtype=torch.float64)
            kept = self.kept[r].lazy_log_d0(rows, samples.x[rows], t, here).read()
            each = (exact.exp() * (exact - kept)).sum(dim=-1).double()
            self.lost[r].index_add_(0, rows[here.nonzero()[:, 0]], each)
        return exact


def lost_by_refresh(run: str, num: int) -> dict[str, dict[str, float]]:
    """Nats lost by each ``refresh`` in a sample, with their standard errors over samples."""
    algorithm, sampler = load(run).sample.checkpoint.algorithm, Compared()
    real = torch.ones(min(num, 16), algorithm.layout.length, dtype=torch.bool)
    sampler.sample(algorithm, real, generator=make_generator(SEED))
    return {
        str(r): {"nats": float(lost.mean()), "standard_error": float(lost.std() / len(lost) ** 0.5)}
        for r, lost in sampler.lost.items()
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
    if record.name == COST:
        return {(Part.TEXT, record.name): cost_text(r, rows)}
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


def cost_text(r: Mapping[str, Any], others: Sequence[tuple[str, ...]]) -> str:
    """Facts, the table of costs, and that of what ``refresh`` loses."""
    rows = [(name, calls, "", *rest) for name, calls, *rest in others]
    for row in r["rows"]:
        way = f"{row['model']}, {row['way']}".removesuffix(", ")
        name, calls, *rest = cells(way, row)
        rows.append((name, calls, f"{row['cpu_seconds']:.4f}", *rest))
    bounds = ", ".join(f"{name} {nats:.2f}" for name, nats in r["bounds"].items())
    lost = [
        (refresh, f"{each['nats']:.2f} ± {each['standard_error']:.2f}")
        for refresh, each in r["lost"].items()
    ]
    return (
        f"{r['threads']} thread, {r['cpu_seconds']:,.0f} CPU-seconds; {r['num']} samples of "
        f"{r['length']} characters for each row, on {r['source']}; the judge is `algo=ar` of "
        f"another seed. Held-out nats a character (bounds, but for ar): {bounds}.\n\n"
        f"{markdown_table((*HEAD[:2], 'CPU-s a sample', *HEAD[2:]), rows)}\n\n"
        "KL(paths of first-hitting || those with `refresh`), nats a sample; of samples it is at "
        f"most that:\n\n{markdown_table(('refresh', 'nats a sample'), lost)}"
    )


def figures(record: Record) -> Figures:
    if record.name == COST:
        return {COST_FIGURE: partial(draw_costs, record)}
    return {FIGURE: partial(draw, record)}


def draw_costs(record: Record, path: Path) -> None:
    """Perplexity and entropy over CPU-seconds of a sample: a curve per way to sample."""
    rows = record.results["rows"]
    mdlm = [row for row in rows if row["model"] == "mdlm"]
    few = f"mdlm, {STEPS_OF_COST[1]} to {STEPS_OF_COST[-1]} steps, refresh 4"
    # rows, number beside each point, and where it stands
    curves = {
        "mdlm, by steps": ([row for row in mdlm if "refresh" not in row["way"]], _first, (4, 5)),
        "mdlm, a token a call, by refresh": (
            [row for row in mdlm if row["way"].startswith("a token a call, ")],
            lambda row: row["way"].rpartition(" ")[2],
            (0, -12),
        ),
        few: ([row for row in mdlm if " steps, refresh" in row["way"]], lambda row: "", (0, 0)),
        "bd3lm with its cache, by block": (
            [row for row in rows if row["model"].startswith("bd3lm") and not row["way"]],
            lambda row: row["model"].rpartition("-")[2],
            (4, 5),
        ),
    }
    (ar,) = (row for row in rows if row["model"] == "ar")
    figure = new_figure(9.6, 4.2)
    labels = {"gen_ppl": "perplexity under the judge", "unigram_entropy": "unigram entropy, nats"}
    for axes, (key, title) in zip(figure.subplots(1, 2), labels.items(), strict=True):
        axes.set_xscale("log")
        for name, colour, marker in zip(curves, COLOURS, MARKERS, strict=True):
            shown, label, offset = curves[name]
            x, y = [row["cpu_seconds"] for row in shown], [row["quality"][key] for row in shown]
            axes.plot(x, y, color=colour, marker=marker, markersize=5, linewidth=1.5, label=name)
            beside = {"xytext": offset, "textcoords": "offset points"}
            for row, *at in zip(shown, x, y, strict=True):
                axes.annotate(label(row), at, fontsize=7.5, color=MUTED_TEXT, **beside)
        axes.plot(ar["cpu_seconds"], ar["quality"][key], "k*", markersize=10, label="ar")
        real = record.results["others"]["held-out text"]["quality"][key]
        axes.axhline(real, color=LINE, linestyle="--", label="held-out text")
        if key == "gen_ppl":
            axes.set_yscale("log")
            axes.legend(frameon=False, fontsize=8)
        else:
            axes.set_ylim(3.0, 3.3)
        for axis in (axes.xaxis, axes.yaxis) if key == "gen_ppl" else (axes.xaxis,):
            axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
            axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
            axis.set_minor_locator(NullLocator())
        style_axes(axes, title=title, xlabel="CPU-seconds of a sample", grid="both")
    save_figure(figure, path)


def _first(row: Mapping[str, Any]) -> str:
    """Number of steps of a row, if it has one."""
    return row["way"].partition(" ")[0] if row["way"].endswith(" steps") else ""


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
        name = COST if given.cost else "text_frontier"
        publish(name, command=typed(), seed=SEED, results=found)


if __name__ == "__main__":
    main()
