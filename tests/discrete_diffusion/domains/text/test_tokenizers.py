"""Tokenizers: by name, in configs and checkpoints, exact or said not to be."""

from __future__ import annotations

import logging

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from omegaconf import OmegaConf
from test_text_data import NUMBERED, text_config
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from discrete_diffusion.checkpoints.sharing import model_card
from discrete_diffusion.data.files import TextSource
from discrete_diffusion.domains import build_data, complete_data
from discrete_diffusion.domains.text.dataset import count_words, units_of
from discrete_diffusion.domains.text.subwords import (
    END_OF_TEXT,
    SubwordVocabulary,
    pieces_of_text,
    state_of_file,
    trained_bpe,
)
from discrete_diffusion.domains.text.vocabulary import (
    LETTERS,
    TextVocabulary,
    reduce_to_letters,
    vocabulary_of,
)

TEXT = "the cat sat on the mat. the cats sit.\n\n  Ünïcode — 文\n" * 30


@pytest.fixture(scope="module")
def vocabulary() -> SubwordVocabulary:
    return SubwordVocabulary(trained_bpe(280, [TEXT]))


def ids_of(vocabulary, text):
    return vocabulary.encode(TextSource("text", text))


def test_a_byte_level_tokenizer_gives_every_text_back(vocabulary):
    assert (vocabulary.vocab_size, vocabulary.mask_id, vocabulary.pad_id) == (282, 280, 281)
    for text in (TEXT, "never seen: ß 🙂\t\x00", ""):
        tokens = torch.from_numpy(ids_of(vocabulary, text)).unsqueeze(0)
        assert vocabulary.decode(tokens) == [text]
        assert vocabulary.is_exact(text)
        assert vocabulary.sizes(tokens[0].numpy()) == (len(text), len(text.encode()))
    assert len(ids_of(vocabulary, TEXT)) < len(TEXT.encode()) / 1.5
    padded = torch.tensor([[*ids_of(vocabulary, "cat"), 281, 281]])
    assert vocabulary.decode(padded) == ["cat"]


def test_a_special_token_in_a_text_is_one_id(vocabulary):
    text = f"a{END_OF_TEXT}"
    assert ids_of(vocabulary, text)[-1] == vocabulary.eos_id == vocabulary.bos_id
    (ids,) = vocabulary.encode_each([text])
    assert ids.tolist() == list(ids_of(vocabulary, text))
    assert vocabulary.decode(torch.from_numpy(ids).unsqueeze(0)) == [text]


def test_pieces_are_encoded_as_the_whole(vocabulary):
    parts = pieces_of_text(TEXT, 100)
    assert "".join(parts) == TEXT
    assert len(parts) > 5
    found = [k for part in vocabulary.encode_each(parts) for k in part]
    assert found == vocabulary.encode_each([TEXT])[0].tolist()
    for text in ("a" * 500, "a\n\n" * 200):  # without a place to cut
        assert pieces_of_text(text, 100) == [text]
    assert pieces_of_text("", 100) == []


def test_files_of_tokenizers(tmp_path, vocabulary):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=300, special_tokens=[END_OF_TEXT], show_progress=False)
    tokenizer.train_from_iterator([TEXT], trainer)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    gpt2 = tmp_path / "gpt2"
    gpt2.mkdir()
    tokenizer.model.save(str(gpt2))
    states = [state_of_file(str(tmp_path / "tokenizer.json")), state_of_file(str(tmp_path))]
    assert states[0] == states[1]
    of_pair = SubwordVocabulary(state_of_file(str(gpt2)))
    expected = tokenizer.encode("the cat sat").ids
    assert ids_of(of_pair, "the cat sat").tolist() == expected
    assert of_pair.eos_id == 0
    (gpt2 / "merges.txt").unlink()
    for name, named in [
        ("no/where", "nothing is at"),
        (str(gpt2), "tokenizer.json, or vocab.json"),
    ]:
        with pytest.raises((ValueError, FileNotFoundError), match=named):
            state_of_file(name)
    (gpt2 / "tokenizer.json").write_text("{")
    with pytest.raises(ValueError, match=r"gpt2.*expected tokenizer\.json"):
        state_of_file(str(gpt2))


def test_lost_characters_are_counted(caplog, tmp_path):
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.decoder = decoders.WordPiece()
    trainer = trainers.WordPieceTrainer(vocab_size=60, special_tokens=["[UNK]"])
    tokenizer.train_from_iterator(["the cat sat on the mat"], trainer)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    vocabulary = SubwordVocabulary(state_of_file(str(tmp_path)))
    assert vocabulary.unknown(["the cat Ω sat Ω ß"]) == {"Ω": 2, "ß": 1}
    assert not vocabulary.is_exact("the  cat")
    with caplog.at_level(logging.WARNING):
        ids_of(vocabulary, "the Ω ß Ω")
    assert "3 characters" in caplog.text
    assert "'Ω', 'ß'" in caplog.text


def test_text8_has_27_letters():
    assert reduce_to_letters("Room 12: Öl & OK!") == "room one two l ok "
    config = complete_data(text_config(tokenizer="text8", path=__file__))
    assert (config.data.token_unit, config.data.characters) == ("characters", LETTERS)
    assert config.data.vocab_size == 29
    data = build_data(config)
    assert set("".join(data.texts("train"))) <= set(LETTERS)


def test_a_config_holds_its_tokenizer(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text(TEXT)
    config = complete_data(text_config(tokenizer="bpe:290", path=str(path), length=16))
    data = build_data(config)
    assert "".join(data.texts("train") + data.texts("val") + data.texts("test")) == TEXT
    bounds = [data.text_sizes(split) for split in ("train", "val", "test")]
    assert sum(characters for characters, _ in bounds) >= len(TEXT)  # a cut character counts twice
    path.unlink()
    assert complete_data(config) == config  # which needs no file
    assert vocabulary_of(config.data).decode(data.splits["val"].x0) == data.texts("val")


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"tokenizer": "bpe:200"}, "bpe:257"),
        ({"tokenizer": "byte"}, "did you mean 'bytes'"),
        ({"tokenizer": "bpe:300", "token_unit": "bytes"}, r"data\.token_unit=bytes.*bpe:300"),
        ({"tokenizer": "text8", "characters": "ab"}, r"data\.characters"),
        ({"tokenizer": "./no.json"}, "nothing is at"),
        ({"token_unit": "subwords"}, r"data\.tokenizer"),
    ],
)
def test_what_contradicts_itself_is_named(values, named, tmp_path):
    (tmp_path / "a.txt").write_text(NUMBERED)
    with pytest.raises((ValueError, FileNotFoundError), match=named):
        complete_data(text_config(path=str(tmp_path / "a.txt"), **values))


def test_a_model_card_does_not_hold_a_whole_tokenizer(vocabulary):
    data = {"domain": "text", "name": "text", "tokenizer_state": vocabulary.state}
    info = {"config": {"data": data, "algo": {"name": "mdlm", "backbone": "dit"}}}
    info |= {"size_counts": [], "step": 1, "data_fingerprint": None}
    card = model_card(info, 10, {}, name="m")
    assert vocabulary.state not in card
    assert f"({len(vocabulary.state):,} characters)" in card


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40)
"""Any text that UTF-8 can hold."""


def tokens(vocabulary: TextVocabulary, text: str) -> torch.Tensor:
    return torch.from_numpy(vocabulary.encode(TextSource("source", text)))[None]


@given(TEXTS)
def test_encode_then_decode_is_the_identity(text):
    for vocabulary in (TextVocabulary.from_text(text), TextVocabulary(None)):
        ids = tokens(vocabulary, text)
        assert vocabulary.decode(ids) == [text]
        assert 0 <= int(ids.min()) <= int(ids.max()) < vocabulary.mask_id


@given(TEXTS)
def test_the_characters_come_back_out_of_a_config_file(text):
    characters = TextVocabulary.from_text(text).characters
    config = OmegaConf.create({"token_unit": "characters"})
    config.characters = characters
    for _ in range(2):  # config.yaml, then a checkpoint
        config = OmegaConf.create(OmegaConf.to_yaml(config, resolve=True))
        config = OmegaConf.create(OmegaConf.to_container(config, resolve=True))
    assert vocabulary_of(config).characters == characters


def test_a_text_that_looks_like_a_reference():
    assert TextVocabulary.from_text("${}$").characters == "{$}"


def test_characters_are_sorted_and_the_special_ids_follow():
    vocabulary = TextVocabulary.from_text("banana\n")
    assert vocabulary.characters == "\nabn"
    assert (vocabulary.mask_id, vocabulary.pad_id, vocabulary.vocab_size) == (4, 5, 6)
    assert tokens(vocabulary, "nab").tolist() == [[3, 1, 2]]
    bytes_ = TextVocabulary(None)
    assert (bytes_.mask_id, bytes_.pad_id, bytes_.vocab_size) == (256, 257, 258)
    assert tokens(bytes_, "é").tolist() == [[0xC3, 0xA9]]


def test_padding_is_left_out_and_half_a_character_is_shown():
    vocabulary = TextVocabulary.from_text("ab")
    assert vocabulary.decode(torch.tensor([[0, 1, 3, 3], [3, 3, 3, 3]])) == ["ab", ""]
    assert TextVocabulary(None).decode(torch.tensor([[0xC3, 97, 257]])) == ["�a"]


@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        ({"token_unit": "byte"}, "unknown kind of token 'byte'; did you mean 'bytes'?"),
        ({"token_unit": "characters", "characters": None}, "data.characters"),
        ({"token_unit": "characters", "characters": ""}, "data.characters=''"),
        ({"token_unit": "characters", "characters": "aba"}, "data.characters='aba'"),
    ],
)
def test_bad_vocabularies(config, sentence):
    with pytest.raises(ValueError, match=sentence.replace("?", r"\?")):
        vocabulary_of(config)


CUT = ["", " ", "naïve", " two words ", "a é\n\nb\u2003c  d", "über alle  Gipfel\nist Ruh"]


@pytest.mark.parametrize("length", [1, 3, 100])
@pytest.mark.parametrize("text", CUT)
@pytest.mark.parametrize("kind", ["characters", "bytes"])
def test_words_do_not_depend_on_where_pieces_end(text, kind, length):
    vocabulary = TextVocabulary(None if kind == "bytes" else "".join(sorted({*text, "x"})))
    ids = vocabulary.encode(TextSource("here", text))
    pieces = [ids[k : k + length] for k in range(0, len(ids), length)]
    if kind == "characters" or "\u2003" not in text:  # else a wide space is cut
        assert count_words(vocabulary, pieces) == len(text.split())


@pytest.mark.parametrize("length", [1, 2, 100])
def test_words_of_documents_are_apart(length):
    """With nothing but a token between the documents."""
    pytest.importorskip("tokenizers", reason="needs the extra text")
    documents = ["one two", "three", "", "four five six"]
    vocabulary = SubwordVocabulary(trained_bpe(270, documents))
    ids = vocabulary.encode(TextSource("here", END_OF_TEXT.join(documents)))
    assert (ids == vocabulary.eos_id).sum() == 3
    pieces = [ids[k : k + length] for k in range(0, len(ids), length)]
    assert count_words(vocabulary, pieces) == 6


def test_a_text_without_words_has_no_perplexity_of_one():
    assert units_of(1.0, 3, 0).keys() == {"bits_per_byte"}
