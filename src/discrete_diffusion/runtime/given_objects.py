"""``GivenObjects``: Python objects in the place of a file that a request names."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, is_dataclass
from functools import cached_property
from typing import Any


@dataclass(frozen=True)
class GivenObjects:
    """The ``objects`` in the order in which a file would hold them.

    ``name``: of the request's option, such as ``given``; errors say ``given[2]`` for the third.
    """

    name: str
    objects: tuple[Any, ...]

    @classmethod
    def of(cls, name: str, value: Any) -> GivenObjects:
        """Take one object or several: JSON objects, dataclasses, objects with ``to_json``, text of
        a line.

        Raises ``TypeError`` for anything else, and ``ValueError`` for none at all and for text of
        several lines.
        """
        alone = isinstance(value, Mapping) or is_dataclass(value) or hasattr(value, "to_json")
        if not alone and not isinstance(value, Iterable):
            raise TypeError(f"{name}={value}: expected a file, an object or a list of objects")
        objects = (value,) if alone else tuple(value)
        if not objects:
            raise ValueError(f"{name}=[]: give at least one object")
        for k, each in enumerate(objects):
            if isinstance(each, str) and len(each.splitlines()) > 1:
                raise ValueError(f"{name}[{k}] has several lines; give an object for each")
        return cls(name, objects)

    def __str__(self) -> str:
        return self.name

    @cached_property
    def lines(self) -> tuple[str, ...]:
        """One for each object. Raises ``TypeError`` naming an object that JSON cannot hold."""
        return tuple(_line(f"{self.name}[{k}]", each) for k, each in enumerate(self.objects))

    @property
    def text(self) -> str:
        """Content of a file with these lines."""
        return "".join(f"{line}\n" for line in self.lines)

    def one_object(self) -> Any:
        """JSON value of the one line that there is; ``ValueError`` if there are several."""
        if len(self.objects) > 1:
            raise ValueError(f"{self.name}: {len(self.objects)} objects; give one")
        return json.loads(self.lines[0])

    def numbered_lines(self) -> Iterator[tuple[int, bytes]]:
        """Lines with their numbers from 1 on, as those of a file."""
        for number, line in enumerate(self.lines, start=1):
            yield number, line.encode()


def place_of_line(given: object, number: int) -> str:
    """``plans.jsonl, line 3`` of a file, ``given[2]`` of objects."""
    if isinstance(given, GivenObjects):
        return f"{given}[{number - 1}]"
    return f"{given}, line {number}"


def _line(place: str, value: Any) -> str:
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value.to_json() if hasattr(value, "to_json") else value)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{place}: {error}; expected what JSON can hold") from error
