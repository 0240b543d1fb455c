"""Dialogues with their summaries from JSON lines."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

from discrete_diffusion.data.dialogue.grammar import DialoguePair
from discrete_diffusion.data.dialogue.words import tokens_of
from discrete_diffusion.data.text.reading import read_text

FIELDS = ("dialogue", "summary")
_SURROGATE = re.compile("[\ud800-\udfff]")
"""Of a pair that stands for one character; by itself it cannot be written as UTF-8."""


def read_dialogues(path: str | Path, *, fields: Sequence[str] = FIELDS) -> list[DialoguePair]:
    """The pairs of a UTF-8 file, plain or gzipped, a JSON object per line with the texts
    ``dialogue`` and ``summary``; other keys are not read, empty lines are skipped. ``fields``:
    which of the two are read, the other one is empty.

    Raises ``FileNotFoundError`` or ``ValueError`` with one sentence, naming file, line and field:
    no such file, not JSON, a text that is missing, holds no word, or half a character.
    """
    source = read_text(path)
    pairs = [
        _pair(line, f"{source.name}, line {number:,}", fields)
        for number, line in enumerate(source.text.split("\n"), start=1)
        if line.strip()
    ]
    if not pairs:
        raise ValueError(f"{source.name} holds no line; expected a JSON object per line")
    return pairs


def _pair(line: str, where: str, fields: Sequence[str]) -> DialoguePair:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:  # numbers of too many digits, too
        raise ValueError(f"{where}: not valid JSON: {error}") from error
    if not isinstance(found, dict):
        raise ValueError(
            f"{where}: expected a JSON object with {' and '.join(fields)}, got "
            f"{type(found).__name__}"
        )
    for field in fields:
        value = found.get(field)
        if not isinstance(value, str) or not tokens_of(value):
            got = "nothing" if field not in found else repr(value)
            raise ValueError(f"{where}: {field} must be a text with a word in it, got {got}")
        if half := _SURROGATE.search(value):
            raise ValueError(
                f"{where}: {field} holds half a character, {ascii(half[0])[1:-1]} after "
                f"{value[max(half.start() - 20, 0) : half.start()]!r}; write characters beyond "
                "\\uffff as they are, or as both their halves"
            )
    return DialoguePair(**{field: found[field] if field in fields else "" for field in FIELDS})
