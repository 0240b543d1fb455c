"""lm-evaluation-harness with a checkpoint of text: log-probabilities, bounds, texts, tasks."""

from __future__ import annotations

import json
import math
import sys
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from types import SimpleNamespace

import pytest

from discrete_diffusion import load
from discrete_diffusion.algorithms.many_ids import LazyLogD
from made_checkpoints import text_checkpoint

if find_spec("lm_eval") is None:
    # stand-in without tasks: what the library depends on takes long to install
    base = {"LM": type("LM", (), {}), "register_model": lambda name: lambda cls: cls}
    for module in ("lm_eval", "lm_eval.api", "lm_eval.api.model", "lm_eval.api.registry"):
        sys.modules[module] = SimpleNamespace(**base)
    sys.modules["lm_eval.__main__"] = SimpleNamespace(cli_evaluate=None)

from discrete_diffusion.api.harness import TextModel, cli_evaluate

LENGTH = 4
ALGORITHMS = {"mdlm": [], "ar": [], "bd3lm": ["algo.block_size=2"], "udlm": []}


def asked(*args):
    return SimpleNamespace(args=args)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Checkpoints of random weights, by algorithm, whose alphabet is ``ab``."""
    folder = tmp_path_factory.mktemp("texts")
    return {name: text_checkpoint(folder, name, *words) for name, words in ALGORITHMS.items()}


@pytest.mark.parametrize("name", ["mdlm", "ar", "bd3lm"])
@pytest.mark.parametrize("context", ["", "a", "bbabab"])
def test_probabilities_of_all_continuations_sum_to_one(name, context, made):
    model = TextModel(made[name], batch_size=3)
    texts = ["".join(each) for each in product("ab", repeat=3)]
    scores = model.loglikelihood([asked(context, text) for text in texts])
    assert sum(math.exp(log_p) for log_p, _ in scores) == pytest.approx(1, abs=1e-5)
    # the likeliest tokens one by one, which need not be the likeliest text
    (greedy,) = [text for text, (_, likeliest) in zip(texts, scores, strict=True) if likeliest]
    for k in range(3):
        ends = {text[k]: 0.0 for text in texts}
        for text, (log_p, _) in zip(texts, scores, strict=True):
            ends[text[k]] += math.exp(log_p) * (text[:k] == greedy[:k])
        assert greedy[k] == max(ends, key=ends.__getitem__)
    # a window holds the end of the context
    longer = [asked(each + context, "ab") for each in ("aaaa", "bbbb")]
    one, other = model.loglikelihood(longer)
    assert (one == other) == (len(context) >= LENGTH - 2)


@pytest.mark.parametrize("name", ["mdlm", "ar"])
def test_whole_windows_are_those_of_log_prob(name, made):
    model = TextModel(made[name])
    expected = load(made[name]).log_prob(["abba", "baab"], "left-to-right").sum()
    (found,) = model.loglikelihood_rolling([asked("abbabaab")])
    assert found == pytest.approx(float(expected), abs=1e-4)


def test_bounds_of_other_noise(made, caplog):
    model = TextModel(made["udlm"], noise_samples=3)
    assert "differences of bounds" in caplog.text
    pairs = [asked("", "ab"), asked("", "aba"), asked("ab", "a"), asked("ab", "b")]
    (short, _), (long, _), (rest, likeliest), _ = model.loglikelihood(pairs)
    assert rest == pytest.approx(long - short)
    assert not likeliest
    assert short < 0


def test_texts_go_on_to_a_stop_string(made):
    model = TextModel(made["mdlm"], seed=1)
    options = [{"until": ["ba"], "max_gen_toks": 40}, {"until": [], "max_gen_toks": 9}]
    short, long = model.generate_until([asked("ab", each) for each in options])
    assert "ba" not in short
    assert len(short) < 40
    assert len(long) == 9
    assert {*short, *long} <= {*"ab"}
    assert model.generate_until([asked("ab", each) for each in options]) == [short, long]


def test_unknown_characters_are_left_out_and_long_ones_refused(made, caplog):
    model = TextModel(made["ar"])
    one, other = model.loglikelihood([asked("a?b", "b"), asked("ab", "b")])
    assert one == other
    assert "left out 1 character " in caplog.text
    for new in ("c", "cb"):
        with pytest.raises(ValueError, match=r"'cb?' has characters.*token_unit=bytes"):
            model.loglikelihood([asked("a", new)])
    with pytest.raises(ValueError, match=r"windows of 4; train with a larger data\.length"):
        model.loglikelihood([asked("", "ababa")])


def test_a_token_of_context_and_continuation_is_scored(made, monkeypatch):
    model = TextModel(made["ar"])
    ids = {"a": [0], "ab": [1], "": []}
    monkeypatch.setattr(model, "_encode", lambda texts: [ids[text] for text in texts])
    merged, whole = model.loglikelihood([asked("a", "b"), asked("", "ab")])
    assert merged == whole
    assert merged[0] < 0


def test_many_ids_are_read_in_chunks(made, monkeypatch):
    model, asks = TextModel(made["ar"]), [asked("a", "bab"), asked("ab", "b"), asked("b", "")]
    expected = model.loglikelihood(asks)
    monkeypatch.setattr("discrete_diffusion.algorithms.many_ids.MANY_IDS", 2)
    monkeypatch.setattr("discrete_diffusion.api.harness.AT_ONCE", 4)
    read = LazyLogD.read
    heads = []

    def count(lazy, rows):
        heads.append((lazy.head is not None, len(rows)))
        return read(lazy, rows)

    monkeypatch.setattr(LazyLogD, "read", count)
    found = model.loglikelihood(asks)
    for (log_p, likeliest), each in zip(found, expected, strict=True):
        assert (pytest.approx(log_p, abs=1e-5), likeliest) == each
    assert heads == [(True, 1)] * 4


@pytest.mark.slow
def test_a_task_from_the_command_line(made, tmp_path, monkeypatch):
    pytest.importorskip("lm_eval.evaluator")
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    lines = [{"text": "ab", "choices": ["ab", "ba"], "label": k % 2} for k in range(4)]
    (tmp_path / "toy.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (tmp_path / "toy.yaml").write_text(
        "task: toy\ndataset_path: json\noutput_type: multiple_choice\ntest_split: test\n"
        f"dataset_kwargs: {{data_files: {{test: {tmp_path}/toy.jsonl}}}}\n"
        "doc_to_text: '{{text}}'\ndoc_to_choice: '{{choices}}'\ndoc_to_target: label\n"
        "target_delimiter: ''\nmetric_list: [{metric: acc}]\n"
    )
    words = ["--model", "discrete_diffusion", "--model_args", f"checkpoint={made['ar']}"]
    words += ["--tasks", "toy", "--include_path", str(tmp_path), "--output_path", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", ["lm_eval", *words])
    cli_evaluate()
    (results,) = Path(tmp_path).rglob("results*.json")
    assert json.loads(results.read_text())["results"]["toy"]["acc,none"] == 0.5
