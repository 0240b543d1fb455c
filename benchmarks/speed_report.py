"""The tables of ``speed.py``, from its results alone."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

from record import Record, Sections, markdown_table

Part = dict[str, Any]


def sections(record: Record) -> Sections:
    """Of a CPU; the docs have no tables of a GPU."""
    texts = tables(record.results) if record.name == "speed" else {}
    return {("results_speed.md", name): text for name, text in texts.items()}


def tables(results: dict[str, Part]) -> dict[str, str]:
    """By name."""
    writers = {
        "training": _training,
        "profile": _profile,
        "memory": _memory,
        "curves": _curves,
        "sampling": _sampling,
        "students": _students,
        "cost": _cost,
        "networks": _networks,
    }
    return {
        f"speed {name}": f"{_source(results[name])}\n\n{writers[name](results[name]['found'])}"
        for name in writers
        if name in results
    }


def _source(part: Part) -> str:
    threads = f"{part['threads']} thread{'s' if part['threads'] > 1 else ''}"
    return f"`{part['command']}`: {threads}, {part['hardware']}, code `{part['code']}`."


def _training(found: Part) -> str:
    facts = (
        f"Batches of {found['batch_size']}, on average {found['mean_real_tokens']:.1f} real tokens "
        f"per diagram; medians of {found['repeats']} repeats of {found['steps']} steps, ratios to "
        "the baseline of the same dropout in the same repeat, with the lowest and the highest."
        + _product_rates(found)
    )
    rows = [[row["name"], *_speed(found, row)] for row in found["rows"]]
    notes = "".join(f"\n\n{note}" for note in found["notes"])
    return f"{facts}\n\n{markdown_table(['training', *_speed_titles(found)], rows)}{notes}"


def _profile(found: Part) -> str:
    names = [row["name"] for row in found["rows"]]
    spent = [row["milliseconds"] for row in found["rows"]]
    rows = [[kind, *(f"{one[kind]:.0f}" for one in spent)] for kind in spent[0]]
    rows.append(["together", *(f"{sum(one.values()):.0f}" for one in spent)])
    facts = (
        f"Milliseconds of a step of {found['batch_size']} diagrams, mean over {found['steps']} "
        "steps under PyTorch's profiler, which adds to all of them."
    )
    return f"{facts}\n\n{markdown_table(['operations', *names], rows)}"


def _memory(found: Part) -> str:
    by_name = {row["name"]: row for row in found["rows"]}
    heads = {"tensor_mebibytes": "tensors", "mebibytes": "resident"}
    kinds = [key for key in heads if key in found["rows"][0]]
    rows = []
    for row in found["rows"]:
        base = by_name[row["baseline"]]
        cells = [(f"{row[key]:.0f}", f"{row[key] / base[key]:.2f}") for key in kinds]
        rows.append([row["name"], *chain(*cells)])
    facts = f"Each in a process of its own; epochs of batches: {found['epochs']}."
    columns = [(f"{heads[key]}, MiB", "ratio to the baseline") for key in kinds]
    return f"{facts}\n\n{markdown_table(['training', *chain(*columns)], rows)}"


def _curves(found: Part) -> str:
    names = list(dict.fromkeys(row["name"] for row in found["rows"]))
    steps = list(dict.fromkeys(row["step"] for row in found["rows"]))
    cells = {(row["name"], row["step"]): row for row in found["rows"]}
    head = ["step", names[0]]
    for name in names[1:]:
        head += [name, "less the baseline"]
    rows = []
    for step in steps:
        line = [str(step), f"{cells[names[0], step]['nelbo']:.3f}"]
        for name in names[1:]:
            cell = cells[name, step]
            line += [f"{cell['nelbo']:.3f}", _apart(cell)]
        rows.append(line)
    facts = (
        f"Held-out bound in nats per diagram, {found['diagrams']:,} diagrams, {found['draws']} "
        f"draws each, mean over {len(found['seeds'])} seeds of {found['steps']} steps. Differences "
        "with their standard errors: over diagrams, paired; then over seeds."
    )
    return f"{facts}\n\n{markdown_table(head, rows)}"


def _apart(cell: Part) -> str:
    seeds = cell["standard_error_over_seeds"]
    over_seeds = "" if seeds is None else f"; {seeds:.3f}"
    return f"{cell['difference']:+.3f} (± {cell['standard_error_over_diagrams']:.3f}{over_seeds})"


def _sampling(found: Part) -> str:
    facts = (
        f"{found['diagrams']} diagrams at the mix of room counts of the training data, medians of "
        f"{found['repeats']} repeats, ratios as above; a model of {found['steps_trained']:,} "
        "training steps. "
        f"Quality of {found['num_samples']:,} samples against {found['num_reference']:,} held-out "
        "diagrams, with 95 % intervals over samples." + _product_rates(found)
    )
    head = [
        "sampling",
        "calls",
        *_speed_titles(found),
        "relation TV ↓",
        "valid, % ↑",
        "transitive, % ↑",
    ]
    rows = [
        [
            row["name"],
            f"{row['calls']:.1f}",
            *_speed(found, row),
            *(
                _interval(row[name], scale, digits)
                for name, scale, digits in (
                    ("relation_tv", 1, 4),
                    ("valid", 100, 1),
                    ("transitive", 100, 1),
                )
            ),
        ]
        for row in found["rows"]
    ]
    return f"{facts}\n\n{markdown_table(head, rows)}"


def _students(found: Part) -> str:
    facts = (
        f"{found['diagrams']} diagrams at the mix of room counts of the training data, medians of "
        f"{found['repeats']} repeats, ratios as above; `bd_small` and `bd_pair_small`, untrained."
        + _product_rates(found)
    )
    head = ["sampling", "calls", *_speed_titles(found)]
    rows = [[row["name"], f"{row['calls']:.1f}", *_speed(found, row)] for row in found["rows"]]
    return f"{facts}\n\n{markdown_table(head, rows)}"


def _cost(found: Part) -> str:
    rooms, length, batch, steps = (found[k] for k in ("rooms", "length", "batch", "steps"))
    names = ("training_step", "network_call")
    parts = [
        f"Rooms: batches of {rooms['batch']}; {_fits(rooms, names, 'n', '_fit')}; "
        f"{_fits(rooms, names, 'L', '_fit_in_tokens')}.",
        _seconds(["rooms", "tokens L"], [rooms["sizes"], rooms["tokens"]], rooms, names),
        f"Plain sequences through `dit`: batches of {length['batch']}; "
        f"{_fits(length, names, 'L', '_fit')}.",
        _seconds(["L"], [length["sizes"]], length, names),
        f"Batch: {batch['rooms']} rooms; {_fits(batch, names, 'B', '_fit')}.",
        _seconds(["batch"], [batch["sizes"]], batch, names),
        f"Network calls of first-hitting: {steps['batch']} diagrams of {steps['rooms']} rooms; "
        f"{_fits(steps, ('sampling',), 'calls', '_fit')}.",
        _seconds(["calls"], [steps["sizes"]], steps, ("sampling",)),
    ]
    return "\n\n".join(parts)


def _networks(found: Part) -> str:
    flat, pair = dict.fromkeys(row["network"] for row in found["rows"])
    cells = {
        (row["network"], row["rooms"], row["work"], row["bfloat16"]): row for row in found["rows"]
    }
    kinds = list(dict.fromkeys((row["work"], row["bfloat16"]) for row in found["rows"]))
    titles = [f"{work.replace('_', ' ')}, {'bfloat16' if b else 'float32'}" for work, b in kinds]
    rows = []
    for rooms in dict.fromkeys(row["rooms"] for row in found["rows"]):
        line = [str(rooms), str(cells[flat, rooms, *kinds[0]]["batch"])]
        for kind in kinds:
            ratio = cells[pair, rooms, *kind]["per_cpu_second_ratio"]
            times = [1 / ratio[key] for key in ("median", "high", "low")]
            line.append("{:.2f} ({:.2f} to {:.2f})".format(*times))
        rows.append(line)
    fits = {(fit["network"], fit["work"], fit["bfloat16"]): fit for fit in found["fits"]}
    for network in (flat, pair):
        powers = [f"n^{fits[network, *kind]['exponent']:.2f}" for kind in kinds]
        rows.append([f"`{network}`", "fit", *powers])
    facts = (
        f"CPU-seconds per diagram of `{pair}` over those of `{flat}`: medians of "
        f"{found['repeats']} repeats with the lowest and the highest, and powers of the number of "
        "rooms n fitted to the seconds per diagram of each."
    )
    return f"{facts}\n\n{markdown_table(['rooms', 'batch', *titles], rows)}"


def _fits(found: Part, names: Sequence[str], symbol: str, suffix: str) -> str:
    words = []
    for name in names:
        fit = found[f"{name}{suffix}"]
        power = f"{symbol}^({fit['exponent']:.2f} ± {fit['standard_error']:.2f})"
        words.append(f"{name.replace('_', ' ')} ~ {power}")
    return ", ".join(words)


def _seconds(
    titles: Sequence[str], sizes: Sequence[Sequence[float]], found: Part, names: Sequence[str]
) -> str:
    head = list(titles)
    for name in names:
        head += [f"{name.replace('_', ' ')}, CPU-ms", "ms"]
    rows = []
    for k in range(len(sizes[0])):
        row = [f"{size[k]:.0f}" for size in sizes]
        for name in names:
            row += [f"{1000 * found[name][k][clock]:.1f}" for clock in ("cpu_seconds", "seconds")]
        rows.append(row)
    return markdown_table(head, rows, left=0)


SPEED = ("diagrams per CPU-second", "ratio", "diagrams per second", "ratio")


def _speed_titles(found: Part) -> list[str]:
    """Of the columns of ``_speed``; measurements from before the share was taken have none."""
    return [*SPEED, *(["of the product rate, %"] if "product_rate" in found else [])]


def _speed(found: Part, row: Part) -> list[str]:
    out = []
    for clock in ("per_cpu_second", "per_second"):
        ratio = row[f"{clock}_ratio"]
        words = f"{ratio['median']:.2f} ({ratio['low']:.2f} to {ratio['high']:.2f})"
        rate = row[clock]
        out += [f"{rate:,.0f}" if rate >= 100 else f"{rate:.1f}", words]
    if "product_rate" in found:
        share = row.get("share_of_products")
        out.append("–" if share is None else f"{100 * share:.0f}")
    return out


def _product_rates(found: Part) -> str:
    """What the shares of the product rate are of."""
    rates = found.get("product_rate", {})
    said = " and ".join(f"{rate / 1e9:,.0f} GFLOP/s in {name}" for name, rate in rates.items())
    of = "Products of square matrices of 1,024 rows reach"
    return (
        f" {of} {said}; the share of the product rate is of that, counting matrix products alone."
        if said
        else ""
    )


def _interval(values: Sequence[float], scale: float, digits: int) -> str:
    middle, low, high = (f"{scale * value:.{digits}f}" for value in values)
    return f"{middle} ({low} to {high})"
