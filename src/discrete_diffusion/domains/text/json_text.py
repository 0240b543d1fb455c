"""A text as a line of JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from discrete_diffusion.data.text_files import load_json


def json_text(line: str, place: str, field: str = "text") -> str:
    """The text of a line. ``ValueError`` naming ``place`` for what is no JSON, or no text."""
    try:
        value = load_json(line)
    except ValueError as error:
        raise ValueError(f"{place} is not JSON: {error}") from error
    return text_of(value, place, field)


def text_of(value: Any, place: str, field: str = "text") -> str:
    """A text, or that of an object with a ``field``; ``ValueError`` for another value."""
    is_object = isinstance(value, Mapping)
    text = value.get(field) if is_object else value
    if not isinstance(text, str):
        has = f"; its keys are {', '.join(map(str, value))}" if is_object else ""
        raise ValueError(f'{place}: expected a text, or {{"{field}": "..."}}{has}')
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(
            f"{place}: character {error.start + 1:,} is {text[error.start]!a}, half of a surrogate "
            "pair, which is no character; repair the text, or leave it out"
        ) from error
    return text
