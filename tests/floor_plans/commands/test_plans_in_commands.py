"""Plans in the commands as a user runs them, in this process."""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
from pathlib import Path

import pytest

from discrete_diffusion import load
from discrete_diffusion.building.measurements import Work, with_measurements
from discrete_diffusion.checkpoints.contents import read_contents
from discrete_diffusion.cli import compose, main
from discrete_diffusion.cli.compare import CompareRequest, run_comparison
from discrete_diffusion.composing.search_path import path_keys, paths_as_typed
from discrete_diffusion.domains import build_data, complete_data
from discrete_diffusion.runtime import inputs
from discrete_diffusion.runtime.atomic_files import LOCK, locked
from floor_plans import generate_plans, read_diagrams, write_diagrams
from full_disk import FullDisk

TINY = ["model=bd_tiny", "debug=smoke", "data.num_plans=200"]
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
    arguments = ["model=bd_tiny", "debug=smoke", "data=plans", "data.path=plans.jsonl", *QUICK]
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


SHORT = ["model=bd_tiny", "debug=smoke", "trainer.max_steps=1", "callbacks.num_samples=0"]
SHORT += ["eval.num_samples=2", "logger=none"]
NASTY = "it's ä=1 (2), [3]"


def test_a_brief_is_a_file_whose_name_is_not_empty():
    assert "brief" in path_keys()
    with pytest.raises(ValueError, match=re.escape("brief= is empty")):
        paths_as_typed(["brief="])


@pytest.mark.slow
def test_sample_evaluate_and_convert_take_such_names(untrained, capsys):
    model, plans, out = f"{NASTY}.ckpt", f"{NASTY}.jsonl", f"out {NASTY}"
    shutil.copy(untrained, model)
    write_diagrams(plans, generate_plans(8, seed=1))
    main(["sample", f"checkpoint={model}", "num_samples=2", f"out={out}", f"picture={NASTY}.png"])
    assert len(read_diagrams(f"{out}/samples.jsonl")) == 2
    assert Path(out, f"{NASTY}.png").exists()
    few = ["pictures=false", "quick=true"]
    main(["evaluate", f"samples=[{plans!r}]", f"reference={plans}", f"out=m {NASTY}", *few])
    assert Path(f"m {NASTY}", "metrics.json").exists()
    main(["data", "convert", plans, "epoch=3-step=6.json"])
    main(["data", "check", "epoch=3-step=6.json"])
    assert len(read_diagrams("epoch=3-step=6.json")) == 8
    assert len(load(model).sample(1)) == 1


@pytest.mark.slow
def test_train_takes_such_names(untrained, capsys):
    model, plans, run = f"{NASTY}.ckpt", f"{NASTY}.jsonl", f"run {NASTY}"
    shutil.copy(untrained, model)
    write_diagrams(plans, generate_plans(60, seed=1))
    words = [*SHORT, "data=plans", f"data.path={plans}", "model.d_model=16", "model.cond_dim=16"]
    words += [f"init.checkpoint={model}", f"hydra.run.dir={run}"]
    main(["train", *words])
    last = f"{run}/checkpoints/last.ckpt"
    assert read_contents(last).info["config"]["data"]["path"] == plans
    longer = [word for word in words if not word.startswith("trainer.max_steps")]
    main(["train", *longer, "trainer.max_steps=2", f"resume={last}"])
    assert read_contents(last).info["step"] == 2


@pytest.mark.slow
def test_realise_takes_such_names(capsys):
    pytest.importorskip("ortools")
    write_diagrams(f"{NASTY}.jsonl", generate_plans(1, seed=1))
    main(["plans", "realise", f"{NASTY}.jsonl", f"out=built {NASTY}", "threads=1"])
    assert Path(f"built {NASTY}", "plans.jsonl").exists()


@pytest.mark.slow
def test_compare_passes_them_on(tmp_path):
    name = "it's ä (1), a=b"
    write_diagrams(f"{name}.jsonl", generate_plans(60, seed=1))
    words = [*SHORT[:2], "trainer.max_steps=1", "data=plans", f"data.path={name}.jsonl"]
    words += ["algos=[mdlm]", f"out={name}", "noise_samples=1", "eval.num_samples=0"]
    run_comparison(CompareRequest(words))
    assert Path(name, "results.json").exists()


def build(path):
    build_data(complete_data(compose("train", ["data=plans", f"data.path={path}"])))


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("plans.json", "smiles,logp\nCCO,1\n", ["not valid JSON"]),
        ("edges.jsonl", "source,target\n1,2\n", ["table of edges", "data=graphs"]),
        ("plan.wkt", "POLYGON ((0 0, 1 0, 1 1, 0 0))\n", ["WKT; write", "GeoJSON"]),
        ("digits.dxf", 5_000 * "9" + "\nx\n", ["DXF"]),
    ],
    ids=["json", "jsonl", "wkt", "dxf"],
)
def test_a_file_of_something_else_is_refused_as_what_it_is(name, content, words, tmp_path):
    (tmp_path / name).write_text(content)
    with pytest.raises(ValueError, match=re.escape(name)) as refused:
        build(tmp_path / name)
    assert all(word in str(refused.value) for word in words)


def test_plans_that_unpack_to_too_much_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(inputs, "MOST_UNPACKED", 1 << 16)
    (tmp_path / "bomb.jsonl.gz").write_bytes(gzip.compress((1 << 16) * b"1 2\n"))
    with pytest.raises(ValueError, match=r"bomb\.jsonl\.gz.*more than .* unpacked"):
        build(tmp_path / "bomb.jsonl.gz")


def test_a_pipe_of_plans_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe.txt")
    with pytest.raises(ValueError, match=r"pipe\.txt.*write it into a file"):
        build(tmp_path / "pipe.txt")


@pytest.mark.parametrize(
    "words",
    [
        ["data", "convert", "plans.jsonl", "run/plans.json"],
        ["plans", "realise", "plans.jsonl", "out=run", "overwrite=true"],
    ],
)
def test_a_second_writer_of_a_folder_is_refused(failure, words):
    Path("run").mkdir()
    with locked(Path("run")):
        holder = Path("run", LOCK).read_text().strip()
        assert f"run is in use by {holder};" in failure(*words)
    assert not Path("run", LOCK).exists()


@pytest.mark.parametrize("name", ["plans.json", "plans.graphml"])
def test_a_second_writer_of_one_file_of_plans_is_refused(failure, name):
    with locked(Path(name)):
        assert f"{name} is in use by process " in failure("data", "convert", "plans.jsonl", name)
    assert [path.name for path in Path().iterdir() if path.name != "cache"] == []


def test_a_failed_conversion_leaves_no_folder(failure):
    failure("data", "convert", "none.jsonl", "new/plans.json")
    assert [path.name for path in Path().iterdir() if path.name != "cache"] == []


@pytest.mark.slow
def test_of_two_that_realise_into_one_folder_the_second_is_refused(failure, monkeypatch):
    pytest.importorskip("ortools")
    from floor_plans.drawings import realise_file

    write_diagrams("plans.jsonl", generate_plans(2, seed=1))
    words, errors = ["plans", "realise", "plans.jsonl", "out=built", "threads=1"], []
    realise_all = realise_file.realise_all

    def in_between(*arguments, **options):
        monkeypatch.setattr(realise_file, "realise_all", realise_all)
        errors.append(failure(*words))
        return realise_all(*arguments, **options)

    monkeypatch.setattr(realise_file, "realise_all", in_between)
    main(words)
    assert "built is in use by process " in errors[0]
    assert len(Path("built/plans.jsonl").read_text().splitlines()) == 2
    assert not Path("built", LOCK).exists()


def test_a_converted_file_is_not_replaced_unasked(failure, capsys):
    write_diagrams("plans.jsonl", generate_plans(3, seed=1))
    for name in ("plans.json", "plans.graphml"):  # of several plans a folder
        words = ["data", "convert", "plans.jsonl", name]
        main(words)
        assert "--overwrite" in failure(*words)
        main([*words, "--overwrite"])
        main([*words, "overwrite=true"])
    assert "plans.replaced-2" in capsys.readouterr().out


@pytest.mark.slow
def test_a_full_disk_leaves_no_half_converted_file(failure):
    write_diagrams("plans.jsonl", generate_plans(200, seed=1))
    for name in ("plans.json", "plans.svg", "plans.png"):
        with FullDisk(2000):
            error = failure("data", "convert", "plans.jsonl", f"new/{name}", "--first=30")
        assert f"new/{name}" in error
        assert not Path("new").exists()
