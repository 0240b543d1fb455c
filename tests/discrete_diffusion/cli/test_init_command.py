"""``train init.checkpoint=...`` as a user sees it, on tokens."""

from __future__ import annotations

import logging
import re
import shutil
from pathlib import Path

import pytest
import torch

from discrete_diffusion import load
from discrete_diffusion.cli import compose
from discrete_diffusion.cli.train import TrainRequest, run_training, starting_weights
from discrete_diffusion.contracts import Batch
from discrete_diffusion.training.run import build_run

QUICK = [
    *("threads=1", "logger=none", "trainer.max_steps=1", "trainer.val_check_interval=1"),
    *("callbacks.num_samples=0", "eval.num_samples=0", "eval.noise_samples=1"),
]
STILL = ["optim.lr=1e-12", "optim.warmup_steps=0", "callbacks.ema_decay=null"]
"""Weights stay what they were at the start."""


def run(name: str, *overrides: str) -> Path:
    run_training(TrainRequest(compose("train", overrides), Path(name)))
    return Path(name) / "checkpoints" / "last.ckpt"


@pytest.mark.slow
def test_fine_tuning_a_model_of_tokens():
    tiny = [
        *("model=bd_tiny", "model.d_model=16", "model.cond_dim=16", "model.n_heads=2"),
        *("model.n_layers=1", "data.num_plans=100", *QUICK),
    ]
    first = run("first", *tiny)
    second = run("second", "algo=udlm", *tiny, *STILL, f"init.checkpoint={first}", "seed=5")
    expected, found = (load(path).backbone.state_dict() for path in (first, second))
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, rtol=0, atol=1e-8)


TEXT = [
    *("data=text", "data.length=16", "algo.backbone=dit", "model=dit_tiny", "model.n_blocks=1"),
    *("model.hidden_size=16", "model.n_heads=2", *QUICK),
]


@pytest.mark.slow
def test_weights_of_another_alphabet_and_the_advice(caplog):
    """What the refusal says to type trains; ids that mean other things are told."""
    caplog.set_level(logging.INFO)
    Path("few.txt").write_text("abcd efgh. " * 60)
    Path("many.txt").write_text("the quick brown fox jumps over the lazy dog! " * 20)
    Path("other.txt").write_text("ABCD EFGH! " * 60)  # as many characters
    first = run("first", *TEXT, "data.path=few.txt")
    words = [*TEXT, "data.path=many.txt", f"init.checkpoint={first}"]
    with pytest.raises(ValueError, match=r"init\.modules") as error:
        run("second", *words)
    assert "data.vocab_size" not in str(error.value)  # which follows from the text
    advice = re.search(r"init\.modules=\[[^\]]+\]", str(error.value))
    assert advice is not None
    second = run("second", *words, advice[0], *STILL)
    assert "so as initialised" in caplog.text
    assert "data.characters" in caplog.text
    part = advice[0].removeprefix("init.modules=[").rstrip("]").split(",")[0]
    was, now = (load(path).backbone.state_dict() for path in (first, second))
    for name in (name for name in was if name.split(".")[0] == part):
        torch.testing.assert_close(now[name], was[name], rtol=0, atol=1e-8)
    caplog.clear()
    run("third", *TEXT, "data.path=other.txt", f"init.checkpoint={first}")
    assert "data.characters" in caplog.text


@pytest.mark.parametrize(
    ("init", "says"),
    [
        ({"modules": ["encoder"]}, "give init.checkpoint=FILE"),
        ({"modules": "encoder"}, r"init.modules=encoder: .*init.modules=\[encoder"),
        ({"modules": []}, r"init.modules=\[\]: .*init.modules=\[encoder\]"),
    ],
)
def test_settings_that_make_no_sense(init, says):
    config = compose("train")
    assert starting_weights(config) is None
    config.init.update(init)
    with pytest.raises(ValueError, match=says):
        starting_weights(config)


PAIR = [
    *("algo.backbone=bd-denoiser-pair", "model=bd_pair_tiny", "model.d_pair=8", "model.n_layers=1"),
    *("data.num_plans=200", "data.max_nodes=6", "data.num_rooms=[4,6]", "schedule=cosine"),
]


@pytest.fixture(scope="module")
def teacher(tmp_path_factory) -> Path:
    return run(str(tmp_path_factory.mktemp("taught") / "teacher"), *PAIR, *QUICK)


@pytest.mark.slow
def test_a_student_takes_after_its_teacher(teacher):
    """Data, noise, model and backbone are those of the checkpoint; what the command says is not."""
    teacher = Path(shutil.copy(teacher, "teacher.ckpt"))
    words = ["algo=distill", f"init.checkpoint={teacher}", "calls=3", "algo.components=4", *QUICK]
    config = compose("train", [*words, "data.num_plans=100"])
    assert (config.model.d_pair, config.data.max_nodes, config.data.num_plans) == (8, 6, 100)
    assert (config.schedule.name, config.algo.backbone) == ("cosine", "bd-denoiser-pair")
    with pytest.raises(ValueError, match=r"set model.d_pair=8"):
        run("other", *words, "model=bd_pair_tiny")
    student = run("student", *words, *STILL)
    taught, found = load(teacher).backbone.state_dict(), load(student).backbone.state_dict()
    for name, value in taught.items():
        torch.testing.assert_close(found[name], value, rtol=0, atol=1e-6)
    plan = load(student).call_order
    assert sorted(plan.unique().tolist()) == [0, 1, 2]
    assert len(load(student).sample(4)) == 4
    teacher.unlink()
    again = run("again", *words, *STILL, f"resume={student}", "trainer.max_steps=2")
    assert torch.equal(load(again).call_order, plan)


@pytest.mark.slow
def test_what_the_command_says_is_not_the_teachers(teacher):
    """A group that is chosen is the command's as a whole, and the model goes with the backbone."""
    words = ["algo=distill", f"init.checkpoint={teacher}", "calls=3"]
    taught = compose("train", words)
    assert (taught.model.name, taught.data.max_nodes) == ("bd_pair_tiny", 6)
    own = compose("train", [*words, "data=bubble_diagrams", "schedule=log_linear"])
    assert (own.data.max_nodes, own.data.num_rooms) == (8, compose("train").data.num_rooms)
    assert (own.schedule.name, own.model.d_pair) == ("log_linear", 8)
    other = compose("train", [*words, "algo.backbone=bd-denoiser"])
    assert "bd-denoiser" in other.model.backbones
    assert (other.data.max_nodes, other.schedule.name) == (6, "cosine")


@pytest.mark.slow
def test_a_student_takes_after_a_teacher_that_an_experiment_names(teacher, tmp_path, monkeypatch):
    monkeypatch.setenv("TEACHER", str(teacher))
    (tmp_path / "experiment").mkdir()

    def of(name: str, text: str, *words: str):
        lines = f"# @package _global_\n{text}\n"
        (tmp_path / "experiment" / f"{name}.yaml").write_text(lines)
        return compose("train", [f"experiment={name}", *words], user_config_dir=tmp_path)

    said = f"defaults: [override /algo: distill]\ninit: {{checkpoint: {teacher}}}\ncalls: 3"
    config = of("mine", said)
    assert (config.model.d_pair, config.data.max_nodes, config.calls) == (8, 6, 3)
    assert (config.schedule.name, config.algo.backbone) == ("cosine", "bd-denoiser-pair")
    assert str(config.init.checkpoint) == str(teacher)
    own = of("own", f"{said}\ndata: {{num_plans: 50, max_nodes: 5}}")
    assert (own.data.num_plans, own.data.max_nodes, own.model.d_pair) == (50, 5, 8)
    chosen = of("chosen", said.replace("distill", "distill, override /model: bd_pair_tiny"))
    assert (chosen.model.d_pair, chosen.data.max_nodes) == (
        compose("train", PAIR[:2]).model.d_pair,
        6,
    )
    told = of("mine", said, "data.max_nodes=7")
    assert (told.data.max_nodes, told.model.d_pair) == (7, 8)
    assert of("mine", said, "init.checkpoint=null").schedule.name == "log_linear"
    assert of("nested", "defaults: [mine, _self_]\nseed: 3").model.d_pair == 8
    of_shell = said.replace(str(teacher), '"${oc.env:TEACHER}"')
    assert of("shell", of_shell).model.d_pair == 8
    assert of("gone", f"{said}\nresume: {teacher}").model.d_pair == 8
    other = said.replace("distill", "mdlm").removesuffix("\ncalls: 3")  # a key of distill's
    assert of("other", other).schedule.name == "log_linear"


@pytest.mark.parametrize("node_order", ["random", "given"])
def test_a_plan_is_made_on_samples_as_training_shows_them(node_order, monkeypatch):
    words = ["data.num_plans=200", f"data.node_order={node_order}", "model=bd_tiny"]
    built = build_run(compose("train", [*words, "algo=distill", "algo.components=1"]), on_gpu=False)
    seen: list[Batch] = []
    monkeypatch.setattr(
        built.algorithm, "before_first_step", lambda train, generator: seen.append(train)
    )
    built.begin()
    train, dataset = seen[0], built.data
    examples = dataset.splits["train"]
    same = (train.x0 == examples.x0).all(dim=1)
    assert torch.equal(train.real, examples.real)
    if node_order != "random":
        assert same.all()
        return
    assert float(same.double().mean()) < 0.2  # each in an order of its own
    sizes = dataset.sizes(examples)
    for x0, relabelled, num in zip(examples.x0, train.x0, sizes.tolist(), strict=True):
        assert sorted(x0[:num].tolist()) == sorted(relabelled[:num].tolist())
