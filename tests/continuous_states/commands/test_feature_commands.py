"""``sample`` and ``evaluate`` of a model of features: held-out windows, a user's own, refusals."""

from __future__ import annotations

import json
import math
from copy import deepcopy
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest
import torch
from omegaconf import DictConfig, OmegaConf

from command_fixtures import run_plainly
from continuous_states.algorithms.gaussian import RowScaling
from continuous_states.regions.files import RegionTable, read_given_rows, write_regions
from continuous_states.sampling import RowAncestral
from discrete_diffusion import load
from discrete_diffusion.algorithms import build_algorithm
from discrete_diffusion.categorical import make_generator
from discrete_diffusion.checkpoints.contents import info_with_digest
from discrete_diffusion.checkpoints.files import INFO_KEY
from discrete_diffusion.cli import compose, main
from discrete_diffusion.contracts import Batch
from discrete_diffusion.domains import build_data, complete_data
from discrete_diffusion.evaluation import plus_minus
from guide_code import blocks
from interrupting import stop_at_call, stopped
from made_checkpoints import MACHINE, training_state

NUM_MOTIFS, ROWS = 5, 12
M = NUM_MOTIFS + 1
NAMES = [*(f"motif_{k}" for k in range(1, M)), "accessibility"]
DATA = [
    *("data.num_windows=40", f"data.num_motifs={NUM_MOTIFS}", f"data.rows={ROWS}"),
    *("data.peak_length=40", "data.num_programmes=2", "data.split=[0.5,0.2,0.3]"),
]
TINY = ["algo=masked-features", *DATA, "model.d_model=16", "model.n_layers=1"]


@lru_cache
def composed(*words: str) -> DictConfig:
    """The config of a tiny model; not to be changed."""
    return complete_data(compose("train", [*TINY, *words]))


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The folder of a run of three steps."""
    folder = tmp_path_factory.mktemp("features")
    words = ["debug=smoke", "logger=none", "trainer.max_steps=3", "threads=1"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DISCRETE_DIFFUSION_CACHE", str(folder / "cache"))
        main(["train", *words, *TINY, f"hydra.run.dir={folder}/run"])
    return folder / "run"


@pytest.fixture
def model(run, monkeypatch):
    """``checkpoint=`` of the run, whose data is in the cache."""
    monkeypatch.setenv("DISCRETE_DIFFUSION_CACHE", str(run.parent / "cache"))
    return f"checkpoint={run}/checkpoints/best.ckpt"


@pytest.fixture(scope="module")
def refused():
    """The sentence that a command refuses a config with."""

    def refused(command: str, *words: str) -> str:
        with pytest.raises((ValueError, FileNotFoundError)) as error:
            run_plainly(command, *words)
        assert "\n" not in str(error.value)
        return str(error.value)

    return refused


def read(folder: str) -> dict:
    return json.loads(Path(folder, "metrics.json").read_text())


def arrays(folder: str) -> dict[str, np.ndarray]:
    with np.load(Path(folder, "samples.npz"), allow_pickle=False) as file:
        return dict(file)


def untrained(path: Path, *words: str) -> str:
    """``checkpoint=`` of a model with random weights."""
    torch.save(training_state(composed(*words)), path)
    return f"checkpoint={path}"


@pytest.mark.slow
def test_held_out_windows_are_filled(model):
    main(["sample", model, "num_samples=5", "mask_rate=0.4", "out=mine", "threads=1"])
    found, made = read("mine"), arrays("mine")
    truth = build_data(composed()).splits["test"].x0[:5].numpy()
    masked = made["masked"]
    assert made["truth"].tobytes() == truth.tobytes()
    for name in ("filled", "predicted"):
        assert made[name].shape == (5, ROWS, M)
        assert made[name][~masked].tobytes() == truth[~masked].tobytes()
        assert (made[name][masked] != truth[masked]).all()
    assert made["feature_names"].tolist()[-1] == "accessibility"
    assert found["num_masked_rows"] == masked.sum()
    assert (found["num_samples"], found["split"], found["mask_rate"]) == (5, "test", 0.4)
    assert 1 < found["network_calls_per_sample"] <= 8
    assert found["exact"] is False
    assert "row-ancestral" in found["approximate_because"]
    assert {path.name for path in Path("mine").iterdir()} == {
        *("samples.npz", "samples.png", "metrics.json"),
    }
    drawn = load(model.removeprefix("checkpoint=")).sample(num=5, mask_rate=0.4)
    assert drawn.filled.numpy().tobytes() == made["filled"].tobytes()


@pytest.mark.slow
def test_windows_that_are_filled_when_a_signal_comes_are_kept(model, monkeypatch, capsys):
    words = ["sample", model, "threads=1", "batch_size=2", "sampling.temperature=1"]
    main([*words, "num_samples=6", "out=whole"])
    np.savez("given.npz", rows=windows(), feature_names=NAMES)
    main([*words, "given=given.npz", "num_completions=2", "out=given"])
    for options, call in ((["num_samples=6", "out=cut"], 3), (["given=given.npz", "out=rest"], 3)):
        with monkeypatch.context() as patch:
            stop_at_call(patch, RowAncestral, call)
            given = ["num_completions=2"] if "out=rest" in options else []
            stopped(capsys, *words, *options, *given)
    for whole, cut in ((arrays("whole"), arrays("cut")), (arrays("given"), arrays("rest"))):
        assert cut["masked"].tobytes() == whole["masked"][: len(cut["masked"])].tobytes()
        assert cut["filled"].tobytes() == whole["filled"][: len(cut["filled"])].tobytes()
    assert len(arrays("cut")["filled"]) == read("cut")["num_samples"] == 4
    assert len(arrays("rest")["filled"]) == read("rest")["completions"] == 1  # 4 of 2 x 3 fillings


def windows(num: int = 3, rows: int = ROWS) -> np.ndarray:
    """Float32[num, rows, M]; the second row of every window, and of the first all but one, NaN."""
    x = np.random.default_rng(0).random((num, rows, M), dtype=np.float32)
    x[:, 1] = np.nan
    x[0, 1:] = np.nan
    return x


@pytest.mark.slow
def test_given_windows_are_filled(model, refused):
    x = windows()
    np.savez("given.npz", rows=x, feature_names=NAMES)
    main(["sample", model, "given=given.npz", "out=mine", "threads=1"])
    found, made = read("mine"), arrays("mine")
    masked = np.isnan(x).all(axis=2)
    assert (made["masked"] == masked).all()
    assert made["filled"].shape == (1, 3, ROWS, M)
    assert made["filled"][0][~masked].tobytes() == x[~masked].tobytes()
    assert np.isfinite(made["filled"]).all()
    assert "truth" not in made
    assert (found["completions"], found["num_inputs"], found["num_samples"]) == (1, 3, 3)
    assert "per_motif_r" not in found
    np.savez("mine/samples.npz", rows=x)
    error = refused("sample", model, "given=mine/samples.npz", "out=mine")
    assert error.startswith("given=mine/samples.npz: mine/samples.npz would be overwritten")


def test_objects_are_given_windows_too(model):
    x = windows()
    np.savez("given.npz", rows=x, feature_names=NAMES)
    loaded = load(model.removeprefix("checkpoint="))
    expected = loaded.sample(given="given.npz", num_completions=2)
    rows = np.where(np.isnan(x), None, x.astype(object)).tolist()
    nulls = [[None if row.count(None) == M else row for row in window] for window in rows]
    for given in (
        {"rows": x, "feature_names": NAMES},
        [{"rows": window, "feature_names": NAMES} for window in rows],
        [json.dumps({"rows": window}) for window in nulls],
    ):
        found = loaded.sample(given=given, num_completions=2)
        assert found.filled.numpy().tobytes() == expected.filled.numpy().tobytes()
    masked = np.isnan(x).all(axis=2)
    with_truth = loaded.sample(given={"rows": np.nan_to_num(x, nan=0.25), "masked": masked})
    assert (with_truth.masked.numpy() == masked).all()


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ([[0.5]], r"given\[0\].*expected an object"),
        (["{"], r"given\[0\].*not valid JSON"),
        ({"values": []}, r"given\[0\].*'rows'"),
        ({"rows": [[1.0] * M, [1.0]]}, r"given\[0\]: rows.*different lengths"),
        ({"rows": [["a"] * M, None]}, r"given\[0\]: rows"),
        ([{"rows": [[0.5] * M, None]}, {"rows": [[0.5] * M] * 2}], r"given\[1\]: rows.*no row to"),
        ([{"rows": [[0.5] * M, None]}, {"rows": [[0.5] * M] * 2 + [None]}], r"given\[1\].*3 rows"),
        ({"rows": [[0.5] * (M - 1) + [None], None]}, r"given\[0\]: rows\[0\] is partly NaN"),
    ],
)
def test_what_is_wrong_with_given_objects_is_named(model, given, named):
    with pytest.raises(ValueError, match=named):
        load(model.removeprefix("checkpoint=")).sample(given=given)


@pytest.mark.slow
def test_draws_of_given_windows_differ_and_the_truth_is_scored(model, capsys):
    x, masked = np.nan_to_num(windows(), nan=0.25), np.isnan(windows()).all(axis=2)
    x[1:, 1] += np.arange(2, dtype=np.float32)[:, None]  # no column is constant
    np.savez("given.npz", rows=x.astype(np.float64), masked=masked)
    words = ["sample", model, "given=given.npz", "threads=1"]
    main([*words, "sampling.temperature=1", "out=noisy"])
    found, made = read("noisy"), arrays("noisy")
    assert made["filled"].shape == (4, 3, ROWS, M)
    assert not np.allclose(made["filled"][0][masked], made["filled"][1][masked])
    assert (made["filled"][:, ~masked] == x[~masked]).all()
    assert (made["truth"] == x).all()
    assert found["num_masked_rows"] == masked.sum()
    error = (made["filled"] - made["truth"])[:, masked].astype(np.float64)
    scale = build_data(composed()).splits["train"].x0.double().std((0, 1), False)
    assert found["filled_masked_mse"] == pytest.approx(((error / scale.numpy()) ** 2).mean())
    assert "neighbour_mean_per_motif_r" in found
    assert "oracle_per_motif_r" not in found  # nobody knows the user's programmes
    capsys.readouterr()
    main([*words, "steps=1", "num_completions=2", "out=same"])
    assert "no noise is added" in capsys.readouterr().out


@pytest.mark.slow
def test_a_window_alone_with_fewer_rows_than_trained_on(tmp_path, capsys):
    model = untrained(tmp_path / "model.ckpt")
    x = windows(rows=7)[1]
    np.savez("one.npz", rows=x, masks=x)
    main(["sample", model, "given=one.npz", "threads=1", "steps=1"])
    assert "one.npz: ignored: masks" in capsys.readouterr().out
    filled = torch.from_numpy(arrays("samples")["filled"])
    assert filled.shape == (1, 1, 7, M)
    rows = torch.from_numpy(x)[None]
    masked = rows.isnan().all(dim=2)
    expected = load(model.removeprefix("checkpoint=")).predict(
        rows.nan_to_num(), masked, torch.ones_like(masked)
    )
    torch.testing.assert_close(filled[0], expected)


def spoilt(**changes) -> dict[str, np.ndarray]:
    return {"rows": windows(), **changes}


def at(index, value) -> np.ndarray:
    x = windows()
    x[index] = value
    return x


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ({"truth": np.zeros(3)}, "g.npz has no array 'rows'; expected windows to fill"),
        (spoilt(rows=windows()[..., :5]), "rows has 5 features, the model was trained on 6"),
        (spoilt(rows=windows(rows=13)), "a window has 13 rows, the model was trained on 12 at"),
        (spoilt(rows=np.zeros(6)), "rows has shape (6,); expected (W, N, 6) for W windows"),
        (spoilt(rows=np.zeros((0, 3, 6))), "rows has shape (0, 3, 6); expected"),
        (spoilt(rows=np.array(["a"])), "rows is <U1; expected numbers"),
        (spoilt(rows=at((2, 4, 3), np.nan)), "rows[2, 4] is partly NaN; give all of its"),
        (spoilt(rows=at((1, 3, 0), np.inf)), "rows[1, 3] holds an infinite value"),
        (spoilt(rows=at((2, 1), 0.0)), "rows[2] has no row to fill; make rows NaN"),
        (spoilt(rows=at(1, np.nan)), "rows[1] has no observed row"),
        (spoilt(rows=np.zeros((3, 6))), "rows has no row to fill"),
        (spoilt(masked=np.zeros((3, 12))), "masked is float64 of shape (3, 12); expected bool"),
        (spoilt(masked=np.zeros(12, bool)), "expected bool of shape (3, 12), one per row"),
        (spoilt(feature_names=["a"]), "feature_names holds 1 names; expected 6"),
        (spoilt(feature_names=[NAMES[-1], *NAMES[:-1]]), "feature_names[0] is 'accessibility',"),
    ],
)
def test_what_is_wrong_with_given_windows_is_named(content, sentence):
    np.savez("g.npz", **content)
    with pytest.raises(ValueError, match=r"^g\.npz") as error:
        read_given_rows("g.npz", feature_names=NAMES, most_rows=ROWS, scaling=RowScaling("none", M))
    assert sentence in str(error.value)
    assert "\n" not in str(error.value)


def test_a_file_that_is_none(model, refused):
    assert refused("sample", model, "given=no.npz").startswith("given=no.npz: ")
    Path("bad.npz").write_text("rows")
    assert "bad.npz is not an .npz file" in refused("sample", model, "given=bad.npz")
    np.savez("cut.npz", rows=windows())
    content = Path("cut.npz").read_bytes()
    Path("cut.npz").write_bytes(content[:400] + b"!!!!" + content[404:])
    with pytest.raises(ValueError, match=r"cut\.npz: rows is damaged"):
        read_given_rows(
            "cut.npz", feature_names=NAMES, most_rows=ROWS, scaling=RowScaling("none", M)
        )
    Path("cut.npz").write_bytes(content[:400])
    error = refused("sample", model, "given=cut.npz")
    assert error.startswith("cut.npz is not an .npz file, or damaged (was it copied in full?)")
    np.save("one.npy", windows())
    assert "one.npy holds one array" in refused("sample", model, "given=one.npy")
    Path("p.jsonl").write_text('{"rooms": [null, null]}\n')
    error = refused("sample", model, "given=p.jsonl")
    assert error.startswith("p.jsonl is not an .npz file, and the model was trained on features")


@pytest.mark.parametrize(
    ("normalise", "limit"),
    [
        ("zscore", "1,000,000 training standard deviations from the mean"),
        ("max", "1,000,000 times the largest of training"),
        ("none", "1,000,000"),
    ],
)
def test_numbers_of_another_size_are_refused(normalise, limit):
    scaling = RowScaling(normalise, M)
    scaling.fit(torch.rand(4, ROWS, M, generator=make_generator(0)), torch.ones(4, ROWS) > 0)
    asked = {"feature_names": NAMES, "most_rows": ROWS, "scaling": scaling}
    np.savez("g.npz", rows=at((1, 3, 2), 1e30))
    said = rf"^g.npz: rows\[1, 3, 2\] is 1e\+30 \(motif_3\), more than {limit}; give raw values"
    with pytest.raises(ValueError, match=said):
        read_given_rows("g.npz", **asked)
    hidden = np.isnan(windows()).all(axis=2)
    hidden[1, 3] = True
    np.savez("g.npz", rows=at((1, 3, 2), 1e30), masked=hidden)  # nobody is shown it
    read_given_rows("g.npz", **asked)
    np.savez("g.npz", rows=at((1, 3, 2), 1000.0))
    read_given_rows("g.npz", **asked)


def test_a_model_that_has_diverged(refused):
    torch.save(with_weight(training_state(composed()), math.nan), "model.ckpt")
    for command in ("sample", "evaluate"):
        error = refused(command, "checkpoint=model.ckpt")
        assert "training has diverged; take an earlier checkpoint" in error


@pytest.mark.parametrize("words", [[], ["given=given.npz"]])
def test_output_that_is_not_finite_is_not_written(words, refused):
    state = with_weight(training_state(composed()), 3e38)  # finite, and overflows
    torch.save(state, "model.ckpt")
    np.savez("given.npz", rows=windows())
    error = refused("sample", "checkpoint=model.ckpt", "threads=1", *words)
    assert error.startswith("the model's output is not finite (window 0, row ")
    assert not Path("samples").exists()


@pytest.mark.slow
def test_samples_of_a_table_know_where_they_lie(tmp_path):
    rng = np.random.default_rng(0)
    names = tuple(f"chr1:{1000 * k + 100}-{1000 * k + 600}" for k in range(80))
    table = RegionTable(
        rng.exponential(size=(80, NUM_MOTIFS)).astype(np.float32),
        names,
        tuple(NAMES[:-1]),
        {"b_cell": rng.random(80, dtype=np.float32)},
    )
    write_regions("t.npz", table)
    model = untrained(tmp_path / "model.ckpt", "data.path=t.npz")
    main(["sample", model, "threads=1", "steps=1", "num_samples=2"])
    made = arrays("samples")
    assert made["cell_types"].tolist() == ["b_cell", "b_cell"]
    assert made["peak_names"].tolist() == [list(names[56:68]), list(names[68:80])]
    assert (made["truth"][1, :, :-1] == table.scores[68:80]).all()


@pytest.mark.parametrize(
    ("command", "words", "sentence"),
    [
        ("sample", ["mask_rate=1"], "mask_rate=1: expected a share between 0 and 1"),
        ("sample", ["given=a.npz", "mask_rate=0.5"], "mask_rate=0.5 does not go with given="),
        ("sample", ["given=a.npz", "num_samples=3"], "did you mean num_completions=3"),
        ("sample", ["sampling.name=ancestral"], "which samples tokens; use sampling=row-ancestral"),
        ("sample", ["sampling.temperature=-1"], "sampling.temperature=-1: expected"),
        ("evaluate", ["reference=a.jsonl"], "reference=a.jsonl: CKPT was not trained on diagrams"),
        ("evaluate", ["mask_rate=2.0"], "mask_rate=2.0: expected a share between 0 and 1"),
    ],
)
def test_settings_that_make_no_sense(model, refused, command, words, sentence):
    path = model.removeprefix("checkpoint=")
    for name in ("a.npz", "a.jsonl"):
        Path(name).touch()
    assert sentence.replace("CKPT", path) in refused(command, model, *words)


@pytest.mark.slow
def test_evaluate(model, capsys):
    main(["evaluate", model, "num_seeds=3", "seed=2", "noise_samples=2", "out=mine", "threads=1"])
    said = capsys.readouterr().out
    found, made, table = read("mine"), arrays("mine"), Path("mine/table.md").read_text()
    assert {path.name for path in Path("mine").iterdir()} == {
        *("metrics.json", "table.md", "samples.npz", "samples.png", "row_scores.png"),
    }
    assert (found["seeds"], found["num_samples"], found["mask_rate"]) == ([2, 3, 4], 12, 0.5)
    assert found["reference"] == "the test split of the checkpoint's data"
    assert found["data_fingerprint"] == found["trained_on_fingerprint"]
    for name in ("per_motif_r", "filled_masked_mse", "oracle_per_motif_r"):
        low, high = found["intervals"][name]
        assert low < found[name] < high
        assert found[name] == pytest.approx(np.mean(found["per_seed"][name]))
        error = np.std(found["per_seed"][name], ddof=1) / len(found["per_seed"][name]) ** 0.5
        assert f" {plus_minus(found[name], error, 4)} |" in table
    # the first seed's windows are those written, scored as they are read
    masked = made["masked"]
    x, y = made["truth"][masked], made["predicted"][masked]
    r = np.mean([np.corrcoef(x[:, k], y[:, k])[0, 1] for k in range(M)])
    assert found["per_seed"]["per_motif_r"][0] == pytest.approx(r, abs=1e-4)
    assert [record["mask_rate"] for record in found["by_mask_rate"]] == [0.15, 0.3, 0.5, 0.7, 0.9]
    # three steps: still about a standard normal per scaled number
    per_number = found["nelbo_gaussian_per_token"] / M
    assert per_number == pytest.approx(math.log(2 * math.pi) / 2 + 0.5, abs=0.15)
    record = found["by_mask_rate"][1]
    r = [f"{record[f'{who}per_motif_r']:.4f}" for who in ("", "neighbour_mean_", "oracle_")]
    assert f"| 30 % | {' | '.join(r)} |" in table
    for part in (" oracle ", "nelbo_gaussian ", "seed 4: 12 windows"):
        assert part in said


def test_evaluate_quickly(model):
    words = ["quick=true", "num_samples=3", "num_held_out=5", "pictures=false", "threads=1"]
    main(["evaluate", model, *words, "split=val", "mask_rate=0.3", "steps=2"])
    found, table = read("evaluation"), Path("evaluation/table.md").read_text()
    assert (found["num_windows"], found["nelbo_num_samples"], found["seeds"]) == (3, 5, [0])
    assert (found["num_reference"], found["mask_rate"]) == (8, 0.3)
    assert found["intervals"]["per_motif_r"] == [None, None]
    assert found["network_calls_per_sample"] <= 2
    assert found["quick"] == {
        "num_held_out": 5,
        "num_samples": 3,
        "num_seeds": 1,
        "noise_samples": 1,
    }
    for part in ("quick=true", "5 of 8 held-out samples", "num_samples=3", "noise_samples=1"):
        assert part in table


@pytest.mark.slow
def test_a_model_whose_objective_is_ddpm(tmp_path, capsys):
    """It draws by default; its bound is of another quantity. The data is not what it names."""
    model = untrained(tmp_path / "ddpm.ckpt", "algo.objective=ddpm")
    np.savez("given.npz", rows=windows())
    main(["sample", model, "given=given.npz", "threads=1", "steps=3"])
    filled = arrays("samples")["filled"]
    assert len(filled) == 4
    assert not np.allclose(filled[0], filled[1])
    assert read("samples")["network_calls_per_sample"] == 3
    words = ["num_seeds=1", "noise_samples=1", "num_samples=2", "pictures=false", "steps=2"]
    main(["evaluate", model, *words, "threads=1"])
    assert read("evaluation")["nelbo_gaussian_given_observed"] > 0
    assert "hidden rows given the others" in Path("evaluation/table.md").read_text()
    assert f"then {'f' * 16})" in capsys.readouterr().out


@pytest.mark.slow
def test_a_checkpoint_whose_data_is_gone_fills_what_it_is_given(tmp_path, refused, capsys):
    config = deepcopy(composed())
    config.data.path = "gone.npz"
    torch.save(training_state(config), tmp_path / "model.ckpt")
    model = "checkpoint=model.ckpt"
    error = refused("sample", model)
    assert error.startswith("the data of model.ckpt cannot be read (no regions at /")
    assert error.endswith("; give windows of your own with given=FILE.npz")
    error = refused("evaluate", model)
    assert error.startswith("the data of model.ckpt cannot be read (no regions at /")
    assert error.endswith("; put it back where the run found it")
    x = np.nan_to_num(windows(), nan=0.5)
    np.savez("given.npz", rows=x, masked=np.isnan(windows()).all(axis=2))
    main(["sample", model, "given=given.npz", "threads=1", "steps=1"])
    assert "the fillings are not scored: the data of model.ckpt" in capsys.readouterr().out
    assert "per_motif_r" not in read("samples")
    config.data.path = "samples/samples.npz"
    torch.save(training_state(config), tmp_path / "model.ckpt")
    for command, out in (("sample", "out=samples"), ("evaluate", "out=samples")):
        error = refused(command, model, out, "overwrite=true")
        assert error.startswith("data.path=samples/samples.npz: samples/samples.npz would be over")


def with_weight(state: dict, value: float) -> dict:
    """A training state with another bias and scale of the first feature, and its digest."""
    weights = state["state_dict"]
    weights["algorithm.backbone.head.bias"][0] = value
    weights["algorithm.scaling.scale"][0] = 100.0
    info = {k: v for k, v in state[INFO_KEY].items() if k not in ("digest", "step", "machine")}
    info.pop("scheduled_steps", None)
    return {**state, INFO_KEY: info_with_digest(info, weights, step=7, machine=MACHINE)}


@pytest.mark.usefixtures("clean_registry")
@pytest.mark.parametrize("objective", ["mask", "ddpm"])
def test_the_backbone_of_the_page_trains_and_predicts(objective):
    [code] = [block for block in blocks("features.md", "python") if "register_backbone" in block]
    exec(compile(code, "features.md", "exec"), {})
    config = complete_data(
        compose("train", ["algo=masked-features", f"algo.objective={objective}"])
    )
    config.algo.backbone, config.model = "neighbour-net", OmegaConf.create({"width": 8})
    algorithm = build_algorithm(config)
    real = torch.ones(4, 64, dtype=torch.bool)
    batch = Batch(torch.rand(4, 64, 33, generator=make_generator(0)), real)
    algorithm.loss(batch, make_generator(1)).loss.backward()
    assert all(p.grad.isfinite().all() for p in algorithm.parameters())
    hidden = torch.arange(64).expand(4, -1) % 3 == 0
    with torch.no_grad():
        found = algorithm.predict(batch.x0, hidden, real)
        blank = batch.x0.masked_fill(hidden.unsqueeze(-1), torch.nan)
        assert torch.equal(found, algorithm.predict(blank, hidden, real))
