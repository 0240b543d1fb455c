"""The figure and the tables of ``distilled.py``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from scipy.stats import binomtest

from discrete_diffusion.evaluation.intervals import confidence_interval
from distilled_figure import CostPanel, CostPoint, QualityRow, draw_costs
from record import Figures, Record, Sections, markdown_table

TEACHER, FIGURE = "teacher", "distilled.png"
FLOORS = ("relation_tv", "node_tv", "valid", "transitive", "mode_coverage_weighted")
Cells = Sequence[Mapping[str, Any]]

QUALITY = {
    "relation_tv": "relation TV ↓",
    "node_tv": "node TV ↓",
    "valid": "valid, % ↑",
    "transitive": "transitive, % ↑",
    "mode_coverage_weighted": "coverage, % ↑",
}
NAMES = {"first-hitting": "teacher, first-hitting", "student": "student, few-call"}
SERIES = {
    "first-hitting": "teacher, first-hitting",
    "entropy-bounded": "teacher, entropy-bounded",
    "speculative": "teacher, speculative",
    "student": "students, few-call",
}
COSTS = (
    CostPanel("waits", "network calls one after the other"),
    CostPanel("cpu_ms", "CPU-milliseconds per sample"),
)
ROWS = (
    QualityRow("not_transitive", "Not transitive, %"),
    QualityRow("relation_tv", "Relation TV"),
)


def groups(results: Mapping[str, Any]) -> list[Cells]:
    """Cells that differ in nothing but the seed."""
    found: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for cell in results["cells"]:
        found.setdefault((cell["model"], cell["line"], cell["steps"]), []).append(cell)
    order = list(SERIES)
    return sorted(found.values(), key=lambda g: (order.index(g[0]["line"]), -waits(g[0])))


def waits(cell: Mapping[str, Any]) -> float:
    """Calls of the network that wait for each other: those of all rows but for rounds."""
    return cell.get("rounds", cell["calls"])


def values(group: Cells, key: str, num: int) -> list[float]:
    """A number per seed, in the unit that it is shown in."""
    derived: dict[str, Callable[[Mapping[str, Any]], float]] = {
        "waits": waits,
        "cpu_ms": lambda cell: 1000 * cell["cpu_seconds"] / num,
        "not_transitive": lambda cell: 100 * (1 - cell["transitive"]),
    }
    scale = 1 if key.endswith("_tv") or key in derived or key == "calls" else 100
    return [derived[key](c) if key in derived else scale * c[key] for c in group]


def shown(found: Sequence[float], digits: int) -> str:
    """The mean, and half its interval where there are several seeds."""
    interval = confidence_interval(found)
    mean = f"{interval.mean:.{digits}f}"
    return mean if interval.high is None else f"{mean} ± {interval.high - interval.mean:.{digits}f}"


def name_of(cell: Mapping[str, Any]) -> str:
    name = NAMES.get(cell["line"], f"teacher, {cell['line']}")
    return name if cell["steps"] is None else f"{name}, steps={cell['steps']}"


def nats(model: Mapping[str, Any], of_teacher: bool) -> str:
    bound = "≤ " if of_teacher else ""
    return f"{bound}{model['nats']:.2f} ± {1.96 * model['nats_standard_error']:.2f}"


def share(found: float, num: int) -> str:
    interval = binomtest(round(found * num), num).proportion_ci(method="wilson")
    return f"{100 * found:.1f} ({100 * interval.low:.1f} to {100 * interval.high:.1f})"


def table(results: Mapping[str, Any]) -> str:
    num, judged, floor = results["num_samples"], results["num_verdicts"], results["floors"]
    heads = ["sampler", "calls", "evaluations", "nats ↓", *QUALITY.values()]
    heads += ["buildable, % ↑", "CPU-s for 1,000 ↓"]
    digits = {key: 4 if key.endswith("_tv") else 2 if key == "valid" else 1 for key in QUALITY}
    rows = []
    for group in groups(results):
        first = group[0]
        measured = first["steps"] is None and first["line"] in NAMES
        model = results["models"][first["model"]]
        buildable = [cell["buildable"] for cell in group if "buildable" in cell]
        rows.append(
            [
                name_of(first),
                f"{confidence_interval(values(group, 'waits', num)).mean:.1f}",
                shown(values(group, "calls", num), 1) if "rounds" in first else "",
                nats(model, first["model"] == TEACHER) if measured else "",
                *(shown(values(group, key, num), digits[key]) for key in QUALITY),
                share(buildable[0], judged) if buildable else "",
                shown(values(group, "cpu_ms", num), 1),
            ]
        )
    real = [f"{(1 if d == 4 else 100) * floor[key]:.{d}f}" for key, d in digits.items()]
    rows.append(["real plans", "", "", "", *real, share(floor["buildable"], judged), ""])
    return markdown_table(heads, rows)


def training(results: Mapping[str, Any]) -> str:
    """What each student is, and took."""
    lines = []
    for calls, model in results["models"].items():
        if calls == TEACHER:
            continue
        took = model["cpu_minutes"]
        lines.append(
            f"* {calls} calls: {model['parameters']:,} parameters, {model['steps']:,} steps of "
            f"{model['batch_size']}"
            + ("." if took is None else f", {took:.0f} CPU-minutes with its own evaluation.")
        )
    return "\n".join(lines)


def sections(record: Record) -> Sections:
    results, page = record.results, "results_samplers.md"
    seeds = record.seed if isinstance(record.seed, list) else [record.seed]
    said = (
        f"{len(seeds)} sampling seeds of {results['num_samples']:,} samples, against "
        f"{results['num_reference']:,} test diagrams; {record.hardware}, one thread."
    )
    return {
        (page, "distilled"): f"{table(results)}\n\n{said}",
        (page, "distilled training"): training(results),
    }


def draw(results: Mapping[str, Any], path: Path) -> None:
    """Quality over cost, a curve per sampler, beside what real plans score."""
    num, points = results["num_samples"], {}
    keys = [panel.key for panel in (*COSTS, *ROWS)]
    for group in groups(results):
        intervals = {key: confidence_interval(values(group, key, num)) for key in keys}
        points.setdefault(SERIES[group[0]["line"]], []).append(
            CostPoint(
                {key: found.mean for key, found in intervals.items()},
                {
                    key: 0.0 if found.high is None else found.high - found.mean
                    for key, found in intervals.items()
                },
            )
        )
    floor = {"relation_tv": results["floors"]["relation_tv"]}
    draw_costs(points, COSTS, ROWS, path, floors=floor)


def figures(record: Record) -> Figures:
    return {FIGURE: partial(draw, record.results)}
