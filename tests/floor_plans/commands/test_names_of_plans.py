"""Names of files of plans as people have them, in every command."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from discrete_diffusion import load
from discrete_diffusion.checkpoints.contents import read_contents
from discrete_diffusion.cli import main
from discrete_diffusion.cli.compare import CompareRequest, run_comparison
from discrete_diffusion.composing.search_path import path_keys, paths_as_typed
from floor_plans import generate_plans, read_diagrams, write_diagrams

SHORT = ["model=bd_tiny", "debug=default", "trainer.max_steps=1", "callbacks.num_samples=0"]
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
