"""``discrete-diffusion compare``: which cells there are, what is refused, what is kept."""

from __future__ import annotations

import json
import re
import shutil
import signal

import pytest
import torch
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.errors import MissingConfigException
from omegaconf import OmegaConf

from comparison_fixtures import SHORT, TWO, again, plan
from discrete_diffusion.api.cells import config_digest
from discrete_diffusion.checkpoints.files import read_training_file
from discrete_diffusion.cli import compose, main
from discrete_diffusion.cli.compare import read_words
from discrete_diffusion.cli.errors import explain_hydra_error
from discrete_diffusion.composing.search_path import is_option
from discrete_diffusion.domains import cell_measurement
from discrete_diffusion.models.registry import _BACKBONE_BUILDERS


@pytest.mark.slow
def test_cells_are_all_combinations_and_differ_in_nothing_else():
    cells = plan("algos=[mdlm,udlm]", "backbones=[bd-denoiser,dit]", "seeds=[3,5]", "optim.lr=7e-4")
    assert compose("train", cells[3].overrides) == cells[3].config
    assert [cell.name for cell in cells] == [
        f"{algorithm}-{backbone}-seed{seed}"
        for algorithm in ("mdlm", "udlm")
        for backbone in ("bd-denoiser", "dit")
        for seed in (3, 5)
    ]
    assert [cell.model for cell in cells[::2]] == ["bd_small", "dit_small"] * 2
    for cell in cells:
        assert (cell.config.seed, cell.config.optim.lr) == (cell.seed, 7e-4)
        for group in ("data", "optim", "trainer", "callbacks"):
            assert cell.config[group] == cells[0].config[group]
    assert cells[4].config.forward_process.name == "uniform"


@pytest.mark.slow
def test_a_backbone_that_an_algorithm_cannot_use_is_replaced_by_dit_of_its_size():
    cells = plan("algos=[mdlm,ar]", "model=bd_tiny")
    assert [(c.backbone, c.model, c.instead_of) for c in cells] == [
        ("bd-denoiser", "bd_tiny", None),
        ("dit", "dit_tiny", "bd-denoiser"),
    ]
    assert [c.parameters for c in cells] == [183_708, 182_556]
    alone = plan("algos=[ar]", "backbones=[bd-denoiser,dit]", "model=bd_tiny")
    assert [(c.name, c.instead_of) for c in alone] == [("ar-dit-seed0", "bd-denoiser")]
    text = plan("algos=[mdlm,ar]", "data=text")
    assert [(c.backbone, c.model, c.instead_of) for c in text] == [("dit", "dit_small", None)] * 2


class Sized(torch.nn.Linear):
    """A backbone of so many weights, of which nothing is asked."""

    def forward(self, x_t, sigma=None):
        raise AssertionError


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["algos=[mdml]"], "unknown algorithm 'mdml'; did you mean 'mdlm'?"),
        (["backbones=[bd-denoisr]"], "did you mean 'bd-denoiser'?"),
        ([*SHORT, *TWO, "columns=[vald]"], "'vald'; did you mean 'valid'? Available: algorithm, "),
        ([*SHORT, *TWO, "columns=[valid,valid]"], "['valid', 'valid']: the same one twice"),
        ([*SHORT, *TWO, "columns=valid"], "columns=[nelbo,difference,valid]"),
        ([*SHORT, *TWO, "baseline=mdml"], "'mdml'; did you mean 'mdlm'? Available: mdlm"),
        (["backbones=dit"], "backbones=dit: expected a list"),
        (["seeds=range(3)"], "seeds=range(3): expected a list, as in seeds=[0,1,2]"),
        (["algos=mdlm,udlm"], "expected a list, as in algos=[mdlm,udlm]"),
        (["algos={a:1}"], "expected a list, as in algos=[mdlm,udlm]"),
        (["hydra.run.dir=runs/a"], "give out=runs/a"),
        (["out="], "out= is empty"),
        (["out=/dev/null/a"], "/dev/null is a file"),
        (["trainer.max_steps=0"], "trainer.max_steps=0: expected at least 1"),
        (["algo.num_stps=9", "algos=[mdlm,d3pm]"], "did you mean 'num_steps'?"),
        (["schedule.eps=0.1"], "have no schedule.eps, nor any other value under 'schedule'"),
        (["data=text", "backbones=[bd-denoiser]"], "backbones=[dit]"),
        (["algos=[udlm]", "forward_process=absorbing"], "absorbing; leave forward_process= out"),
        (["data.split=[0.99,0.01,0]", "data.num_plans=50"], "a larger share than data.split=[0.99"),
        (["algos=[udlm]", "sampling=first-hitting"], "uniform noise cannot be sampled by first-h"),
        (["seeds=[0,0]"], "seeds=[0, 0]"),
        (["seeds=[0.5]"], "got 0.5, expected whole"),
        (["algo=udlm"], "give algos=[...]"),
        (["seed=1"], "give seeds=[...]"),
        (["trainer.devices=2"], "hydra/launcher=joblib"),
        (["num_held_out=1"], "num_held_out=1: expected a whole number"),
        (["model=bd_tiny", "data=graphs", "data.path=nowhere.jsonl"], "data.path=nowhere.jsonl"),
    ],
)
def test_refusals_name_the_key_and_the_remedy(arguments, sentence, refusal):
    assert sentence in refusal(*arguments)


@pytest.mark.slow
def test_an_option_goes_to_the_cells_that_have_it(caplog):
    caplog.set_level("INFO")
    names = "algos=[mdlm,d3pm]"
    for option in ("algo.num_steps=9", "++algo.num_steps=9"):
        caplog.clear()
        mdlm, d3pm = plan(names, option)
        assert d3pm.config.algo.num_steps == 9
        assert "num_steps" not in mdlm.config.algo
        assert "algo.num_steps=9: for d3pm" in caplog.messages
    before = plan(names)
    assert (mdlm.config, d3pm.config.optim) == (before[0].config, before[1].config.optim)
    caplog.clear()
    cells = plan(names, "schedule=polynomial", "schedule.exponent=3")
    assert [cell.config.schedule.exponent for cell in cells] == [3, 3]
    assert not caplog.messages


@pytest.mark.slow
def test_a_setting_of_a_model_is_for_the_backbones_that_have_it(caplog):
    caplog.set_level("INFO")
    words = ("backbones=[bd-denoiser,dit]", "model=bd_tiny", "seeds=[0,1]")
    cells = plan(*words, "model.dropout=0", "model.legal_only=false")
    assert [cell.config.model.dropout for cell in cells] == [0] * 4
    assert [cell.config.model.get("legal_only") for cell in cells] == [False, False, None, None]
    said = [line for line in caplog.messages if line.startswith("model.")]
    assert said == ["model.legal_only=false: for mdlm with bd-denoiser"]
    with pytest.raises(ValueError, match="did you mean 'dropout'"):
        plan(*words, "model.dropot=0")


@pytest.mark.parametrize(("size", "fits"), [(1040, True), (1060, False), (960, True), (940, False)])
def test_five_percent_is_of_the_first_cell(monkeypatch, size, fits):
    def builder(number):
        return lambda config, vocab_size: Sized(1, number, bias=False)

    monkeypatch.setitem(_BACKBONE_BUILDERS, "first", builder(1000))
    monkeypatch.setitem(_BACKBONE_BUILDERS, "second", builder(size))
    words = ("backbones=[first,second]", "model=bd_tiny")
    if fits:
        assert [cell.parameters for cell in plan(*words)] == [1000, size]
    else:
        with pytest.raises(ValueError, match="more than 5% apart"):
            plan(*words)


def test_a_launcher_that_is_not_installed_is_refused(failure):
    error = failure("compare", "hydra/launcher=ray")
    assert "hydra/launcher=ray: no plug-in that is installed offers it" in error
    missing = MissingConfigException("as Hydra says it", missing_cfg_file="hydra/launcher/joblib")
    assert "pip install hydra-joblib-launcher" in explain_hydra_error(missing, "compare", [], None)


@pytest.mark.parametrize("by", ["torchrun", "srun"])
def test_torchrun_and_srun_are_refused(by, monkeypatch, refusal):
    variables = {
        "torchrun": {"TORCHELASTIC_RUN_ID": "1", "RANK": "1", "LOCAL_WORLD_SIZE": "2"},
        "srun": {"SLURM_STEP_ID": "0", "SLURM_NTASKS": "2", "SLURM_PROCID": "1"},
    }
    for name, value in (variables[by] | {"WORLD_SIZE": "2"}).items():
        monkeypatch.setenv(name, value)
    error = refusal(*SHORT, *TWO)
    assert by in error
    assert "hydra/launcher=" in error


def test_all_cells_are_measured_on_the_same_rows(finished):
    cells = [
        json.loads((finished[0] / "cells" / f"mdlm-{b}-seed0" / "cell.json").read_text())
        for b in ("bd-denoiser", "dit")
    ]
    assert cells[0]["rows"] == cells[1]["rows"]
    assert len(cells[0]["rows"]) == len(cells[0]["bounds"]) == 12
    assert cells[0]["data_fingerprint"] == cells[1]["data_fingerprint"]
    assert cells[0]["metrics"]["network_calls"] == cells[1]["metrics"]["network_calls"]


@pytest.mark.slow
def test_finished_cells_are_kept_and_missing_ones_run(finished, copy, capsys):
    shutil.rmtree(copy)
    kept = copy.with_name("mdlm-bd-denoiser-seed0") / "cell.json"
    before = kept.stat().st_mtime_ns
    main(["compare", *SHORT, *TWO, f"out={copy.parents[1]}"])
    said = capsys.readouterr().out
    assert "mdlm-bd-denoiser-seed0: finished, kept" in said
    assert "1 of 2 cells to run" in said
    assert "metrics:" not in said  # of the run, on another split than the table
    assert "…" not in said
    (real,) = [line for line in said.splitlines() if line.strip().startswith("real data")]
    assert re.search(r"\d", real)
    assert kept.stat().st_mtime_ns == before
    found = json.loads((copy.parents[1] / "results.json").read_text())
    assert [m["nelbo"] for m in found["models"]] == [m["nelbo"] for m in finished[1]["models"]]


@pytest.mark.slow
def test_cells_are_measured_again_without_training(copy, finished):
    """For other terms, another setting of the sampler, and a result without its keys."""
    model, measured = copy / "checkpoints" / "last.ckpt", copy / "cell.json"
    digest, written = read_training_file(model)["discrete_diffusion"]["digest"], model.stat()
    before = json.loads(measured.read_text())
    GlobalHydra.instance().clear()
    hydra = HydraConfig.instance().cfg
    measured.write_text('{"digest": "0"}')
    results = again(copy)
    assert [m["nelbo"] for m in results["models"]] == [m["nelbo"] for m in finished[1]["models"]]
    again(copy, "sampling.temperature=0.25")
    after = json.loads(measured.read_text())
    assert after["bounds"] == before["bounds"]
    assert (before["sampling"]["temperature"], after["sampling"]["temperature"]) == (1.0, 0.25)
    kept = measured.stat().st_mtime_ns
    again(*(copy, "sampling.temperature=0.25", "logger=csv"), f"threads={torch.get_num_threads()}")
    assert measured.stat().st_mtime_ns == kept
    results = again(copy, "noise_samples=2", "eval.num_samples=0")
    assert "network_calls" not in results["models"][0]
    assert model.stat().st_mtime_ns == written.st_mtime_ns
    assert read_training_file(model)["discrete_diffusion"]["digest"] == digest
    assert not GlobalHydra.instance().is_initialized()
    assert HydraConfig.instance().cfg is hydra


@pytest.mark.slow
def test_samples_that_there_are_stay_where_none_are_asked_for(copy, capsys):
    words = [*SHORT, "algos=[mdlm]", "backbones=[dit]", "eval.num_samples=0"]
    main(["compare", *words, f"out={copy.parents[1]}"])
    model = json.loads((copy.parents[1] / "results.json").read_text())["models"][0]
    assert model["network_calls"] is not None
    said = capsys.readouterr().out
    assert "nothing to train: 1 cell finished" in said
    assert "kept, not in the table: mdlm-bd-denoiser-seed0" in said
    assert "difference" not in said  # to itself


@pytest.mark.slow
def test_a_cell_that_fails_is_told_and_leaves_the_others(copy, failure, monkeypatch):
    def broken(*_, **__):
        raise RuntimeError("in my kernel")

    words = ["compare", *SHORT, *TWO, f"out={copy.parents[1]}"]
    (copy / "cell.json").unlink()
    with monkeypatch.context() as patch:
        patch.setattr(cell_measurement, "held_out_bounds", broken)
        error = failure(*words)
    assert "1 of 1 cell failed" in error
    assert f"{copy.name}: RuntimeError: in my kernel; HYDRA_FULL_ERROR=1" in error
    (copy / "checkpoints" / "last.ckpt").write_bytes(b"damaged")
    error = failure(*words)
    assert "1 of 1 cell failed" in error
    assert "last.ckpt is not a readable checkpoint" in error
    assert f"(folder {copy})" in error
    assert again(copy, "overwrite=true")["cells"][copy.name]["steps"] == 2


@pytest.mark.slow
def test_another_run_in_the_folder_is_refused_by_name_or_replaced(copy, failure):
    out = f"out={copy.parents[1]}"
    error = failure("compare", *SHORT, *TWO, "trainer.max_steps=3", "optim.lr=0.5", out)
    assert "mdlm-dit-seed0: optim.lr 0.001 -> 0.5, trainer.max_steps 2 -> 3" in error
    assert "overwrite=true" in error
    assert "the data (fingerprint" in failure("compare", *SHORT, *TWO, "data.num_plans=210", out)
    other = again(copy, "algos=[mdlm]", "backbones=[dit]", "trainer.max_steps=3", "overwrite=true")
    assert other["cells"]["mdlm-dit-seed0"]["steps"] == 3
    earlier = json.loads((copy.with_name(f"{copy.name}.replaced-1") / "cell.json").read_text())
    assert earlier["steps"] == 2


def test_a_setting_that_came_later_makes_no_other_run():
    config = compose("train", ["algo=udlm"])
    before = config.copy()
    OmegaConf.set_struct(before, False)
    del before.init, before.algo.condition_dropout
    assert config_digest(before) == config_digest(config)
    config.init.checkpoint = "x.ckpt"
    assert config_digest(before) != config_digest(config)


@pytest.mark.slow
def test_ctrl_c_ends_with_130_and_the_same_command_goes_on(copy, capsys, monkeypatch, finished):
    (copy / "cell.json").unlink()
    (copy / "metrics.json").unlink()  # as after a kill between the last step and the evaluation
    words = [*SHORT, *TWO, f"out={copy.parents[1]}"]
    with monkeypatch.context() as patch:
        patch.setattr(
            cell_measurement, "held_out_bounds", lambda *_, **__: signal.raise_signal(signal.SIGINT)
        )
        with pytest.raises(SystemExit) as stop:
            main(["compare", *words])
    assert stop.value.code == 130
    said, error = capsys.readouterr()
    assert "mdlm-dit-seed0: interrupted, goes on" in said
    assert f"resuming {copy / 'checkpoints' / 'last.ckpt'} at step 2" in said
    assert "stopped by SIGINT at cell 1 of 1, mdlm-dit-seed0: measuring" in error
    assert "the same command goes on from there, finished cells are kept" in error
    main(["compare", *words])
    said = capsys.readouterr().out
    assert "mdlm-dit-seed0: trained, kept; to be measured" in said
    whole = finished[0] / "cells" / copy.name
    bounds = [json.loads((cell / "cell.json").read_text())["bounds"] for cell in (copy, whole)]
    assert bounds[0] == bounds[1]


def test_a_key_that_is_added_to_the_model_is_shared_and_its_own_are_options():
    words = read_words(["+model.width=8", "model.dropout=0"])
    assert words == ["+model.width=8", "++model.dropout=0"]
    assert [is_option(word) for word in words] == [False, True]
