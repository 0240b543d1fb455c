"""Bits per character, counts by hand, and what a report says and writes of text samples."""

from __future__ import annotations

import math
from collections import Counter
from copy import copy

import numpy as np
import pytest
import torch

from discrete_diffusion.data.files import TextSource
from discrete_diffusion.domains.text.dataset import TextDataset
from discrete_diffusion.domains.text.report import (
    TextReport,
    frequency_distance,
    share_known,
    variety,
    words_of,
)
from discrete_diffusion.domains.text.vocabulary import TextVocabulary
from discrete_diffusion.evaluation.bound import BoundMeter
from discrete_diffusion.layout import TokenLayout

LENGTH = 8
TEXT = "der Jäger und der König "


def dataset(vocabulary: TextVocabulary) -> TextDataset:
    layout = TokenLayout.flat(
        LENGTH,
        vocabulary.vocab_size,
        mask_id=vocabulary.mask_id,
        pad_id=vocabulary.pad_id,
    )
    ids = vocabulary.encode(TextSource("here", TEXT))
    return TextDataset(
        {"train": ids, "val": ids, "test": np.zeros(0, np.int64)},
        vocabulary,
        layout=layout,
        source="here",
    )


@pytest.mark.parametrize("kind", ["characters", "bytes"])
def test_bits_are_the_nats_of_the_split_over_its_characters(kind):
    data = dataset(TextVocabulary.from_text(TEXT) if kind == "characters" else TextVocabulary(None))
    real = data.splits["val"].real
    nats = torch.tensor([11.0, 7.0, 13.0, 2.0])[: len(real)].double()
    meter = BoundMeter()
    meter.add(nats, real.sum(dim=1), None)
    bound = meter.estimate("plain")
    some = copy(data)  # of fewer windows the ratios of the whole are taken
    some.splits = {**data.splits, "val": data.splits["val"][:1]}
    bits = data.further_bounds("val", bound)
    total = float(nats.sum()) / math.log(2)
    assert bits["bits_per_character"] == pytest.approx(total / len(TEXT))
    expected = bound.standard_error * len(real) / math.log(2) / len(TEXT)
    assert bits["bits_per_character_standard_error"] == pytest.approx(expected)
    assert bits["bits_per_byte"] == pytest.approx(total / len(TEXT.encode()))
    per_word = math.exp(float(nats.sum()) / len(TEXT.split()))
    assert bits["perplexity_per_word"] == pytest.approx(per_word)
    assert some.further_bounds("val", bound) == bits
    sure = BoundMeter()
    sure.add(torch.zeros(len(real)), real.sum(dim=1), None)
    assert set(data.further_bounds("val", sure.estimate("plain")).values()) == {0.0, 1.0}
    assert TextReport(data).findings(bound, data.splits["val"].x0)["text"] == "here"


def test_a_report_measures_and_writes_text(tmp_path):
    data = dataset(TextVocabulary.from_text(TEXT))
    report = TextReport(data)
    windows = data.splits["val"].x0
    scores = report.measure(windows)
    assert scores["character_tv"] == 0
    assert scores["words_in_training"] == scores["words_in_training_reference"] == 1
    other = torch.full_like(windows, data.vocabulary.characters.index("ä"))
    assert report.measure(other)["character_tv"] > 0.9
    assert report.measure(windows[:0]) == {}
    report.save(windows, tmp_path / "run")
    report.plot(windows, tmp_path / "pictures" / "step_1.png")
    saved = (tmp_path / "run" / "samples.txt").read_text()
    assert saved == (tmp_path / "pictures" / "step_1.txt").read_text()
    assert saved.count("sample") == 3
    assert "".join(line for line in saved.split("\n") if "sample" not in line) == TEXT
    assert not (tmp_path / "pictures" / "step_1.png").exists()


@pytest.mark.parametrize(
    ("samples", "reference", "distance"),
    # of the last: p = (3/4, 1/4, 0), q = (1/2, 1/4, 1/4)
    [("abab", "ba", 0), ("aa", "bbb", 1), ("aaab", "aabc", 0.25), ("", "a", math.nan)],
)
def test_the_distance_of_frequencies_is_the_total_variation(samples, reference, distance):
    found = frequency_distance(Counter(samples), Counter(reference))
    assert found == pytest.approx(distance, nan_ok=True)


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
