"""``discrete-diffusion data``: the sub-commands of every kind of data, and the cache."""

from __future__ import annotations

import argparse
import inspect
from itertools import chain

from discrete_diffusion.config.naming import counted, unknown_name
from discrete_diffusion.config.plugins import LazyEntry, refuse_taken
from discrete_diffusion.domains.registry import available_domains, get_domain
from discrete_diffusion.domains.sub_command import SubCommand

LOAD = LazyEntry("discrete_diffusion.api.loading:load")


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
        commands[""].run_words(kind, arguments, LOAD)
        return
    name = arguments[0] if arguments else "--help"
    if name in ("--help", "-h", "help"):
        print(_help(commands, kind), end="")
        return
    if name not in commands:
        raise ValueError(unknown_name(f"{kind} command", name, commands))
    commands[name].run_words(f"{kind} {name}", arguments[1:], LOAD)


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
    print(f"{counted(len(sizes), 'file')}, {sum(sizes.values()):.1f} MB {verb}")
