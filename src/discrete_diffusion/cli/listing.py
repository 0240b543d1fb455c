"""``discrete-diffusion list``: what there is, and what fits what."""

from __future__ import annotations

import inspect
import re
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from discrete_diffusion.algorithms.registry import ALGORITHMS, algorithms_on
from discrete_diffusion.composing.parts import registry_of
from discrete_diffusion.composing.search_path import choices, model_presets
from discrete_diffusion.config.files import shipped_files
from discrete_diffusion.config.plugins import own_packages
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

if TYPE_CHECKING:
    from discrete_diffusion.domains.domain import Domain

_GROUPS = {
    "optim": "optimisers",
    "logger": "loggers",
    "experiment": "experiments",
    "debug": "debug recipes",
}

_HOLD = {
    "tokens": "ids, one per position",
    "features": "rows of numbers",
    "field": "images of numbers",
    "latent": "latent vectors",
}
"""Samples of a state, in words."""


def print_listing() -> None:
    """Print for each state its data sets, backbones, algorithms and samplers, with what each fits;
    then the choices of every other config group."""
    console = Console(highlight=False)
    for state in STATES:
        if tables := [table for table in _tables(state) if table.row_count]:
            console.print(f"[bold]{state}[/bold]: {_HOLD[state]}\n")
            for table in tables:
                console.print(table)
                console.print()
    groups = Table("choose with", "what", "choices", box=None)
    if own := [name for name in choices("algo") if name not in ALGORITHMS.names()]:
        groups.add_row("algo=", "algorithms with keys of your own", ", ".join(own))
    for group, title in _GROUPS.items():
        if names := choices(group):
            groups.add_row(f"{group}=", title, ", ".join(names))
    console.print(groups)
    console.print(
        "\nData, backbone, algorithm and sampler of a run are of one state; algo=NAME chooses a "
        "sampler that fits, and a forward process; the first process stands first. A sampler fits "
        "the algorithms of its row, with forward_process=absorbing if its process is absorbing."
    )


def _tables(state: str) -> list[Table]:
    noise = [_processes(), _schedules()] if state == "tokens" else []
    return [_data(state), _backbones(state), _algorithms(state), *noise, _samplers(state)]


def _data(state: str) -> Table:
    """Data sets, with the conditions that come with their samples."""
    table = Table("data=", "what it is", box=None)
    domains = [get_domain(name) for name in available_domains()]
    found = sorted(((n, d) for d in domains for n in d.data_sets), key=lambda pair: pair[0])
    for name, domain in found:
        if domain.data_sets[name] == state:
            given = domain.conditions({"name": name})
            conditions = "".join(f"; condition {each}" for each in given)
            table.add_row(name, _data_description(name, domain) + conditions)
    return table


def _data_description(name: str, domain: Domain) -> str:
    """The first comment of its YAML; of a plug-in the first line of its domain's docstring."""
    if type(domain).__module__.partition(".")[0] in own_packages():
        return _first_sentence(shipped_files("data")[name].read_text())
    return (inspect.getdoc(type(domain)) or "").partition("\n")[0].removesuffix(".")


def _first_sentence(yaml: str) -> str:
    """First sentence of the comment that a YAML begins with."""
    comment = takewhile(lambda line: line.startswith("#"), yaml.splitlines())
    text = " ".join(line.removeprefix("#").strip() for line in comment)
    return text.partition(". ")[0].removesuffix(".")


def _backbones(state: str) -> Table:
    presets = model_presets()
    table = Table("algo.backbone=", "causal", "model=", box=None)
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
        table.add_row(name, "yes" if spec.causal else "no", shown)
    return table


def _fact(algorithm: str, name: str, default: Any = ()) -> Any:
    """A class attribute of an algorithm, which is not imported."""
    return getattr(ALGORITHMS.entry(algorithm), name, default)


def _algorithms(state: str) -> Table:
    """Algorithms, with the forward processes and backbones that their classes name."""
    table = Table("algo=", "forward processes", "backbones", box=None)
    everything = usable_backbones((), state)
    for name in algorithms_on(state):
        usable = usable_backbones(_fact(name, "backbone_needs"), state)
        processes = ", ".join(_fact(name, "processes"))
        table.add_row(
            name,
            processes + ", any other" * _fact(name, "any_process", False),
            "any" if usable == everything else ", ".join(usable) or "none yet",
        )
    return table


def _processes() -> Table:
    """Forward processes of tokens, with the algorithms and samplers that they fit."""
    table = Table("forward_process=", "algo=", "samplers", "what it does", box=None)
    for name in PROCESSES.names():
        fitting = [
            key
            for key in algorithms_on("tokens")
            if name in _fact(key, "processes") or _fact(key, "any_process", False)
        ]
        absorbing = getattr(PROCESSES.entry(name), "absorbing", False)
        samplers = "any" if absorbing else "of any noise"
        table.add_row(name, ", ".join(fitting), samplers, _description("forward_process", name))
    return table


def _schedules() -> Table:
    """Noise schedules, with the algorithms that they fit."""
    learning = [key for key in algorithms_on("tokens") if _fact(key, "learns_schedule", False)]
    table = Table("noise=", "algo=", "what it does", box=None)
    for name in SCHEDULES.names():
        learned = getattr(SCHEDULES.entry(name), "learned", False)
        table.add_row(name, ", ".join(learning) if learned else "any", _description("noise", name))
    return table


def _samplers(state: str) -> Table:
    """Samplers, with the forward processes and algorithms they fit."""
    table = Table("sampling=", "process", "algo=", "what it does", box=None)
    for name in sorted(SAMPLERS.names()):
        if sampler_state(name) != state:
            continue
        fitting = sampled_by(name)
        processes = {process for key in fitting for process in _fact(key, "processes")}
        absorbing = getattr(SAMPLERS.entry(name), "absorbing_only", False)
        noise = "absorbing" if absorbing or processes == {"absorbing"} else "any"
        others = sorted(set(algorithms_on(state)) - set(fitting))
        few = 0 < len(others) < 3
        shown = "any but " * few + ", ".join(others if few else fitting)
        table.add_row(name, noise, shown, _description("sampling", name))
    return table


def sampled_by(name: str) -> list[str]:
    """The algorithms that a sampler fits with some forward process, see ``check_sampler``."""
    sampler = SAMPLERS.entry(name)

    def fits(algorithm: str) -> bool:
        only = _fact(algorithm, "samplers", None)
        named = name in only if only else not getattr(sampler, "algorithms", None)
        absorbing = "absorbing" in _fact(algorithm, "processes")
        in_steps = _fact(algorithm, "discrete_time", False)
        return (
            named
            and (absorbing or not getattr(sampler, "absorbing_only", False))
            and not (in_steps and getattr(sampler, "continuous_time_only", False))
        )

    return [key for key in algorithms_on(sampler_state(name)) if fits(key)]


def _description(group: str, name: str) -> str:
    """The comment on the name in the YAML of a part; of a plug-in the first line of its docstring,
    less the name in front of a colon."""
    path = shipped_files(group).get(name)
    yaml = "" if path is None else path.read_text()
    if found := re.search(r"^name: \S+ +# (.*)$", yaml, flags=re.MULTILINE):
        return found[1]
    part = registry_of(group).find(name)
    first = (inspect.getdoc(part) or "").partition("\n")[0]
    if first.startswith(f"{getattr(part, '__name__', name)}("):  # a dataclass without a docstring
        return ""
    return (first.partition(": ")[2] or first).removesuffix(".")
