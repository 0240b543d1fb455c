"""Numbers in the sentences of README and docs are those of ``benchmarks/results``.

The report is compared by ``tests/benchmarks/test_results.py``.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "benchmarks" / "results"
RESULTS = sorted(FOLDER.glob("*.json"))


def results_of(name: str) -> Any:
    return json.loads((FOLDER / f"{name}.json").read_text())["results"]


def assert_says(page: str, quoted: list[str]) -> None:
    """Whatever the line breaks of the page."""
    text = " ".join((ROOT / page).read_text().split())
    for quote in quoted:
        assert quote in text, f"{page} does not say {quote}"


def share(value: float) -> str:
    return f"{100 * value:.1f} %"


def shares(runs: list[dict[str, float]], metric: str) -> str:
    """From the lowest to the highest of several runs."""
    values = [100 * run[metric] for run in runs]
    return f"{min(values):.1f}–{max(values):.1f} %"


def minutes(runs: list[dict[str, float]]) -> str:
    values = [run["seconds"] / 60 for run in runs]
    return f"{min(values):.1f}–{max(values):.1f} minutes"


def speed_ratios(part: str) -> dict[str, str]:
    rows = results_of("speed")[part]["found"]["rows"]
    return {row["name"]: f"{row['per_cpu_second_ratio']['median']:.1f} times" for row in rows}


def mean_of(cells: list[dict], sampling: dict) -> dict[str, float]:
    """Calls and transitivity over the sampling seeds of one sampler, at no number of steps."""
    seeds = [c for c in cells if c["sampling"] == sampling and c["steps"] is None]
    assert len(seeds) == 5
    return {key: sum(c[key] for c in seeds) / 5 for key in ("calls", "transitive")}


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_results_say_where_they_come_from(path):
    record = json.loads(path.read_text())
    keys = {"command", "seed", "hardware", "date", "commit", "tables", "results"}
    assert set(record) == keys
    assert (ROOT / record["command"].split()[1]).is_file()


def rows_of_the_readme() -> dict[str, tuple[str, str]]:
    """What the table of the README has to say: how each row begins, its number, its results."""
    demo, real = results_of("demo"), results_of("real_plans")
    assert len(demo) == 3
    pair, flat = (real["networks"][name] for name in ("bd-denoiser-pair", "bd-denoiser"))
    first = pair["runs"][0]
    quality = results_of("quality")["bd-denoiser-pair"]
    built = results_of("unbuildable")["half-hour recipe, pair network"]
    planned, in_eight = results_of("few_calls")["plans"]
    qm9 = results_of("standard_qm9")["`bd-denoiser-pair`"]
    training, sampling = speed_ratios("training"), speed_ratios("sampling")
    trained = f"after {quality['training']['cpu_seconds'] / 60:.0f} CPU-minutes of training"
    on_qm9 = f"QM9, after {qm9['training']['cpu_seconds'] / 60:.0f} CPU-minutes"
    return {
        "training of `make demo`, three seeds": (minutes(demo), "demo"),
        "its samples that are valid": (shares(demo, "valid"), "demo"),
        "real plans, NELBO of a held-out plan: `bd-denoiser-pair`": (
            f"{pair['nelbo_unordered_mean']:.1f} nats",
            "real_plans",
        ),
        "the same, `bd-denoiser`": (f"{flat['nelbo_unordered_mean']:.1f} nats", "real_plans"),
        "the same, blind": (f"{first['nelbo_blind']:.1f} nats", "real_plans"),
        "the same, untrained": (f"{first['nelbo_uniform']:.1f} nats", "real_plans"),
        f"generated plans, {trained}: valid": (share(quality["evaluation"]["valid"]), "quality"),
        f"the same: buildable, of {built['num']} samples": (
            share(built["buildable"]),
            "unbuildable",
        ),
        "plans in 8 network calls by `planned`: transitive": (
            share(planned["transitive"]),
            "few_calls",
        ),
        "the same by `first-hitting`, whose default is 27 calls": (
            share(in_eight["transitive"]),
            "few_calls",
        ),
        f"{on_qm9}: valid molecules": (share(qm9["evaluation"]["valid"]), "standard_qm9"),
        "the same: FCD to the test molecules": (f"{qm9['evaluation']['fcd']:.2f}", "standard_qm9"),
        "training, compared with a dense baseline of the same network": (
            training["+ its linear layers: float32 as shipped"] + " as fast",
            "speed",
        ),
        "sampling by `first-hitting`, compared with 100 steps of the same baseline": (
            sampling["first-hitting"] + " as fast",
            "speed",
        ),
    }


def test_the_table_of_the_readme_comes_from_the_results():
    readme = (ROOT / "README.md").read_text()
    rows = re.findall(r"^\| (.+?) \| (.+?) \| `(.+?)` \|$", readme, flags=re.MULTILINE)
    said = {what: (number, script) for what, number, script in rows}
    expected = {}
    for what, (number, name) in rows_of_the_readme().items():
        record = json.loads((FOLDER / f"{name}.json").read_text())
        assert re.match(r"AMD EPYC( \(.+?\))?, 2 cores", record["hardware"])  # as it says below
        expected[what] = (number, record["command"].split()[1])
    assert said == expected


def products_of_the_account() -> str:
    """Shares of the time that products take, of diagrams of eight rooms, as the page says them."""
    rows = results_of("speed")["account"]["found"]["rows"]
    low, high = {}, {}
    for name in ("float32", "bfloat16"):
        shares = [
            100 * row["shares"]["products"]
            for row in rows
            if (row["instructions"], row["nodes"], row["format"]) == ("all (AVX512)", 8, name)
        ]
        low[name], high[name] = f"{min(shares):.0f}", f"{max(shares):.0f}"
    return (
        f"{low['float32']} to {high['float32']} % of the time | "
        f"{low['bfloat16']} to {high['bfloat16']} % in bfloat16"
    )


def shares_of_the_product_rate() -> str:
    """Shares of the product rate that a training step reaches, of diagrams of eight rooms."""
    rows = results_of("speed")["account"]["found"]["rows"]
    flat, pair = (
        {
            row["format"]: f"{100 * row['share_of_products']:.0f} %"
            for row in rows
            if row["network"] == network
            and (row["instructions"], row["nodes"]) == ("all (AVX512)", 8)
            and row["work"] == "training_step"
        }
        for network in ("`bd-denoiser`", "`bd-denoiser-pair`")
    )
    return (
        f"| `bd_small` {flat['float32']}, `bd_pair_small` {pair['float32']} | "
        f"{flat['bfloat16']}, {pair['bfloat16']} in bfloat16 |"
    )


def test_numbers_of_speed_come_from_the_results():
    training, sampling = speed_ratios("training"), speed_ratios("sampling")
    students = speed_ratios("students")
    cells = results_of("samplers")["cells"]
    exact = mean_of(cells, {"name": "first-hitting"})
    bounded = mean_of(cells, {"name": "entropy-bounded", "entropy_budget": 1.2, "order": "random"})
    in_float32 = training["+ its linear layers: float32 as shipped"]
    in_bfloat16 = training["+ bfloat16: trainer.precision=bf16-mixed"]
    quoted = [
        f"to a dense baseline | {in_float32} | {in_bfloat16} in bfloat16 |",
        f"| {sampling['first-hitting']} by `first-hitting` | "
        f"{sampling['first-hitting, steps=12, bfloat16']} with `steps=12`, "
        f"{sampling['entropy-bounded, bfloat16']} with `entropy-bounded`, in bfloat16 |",
        f"| {students['flat network, 6 calls']} in six calls | "
        f"{students['flat network, 4 calls']} in four |",
        f"{bounded['calls']:.1f} calls instead of {exact['calls']:.1f} a diagram",
        f"at {share(bounded['transitive'])} instead of {share(exact['transitive'])} transitive",
    ]
    quoted += [products_of_the_account(), shares_of_the_product_rate()]
    assert_says("docs/scale.md", quoted)


def test_numbers_of_standard_sets_come_from_the_results():
    def first(name: str, network: str = "`bd-denoiser-pair`") -> dict[str, float]:
        return results_of(f"standard_{name}")[network]["evaluation"]

    qm9, gpu = first("qm9"), first("qm9", "`bd-denoiser-pair`, on a GPU")
    zinc, tree = first("zinc"), first("tree")
    quoted = [
        f"{share(qm9['valid'])} valid, FCD {qm9['fcd']:.2f}; on an H100 for six minutes "
        f"{share(gpu['valid'])}, {gpu['fcd']:.2f}",
        f"{share(zinc['valid'])} valid, FCD {zinc['fcd']:.2f} of {zinc['num_samples']:,}",
        f"{share(tree['valid_unique_novel'])} V.U.N. in "
        f"{tree['network_calls_per_sample']:,.0f} calls",
        f"mean MMD {first('community_small')['mmd_average']:.3f} |",
        f"mean MMD {first('ego_small')['mmd_average']:.3f}, as real data have",
    ]
    assert_says("docs/graphs_and_molecules.md", quoted)


def test_numbers_of_a_gpu_come_from_the_results():
    rows = {row["name"]: row for row in results_of("speed_cuda")["training"]["found"]["rows"]}
    tokens = {
        name: f"{round(one['tokens_per_second'], -3):,.0f}"
        for name, one in results_of("base_text_cuda")["algorithms"].items()
    }

    def rate(name: str) -> str:
        return f"{round(rows[name]['per_second'], -3):,.0f}"

    names = ("+ its linear layers: float32 as shipped", "+ bfloat16: trainer.precision=bf16-mixed")
    quoted = [
        f"{rate(names[0])} diagrams a second | {rate(names[1])} in bfloat16, "
        f"{rate('bfloat16 under Lightning, with EMA')} with Lightning and averages",
        f"{tokens['mdlm']} tokens a second with `mdlm`, {tokens['ar']} with `ar`, "
        f"{tokens['bd3lm']} with `bd3lm`",
    ]
    assert_says("docs/scale.md", quoted)


def test_numbers_of_other_data_come_from_the_results():
    regions = results_of("regions")
    r = [run["test"]["per_motif_r"] for run in regions["recipe"]]
    around = regions["baselines"]["accessibility measured"]
    assert max(run["cpu_seconds"] for run in regions["recipe"]) < 66  # "a minute"
    features = [
        f"hidden scores is {sum(r) / len(r):.3f}; the mean of the neighbours has "
        f"{around['neighbour_mean_per_motif_r']:.3f}, and knowing the true programme of every "
        f"region {around['oracle_per_motif_r']:.3f}",
    ]
    recipes = results_of("eit")["recipes"]
    fields, ids = recipes["fields"], recipes["ids"]
    assert max(run["cpu_seconds"] for run in (fields, ids)) < 1500  # "less than half an hour"
    images = [
        f"the mean of 8 draws is {fields['test']['relative_l2']:.3f} by flow matching and "
        f"{ids['test']['relative_l2']:.3f} by MDLM on ids.",
        f"Ridge regression has {fields['test']['ridge_relative_l2']:.3f} and the mean image "
        f"{fields['test']['mean_image_relative_l2']:.3f}",
    ]
    recipe = [run for run in results_of("dialogue")["runs"] if run["name"] == "as the recipe"]
    assert max(run["cpu_seconds"] for run in recipe) < 300  # "less than five minutes"
    exact = [100 * run["test"]["exact_match"] for run in recipe]
    summaries = [
        f"{min(exact):.1f}–{max(exact):.1f} % of the summaries are the reference",
        f"ROUGE-L is at least {min(run['test']['rouge_l'] for run in recipe):.3f};",
        f"another dialogue's summary scores {recipe[0]['test']['another_rouge_l']:.3f}",
    ]
    assert_says("docs/features.md", features)
    assert_says("docs/fields.md", images)
    assert_says("docs/dialogue.md", summaries)


def test_numbers_of_trees_in_few_calls_come_from_the_results():
    of_worlds = [
        row
        for world in ("trees", "order 1")
        for row in results_of("sampler_distances")["worlds"][world]["rows"]
        if row["name"] == "first-surprise" and not row["refused"]
    ]
    trees, letters = (f"{row['calls']:.0f}" for row in of_worlds)
    assert max(of_worlds[0]["distances"]["being a tree"]) < 1e-3  # as exact draws
    found = results_of("few_calls_trees")
    rows = {
        (row["sampler"], row.get("surprises", row["network_calls_per_sample"])): row
        for row in found["trees"]
    }

    def shown(row: dict[str, Any]) -> str:
        low, high = (100 * end for end in row["intervals"]["valid_unique_novel"])
        return f"{100 * row['valid_unique_novel']:.0f} % ({low:.0f} to {high:.0f})"

    surprise, one_each = rows["first-surprise", 0.5], rows["first-hitting", 2080]
    fewest, planned = rows["first-surprise", 0.9], rows["planned", 208]
    cheaper = [one_each["cpu_seconds"] / row["cpu_seconds"] for row in (surprise, fewest)]
    assert surprise["valid_unique_novel"] > one_each["valid_unique_novel"] - 0.05
    quoted = [
        f"{shown(surprise)} are valid, new and distinct, in "
        f"{surprise['network_calls_per_sample']:.0f} calls a graph. "
        f"One token a call makes {shown(one_each)}, at {cheaper[0]:.0f} times the CPU-seconds.",
        f"`surprises=0.9` makes {shown(fewest)} at 1/{cheaper[1]:.0f} of them, "
        f"`planned` in 208 calls {shown(planned)}.",
        f"`first-surprise` takes {trees}, and all its samples are trees.",
        f"{letters} calls for 128 letters",
    ]
    assert_says("docs/samplers.md", quoted)


def test_numbers_of_puzzles_come_from_the_results():
    found = results_of("puzzles")
    nine, free = found["Sudoku, 9x9, four fifths given"], found["Sudoku, 4x4, without clues"]
    four, hard = found["Sudoku, 4x4"], found["Sudoku, 9x9"]

    def row(part: dict[str, Any], name: str, steps: int | None = None) -> dict[str, Any]:
        return next(r for r in part["rows"] if (r["sampler"], r["steps"]) == (name, steps))

    names = ("first-hitting", "entropy", "margin", "confidence")
    shown = [(name, steps) for name in names for steps in (None, 4)]
    shown += [("entropy-bounded, 0.5 nats", None), ("planned", 4), ("dilated", 4)]
    quoted = []
    for name, steps in [*shown, ("left to right", None)]:
        one, other = row(nine, name, steps), row(free, name, steps)
        quoted.append(
            f"| `{name}` | {share(one['solved'])} | {one['calls']:.1f} | {share(other['solved'])} "
            f"| {other['calls']:.1f} | {other['distinct']} |"
        )
    assert max(each["solved"] for each in hard["rows"]) == 0  # "none is solved"
    assert max(part["training"]["cpu_seconds"] for part in found.values()) < 250  # "four minutes"
    different = 288 * (1 - (1 - 1 / 288) ** 500)  # standard deviation 5.1
    assert abs(free["controls"]["known solutions"]["distinct"] - different) < 4 * 5.1
    right = [row(hard, name)["right"] for name in ("confidence", "first-hitting")]
    quoted += [
        f"`confidence` solves {share(row(four, 'confidence', 2)['solved'])} in two calls and "
        f"`first-hitting` {share(row(four, 'first-hitting', 2)['solved'])}.",
        f"equally likely grids have {different:.0f} different ones in the mean, `288*",
        f"`confidence` gets {share(right[0])} of the open cells right, `first-hitting` "
        f"{share(right[1])}, a guess {share(hard['controls']['random']['right'])}.",
    ]
    assert_says("docs/puzzles.md", quoted)
