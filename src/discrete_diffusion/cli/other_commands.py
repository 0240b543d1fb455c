"""The commands ``data``, ``new`` and ``export``."""

from __future__ import annotations

import argparse
import inspect
import keyword
import logging
from collections.abc import Sequence
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

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


def kinds_with_commands() -> list[str]:
    """Names of the commands that kinds of data define.

    They are data sets with sub-commands (``discrete-diffusion plans check FILE``), and further
    commands of ``Domain.commands``."""
    domains = [get_domain(name) for name in available_domains()]
    names = {name for each in domains if "data" in each.commands for name in each.data_sets}
    return sorted(names.union(*(each.commands for each in domains)) - {"data"})


def run_data(arguments: list[str], kind: str = "data") -> None:
    """Run a sub-command of ``data``, or of one of ``kinds_with_commands``.

    ``key=value`` among the arguments is the same as ``--key value``.

    Raises ``ValueError`` or ``OSError`` for errors that a user can mend; ``SystemExit(1)`` if
    ``check`` found something invalid.
    """
    commands = _commands(kind)
    # a kind of data whose name is the command itself
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
    """Sub-commands of ``data`` or of a kind of data, by name."""
    domains = [get_domain(name) for name in available_domains()]
    # sub-commands of one kind of data
    if kind != "data":
        own = (each.commands[kind] for each in domains if kind in each.commands)
        of_data = (each.commands["data"] for each in domains if kind in each.data_sets)
        return dict(next(chain(own, of_data)))
    # sub-commands of all kinds, each name once
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


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--clear", action="store_true", help="delete the cached data")


def _cache(options: argparse.Namespace) -> None:
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


HELP_OF_NEW = """\
discrete-diffusion new my_project    a package with a backbone, its sizes and its tests
"""

_TEMPLATE = Path(__file__).resolve().parents[1] / "template"
_NAME = "my_project"


def run_new(arguments: Sequence[str]) -> None:
    """Create a new project, the package ``arguments[0]`` in a folder of that name.

    Prints the next steps. Raises ``ValueError`` for a name that is not a Python identifier or is
    taken, and for an existing folder.
    """
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
        _export(config, out)


def check_values(config: DictConfig) -> None:
    """Raise ``ValueError`` or ``FileNotFoundError`` for errors that the config alone shows."""
    check_name("format", str(config.format), FORMATS)
    if config.checkpoint is not None:
        check_model("checkpoint", config.checkpoint)


def _export(config: DictConfig, out: Path) -> None:
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
