"""The commands ``list``, ``data``, ``new`` and ``export``."""

from __future__ import annotations

import argparse
import inspect
import keyword
import logging
from collections.abc import Collection, Sequence
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from discrete_diffusion.composing.parts import import_named
from discrete_diffusion.config.files import shipped_files
from discrete_diffusion.config.plugins import LazyEntry, refuse_taken
from discrete_diffusion.config.values import check_name, counted, unknown_name
from discrete_diffusion.domains.commands import SubCommand
from discrete_diffusion.domains.registry import available_domains, get_domain
from discrete_diffusion.hub import boxed_model, check_model
from discrete_diffusion.models.registry import available_backbones
from discrete_diffusion.runtime import progress
from discrete_diffusion.runtime.atomic_files import atomic_folder, claimed_file, write_text

if TYPE_CHECKING:
    from omegaconf import DictConfig


LOAD = LazyEntry("discrete_diffusion.api.loading:load")

_HELP_OF_LIST = """\
discrete-diffusion list                        backbones, algorithms, samplers, data; what fits what
discrete-diffusion list algorithms             one table: data, backbones, algorithms, processes,
                                               schedules, samplers, optimisers, loggers, experiments
discrete-diffusion list plugins=[my_module]    the same, with those of your own modules
"""

_HELP_OF_NEW = """\
discrete-diffusion new my_project    a package with a backbone, its sizes and its tests
"""


def run_without_config(command: str, words: Sequence[str], others: Collection[str]) -> None:
    """Run ``list``, ``new``, ``data``, or a command of a kind of data such as ``plans``.

    ``others``: names of other commands, for the message. Raises ``ValueError`` or ``OSError``, and
    ``SystemExit(1)`` if ``check`` of ``data`` found something invalid."""
    helps = {"list": _HELP_OF_LIST, "new": _HELP_OF_NEW}
    if command in helps and {"--help", "-h", "--hydra-help"} & {*words}:
        print(helps[command], end="")
        return
    if command in ("list", "data"):
        named = [word for word in words if word.startswith("plugins=")]
        import_named(named)
        words = [word for word in words if word not in named]
    domains = [get_domain(name) for name in available_domains()]
    if command == "list":
        from discrete_diffusion.cli.listing import print_listing

        if len(words) > 1 or "=" in "".join(words):
            raise ValueError(
                f"list {' '.join(words)}: expected plugins=[my_package.module], and one kind of "
                "parts such as algorithms"
            )
        print_listing(*words)
    elif command == "new":
        _run_new(words)
    elif command == "data" or any(
        command in each.commands or ("data" in each.commands and command in each.data_sets)
        for each in domains
    ):
        _run_data(words, command)
    else:
        added = [line.split()[0] for each in domains for line in each.command_help]
        known = {*others, "data", "list", "new", *added}
        raise ValueError(unknown_name("command", command, known))


def _run_data(arguments: Sequence[str], kind: str) -> None:
    """Run a sub-command of ``data`` or of a kind of data; ``key=value`` is ``--key value``."""
    commands = _sub_commands(kind)
    # a kind of data whose name is the command itself
    if "" in commands:
        commands[""].run_words(kind, arguments, LOAD)
        return
    name = arguments[0] if arguments else "--help"
    if name in ("--help", "-h", "help"):
        print(_help_of_data(commands, kind), end="")
        return
    if name not in commands:
        raise ValueError(unknown_name(f"{kind} command", name, commands))
    commands[name].run_words(f"{kind} {name}", arguments[1:], LOAD)


def _sub_commands(kind: str) -> dict[str, SubCommand]:
    """Sub-commands of ``data`` or of a kind of data, by name."""
    domains = [get_domain(name) for name in available_domains()]
    # sub-commands of one kind of data
    if kind != "data":
        own = (each.commands[kind] for each in domains if kind in each.commands)
        of_data = (each.commands["data"] for each in domains if kind in each.data_sets)
        return dict(next(chain(own, of_data)))
    # sub-commands of all kinds, each name once
    cache = SubCommand("[--clear]   where generated data is kept", _add_clear, _list_cache)
    every: dict[str, SubCommand] = {}
    for domain in domains:
        for name, command in domain.commands.get("data", {}).items():
            known = every.get(name, cache if name == "cache" else None)
            refuse_taken("data command", name, known and known.run, command.run)
            every[name] = command
    return every | {"cache": cache}


def _help_of_data(commands: dict[str, SubCommand], kind: str) -> str:
    own = any(kind in get_domain(name).commands for name in available_domains())
    about = "" if own and kind != "data" else ": look at data, convert it, build on it."
    lines = [f"discrete-diffusion {kind}{about}", ""]
    # commands of one kind of data together, under its title
    titles: dict[str, str] = {}
    if kind == "data":
        for domain in map(get_domain, available_domains()):
            titles |= dict.fromkeys(domain.commands.get(kind, {}), domain.title)
        titles["cache"] = "the cache"
    last = ""
    for name in sorted(commands, key=lambda name: (name == "cache", titles.get(name, ""))):
        title = titles.get(name, "")
        lines += [""] * bool(last) + [f"{title}:"] if title != last else []
        lines.append(f"  discrete-diffusion {kind} {name} {commands[name].usage}")
        last = title
    # paragraphs on FILE in the docstrings of the commands' modules
    modules = dict.fromkeys(inspect.getmodule(each.run) for each in commands.values())
    for module in modules:
        paragraphs = (inspect.getdoc(module) or "").split("\n\n")
        lines += [line for each in paragraphs if each.startswith("FILE ") for line in ("", each)]
    lines += ["", f"  discrete-diffusion {kind} COMMAND --help    the options of a command", ""]
    return "\n".join(lines)


def _add_clear(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--clear", action="store_true", help="delete the cached data")


def _list_cache(options: argparse.Namespace) -> None:
    """List the cached data files, or delete them."""
    from discrete_diffusion.data.files import CACHE_VARIABLE, cache_dir, cached_files, clear_cache

    # sizes before the files are deleted
    sizes = {file: file.stat().st_size / 1e6 for file in cached_files()}
    print(f"{cache_dir()} (set {CACHE_VARIABLE} to move it)")
    cleared = clear_cache() if options.clear else []
    for file, size in sizes.items():
        print(f"  {'deleted ' if file in cleared else ''}{file.name}  {size:.1f} MB")
    verb = "deleted" if options.clear else "cached"
    print(f"{counted(len(sizes), 'file')}, {sum(sizes.values()):.1f} MB {verb}")


_TEMPLATE = Path(__file__).resolve().parents[1] / "template"
_NAME = "my_project"


def _run_new(arguments: Sequence[str]) -> None:
    """Create the package ``arguments[0]`` in a folder; ``ValueError`` for a taken name."""
    if len(arguments) != 1:
        raise ValueError("new takes one name, as in: discrete-diffusion new my_project")
    # the name must be a Python identifier that is not taken
    name = arguments[0]
    if not (name.isidentifier() and name.isascii() and name[0] != "_") or keyword.iskeyword(name):
        raise ValueError(f"new {name}: expected letters, digits and _, as in my_project")
    folder = Path(name)
    if folder.exists():
        raise ValueError(f"new {name}: {folder.absolute()} exists; choose another name")
    if find_spec(name) is not None:
        raise ValueError(f"new {name}: a package of that name is installed; choose another name")
    if name in available_backbones() or name in shipped_files("model"):
        raise ValueError(
            f"new {name}: a backbone or a model= of that name is there; choose another name"
        )
    # copy the template under the new name
    with claimed_file("new", folder), atomic_folder(folder) as unfinished:
        for path in sorted(_TEMPLATE.rglob("*")):
            if path.is_file() and path.suffix != ".pyc":
                to = unfinished / str(path.relative_to(_TEMPLATE)).replace(_NAME, name)
                write_text(to, path.read_text(encoding="utf-8").replace(_NAME, name))
    print(f"{name}/ has a backbone, its sizes and its tests; next:\n")
    print(f"  cd {name}\n  pip install -e .\n  pytest")
    train = f"algo.backbone={name} trainer.max_steps=500 out=runs/first"
    print(f"  discrete-diffusion train --config-dir configs {train}")
    compared = f"algos=[mdlm] backbones=[{name},bd-denoiser] trainer.max_steps=500"
    print(f"  discrete-diffusion compare {compared} --config-dir configs")
    print("\n--config-dir has the sizes, in configs/model")


logger = logging.getLogger(__name__)

FORMATS = {"onnx": "network.onnx", "mdlm": "mdlm.ckpt"}
"""Default file name of each export format."""


def run(config: DictConfig) -> None:
    """Export the network of ``config.checkpoint`` to the file ``config.out``."""
    check_values(config)
    out = Path(str(config.out or FORMATS[str(config.format)]))
    if config.checkpoint is None:
        config.checkpoint = boxed_model()
    with claimed_file("out", out):
        _write_export(config, out)


def check_values(config: DictConfig) -> None:
    """Raise ``ValueError`` or ``FileNotFoundError`` for errors that the config alone shows."""
    check_name("format", str(config.format), FORMATS)
    if config.checkpoint is not None:
        check_model("checkpoint", config.checkpoint)


def _write_export(config: DictConfig, out: Path) -> None:
    # an existing file stays, unless asked
    if out.exists() and not config.overwrite:
        raise ValueError(f"out={out} exists; give overwrite=true to replace it, or another name")
    from discrete_diffusion.checkpoints.contents import read_checkpoint
    from discrete_diffusion.checkpoints.original_format import export_original
    from discrete_diffusion.checkpoints.sharing import export_onnx

    found = read_checkpoint(str(config.checkpoint), ema=config.ema)
    with progress.task("exporting the network"):
        if config.format == "mdlm":
            what = export_original(found.algorithm, found.info["config"], out, step=found.step)
        else:
            gap = export_onnx(found.algorithm, found.info["vocabulary"], out)
            what = f"forward(x_t, sigma) -> logits, within {gap:.0e} of this network's"
    logger.info("%s: %.1f MB; %s", out, out.stat().st_size / 1e6, what)
