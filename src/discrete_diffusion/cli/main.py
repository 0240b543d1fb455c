"""The command ``discrete-diffusion``: calls the sub-commands, and prints their errors."""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from discrete_diffusion.cli.process_setup import (
    command_line,
    drop_unread_output,
    end_stopped,
    end_unread,
    let_threads_sleep,
    raise_stop_on_signals,
)
from discrete_diffusion.runtime.atomic_files import ensured_folder
from discrete_diffusion.runtime.processes import CommandSignals, Stop, is_first, rank
from discrete_diffusion.runtime.progress import shown

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from discrete_diffusion.composing.search_path import Places

logger = logging.getLogger(__name__)

COMMANDS = {
    **{name: name for name in ("train", "sample", "evaluate", "compare")},
    "export": "other_commands",
}
"""Modules of ``cli`` with the function ``run`` of each sub-command that takes a config."""

_HELP_OF_LIST = """\
discrete-diffusion list                        backbones, algorithms, samplers, data; what fits what
discrete-diffusion list algorithms             one table: data, backbones, algorithms, processes,
                                               schedules, samplers, optimisers, loggers, experiments
discrete-diffusion list plugins=[my_module]    the same, with those of your own modules
"""

_HELP_FLAGS = ("--help", "-h", "--hydra-help")
_ASKING = (*_HELP_FLAGS, "--cfg", "-c", "--info", "-i")
"""Flags with which a command only prints information."""

_FLAGS_WITH_VALUES = (
    *("--config-dir", "-cd", "--config-path", "-cp", "--config-name", "-cn"),
    *("--package", "-p", "--cfg", "-c", "--info", "-i"),
)

_LONG_FLAGS = (
    *("--help", "--hydra-help", "--version", "--cfg", "--resolve", "--package", "--run"),
    *("--multirun", "--shell-completion", "--config-path", "--config-name", "--config-dir"),
    *("--experimental-rerun", "--info"),
)

_PATIENCE = 2.0
"""Seconds that processes of rank > 0 wait before they print an error.

Rank 0 prints its error first, and the launcher then ends the other processes."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command; user errors end with one sentence and exit status 1."""
    own = arguments is None
    let_threads_sleep()
    if own:
        raise_stop_on_signals()
        drop_unread_output()
    _guarded(_dispatch, list(sys.argv[1:] if arguments is None else arguments), own)
    end_unread()


def _dispatch(arguments: list[str], of_this_program: bool) -> None:
    """Run the sub-command. ``of_this_program``: True if the arguments are those of ``sys.argv``."""
    command, *words = arguments or ["--help"]
    asks_help = bool({*_HELP_FLAGS} & {*words})
    if command in ("--help", "-h", "help"):
        from discrete_diffusion.cli.help import general_help

        print(general_help(), end="")
    elif command == "--version":
        from discrete_diffusion.runtime.package import __version__

        print(__version__)
    elif command == "list":
        if asks_help:
            print(_HELP_OF_LIST, end="")
            return
        from discrete_diffusion.cli.listing import print_listing

        named = [word for word in words if word.startswith("plugins=")]
        kinds = [word for word in words if word not in named]
        if len(kinds) > 1 or "=" in "".join(kinds):
            raise ValueError(
                f"list {' '.join(words)}: expected plugins=[my_package.module], and one kind of "
                "parts such as algorithms"
            )
        _import_named(named)
        print_listing(*kinds)
    elif command == "new":
        from discrete_diffusion.cli.other_commands import HELP_OF_NEW, run_new

        if asks_help:
            print(HELP_OF_NEW, end="")
        else:
            run_new(words)
    elif command == "data":
        _run_data(words)
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
        from discrete_diffusion.cli.other_commands import kinds_with_commands

        if command not in kinds_with_commands():
            from discrete_diffusion.cli.help import commands_of_domains
            from discrete_diffusion.config.values import unknown_name

            known = [*COMMANDS, "data", "list", "new", *commands_of_domains()]
            raise ValueError(unknown_name("command", command, known))
        _run_data(words, command)


def _run_data(arguments: list[str], kind: str = "data") -> None:
    """Run a sub-command of ``data``, or of a kind of data such as ``plans``."""
    from discrete_diffusion.cli.other_commands import run_data

    if named := [word for word in arguments if kind == "data" and word.startswith("plugins=")]:
        _import_named(named)
        arguments = [word for word in arguments if word not in named]
    with shown(partial(print, file=sys.stderr, flush=True)):
        run_data(arguments, kind)


def _import_named(words: Sequence[str]) -> None:
    """Import the modules of ``plugins=[...]`` in the words of ``list`` and ``data``."""
    from discrete_diffusion.composing.parts import import_named

    import_named(words)


def _run(command: str, arguments: list[str], of_this_program: bool) -> None:
    """Run a command by Hydra, which composes the config and calls the command with it."""
    from hydra.core.hydra_config import HydraConfig

    from discrete_diffusion.cli import run_folders
    from discrete_diffusion.cli.process_setup import defer_torchmetrics
    from discrete_diffusion.composing.parts import offer_options
    from discrete_diffusion.composing.search_path import places_of

    # typed overrides, completed by defaults that depend on them
    overrides, flags, user_dir = sort_out(command, arguments)
    sweeps = "--multirun" in flags
    places = places_of(overrides, user_dir)
    completed = _completed(command, overrides, flags, places)
    if completed is None:
        return
    overrides, note = completed
    offer_options(command)
    # the folder of the run, the same for all its processes
    folder, asks = None, bool({*_ASKING} & set(flags))
    if (sweeps or command == "compare") and not asks:
        run_folders.check_launcher(overrides)
    if command == "train" and not asks:
        folder, named = run_folders.run_folder(overrides, places, sweeps=sweeps)
        overrides = [*overrides, *named]
    # all jobs of a sweep are checked before the first one runs
    defer_torchmetrics()
    run = partial(_run_composed, command, sweeps=sweeps, user_dir=user_dir)
    jobs = run_folders.jobs_of(command, overrides, places) if sweeps else None
    num_jobs, failed = None if jobs is None else len(jobs), run_folders.FailedJobs()
    if jobs and not asks:
        with shown(partial(print, file=sys.stderr, flush=True)):
            module = import_module(f"discrete_diffusion.cli.{COMMANDS[command]}")
            run_folders.check_jobs(command, jobs, places, module.check_values)

    def task(config: DictConfig) -> None:
        with (
            command_line([command, *arguments], of_this_program=of_this_program),
            shown(logger.info, bar=not sweeps) if is_first() else nullcontext(),
            run_folders.job_of_sweep(HydraConfig.get().job.num, num_jobs)
            if sweeps
            else nullcontext(),
            CommandSignals(),
        ):
            if note and is_first():
                logger.info("%s", note)
            job = HydraConfig.get().job.num + 1 if sweeps else None
            with nullcontext() if job is None else failed.noted(job):
                # errors end here, or Hydra would print a trace
                _guarded(run, config, job=job)

    with (
        nullcontext()
        if folder is None
        else (run_folders.swept if sweeps else ensured_folder)(folder),
        # signals reach jobs in other processes too
        CommandSignals() if sweeps else nullcontext(),
    ):
        _through_hydra(command, [*overrides, *flags], task)
    failed.end(num_jobs)


def _run_composed(command: str, config: DictConfig, *, sweeps: bool, user_dir: str | None) -> None:
    """Run a command with its config, composed again for a job of a sweep or a resumed run."""
    from hydra.core.hydra_config import HydraConfig

    from discrete_diffusion.composing.compose import compose

    # a job, or a resumed run, may have another backbone than the command's words
    if sweeps or config.get("resume") is not None:
        config = compose(command, HydraConfig.get().overrides.task, user_config_dir=user_dir)
    import_module(f"discrete_diffusion.cli.{COMMANDS[command]}").run(config)


def _completed(
    command: str, overrides: list[str], flags: Sequence[str], places: Places
) -> tuple[list[str], str] | None:
    """Complete typed overrides by defaults that depend on them.

    Returns the overrides and a note for the log; if a flag asks for help, prints it and returns
    None.

    Raises ``ValueError`` for overrides that cannot be composed.
    """
    from hydra.errors import HydraException

    from discrete_diffusion.composing.compose import completed, offer_parts_of_jobs, with_open_keys
    from discrete_diffusion.composing.parts import with_algorithm
    from discrete_diffusion.composing.search_path import folders_among, paths_as_typed
    from discrete_diffusion.config.files import check_own_files

    sweeps, note = "--multirun" in flags, ""
    # check the user's files, then rewrite words as Hydra takes them
    files = check_own_files(command, overrides, folders_among(places))
    overrides = with_open_keys(command, paths_as_typed(overrides, sweeps=sweeps))
    if command == "train" and not sweeps:
        overrides, note = with_algorithm(overrides, places)
    if command == "compare":
        from discrete_diffusion.cli.compare_request import read_words

        overrides = read_words(overrides, flags)
    try:
        if {"-h", "--help"} & set(flags):
            from discrete_diffusion.cli.help import print_help

            print_help(command, overrides, places)
            return None
        # jobs of a sweep may have different backbones
        if sweeps:
            offer_parts_of_jobs(command, overrides, places)
        elif "--hydra-help" not in flags:
            _, overrides = completed(command, overrides, places, files)
    except (HydraException, ValueError) as error:
        from discrete_diffusion.cli.errors import explain

        raise ValueError(explain(error, command, overrides, places)) from error
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
    """Call a function, and end the process with one sentence for an error that a user can mend.

    HYDRA_FULL_ERROR=1 shows the trace. ``job``: number of the job in a sweep."""
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


def sort_out(command: str, arguments: Sequence[str]) -> tuple[list[str], list[str], str | None]:
    """Sort the arguments into overrides (``key=value``, ``~key``), Hydra's flags, and the value of
    ``--config-dir``."""
    # flags may be followed by values
    overrides: list[str] = []
    flags: list[str] = []
    for argument in arguments:
        if name := _dashed_key(argument):
            raise ValueError(f"{argument}: keys have no dashes; write {name}=...")
        if argument == "-m" or (argument[2:] and "--multirun".startswith(argument)):
            # the flag may be shortened
            flags.append("--multirun")
        elif argument.startswith("-") or (flags and flags[-1] in _FLAGS_WITH_VALUES):
            flags.append(argument)
        elif "=" in argument or argument.startswith("~"):
            overrides.append(argument)
        else:
            raise ValueError(_stray_word(command, argument, arguments))
    # the folder of --config-dir, as one word or two
    user_dir = None
    for flag, value in zip([*flags, ""], [*flags[1:], "", ""], strict=False):
        if flag in ("--config-dir", "-cd"):
            user_dir = value
        elif flag.startswith("--config-dir="):
            user_dir = flag.removeprefix("--config-dir=")
    if user_dir is not None and not os.path.isdir(user_dir):
        raise ValueError(f"--config-dir {user_dir}: no such folder")
    if command == "train":
        overrides = _with_run_dir(overrides, "sweep" if "--multirun" in flags else "run")
    return overrides, flags, user_dir


def _with_run_dir(overrides: Sequence[str], mode: str) -> list[str]:
    """Replace ``out=FOLDER`` of ``train`` by ``hydra.run.dir=FOLDER``, or ``hydra.sweep.dir``.

    Raises ``ValueError`` if both are given."""
    key = f"hydra.{mode}.dir="
    named = {word.partition("=")[0] + "=" for word in overrides}
    if {"out=", key} <= named:
        raise ValueError(f"out= and {key} are one setting; give one of them")
    return [word.replace("out=", key, 1) if word.startswith("out=") else word for word in overrides]


def _dashed_key(argument: str) -> str | None:
    """Return the key meant by ``--key`` or ``--key=value``; None for a flag of Hydra's, also
    abbreviated."""
    flag = argument.partition("=")[0]
    if not flag.startswith("--") or any(known.startswith(flag) for known in _LONG_FLAGS):
        return None
    return flag.lstrip("-").replace("-", "_")


def _stray_word(command: str, argument: str, arguments: Sequence[str]) -> str:
    """Return the message for a word that is neither ``key=value`` nor a flag."""
    problem = f"'{argument}' is neither key=value nor a flag"
    before = arguments[: list(arguments).index(argument)]
    if "=" in arguments or (before and before[-1].count("[") > before[-1].count("]")):
        return f"{problem}; leave no spaces inside key=value, or quote all of it"
    if command in ("sample", "evaluate", "export") and os.path.exists(argument):
        return f"{problem}; did you mean checkpoint={argument}?"
    return f"{problem}; see discrete-diffusion {command} --help"
