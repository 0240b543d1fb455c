"""Character and word counts of text samples, against hand counts."""

from __future__ import annotations

import math

import pytest

from discrete_diffusion.domains.text.report import (
    character_distance,
    share_known,
    variety,
    words_of,
)


def test_character_distance_is_the_total_variation():
    assert character_distance(["abab"], ["ba"]) == 0
    assert character_distance(["aa"], ["bb", "b"]) == 1
    # p = (3/4, 1/4, 0), q = (1/2, 1/4, 1/4)
    assert character_distance(["aa", "ab"], ["aabc"]) == pytest.approx(0.25)
    assert math.isnan(character_distance([""], ["a"]))


def test_words_that_touch_an_end_may_be_cut_off():
    assert words_of(["ther, the king's men", " all of it "]) == [
        "the",
        "king",
        "s",
        "all",
        "of",
        "it",
    ]
    assert words_of(["word"]) == []


def test_the_share_of_words_seen():
    known = {"to", "be"}
    assert share_known([" to be or not to be. "], known) == pytest.approx(4 / 6)
    assert math.isnan(share_known(["to"], known))


def test_variety_by_hand():
    rows = [[0, 1, 0, 1], [2, 2, 2, 2]]
    units = [["a", "b", "c", "d", "a", "b", "c", "d"], ["x", "y"]]
    found = variety(rows, units)
    assert found["unigram_entropy"] == pytest.approx(math.log(2) / 2)
    assert found["distinct_1"] == pytest.approx(6 / 10)
    assert found["distinct_2"] == pytest.approx((4 + 1) / (7 + 1))
    assert found["distinct_3"] == pytest.approx(4 / 6)
    assert found["repetition_share"] == pytest.approx(1 - 4 / 5)  # the second has no run of four
    assert all(math.isnan(value) for value in variety([[]], [[]]).values())
