"""Scores of summaries, against an independent longest common subsequence and hand counts."""

from __future__ import annotations

import math
import re
from functools import cache

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from continuous_states.dialogue.summaries import most_frequent, score_summaries
from continuous_states.dialogue.texts import SLOTS, sample_dialogues

GENERATED = ["Anna will buy the tent.", "the tent, the tent", "who knows", ""]
REFERENCES = ["anna will buy the tent .", "Anna will lend the tent!", "nothing else", "a word"]


def f1_of_common_subsequence(generated: str, reference: str) -> float:
    a, b = (re.findall(r"[a-z0-9]+", text.lower()) for text in (generated, reference))

    @cache
    def common(i: int, j: int) -> int:
        if i == len(a) or j == len(b):
            return 0
        if a[i] == b[j]:
            return 1 + common(i + 1, j + 1)
        return max(common(i + 1, j), common(i, j + 1))

    return 2 * common(0, 0) / (len(a) + len(b)) if common(0, 0) else 0.0


def test_rouge_l_is_the_f1_of_the_longest_common_subsequence():
    summaries = [pair.summary for pair in sample_dialogues(12)]
    generated, references = GENERATED + summaries[:6], REFERENCES + summaries[6:]
    found = score_summaries(generated, references).rouge_l
    expected = [f1_of_common_subsequence(*pair) for pair in zip(generated, references, strict=True)]
    assert found.tolist() == pytest.approx(expected, abs=1e-6)
    assert len(set(expected)) > 5


@given(*[st.text(st.characters(codec="ascii"), max_size=30)] * 2)
@example("don't go_now, it's 5!", "Dont go now its 5")
def test_rouge_l_of_ascii_is_that_of_torchmetrics(generated, reference):
    from torchmetrics.functional.text.rouge import rouge_score

    expected = rouge_score(generated, reference, rouge_keys="rougeL")["rougeL_fmeasure"]
    assert score_summaries([generated], [reference]).rouge_l.tolist() == [float(expected)]


@pytest.mark.parametrize(
    ("generated", "reference", "f1"),
    [
        ("Привет, мир!", "привет мир", 1),
        ("привет мир", "Привет, Анна", 1 / 2),
        ("你好 世界", "你好", 2 / 3),
        ("crème brûlée", "creme brulee", 0),
    ],
)
def test_words_are_of_any_script(generated, reference, f1):
    assert score_summaries([generated], [reference]).rouge_l.item() == pytest.approx(f1)


def test_slots_are_right_where_their_words_are():
    reference = "Anna will buy the tent from Ben on Friday evening at the park."
    generated = [
        reference.lower().replace(".", " ."),  # all right
        "Ben will buy the tent from Anna on Friday evening at the park.",  # who
        "Anna will lend the tent to Ben on Friday at the park.",  # what, when
        "anna anna ben buy tent friday evening gym park",  # who, where
    ]
    scores = score_summaries(generated, [reference] * 4, SLOTS)
    assert scores.exact.tolist() == [1, 0, 0, 0]
    assert {name: right.tolist() for name, right in scores.slots.items()} == {
        "who": [1, 0, 1, 0],
        "what": [1, 1, 0, 1],
        "when": [1, 1, 0, 1],
        "where": [1, 1, 1, 0],
    }
    assert scores.slot_accuracy.tolist() == [1, 0.75, 0.5, 0.5]
    values = scores.as_dict("of_model_")
    assert values["of_model_slot_accuracy"] == pytest.approx(11 / 16)
    assert values["of_model_slot_who"] == 0.5
    assert values["of_model_exact_match"] == 0.25
    error = math.sqrt(0.25 * 0.75 * 4 + 0.25) / 5  # half of Wilson's interval
    assert values["of_model_exact_match_standard_error"] == pytest.approx(error)


def test_distinct_summaries_are_told_apart_by_words():
    scores = score_summaries(["A b!", "a  B !", "a b", "c"], ["a b"] * 4)
    assert scores.distinct == 0.75
    assert not any(name.startswith("slot") for name in scores.as_dict())
    assert "rouge_l_standard_error" not in score_summaries(["a"], ["a"]).as_dict()


def test_the_most_frequent_text():
    assert most_frequent(["x", "A b!", "c", "a b !", "c"]) == "A b!"


@pytest.mark.parametrize(("generated", "references"), [([], []), (["a"], ["a", "b"])])
def test_summaries_need_their_references(generated, references):
    with pytest.raises(
        ValueError, match=rf"{len(generated)} summaries and {len(references)} references"
    ):
        score_summaries(generated, references)
