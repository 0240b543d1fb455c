"""The words of a command line: which are overrides of the config, which are flags of Hydra's."""

from __future__ import annotations

import os
from collections.abc import Sequence

_FLAGS_WITH_VALUES = (
    *("--config-dir", "-cd", "--config-path", "-cp", "--config-name", "-cn"),
    *("--package", "-p", "--cfg", "-c", "--info", "-i"),
)

_LONG_FLAGS = (
    *("--help", "--hydra-help", "--version", "--cfg", "--resolve", "--package", "--run"),
    *("--multirun", "--shell-completion", "--config-path", "--config-name", "--config-dir"),
    *("--experimental-rerun", "--info"),
)


def sort_out(command: str, arguments: Sequence[str]) -> tuple[list[str], list[str], str | None]:
    """Overrides (``key=value``, ``~key``), Hydra's own flags, and the value of ``--config-dir``.

    Hydra wants all overrides side by side; here they may stand anywhere.
    """
    overrides: list[str] = []
    flags: list[str] = []
    for argument in arguments:
        if name := _dashed_key(argument):
            raise ValueError(f"{argument}: keys have no dashes; write {name}=...")
        if argument == "-m" or (argument[2:] and "--multirun".startswith(argument)):
            flags.append("--multirun")  # which may be written shorter
        elif argument.startswith("-") or (flags and flags[-1] in _FLAGS_WITH_VALUES):
            flags.append(argument)
        elif "=" in argument or argument.startswith("~"):
            overrides.append(argument)
        else:
            raise ValueError(_neither(command, argument, arguments))
    user_dir = None
    for flag, value in zip([*flags, ""], [*flags[1:], "", ""], strict=False):
        if flag in ("--config-dir", "-cd"):
            user_dir = value
        elif flag.startswith("--config-dir="):
            user_dir = flag.removeprefix("--config-dir=")
    if user_dir is not None and not os.path.isdir(user_dir):
        raise ValueError(f"--config-dir {user_dir}: there is no such folder")
    return overrides, flags, user_dir


def _dashed_key(argument: str) -> str | None:
    """The key that ``--key`` or ``--key=value`` means; None for a flag of Hydra's, or its start."""
    flag = argument.partition("=")[0]
    if not flag.startswith("--") or any(known.startswith(flag) for known in _LONG_FLAGS):
        return None
    return flag.lstrip("-").replace("-", "_")


def _neither(command: str, argument: str, arguments: Sequence[str]) -> str:
    """Error for a word that is neither ``key=value`` nor a flag."""
    problem = f"'{argument}' is neither key=value nor a flag"
    before = arguments[: list(arguments).index(argument)]
    if "=" in arguments or (before and before[-1].count("[") > before[-1].count("]")):
        return f"{problem}; leave no spaces inside key=value, or quote all of it"
    if command in ("sample", "evaluate", "export") and os.path.exists(argument):
        return f"{problem}; did you mean checkpoint={argument}?"
    return f"{problem}; see discrete-diffusion {command} --help"
