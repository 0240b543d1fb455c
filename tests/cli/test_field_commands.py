"""``train``, ``sample`` and ``evaluate`` on images with maps, as fields and as ids."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from discrete_diffusion.cli import compose, main
from discrete_diffusion.cli.train import train
from discrete_diffusion.data import build_data

DATA = [
    *("data.num_samples=60", "data.size=16", "data.mesh_rings=6", "data.num_boundary=16"),
    *("data.split=[0.8,0.1,0.1]", "data.batch_size=8"),
]
RUN = [
    *("threads=1", "logger=none", "trainer.max_steps=3", "trainer.val_check_interval=3"),
    *("callbacks.num_samples=2", "eval.num_samples=3", "eval.draws=2", "eval.bound_draws=1"),
    *("model.multipliers=[1,1]", "model.channels=8", "model.groups=4", "model.d_model=16"),
]
FIELD = ["algo=flow-matching", "sampling.default_steps=2", *DATA, *RUN]
LEVELS = [
    *("data=eit-levels", "algo.backbone=film-unet-tokens", "model=film_unet_tiny"),
    "sampling=ancestral",
    *("sampling.default_steps=2", *DATA, *RUN),
]


@pytest.fixture(scope="module", params=["field", "levels"])
def model(request, tmp_path_factory) -> str:
    folder = tmp_path_factory.mktemp(request.param)
    overrides = FIELD if request.param == "field" else LEVELS
    metrics = train(compose("train", overrides), folder / "run")
    assert metrics["num_images"] == 3
    assert metrics["relative_l2"] > 0
    assert (folder / "run" / "samples.png").is_file()
    return f"checkpoint={folder / 'run' / 'checkpoints' / 'best.ckpt'}"


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def read(name: str) -> dict:
    return json.loads(Path(name, "metrics.json").read_text())


def test_sample(model, capsys):
    main(["sample", model, "num_samples=4", "draws=3", "steps=2", "out=mine", "threads=1"])
    said = capsys.readouterr()
    assert "4 images of the test split, 3 draws each" in said.out + said.err
    found = read("mine")
    assert (found["num_samples"], found["draws_per_image"]) == (4, 3)
    assert found["network_calls_per_sample"] <= 2
    with np.load("mine/samples.npz") as arrays:
        truth, mean = arrays["truth"], arrays["mean"]
        assert arrays["dtn"].shape == (4, 16, 16)
    assert truth.shape == mean.shape == (4, 1, 16, 16)
    images = build_data(compose("train", FIELD)).splits["test"].x0[:4].numpy()
    assert np.array_equal(truth, images)  # of both data sets
    own = np.linalg.norm((mean - truth).reshape(4, -1), axis=1)
    own /= np.linalg.norm(truth.reshape(4, -1), axis=1)
    assert found["relative_l2"] == pytest.approx(own.mean(), rel=1e-5)
    assert Path("mine/samples.png").is_file()


def test_evaluate(model, capsys):
    words = ["num_samples=4", "draws=2", "steps=2", "bound_draws=1", "out=ev", "threads=1"]
    main(["evaluate", model, *words])
    said = capsys.readouterr().out
    found = read("ev")
    for name in ("relative_l2 ", "ridge_relative_l2", "condition_gap", "nelbo_"):
        assert name in said
    assert found["data_fingerprint"] == found["trained_on_fingerprint"]
    assert found["num_reference"] == 6
    assert {path.name for path in Path("ev").iterdir()} == {
        *("metrics.json", "table.md", "samples.npz", "samples.png"),
    }


@pytest.mark.parametrize(
    ("command", "words", "says"),
    [
        ("sample", ["given=a.npz"], "given=a.npz: CKPT was not trained on diagrams"),
        ("sample", ["num_rooms=4"], "num_rooms=4: CKPT was not trained on diagrams"),
        ("sample", ["mask_rate=0.3"], "mask_rate=0.3 is for rows of features"),
        ("evaluate", ["mask_rate=0.3"], "mask_rate=0.3 is for rows of features"),
        ("sample", ["draws=0"], "draws=0: expected a whole number, at least 1"),
        ("evaluate", ["reference=a.jsonl"], "reference=a.jsonl: CKPT was not trained on diagrams"),
    ],
)
def test_settings_that_make_no_sense(model, failure, command, words, says):
    path = model.removeprefix("checkpoint=")
    assert says.replace("CKPT", path) in failure(command, model, *words)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["data=eit"], "data=eit holds field, but algo=mdlm works on tokens; for this data choose"),
        (["algo=flow-matching", "data=bubble_diagrams"], "holds tokens, but algo=flow-matching"),
        (["algo=flow-matching", "algo.backbone=dit"], "backbone 'dit' works on tokens; choose"),
        (["algo=flow-matching", "sampling=ancestral"], "use sampling=ode"),
        (["algo=flow-matching", "sampling.solver=eular"], "did you mean 'euler'"),
    ],
)
def test_parts_that_do_not_fit(failure, words, says):
    assert says in failure("train", *words)


@pytest.mark.parametrize("algorithm", ["mdlm", "ar", "bd3lm"])
def test_a_network_without_the_condition_trains_without_it(tmp_path, algorithm):
    """A plain transformer on the ids: it is not handed the maps."""
    plain = [word for word in LEVELS if not word.startswith(("algo.", "model", "sampling"))]
    plain += ["data.num_samples=30", "eval.num_samples=0", "callbacks.num_samples=0"]
    overrides = [f"algo={algorithm}", *plain, "algo.backbone=dit", "model=dit_tiny"]
    metrics = train(compose("train", [*overrides, "model.n_blocks=1"]), tmp_path)
    assert metrics["nelbo_plain"] > 0


def test_compare_does_not_draw_without_maps(failure):
    words = ["algos=[mdlm]", "backbones=[film-unet-tokens]", "data=eit-levels"]
    assert "compare bounds alone, eval.num_samples=0" in failure("compare", *words)
