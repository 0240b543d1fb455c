"""Ids of characters and bytes: round trips, through a config file too."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from omegaconf import OmegaConf

from discrete_diffusion.data.files import TextSource
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


def test_an_unknown_character_is_named_with_its_place():
    vocabulary = TextVocabulary.from_text("abc\n")
    sentence = r"val\.txt, line 3: the character 'é' \(U\+00E9\) .*data\.characters"
    with pytest.raises(ValueError, match=sentence):
        vocabulary.encode(TextSource("val.txt", "a\nb\ncébé"))


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
