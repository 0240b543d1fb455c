"""Plans in the commands as a user runs them, in this process."""

from __future__ import annotations

import json

import pytest

from discrete_diffusion.building.measurements import Work, with_measurements
from discrete_diffusion.cli import compose, main
from floor_plans import generate_plans, read_diagrams, write_diagrams

TINY = ["model=bd_tiny", "debug=default", "data.num_plans=200"]
QUICK = ["logger=none", "callbacks.num_samples=0", "eval.num_samples=2"]


@pytest.fixture(scope="module")
def finished_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("finished") / "run"
    main(["train", *TINY, *QUICK, f"hydra.run.dir={folder}"])
    return folder


@pytest.mark.slow
def test_a_run_measures_its_diagrams(finished_run):
    found = json.loads((finished_run / "metrics.json").read_text())
    assert 0 <= found["valid"] <= 1
    assert len(read_diagrams(finished_run / "samples.jsonl")) == found["num_samples"] == 2


@pytest.mark.slow
@pytest.mark.parametrize("sampler", ["first-hitting", "ancestral"])
def test_samples_of_so_many_rooms(finished_run, sampler, tmp_path):
    words = [f"checkpoint={finished_run}/checkpoints/best.ckpt", f"sampling={sampler}"]
    words += ["num_samples=6", "num_rooms=5", "sampling.temperature=0.8"]
    main(["sample", *words, "out=mine", "picture=grid.svg"])
    diagrams = read_diagrams(tmp_path / "mine" / "samples.jsonl")
    assert [d.num_rooms for d in diagrams] == [5] * 6
    metrics = json.loads((tmp_path / "mine" / "metrics.json").read_text())
    assert metrics["num_samples"] == 6
    assert (tmp_path / "mine" / "grid.svg").read_text().startswith("<?xml")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["mine"]  # no litter


@pytest.mark.parametrize(
    ("words", "expected"),
    [([], (1_000, 1_998, 200, 1.0)), (["trainer.max_steps=100"], (126, 720, 52, 37))],
)
def test_the_demo_measures_all_and_less_of_it_a_share(words, expected):
    config, said = with_measurements(
        compose("train", ["experiment=demo", *words]),
        num_train=16_019,
        num_held_out=1_998,
        work=Work(trained=66.0, bounded=22.0, sampled=500.0),
    )
    drawn = config.eval.num_samples, config.eval.num_held_out, config.callbacks.num_samples
    assert (*drawn, config.trainer.limit_val_batches) == expected
    assert len(said) == (4 if words else 0)


def test_the_demo_keeps_its_warmup_with_an_optimizer_of_ones_own():
    config = compose("train", ["experiment=demo", "optim._target_=torch.optim.SGD"])
    assert config.optim.warmup_steps == 50


@pytest.mark.slow
def test_training_from_a_file_of_plans_and_resuming(tmp_path, capsys):
    write_diagrams("plans.jsonl", generate_plans(80, seed=0))
    arguments = ["model=bd_tiny", "debug=default", "data=plans", "data.path=plans.jsonl", *QUICK]
    main(["train", *arguments, "hydra.run.dir=runs/a"])
    more = ["trainer.max_steps=4", "resume=runs/a/checkpoints/last.ckpt"]
    main(["train", *arguments, "hydra.run.dir=runs/b", *more])
    assert json.loads((tmp_path / "runs/b/metrics.json").read_text())["steps"] == 4


def test_a_broken_line_of_plans_names_file_line_and_field(failure, tmp_path):
    write_diagrams("plans.jsonl", generate_plans(30, seed=0))
    with (tmp_path / "plans.jsonl").open("a") as file:
        file.write('{"rooms": ["LivingRoom", "Kitchen"], "relations": [[0, 1, "leftish"]]}\n')
    error = failure("train", *TINY[:2], "data=plans", "data.path=plans.jsonl")
    assert "plans.jsonl, line 31, field 'relations[0]" in error
