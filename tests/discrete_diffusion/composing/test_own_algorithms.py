"""A user's own YAMLs as the guide of backbones shows them: some keys, some sizes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from discrete_diffusion.algorithms import build_algorithm
from discrete_diffusion.cli import compose, main
from discrete_diffusion.domains import complete_data
from discrete_diffusion.models.registry import register_backbone

GUIDE = """hidden_size: 32
n_heads: 8
n_blocks: 1
dropout: 0.1
length: 1024
tie_word_embeddings: true
"""
QUICK = [
    *("threads=1", "logger=none", "trainer.max_steps=1", "trainer.val_check_interval=1"),
    *(
        "callbacks.num_samples=0",
        "eval.num_samples=0",
        "eval.noise_samples=1",
        "data.num_plans=100",
    ),
]


@pytest.fixture(autouse=True)
def configs() -> Path:
    for name, text in {
        "algo/my_algo.yaml": "backbone: my-transformer\n",
        "algo/my_udlm.yaml": "name: udlm\nbackbone: my-transformer\n",
        "algo/several.yaml": "backbone: my-transformer\ntime_conditioning: false\n"
        "time_sampling: uniform\n",
        "algo/misspelt.yaml": "backbone: my-transformer\ntime_samping: uniform\n",
        "algo/composed.yaml": "defaults: [mdlm, _self_]\nbackbone: my-transformer\n",
        "model/small.yaml": GUIDE,
    }.items():
        path = Path("configs", name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return Path("configs")


def of(algo: str, *words: str):
    overrides = [f"algo={algo}", "model=small", *words]
    return compose("train", overrides, user_config_dir="configs")


@pytest.mark.slow
def test_the_two_files_of_the_guide_train_mdlm(capsys):
    words = ["--config-dir", "configs", "algo=my_algo", "model=small", *QUICK]
    main(["train", *words, "hydra.run.dir=run"])
    found = json.loads(Path("run/metrics.json").read_text())
    assert found["algorithm"] == "mdlm"
    config = OmegaConf.load("run/config.yaml")
    assert config.algo == compose("train", ["algo.backbone=my-transformer"]).algo
    assert config.model == OmegaConf.create(GUIDE)
    said = capsys.readouterr().out
    assert said.count("algo=my_algo: mdlm") == 1
    main(["sample", "checkpoint=run", "num_samples=2", "threads=1"])
    assert len(Path("samples/samples.jsonl").read_text().splitlines()) == 2


@pytest.mark.parametrize("algo", ["my_udlm", "composed", "several"])
def test_a_subset_of_the_keys(algo):
    config = of(algo)
    expected = "udlm" if algo == "my_udlm" else "mdlm"
    whole = compose("train", [f"algo={expected}", "algo.backbone=my-transformer"])
    assert config.algo.keys() == whole.algo.keys()
    assert config.forward_process == whole.forward_process
    assert config.sampling == whole.sampling
    build_algorithm(complete_data(config))


def test_experiments_and_commands_choose_it():
    text = "# @package _global_\ndefaults: [override /algo: several]\n"
    text += "algo: {time_sampling: antithetic}\n"
    Path("configs/experiment").mkdir()
    Path("configs/experiment/mine.yaml").write_text(text)
    algo = compose("train", ["experiment=mine"], user_config_dir="configs").algo
    whole = compose("train", ["algo=mdlm", "algo.backbone=my-transformer"]).algo
    assert algo == {**whole, "time_conditioning": False, "time_sampling": "antithetic"}
    assert of("several").algo.time_sampling == "uniform"
    assert of("several", "algo.time_sampling=antithetic").algo == algo


@pytest.mark.slow
def test_compare_takes_them():
    words = ["algos=[mdlm,my_algo]", "backbones=[my-transformer]", "model=small"]
    words += [word for word in QUICK if not word.startswith("eval.noise_samples")]
    words += ["data.batch_size=8", "noise_samples=1", "num_held_out=4"]
    main(["compare", "--config-dir", "configs", *words])
    assert "my_algo" in Path("comparison/table.md").read_text()


OWN = ("--config-dir", "configs", "model=small", *QUICK)


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ((*OWN, "algo=misspelt"), ["did you mean 'time_sampling'?"]),
        ((*OWN, "algo=my_algo", "model.length=9"), ["model.length=36"]),  # positions of the data
        (["~algo.name"], ["algo.name"]),
        (["algo.backbone=nan"], ["backbone", "nan is a number", "bd-denoiser"]),
        (["algo.backbone=[dit]"], ["backbone", "a list"]),
        (["steps=5"], ["trainer.max_steps"]),
        (["sampling.default_steps=5"], ["sampling.steps"]),
        (["sampling.budget=1"], ["sampling.entropy_budget"]),
        (["noise=cosine"], ["schedule"]),
        (["eval.bound_draws=1"], ["eval.noise_samples"]),
        (["algo=matrix"], ["algo=ctmc"]),
        (["experiment=large_plans"], ["experiment=plans_large"]),
        (["check_backbone=false"], ["preflight"]),
    ],
)
def test_what_is_no_name_and_no_key(words, names, failure):
    sentence = failure("train", *words)
    assert [name for name in names if name not in sentence] == []


def test_a_name_that_yaml_reads_as_a_number(clean_registry, failure):
    register_backbone("nan")(lambda config, vocab_size: None)
    sentence = failure("train", "algo.backbone=nan")
    assert "did you mean" not in sentence
    assert """'"nan"'""" in sentence
