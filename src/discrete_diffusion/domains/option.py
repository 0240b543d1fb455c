"""``Option``: a key of a command that one kind of data has a use for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from discrete_diffusion.config.values import (
    are_whole_numbers,
    check_name,
    check_share,
    check_whole_number,
)
from discrete_diffusion.runtime.inputs import GivenObjects

if TYPE_CHECKING:
    from discrete_diffusion.config.plugins import Registry


@dataclass(frozen=True)
class Option:
    """A key of a command, its default and its ``meaning`` in a line.

    ``least``, with it ``most``: bounds of a whole number; ``share``: a number between 0 and 1. Null
    always passes.

    ``words``: all that it may be; ``registry``: or whose names it may be.

    ``listed``: a list of such whole numbers is taken too, as in ``num_rooms=[5,6]``.

    ``is_file``: names one file that is read, so that no output may take its place; or objects.
    ``with_given``: means nothing without ``given=FILE``; ``instead_of`` names the key whose place
    it takes then. ``without_given``: why it means nothing with ``given=FILE``.
    ``written``: says what is written beside the samples, nothing where none is.
    ``is_size``: says how large every fresh sample is.
    ``of_files``: means something for ``evaluate samples=FILE`` too. ``reading``: says how files are
    read, and means nothing where none is.
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
        """``ValueError`` naming the key, the name unless it is given, for a value out of its
        bounds."""
        if value is None:
            return
        key = key or self.name
        if self.words and (type(value), value) not in [(type(word), word) for word in self.words]:
            known = ", ".join(str(word).lower() for word in self.words)
            raise ValueError(f"{key}={value}: expected one of {known}")
        if self.registry is not None:
            check_name(self.registry.noun, value, self.registry.names())
        if self.share:
            check_share(key, value)
        if self.is_file and not isinstance(value, str | int | GivenObjects):
            raise ValueError(
                f"{key}={value}: expected one file; put the lines of several into one, or "
                "run the command for each"
            )
        if self.least is not None:
            for number in value if self.listed and value and are_whole_numbers(value) else [value]:
                check_whole_number(key, number, least=self.least, most=self.most)


DATA = Option(
    "data",
    "data.path=FILE: the model on other data, all of the file; other keys replace those of the "
    "checkpoint's data, as in data.split=[0,0,1]; what is fitted on training data stays as it was",
    default={},
)
"""Options of ``evaluate``, for kinds of data that ``measured_data`` reads."""

SEEDS = Option("seeds", "sampling seeds seed, seed + 1, ...; null is 5", least=1)
FLOOR_DRAWS = Option(
    "floor_draws",
    "pairs of real sets that the floors are the mean of; null is 20, 0 leaves them out",
    least=0,
    of_files=True,
)
"""Options of ``evaluate``, for kinds of data whose samples have distances and floors."""

TIME_BINS = Option(
    "time_bins",
    "of the bound by time, with a noise sample in each per held-out sample; null is 20",
    least=1,
)
LIKELIHOOD = Option(
    "likelihood",
    "-log p under the sampler that reveals tokens by entropy, margin, max-probability, "
    "most-uncertain, left-to-right or [a,list,of,positions]; of a student, plan; see "
    "docs/likelihood.md; null leaves it out",
)

ORDERS = Option(
    "orders",
    "orders of the tokens, of whose mean likelihood -log is a tighter bound; null leaves it out",
    least=1,
)
"""Options of ``evaluate``, for kinds of data whose models of tokens ``measure_model`` measures."""


def completions(meaning: str) -> Option:
    """Option of ``sample``, for kinds of data that complete what is given: how many of each."""
    return Option("completions", meaning, least=1, with_given=True, instead_of="num_samples")
