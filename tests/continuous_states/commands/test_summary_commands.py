"""``train``, ``sample`` and ``evaluate`` on dialogues, through latent vectors and as ids."""

from __future__ import annotations

import json
import logging
import re
from functools import cache
from pathlib import Path

import pytest

from command_fixtures import run_plainly
from continuous_states.dialogue.summaries import score_summaries
from continuous_states.dialogue.texts import SLOTS, DialoguePair, sample_dialogues
from continuous_states.sampling import Generate
from discrete_diffusion import load
from discrete_diffusion.cli import compose, main
from discrete_diffusion.cli.sample import choose_devices, opened_model, request_of
from discrete_diffusion.cli.train import TrainRequest, run_training
from discrete_diffusion.evaluation import EvaluateRequest, SampleRequest
from discrete_diffusion.sampling import FirstHitting
from interrupting import stop_at_call, stopped

PAIRS = sample_dialogues(30)
VAL, TEST = slice(24, 27), slice(27, 30)
RUN = [
    *("threads=1", "logger=none", "trainer.max_steps=1", "data.batch_size=4"),
    *("callbacks.num_samples=2", "eval.noise_samples=1", "data.num_samples=30"),
    *("data.split=[0.8,0.1,0.1]", "model.hidden_size=16", "model.n_blocks=1", "model.n_heads=2"),
]
IDS = ["algo=mdlm", "data=dialogue-tokens", "algo.backbone=dit", "model=dit_tiny", *RUN]
LATENTS = ["algo=latent-seq2seq", *RUN[:-3], "model.num_layers=1"]


def opened(config):
    kind = SampleRequest if "picture" in config else EvaluateRequest
    return opened_model(config, request_of(kind, config), choose_devices(config))


def write(path: Path, pairs: list[DialoguePair]) -> Path:
    lines = [json.dumps({"dialogue": p.dialogue, "summary": p.summary}) for p in pairs]
    path.write_text("\n".join(lines))
    return path


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The folder of a run, trained when first asked for: latents on the grammar, ids on files."""

    @cache
    def run(kind: str) -> Path:
        folder = tmp_path_factory.mktemp(kind)
        overrides = LATENTS
        if kind == "ids":
            splits = {"train": slice(24), "val": VAL, "test": TEST}
            files = {k: write(folder / f"{k}.jsonl", PAIRS[rows]) for k, rows in splits.items()}
            overrides = [*IDS, *(f"data.{k}_path={path}" for k, path in files.items())]
        run_training(TrainRequest(compose("train", overrides), folder / "run"))
        return folder / "run"

    return run


@pytest.fixture(params=["latents", "ids"])
def kind(request) -> str:
    return request.param


@pytest.fixture(scope="module")
def command(trained):
    def run(name: str, kind: str, *words: str) -> None:
        checkpoint = trained(kind) / "checkpoints" / "best.ckpt"
        run_plainly(name, f"checkpoint={checkpoint}", "threads=1", *words)

    return run


def numbers(folder: str | Path) -> dict:
    return json.loads(Path(folder, "metrics.json").read_text())


def lines(folder: str | Path) -> list[dict]:
    return [json.loads(line) for line in Path(folder, "samples.jsonl").read_text().splitlines()]


@pytest.mark.slow
def test_a_run(trained, kind):
    run = trained(kind)
    found, written = numbers(run), lines(run)
    assert [(line["dialogue"], line["reference"]) for line in written] == [
        (pair.dialogue, pair.summary) for pair in PAIRS[VAL]
    ]
    generated = [line["summary"] for line in written]
    own = score_summaries(generated, [pair.summary for pair in PAIRS[VAL]], SLOTS)
    assert found["rouge_l"] == pytest.approx(float(own.rouge_l.mean()))
    assert found["exact_match"] == float(own.exact.mean())
    assert ("slot_accuracy" in found) == (kind == "latents")  # of the grammar alone
    gap = found["nelbo_shuffled_source"] - found["nelbo_own_source"]
    assert found["nelbo_source_gap"] == pytest.approx(gap)
    if kind == "latents":  # nothing is drawn
        assert found["nelbo_own_source"] == pytest.approx(found["nelbo_plain"])
    text = next((run / "pictures").glob("*.txt")).read_text()
    assert text.startswith(PAIRS[VAL][0].dialogue)
    assert text.count("generated: ") == 2


@pytest.mark.slow
def test_a_run_goes_on(trained, tmp_path, caplog):
    caplog.set_level(logging.INFO)
    checkpoint = trained("latents") / "checkpoints" / "last.ckpt"
    words = [f"resume={checkpoint}", "trainer.max_steps=2", "eval.num_samples=1"]
    found = run_training(TrainRequest(compose("train", [*LATENTS, *words]), tmp_path / "on"))
    assert found["steps"] == 2
    assert found["rouge_l"] >= 0
    assert "nelbo_source_gap" not in found  # of one pair
    assert "  reference: " + PAIRS[VAL][0].summary in caplog.text


@pytest.mark.slow
def test_summaries_that_are_finished_when_a_signal_comes_are_kept(
    trained, kind, monkeypatch, capsys
):
    checkpoint = trained(kind) / "checkpoints" / "best.ckpt"
    given = write(Path("given.jsonl"), PAIRS[TEST])
    words = ["sample", f"checkpoint={checkpoint}", f"given={given}", "batch_size=1", "threads=1"]
    main([*words, "out=whole"])
    with monkeypatch.context() as patch:
        stop_at_call(patch, Generate if kind == "latents" else FirstHitting, 3)
        stopped(capsys, *words, "out=cut")
    assert lines("cut") == lines("whole")[:2]
    assert numbers("cut")["num_samples"] == 2


@pytest.mark.slow
def test_held_out_dialogues_given_as_a_file_have_the_same_summaries(trained, command, kind):
    """Or as objects, from Python."""
    command("sample", kind, "num_samples=3", "seed=4", "out=own")
    found = numbers("own")
    assert (found["split"], found["num_samples"]) == ("test", 3)
    assert [line["reference"] for line in lines("own")] == [p.summary for p in PAIRS[TEST]]
    given = write(Path("given.jsonl"), PAIRS[TEST])
    command("sample", kind, f"given={given}", "seed=4", "out=scored")
    expected = [{**own, "given": k} for k, own in enumerate(lines("own"), start=1)]
    assert lines("scored") == expected
    scored = numbers("scored")
    assert scored["num_references"] == 3
    assert scored["rouge_l"] == pytest.approx(found["rouge_l"])
    given = write(Path("plain.jsonl"), [DialoguePair(p.dialogue, "") for p in PAIRS[TEST]])
    command("sample", kind, f"given={given}", "seed=4", "out=mine")
    for own in expected:
        del own["reference"]
    assert lines("mine") == expected
    model = load(trained(kind) / "checkpoints" / "best.ckpt")
    drawn = model.sample(given=[{"dialogue": p.dialogue} for p in PAIRS[TEST]], seed=4)
    assert drawn.generated == tuple(line["summary"] for line in expected)
    assert {"rouge_l", "num_references", "split"}.isdisjoint(numbers("mine"))


@pytest.mark.slow
def test_keys_of_given_lines_are_kept(command):
    given = Path("mine.jsonl")
    given.write_text(
        '\n{"id": [1, "\\ud800"], "dialogue": "Hi Ben!", "summary": null}\n'
        '{"dialogue": "Bye!", "summary": "anna", "given": "x", "reference": "y"}\n'
    )
    command("sample", "ids", f"given={given}")
    first, second = lines("samples")
    assert (first["id"], first["given"]) == ([1, "\ud800"], 2)
    assert "reference" not in first
    assert (second["reference"], second["given"]) == ("anna", 3)
    assert numbers("samples")["num_references"] == 1


def test_dialogues_of_ones_own_need_the_checkpoint_alone(trained, command):
    given = Path("mine.jsonl")
    given.write_text('{"dialogue": "Anna: Can I borrow your umbrella?"}\n\n{"dialogue": "Bye!"}\n')
    train_file = trained("ids").parent / "train.jsonl"
    away = train_file.rename(train_file.with_suffix(".gone"))
    try:
        command("sample", "ids", f"given={given}", "num_completions=2")
        with pytest.raises(ValueError, match="give the dialogues as given=FILE"):
            command("sample", "ids", "out=other")
    finally:
        away.rename(train_file)
    found = numbers("samples")
    assert (found["num_inputs"], found["completions"], found["num_samples"]) == (2, 2, 4)
    assert found["unknown_words"] == pytest.approx(1 / 10)  # umbrella, of 8 + 2 tokens
    first, second, *others = (line["dialogue"] for line in lines("samples"))
    assert first == second == "Anna: Can I borrow your umbrella?"
    assert others == ["Bye!"] * 2


@pytest.mark.slow
def test_evaluate(command, kind, capsys):
    command("evaluate", kind, "num_samples=2", "noise_samples=1", "batch_size=2")
    said, found = capsys.readouterr().out, numbers("evaluation")
    for name in ("shuffled_rouge_l", "another_rouge_l", "most_frequent_rouge_l", "exact_match"):
        assert name in said
        assert name in found
    assert "nelbo_source_gap" in said
    assert (found["num_summaries"], found["nelbo_num_samples"]) == (2, 3)
    assert found["data_fingerprint"] == found["trained_on_fingerprint"]
    assert {path.name for path in Path("evaluation").iterdir()} == {
        *("metrics.json", "table.md", "samples.jsonl"),
    }


@pytest.mark.parametrize(
    ("name", "word", "says"),
    [
        ("sample", "given=a.jsonl", r"a\.jsonl, line 2: dialogue"),
        ("sample", "samples_per_condition=3", "samples_per_condition=3: CKPT"),
        ("sample", "steps=4", "steps=4: .*sampling=generate"),
        ("evaluate", "num_seeds=2", "num_seeds=2: CKPT"),
        ("evaluate", "data.source_length=9", r"data\.source_length=9: .*data\.source_length=52"),
    ],
)
def test_settings_that_make_no_sense(trained, command, name, word, says):
    Path("a.jsonl").write_text('{"dialogue": "Hi!"}\n{"summary": "Hi."}\n')
    checkpoint = trained("latents") / "checkpoints" / "best.ckpt"
    with pytest.raises(ValueError, match=says.replace("CKPT", re.escape(str(checkpoint)))) as error:
        command(name, "latents", word)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(("name", "sampler"), [("sample", []), ("evaluate", ["sampling=generate"])])
def test_settings_of_generate(trained, name, sampler):
    checkpoint = trained("latents") / "checkpoints" / "best.ckpt"
    words = [f"checkpoint={checkpoint}", "threads=1", *sampler, "sampling.temperature=0"]
    config = compose(name, [*words, "sampling.top_k=null", "sampling.stop_similarity=null"])
    found = opened(config).sampling
    assert (found["temperature"], found["top_k"], found["stop_similarity"]) == (0, None, None)
    assert found["top_p"] == 0.9
    with pytest.raises(
        ValueError, match=r"sampling\.temperature=-1: expected a number, at least 0"
    ):
        opened(compose(name, [*words, "sampling.temperature=-1"]))


def test_the_files_of_the_training_are_not_overwritten(trained, command):
    folder = trained("ids").parent
    (folder / "samples.jsonl").hardlink_to(folder / "train.jsonl")
    with pytest.raises(ValueError, match=r"data.train_path=.* would be overwritten"):
        command("sample", "ids", f"out={folder}", "overwrite=true")
