"""Bytes and words of windows are those of the text that they were cut from."""

from __future__ import annotations

import pytest
import torch

from discrete_diffusion.data.text_files import TextSource
from discrete_diffusion.domains.text import units
from discrete_diffusion.domains.text.units import TextUnits
from discrete_diffusion.domains.text.vocabulary import TextVocabulary

TEXTS = ["", " ", "naïve", " two words ", "a é\n\nb\u2003c  d", "über alle  Gipfel\nist Ruh"]


@pytest.mark.parametrize("at_once", [1, 2, 100])
@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("kind", ["characters", "bytes"])
def test_units_do_not_depend_on_where_windows_end(text, kind, at_once, monkeypatch):
    monkeypatch.setattr(units, "_AT_ONCE", at_once)
    vocabulary = TextVocabulary(None if kind == "bytes" else "".join(sorted({*text, "x"})))
    ids = torch.from_numpy(vocabulary.encode(TextSource("here", text)).copy())
    for length in (1, 3, 4):
        num = -(-len(ids) // length)
        x0 = torch.full((num * length,), vocabulary.pad_id)
        x0[: len(ids)] = ids
        found = TextUnits.of(vocabulary, x0.view(num, length))
        if kind == "characters" or at_once == 100:  # else a character is cut
            assert found.num_bytes == len(text.encode())
            assert found.num_words == len(text.split())


def test_windows_of_pad_alone_change_nothing(monkeypatch):
    monkeypatch.setattr(units, "_AT_ONCE", 1)
    vocabulary = TextVocabulary("ab")
    x0 = torch.tensor([[0, 1], [3, 3], [1, 3]])
    assert TextUnits.of(vocabulary, x0) == TextUnits(3, 1)


def test_a_text_without_words_has_no_perplexity_of_one():
    assert TextUnits(3, 0).bounds(1.0).keys() == {"bits_per_byte"}
