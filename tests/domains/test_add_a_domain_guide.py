"""``docs/add_a_domain.md`` does what it says: its package is installed, and every command runs."""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hydra.core.plugins import Plugins
from hydra.core.singleton import Singleton

from discrete_diffusion import domains, load
from discrete_diffusion.cli import compose, main
from discrete_diffusion.config import plugins
from discrete_diffusion.data.graph_tokens import encode_graphs
from discrete_diffusion.domains import build_layout, complete_data, domain_of
from fake_packages import forget_imports
from guide_code import blocks

PAGE = "add_a_domain.md"
LANGUAGES = ("toml", "python", "yaml")
TINY = ("debug=default", "data.num_molecules=300")


def files_of_the_page() -> dict[str, str]:
    """The blocks that begin with a comment that is a file's name."""
    found = [code for language in LANGUAGES for code in blocks(PAGE, language)]
    return {match[1]: code for code in found if (match := re.match(r"# (\S+)\n", code))}


def words_of(command: str, num: int = 0) -> list[str]:
    """The words of a command of the page, to be finished in seconds."""
    (console,) = blocks(PAGE, "console")
    lines = [line for line in console.splitlines() if line.split()[2] == command]
    words = lines[num].split()[2:]
    words = [w for w in words if not w.startswith("trainer.max_steps=")]
    return ["num_samples=8" if w.startswith("num_samples=") else w for w in words]


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Path:
    """The package of the page, installed into a folder of its own."""
    project, site = tmp_path_factory.mktemp("project"), tmp_path_factory.mktemp("site")
    for name, code in files_of_the_page().items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(code)
    for folder in ("toy_molecules", "toy_molecules/configs"):
        (project / folder / "__init__.py").touch()
    offline = ["--no-index", "--no-deps", "--no-build-isolation", "--disable-pip-version-check"]
    subprocess.run(
        [sys.executable, "-m", "pip", "install", *offline, "--target", site, project],
        check=True,
        capture_output=True,
    )
    return site


@pytest.fixture(scope="module")
def folder(installed, tmp_path_factory):
    """A folder in which the package is there and a model is trained; nothing of it stays."""
    with pytest.MonkeyPatch.context() as patch:
        work = tmp_path_factory.mktemp("work")
        patch.chdir(work)
        patch.setattr(sys, "path", [str(installed), *sys.path])
        for name in domains._BUILT_IN:  # each registers once, when its module is imported
            domains.get_domain(name)
        patch.setattr(domains, "_DOMAINS", dict(domains._DOMAINS))
        patch.setattr(plugins, "_LOADED", set(plugins._LOADED))
        importlib.invalidate_caches()
        Singleton._instances.pop(Plugins, None)  # Hydra looks for plug-ins anew
        main([*words_of("train"), *TINY])
        yield work
        forget_imports(installed)
    Singleton._instances.pop(Plugins, None)


def molecules_in(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.slow
def test_training_and_loading(folder):
    metrics = json.loads((folder / "run" / "metrics.json").read_text())
    assert 0 <= metrics["connected"] <= 1
    assert len(molecules_in(folder / "run" / "samples.jsonl")) == 8
    assert (folder / "run" / "samples.png").is_file()
    checkpoint = folder / "run" / "checkpoints" / "last.ckpt"
    algorithm = load(checkpoint)
    assert (algorithm.layout.length, algorithm.layout.vocab_size) == (6 + 15, 5 + 5)
    assert algorithm.backbone.denoiser.vocab_config.node_types == ("C", "N", "O")
    info = torch.load(checkpoint, weights_only=True)["discrete_diffusion"]
    assert info["vocabulary"]["edge_types"] == ["single", "double", "none"]


@pytest.mark.slow
def test_sampling(folder):
    main(words_of("sample"))
    assert len(molecules_in(folder / "samples" / "samples.jsonl")) == 8
    assert (folder / "samples" / "samples.png").is_file()


@pytest.mark.slow
def test_an_option_of_its_own(folder, capsys):
    main([*words_of("sample"), "num_atoms=3", "out=three"])
    found = molecules_in(folder / "three" / "samples.jsonl")
    assert {len(molecule["atoms"]) for molecule in found} == {3}
    drawn = load(folder / "run" / "checkpoints" / "best.ckpt").sample(num=len(found), atoms=3)
    assert drawn == found
    for asked, said in (("num_atoms=0", "at least 1"), ("num_atoms=7", "at most 6")):
        with pytest.raises(SystemExit):
            main([*words_of("sample"), asked, "overwrite=true"])
        assert asked in (error := capsys.readouterr().err)
        assert said in error
    main(["sample", "--help"])
    assert re.search(r"num_atoms.*of every molecule", capsys.readouterr().out)


@pytest.mark.slow
def test_completing_keeps_what_is_given(folder, capsys):
    (partial,) = blocks(PAGE, "json")
    (folder / "partial.jsonl").write_text(partial)
    words = words_of("sample", 1)
    main(words)
    completed = molecules_in(folder / "completed" / "samples.jsonl")
    assert len(completed) == 2
    for molecule in completed:
        assert [molecule["atoms"][k] for k in (0, 1, 3)] == ["C", "O", "N"]
        assert [0, 1, "double"] in molecule["bonds"]
        assert not any(bond[:2] == [1, 2] for bond in molecule["bonds"])

    (folder / "partial.jsonl").write_text('{"atoms": ["C", "X"]}\n')
    for asked, said in (
        (words, "partial.jsonl, line 1: "),
        ([*words, "num_samples=3"], "did you mean completions=3"),
        ([*words, "num_rooms=3"], "was not trained on diagrams; leave it out"),
    ):
        with pytest.raises(SystemExit):
            main([*asked, "overwrite=true"])
        assert said in capsys.readouterr().err


@pytest.mark.slow
def test_evaluating_measures_samples_beside_real_ones(folder, capsys):
    main([*words_of("evaluate"), "time_bins=2", "bound_draws=1"])
    metrics = json.loads((folder / "evaluation" / "metrics.json").read_text())
    assert metrics["num_samples"] == 8
    assert metrics["connected_real_data"] == metrics["valence_kept_real_data"] == 1.0
    assert metrics["nelbo_ordered_fixed"] > 0
    assert len(molecules_in(folder / "evaluation" / "samples.jsonl")) == 8
    assert (folder / "evaluation" / "calibration.png").is_file()
    table = capsys.readouterr().out
    assert re.search(r"valence_kept +\d\.\d+ ± \d\.\d+ +1\.0000", table)
    assert "calibration_error_node" in table


@pytest.mark.slow
def test_comparing_takes_the_backbone_of_graphs(folder):
    small = ["bound_samples=20", "bound_draws=1", "eval.num_samples=8"]
    main([*words_of("compare"), *TINY, *small])
    results = json.loads((folder / "compared" / "results.json").read_text())
    assert [row["algorithm"] for row in results["models"]] == ["mdlm", "udlm"]
    assert {row["backbone"] for row in results["models"]} == {"bd-denoiser"}
    assert results["real_data"]["metrics"]["valence_kept"] == 1.0
    assert "valence kept" in (folder / "compared" / "table.md").read_text()


@pytest.mark.slow
def test_it_is_listed_and_its_command_runs(folder, capsys):
    main(words_of("list"))
    assert re.search(r"toy_molecules +Small molecules: atoms", capsys.readouterr().out)
    main(words_of("data"))
    assert len(capsys.readouterr().out.splitlines()) == 5
    main(["data", "--help"])
    assert "data toy_molecules [--num N]" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("backbone", ["bd-denoiser-pair", "dit"])
def test_other_backbones_read_it(folder, backbone):
    main(
        [
            "train",
            "data=toy_molecules",
            f"algo.backbone={backbone}",
            *TINY,
            f"hydra.run.dir={backbone}",
        ]
    )
    assert (folder / backbone / "checkpoints" / "last.ckpt").is_file()


def test_a_key_that_a_data_set_does_not_have_is_refused(folder):
    with pytest.raises(ValueError, match=r"^unknown key of data=toy_molecules 'n_maxx'.*'n_max'"):
        compose("train", ["data=toy_molecules", "+data.n_maxx=3"])
    with pytest.raises(ValueError, match=r"of data=bubble_diagrams 'edge_types'.*add_a_domain"):
        compose("train", ["+data.edge_types=[single,double]"])


def test_a_misspelt_name_is_told_the_one_of_the_package(folder, capsys):
    with pytest.raises(SystemExit):
        main(["train", "data=toy_molecule"])
    assert (
        "unknown data choice 'toy_molecule'; did you mean 'toy_molecules'?"
        in capsys.readouterr().err
    )


def test_the_rule_gives_what_is_measured_as_right(folder):
    from toy_molecules import graphs

    vocab = graphs.vocabulary(6)
    made = list(graphs.generate(200, 6, seed=1))
    assert graphs.measure(made) == {"connected": 1.0, "valence_kept": 1.0}
    tokens = encode_graphs(list(map(graphs.as_types, made)), vocab).x0
    assert [sorted(m["bonds"]) for m in made] == [m["bonds"] for m in graphs.decode(tokens, vocab)]
    config = complete_data(compose("train", ["data=toy_molecules"]))
    build_layout(config.data).check(tokens)
    assert domain_of(config.data).name == "toy_molecules"


STRINGS = """
domain: toy_strings
name: toy_strings
length: 4
vocab_size: 4
mask_id: 3
split: [0.8, 0.1, 0.1]
batch_size: 32
"""


@pytest.mark.slow
def test_the_sequences_of_the_page_are_trained_drawn_and_scored(tmp_path, monkeypatch):
    """Its only block without the name of a file."""
    (code,) = [code for code in blocks(PAGE, "python") if not code.startswith("# ")]
    monkeypatch.setattr(domains, "_DOMAINS", dict(domains._DOMAINS))
    monkeypatch.chdir(tmp_path)
    exec(compile(code, PAGE, "exec"), {})
    path = tmp_path / "own" / "data" / "toy_strings.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(STRINGS)
    words = ["--config-dir", "own", "data=toy_strings", "algo.backbone=dit", "model=dit_tiny"]
    main(["train", *words, "debug=default", "eval.num_samples=2", "hydra.run.dir=run"])
    model = load("run")
    drawn = model.sample(num=3, seed=1)
    assert {len(text) for text in drawn} == {4}
    assert {*"".join(drawn)} <= {*"abc"}
    scores = model.log_prob(drawn, "left-to-right")
    assert scores.shape == (3,)
    assert bool((scores < 0).all())
    short = ["num_held_out=4", "bound_draws=1", "num_samples=2", "time_bins=2", "out=measured"]
    main(["evaluate", "checkpoint=run", "likelihood=left-to-right", "orders=2", *short])
    assert "likelihood" in (tmp_path / "measured" / "metrics.json").read_text()


def test_the_package_is_short():
    python = [code for name, code in files_of_the_page().items() if name.endswith(".py")]
    assert sum(len([x for x in code.splitlines() if x.strip()]) for code in python) < 200
