"""Dialogues with their summaries from JSON lines."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from continuous_states.dialogue.grammar import DialoguePair
from continuous_states.dialogue.words import tokens_of
from discrete_diffusion.data import load_json, read_text, split_lines
from discrete_diffusion.runtime import JSON, JSON_LINES, GivenObjects

_FIELDS = ("dialogue", "summary")
_SURROGATE = re.compile("[\ud800-\udfff]")
"""Half of a pair that stands for one character; by itself it cannot be written as UTF-8."""


@dataclass(frozen=True)
class GivenDialogue:
    """A dialogue to be summarised, of line ``line`` of a file. ``summary``: its reference, empty if
    there is none; ``others``: the other keys of the line."""

    line: int
    dialogue: str
    summary: str
    others: dict[str, Any]


def read_dialogues(path: str | Path) -> list[DialoguePair]:
    """The pairs of a UTF-8 file, plain or gzipped, a JSON object per line with the texts
    ``dialogue`` and ``summary``; other keys are not read, empty lines are skipped.

    Raises ``FileNotFoundError`` or ``ValueError`` with one sentence, naming file, line and field:
    no such file, not JSON, a text that is missing, holds no word, or half a character.
    """
    return [
        DialoguePair(_text(found, "dialogue", where), _text(found, "summary", where))
        for _, where, found in _objects(path)
    ]


def read_given_dialogues(path: str | Path | GivenObjects) -> list[GivenDialogue]:
    """Dialogues to be summarised, of such a file or of objects, where ``summary`` may be
    missing, null or empty; errors likewise."""
    return [
        GivenDialogue(
            line=line,
            dialogue=_text(found, "dialogue", where),
            summary=_text(found, "summary", where) if found.get("summary") else "",
            others={key: value for key, value in found.items() if key not in _FIELDS},
        )
        for line, where, found in _objects(path)
    ]


def _objects(path: str | Path | GivenObjects) -> list[tuple[int, str, dict[str, Any]]]:
    """The number of each line, file and line in words, and the object that it holds."""
    expected = f"a JSON object per line, with {' and '.join(_FIELDS)}"
    source = read_text(path, JSON_LINES, JSON, expected=expected)
    found = [
        (number, where := source.place(number), _object(line, where))
        for number, line in enumerate(split_lines(source.text), start=1)
        if line.strip()
    ]
    if not found:
        raise ValueError(f"{source.name} holds no line; expected a JSON object per line")
    return found


def _object(line: str, where: str) -> dict[str, Any]:
    try:
        found = load_json(line)
    except ValueError as error:
        raise ValueError(f"{where}: not valid JSON: {error}") from error
    if not isinstance(found, dict):
        raise ValueError(
            f"{where}: expected a JSON object with {' and '.join(_FIELDS)}, got "
            f"{type(found).__name__}"
        )
    return found


def _text(found: dict[str, Any], field: str, where: str) -> str:
    value = found.get(field)
    if not isinstance(value, str) or not tokens_of(value):
        keys = ", ".join(map(repr, found)) or "no keys"
        got = f"nothing; the line has {keys}" if field not in found else repr(value)
        raise ValueError(f"{where}: {field} must be a text with a word in it, got {got}")
    if half := _SURROGATE.search(value):
        raise ValueError(
            f"{where}: {field} holds half a character (an unpaired surrogate), "
            f"{ascii(half[0])[1:-1]} after "
            f"{value[max(half.start() - 20, 0) : half.start()]!r}; write characters beyond "
            "\\uffff as they are, or as both their halves"
        )
    return value
