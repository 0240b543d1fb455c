"""``train``, ``sample`` and ``evaluate`` on images with maps, as fields and as ids."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from command_fixtures import run_plainly
from continuous_states.eit.image_scores import Ridge
from discrete_diffusion import load
from discrete_diffusion.cli import compose, main
from discrete_diffusion.cli.train import TrainRequest, run_training
from discrete_diffusion.domains import build_data
from discrete_diffusion.sampling import Ancestral
from interrupting import stop_at_call, stopped

QUICK = ["steps=1", "samples_per_condition=1", "num_samples=4"]
DATA = [
    *("data.num_samples=60", "data.size=16", "data.mesh_rings=6", "data.num_boundary=16"),
    *("data.split=[0.8,0.1,0.1]", "data.batch_size=8"),
]
RUN = [
    *("threads=1", "logger=none", "trainer.max_steps=3", "trainer.val_check_interval=3"),
    *("callbacks.num_samples=2", "eval.num_samples=3", "eval.samples_per_condition=2"),
    "eval.noise_samples=1",
    *("model.multipliers=[1,1]", "model.channels=8", "model.groups=4", "model.d_model=16"),
]
FIELD = ["algo=flow-matching", "sampling.steps=2", *DATA, *RUN]
LEVELS = [
    *("data=eit_quantised", "algo.backbone=film-unet-tokens", "model=film_unet_tiny"),
    "sampling=ancestral",
    *("sampling.steps=2", *DATA, *RUN),
]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The checkpoint of a run, trained when first asked for."""

    @cache
    def run(kind: str) -> Path:
        folder = tmp_path_factory.mktemp(kind)
        overrides = FIELD if kind == "field" else LEVELS
        metrics = run_training(TrainRequest(compose("train", overrides), folder / "run"))
        assert metrics["num_images"] == 3
        assert metrics["relative_l2"] > 0
        assert (folder / "run" / "samples.png").is_file()
        return folder / "run" / "checkpoints" / "best.ckpt"

    return run


@pytest.fixture(params=["field", "levels"])
def model(request, trained) -> str:
    return f"checkpoint={trained(request.param)}"


@pytest.fixture(scope="module")
def command(trained):
    def run(name: str, kind: str, *words: str) -> None:
        run_plainly(name, f"checkpoint={trained(kind)}", "threads=1", *words)

    return run


def read(name: str) -> dict:
    return json.loads(Path(name, "metrics.json").read_text())


@pytest.mark.slow
def test_sample(model):
    words = ["num_samples=4", "samples_per_condition=3", "steps=2", "out=mine", "threads=1"]
    main(["sample", model, *words])
    found = read("mine")
    assert (found["num_samples"], found["draws_per_image"]) == (4, 3)
    assert found["network_calls_per_sample"] <= 2
    assert found["exact"] is False
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
    drawn = load(model.removeprefix("checkpoint=")).sample(num=4, samples_per_condition=3, steps=2)
    assert np.array_equal(drawn.mean.numpy(), mean)


@pytest.mark.slow
def test_images_that_are_drawn_when_a_signal_comes_are_kept(trained, monkeypatch, capsys):
    words = ["sample", f"checkpoint={trained('levels')}", "num_samples=4", "steps=2"]
    words += ["samples_per_condition=2", "batch_size=4", "threads=1"]
    main([*words, "out=whole"])
    whole = np.load("whole/samples.npz")["first"]
    for call, num in ((2, 2), (4, 4)):  # of own maps; of those of others
        with monkeypatch.context() as patch:
            stop_at_call(patch, Ancestral, call)
            stopped(capsys, *words, f"out=cut{call}")
        assert np.array_equal(np.load(f"cut{call}/samples.npz")["first"], whole[:num])
        assert read(f"cut{call}")["num_samples"] == num


@pytest.mark.slow
def test_evaluate(model, capsys):
    words = ["num_samples=4", "samples_per_condition=2", "steps=2"]
    words += ["noise_samples=1", "out=ev", "threads=1"]
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


@pytest.mark.slow
def test_evaluate_on_other_phantoms(trained, caplog):
    """The images are others, the baselines those of the data that was trained on."""
    words = [*QUICK, "noise_samples=1", "threads=1", "pictures=false"]
    words += [f"checkpoint={trained('field')}", "data.phantoms=tubes", "data.noise_level=0.1"]
    main(["evaluate", *words])
    assert "fingerprint" not in caplog.text
    found = read("evaluation")
    changed = {"phantoms": "tubes", "noise_level": 0.1}
    name = "the test split of the checkpoint's data with data.phantoms=tubes, data.noise_level=0.1"
    assert (found["reference"], found["changed_data"]) == (name, changed)
    assert (found["num_reference"], found["num_trained_on"]) == (6, 0)
    assert found["data_fingerprint"] != found["trained_on_fingerprint"]
    tubes = build_data(
        compose("train", [*FIELD, "data.phantoms=tubes", "data.noise_level=0.1"])
    ).splits["test"]
    discs = build_data(compose("train", FIELD)).splits["train"]
    ridge = Ridge.fit(discs.conditions["dtn"], discs.x0)
    truth = tubes.x0[:4]
    with np.load("evaluation/samples.npz") as arrays:
        assert np.array_equal(arrays["truth"], truth)
        assert np.array_equal(arrays["dtn"], tubes.conditions["dtn"][:4])
    error = (ridge.predict(tubes.conditions["dtn"][:4]) - truth).flatten(1).norm(dim=1)
    relative = float((error / truth.flatten(1).norm(dim=1)).mean())
    assert found["ridge_relative_l2"] == pytest.approx(relative, rel=1e-4)


@pytest.mark.slow
def test_noise_leaves_the_held_out_images_and_other_shares_do_not(command, caplog):
    """Which rows are held out depends on the phantoms and the shares alone."""
    command("sample", "levels", *QUICK, "data.noise_level=0.5")
    own = build_data(compose("train", FIELD)).splits["test"]
    with np.load("samples/samples.npz") as arrays:
        assert np.array_equal(arrays["truth"], own.x0[:4])
        assert not np.allclose(arrays["dtn"], own.conditions["dtn"][:4], rtol=0.05)
    assert read("samples")["num_trained_on"] == 0
    command("sample", "levels", *QUICK, "data.split=[0,0,1]", "overwrite=true")
    assert read("samples")["num_trained_on"] == 48
    assert "48 of the 60 samples of the test split" in caplog.text


@pytest.mark.slow
def test_a_file_of_measurements(command):
    """Of other values than the six: without pixel accuracy, and not as ids."""
    drawn = build_data(compose("train", FIELD)).splits["val"]
    media, dtn = 1.5 * drawn.x0[:, 0].numpy(), drawn.conditions["dtn"].numpy()
    np.savez("measured.npz", media=media, dtn=dtn)
    words = [*QUICK, "data.path=measured.npz", "data.dtn_transform=none"]
    command("sample", "field", *words)
    found = read("samples")
    assert found["reference"] == "measured.npz with data.dtn_transform=none"
    command("sample", "field", *words, "data.split=[0,0,1]", "out=split")
    assert read("split")["relative_l2"] == found["relative_l2"]
    assert found["num_images"] == 4
    assert not any("pixel" in name for name in found)
    with pytest.raises(ValueError, match="data=eit_quantised takes"):
        command("sample", "levels", *words, "out=other")
    Path("samples.npz").write_bytes(Path("measured.npz").read_bytes())
    with pytest.raises(ValueError, match=r"data.path=samples.npz: .* would be overwritten"):
        command("sample", "field", *words, "data.path=samples.npz", "out=.", "overwrite=true")


@pytest.mark.parametrize(
    ("name", "word", "names"),
    [
        ("sample", "mask_rate=0.3", "CKPT"),
        ("evaluate", "num_seeds=2", "CKPT"),
        ("sample", "samples_per_condition=0", "at least 1"),
        ("sample", "data.fantoms=tubes", "phantoms"),
        ("sample", "data.phantoms=cubes", "tubes"),
        ("sample", "data.size=20", "data.size=16"),
        ("sample", "data.num_boundary=32", "data.num_boundary=16"),
        ("sample", "data.batch_size=2", "batch_size=N"),
        ("sample", "data.noise_level=a", "number"),
    ],
)
def test_settings_that_make_no_sense(trained, command, name, word, names):
    """The message names the key and its value, and what does not go with them or would."""
    key, value = word.split("=")
    with pytest.raises(ValueError) as error:
        command(name, "field", word)
    said = str(error.value)
    assert key.removeprefix("data.") in said
    assert value in said or key == "data.fantoms"
    assert names.replace("CKPT", str(trained("field"))) in said
    assert "\n" not in said


def test_another_data_set_is_another_model(failure):
    says = "data=eit_quantised: evaluate takes the kind of data of the checkpoint; leave it out"
    assert says in failure("evaluate", "checkpoint=a.ckpt", "data=eit_quantised")


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


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["mdlm", "ar"])
def test_a_network_without_the_condition_trains_without_it(tmp_path, algorithm):
    """A plain transformer on the ids: it is not handed the maps."""
    plain = [word for word in LEVELS if not word.startswith(("algo.", "model", "sampling"))]
    plain += ["data.num_samples=30", "eval.num_samples=0", "callbacks.num_samples=0"]
    overrides = [f"algo={algorithm}", *plain, "algo.backbone=dit", "model=dit_tiny"]
    metrics = run_training(
        TrainRequest(compose("train", [*overrides, "model.n_blocks=1"]), tmp_path)
    )
    assert metrics["nelbo_plain"] > 0
