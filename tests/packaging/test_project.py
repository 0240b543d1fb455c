"""The project around the code: what the README says is so, and the pieces agree."""

from __future__ import annotations

import argparse
import json
import re
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import discrete_diffusion
from discrete_diffusion.cli import config_dir
from discrete_diffusion.cli.compose import complete_overrides, with_open_keys
from discrete_diffusion.domains.bubble_diagrams import read_partials
from discrete_diffusion.domains.bubble_diagrams.commands.data_commands import COMMANDS

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


def test_version_is_the_installed_one():
    assert version("discrete-diffusion") == discrete_diffusion.__version__
    assert discrete_diffusion.__version__ in (ROOT / "CHANGELOG.md").read_text()


def test_constraints_pin_every_dependency_inside_its_range():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    of_users = [
        *project["dependencies"],
        *(wanted for name in extras if name != "dev" for wanted in extras[name]),
    ]
    wanted = [Requirement(r) for r in of_users]
    wanted += [Requirement(r) for r in extras["dev"] if not r.startswith("discrete-diffusion")]
    pins = [Requirement(line) for line in (ROOT / "constraints.txt").read_text().split()]
    pinned = {canonicalize_name(pin.name): str(pin.specifier)[2:] for pin in pins}
    for requirement in wanted:
        assert requirement.specifier.contains(pinned[canonicalize_name(requirement.name)])


def test_files_and_folders_the_documents_name_exist():
    for page in (ROOT / "README.md", *(ROOT / "docs").glob("*.md")):
        for link in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
            if not link.startswith("http"):
                assert (page.parent / link).exists(), f"{page.name} links to {link}"


def test_commands_of_the_documents_compose():
    """Every ``discrete-diffusion COMMAND key=value ...`` line is a config that composes."""
    pages = [README, *(page.read_text() for page in (ROOT / "docs").glob("*.md"))]
    pattern = r"^discrete-diffusion (train|sample|evaluate|compare) ((?:.*\\\n)*.*)$"
    commands = [found for page in pages for found in re.findall(pattern, page, flags=re.MULTILINE)]
    assert {command for command, _ in commands} == {"train", "sample", "evaluate", "compare"}
    distinct = set()
    for command, line in commands:
        words = line.replace("\\\n", " ").split("#")[0].split()
        own = any(word.startswith("plugins=") for word in words)  # a reader's own module
        if not own and not {"--config-dir", "-m"} & set(words):  # own folder; values of a sweep
            distinct.add((command, *(w for w in words if "=" in w and not w.startswith("hydra"))))
    for command, *overrides in sorted(distinct):
        complete_overrides(command, with_open_keys(command, overrides))


def test_the_demo_ends_with_commands_that_can_be_typed():
    pattern = r'@echo "  \$\(BIN\)/discrete-diffusion (\w+) (.*)"'
    printed = re.findall(pattern, (ROOT / "Makefile").read_text())
    assert len(printed) == 4
    (realise,) = [words.split() for command, words in printed if command == "plans"]
    parser = argparse.ArgumentParser()
    COMMANDS[realise[0]].add_options(parser)
    known = {word for action in parser._actions for word in action.option_strings}
    for word in realise[2:]:
        assert f"--{word.partition('=')[0].replace('_', '-')}" in known
    for command, words in [each for each in printed if each[0] != "plans"]:
        overrides = words.replace("$(DEMO)", "demo").split()
        complete_overrides(command, with_open_keys(command, overrides))
        for file in (word.removeprefix("given=") for word in overrides if "given=" in word):
            assert read_partials(ROOT / file)


def test_the_readme_shows_a_line_of_its_example():
    (shown,) = re.findall(r"```json\n(.*?)```", README, flags=re.DOTALL)
    assert (ROOT / "examples" / "partial.jsonl").read_text().startswith(shown)


def test_settings_that_troubleshooting_names_exist():
    page = (ROOT / "docs" / "troubleshooting.md").read_text()
    settings = re.findall(r"`([a-z_]+\.[a-z_.]+=[^` ]+)`", page)
    assert len(settings) >= 6
    for setting in settings:
        if not setting.endswith(("=abc", "=mps")):
            complete_overrides("train", ["data=plans", setting])


@pytest.mark.parametrize("page", ["README.md", "docs/features.md"])
def test_python_of_the_documents_is_python(page):
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), flags=re.DOTALL)
    assert blocks
    for block in blocks:
        compile(block, page, "exec")


RESULTS = sorted((ROOT / "benchmarks" / "results").glob("*.json"))


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_results_say_where_they_come_from(path):
    record = json.loads(path.read_text())
    assert set(record) == {"command", "seed", "hardware", "results"}
    assert (ROOT / record["command"].split()[1]).is_file()


def mean_of(cells: list[dict], sampling: dict) -> dict[str, float]:
    """Calls and transitivity over the sampling seeds of one sampler, at no number of steps."""
    seeds = [c for c in cells if c["sampling"] == sampling and c["steps"] is None]
    assert len(seeds) == 5
    return {key: sum(c[key] for c in seeds) / 5 for key in ("calls", "transitive")}


def test_numbers_of_the_readme_come_from_the_results():
    folder = ROOT / "benchmarks" / "results"
    demo = json.loads((folder / "demo.json").read_text())["results"]
    real = json.loads((folder / "real_plans.json").read_text())["results"]
    quality = json.loads((folder / "quality.json").read_text())["results"]["bd-denoiser-pair"]
    samples = quality["evaluation"]
    pair, flat = (real["networks"][name] for name in ("bd-denoiser-pair", "bd-denoiser"))
    worst, best = (100 * f(run["valid"] for run in demo) for f in (min, max))
    cells = json.loads((folder / "samplers.json").read_text())["results"]["cells"]
    runs = json.loads((folder / "unbuildable.json").read_text())["results"]
    built = {name: f"{100 * run['buildable']:.1f} %" for name, run in runs.items()}
    assert {run["num"] for run in runs.values()} == {300}
    exact = mean_of(cells, {"name": "first-hitting"})
    bounded = mean_of(cells, {"name": "entropy-bounded", "budget": 1.2, "order": "random"})
    quoted = [
        f"{worst:.1f}–{best:.1f} %",
        f"{min(run['seconds'] for run in demo) / 60:.1f}–"
        f"{max(run['seconds'] for run in demo) / 60:.1f} minutes",
        f"| {pair['nelbo_unordered_mean']:.1f} |",
        f"| {flat['nelbo_unordered_mean']:.1f} |",
        f"| {pair['runs'][0]['nelbo_blind']:.1f} |",
        f"| {pair['runs'][0]['nelbo_uniform']:.1f} |",
        real["train"].replace(" trainer.precision=bf16-mixed", ""),
        f"{quality['training']['cpu_seconds'] / 60:.0f} CPU-minutes of training",
        f"{100 * samples['valid']:.1f} % are valid",
        f"{100 * samples['transitive']:.1f} % transitive",
        f"{built['demo']} of 300 samples of one seed",
        f"{built['real plans recipe, pair network']} and "
        f"{built['half-hour recipe, pair network']} of 300 samples of these two are buildable",
        f"{samples['edges_per_diagram']:.2f} relations each",
        f"{bounded['calls']:.1f} calls instead of {exact['calls']:.1f}",
        f"{100 * bounded['transitive']:.1f} % instead\nof {100 * exact['transitive']:.1f} % trans",
    ]
    speed = json.loads((folder / "speed.json").read_text())["results"]
    ratios = {
        (part, row["name"]): row["per_cpu_second_ratio"]["median"]
        for part in ("training", "sampling")
        for row in speed[part]["found"]["rows"]
    }
    quoted += [
        f"trains {ratios['training', '+ its linear layers: float32 as shipped']:.1f} times",
        f"{ratios['training', '+ bfloat16: trainer.precision=bf16-mixed']:.1f} times in bfloat16",
        f"samples {ratios['sampling', 'first-hitting, steps=12, bfloat16']:.1f} times",
        f"{ratios['sampling', 'entropy-bounded, bfloat16']:.1f} times with `entropy-bounded`",
    ]
    assert_says("README.md", quoted)


def test_numbers_of_other_data_come_from_the_results():
    folder = ROOT / "benchmarks" / "results"
    regions = json.loads((folder / "regions.json").read_text())["results"]
    r = [run["test"]["per_motif_r"] for run in regions["recipe"]]
    around = regions["baselines"]["accessibility measured"]
    assert max(run["cpu_seconds"] for run in regions["recipe"]) < 66  # "a minute"
    features = [
        f"hidden scores is {sum(r) / len(r):.3f}; the mean of the neighbours has "
        f"{around['neighbour_mean_per_motif_r']:.3f}, and knowing the\ntrue programme of every "
        f"region {around['oracle_per_motif_r']:.3f}",
    ]
    eit = json.loads((folder / "eit.json").read_text())["results"]["recipes"]
    fields, ids = eit["fields"], eit["ids"]
    assert max(run["cpu_seconds"] for run in (fields, ids)) < 1500  # "less than half an hour"
    images = [
        f"the mean of 8 draws is {fields['test']['relative_l2']:.3f} by flow matching and "
        f"{ids['test']['relative_l2']:.3f} by MDLM on ids, where ridge",
        f"regression has {fields['test']['ridge_relative_l2']:.3f} and the mean image "
        f"{fields['test']['mean_image_relative_l2']:.3f}",
    ]
    runs = json.loads((folder / "dialogue.json").read_text())["results"]["runs"]
    recipe = [run for run in runs if run["name"] == "as the recipe"]
    assert max(run["cpu_seconds"] for run in recipe) < 300  # "less than five minutes"
    exact = [100 * run["test"]["exact_match"] for run in recipe]
    summaries = [
        f"{min(exact):.1f}–{max(exact):.1f} % of the summaries are the reference",
        f"ROUGE-L is at least {min(run['test']['rouge_l'] for run in recipe):.3f} where",
        f"another dialogue is {recipe[0]['test']['another_rouge_l']:.3f}",
    ]
    assert_says("docs/features.md", features)
    assert_says("docs/fields.md", images)
    assert_says("docs/dialogue.md", summaries)


def assert_says(page: str, quoted: list[str]) -> None:
    text = (ROOT / page).read_text()
    for quote in quoted:
        assert quote in text, f"{page} does not say {quote}"


def test_the_readme_is_short():
    assert len(README.splitlines()) <= 150


def test_configs_are_found_in_a_checkout():
    assert (config_dir() / "train.yaml").is_file()


def test_the_project_speaks_of_itself_alone():
    """No machine paths in what is shipped."""
    for folder in ("src", "configs", "docs", "benchmarks"):
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in (".py", ".yaml", ".md", ".json"):
                assert not re.search(r"(?<![\w.])/(home|root|work|tmp)/", path.read_text()), path
