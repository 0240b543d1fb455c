"""Words as ids and back, and tokenizers of pretrained networks in their place."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from continuous_states.dialogue.texts import PretrainedTokenizer, WordVocabulary, joined, tokens_of

VOCABULARY = WordVocabulary(("!", ",", "a", "don't", "tea"))
EOS, UNK, MASK, PAD = 5, 6, 7, 8


def test_words_are_ids():
    assert VOCABULARY.vocab_size == 9
    ids = (VOCABULARY.eos_id, VOCABULARY.unk_id, VOCABULARY.mask_id, VOCABULARY.pad_id)
    assert ids == (EOS, UNK, MASK, PAD)
    assert VOCABULARY.encode("Don't, A  coffee!") == [3, 1, 2, UNK, 0]
    assert VOCABULARY.decode([3, 1, 2, UNK, 0, EOS, 4, PAD]) == "don't, a <unknown>!"
    assert VOCABULARY.decode([MASK, 4, PAD, 2]) == "tea a"  # unfinished
    assert WordVocabulary.from_line(VOCABULARY.line).words == VOCABULARY.words


@given(st.text(max_size=20))
def test_joined_tokens_are_found_again(text):
    assert tokens_of(joined(tokens_of(text))) == tokens_of(text)


def test_the_most_frequent_words_are_kept():
    texts = ["b a c", "c b", "c"]
    assert WordVocabulary.from_texts(texts, 2).words == ("b", "c")
    assert WordVocabulary.from_texts(texts, 9).words == ("a", "b", "c")
    with pytest.raises(ValueError, match=r"data\.max_words=0: .* at least 1"):
        WordVocabulary.from_texts(texts, 0)


@pytest.mark.parametrize("words", [(), ("a", "a"), ("a", ""), ("a b",)])
def test_words_that_are_no_vocabulary_are_refused(words):
    with pytest.raises(ValueError, match=r"data\.words"):
        WordVocabulary(words)


def test_without_transformers_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(ValueError, match=r"pip install .*\[text\]"):
        PretrainedTokenizer("folder")
