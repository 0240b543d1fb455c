"""``data=text`` through the commands: train, sample and evaluate, with and without the file."""

from __future__ import annotations

import json
import math
import time
from pathlib import Path

import pytest
import yaml

from discrete_diffusion import load
from discrete_diffusion.cli import main
from discrete_diffusion.sampling import FirstHitting
from interrupting import stop_at_call, stopped

TEXT = "".join(f"{k} little pigs, {k % 7} wolves: ½ a straw.\n" for k in range(60))
TINY = ["debug=smoke", "algo.backbone=dit", "model=dit_tiny", "logger=none", "data=text"]


@pytest.fixture(scope="module")
def text_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("text")
    path = folder / "pigs.txt"
    path.write_text(TEXT)
    words = [f"data.path={path}", "data.length=16", f"hydra.run.dir={folder}/run"]
    main(["train", *TINY, *words, "data.token_unit=bytes"])
    return folder


def read(path: Path) -> dict:
    return json.loads(path.read_text())


@pytest.mark.slow
def test_a_run_on_text(text_run):
    run = text_run / "run"
    metrics = read(run / "metrics.json")
    ratio = metrics["bits_per_character"] / metrics["bits_per_byte"]
    assert 1 < ratio < 1.1  # one character in 33 has two bytes
    assert metrics["text"] == str(text_run / "pigs.txt")
    assert {"character_tv", "words_in_training", "nelbo_plain"} <= set(metrics)
    content = (run / "samples.txt").read_text()
    assert content.count("- sample ") == metrics["num_samples"]
    assert list((run / "pictures").glob("*.txt"))
    assert not (run / "samples.jsonl").exists()
    data = yaml.safe_load((run / "config.yaml").read_text())["data"]
    assert (data["vocab_size"], data["mask_id"], data["pad_id"]) == (258, 256, 257)


@pytest.mark.slow
def test_samples_need_the_checkpoint_alone(text_run, capsys):
    checkpoint = text_run / "run" / "checkpoints" / "best.ckpt"
    alone = Path("alone.ckpt")
    alone.write_bytes(checkpoint.read_bytes())
    (text_run / "pigs.txt").rename(text_run / "gone.txt")
    try:
        main(["sample", "checkpoint=alone.ckpt", "num_samples=3", "out=mine"])
        written = Path("mine/samples.txt").read_text()
        assert written.count("- sample ") == 3
        for text in load("alone.ckpt").sample(num=3):
            assert f"-\n{text}\n" in written
        assert read(Path("mine/metrics.json"))["num_samples"] == 3
        with pytest.raises(SystemExit):
            main(["evaluate", "checkpoint=alone.ckpt"])
        assert "cannot be read (no text file at" in capsys.readouterr().err
    finally:
        (text_run / "gone.txt").rename(text_run / "pigs.txt")


def texts_of(path: Path) -> list[str]:
    """Samples of a file, without the lines above them."""
    return [part.partition("-\n")[2][:-1] for part in path.read_text().split("- sample ")[1:]]


@pytest.mark.slow
def test_texts_are_completed(text_run, capsys):
    words = ["sample", f"checkpoint={text_run}/run"]
    Path("texts.txt").write_text("3 [MASK][MASK]ttle\n____pigs\n")
    main([*words, "given=texts.txt", "num_completions=2", "num_tokens=12", "out=of_file"])
    written = (Path("of_file") / "samples.txt").read_text()
    heads = [f"- sample {k} of line {line} -" for k, line in enumerate((1, 1, 2, 2), start=1)]
    assert all(head in written for head in heads)
    metrics = read(Path("of_file/metrics.json"))
    assert (metrics["num_inputs"], metrics["completions"], metrics["num_samples"]) == (2, 2, 4)
    assert metrics["exact"] is True  # masked noise, one token a call
    assert metrics["network_calls_per_sample"] == (6 + 8) / 2  # of 12, 6 and 4 are given
    model = load(f"{text_run}/run")
    given = ["3 [MASK][MASK]ttle", "____pigs"]
    texts = model.sample(given=given, num_completions=2, num_tokens=12)
    for text in texts:
        assert f"-\n{text}\n" in written
    assert all(text.startswith("3 ") and "ttle" in text for text in texts[:2])
    assert all("pigs" in text for text in texts[2:])


@pytest.mark.slow
@pytest.mark.parametrize("prompt", ["[MASK] pigs", "a, b='1', \"2\"", "12"])
def test_a_prompt_is_taken_as_it_is_typed(text_run, prompt):
    words = ["sample", f"checkpoint={text_run}/run", f"prompt={prompt}", "num_samples=2"]
    main([*words, "out=said"])
    texts = load(f"{text_run}/run").sample(prompt=prompt, num=2)
    assert len(texts) == 2
    written = Path("said/samples.txt").read_text()
    for text in texts:
        assert prompt.removeprefix("[MASK]") in text
        assert f"-\n{text}\n" in written


@pytest.mark.slow
def test_samples_of_more_and_of_fewer_tokens_than_a_window(text_run):
    words = ["sample", f"checkpoint={text_run}/run", "num_tokens=41", "num_completions=2"]
    Path("texts.txt").write_text("3 little pigs, 4 wolves\n")
    main([*words, "given=texts.txt", "context=12", "out=long"])
    metrics = read(Path("long/metrics.json"))
    assert (metrics["num_tokens"], metrics["context"]) == (41, 12)
    assert metrics["exact"] is False  # the first window does not see the given text behind it
    assert "windows before" in metrics["approximate_because"]
    model = load(f"{text_run}/run")
    again = model.sample(num_tokens=41, context=12, num_completions=2, given=["3 lit"])
    for text in (*texts_of(Path("long/samples.txt")), *again):
        assert text.startswith("3 lit")
        assert "\ufffd" in text or len(text.encode()) == 41
    assert len(model.sample(num=2, num_tokens=33)) == 2
    for text in model.sample(num=3, num_tokens=5):
        assert "\ufffd" in text or len(text.encode()) == 5


@pytest.mark.slow
def test_evaluate_measures_the_model_of_text(text_run):
    words = ["noise_samples=1", "time_bins=2", "pictures=false", "num_samples=2", "num_held_out=3"]
    words += ["likelihood_order=left-to-right", "num_orders=2"]
    main(["evaluate", f"checkpoint={text_run}/run/checkpoints/best.ckpt", *words])
    metrics = read(Path("evaluation/metrics.json"))
    assert {"nll_plain_left_to_right", "nelbo_plain_2_orders"} <= set(metrics)
    assert "nelbo_unordered_left_to_right" not in metrics  # the order is part of a text
    assert metrics["bits_per_character"] > metrics["bits_per_byte"] > 0
    assert "| bits_per_character |" in Path("evaluation/table.md").read_text()


@pytest.mark.slow
def test_a_student_writes_in_three_calls(text_run, capsys):
    words = ["algo=distill", f"init.checkpoint={text_run}/run", "calls=3", "algo.components=4"]
    words += ["debug=smoke", "trainer.max_steps=2", "logger=none", "hydra.run.dir=student"]
    main(["train", *words])
    main(["sample", "checkpoint=student", "num_samples=2", "out=s"])
    assert read(Path("s/metrics.json"))["network_calls_per_sample"] == 3
    assert read(Path("s/metrics.json"))["exact"] is True  # of its own three calls
    student = load("student")
    log_p = student.log_prob(["pigs", "or no pigs"], "plan")
    assert (log_p < 0).all()
    with pytest.raises(SystemExit):
        main(["evaluate", "checkpoint=student", "num_orders=2"])
    assert "num_orders=K: distill has one order" in capsys.readouterr().err


def test_evaluate_quickly(text_run):
    words = ["quick=true", "num_held_out=3", "pictures=false"]
    main(["evaluate", f"checkpoint={text_run}/run/checkpoints/best.ckpt", *words])
    metrics = read(Path("evaluation/metrics.json"))
    assert metrics["quick"] == {"num_held_out": 3, "noise_samples": 1, "time_bins": 5}
    assert (metrics["nelbo_num_samples"], metrics["num_held_out"]) == (3, 3)
    assert "quick=true: 3 of " in Path("evaluation/table.md").read_text()


def test_completions_that_are_finished_keep_the_lines_that_they_complete(
    text_run, monkeypatch, capsys
):
    Path("texts.txt").write_text("".join(f"{k:02}\n" for k in range(12)))
    words = ["sample", f"checkpoint={text_run}/run/checkpoints/best.ckpt", "given=texts.txt"]
    words += ["num_completions=5", "batch_size=30", "threads=1"]
    stop_at_call(monkeypatch, FirstHitting, 2)
    stopped(capsys, *words, "out=cut")
    samples = Path("cut/samples.txt").read_text().split("- sample ")[1:]
    assert 0 < len(samples) < 60
    for sample in samples:
        line = int(sample.split(" of line ")[1].split()[0])
        assert sample.partition("-\n")[2].startswith(f"{line - 1:02}")


@pytest.mark.slow
def test_the_embedded_text_is_labelled(tmp_path):
    short = ["trainer.max_steps=1", "eval.num_samples=0", "callbacks.num_samples=1"]
    short.append("data.length=32")
    main(["train", *TINY, *short, "data.split=[0.998,0.001,0.001]", "hydra.run.dir=run"])
    assert read(tmp_path / "run" / "metrics.json")["text"].startswith("smoke test: ")
    config = yaml.safe_load((tmp_path / "run" / "config.yaml").read_text())
    assert "abcdefghijklmnopqrstuvwxyz" in config["data"]["characters"]


QUALITY = ["gen_ppl", "unigram_entropy", "distinct_1", "distinct_2", "distinct_3"]
QUALITY += ["repetition_share", "network_calls_per_sample"]


@pytest.fixture(scope="module")
def judge(text_run):
    words = [f"data.path={text_run}/pigs.txt", "data.length=16", "data.token_unit=bytes", "algo=ar"]
    main(["train", *TINY, *words, f"hydra.run.dir={text_run}/judge"])
    return f"{text_run}/judge"


@pytest.mark.slow
def test_samples_are_judged(text_run, judge, capsys):
    run, words = f"checkpoint={text_run}/run", [f"perplexity_model={judge}", "num_samples=3"]
    main(["evaluate", run, *words, "noise_samples=0", "out=judged", "pictures=false"])
    metrics, table = read(Path("judged/metrics.json")), Path("judged/table.md").read_text()
    printed = capsys.readouterr().out
    for name in QUALITY:
        assert name in metrics
        assert f"| {name} |" in table
        assert name in printed
    assert metrics["judge"] == judge
    # the price of a sample
    assert f"| cpu_seconds_per_sample | {metrics['cpu_seconds_per_sample']:.4f} |" in table
    assert 0 < 3 * metrics["cpu_seconds_per_sample"] < time.process_time()
    assert f"CPU-seconds a sample on {metrics['processor']}" in printed
    assert metrics["num_samples"] == 3
    assert metrics["gen_ppl_real_data"] > 1
    assert Path("judged/samples.txt").read_text().count("- sample ") == 3

    main(["sample", run, *words, "out=drawn"])
    drawn = read(Path("drawn/metrics.json"))
    assert drawn["gen_ppl"] == pytest.approx(metrics["gen_ppl"])  # the same seed
    assert {*QUALITY, "judge", "gen_bits_per_byte"} <= set(drawn)
    main(["sample", run, "num_samples=2", "out=without"])
    assert "gen_ppl" not in read(Path("without/metrics.json"))


@pytest.mark.slow
def test_mauve_is_measured_under_a_judge_of_transformers(tmp_path, capsys):
    pytest.importorskip("mauve", reason="needs the extra mauve")
    from small_tokenizers import save_gpt2

    judge = save_gpt2(tmp_path / "gpt2", ["goats", "trolls", "a", "bridge", "small", "the"])
    Path("long.txt").write_text("three small goats and a troll of the bridge\n" * 400)
    split = ["data.train_path=long.txt", "data.val_path=long.txt", "data.test_path=long.txt"]
    main(["train", *TINY, *split, "data.length=16", "hydra.run.dir=long"])
    words = ["checkpoint=long", f"perplexity_model=hf:{judge}", "noise_samples=0", "pictures=false"]
    main(["evaluate", *words, "num_samples=100", "out=mauve"])
    metrics = read(Path("mauve/metrics.json"))
    assert 0 <= metrics["mauve"] < 0.5 < metrics["mauve_real_data"] < 1.001
    assert "MAUVE 0." in capsys.readouterr().out
    main(["evaluate", *words, "num_samples=99", "out=few"])
    assert "mauve" not in read(Path("few/metrics.json"))
    said = capsys.readouterr()
    assert all(word in said.out + said.err for word in ("MAUVE", "99 samples", "100"))


def test_another_text_is_measured_in_units_of_any_tokenizer(text_run):
    other = "Three small goats, 7 trolls: a bridge.\n" * 3
    Path("other.txt").write_text(other)
    words = ["data.path=other.txt", "noise_samples=1", "time_bins=2", "pictures=false"]
    main(["evaluate", f"checkpoint={text_run}/run", *words, "out=shot"])
    metrics = read(Path("shot/metrics.json"))
    nats = metrics["nelbo_plain_per_token"] * len(other)
    assert metrics["bits_per_byte"] == pytest.approx(nats / math.log(2) / len(other))
    assert metrics["perplexity_per_word"] == pytest.approx(math.exp(nats / len(other.split())))
    assert "| perplexity_per_word |" in Path("shot/table.md").read_text()


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (
            ["train", "data=text"],
            ["data.max_nodes", "algo.backbone=dit or algo.backbone=my-transform"],
        ),
        (["evaluate", "perplexity_model=RUN"], ["algo=mdlm", "algo=ar"]),
        (["evaluate", "perplexity_model=nowhere"], ["nowhere"]),
        (["evaluate", "perplexity_model=hf:none"], ["perplexity_model", "none"]),
        (["sample", "prompt=a", "given=b.txt"], ["prompt=a", "given="]),
        (["sample", "prompt=a", "num_completions=2"], ["num_completions=2", "num_samples=2"]),
        (["sample", "num_tokens=17", "context=16"], ["context=16", "1 to 15", "data.length=16"]),
        (["sample", "num_tokens=16", "context=4"], ["context=4", "num_tokens above 16"]),
        (["sample", "prompt=seventeen letters"], ["prompt", "17 tokens", "16"]),
        (["sample", "given=nowhere.txt"], ["nowhere.txt"]),
        (["sample", "nodes_per_graph=3"], ["nodes_per_graph=3: ", "was not trained on", "graphs"]),
    ],
)
def test_refusals_name_the_key_and_the_remedy(text_run, words, named, failure):
    Path("b.txt").write_text("a\n")
    run = [] if words[0] == "train" else [f"checkpoint={text_run}/run"]
    said = failure(words[0], *run, *(word.replace("RUN", f"{text_run}/run") for word in words[1:]))
    assert [word for word in named if word not in said] == []


@pytest.mark.slow
def test_comparing_texts_too_short_for_a_score(tmp_path, monkeypatch):
    """Windows of 3 bytes have no 4-grams, real ones neither; the other scores and the plot stay."""
    monkeypatch.chdir(tmp_path)
    Path("pigs.txt").write_text(TEXT)
    words = ["backbones=[dit]", *TINY[2:], "data.path=pigs.txt", "data.length=3"]
    sizes = ["trainer.max_steps=2", "eval.num_samples=4", "noise_samples=2", "num_held_out=4"]
    main(["compare", "algos=[mdlm]", *words, *sizes, "data.token_unit=bytes", "out=compared"])
    scores = read(Path("compared/results.json"))["real_data"]["metrics"]
    assert "distinct_1" in scores
    assert "repetition_share" not in scores
