"""``SubCommand``: a command of one kind of data."""

from __future__ import annotations

import re
from argparse import Action, ArgumentError, ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from discrete_diffusion.config.values import unknown_name
from discrete_diffusion.runtime.atomic_files import claimed_file, claimed_folder

_NUMBERS: dict[Any, str] = {int: "a whole number", float: "a number"}

_UNITS = {"M2": ", in square metres", "M": ", in metres", "DEG": ", in degrees"}
"""Units of numbers, by the name that ``--help`` has for the value."""


@dataclass(frozen=True)
class SubCommand:
    """A sub-command of ``discrete-diffusion data``; the docstring of ``run`` is its help.

    Args:
        usage: its arguments and what it does, a line.
        add_options: adds options to its parser.
        run: does the work, with what was parsed, and ``load``, which opens a checkpoint as
            ``discrete_diffusion.load`` does.
        writes_file: the option that names the file it writes, which no other command writes then.
        writes_folder: the option that names the folder it writes, likewise.
    """

    usage: str
    add_options: Callable[[ArgumentParser], None]
    run: Callable[[Namespace], None]
    writes_file: str = ""
    writes_folder: str = ""

    def run_words(self, name: str, words: Sequence[str], load: Callable[..., Any]) -> None:
        """Run it with words of the command line, its outputs locked.

        Args:
            name: what is typed for it, ``data convert``.
            words: ``key=value`` is the same as ``--key value``.
            load: ``discrete_diffusion.load``.

        Raises:
            ValueError: a word is not of the command, or its value is of the wrong kind.
        """
        parser = _Parser(
            prog=f"discrete-diffusion {name}", description=self.run.__doc__, allow_abbrev=False
        )
        self.add_options(parser)
        known = set(re.findall(r"--[a-z-]+", parser.format_help()))
        _refuse_unknown(name, parser, words, known)
        switches = {flag for a in parser._actions if a.nargs == 0 for flag in a.option_strings}
        flags = [each for word in words for each in _as_flags(word, known, switches)]
        options, unknown = parser.parse_known_args(flags)
        for argument in unknown:
            if argument.startswith("-"):
                raise ValueError(unknown_name(f"option of {name}", argument, known))
            raise ValueError(f"'{argument}' is one argument too many; see {parser.prog} --help")
        options.load = load
        with self._claimed(options):
            self.run(options)

    def _claimed(self, options: Namespace) -> AbstractContextManager[None]:
        if self.writes_folder:
            return claimed_folder("out", Path(getattr(options, self.writes_folder)))
        if self.writes_file:
            return claimed_file("OUT", Path(getattr(options, self.writes_file)))
        return nullcontext()


class _Parser(ArgumentParser):
    """Reports errors as ``ValueError``, so that they end like every other user error."""

    def error(self, message: str) -> NoReturn:
        raise ValueError(f"{message}; see {self.prog} --help")

    def _get_value(self, action: Action, arg_string: str) -> Any:
        try:
            return super()._get_value(action, arg_string)
        except ArgumentError as error:
            if action.type not in _NUMBERS:
                raise
            expected = _NUMBERS[action.type] + _UNITS.get(str(action.metavar), "")
            raise ValueError(f"{action.dest}={arg_string}: expected {expected}") from error

    def _check_value(self, action: Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            raise ValueError(
                f"{action.dest}={value}: expected {' or '.join(map(str, action.choices))}"
            )


def _refuse_unknown(
    name: str, parser: ArgumentParser, words: Sequence[str], known: set[str]
) -> None:
    """``ValueError`` for a key that the sub-command does not have. ``epoch=3.jsonl`` is a name if
    it is there, or if the sub-command takes as many names as there are."""
    keys = {word: re.match("([a-z_]+)=", word) for word in words}
    strange = {w: k[1] for w, k in keys.items() if k is not None and _flag(k[1]) not in known}
    given = [word for word, key in keys.items() if word in strange or key is None]
    wanted = [each for each in parser._actions if not each.option_strings and each.nargs is None]
    if len([word for word in given if not word.startswith("-")]) == len(wanted):
        strange = {word: key for word, key in strange.items() if not Path(word).suffix}
    for word, key in strange.items():
        if not Path(word).exists():
            names = {each.removeprefix("--").replace("-", "_") for each in known}
            raise ValueError(unknown_name(f"option of {name}", key, names))


def _flag(key: str) -> str:
    return f"--{key.replace('_', '-')}"


def _as_flags(word: str, known: set[str], switches: set[str]) -> list[str]:
    """``--out=DIR`` for ``out=DIR``, ``--overwrite`` for ``overwrite=true``, nothing for false.

    Raises ``ValueError`` for a switch that is neither true nor false.
    """
    key, equals, value = word.removeprefix("--").partition("=")
    flag = _flag(key)
    if not equals or flag not in known:
        return [word]
    if not value:
        raise ValueError(f"{word} is empty: give a value, or leave the key out")
    if flag not in switches:
        return [f"{flag}={value}"]
    if value not in ("true", "false"):
        raise ValueError(f"{key}={value}: expected true or false")
    return [flag] if value == "true" else []
