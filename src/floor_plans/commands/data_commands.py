"""Commands ``data describe | check | convert``, ``plans realise | make``, ``brief check``.

FILE may be JSON lines (rooms and relations, or rooms and boxes), a JSON file, a House-GAN++ plan,
Graph2Plan's data.mat, a GraphML file, a drawing (.dxf, .geojson, .wkt), or a folder of such files.
A brief is YAML or JSON, see examples/briefs, or an OAS-Program in JSON.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING

import yaml

from discrete_diffusion.config import Later
from discrete_diffusion.domains import SubCommand
from floor_plans.box import MODEL
from floor_plans.diagrams.files.code_tables import CODE_TABLES
from floor_plans.diagrams.geometry import DEFAULT_THRESHOLD, UNITS
from floor_plans.diagrams.vocabulary import VOCABULARIES
from floor_plans.drawings import FORMAT_NAMES
from floor_plans.studio import LOCAL

if TYPE_CHECKING:
    from floor_plans.briefs import checking, making
    from floor_plans.commands import runs
else:  # they import torch
    checking = Later("floor_plans.briefs.checking")
    making = Later("floor_plans.briefs.making")
    runs = Later("floor_plans.commands.runs")


DIALECTS = ("houseganpp", "rlvr")  # formats of dimensioned plans in .json, which share this suffix


def add_options(*groups: str) -> Callable[[argparse.ArgumentParser], None]:
    """Return the function that adds the options of these ``groups`` of options.yaml."""

    def add(parser: argparse.ArgumentParser) -> None:
        text = Path(__file__).with_name("options.yaml").read_text(encoding="utf-8")
        filled = Template(text).substitute(
            box=MODEL,
            dialects=json.dumps(DIALECTS),
            formats=",".join(FORMAT_NAMES),
            gap=f"{DEFAULT_THRESHOLD:g}",
            local=LOCAL[0],
            tables=", ".join(CODE_TABLES),
            units=", ".join(UNITS),
            vocabularies=" or ".join(VOCABULARIES),
        )
        options = yaml.safe_load(filled)
        for flag, facts in [each for group in groups for each in options[group].items()]:
            kinds = {"type": {"int": int, "float": float}[facts["type"]]} if "type" in facts else {}
            parser.add_argument(flag, **facts | kinds)

    return add


def _describe(options: argparse.Namespace) -> None:
    """Describe a file of plans: counts of rooms, relations and types, repeats, sound plans."""
    runs.describe_file(options)


def _check(options: argparse.Namespace) -> None:
    """Read every plan and print the invalid ones with file, line, field and reason. Then warn of
    valid plans with relations that no arrangement of rooms has. With --rules, judge floor plans by
    named rules, and print remedies."""
    runs.check_file(options)


def _convert(options: argparse.Namespace) -> None:
    """Write plans in another format; without --skip-invalid, only if all of IN can be read."""
    runs.convert_file(options)


def _realise(options: argparse.Namespace) -> None:
    """Find a dimensioned floor plan for every diagram of FILE: boxes whose relations are exactly
    the diagram's, with doors and areas near their targets. Writes plans.jsonl, a line for each
    diagram in their order, a picture, and numbers."""
    runs.realise_file(options)


def _make(options: argparse.Namespace) -> None:
    """Make floor plans: sample diagrams, of a brief if given, find a dimensioned plan of each under
    the rules of living, and keep the best, ranked by their scores. Writes plans.jsonl, best first,
    a picture, numbers, and files of other programs."""
    making.run_make(options)


def _check_brief(options: argparse.Namespace) -> None:
    """Explain a brief, with a sentence for each rule. Decide if any diagram meets it; if none does,
    list the rules that contradict each other (exactly with OR-Tools, of the extra "plans"). Count
    the share of plans that meet it."""
    checking.check_brief(options)


COMMANDS = {
    "describe": SubCommand(
        "[FILE]   counts of its plans; without FILE, of the embedded plans",
        add_options("describe", "size", "reading", "skip"),
        _describe,
    ),
    "check": SubCommand(
        "FILE        plans that cannot be read, and why; with --rules, broken rules",
        add_options("check", "size", "reading"),
        _check,
    ),
    "convert": SubCommand(
        "IN OUT    write it in another format: .jsonl, .json, .graphml, .dxf, .svg, ...",
        add_options("convert", "size", "reading", "skip"),
        _convert,
        writes_file="target",
    ),
    "realise": SubCommand(
        "FILE out=DIR   dimensioned floor plans of diagrams",
        add_options("realise", "plan", "size", "reading", "skip"),
        _realise,
        writes_folder="out",
    ),
    "make": SubCommand(
        "out=DIR   floor plans from a brief: sampled, realised, ranked",
        add_options("make", "plan"),
        _make,
        writes_folder="out",
    ),
}
"""Sub-commands of ``discrete-diffusion data`` and ``plans``."""

BRIEF_COMMANDS = {
    "check": SubCommand(
        "FILE   what it means, whether it can be met, how rare it is in plans",
        add_options("brief", "size"),
        _check_brief,
    )
}
"""Sub-commands of ``discrete-diffusion brief``."""
