"""The command ``discrete-diffusion``: calls the sub-commands, and prints their errors."""

from __future__ import annotations

import logging
import os
import re
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discrete_diffusion.cli.process_setup import (
    command_line,
    drop_unread_output,
    end_stopped,
    end_unread,
    keep_freed_memory,
    let_threads_sleep,
    raise_stop_on_signals,
)
from discrete_diffusion.runtime.atomic_files import ensured_folder
from discrete_diffusion.runtime.processes import CommandSignals, Stop, is_first, rank
from discrete_diffusion.runtime.progress import shown

if TYPE_CHECKING:
    from omegaconf import DictConfig

logger = logging.getLogger(__name__)

COMMANDS = {
    **{name: name for name in ("train", "sample", "evaluate", "compare")},
    "export": "other_commands",
}
"""Modules of ``cli`` with the function ``run`` of each sub-command that takes a config."""

_PATIENCE = 2.0
"""Seconds that processes of rank > 0 wait before they print an error.

Rank 0 prints its error first, and the launcher then ends the other processes."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command; user errors end with one sentence and exit status 1."""
    own = arguments is None
    let_threads_sleep()
    if own:
        keep_freed_memory()
        raise_stop_on_signals()
        drop_unread_output()
    _guarded(_dispatch, list(sys.argv[1:] if arguments is None else arguments), own)
    end_unread()


def _dispatch(arguments: list[str], of_this_program: bool) -> None:
    """Run the sub-command. ``of_this_program``: True if the arguments are those of ``sys.argv``."""
    command, *words = arguments or ["--help"]
    if command in ("--help", "-h", "help"):
        from discrete_diffusion.cli.help import general_help

        print(general_help(), end="")
    elif command == "--version":
        from discrete_diffusion.runtime.package import __version__

        print(__version__)
    elif arguments == ["compare"]:
        raise ValueError(
            "compare trains a model per algorithm, backbone and seed: say which, as in "
            "compare algos=[mdlm,udlm] seeds=[0,1]"
        )
    elif command in COMMANDS:
        _run(command, words, of_this_program)
    elif "=" in command or command.startswith("-"):
        _run("train", arguments, of_this_program)
    else:
        from discrete_diffusion.cli.other_commands import run_without_config

        with shown(partial(print, file=sys.stderr, flush=True)):
            run_without_config(command, words, COMMANDS)


def _run(command: str, arguments: list[str], of_this_program: bool) -> None:
    """Run a command by Hydra, which composes the config and calls the command with it."""
    from hydra.core.hydra_config import HydraConfig

    from discrete_diffusion.cli import run_folders
    from discrete_diffusion.cli.process_setup import defer_torchmetrics
    from discrete_diffusion.composing.parts import offer_options
    from discrete_diffusion.composing.search_path import checked_dir

    # typed overrides, completed by defaults that depend on them
    overrides, flags, parsed = sort_arguments(command, arguments)
    sweeps, user_dir = parsed.multirun, checked_dir(parsed.config_dir)
    completed = _completed(command, overrides, parsed, user_dir)
    if completed is None:
        return
    overrides, note = completed
    offer_options(command)
    # the folder of the run, the same for all its processes
    folder, asks = None, parsed.hydra_help or parsed.cfg or parsed.info
    if (sweeps or command == "compare") and not asks:
        run_folders.check_launcher(overrides)
    if command == "train" and not asks:
        folder, named = run_folders.run_folder(overrides, user_dir, sweeps=sweeps)
        overrides = [*overrides, *named]
    # all jobs of a sweep are checked before the first one runs
    defer_torchmetrics()
    module = f"discrete_diffusion.cli.{COMMANDS[command]}"
    jobs = run_folders.jobs_of(command, overrides, user_dir) if sweeps else None
    sweep = run_folders.Sweep(None if jobs is None else len(jobs))
    if jobs and not asks:
        with shown(partial(print, file=sys.stderr, flush=True)):
            run_folders.check_jobs(command, jobs, user_dir, import_module(module).check_values)

    def task(config: DictConfig) -> None:
        number = HydraConfig.get().job.num + 1 if sweeps else None
        with (
            command_line([command, *arguments], of_this_program=of_this_program),
            shown(logger.info, bar=not sweeps) if is_first() else nullcontext(),
            nullcontext() if number is None else sweep.job(number),
            CommandSignals(),
        ):
            if note and is_first():
                logger.info("%s", note)
            # errors end here, or Hydra would print a trace
            _guarded(_run_composed, command, module, config, sweeps, user_dir, job=number)

    of_folder = run_folders.swept if sweeps else ensured_folder
    with (
        nullcontext() if folder is None else of_folder(folder),
        # signals reach jobs in other processes too
        CommandSignals() if sweeps else nullcontext(),
    ):
        _through_hydra(command, [*overrides, *flags], task)
    sweep.end()


def _run_composed(
    command: str, module: str, config: DictConfig, sweeps: bool, user_dir: Path | None
) -> None:
    """Run a command with its config, composed again for a job of a sweep or a resumed run."""
    from hydra.core.hydra_config import HydraConfig

    from discrete_diffusion.composing.compose import compose

    # a job, or a resumed run, may have another backbone than the command's words
    if sweeps or config.get("resume") is not None:
        config = compose(command, HydraConfig.get().overrides.task, user_config_dir=user_dir)
    import_module(module).run(config)


def _completed(
    command: str, overrides: list[str], parsed: Namespace, user_dir: Path | None
) -> tuple[list[str], str] | None:
    """Return the overrides with defaults that depend on them, and a note; None after ``--help``."""
    from hydra.errors import HydraException

    from discrete_diffusion.composing.compose import (
        completed_config,
        hydra_words,
        offer_parts_of_jobs,
    )

    files, overrides, note = hydra_words(command, overrides, user_dir, sweeps=parsed.multirun)
    if command == "compare":
        from discrete_diffusion.cli.compare import read_words

        if parsed.multirun:
            raise ValueError(
                "compare runs its cells itself: leave --multirun out, and choose how they run with "
                "hydra/launcher="
            )
        overrides = read_words(overrides)
    try:
        if parsed.help:
            from discrete_diffusion.cli.help import print_help

            print_help(command, overrides, user_dir)
            return None
        # jobs of a sweep may have different backbones
        if parsed.multirun:
            offer_parts_of_jobs(command, overrides, user_dir)
        elif not parsed.hydra_help:
            _, overrides = completed_config(command, overrides, user_dir, files)
    except (HydraException, ValueError) as error:
        from discrete_diffusion.cli.errors import explain_hydra_error

        raise ValueError(explain_hydra_error(error, command, overrides, user_dir)) from error
    return overrides, note


def _through_hydra(command: str, words: Sequence[str], task: Callable[[DictConfig], None]) -> None:
    """Call ``task`` with the config that Hydra composes from the words of a command."""
    import hydra

    from discrete_diffusion.config.files import config_dir

    own_arguments = sys.argv
    sys.argv = [own_arguments[0], *words]
    try:
        program = hydra.main(version_base="1.3", config_path=str(config_dir()), config_name=command)
        program(task)()
    finally:
        sys.argv = own_arguments


def _guarded(function: Callable[..., Any], *arguments: Any, job: int | None = None) -> None:
    """Call a function, and end the process with one sentence for an error that a user can mend."""
    try:
        function(*arguments)
        sys.stdout.flush()
    except Stop as stop:
        end_stopped(stop)
    except KeyboardInterrupt:
        if rank() == 0:
            print("discrete-diffusion: stopped", file=sys.stderr)
        raise SystemExit(130) from None
    except Exception as error:
        from discrete_diffusion.cli.errors import sentence  # slow

        text = sentence(error)
        if os.environ.get("HYDRA_FULL_ERROR") == "1" or text is None:
            raise
        where = ""
        if (number := rank()) > 0:
            time.sleep(_PATIENCE)
            where = f"process {number}: "
        where += "" if job is None else f"job {job}: "
        print(f"discrete-diffusion: {where}{text}", file=sys.stderr)
        raise SystemExit(1) from None


# --- words of the command line ---


def sort_arguments(
    command: str, arguments: Sequence[str]
) -> tuple[list[str], list[str], Namespace]:
    """Sort the arguments into overrides (``key=value``, ``~key``) and flags of Hydra.

    Returns also the values of the flags. Raises ``ValueError`` for a word that is neither.
    """
    from hydra._internal.utils import get_args_parser

    # --key=value is a slip, unless it begins a flag of Hydra
    parser = get_args_parser()
    for argument in arguments:
        flag = argument.partition("=")[0]
        is_known = any(known.startswith(flag) for known in parser._option_string_actions)
        if flag.startswith("--") and not is_known:
            key = flag.lstrip("-").replace("-", "_")
            raise ValueError(f"{argument}: keys have no dashes; write {key}=...")
    parsed = parser.parse_intermixed_args(arguments)
    for word in parsed.overrides:
        if "=" not in word and not word.startswith("~"):
            problem = f"'{word}' is neither key=value nor a flag"
            before = arguments[: list(arguments).index(word)]
            if "=" in arguments or (before and before[-1].count("[") > before[-1].count("]")):
                raise ValueError(f"{problem}; leave no spaces inside key=value, or quote all of it")
            if command in ("sample", "evaluate", "export") and os.path.exists(word):
                raise ValueError(f"{problem}; did you mean checkpoint={word}?")
            raise ValueError(f"{problem}; see discrete-diffusion {command} --help")
    if parsed.config_dir is not None and not os.path.isdir(parsed.config_dir):
        raise ValueError(f"--config-dir {parsed.config_dir}: no such folder")
    flags = [argument for argument in arguments if argument not in parsed.overrides]
    if command != "train":
        return parsed.overrides, flags, parsed
    # out= of train is Hydra's folder
    key = f"hydra.{'sweep' if parsed.multirun else 'run'}.dir="
    if {"out=", key} <= {word.partition("=")[0] + "=" for word in parsed.overrides}:
        raise ValueError(f"out= and {key} are one setting; give one of them")
    words = (re.sub("^out=", key, word) for word in parsed.overrides)
    return [*words], flags, parsed
