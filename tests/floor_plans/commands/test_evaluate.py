"""``discrete-diffusion evaluate`` as a user runs it, in this process."""

from __future__ import annotations

import json
import math
import signal
from pathlib import Path

import pytest
import torch
from omegaconf import OmegaConf

from discrete_diffusion.algorithms import build_algorithm
from discrete_diffusion.checkpoints import checkpoint_info
from discrete_diffusion.checkpoints.contents import info_with_digest
from discrete_diffusion.checkpoints.files import INFO_KEY, write_weights_file
from discrete_diffusion.cli import compose, evaluate, main
from discrete_diffusion.config.files import config_dirs
from discrete_diffusion.data import Examples, TokenDataset
from discrete_diffusion.domains import TIME_BINS, Domain
from discrete_diffusion.domains import registry as domains
from discrete_diffusion.domains.registry import get_domain, options_of
from discrete_diffusion.evaluation import evaluate_token_model
from discrete_diffusion.evaluation.tables import COLUMNS, print_table
from discrete_diffusion.layout import TokenLayout
from discrete_diffusion.sampling import FirstHitting
from floor_plans import BubbleDiagram, generate_plans, read_diagrams, write_diagrams
from floor_plans.diagrams.metrics.diagrams import DISTANCES, bubble_metrics, structure_metrics
from floor_plans.learning import build
from interrupting import stop_at_call, stop_when_measuring, stopped

QUICK = ["reference_repeats=2", "noise_samples=1", "time_bins=2", "num_samples=6", "num_seeds=2"]
QUICK.append("num_solver_checks=0")
PLAIN = [*QUICK, "pictures=false"]
MODEL = ["noise_samples=1", "time_bins=2"]
PICTURES = {"samples.png", "adjacency.png", "histograms.png", "relations.png"}
BIG = [BubbleDiagram((0, *[3] * 8), ((0, 1, 2),))]
MODEL_PICTURES = {"calibration.png", "nelbo_by_t.png"}


def save(path: Path, config, size_counts: list[int], fingerprint="unknown", bias=0.0) -> Path:
    """An untrained model as a checkpoint, ``bias`` added to its weights."""
    torch.manual_seed(0)
    weights = build_algorithm(config).state_dict()
    weights = {k: w + bias if w.is_floating_point() else w for k, w in weights.items()}
    info = checkpoint_info(
        OmegaConf.to_container(config, resolve=True), size_counts, data_fingerprint=fingerprint
    )
    state = {f"algorithm.{name}": value for name, value in weights.items()}
    info = info_with_digest(info, state, step=0, machine={})
    write_weights_file(path, {"state_dict": state, INFO_KEY: info})
    return path


def save_plans_model(folder: Path, bias: float = 0.0) -> Path:
    """A model of 90 plans in ``plans.jsonl``: 60 to train on, 30 held out for validation."""
    write_diagrams("plans.jsonl", generate_plans(90, seed=0))
    words = ["model=bd_tiny", "data=plans", f"data.path={folder}/plans.jsonl"]
    config = compose(overrides=[*words, "data.split=[0.667,0.333,0.0]"])
    data = domains.build_data(config)
    path = folder / "plans.safetensors"
    return save(path, config, data.size_counts(), data.fingerprint(), bias)


@pytest.fixture
def plans_model(tmp_path) -> Path:
    return save_plans_model(tmp_path)


def metrics(folder: str = "evaluation") -> dict:
    return json.loads(Path(folder, "metrics.json").read_text())


@pytest.mark.slow
def test_a_checkpoint_against_what_it_held_out(plans_model, capsys):
    main(["evaluate", f"checkpoint={plans_model}", *QUICK, "out=mine", "seed=4"])
    names = {path.name for path in Path("mine").iterdir()}
    assert names == {"metrics.json", "table.md", "samples.jsonl", *PICTURES, *MODEL_PICTURES}
    found = metrics("mine")
    assert found["reference"] == "the val split of the checkpoint's data"  # test is empty
    assert found["num_reference"] == 30
    assert found["seeds"] == [4, 5]
    assert found["data_fingerprint"] == found["trained_on_fingerprint"] != "unknown"
    assert "novelty" not in found["real"]  # what is held out is new by construction
    assert found["num_samples"] == len(read_diagrams("mine/samples.jsonl")) == 6
    assert found["floor_sizes"] == {"num_samples": 6, "num_reference": 30, "draws": 2}
    for name in (*DISTANCES, "valid", "novelty", "diversity"):
        assert found[name] == pytest.approx(sum(found["per_seed"][name]) / 2)
        low, high = found["intervals"][name]
        assert low <= found[name] <= high
    # an untrained model guesses uniformly among 13 room types and 11 relations
    tokens = found["nelbo_ordered_fixed"] / found["nelbo_ordered_fixed_per_token"]
    assert 2.39 * tokens < found["nelbo_ordered_fixed"] < 2.57 * tokens
    start = found["nelbo_uniform_ordered_fixed"]
    assert found["nelbo_unordered"] == pytest.approx(start, rel=0.05)
    assert start > found["nelbo_uniform"] + 2  # in whatever order
    by_time = found["nelbo_by_t"]
    assert by_time["area"] == pytest.approx(
        found["nelbo_ordered_fixed"], abs=4 * by_time["area_standard_error"]
    )
    by_rooms = found["nelbo_by_size"]
    assert by_rooms["unit"] == "rooms"
    assert sum(by_rooms["num_samples"]) == 30
    assert {r["group"] for r in found["calibration"]} == {"node", "edge"}
    assert found["network_calls_per_sample"] > 10
    assert (found["exact"], found["approximate_because"]) == (True, None)
    assert "seed 4: 6 samples in" in capsys.readouterr().out
    table = Path("mine/table.md").read_text()
    assert "| node_tv |" in table
    assert "| rooms | nelbo_unordered | held-out samples | per token |" in table


@pytest.mark.slow
def test_samples_alone_are_measured_without_draws(plans_model):
    main(["evaluate", f"checkpoint={plans_model}", *QUICK, "noise_samples=0", "out=alone"])
    main(["evaluate", f"checkpoint={plans_model}", *QUICK, "out=both"])
    alone, both = metrics("alone"), metrics("both")
    assert not [name for name in alone if name.startswith(("nelbo", "calibration"))]
    assert {k: both[k] for k in alone if "seconds" not in k} == {
        k: v for k, v in alone.items() if "seconds" not in k
    }
    assert "noise_samples=0" in Path("alone/table.md").read_text()
    assert not {path.name for path in Path("alone").iterdir()} & set(MODEL_PICTURES)


@pytest.mark.slow
def test_samples_are_kept_if_the_measuring_is_stopped(plans_model, monkeypatch, capsys):
    stop_when_measuring(monkeypatch)
    said = stopped(capsys, "evaluate", f"checkpoint={plans_model}", *PLAIN)
    assert len(read_diagrams("evaluation/samples.jsonl")) == 6
    assert "at part 2 of 3, measuring the model" in said
    assert "evaluation/samples.jsonl" in said


@pytest.mark.slow
def test_samples_that_are_finished_are_kept_if_the_sampling_is_stopped(
    plans_model, monkeypatch, capsys
):
    stop_at_call(monkeypatch, FirstHitting, 2, signal.SIGUSR1)
    words = ["evaluate", f"checkpoint={plans_model}", *PLAIN, "batch_size=2"]
    said = stopped(capsys, *words, status=128 + signal.SIGUSR1)
    assert "evaluation/samples.jsonl" in said
    assert len(read_diagrams("evaluation/samples.jsonl")) == 2
    assert not Path("evaluation/metrics.json").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_samples_are_drawn_says_how_far_it_was(
    plans_model, number, monkeypatch, capsys
):
    stop_at_call(monkeypatch, FirstHitting, 1, number)
    words = ["evaluate", f"checkpoint={plans_model}", *PLAIN]
    said = stopped(capsys, *words, status=128 + number)
    assert f"stopped by {number.name} at part 1 of 3, sampling" in said
    assert "sampling, 0 of 6 samples; nothing was written" in said
    assert not Path("evaluation").exists()


@pytest.mark.slow
def test_quick_measures_less_and_says_so(plans_model, capsys):
    words = [f"checkpoint={plans_model}", "quick=true", "num_held_out=10", "num_samples=6"]
    words.append("num_solver_checks=2")
    main(["evaluate", *words, "pictures=false", "threads=1"])
    found, head = metrics(), Path("evaluation/table.md").read_text().splitlines()[0]
    assert found["quick"] == {
        **{"num_held_out": 10, "num_samples": 6},  # what is given counts
        **{
            "num_seeds": 1,
            "reference_repeats": 5,
            "num_solver_checks": 2,
            "noise_samples": 1,
            "time_bins": 5,
        },
    }
    assert (found["num_reference"], found["nelbo_num_samples"], found["num_samples"]) == (10, 10, 6)
    assert found["floor_sizes"] == {"num_samples": 6, "num_reference": 10, "draws": 5}
    assert len(found["nelbo_by_t"]["t"]) == 5
    said = capsys.readouterr().out
    for part in ("quick=true", "10 of 30 held-out samples", "num_samples=6", "reference_repeats=5"):
        assert part in head
        assert part in said
    assert "3 parts: sampling 1 x 6 samples; measuring the model on 10" in said


@pytest.mark.slow
def test_fewer_held_out_samples_are_the_same_ones_every_time(plans_model):
    for seed in (0, 1):
        words = [*PLAIN, "num_held_out=10", "threads=1", f"seed={seed}", f"out=of_{seed}"]
        main(["evaluate", f"checkpoint={plans_model}", *words])
    found = [metrics(f"of_{seed}") for seed in (0, 1)]
    assert found[0]["nelbo_uniform"] == found[1]["nelbo_uniform"]
    assert found[0]["edges_per_diagram_reference"] == found[1]["edges_per_diagram_reference"]
    assert "quick" not in found[0]
    assert "10 of 30 held-out samples" in Path("of_0/table.md").read_text()


def test_quick_measures_files_against_fewer_plans(plans_model):
    words = ["samples=plans.jsonl", "reference=plans.jsonl", "num_held_out=20", "quick=true"]
    words.append("num_solver_checks=0")
    main(["evaluate", *words, "pictures=false"])
    assert metrics()["quick"] == {
        "num_held_out": 20,
        "reference_repeats": 5,
        "num_solver_checks": 0,
    }
    assert metrics()["num_reference"] == 20
    assert "20 of 90 held-out samples" in Path("evaluation/table.md").read_text()


def test_quick_is_refused_where_nothing_says_what_it_is(plans_model, monkeypatch, failure):
    monkeypatch.setattr(type(get_domain("bubble_diagrams")), "quick", {})
    assert "quick=true" in failure("evaluate", f"checkpoint={plans_model}", "quick=true")
    assert not Path("evaluation").exists()


@pytest.mark.slow
def test_its_first_samples_are_those_of_the_sample_command(plans_model):
    main(["evaluate", f"checkpoint={plans_model}", *PLAIN, "num_seeds=1", "seed=3"])
    main(["sample", f"checkpoint={plans_model}", "num_samples=6", "seed=3"])
    assert read_diagrams("evaluation/samples.jsonl") == read_diagrams("samples/samples.jsonl")
    found = metrics()
    assert found["intervals"]["node_tv"] == [None, None]
    low, high = found["intervals"]["valid"]
    assert low <= found["valid"] <= high
    assert low < high  # of 6 samples
    assert found["errors"]["valid"]["over_seeds"] is None


@pytest.mark.slow
def test_a_checkpoint_against_a_file(plans_model, capsys):
    write_diagrams("other.jsonl", generate_plans(25, seed=9))
    main(["evaluate", f"checkpoint={plans_model}", "reference=other.jsonl", *PLAIN])
    found = metrics()
    assert (found["reference"], found["num_reference"]) == ("other.jsonl", 25)
    assert "novelty" in found  # against the checkpoint's own training plans
    assert "nelbo_blind" in found
    assert found["floor_sizes"]["num_reference"] < 25  # the reference alone: two parts of it
    assert "other.jsonl: 25 diagrams from 25 lines" in capsys.readouterr().out
    Path("plans.jsonl").unlink()
    words = ["reference=other.jsonl", "overwrite=true"]
    main(["evaluate", f"checkpoint={plans_model}", *words, *PLAIN])
    found = metrics()
    assert "novelty" not in found
    assert not any(name.startswith("nelbo_blind") for name in found)
    assert "training data cannot be read (no plans file at" in capsys.readouterr().out


@pytest.mark.slow
def test_samples_files_of_any_origin(capsys):
    plans = generate_plans(60, seed=2)
    write_diagrams("a.jsonl", plans[:20])
    write_diagrams("b.jsonl", plans[20:40])
    write_diagrams("real.jsonl", plans[40:])
    words = ["samples=[a.jsonl,b.jsonl]", "reference=real.jsonl", "training_data=a.jsonl"]
    main(["evaluate", *words, "num_solver_checks=0", "reference_repeats=2"])
    found = metrics()
    written = {path.name for path in Path("evaluation").iterdir()}
    assert written == {"metrics.json", "table.md", "samples.jsonl", *PICTURES}
    assert found["per_seed"]["novelty"][0] == 0
    assert found["num_unreadable_samples"] == [0, 0]
    expected = bubble_metrics(plans[20:40], plans[40:], training=plans[:20])
    for name, value in expected.items():
        assert found["per_seed"][name][1] == pytest.approx(value)
    assert not any(name.startswith("nelbo") for name in found)
    assert read_diagrams("evaluation/samples.jsonl") == plans[:20]
    assert "a.jsonl: 20 diagrams from 20 lines" in capsys.readouterr().out


def test_without_a_reference_fresh_plans_of_the_generator_are_it(monkeypatch, capsys):
    monkeypatch.setattr(build, "NUM_KNOWN", 120)
    monkeypatch.setattr(build, "NUM_REFERENCE", 30)
    write_diagrams("a.jsonl", generate_plans(10, seed=1))
    main(
        [
            "evaluate",
            "samples=a.jsonl",
            "reference_repeats=2",
            "num_solver_checks=0",
            "pictures=false",
        ]
    )
    found, seed = metrics(), build.REFERENCE_SEED
    name = f"30 fresh plans of the embedded generator, generator_seed={seed}, livable or not"
    assert found["reference"] == name
    fresh = generate_plans(30, seed=seed)
    assert found["edges_per_diagram_reference"] == structure_metrics(fresh)["edges_per_diagram"]
    assert found["num_reference"] == 30
    assert found["floor_sizes"]["num_samples"] == 10
    assert "novelty" not in found  # what these samples were trained on is not known
    assert f"generator_seed={seed}" in capsys.readouterr().out


def test_no_recipe_trains_on_the_plans_of_the_default_reference():
    for path in (path for folder in config_dirs() for path in folder.rglob("*.yaml")):
        assert str(build.REFERENCE_SEED) not in path.read_text()
    said = options_of(get_domain("bubble_diagrams"), "evaluate")["reference"].meaning
    assert f"generator_seed={build.REFERENCE_SEED}" in said


def test_what_is_read_is_never_overwritten(defaults, plans_model, tmp_path):
    plans = generate_plans(8, seed=1)
    mine, other = Path("mine/samples.jsonl"), Path("other.jsonl")
    for path in (mine, other):
        write_diagrams(path, plans)
    before = mine.read_bytes()
    for key in ("samples", "reference", "training_data"):
        for given in ("mine/samples.jsonl", str(mine.absolute()), "mine"):
            values = {"samples": "other.jsonl", "out": "mine", key: given}
            sentence = refused(defaults, **values)
            assert sentence.startswith(f"{key}={given}: mine/samples.jsonl would be overwritten")
    assert "samples=mine" in refused(defaults, samples=["other.jsonl", "mine"], out="mine")
    Path("plans.jsonl").rename("samples.jsonl")
    Path("plans.jsonl").symlink_to("samples.jsonl")  # what the model was trained on
    sentence = refused(defaults, checkpoint=str(plans_model), out=str(tmp_path), overwrite=True)
    assert sentence.startswith("data.path=")
    assert [path.name for path in Path("mine").iterdir()] == ["samples.jsonl"]
    assert mine.read_bytes() == before


def test_unreadable_samples_are_counted(capsys):
    write_diagrams("a.jsonl", generate_plans(6, seed=1))
    with Path("a.jsonl").open("a") as file:
        file.write("{}\nnonsense\n")
    write_diagrams("b.jsonl", generate_plans(6, seed=2))
    words = [
        "samples=[a.jsonl,b.jsonl]",
        "reference=b.jsonl",
        "skip_invalid=true",
        "num_solver_checks=0",
    ]
    main(["evaluate", *words, "reference_repeats=0", "pictures=false"])
    assert metrics()["num_unreadable_samples"] == [2, 0]
    note = "2 of 14 samples could not be read and were left out"
    assert note in capsys.readouterr().out
    assert note in Path("evaluation/table.md").read_text()


@pytest.mark.slow
def test_a_diverged_model_has_null_for_what_is_no_number(monkeypatch, tmp_path, capsys, failure):
    monkeypatch.setitem(domains._DOMAINS, "words", WordsDomain())
    path = save_words_model(tmp_path, bias=math.nan)
    main(["evaluate", f"checkpoint={path}", *MODEL])
    found = metrics()
    assert found["nelbo_plain"] is None
    assert found["nelbo_uniform"] > 0
    output = capsys.readouterr().out
    assert "null in metrics.json: nelbo_plain, nelbo_standard_error, " in output
    assert Path("evaluation/nelbo_by_t.png").exists()
    path = save_plans_model(tmp_path, bias=math.nan)
    error = failure("evaluate", f"checkpoint={path}", "out=other", *PLAIN)
    assert "diverged; take an earlier checkpoint" in error
    assert not Path("other").exists()


def test_the_table_is_as_wide_as_it_needs_to_be(capsys):
    cells = ["n" * 60, "v" * 40, "r" * 20, "q" * 10]
    print_table(COLUMNS, [cells], title="title")
    line = next(line for line in capsys.readouterr().out.splitlines() if "nn" in line)
    assert line.split() == cells


class Words(TokenDataset):
    """A plug-in data set that is not diagrams: sequences of six letters."""

    def __init__(self) -> None:
        self.layout = TokenLayout.flat(6, 6, mask_id=5)
        x0 = torch.randint(5, (40, 6), generator=torch.Generator().manual_seed(0))
        real = torch.ones_like(x0, dtype=torch.bool)
        self.splits = {
            "train": Examples(x0[:20], real[:20]),
            "val": Examples(x0[20:30], real[20:30]),
            "test": Examples(x0[30:], real[30:]),
        }

    def real_positions(self, sizes):
        return torch.ones(len(sizes), 6, dtype=torch.bool)

    def size_counts(self):
        return [0] * 6 + [20]

    def summary(self):
        return "40 words"


class WordsDomain(Domain):
    """Of a plug-in that has no metrics of samples."""

    name, title = "words", "words"
    data_sets = {"words": "tokens"}
    options = {"evaluate": (TIME_BINS,)}

    def build(self, data):
        return Words()

    def report(self, data, split, config):
        raise NotImplementedError

    def sample(self, config, trained):
        raise NotImplementedError

    def evaluate(self, request, trained):
        return evaluate_token_model(request, trained)


def save_words_model(folder: Path, bias: float = 0.0) -> Path:
    config = compose(overrides=["algo.backbone=dit", "model=dit_tiny"])
    shape = {"length": 6, "vocab_size": 6, "mask_id": 5}
    config.data = {"domain": "words", "name": "words", **shape, "batch_size": 8}
    return save(folder / "words.safetensors", config, Words().size_counts(), bias=bias)


@pytest.mark.slow
def test_other_data_has_a_bound_and_no_sample_metrics(monkeypatch, tmp_path, capsys, failure):
    monkeypatch.setitem(domains._DOMAINS, "words", WordsDomain())
    path = save_words_model(tmp_path)
    main(["evaluate", f"checkpoint={path}", *MODEL])
    output = capsys.readouterr().out
    assert "no metrics of samples exist for data=words" in output
    assert "fingerprint" in output  # the data is not what the checkpoint names
    found = metrics()
    assert found["nelbo_plain"] > 0
    assert found["num_reference"] == 10
    assert "valid" not in found
    assert {r["group"] for r in found["calibration"]} == {"token"}
    written = {path.name for path in Path("evaluation").iterdir()}
    assert written == {"metrics.json", "table.md", *MODEL_PICTURES}
    write_diagrams("real.jsonl", generate_plans(5, seed=1))
    error = failure("evaluate", f"checkpoint={path}", "reference=real.jsonl", "out=other")
    assert "was not trained on diagrams" in error
    assert "num_seeds=2: " in failure("evaluate", f"checkpoint={path}", "num_seeds=2", "out=other")


@pytest.fixture(scope="module")
def defaults():
    config = compose("evaluate")
    OmegaConf.set_struct(config, False)  # what data there is, a checkpoint knows
    return config


def refused(defaults, **values) -> str:
    """The sentence that ``run`` refuses a config with."""
    with pytest.raises((ValueError, FileNotFoundError)) as error:
        evaluate.run(OmegaConf.merge(defaults, values))
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({}, "checkpoint=FILE"),
        ({"checkpoint": "a.ckpt", "samples": "a.jsonl"}, "got both"),
        ({"samples": []}, "give at least one file"),
        ({"samples": "nowhere.jsonl"}, "samples=nowhere.jsonl: "),
        ({"samples": "a.jsonl", "reference": "nowhere.jsonl"}, "reference=nowhere.jsonl: "),
        ({"samples": "empty.jsonl"}, "empty.jsonl"),
        ({"samples": "bad.jsonl", "skip_invalid": True}, "holds no plan that can be read"),
        ({"samples": "big.jsonl"}, "line 1, field 'rooms': 9 rooms, more than max_nodes=8"),
        ({"samples": "a.jsonl", "split": "val"}, "split=val"),
        ({"samples": "a.jsonl", "num_seeds": 0}, "num_seeds=0: "),
        ({"samples": "a.jsonl", "reference_repeats": -1}, "reference_repeats=-1"),
        ({"samples": "a.jsonl", "num_seeds": 3}, "num_seeds=3 is for checkpoint=FILE"),
        ({"samples": "a.jsonl", "data": {"size": 3}}, "data.size=3 is for checkpoint=FILE"),
        ({"checkpoint": "a.ckpt", "sampling": {"top_p": 2}}, "top_p=2"),
    ],
)
def test_what_is_refused(defaults, values, sentence):
    write_diagrams("a.jsonl", generate_plans(5, seed=0))
    write_diagrams("big.jsonl", BIG)
    Path("empty.jsonl").write_bytes(b"")
    Path("bad.jsonl").write_text("{}\n")
    assert sentence in refused(defaults, **values)


@pytest.mark.slow
def test_what_is_refused_with_a_checkpoint(defaults, plans_model):
    def sentence(**values) -> str:
        return refused(defaults, checkpoint=str(plans_model), **values)

    write_diagrams("big.jsonl", BIG)
    assert "the test split is empty" in sentence(split="test")
    assert "unknown split 'vall'; did you mean 'val'?" in sentence(split="vall")
    error = sentence(reference="big.jsonl")
    assert "big.jsonl, line 1, field 'rooms': 9 rooms, more than max_nodes=8" in error
    assert "skip_invalid=true" in error
    for key, value in (("room_codes", "coarse"), ("unit", "metres"), ("adjacency_threshold", 3)):
        error = sentence(**{key: value})
        assert error.startswith(f"{key}={value} is for the files of reference=FILE")
    error = sentence(noise_samples=0, likelihood_order="entropy")
    assert "noise_samples=0" in error
    assert "likelihood_order=entropy" in error
    error = sentence(reference="plans.jsonl", split="val")
    assert "leave it out with reference=FILE" in error
    Path("plans.jsonl").unlink()
    error = sentence()
    assert "cannot be read (no plans file at" in error
    assert error.endswith("give reference=FILE")


def test_errors_end_with_one_sentence_on_stderr(failure):
    assert "got neither" in failure("evaluate")
    assert "did you mean 'samples'?" in failure("evaluate", "sampels=b.jsonl")


@pytest.mark.slow
def test_changed_data_is_pointed_out(plans_model, capsys):
    write_diagrams("plans.jsonl", generate_plans(91, seed=0))
    main(["evaluate", f"checkpoint={plans_model}", *PLAIN])
    assert "this is not the data that" in capsys.readouterr().out
    found = metrics()
    assert found["data_fingerprint"] != found["trained_on_fingerprint"]
    assert "which has changed since it was trained" in Path("evaluation/table.md").read_text()
