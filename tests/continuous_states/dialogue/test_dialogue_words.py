"""Words as ids and back, and tokenizers of pretrained networks in their place."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from continuous_states.dialogue.texts import (
    NAMES,
    NUM_COMBINATIONS,
    SLOTS,
    WORDS,
    WordVocabulary,
    join_tokens,
    sample_dialogues,
    tokens_of,
)

VOCABULARY = WordVocabulary(("!", ",", "a", "don't", "tea"))
EOS, UNK, MASK, PAD = 5, 6, 7, 8


def test_words_are_ids():
    assert VOCABULARY.vocab_size == 9
    ids = (VOCABULARY.eos_id, VOCABULARY.unk_id, VOCABULARY.mask_id, VOCABULARY.pad_id)
    assert ids == (EOS, UNK, MASK, PAD)
    assert VOCABULARY.encode("Don't, A  coffee!") == [3, 1, 2, UNK, 0]
    assert VOCABULARY.decode([3, 1, 2, UNK, 0, EOS, 4, PAD]) == "don't, a <unknown>!"
    assert VOCABULARY.decode([MASK, 4, PAD, 2]) == "tea a"  # unfinished
    assert WordVocabulary(VOCABULARY.line.split()).words == VOCABULARY.words


@given(st.text(max_size=20))
def test_joined_tokens_are_found_again(text):
    assert tokens_of(join_tokens(tokens_of(text))) == tokens_of(text)


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


PAIRS = sample_dialogues(2000, seed=3)


def slots_of(text: str) -> tuple[tuple[str, ...], ...]:
    tokens = tokens_of(text)
    return tuple(tuple(t for t in tokens if t in words) for words in SLOTS.values())


def test_the_vocabulary_is_closed():
    texts = [text for pair in PAIRS for text in (pair.dialogue, pair.summary)]
    assert {token for text in texts for token in tokens_of(text)} == set(WORDS)
    assert len(WORDS) == len(set(WORDS)) == 71
    assert WordVocabulary(WORDS).vocab_size == 75
    assert sum(map(len, SLOTS.values())) == len(frozenset().union(*SLOTS.values()))
    assert len({slots_of(pair.summary) for pair in PAIRS}) == len(PAIRS)
    assert sample_dialogues(5, seed=3) == PAIRS[:5]
    assert sample_dialogues(5, seed=4) != PAIRS[:5]
    for num in (0, NUM_COMBINATIONS + 1):
        with pytest.raises(ValueError, match=rf"data\.num_samples={num}: .* 604,800"):
            sample_dialogues(num)


def test_the_dialogue_holds_what_the_summary_says():
    for pair in PAIRS:
        who, (verb, thing), when, where = slots_of(pair.summary)
        spoken = slots_of(pair.dialogue)
        assert set(who) == set(spoken[0])
        assert thing in spoken[1]
        assert (when, where) == spoken[2:]
        asked = next(line for line in pair.dialogue.lower().split("\n") if thing in line)
        assert asked.startswith(who[0])  # it is the first one's wish ...
        said = {"borrow": "borrow", "buy": "buy", "lend": "need my", "return": "still have"}
        assert said[verb] in asked  # ... and what it is is said there
        assert len(who) == 2
        assert set(who) < set(NAMES)
