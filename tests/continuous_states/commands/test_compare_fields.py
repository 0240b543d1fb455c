"""``discrete-diffusion compare`` on images with maps: as numbers and as ids, side by side."""

from __future__ import annotations

import json

import numpy as np
import pytest

from comparison_fixtures import plan
from discrete_diffusion.cli import compose
from discrete_diffusion.cli.compare import CompareRequest, run_comparison
from discrete_diffusion.domains import build_data, complete_data

ALGORITHMS = "algos=[mdlm,flow-matching]"
TINY = (
    *("data.num_samples=40", "data.size=16", "data.mesh_rings=4", "data.num_boundary=8"),
    *("data.split=[0.8,0.1,0.1]", "data.batch_size=8", "threads=1", "logger=none"),
    *("model=film_unet_tiny", "model.multipliers=[1,1]", "model.channels=8", "model.groups=4"),
    *("trainer.max_steps=1", "eval.num_samples=2", "eval.samples_per_condition=2"),
    *("noise_samples=1", "sampling.steps=2"),
)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("images")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DISCRETE_DIFFUSION_CACHE", str(folder / "cache"))
        results = run_comparison(
            CompareRequest([*TINY, "data=eit_quantised", ALGORITHMS, f"out={folder / 'out'}"])
        )
        yield folder / "out", results


@pytest.mark.slow
def test_every_algorithm_has_the_samples_in_its_own_state():
    words = ("data=eit", "data.size=16", "data.noise_level=0.1", "data.split=[0.8,0.1,0.1]")
    cells = plan("algos=[mdlm,flow-matching,regression]", *words, "optim.lr=7e-4")
    assert compose("train", cells[0].overrides) == cells[0].config
    assert [(c.data, c.backbone, c.model, c.config.sampling.name, c.instead_of) for c in cells] == [
        ("eit_quantised", "film-unet-tokens", "film_unet_tiny", "ancestral", None),
        ("eit", "dtn-unet", "dtn_unet_tiny", "ode", None),
        ("eit", "dtn-unet", "dtn_unet_tiny", "direct", None),
    ]
    assert [c.config.sampling.get("steps") for c in cells] == [20, 20, None]
    levels, field = (cell.config.data for cell in cells[:2])
    for key in {*levels} & {*field} - {"name"}:
        assert levels[key] == field[key]
    assert (levels.noise_level, levels.size, levels.split) == (0.1, 16, [0.8, 0.1, 0.1])
    assert [cell.config.optim.lr for cell in cells] == [7e-4] * 3


@pytest.mark.slow
def test_a_sampler_and_the_options_of_an_experiment_go_where_they_fit(caplog, tmp_path):
    caplog.set_level("INFO")
    (tmp_path / "experiment").mkdir()
    (tmp_path / "experiment" / "mine.yaml").write_text(
        "# @package _global_\ndefaults: [override /data: eit, override /algo: flow-matching]\n"
        "algo: {time_sampling: quadratic, time_conditioning: false}\noptim: {lr: 5e-3}\n"
    )
    words = ("experiment=mine", "algos=[flow-matching,mdlm]", "sampling.temperature=0.9")
    flow, mdlm = plan(*words, "sampling=confidence", user_config_dir=str(tmp_path))
    assert (flow.config.algo.time_sampling, flow.config.sampling.name) == ("quadratic", "ode")
    assert mdlm.config.algo.time_sampling == "uniform_count"
    assert (mdlm.config.algo.time_conditioning, flow.config.algo.time_conditioning) == (True, False)
    assert "algo settings of the experiment do not apply to mdlm" in caplog.messages
    assert (mdlm.config.sampling.name, mdlm.config.sampling.temperature) == ("confidence", 0.9)
    assert "sampling.temperature=0.9: for mdlm" in caplog.messages
    assert [cell.config.optim.lr for cell in (flow, mdlm)] == [5e-3, 5e-3]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["algos=[mdlm,flow-matching]"], "flow-matching works on field, and data=bubble_diagrams"),
        (["data=eit", ALGORITHMS, "eval.num_samples=0"], "images of flow-matching are compared by"),
        (["data=eit", "algos=[ar]"], "no backbone that it can use reads data=eit_quantised"),
        (["data=eit", "algos=[mdlm]", "sampling=ode"], "mdlm works on tokens and cannot be sampl"),
    ],
)
def test_refusals_come_before_training(words, sentence, refusal):
    assert sentence in refusal(*words)


@pytest.mark.slow
def test_all_cells_have_the_same_truth(finished):
    out, _ = finished
    folders = sorted((out / "cells").iterdir())
    names = ["flow-matching-dtn-unet-seed0", "mdlm-film-unet-tokens-seed0"]
    assert [folder.name for folder in folders] == names
    config = complete_data(compose("train", ["algo=flow-matching", "data=eit", *TINY[:6]]))
    held_out = build_data(config).splits["test"]
    for folder in folders:
        with np.load(folder / "samples.npz") as arrays:
            assert np.array_equal(arrays["truth"], held_out.x0[:2].numpy())
            assert np.array_equal(arrays["dtn"], held_out.conditions["dtn"][:2].numpy())


def test_what_is_written(finished):
    out, results = finished
    table = (out / "table.md").read_text()
    for said in ("| ridge regression |", "bound, nats per image", "film_unet_tiny (mdlm)"):
        assert said in table
    assert results == json.loads((out / "results.json").read_text())
    for name in ("pareto.png", "images.png", "table.csv"):
        assert (out / name).stat().st_size > 0
