"""``discrete-diffusion data``: the sub-commands of every kind of data, and the cache."""

from __future__ import annotations

import argparse
import inspect
import re
from typing import NoReturn

from discrete_diffusion.domains import available_domains, get_domain
from discrete_diffusion.domains.domain import SubCommand
from discrete_diffusion.naming import unknown_name
from discrete_diffusion.plugins import refuse_taken


class _Parser(argparse.ArgumentParser):
    """Reports errors as ``ValueError``, so that they end like every other user error."""

    def error(self, message: str) -> NoReturn:
        raise ValueError(f"{message}; see {self.prog} --help")


def run(arguments: list[str]) -> None:
    """Run a sub-command with its command-line arguments.

    Raises ``ValueError`` or ``OSError`` for what a user can mend; ``SystemExit(1)`` if ``check``
    found something invalid.
    """
    name, commands = arguments[0] if arguments else "--help", _commands()
    if name in ("--help", "-h", "help"):
        print(_help(commands), end="")
        return
    if name not in commands:
        raise ValueError(unknown_name("data command", name, commands))
    command = commands[name]
    parser = _Parser(
        prog=f"discrete-diffusion data {name}",
        description=command.run.__doc__,
        allow_abbrev=False,
    )
    command.add_options(parser)
    words = ["--overwrite" if word == "overwrite=true" else word for word in arguments[1:]]
    options, unknown = parser.parse_known_args(words)
    for argument in unknown:
        if argument.startswith("-"):
            known = re.findall(r"--[a-z-]+", parser.format_help())
            raise ValueError(unknown_name(f"option of data {name}", argument, set(known)))
        raise ValueError(f"'{argument}' is one argument too many; see {parser.prog} --help")
    command.run(options)


def _commands() -> dict[str, SubCommand]:
    cache = SubCommand("[--clear]   where generated data is kept", _options, _cache)
    found: dict[str, SubCommand] = {}
    for domain in available_domains():
        for name, command in get_domain(domain).commands().items():
            known = found.get(name, cache if name == "cache" else None)
            refuse_taken("data command", name, known and known.run, command.run)
            found[name] = command
    return found | {"cache": cache}


def _help(commands: dict[str, SubCommand]) -> str:
    lines = ["discrete-diffusion data: look at data before training on it.", ""]
    lines += [f"  discrete-diffusion data {name} {each.usage}" for name, each in commands.items()]
    modules = dict.fromkeys(inspect.getmodule(each.run) for each in commands.values())
    for module in modules:
        _, _, more = (inspect.getdoc(module) or "").partition("\n")
        if more.strip():
            lines += ["", more.strip()]
    lines += ["", "  discrete-diffusion data COMMAND --help    the options of a command", ""]
    return "\n".join(lines)


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--clear", action="store_true", help="delete the cached data")


def _cache(options: argparse.Namespace) -> None:
    """Show the generated data that is kept on disk, or delete it."""
    from discrete_diffusion.data.cache import (
        CACHE_VARIABLE,
        cache_dir,
        cached_files,
        clear_cache,
    )

    sizes = {file: file.stat().st_size / 1e6 for file in cached_files()}
    print(f"{cache_dir()} (set {CACHE_VARIABLE} to move it)")
    cleared = clear_cache() if options.clear else []
    for file, size in sizes.items():
        print(f"  {'deleted ' if file in cleared else ''}{file.name}  {size:.1f} MB")
    verb = "deleted" if options.clear else "cached"
    files = "1 file" if len(sizes) == 1 else f"{len(sizes)} files"
    print(f"{files}, {sum(sizes.values()):.1f} MB {verb}")
