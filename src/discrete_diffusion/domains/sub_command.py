"""``SubCommand``: a command of one kind of data."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from dataclasses import dataclass


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
