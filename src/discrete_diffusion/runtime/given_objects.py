"""``GivenObjects``: Python objects in the place of a file that a request names."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class GivenObjects:
    """The ``lines`` that a file would hold, one for each object that ``name`` gives.

    ``name``: what the request calls them, such as ``given``; errors say ``given[2]`` for the third.
    """

    name: str
    lines: tuple[str, ...]

    @classmethod
    def of(cls, name: str, value: Any) -> GivenObjects:
        """Lines of one object or several: JSON objects, objects with ``to_json``, text of a line.

        Raises ``TypeError`` naming the object that JSON cannot hold, and ``ValueError`` for none at
        all and for text of several lines.
        """
        alone = isinstance(value, Mapping) or hasattr(value, "to_json")
        if not alone and not isinstance(value, Iterable):
            raise TypeError(f"{name}={value}: expected a file, an object or a list of objects")
        lines = tuple(
            _line(f"{name}[{k}]", each) for k, each in enumerate([value] if alone else value)
        )
        if not lines:
            raise ValueError(f"{name}=[]: give at least one object")
        return cls(name, lines)

    def __str__(self) -> str:
        return self.name

    @property
    def text(self) -> str:
        """As a file would hold it."""
        return "".join(f"{line}\n" for line in self.lines)

    def one_object(self) -> Any:
        """The JSON value of the one line that there is; ``ValueError`` if there are several."""
        if len(self.lines) > 1:
            raise ValueError(f"{self.name}: {len(self.lines)} objects; give one")
        return json.loads(self.lines[0])

    def numbered_lines(self) -> Iterator[tuple[int, bytes]]:
        """With their numbers from 1 on, as those of a file."""
        for number, line in enumerate(self.lines, start=1):
            yield number, line.encode()


def place_of_line(given: object, number: int) -> str:
    """``plans.jsonl, line 3`` of a file, ``given[2]`` of objects."""
    if isinstance(given, GivenObjects):
        return f"{given}[{number - 1}]"
    return f"{given}, line {number}"


def _line(place: str, value: Any) -> str:
    if isinstance(value, str):
        if len(value.splitlines()) > 1:
            raise ValueError(f"{place} has several lines; give an object for each")
        return value
    try:
        return json.dumps(value.to_json() if hasattr(value, "to_json") else value)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{place}: {error}; expected what JSON can hold") from error
