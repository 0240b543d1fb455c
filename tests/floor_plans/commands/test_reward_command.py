"""``train algo=reward_tuning`` as a user gives it: what it starts from, what it says, what it
refuses."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import torch

from discrete_diffusion import load
from discrete_diffusion.building.algorithm import REWARDS, register_reward, reward_of
from discrete_diffusion.cli import compose, main
from discrete_diffusion.domains import complete_data
from floor_plans import BubbleDiagram, encode

SMALL = [
    *("algo.backbone=bd-denoiser-pair", "model=bd_pair_tiny", "model.n_layers=1", "threads=1"),
    *("data.num_plans=200", "data.max_nodes=5", "data.num_rooms=[4,5]", "data.batch_size=16"),
]
SHORT = ["trainer.max_steps=2", "trainer.val_check_interval=2", "optim.warmup_steps=0"]
SHORT += ["trainer.accelerator=cpu"]  # a GPU does not resume it bit by bit
SHORT += [
    "callbacks.num_samples=0",
    "eval.num_samples=4",
    "eval.num_solver_checks=0",
    "eval.noise_samples=1",
]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def trained(folder: str, *words: str) -> Path:
    main(["train", *words, *SHORT, f"hydra.run.dir={folder}"])
    return Path(folder, "checkpoints", "last.ckpt")


@pytest.mark.slow
def test_a_model_is_tuned_and_resumed_bit_by_bit():
    teacher = trained("teacher", *SMALL)
    words = ["algo=reward_tuning", f"init.checkpoint={teacher}", "reward=exactly_one_living_room"]
    words += ["data.batch_size=16", "threads=1"]
    config = compose("train", words)
    assert (config.data.max_nodes, config.algo.backbone) == (5, "bd-denoiser-pair")
    whole = trained("whole", *words, "trainer.max_steps=4")
    state = torch.load(whole, weights_only=True)["state_dict"]
    taught = torch.load(teacher, weights_only=True)["state_dict"]
    kept = {k: v for k, v in state.items() if k.startswith("algorithm.teacher.")}
    assert kept
    first = load(teacher).backbone.state_dict()
    for name, value in kept.items():
        assert torch.equal(value, first[name.removeprefix("algorithm.teacher.")])
    assert any(not torch.equal(state[k], taught[k]) for k in taught if k.endswith("weight"))
    part = trained("part", *words, "trainer.max_steps=2")
    on = trained("on", *words, f"resume={part}", "trainer.max_steps=4")
    again = torch.load(on, weights_only=True)["state_dict"]
    assert all(torch.equal(again[name], value) for name, value in state.items())
    found = json.loads(Path("whole", "metrics.json").read_text())
    assert found["algorithm"] == "reward_tuning"
    log = Path("whole", "logs", "metrics.csv").read_text()
    assert "val/reward" in log
    assert "val/kl_to_teacher" in log
    samples = load(whole).sample(3, rooms=4)
    assert all(isinstance(diagram, BubbleDiagram) for diagram in samples)
    assert load(whole).num_parameters == load(teacher).num_parameters


def reward(name: str | None, *words: str):
    config = complete_data(compose("train", ["algo=reward_tuning", *SMALL, *words]))
    config.algo.reward = name
    return reward_of(config), config


def test_rewards_of_diagrams_and_of_a_brief():
    diagrams = [BubbleDiagram((0, 1, 2, 3), ((0, 1, 0), (1, 2, 0), (2, 3, 0)))]
    diagrams += [BubbleDiagram((0, 1, 2, 3), ((0, 1, 0),))]
    score, config = reward("connected")
    graph = domain_graph(config)
    tokens = encode(diagrams, graph).x0
    assert score(tokens).tolist() == [1.0, 0.0]
    Path("two.yaml").write_text("num_rooms: 4-5\n")
    assert reward("two.yaml")[0](tokens).tolist() == [1.0, 1.0]


def domain_graph(config):
    from discrete_diffusion.domains import domain_of

    return domain_of(config.data).vocabulary(config.data)


def test_a_reward_of_ones_own():
    @register_reward("few")
    def few(samples):
        return [-float(len(sample.relations)) for sample in samples]

    try:
        score, config = reward("few")
        tokens = encode([BubbleDiagram((0, 1), ((0, 1, 0),))], domain_graph(config)).x0
        assert score(tokens).tolist() == [-1.0]
    finally:
        del REWARDS.builders["few"]


@pytest.mark.parametrize(
    ("returned", "said"),
    [
        ([1.0, math.nan], "gave nan for sample 1"),
        ([1.0, math.inf], "gave inf for sample 1"),
        ([1.0], "gave 1 scores for 2 samples"),
        (1.0, r"returned 1\.0; expected a number for each of 2"),
        (None, "returned None; expected a number"),
        (["good", "bad"], r"returned \['good', 'bad'\]; expected a number"),
    ],
)
def test_scores_that_are_none_are_refused_with_the_reward(returned, said):
    register_reward("odd")(lambda samples: returned)
    try:
        score, config = reward("odd")
        tokens = encode([BubbleDiagram((0, 1), ((0, 1, 0),))] * 2, domain_graph(config)).x0
        with pytest.raises(ValueError, match=f"reward=odd {said}"):
            score(tokens)
    finally:
        del REWARDS.builders["odd"]


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ([], "reward="),
        (["reward=valid"], "init.checkpoint="),
        (["reward=valid", "init.checkpoint=plans-small", "data.batch_size=10"], "group_size=8"),
        (["reward=conected", "init.checkpoint=plans-small"], "connected"),
        (["reward=nowhere.yaml", "init.checkpoint=plans-small"], "nowhere.yaml"),
    ],
)
def test_what_is_refused(words, named, capsys):
    with pytest.raises(SystemExit):
        main(["train", "algo=reward_tuning", *words])
    assert named in capsys.readouterr().err
