"""Dialogues and summaries in the ids of two tokenizers, those of an encoder and of a decoder."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest
import torch

from continuous_states.dialogue.dataset import given_dialogues
from continuous_states.dialogue.texts import WORDS, PretrainedTokenizer
from dialogue_configs import dialogue_config, dialogue_data
from discrete_diffusion.algorithms import build_algorithm
from discrete_diffusion.categorical import make_generator
from discrete_diffusion.cli import compose
from discrete_diffusion.domains import build_data, complete_data
from small_tokenizers import save_tokenizer

pytest.importorskip("transformers", reason="needs the extra text")
SPLITS = ("train", "val", "test")
S, T = 52, 16
SPOKEN = ["<pad>", "<eos>", "<unk>", "<start>", *WORDS, *(word.capitalize() for word in WORDS[:45])]
SAID = [*WORDS, *(word.capitalize() for word in WORDS[:45]), "<unk>", "<eos>", "<start>", "<pad>"]
SAID.remove("?")
"""Two vocabularies of the grammar with other sizes, and other ids for every word."""


@pytest.fixture(scope="module")
def tokenizers(tmp_path_factory) -> dict[str, str]:
    """Of dialogues and of summaries, as options of the data."""
    folder = tmp_path_factory.mktemp("tokenizers")
    return {
        "source_tokenizer": save_tokenizer(folder / "source", SPOKEN),
        "target_tokenizer": save_tokenizer(folder / "target", SAID),
    }


def with_pairs(path: Path, *pairs: tuple[str, str]) -> dict[str, object]:
    """Options of data of one file, of which pairs go to training and to test alike."""
    lines = [json.dumps({"dialogue": d, "summary": s}) for d, s in pairs]
    path.write_text("\n".join(lines))
    return {"path": str(path), "split": [0.5, 0.25, 0.25]}


def test_each_text_is_in_the_ids_of_its_own(tokenizers):
    data = dialogue_data(**tokenizers)
    spoken, said = ({w: k for k, w in enumerate(words)} for words in (SPOKEN, SAID))
    batch, pairs = data.splits["val"].batch(), data.pairs["val"]
    for k, pair in enumerate(pairs):
        words = pair.summary.replace(".", " .").split()
        source = batch.conditions["source"][k].tolist()
        encoded = batch.conditions["encoded_target"][k].tolist()
        assert source[:2] == [spoken[pair.dialogue.split(":")[0]], spoken[":"]]
        assert encoded == [*(spoken[w] for w in words), *[0] * (S - len(words))]
        target = [*(said[w] for w in words), said["<eos>"]]
        assert batch.x0[k].tolist() == target + [said["<pad>"]] * (T - len(target))
        assert batch.real[k].tolist() == [n < len(target) for n in range(T)]
        assert data.decode(batch.x0)[k] == pair.summary.replace(".", " .")
    assert data.num_cut == (0, 0, 0)


def test_the_model_is_built_of_them(tokenizers):
    overrides = ["algo=latent-seq2seq", "data.num_samples=40", "data.split=[0.8,0.1,0.1]"]
    config = compose("train", [*overrides, *(f"data.{k}={v}" for k, v in tokenizers.items())])
    config = complete_data(config)
    said = {word: k for k, word in enumerate(SAID)}
    assert (config.data.source_vocab_size, config.data.source_pad_id) == (len(SPOKEN), 0)
    assert (config.data.vocab_size, config.data.eos_id) == (len(SAID), said["<eos>"])
    algorithm, data = build_algorithm(config), build_data(config)
    assert (algorithm.source_pad_id, algorithm.pad_id) == (0, SAID.index("<pad>"))
    assert algorithm.backbone.encoder.network.config.vocab_size == len(SPOKEN)
    assert algorithm.backbone.decoder.vocab_size == len(SAID)
    assert algorithm.loss(data.splits["val"].batch(), make_generator(0)).loss.isfinite()


def test_summaries_are_cut_at_the_length_of_dialogues_where_they_are_read(tmp_path, caplog):
    """In letters a summary is longer than in words."""
    letters = ["<pad>", "<eos>", "<unk>", *map(chr, range(32, 127))]
    source = save_tokenizer(tmp_path / "letters", letters, letters=True)
    pair = "word " * 8, "summary of ten letters"
    options = with_pairs(tmp_path / "pairs", *((f"{pair[0]}{k}", pair[1]) for k in range(8)))
    data = dialogue_data(source_tokenizer=source, source_length=50, target_length=6, **options)
    assert data.num_cut == (0, 0, 0)
    assert data.splits["val"].conditions["encoded_target"].shape == (2, 50)
    with caplog.at_level(logging.WARNING):
        data = dialogue_data(source_tokenizer=source, source_length=20, target_length=6, **options)
    assert data.num_cut == (8, 0, 8)
    assert "8 summaries are longer than data.source_length=20 ids of dialogues" in caplog.text


@pytest.mark.parametrize("pad", ["<eos>", None])
def test_eos_may_fill_up(tokenizers, tmp_path, pad):
    tokenizer = save_tokenizer(tmp_path, SAID[:-1], pad=pad)
    data = dialogue_data(source_tokenizer=tokenizer, target_tokenizer=tokenizer)
    expected = dialogue_data(**tokenizers)
    eos = data.target_tokenizer.eos_id
    assert data.target_tokenizer.pad_id == data.source_tokenizer.pad_id == eos
    for name in SPLITS:
        batch, other = data.splits[name].batch(), expected.splits[name].batch()
        assert torch.equal(batch.real, other.real)
        assert torch.equal(batch.x0, other.x0.masked_fill(~other.real, eos))
        read = batch.conditions["source"] != eos
        assert torch.equal(read, other.conditions["source"] != 0)
        assert data.decode(batch.x0) == expected.decode(other.x0)


def test_what_fills_up_dialogues_is_in_no_text(tmp_path):
    tokenizer = save_tokenizer(tmp_path / "tokenizer", ["<unk>", "<eos>", "a", "b"], pad="<unk>")
    known = with_pairs(tmp_path / "known", *[("a", "b"), ("b", "a"), ("a a", "b"), ("b b", "a")])
    data = dialogue_data(source_tokenizer=tokenizer, **known)
    assert data.source_tokenizer.pad_id == data.source_tokenizer.unk_id == 0
    for pair in ("a b umbrella", "a"), ("a b", "umbrella"):
        options = with_pairs(tmp_path / "pairs", pair, ("a", "b"), ("b", "a"), ("a a", "b"))
        with pytest.raises(ValueError, match=r"id 0, .*umbrella.*pad_token"):
            dialogue_data(source_tokenizer=tokenizer, **options)
        dialogue_data(target_tokenizer=tokenizer, **options)  # there the length says what is real


def test_special_tokens_that_no_text_holds_need_no_embedding(tmp_path):
    more = ["<one>", "<image>"]
    tokenizer = save_tokenizer(tmp_path / "tokenizer", [*SPOKEN, "a", "b"], more=more)
    both = {"source_tokenizer": tokenizer, "target_tokenizer": tokenizer}
    size = PretrainedTokenizer(tokenizer).vocab_size
    pairs = [("a", "b"), ("b", "a"), ("a a", "b")]

    def sizes(*given: tuple[str, str]) -> tuple[int, int]:
        options = with_pairs(tmp_path / "pairs", *given)
        found = complete_data(dialogue_config(**both, **options)).data
        return found.vocab_size, found.source_vocab_size

    assert sizes(*pairs, ("a b", "a")) == (size - 2, size - 2)
    assert sizes(*pairs, ("a <one>", "a")) == (size - 1, size - 1)
    assert sizes(*pairs, ("a b", "a <image>")) == (size, size)

    config = complete_data(dialogue_config(**both))
    assert given_dialogues(config.data, ["a b"], "mine").splits["test"].x0.shape == (
        1,
        T,
    )
    with pytest.raises(ValueError, match=rf"mine: .* id {size - 1}, .* {size - 2} ids"):
        given_dialogues(config.data, ["a <image> b"], "mine")
    ending = PretrainedTokenizer(save_tokenizer(tmp_path / "end", ["<unk>", "a"], more=more))
    assert ending.num_ids(["a"]) == ending.pad_id + 1  # a special token that is needed


def test_unknown_words_are_counted_by_the_tokenizer_of_their_text(tmp_path):
    tokenizer = save_tokenizer(tmp_path / "tokenizer", ["<pad>", "<eos>", "a", "b", "<unk>"])
    options = with_pairs(tmp_path / "pairs", *((f"a {word}", "b c a") for word in "bcde"))
    shares = {
        keys: dialogue_data(**options, **dict.fromkeys(keys, tokenizer)).ids["train"].unknown_share
        for keys in (("source_tokenizer", "target_tokenizer"), ("target_tokenizer",))
    }
    dialogues = [p.dialogue for p in dialogue_data(**options).pairs["train"]]
    unknown = sum(dialogue[-1] in "cde" for dialogue in dialogues)
    assert list(shares.values()) == [(unknown + 2) / 10, 2 / 10]  # words are those of training


def test_a_tokenizer_is_read_from_its_folder(tmp_path):
    words = ["<pad>", "<eos>", "<unk>", "tea", "time", "<start>"]
    read = PretrainedTokenizer(save_tokenizer(tmp_path / "whole", words))
    assert (read.vocab_size, read.pad_id, read.eos_id, read.unk_id) == (6, 0, 1, 2)
    assert read.network.encode("tea time") == [5, 3, 4, 1]
    assert read.encode("tea time") == [3, 4]  # nothing that only begins or ends it
    assert read.decode([3, 4, 1, 3, 0]) == "tea time"
    endless = save_tokenizer(tmp_path / "endless", ["<pad>", "<unk>", "tea"], eos=None)
    with pytest.raises(ValueError, match=r"data\.k=.* eos_token or sep_token"):
        PretrainedTokenizer(endless, "data.k")


@pytest.mark.parametrize("broken", ["{", "[]", "{}", '{"added_tokens": [], "model": {}}'])
def test_files_that_are_no_tokenizer_are_refused(tmp_path, broken):
    folder = Path(save_tokenizer(tmp_path, ["<pad>", "<eos>", "<unk>", "tea"]))
    (folder / "tokenizer.json").write_text(broken)
    with pytest.raises(ValueError, match=r"data\.k=.* tokenizer\.json"):
        PretrainedTokenizer(str(folder), "data.k")
