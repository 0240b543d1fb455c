"""The kinds of data of ``docs/extend.md``, and the layouts of those of the package."""

from __future__ import annotations

import importlib
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from omegaconf import OmegaConf

from discrete_diffusion import load
from discrete_diffusion.cli import compose, main
from discrete_diffusion.config import plugins
from discrete_diffusion.data.graph_tokens import decode_graphs
from discrete_diffusion.domains import build_layout, complete_data, domain_of
from discrete_diffusion.domains import registry as domains
from discrete_diffusion.layout import RPLAN_VOCAB_CONFIG
from fake_packages import forget_imports
from guide_code import DOCS, EXAMPLES, blocks

PAGE, EXAMPLE = "extend.md", EXAMPLES / "toy_brackets"
TINY = ("debug=smoke", "data.num_strings=300")


def words_of(command: str, num: int = 0) -> list[str]:
    """The words of a command of the page, to be finished in seconds."""
    (console,) = blocks(PAGE, "console")
    lines = [line for line in console.splitlines() if line.split()[2] == command]
    words = lines[num].split()[2:]
    words = [w for w in words if not w.startswith("trainer.max_steps=")]
    return ["num_samples=8" if w.startswith("num_samples=") else w for w in words]


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Path:
    """The package, installed into a folder of its own."""
    project, site = tmp_path_factory.mktemp("project"), tmp_path_factory.mktemp("site")
    shutil.copytree(EXAMPLE, project, dirs_exist_ok=True)
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
        patch.setattr(domains, "_DOMAINS", dict(domains._DOMAINS))
        patch.setattr(plugins, "_LOADED", set(plugins._LOADED))
        importlib.invalidate_caches()
        main([*words_of("train"), *TINY])
        yield work
        forget_imports(installed)


def strings_in(folder: Path) -> list[str]:
    return (folder / "samples.txt").read_text().splitlines()


@pytest.mark.slow
def test_training_and_loading(folder):
    metrics = json.loads((folder / "run" / "metrics.json").read_text())
    assert 0 <= metrics["closed"] <= 1
    assert len(strings_in(folder / "run")) == 8
    algorithm = load(folder / "run")
    assert (algorithm.layout.length, algorithm.layout.vocab_size) == (12, 6)
    drawn = algorithm.sample(num=3, seed=1)
    assert {*"".join(drawn)} <= {*"()[]"}
    scores = algorithm.log_prob(drawn, "left-to-right")
    assert scores.shape == (3,)
    assert bool((scores < 0).all())
    with pytest.raises(ValueError, match=r"'\(x' is not 1 to 12 of"):
        algorithm.log_prob(["()", "(x"], "left-to-right")
    with pytest.raises(ValueError, match=r"sample 1, position 1 \(token\): id -1 is not legal"):
        algorithm.log_prob(["()", "(_"], "left-to-right")


@pytest.mark.slow
def test_sampling(folder):
    main(words_of("sample"))
    assert len(strings_in(folder / "samples")) == 8


@pytest.mark.slow
def test_samples_whose_data_cannot_be_read_are_written(folder, monkeypatch, capsys):
    def build(domain, data):
        raise ValueError("brackets are out")

    monkeypatch.setattr(type(domains.get_domain("toy_brackets")), "build", build)
    main([*words_of("sample"), "out=unmeasured"])
    assert len(strings_in(folder / "unmeasured")) == 8
    assert "brackets are out): the samples are written and not measured" in capsys.readouterr().out
    assert "closed" not in json.loads((folder / "unmeasured" / "metrics.json").read_text())


@pytest.mark.slow
def test_an_option_of_its_own(folder, capsys):
    main([*words_of("sample"), "num_letters=3", "out=three"])
    found = strings_in(folder / "three")
    assert {len(text) for text in found} == {3}
    drawn = load(folder / "run" / "checkpoints" / "best.ckpt").sample(num=len(found), letters=3)
    assert drawn == found
    for asked, said in (("num_letters=0", "at least 1"), ("num_letters=13", "at most 12")):
        with pytest.raises(SystemExit):
            main([*words_of("sample"), asked, "overwrite=true"])
        assert asked in (error := capsys.readouterr().err)
        assert said in error
    main(["sample", "--help"])
    assert re.search(r"num_letters.*of each string", capsys.readouterr().out)


@pytest.mark.slow
def test_completing_keeps_what_is_given(folder, capsys):
    partial = "([__)_\n"
    assert f"such as `{partial.strip()}`" in (DOCS / PAGE).read_text()
    (folder / "partial.txt").write_text(partial)
    words = words_of("sample", 1)
    main(words)
    completed = strings_in(folder / "completed")
    assert len(completed) == 2
    for text in completed:
        assert re.fullmatch(re.escape(partial.strip()).replace("_", "."), text)

    drawn = load(folder / "run" / "checkpoints" / "best.ckpt").sample(
        given=["([__)_"], num_completions=2
    )
    assert sorted(drawn) == sorted(completed)
    (folder / "partial.txt").write_text("(_\n(x\n")
    for asked, said in (
        (words, "partial.txt, line 2: "),
        ([*words, "num_samples=3"], "did you mean num_completions=3"),
        ([*words, "num_letters=3"], "a given sample says how large it is; leave it out"),
        ([*words, "num_atoms=3"], "was not trained on molecules; leave it out"),
    ):
        with pytest.raises(SystemExit):
            main([*asked, "overwrite=true"])
        assert said in capsys.readouterr().err


@pytest.mark.slow
def test_evaluating_measures_samples_beside_real_ones(folder, capsys):
    short = ["time_bins=2", "noise_samples=1", "num_held_out=4", "num_orders=2"]
    main([*words_of("evaluate"), "likelihood_order=left-to-right", *short])
    metrics = json.loads((folder / "evaluation" / "metrics.json").read_text())
    assert metrics["num_samples"] == 8
    assert metrics["closed_real_data"] == 1.0
    assert metrics["nelbo_plain"] > 0
    assert any("likelihood" in key for key in metrics)
    assert len(strings_in(folder / "evaluation")) == 8
    assert (folder / "evaluation" / "calibration.png").is_file()
    assert re.search(r"closed +\d\.\d+ ± \d\.\d+ +1\.0000", capsys.readouterr().out)


@pytest.mark.slow
def test_comparing_two_algorithms(folder):
    small = ["num_held_out=20", "noise_samples=1", "eval.num_samples=8"]
    main([*words_of("compare"), *TINY, *small])
    results = json.loads((folder / "compared" / "results.json").read_text())
    assert [row["algorithm"] for row in results["models"]] == ["mdlm", "ar"]
    assert {row["backbone"] for row in results["models"]} == {"dit"}
    assert results["real_data"]["metrics"]["closed"] == 1.0
    assert "closed" in (folder / "compared" / "table.md").read_text()


@pytest.mark.slow
def test_it_is_listed_and_its_command_runs(folder, capsys):
    main(words_of("list"))
    assert re.search(r"toy_brackets +Strings of brackets", capsys.readouterr().out)
    main(words_of("data"))
    assert len(capsys.readouterr().out.splitlines()) == 5
    main(["data", "--help"])
    assert "data toy_brackets [--num N]" in capsys.readouterr().out


def test_a_key_that_a_data_set_does_not_have_is_refused(folder):
    with pytest.raises(ValueError, match=r"^unknown key of data=toy_brackets 'lengths'.*'length'"):
        compose("train", ["data=toy_brackets", "+data.lengths=3"])
    with pytest.raises(ValueError, match=r"of data=bubble_diagrams 'alphabet'.*extend"):
        compose("train", ["+data.alphabet=[single,double]"])


def test_a_misspelt_name_is_told_the_one_of_the_package(folder, capsys):
    with pytest.raises(SystemExit):
        main(["train", "data=toy_bracket"])
    assert (
        "unknown data choice 'toy_bracket'; did you mean 'toy_brackets'?" in capsys.readouterr().err
    )


def test_the_rule_gives_what_is_measured_as_right(folder):
    from toy_brackets import strings

    made = list(strings.generate(200, 12, seed=1))
    assert all(map(strings.is_closed, made))
    assert {len(text) for text in made} == {2, 4, 6, 8, 10, 12}
    assert [strings.is_closed(text) for text in ("([])()", "([)]", "(", ")(")] == [
        True,
        *[False] * 3,
    ]
    tokens = strings.encode(made, 12)
    assert strings.decode(tokens) == made
    config = complete_data(compose("train", ["data=toy_brackets"]))
    build_layout(config.data).check(tokens)
    assert domain_of(config.data).name == "toy_brackets"


@pytest.mark.slow
@pytest.mark.usefixtures("clean_registry")
@pytest.mark.parametrize("backbone", ["bd-denoiser", "bd-denoiser-pair", "dit"])
def test_the_graphs_are_trained_and_sampled(backbone, tmp_path, monkeypatch):
    folder = EXAMPLES / "toy_trees"
    monkeypatch.setattr(domains, "_DOMAINS", dict(domains._DOMAINS))
    monkeypatch.setattr(plugins, "_LOADED", set(plugins._LOADED))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(folder)
    words = ["plugins=[toy_trees]", "--config-dir", str(folder / "my_configs"), "data=toy_trees"]
    try:
        main(["train", *words, f"algo.backbone={backbone}", "debug=smoke", "hydra.run.dir=run"])
        toy_trees = importlib.import_module("toy_trees")
        assert 0 <= json.loads(Path("run/metrics.json").read_text())["share_of_trees"] <= 1
        assert Path("run/samples.json").is_file()
        model = load("run", plugins=["toy_trees"])
        assert (model.layout.length, model.layout.vocab_size) == (7 + 21, 3 + 4)
        info = torch.load("run/checkpoints/last.ckpt", weights_only=True)["discrete_diffusion"]
        assert info["vocabulary"]["edge_types"] == ["edge", "none"]
        assert {len(graph.nodes) for graph in model.sample(num=20)} <= {*range(2, 8)}
        data = toy_trees.Trees().build(OmegaConf.load(folder / "my_configs/data/toy_trees.yaml"))
        assert all(map(toy_trees.is_tree, decode_graphs(data.splits["train"].x0, data.vocab)))
    finally:
        forget_imports(folder)


def test_n_max_gives_the_layout_of_a_graph():
    layout = build_layout(
        OmegaConf.create({"domain": "bubble_diagrams", "max_nodes": 8, "batch_size": 3})
    )
    assert (layout.length, layout.vocab_size, layout.mask_id, layout.pad_id) == (36, 28, 13, 14)
    assert torch.equal(layout.support, RPLAN_VOCAB_CONFIG.layout().support)


@pytest.mark.parametrize("pad_id", [None, 4])
def test_plain_sequences(pad_id):
    keys = {"domain": "text", "length": 7, "vocab_size": 6, "mask_id": 5, "pad_id": pad_id}
    layout = build_layout(keys)
    assert (layout.length, layout.vocab_size, layout.mask_id, layout.pad_id) == (7, 6, 5, pad_id)


def test_missing_keys_are_named():
    with pytest.raises(
        ValueError, match=r"^data\.mask_id is not set; plain sequences need data\.length"
    ):
        build_layout({"domain": "text", "length": 7, "vocab_size": 6})


def test_a_config_that_names_no_domain_is_refused_with_those_there_are():
    with pytest.raises(ValueError, match=r"^data\.domain is not set .*bubble_diagrams, .*text"):
        build_layout({"name": "words", "length": 7, "vocab_size": 6, "mask_id": 5})
    with pytest.raises(ValueError, match=r"unknown domain 'txt'; did you mean 'text'"):
        build_layout({"domain": "txt"})
