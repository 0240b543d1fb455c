"""Help texts: the commands; for each command its config groups, choices, keys and comments."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discrete_diffusion.cli.train import KEYS
from discrete_diffusion.composing.compose import compose_plainly
from discrete_diffusion.composing.parts import PART_GROUPS, all_choices, registry_of
from discrete_diffusion.composing.search_path import group_overrides
from discrete_diffusion.config.constructors import leaves, signature_of
from discrete_diffusion.config.files import config_dir, config_dirs, plain
from discrete_diffusion.config.values import Bounds, Limit
from discrete_diffusion.domains.registry import (
    DEFAULT,
    WITH_CHECKPOINT,
    available_domains,
    get_domain,
    options_by_title,
)

if TYPE_CHECKING:
    from omegaconf import DictConfig
    from rich.table import Table


_NO_SETTINGS = (
    *("name", "domain", "backbones", "parameters", "counted_at", "counted_with", "scales_with"),
)
"""Keys of a YAML that describe its group and are not settings."""

_FILES = {"compare": ("train", "compare")}
"""Commands whose keys are in several YAML files, with the names of the files."""

_LEAST_WIDTH, _MOST_WIDTH = 80, 120

_AUTO = "(auto)"
"""Text for the default null in the tables; the user types null for it."""

_FLAGS = """\
  --cfg job            print the composed config, run nothing
  --config-dir FOLDER  your own YAML files, one folder per group
  --hydra-help         the flags of Hydra, such as --multirun for sweeps

  (auto) is typed null
"""


def print_help(command: str, overrides: Sequence[str], user_dir: Path | None = None) -> None:
    """Print the groups and keys of a command, with the choices in its ``overrides``."""
    from rich.console import Console

    # a console as wide as the terminal, within limits
    width = min(max(shutil.get_terminal_size((_MOST_WIDTH, 0)).columns, _LEAST_WIDTH), _MOST_WIDTH)
    console = Console(highlight=False, markup=False, width=width)
    files = [config_dir() / f"{name}.yaml" for name in _FILES.get(command, (command,))]
    console.print(yaml_header(files[-1].read_text()) + "\n")
    # the config with the choices of groups
    words = group_overrides(overrides, user_dir)
    words += [word for word in overrides if word.startswith("plugins=")]
    config = compose_plainly(command, words, user_dir, with_hydra=True)
    chosen = {
        group: choice
        for group, choice in sorted(config.hydra.runtime.choices.items())
        if "/" not in group
    }
    # groups, and the comments of the chosen YAMLs
    table = _table_with_title("Groups, each with its choices")
    meanings: dict[str, str] = {}
    for file in files:
        meanings |= yaml_comments(file.read_text())
    for group, choice in chosen.items():
        names = ", ".join(all_choices(group, user_dir))
        table.add_row(f"{group}={choice or ''}", names)
        if choice is not None:
            meanings |= _comments_of_choice(group, choice, user_dir)
    console.print(table, "")
    # keys of all kinds of data, then those of one
    options = options_by_title(command) if command in WITH_CHECKPOINT else {}
    if command in ("train", "compare"):
        options = {f"eval.{name}": each for name, each in options_by_title("train").items()}
    table, bounds = _table_with_title("Keys, each with its default"), dict(_bounds_of_keys(config))
    for key, value in leaves(plain(config, resolve=False), empty=True):
        section, _, name = key.rpartition(".")
        of_group = section in chosen and name in _NO_SETTINGS
        if not (of_group or key.startswith(("hydra.", "logger.")) or key in options):
            table.add_row(*_row_of_key(key, value, meanings.get(key, ""), bounds.get(key, "")))
    console.print(table, "")
    for title in dict.fromkeys(title for by_title in options.values() for title in by_title):
        table = _table_with_title(f"Keys for {title} alone")
        for key, by_title in options.items():
            if option := by_title.get(title):
                table.add_row(*_row_of_key(key, option.default, option.meaning))
        console.print(table, "")
    console.print(_FLAGS, end="")


def _row_of_key(key: str, value: Any, meaning: str, bounds: str = "") -> tuple[str, str]:
    """Format a key with its default, null as ``(auto)`` if it means that, and its meaning."""
    shown = _format_value(value)
    if value is None:
        meaning, explained = re.subn(
            r"\bnull( is|:)?(?= |$)", lambda found: _AUTO + ":" * bool(found[1]), meaning
        )
        shown = _AUTO if explained else ""
    return f"{key}={shown}", " ".join(filter(None, (meaning, bounds)))


def _bounds_of_keys(config: DictConfig) -> Iterator[tuple[str, str]]:
    """Yield the keys of numbers with a text of their bounds."""
    # annotations of keys, and of settings of the chosen parts
    annotations = {**KEYS}
    for group in PART_GROUPS:
        if name := (config.get(group) or {}).get("name"):
            signature = signature_of(registry_of(group).entry(name))
            annotations |= {f"{group}.{key}": each.annotation for key, each in signature.items()}
    for key, annotation in annotations.items():
        limit = Limit.of(annotation)
        if limit is not None and limit.bounds != Bounds():
            yield key, f"({limit.text})"


def yaml_header(text: str) -> str:
    """First comment of a YAML as one paragraph."""
    lines = []
    for line in text.splitlines():
        if not line.startswith("#"):
            break
        if not line.startswith("# @package"):
            lines.append(line.removeprefix("#").strip())
    return " ".join(lines)


def yaml_comments(text: str) -> dict[str, str]:
    """Comments of a YAML by dotted key; comment lines after a key belong to it."""
    found: dict[str, str] = {}
    path: list[tuple[int, str]] = []
    last = None
    for line in text.splitlines():
        # a key, with the path to it
        if match := re.match(r"( *)([\w-]+):(?: (.*))?$", line):
            indent, name, rest = len(match[1]), match[2], match[3] or ""
            path = [*(each for each in path if each[0] < indent), (indent, name)]
            last = ".".join(part for _, part in path)
            _, hash_sign, comment = f" {rest}".partition(" #")
            if hash_sign:
                found[last] = comment.strip()
        elif last in found and line.lstrip().startswith("#"):
            found[last] += " " + line.lstrip(" #")
        else:
            last = None
    return found


def _comments_of_choice(group: str, choice: str, user_dir: Path | None) -> dict[str, str]:
    """Comments of a YAML of a group and of those among its ``defaults``, by full key."""
    from omegaconf import OmegaConf

    # every file of that name on the search path
    folders = [*config_dirs(), *([] if user_dir is None else [user_dir])]
    found: dict[str, str] = {}
    for path in (folder / group / f"{choice}.yaml" for folder in folders):
        if path.is_file():
            for base in plain(OmegaConf.load(path)).get("defaults", ()):
                if isinstance(base, str) and base != "_self_":
                    found |= _comments_of_choice(group, base, user_dir)
            text = path.read_text()
            inside = "" if text.startswith("# @package _global_") else f"{group}."
            found |= {f"{inside}{key}": comment for key, comment in yaml_comments(text).items()}
    return found


def _format_value(value: Any) -> str:
    """Format a value for the command line."""
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    if isinstance(value, list):
        return f"[{','.join(map(_format_value, value))}]"
    if isinstance(value, dict):
        return "{" + ",".join(f"{key}:{_format_value(each)}" for key, each in value.items()) + "}"
    return str(value)


def _table_with_title(title: str) -> Table:
    from rich.table import Table

    table = Table(
        title=title, title_justify="left", title_style="bold", box=None, show_header=False
    )
    table.add_column(no_wrap=True)
    table.add_column()
    return table


_HELP = """\
discrete-diffusion: train and sample discrete diffusion models.

  discrete-diffusion train   [key=value ...]   train a model; no arguments: the defaults
  discrete-diffusion sample  checkpoint=RUN    sample from the model of a run folder or .ckpt file;
                                               without checkpoint from the model in the box
  discrete-diffusion sample  checkpoint=RUN given=FILE   complete what is given in part
  discrete-diffusion evaluate checkpoint=RUN | samples=FILE   measure samples and model
  discrete-diffusion compare algos=[mdlm,udlm] seeds=[0,1]   train and measure them side by side
  discrete-diffusion export  checkpoint=RUN format=onnx | mdlm   the network, for other code
  discrete-diffusion data    describe | check | convert | tokenize | ...   plans, text, the cache
{commands}\
  discrete-diffusion new     NAME              a package of your own, with a backbone and its tests
  discrete-diffusion list    [algorithms ...]  backbones, algorithms, samplers, data; what fits what

Train a denoiser with MDLM, then sample it:

  discrete-diffusion train {data}out=runs/first trainer.max_steps=3000
  discrete-diffusion sample checkpoint=runs/first num_samples=64 out=samples

Every setting is a config value; key=value on the command line overrides it:

  algo.backbone=dit        another backbone        model=bd_base          a larger preset
  schedule=cosine          another schedule        sampling=ancestral     another sampler
  optim=muon               another optimiser       logger=[csv,wandb]     several loggers
{settings}\
  init.checkpoint=RUN      weights to start from; init.modules=[encoder] takes some of them
  trainer.max_steps=5000   optim.lr=5e-4           out=runs/a             where the run is written
  plugins=[my_module]      your own modules, imported first, with backbones, algorithms, ...

  discrete-diffusion train --help              every group and key of a command, and the defaults
  discrete-diffusion train --cfg job           the composed config, without running it
  HYDRA_FULL_ERROR=1                           before a command: the whole trace of an error
"""


def general_help() -> str:
    """General help, with the lines of the installed kinds of data."""
    domains = [get_domain(name) for name in available_domains()]
    commands = [f"  discrete-diffusion {line}\n" for each in domains for line in each.command_help]
    settings = [f"  {line}\n" for each in domains for line in each.setting_help]
    return _HELP.format(
        commands="".join(commands),
        settings="".join(settings),
        data=""
        if any(each.name == DEFAULT for each in domains)
        else "data=text data.path=FILE algo.backbone=dit ",
    )
