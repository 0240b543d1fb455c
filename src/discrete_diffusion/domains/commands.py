"""``Option``, ``SubCommand``: keys and commands that a kind of data adds to the command line."""

from __future__ import annotations

import re
from argparse import Action, ArgumentError, ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from discrete_diffusion.config import values
from discrete_diffusion.config.constructors import check_share
from discrete_diffusion.config.plugins import Registry
from discrete_diffusion.runtime.atomic_files import claimed_file, claimed_folder
from discrete_diffusion.runtime.inputs import GivenObjects


@dataclass(frozen=True)
class Option:
    """A key of a command, its default and its ``meaning`` in a line. Null is always allowed.

    Values:
        least, most: bounds of a whole number.
        share: a number between 0 and 1.
        words, registry: the allowed values, or the registry whose names are allowed.
        listed: a list of whole numbers is allowed too, as in ``num_rooms=[5,6]``.
        is_file: the name of a file that is read, so that no output may replace it, or objects.

    Use:
        with_given: allowed only with ``given=FILE``, where it replaces the key ``instead_of``.
        without_given: the reason why it is refused with ``given=FILE``.
        written: says what is written with the samples.
        is_size: says how large every fresh sample is.
        of_files: ``evaluate samples=FILE`` takes the option too.
        reading: says how files are read, and is refused if no file is read.
    """

    name: str
    meaning: str
    default: Any = None
    least: int | None = None
    most: int | None = None
    share: bool = False
    words: tuple[Any, ...] = ()
    registry: Registry[Any] | None = None
    listed: bool = False
    is_file: bool = False
    with_given: bool = False
    instead_of: str = ""
    without_given: str = ""
    written: bool = False
    is_size: bool = False
    of_files: bool = False
    reading: bool = False

    def check(self, value: Any, key: str | None = None) -> None:
        """Raise ``ValueError`` naming the ``key``, by default the option's name, for a value that
        is not allowed."""
        # null always passes
        if value is None:
            return
        key = key or self.name
        # types count: true is not 1
        if self.words and (type(value), value) not in [(type(word), word) for word in self.words]:
            known = ", ".join(str(word).lower() for word in self.words)
            raise ValueError(f"{key}={value}: expected one of {known}")
        if self.registry is not None:
            values.check_name(self.registry.noun, value, self.registry.names())
        if self.share:
            check_share(key, value)
        # one file or its objects
        if self.is_file and not isinstance(value, str | int | GivenObjects):
            raise ValueError(
                f"{key}={value}: expected one file; put the lines of several into one, or "
                "run the command for each"
            )
        if self.least is not None:
            several = self.listed and value and values.are_whole_numbers(value)
            for number in value if several else [value]:
                values.check_whole_number(key, number, least=self.least, most=self.most)


# option of evaluate, for kinds of data that measured_data reads
DATA = Option(
    "data",
    "data.path=FILE: the model on other data, all of the file; other keys replace those of the "
    "checkpoint's data, as in data.split=[0,0,1]; what is fitted on training data stays as it was",
    default={},
)

# options of evaluate, for kinds of data whose samples have distances and floors
SEEDS = Option("num_seeds", "sampling seeds seed, seed + 1, ...; null is 5", least=1)
REFERENCE_REPEATS = Option(
    "reference_repeats",
    "pairs of real sets that the floors are the mean of; null is 20, 0 leaves them out",
    least=0,
    of_files=True,
)

# options of evaluate, for kinds of data whose models of tokens measure_model measures
TIME_BINS = Option(
    "time_bins",
    "of the bound by time, with a noise sample in each per held-out sample; null is 20",
    least=1,
)
LIKELIHOOD = Option(
    "likelihood_order",
    "-log p under the sampler that reveals tokens by entropy, margin, top_probability, "
    "most-uncertain, left-to-right or [a,list,of,positions]; of a student, plan; see "
    "docs/measure.md; null leaves it out",
)
ORDERS = Option(
    "num_orders",
    "orders of the tokens, of whose mean likelihood -log is a tighter bound; null leaves it out",
    least=1,
)


def completions(meaning: str) -> Option:
    """Option of ``sample`` for the number of completions of each given sample."""
    return Option("num_completions", meaning, least=1, with_given=True, instead_of="num_samples")


_NUMBERS: dict[Any, str] = {int: "a whole number", float: "a number"}

_UNITS = {"M2": ", in square metres", "M": ", in metres", "DEG": ", in degrees"}
"""Units of numbers, by the name of the value in ``--help``."""


@dataclass(frozen=True)
class SubCommand:
    """A sub-command of ``discrete-diffusion data``; the docstring of ``run`` is its help.

    ``usage``: its arguments and its purpose, in a line. ``run``: the work, given the parsed
    options, and ``load``, which opens a checkpoint as ``discrete_diffusion.load`` does.
    ``writes_file``, ``writes_folder``: the option that names the file or folder it writes, locked
    while it runs.
    """

    usage: str
    add_options: Callable[[ArgumentParser], None]
    run: Callable[[Namespace], None]
    writes_file: str = ""
    writes_folder: str = ""

    def run_words(self, name: str, words: Sequence[str], load: Callable[..., Any]) -> None:
        """Run the sub-command called ``name``, such as ``data convert``, with its outputs locked.

        ``words``: of the command line; ``key=value`` is the same as ``--key value``. Raises
        ``ValueError`` for a word that the command does not have, and for a value of the wrong kind.
        """
        parser = _Parser(
            prog=f"discrete-diffusion {name}", description=self.run.__doc__, allow_abbrev=False
        )
        self.add_options(parser)
        known = set(re.findall(r"--[a-z-]+", parser.format_help()))
        _refuse_unknown(name, parser, words, known)
        # keys as flags
        switches = {flag for a in parser._actions if a.nargs == 0 for flag in a.option_strings}
        flags = [each for word in words for each in _as_flags(word, known, switches)]
        options, unknown = parser.parse_known_args(flags)
        for argument in unknown:
            if argument.startswith("-"):
                raise ValueError(values.unknown_name(f"option of {name}", argument, known))
            raise ValueError(f"'{argument}' is one argument too many; see {parser.prog} --help")
        options.load = load
        # no other command may write the same file or folder
        lock: AbstractContextManager[Any] = nullcontext()
        if self.writes_folder:
            lock = claimed_folder("out", Path(getattr(options, self.writes_folder)))
        elif self.writes_file:
            lock = claimed_file("OUT", Path(getattr(options, self.writes_file)))
        with lock:
            self.run(options)


class _Parser(ArgumentParser):
    """Parser that raises ``ValueError``, like every other user error."""

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
    """Raise ``ValueError`` for a key that the sub-command does not have.

    A word such as ``epoch=3.jsonl`` is a file if it exists, or if the sub-command takes as many
    names as there are words.
    """
    keys = {word: re.match("([a-z_]+)=", word) for word in words}
    strange = {w: k[1] for w, k in keys.items() if k is not None and _flag(k[1]) not in known}
    given = [word for word, key in keys.items() if word in strange or key is None]
    # names that the sub-command takes, and those that may be names
    names = [each for each in parser._actions if not each.option_strings and each.nargs is None]
    if len([word for word in given if not word.startswith("-")]) == len(names):
        strange = {word: key for word, key in strange.items() if not Path(word).suffix}
    for word, key in strange.items():
        if not Path(word).exists():
            expected = {each.removeprefix("--").replace("-", "_") for each in known}
            raise ValueError(values.unknown_name(f"option of {name}", key, expected))


def _flag(key: str) -> str:
    return f"--{key.replace('_', '-')}"


def _as_flags(word: str, known: set[str], switches: set[str]) -> list[str]:
    """Convert ``out=DIR`` to ``--out=DIR``, ``overwrite=true`` to ``--overwrite``, false to
    nothing.

    Raises ``ValueError`` for a switch that is neither true nor false.
    """
    key, equals, value = word.removeprefix("--").partition("=")
    flag = _flag(key)
    if not equals or flag not in known:
        return [word]
    # a switch has no value of its own
    if not value:
        raise ValueError(f"{word} is empty: give a value, or leave the key out")
    if flag not in switches:
        return [f"{flag}={value}"]
    if value not in ("true", "false"):
        raise ValueError(f"{key}={value}: expected true or false")
    return [flag] if value == "true" else []
