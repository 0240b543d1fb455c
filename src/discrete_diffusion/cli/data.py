"""``discrete-diffusion data``: the sub-commands of every kind of data, and the cache."""

from __future__ import annotations

import argparse
import inspect
import re
from contextlib import AbstractContextManager, nullcontext
from itertools import chain
from pathlib import Path
from typing import Any, NoReturn

from discrete_diffusion.config.naming import unknown_name
from discrete_diffusion.config.plugins import refuse_taken
from discrete_diffusion.domains.registry import available_domains, get_domain
from discrete_diffusion.domains.sub_command import SubCommand
from discrete_diffusion.runtime.atomic_files import claimed_file, claimed_folder

_NUMBERS: dict[Any, str] = {int: "a whole number", float: "a number"}

_UNITS = {"M2": ", in square metres", "M": ", in metres", "DEG": ", in degrees"}
"""Units of numbers, by the name that ``--help`` has for the value."""


class _Parser(argparse.ArgumentParser):
    """Reports errors as ``ValueError``, so that they end like every other user error."""

    def error(self, message: str) -> NoReturn:
        raise ValueError(f"{message}; see {self.prog} --help")

    def _get_value(self, action: argparse.Action, arg_string: str) -> Any:
        try:
            return super()._get_value(action, arg_string)
        except argparse.ArgumentError as error:
            if action.type not in _NUMBERS:
                raise
            expected = _NUMBERS[action.type] + _UNITS.get(str(action.metavar), "")
            raise ValueError(f"{action.dest}={arg_string}: expected {expected}") from error

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            raise ValueError(
                f"{action.dest}={value}: expected {' or '.join(map(str, action.choices))}"
            )


def kinds_with_commands() -> list[str]:
    """Data sets whose kind of data has sub-commands, ``discrete-diffusion plans check FILE``, and
    further words of ``Domain.commands``."""
    domains = [get_domain(name) for name in available_domains()]
    names = {name for each in domains if "data" in each.commands for name in each.data_sets}
    return sorted(names.union(*(each.commands for each in domains)) - {"data"})


def run(arguments: list[str], kind: str = "data") -> None:
    """Run a sub-command with its command-line arguments: of every kind of data, or of one of
    ``kinds_with_commands``. ``key=value`` is the same as ``--key value``.

    Raises ``ValueError`` or ``OSError`` for what a user can mend; ``SystemExit(1)`` if ``check``
    found something invalid.
    """
    commands = _commands(kind)
    if "" in commands:
        _run_one(kind, commands[""], arguments)
        return
    name = arguments[0] if arguments else "--help"
    if name in ("--help", "-h", "help"):
        print(_help(commands, kind), end="")
        return
    if name not in commands:
        raise ValueError(unknown_name(f"{kind} command", name, commands))
    _run_one(f"{kind} {name}", commands[name], arguments[1:])


def _run_one(name: str, command: SubCommand, arguments: list[str]) -> None:
    """``name``: what is typed for it."""
    parser = _Parser(
        prog=f"discrete-diffusion {name}",
        description=command.run.__doc__,
        allow_abbrev=False,
    )
    command.add_options(parser)
    known = set(re.findall(r"--[a-z-]+", parser.format_help()))
    _refuse_unknown(name, parser, arguments, known)
    switches = {flag for a in parser._actions if a.nargs == 0 for flag in a.option_strings}
    words = [each for word in arguments for each in _as_flags(word, known, switches)]
    options, unknown = parser.parse_known_args(words)
    for argument in unknown:
        if argument.startswith("-"):
            raise ValueError(unknown_name(f"option of {name}", argument, known))
        raise ValueError(f"'{argument}' is one argument too many; see {parser.prog} --help")
    options.load = _load
    with _claimed(command, options):
        command.run(options)


def _refuse_unknown(
    name: str, parser: argparse.ArgumentParser, arguments: list[str], known: set[str]
) -> None:
    """``ValueError`` for a key that the sub-command does not have. ``epoch=3.jsonl`` is a name if
    it is there, or if the sub-command takes as many names as there are."""
    keys = {word: re.match("([a-z_]+)=", word) for word in arguments}
    strange = {w: k[1] for w, k in keys.items() if k is not None and _flag(k[1]) not in known}
    given = [word for word, key in keys.items() if word in strange or key is None]
    wanted = [each for each in parser._actions if not each.option_strings and each.nargs is None]
    if len([word for word in given if not word.startswith("-")]) == len(wanted):
        strange = {word: key for word, key in strange.items() if not Path(word).suffix}
    for word, key in strange.items():
        if not Path(word).exists():
            names = {each.removeprefix("--").replace("-", "_") for each in known}
            raise ValueError(unknown_name(f"option of {name}", key, names))


def _claimed(command: SubCommand, options: argparse.Namespace) -> AbstractContextManager[None]:
    """Outputs of the sub-command, locked."""
    if command.writes_folder:
        return claimed_folder("out", Path(getattr(options, command.writes_folder)))
    if command.writes_file:
        return claimed_file("OUT", Path(getattr(options, command.writes_file)))
    return nullcontext()


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


def _commands(kind: str) -> dict[str, SubCommand]:
    domains = [get_domain(name) for name in available_domains()]
    if kind != "data":
        own = (each.commands[kind] for each in domains if kind in each.commands)
        of_data = (each.commands["data"] for each in domains if kind in each.data_sets)
        return dict(next(chain(own, of_data)))
    cache = SubCommand("[--clear]   where generated data is kept", _options, _cache)
    every: dict[str, SubCommand] = {}
    for domain in domains:
        for name, command in domain.commands.get("data", {}).items():
            known = every.get(name, cache if name == "cache" else None)
            refuse_taken("data command", name, known and known.run, command.run)
            every[name] = command
    return every | {"cache": cache}


def _help(commands: dict[str, SubCommand], kind: str) -> str:
    own = any(kind in get_domain(name).commands for name in available_domains())
    about = "" if own and kind != "data" else ": look at data, convert it, build on it."
    lines = [f"discrete-diffusion {kind}{about}", ""]
    lines += [f"  discrete-diffusion {kind} {name} {each.usage}" for name, each in commands.items()]
    modules = dict.fromkeys(inspect.getmodule(each.run) for each in commands.values())
    for module in modules:
        _, _, more = (inspect.getdoc(module) or "").partition("\n")
        if more.strip():
            lines += ["", more.strip()]
    lines += ["", f"  discrete-diffusion {kind} COMMAND --help    the options of a command", ""]
    return "\n".join(lines)


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--clear", action="store_true", help="delete the cached data")


def _cache(options: argparse.Namespace) -> None:
    """Show the generated data that is kept on disk, or delete it."""
    from discrete_diffusion.data.cache import CACHE_VARIABLE, cache_dir, cached_files, clear_cache

    sizes = {file: file.stat().st_size / 1e6 for file in cached_files()}
    print(f"{cache_dir()} (set {CACHE_VARIABLE} to move it)")
    cleared = clear_cache() if options.clear else []
    for file, size in sizes.items():
        print(f"  {'deleted ' if file in cleared else ''}{file.name}  {size:.1f} MB")
    verb = "deleted" if options.clear else "cached"
    files = "1 file" if len(sizes) == 1 else f"{len(sizes)} files"
    print(f"{files}, {sum(sizes.values()):.1f} MB {verb}")


def _load(path: str, **options: Any) -> object:
    """``load``, whose module imports torch."""
    from discrete_diffusion.api.loading import load

    return load(path, **options)
