"""Ids of characters and bytes: round trips, through a config file too; words of pieces of ids."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from omegaconf import OmegaConf

from discrete_diffusion.data.files import TextSource
from discrete_diffusion.domains.text.dataset import count_words, units_of
from discrete_diffusion.domains.text.subwords import END_OF_TEXT, SubwordVocabulary, trained_bpe
from discrete_diffusion.domains.text.vocabulary import TextVocabulary, vocabulary_of

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
    config = OmegaConf.create({"tokens": "characters"})
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
        ({"tokens": "byte"}, "unknown kind of token 'byte'; did you mean 'bytes'?"),
        ({"tokens": "characters", "characters": None}, "data.characters"),
        ({"tokens": "characters", "characters": ""}, "data.characters=''"),
        ({"tokens": "characters", "characters": "aba"}, "data.characters='aba'"),
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
