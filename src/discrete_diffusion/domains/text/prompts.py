"""Texts to complete: blanks in them, and what follows them."""

from __future__ import annotations

import re
from collections.abc import Iterator

import torch
from torch import Tensor

from discrete_diffusion.data.text_files import TextSource, read_text, split_lines
from discrete_diffusion.domains.text.ids import IdVocabulary
from discrete_diffusion.domains.text.json_text import json_text, text_of
from discrete_diffusion.domains.text.vocabulary import Vocabulary
from discrete_diffusion.runtime.file_kinds import JSON_LINES
from discrete_diffusion.runtime.inputs import GivenObjects, place_of_line

UNKNOWN = -1
"""In the place of a token that is to be sampled."""

_BLANK = re.compile(r"\[MASK\]|_{4,}")
"""One token; or as many as there are underscores."""


def read_prompts(
    given: str | GivenObjects, vocabulary: Vocabulary, num_tokens: int
) -> dict[int, Tensor]:
    """Texts by line number, each Int64[num_tokens]: ids, and ``UNKNOWN`` in blanks and behind.

    A line is a text, of JSON lines JSON text or an object with a ``text``; of a model
    without tokenizer its ids, with spaces between. Raises ``ValueError`` naming file and line for
    one that is empty, too long or has unknown characters.
    """
    found = {}
    for number, text in _texts(given):
        place = place_of_line(given, number)
        if not text:
            raise ValueError(f"{place} is empty; give a text, or leave the line out")
        ids = [_ids(part, place, vocabulary) for part in _parts(text)]
        known = torch.cat(ids)
        if len(known) > num_tokens:
            raise ValueError(
                f"{place} has {len(known):,} tokens, and samples have {num_tokens}; cut it"
            )
        found[number] = torch.full((num_tokens,), UNKNOWN)
        found[number][: len(known)] = known
    if not found:
        raise ValueError(f"{given} holds no text; expected a text a line")
    return found


def _parts(text: str) -> list[str]:
    """A text cut at its blanks, which are parts, too."""
    return re.split(rf"({_BLANK.pattern})", text)


def _ids(part: str, place: str, vocabulary: Vocabulary) -> Tensor:
    """Int64[N] of a part."""
    if _BLANK.fullmatch(part):
        return torch.full((1 if part[0] == "[" else len(part),), UNKNOWN)
    if isinstance(vocabulary, IdVocabulary):
        return torch.from_numpy(vocabulary.of_text(part, place))
    return torch.from_numpy(
        vocabulary.encode(
            TextSource(place, part),
            known="those that the model was trained on",
            remedy="write it otherwise, or put [MASK] in its place",
        )
    )


def _texts(given: str | GivenObjects) -> Iterator[tuple[int, str]]:
    """Numbers of lines and their texts."""
    if isinstance(given, GivenObjects):
        for number, value in enumerate(given.objects, start=1):
            yield number, text_of(value, place_of_line(given, number))
        return
    source = read_text(given, JSON_LINES, expected="a text a line, or JSON lines")
    is_json = source.kind is JSON_LINES
    for number, line in enumerate(split_lines(source.text), start=1):
        if is_json and line.strip():
            yield number, json_text(line, source.place(number))
        elif not is_json:
            yield number, line
