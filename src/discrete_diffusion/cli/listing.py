"""``discrete-diffusion list``: names of all parts, and which parts fit together."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from rich.console import Console
from rich.table import Table

from discrete_diffusion.algorithms.registry import ALGORITHMS, algorithms_on
from discrete_diffusion.cli.help import yaml_header
from discrete_diffusion.composing.parts import registry_of
from discrete_diffusion.composing.search_path import choices, model_presets
from discrete_diffusion.config.files import config_dir, plain, shipped_config, shipped_files
from discrete_diffusion.config.plugins import own_packages
from discrete_diffusion.config.values import check_name
from discrete_diffusion.domains.registry import available_domains, get_domain
from discrete_diffusion.forward_process.registry import PROCESSES
from discrete_diffusion.models.registry import (
    STATES,
    available_backbones,
    backbone_spec,
    usable_backbones,
)
from discrete_diffusion.noise_schedules.registry import SCHEDULES
from discrete_diffusion.sampling.registry import SAMPLERS, sampler_state

Rows = Iterator[tuple[str, ...]]

_HOLD = {
    "tokens": "ids, one per position",
    "features": "rows of numbers",
    "field": "images of numbers",
    "latent": "latent vectors",
}
"""Descriptions of the samples of each state."""

_GROUPS = {"optimisers": "optim", "loggers": "logger", "experiments": "experiment"}
"""Config groups that ``list`` shows, by the word typed after it."""

_DEFAULT = "*"
"""Mark behind the names of the defaults of ``train``."""


def print_listing(kind: str | None = None) -> None:
    """Print all parts by state, with the parts that each fits; or the table of one ``kind``.

    Raises ``ValueError`` for an unknown ``kind``."""
    console = Console(highlight=False)
    if kind is not None:
        check_name("kind of parts", kind, [*_TABLES, *_GROUPS])
        if (group := _GROUPS.get(kind)) is not None:
            files = shipped_files(group)
            rows = (
                (name, _first_sentence(files[name].read_text()) if name in files else "")
                for name in choices(group)
            )
            console.print(_marked_table((f"{group}=", "what it is"), rows))
            return
        # one table of all states
        heads, rows_of = _TABLES[kind]
        every = [(*row, state) for state in STATES for row in rows_of(state)]
        several = len({row[-1] for row in every}) > 1
        heads = (*heads, "state") if several else heads
        console.print(_marked_table(heads, (row[: len(heads)] for row in every)))
        if kind == "samplers":
            console.print(
                "\nDistances of their samples from the truth, by network calls: docs/samplers.md, "
                '"Distance from the truth"; of yours too: discrete_diffusion.evaluation.'
                "sampler_distances"
            )
        return
    console.print(f"What fits what, by the state of a sample. {_DEFAULT}: a default of train.\n")
    for state in STATES:
        tables = [_marked_table(heads, rows(state)) for heads, rows in _TABLES.values()]
        if tables := [table for table in tables if table.row_count]:
            console.print(f"[bold]{state}[/bold]: {_HOLD[state]}\n")
            for table in tables:
                console.print(table, "")
    groups = Table("choose with", "what", "choices", box=None)
    if own := [name for name in choices("algo") if name not in ALGORITHMS.names()]:
        groups.add_row("algo=", "algorithms with keys of your own", ", ".join(own))
    for title, group in (*_GROUPS.items(), ("debug recipes", "debug")):
        if names := choices(group):
            groups.add_row(f"{group}=", title, ", ".join(names))
    console.print(groups)
    console.print(
        "\nData, backbone, algorithm and sampler of a run are of one state; algo=NAME chooses a "
        "sampler that fits, and a forward process; the first process stands first. A sampler fits "
        "the algorithms of its row, with forward_process=absorbing if its process is absorbing.\n"
        f"One table alone: discrete-diffusion list {' | '.join([*_TABLES, *_GROUPS])}"
    )


def _marked_table(heads: tuple[str, ...], rows: Rows) -> Table:
    """Make a table in which the defaults of ``train`` are marked."""
    table = Table(*heads, box=None)
    default = _defaults_of_train().get(heads[0].removesuffix("="))
    for name, *cells in rows:
        table.add_row(name + _DEFAULT * (name == default), *cells)
    return table


@cache
def _defaults_of_train() -> dict[str, Any]:
    """Default choices of ``train`` by group, and the default backbone."""
    from omegaconf import OmegaConf

    listed = plain(OmegaConf.load(config_dir() / "train.yaml"), resolve=False)["defaults"]
    chosen = {k: v for each in listed if isinstance(each, dict) for k, v in each.items()}
    return chosen | {"algo.backbone": shipped_config("algo", chosen["algo"]).get("backbone")}


# --- rows of each table ---


def _data_rows(state: str) -> Rows:
    """Rows of data sets, with the conditions of their samples."""
    domains = [get_domain(name) for name in available_domains()]
    found = sorted(((n, d) for d in domains for n in d.data_sets), key=lambda pair: pair[0])
    for name, domain in found:
        if domain.data_sets[name] != state:
            continue
        # described by the comment of a shipped YAML, or the docstring of a plug-in's domain
        if type(domain).__module__.partition(".")[0] in own_packages():
            about = _first_sentence(shipped_files("data")[name].read_text())
        else:
            about = (inspect.getdoc(type(domain)) or "").partition("\n")[0].removesuffix(".")
        given = domain.conditions({"name": name})
        yield name, about + "".join(f"; condition {each}" for each in given)


def _first_sentence(yaml: str) -> str:
    """First sentence of the comment at the beginning of a YAML."""
    return yaml_header(yaml).partition(". ")[0].removesuffix(".")


def _backbone_rows(state: str) -> Rows:
    """Rows of backbones, with the model presets that fit."""
    presets = model_presets()
    for name in available_backbones():
        spec = backbone_spec(name)
        if spec.state != state:
            continue
        fitting = [
            preset.name + (f" ({preset.parameters:,})" if preset.parameters else "")
            for preset in presets.values()
            if name in preset.backbones
        ]
        shown = ", ".join(fitting) or spec.preset or "any"
        yield name, "yes" if spec.causal else "no", shown


def _fact_of(algorithm: str, name: str, default: Any = ()) -> Any:
    """Read a class attribute of an algorithm without importing the class."""
    return getattr(ALGORITHMS.entry(algorithm), name, default)


def _algorithm_rows(state: str) -> Rows:
    """Rows of algorithms, with their forward processes and backbones."""
    everything = usable_backbones((), state)
    for name in algorithms_on(state):
        usable = usable_backbones(_fact_of(name, "backbone_needs"), state)
        processes = ", ".join(_fact_of(name, "processes"))
        others = ", any other" * _fact_of(name, "any_process", False)
        backbones = "any" if usable == everything else ", ".join(usable) or "none yet"
        yield name, processes + others, backbones


def _process_rows(state: str) -> Rows:
    """Rows of forward processes, with the algorithms and samplers that fit."""
    for name in PROCESSES.names() if state == "tokens" else ():
        fitting = [
            key
            for key in algorithms_on("tokens")
            if name in _fact_of(key, "processes") or _fact_of(key, "any_process", False)
        ]
        absorbing = getattr(PROCESSES.entry(name), "absorbing", False)
        samplers = "any" if absorbing else "of any noise"
        yield name, ", ".join(fitting), samplers, _part_text("forward_process", name)


def _schedule_rows(state: str) -> Rows:
    """Rows of noise schedules, with the algorithms that fit."""
    learning = [key for key in algorithms_on("tokens") if _fact_of(key, "learns_schedule", False)]
    for name in SCHEDULES.names() if state == "tokens" else ():
        learned = getattr(SCHEDULES.entry(name), "learned", False)
        yield (
            name,
            ", ".join(learning) if learned else "any",
            _part_text("schedule", name),
        )


def _sampler_rows(state: str) -> Rows:
    """Rows of samplers, with the forward processes and algorithms that fit."""
    for name in sorted(SAMPLERS.names()):
        if sampler_state(name) != state:
            continue
        fitting = sampled_by(name)
        processes = {process for key in fitting for process in _fact_of(key, "processes")}
        absorbing = getattr(SAMPLERS.entry(name), "absorbing_only", False)
        noise = "absorbing" if absorbing or processes == {"absorbing"} else "any"
        others = sorted(set(algorithms_on(state)) - set(fitting))
        few = 0 < len(others) < 3
        shown = "any but " * few + ", ".join(others if few else fitting)
        yield name, noise, shown, _part_text("sampling", name)


def sampled_by(name: str) -> list[str]:
    """Algorithms that a sampler fits with at least one forward process, see ``check_sampler``."""
    sampler = SAMPLERS.entry(name)

    def fits(algorithm: str) -> bool:
        only = _fact_of(algorithm, "samplers", None)
        named = name in only if only else not getattr(sampler, "algorithms", None)
        absorbing = "absorbing" in _fact_of(algorithm, "processes")
        in_steps = _fact_of(algorithm, "discrete_time", False)
        return (
            named
            and (absorbing or not getattr(sampler, "absorbing_only", False))
            and not (in_steps and getattr(sampler, "continuous_time_only", False))
        )

    return [key for key in algorithms_on(sampler_state(name)) if fits(key)]


def _part_text(group: str, name: str) -> str:
    """Describe a part by the comment on its name in the YAML, or else by its docstring."""
    path = shipped_files(group).get(name)
    yaml = "" if path is None else path.read_text()
    if found := re.search(r"^name: \S+ +# (.*)$", yaml, flags=re.MULTILINE):
        return found[1]
    part = registry_of(group).find(name)
    first = (inspect.getdoc(part) or "").partition("\n")[0]
    # a dataclass without a docstring
    if first.startswith(f"{getattr(part, '__name__', name)}("):
        return ""
    return (first.partition(": ")[2] or first).removesuffix(".")


_TABLES: dict[str, tuple[tuple[str, ...], Callable[[str], Rows]]] = {
    "data": (("data=", "what it is"), _data_rows),
    "backbones": (("algo.backbone=", "causal", "model="), _backbone_rows),
    "algorithms": (("algo=", "forward processes", "backbones"), _algorithm_rows),
    "processes": (("forward_process=", "algo=", "samplers", "what it does"), _process_rows),
    "schedules": (("schedule=", "algo=", "what it does"), _schedule_rows),
    "samplers": (("sampling=", "process", "algo=", "what it does"), _sampler_rows),
}
"""Heads of each table, and the function that makes its rows for a state, by ``list`` word."""
