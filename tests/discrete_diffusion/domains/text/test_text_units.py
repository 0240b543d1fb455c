"""Words of pieces of ids are those of the text that they were cut from."""

from __future__ import annotations

import pytest

from discrete_diffusion.data.files import TextSource
from discrete_diffusion.domains.text.dataset import count_words, units_of
from discrete_diffusion.domains.text.subwords import END_OF_TEXT, SubwordVocabulary, trained_bpe
from discrete_diffusion.domains.text.vocabulary import TextVocabulary

TEXTS = ["", " ", "naïve", " two words ", "a é\n\nb\u2003c  d", "über alle  Gipfel\nist Ruh"]


@pytest.mark.parametrize("length", [1, 3, 100])
@pytest.mark.parametrize("text", TEXTS)
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
