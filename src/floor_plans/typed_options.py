"""Options of a command as attributes of a class."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Sequence
from inspect import get_annotations
from typing import Any, get_args


def option(text: str, default: Any = None, *, choices: Sequence[str] = ()) -> Any:
    """Option of a command. ``text``: its meaning, after the name of its value and a colon, unless
    it is a switch or has ``choices``."""
    return {"text": text, "default": default, "choices": choices or None}


def argument(text: str, **more: Any) -> Any:
    """Argument of a command without a name; ``more``: as of ``ArgumentParser.add_argument``."""
    metavar, _, meaning = text.partition(": ")
    return {"metavar": metavar, "help": meaning or None, **more}


def add_options(parser: ArgumentParser, options: type) -> None:
    """Add the attributes of a class to a parser, those of its bases last: ``num_rooms: int`` as
    ``--num-rooms``, a bool as a switch, an option without None that has no default as required."""
    for part in options.__mro__[:-1]:
        for name, annotation in get_annotations(part, eval_str=True).items():
            made, kind = vars(part)[name], (get_args(annotation) or (annotation,))[0]
            if "text" not in made:
                parser.add_argument(name, **made)
                continue
            flag, text, default = f"--{name.replace('_', '-')}", made["text"], made["default"]
            if kind is bool:
                parser.add_argument(flag, action="store_true", help=text)
                continue
            # the name of the value, and its default
            metavar, _, meaning = (None, "", text) if made["choices"] else text.partition(": ")
            shown = "" if default in (None, "") else " (default: %(default)s)"
            parser.add_argument(
                flag,
                type=kind,
                default=default,
                required=default is None and not get_args(annotation),
                choices=made["choices"],
                metavar=metavar,
                help=meaning + shown,
            )
