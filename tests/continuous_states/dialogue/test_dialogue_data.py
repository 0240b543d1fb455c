"""``data=dialogue`` and ``data=dialogue-tokens``: the same pairs, as texts and as ids."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest
import torch

from continuous_states.dialogue.dataset import DialogueTokens
from continuous_states.dialogue.texts import nearest_other, read_dialogues
from dialogue_configs import dialogue_config, dialogue_data
from discrete_diffusion.domains import build_layout, complete_data, data_state, domain_of
from guide_code import run_python

EOS, UNK, MASK, PAD = 71, 72, 73, 74
SPLITS = ("train", "val", "test")
S, T = 52, 16


def written(path: Path, *pairs: tuple[str, str]) -> str:
    lines = [json.dumps({"dialogue": d, "summary": s}) for d, s in pairs]
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def test_texts_for_an_encoder_and_a_decoder():
    data = dialogue_data()
    assert (data.state, data.bound) == ("latent", "plain")
    assert [len(data.splits[name]) for name in SPLITS] == [32, 4, 4]
    for name in SPLITS:
        batch = data.splits[name].batch()
        sources = batch.conditions["source"]
        assert (sources.shape[1], batch.x0.shape[1]) == (S, T)
        assert torch.equal(batch.real, batch.x0 != PAD)
        sizes = batch.real.sum(dim=1)
        assert (batch.x0[torch.arange(len(sizes)), sizes - 1] == EOS).all()
        assert (batch.x0 == EOS).sum() == len(sizes)
        for k, pair in enumerate(data.pairs[name]):
            assert data.decode(batch.x0)[k] == pair.summary.lower()
            spoken = data.source_tokenizer.decode(sources[k].tolist())
            assert spoken == pair.dialogue.lower().replace("\n", " ")


def test_the_same_pairs_as_one_sequence():
    texts, data = dialogue_data(), dialogue_data("dialogue-tokens")
    assert (data.state, data.bound) == ("tokens", "plain")
    assert data.pairs == texts.pairs
    for name in SPLITS:
        batch, other = data.splits[name].batch(), texts.splits[name].batch()
        assert torch.equal(batch.x0[:, :S], other.conditions["source"])
        assert not batch.real[:, :S].any()
        assert batch.real[:, S:].all()  # how long a summary is, is not told
        expected = other.x0.masked_fill(other.x0 == PAD, EOS)
        assert torch.equal(batch.x0[:, S:], expected)
        assert data.decode(batch.x0[:, S:]) == texts.decode(other.x0)
        data.layout.check(batch.x0)
    assert data.layout.num_given == S


def test_the_completed_config_states_the_ids():
    texts = complete_data(dialogue_config()).data
    assert (texts.vocab_size, texts.eos_id, texts.pad_id) == (75, EOS, PAD)
    assert (texts.source_vocab_size, texts.source_pad_id) == (75, PAD)
    assert data_state(texts) == data_state(dialogue_config().data) == "latent"
    tokens = complete_data(dialogue_config("dialogue-tokens")).data
    assert data_state(tokens) == data_state(dialogue_config("dialogue-tokens").data) == "tokens"
    layout = build_layout(tokens)
    assert (layout.length, layout.mask_id, layout.pad_id) == (S + T, MASK, PAD)
    assert layout.num_given == S
    real = domain_of(tokens).vocabulary(tokens).real_positions(torch.tensor([T]))
    assert torch.equal(real[0], torch.arange(S + T) >= S)
    with pytest.raises(ValueError, match=r"data.vocab_size=9, .* 75;"):
        complete_data(dialogue_config(vocab_size=9))


def test_the_fingerprint_says_which_pairs():
    prints = {
        dialogue_data(**changes).fingerprint()
        for changes in ({}, {"generator_seed": 1}, {"target_length": 17})
    }
    assert len(prints) == 3
    assert dialogue_data().fingerprint() in prints


def test_most_words_unknown_is_said(caplog):
    dialogue_data()
    assert "are unknown" not in caplog.text
    dialogue_data(words="a")
    assert "set data.words=null" in caplog.text


def test_texts_that_are_too_long_are_cut_and_counted(caplog):
    with caplog.at_level(logging.WARNING):
        data = dialogue_data(source_length=20, target_length=15)
    assert data.num_cut[:2] == (40, 0)
    assert "40 dialogues are longer than data.source_length=20" in caplog.text
    shorter = dialogue_data(target_length=14)
    assert 0 < shorter.num_cut[1] < 40
    assert ((shorter.splits["train"].x0 == EOS).sum(dim=1) == 1).all()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"generator_seed": -1}, r"data\.generator_seed=-1: expected a whole number, at least 0"),
        ({"target_length": 1}, r"data\.target_length=1: .* at least 2"),
        ({"source_length": 0}, "data.source_length=0"),
        ({"split": [1.0, 0.5, 0.0]}, r"data\.split=\[1\.0, 0\.5, 0\.0\]"),
        ({"num_samples": 3}, r"the test split .* data\.num_samples"),
        ({"path": "a", "val_path": "b"}, r"data\.path .*data\.val_path"),
        ({"val_path": "b"}, "data.train_path=FILE .*data.val_path=FILE"),
    ],
)
def test_settings_out_of_range_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        dialogue_data(**changes)


def test_files_are_split_by_dialogue(tmp_path):
    pairs = [(f"A: say {k % 30}", f"sum {k}") for k in range(60)]
    data = dialogue_data(path=written(tmp_path / "pairs.jsonl", *pairs), split=[0.5, 0.3, 0.2])
    by_split = [{pair.dialogue for pair in data.pairs[name]} for name in SPLITS]
    assert [len(each) for each in by_split] == [15, 9, 6]
    assert len(set.union(*by_split)) == 30  # none is in two splits
    assert sum(len(data.pairs[name]) for name in SPLITS) == 60
    assert data.slots is None
    assert 0 < data.ids["val"].unknown_share < 1
    assert data.ids["train"].unknown_share == 0
    again = dialogue_data(path=str(tmp_path / "pairs.jsonl"), split=[0.5, 0.3, 0.2], split_seed=1)
    assert again.pairs["train"] != data.pairs["train"]


def test_the_files_of_the_splits_share_no_dialogue(tmp_path, caplog):
    files = {
        "train_path": [("A", "in val"), ("b", "in test"), ("c", "here")],
        "val_path": [("a", "here"), ("b!", "here"), ("b !", "in test")],
        "test_path": [("B !", "here"), ("b", "here")],
    }
    options = {name: written(tmp_path / name, *pairs) for name, pairs in files.items()}
    data = dialogue_data(**options)
    assert {name: {pair.summary for pair in data.pairs[name]} for name in SPLITS} == {
        name: {"here"} for name in SPLITS
    }
    assert [len(data.pairs[name]) for name in SPLITS] == [1, 1, 2]
    assert data.source_tokenizer.words == ("c", "here")  # of training alone
    assert "train_path: 2 pairs" in caplog.text
    assert "val_path: 2 pairs" in caplog.text
    assert "test_path: 0 pairs" not in caplog.text
    only = written(tmp_path / "only", ("b", "in test"))
    with pytest.raises(ValueError, match="the val split holds no pair"):
        dialogue_data(**{**options, "val_path": only})
    del options["test_path"]
    assert len(dialogue_data(**options).pairs["test"]) == 0


@pytest.mark.parametrize(
    ("dialogues", "others"),
    [
        ("abc", [2, 0, 1]),
        ("aabbc", [4, 4, 1, 1, 3]),
        ("abbaa", [2, 0, 0, 2, 2]),
        ("aAba", [2, 2, 1, 2]),
        ("aaa", []),
        ("a", []),
        ("", []),
    ],
)
def test_the_nearest_other_dialogue(dialogues, others):
    assert nearest_other(list(dialogues)) == others


@pytest.mark.parametrize("name", ["dialogue", "dialogue-tokens"])
def test_a_dialogue_is_exchanged_for_another_one(tmp_path, name):
    """Also where several pairs have the same, one behind the other."""
    pairs = [(f"A: say {a} {b}", f"{a} {again}") for a in "abc" for b in "abcd" for again in "xyz"]
    path = written(tmp_path / "pairs.jsonl", *pairs)
    data = dialogue_data(name, path=path, split=[0.5, 0.25, 0.25])
    own, shuffled = (
        examples.batch().x0[:, :S] if name == "dialogue-tokens" else examples.conditions["source"]
        for examples in (data.splits["val"], data.shuffled("val"))
    )
    assert len(own) == 9
    assert (own != shuffled).any(dim=1).all()
    assert torch.equal(shuffled, own[data.others("val")])
    alike = written(tmp_path / "alike", ("a", "x"), ("A", "y"))
    data = dialogue_data(name, train_path=path, val_path=alike)
    with pytest.raises(ValueError, match=r"the val split .*dialogues"):
        data.shuffled("val")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 2: .*JSON"),
        ("[1]", "line 2: .* dialogue and summary, got list"),
        ('{"dialogue": "a"}', r"line 2: summary .* 'dialogue'"),
        ('{"dialogue": " ", "summary": "a"}', "line 2: dialogue .*' '"),
        ('{"dialogue": 1, "summary": "a"}', "got 1"),
        ('{"dialogue": ' + "1" * 5000 + "}", "line 2: .*JSON"),
        (r'{"dialogue": "a", "summary": "oh \ud83d b"}', r"line 2: summary .*\\ud83d"),
        (r'{"dialogue": "oh \udc00 b", "summary": "a"}', "line 2: dialogue .* after 'oh '"),
    ],
)
def test_lines_that_are_no_pairs_are_named(tmp_path, line, message):
    path = tmp_path / "pairs.jsonl"
    first = r'{"dialogue": "a \ud83d\ude00", "summary": "b", "id": 1}' + "\n"
    path.write_text(first)
    assert read_dialogues(path)[0].dialogue == "a \N{GRINNING FACE}"
    path.write_text(first + line + "\n")
    with pytest.raises(ValueError, match=message):
        read_dialogues(path)


def test_files_without_a_pair_are_refused(tmp_path):
    (tmp_path / "empty.jsonl").write_text("\n\n")
    with pytest.raises(ValueError, match=r"empty\.jsonl"):
        read_dialogues(tmp_path / "empty.jsonl")
    (tmp_path / "pairs.csv").write_text("dialogue,summary\na,b\n")
    with pytest.raises(ValueError, match=r"pairs\.csv is CSV; write"):
        read_dialogues(tmp_path / "pairs.csv")
    with pytest.raises(FileNotFoundError, match=r"none\.jsonl"):
        read_dialogues(tmp_path / "none.jsonl")


def test_the_page_is_right(capsys):
    scope = run_python("dialogue.md")
    assert isinstance(scope["data"], DialogueTokens)
    assert scope["data"].pairs["val"][0].summary.lower() in capsys.readouterr().out
