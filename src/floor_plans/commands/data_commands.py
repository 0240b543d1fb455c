"""Commands ``data describe | check | convert``, ``plans realise | make``, ``brief check | schema``.

FILE may be JSON lines (rooms and relations, or rooms and boxes), a JSON file, a House-GAN++ plan,
Graph2Plan's data.mat, a GraphML file, a drawing (.dxf, .geojson), or a folder of such files.
A brief is YAML or JSON, see examples/briefs, or an OAS-Program in JSON.
"""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from discrete_diffusion.config import Later
from discrete_diffusion.domains import SubCommand
from floor_plans.box import MODEL
from floor_plans.diagrams.files.code_tables import CODE_TABLES
from floor_plans.diagrams.geometry import DEFAULT_THRESHOLD, UNITS
from floor_plans.diagrams.vocabulary import DIRECTIONS, VOCABULARIES
from floor_plans.drawings import FORMAT_NAMES

if TYPE_CHECKING:
    from floor_plans.briefs import checking, making, schema
    from floor_plans.commands import runs
else:  # they import torch
    checking = Later("floor_plans.briefs.checking")
    making = Later("floor_plans.briefs.making")
    schema = Later("floor_plans.briefs.schema")
    runs = Later("floor_plans.commands.runs")


def realise_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``plans realise``."""
    parser.add_argument("file", metavar="FILE", help="diagrams, as sample writes them")
    parser.add_argument(
        "--areas",
        metavar="FILE",
        help="plans with boxes (in --unit), of whose rooms target areas are drawn, of the same "
        "types; without it areas are typical of their types. A line's own "
        '"areas": [m2 or null, ...] count first',
    )
    parser.add_argument(
        "--near",
        metavar="FILE",
        help="plans.jsonl, a plan for each line of FILE, or one: new plans change as little of "
        'them as the line\'s "areas", "locked" and "moved" need',
    )
    parser.add_argument(
        "--variants",
        type=int,
        default=1,
        metavar="K",
        help="different plans of each diagram, ranked by their scores, best first",
    )
    parser.add_argument(
        "--strict",
        action="store_true",
        help="end with status 1, naming plan and rule, where a plan breaks one of the rules or "
        "there is none",
    )
    _plan_options(parser)
    _reading_options(parser)


def make_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``plans make``."""
    parser.add_argument(
        "--checkpoint",
        metavar="RUN",
        default=MODEL,
        help="the model that diagrams are sampled from: a run folder, a file of weights, a name "
        "(default: %(default)s)",
    )
    parser.add_argument("--brief", metavar="FILE", help="what every diagram must have")
    parser.add_argument(
        "--num-rooms", type=int, metavar="N", help="of every diagram (default: as in training)"
    )
    parser.add_argument(
        "--num", type=int, default=6, metavar="K", help="plans to keep (default: %(default)s)"
    )
    parser.add_argument(
        "--candidates",
        type=int,
        metavar="N",
        help="diagrams to find plans of, 1 to 30 s each (default: twice --num); as many others, up "
        "to twice, while fewer than --num keep the rules",
    )
    parser.add_argument(
        "--strict",
        choices=("true", "false"),
        default="true",
        help="true: plans that break a rule are written into withheld/; false: they are ranked too "
        "(default: %(default)s)",
    )
    _plan_options(parser)


def _plan_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", required=True, metavar="DIR", help="the folder to write into")
    # the plan: areas and outline
    parser.add_argument(
        "--total-area", type=float, metavar="M2", help="of all rooms; drawn areas are scaled to it"
    )
    parser.add_argument(
        "--tolerance",
        type=float,
        default=0.1,
        metavar="T",
        help="how far an area may be off its target, a share (default: %(default)s)",
    )
    parser.add_argument(
        "--ratio",
        type=float,
        metavar="R",
        help="the outline is a rectangle R times as wide as high",
    )
    parser.add_argument(
        "--boundary",
        metavar="XY",
        help="the outline, a polygon in metres: [[0,0],[12,0],[12,8],[0,8]], or a JSON file with "
        'such a list; a line\'s own "boundary" counts first',
    )
    parser.add_argument(
        "--front-door", metavar="XY", help="its place on the boundary, in metres: [5.5,9]"
    )
    parser.add_argument(
        "--north",
        type=float,
        metavar="DEG",
        help="degrees clockwise from up; plans with living rooms further south cost less",
    )
    # rules of living
    parser.add_argument(
        "--rules",
        default="default",
        metavar="R",
        help="rules of living that plans keep as far as relations and outline allow: default, irc "
        "(sizes of a building code), none, or a YAML file of your own (default: %(default)s)",
    )
    parser.add_argument(
        "--hall",
        choices=("auto", "never"),
        default="auto",
        help="auto: a hall is added where rules ask for access and the solver meets more with one; "
        "never (default: %(default)s)",
    )
    parser.add_argument("--seed", type=int, default=0, help="another one gives other plans")
    parser.add_argument(
        "--threads", type=int, metavar="P", help="that share the work (default: one per core)"
    )
    _file_options(parser)


def _file_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the files that plans are written to."""
    parser.add_argument(
        "--formats",
        metavar="NAMES",
        default="",
        help=f"also a file of each plan, in a folder for each format: {','.join(FORMAT_NAMES)}",
    )
    parser.add_argument(
        "--language", default="en", metavar="L", help="of the names of rooms: en, de (default: en)"
    )
    parser.add_argument(
        "--layers", default="plain", metavar="L", help="of DXF: plain or aia (default: plain)"
    )
    parser.add_argument(
        "--storey",
        type=float,
        default=2.5,
        metavar="M",
        help="metres from the floor to the ceiling, in IFC (default: %(default)s)",
    )
    parser.add_argument(
        "--picture", default="plans.svg", metavar="NAME", help=".svg or .png (default: %(default)s)"
    )
    parser.add_argument("--overwrite", action="store_true", help="replace what DIR holds of these")


_MAX_NODES = 8  # ``RPLAN_VOCAB_CONFIG.n_max``, repeated because that module imports torch
DIALECTS = ("houseganpp", "rlvr")  # formats of dimensioned plans in .json, which share this suffix


def _add_max_nodes(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--max-nodes",
        type=int,
        default=_MAX_NODES,
        metavar="N",
        help="most rooms that a plan may have (default: %(default)s, as in training)",
    )


def _reading_options(parser: argparse.ArgumentParser, *, may_skip: bool = True) -> None:
    _add_max_nodes(parser)
    parser.add_argument(
        "--room-codes",
        metavar="TABLE",
        help="table of integer room codes, where neither a plan nor its format names one: "
        f"{', '.join(CODE_TABLES)} (default: recognised file by file)",
    )
    parser.add_argument(
        "--room-names",
        metavar="FILE",
        help="room types of your own names of rooms, a YAML or JSON object such as "
        "{Schlafzimmer: MasterRoom}",
    )
    parser.add_argument(
        "--unit",
        default=UNITS[0],
        metavar="U",
        help=f"plans given as boxes: {', '.join(UNITS)} (default: %(default)s, of a plan drawn on "
        "256 x 256); also of a DXF drawing that says none",
    )
    parser.add_argument(
        "--adjacency-threshold",
        type=float,
        metavar="T",
        help="plans given as boxes: boxes closer than this are related, in their own unit "
        f"(default: {DEFAULT_THRESHOLD:g} pixels, in that unit)",
    )
    if may_skip:
        parser.add_argument(
            "--skip-invalid",
            action="store_true",
            help="leave out and count plans that cannot be read, instead of ending at the first",
        )


def describe_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", nargs="?", metavar="FILE", help="default: the embedded plans")
    _reading_options(parser)
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")


def check_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE")
    _reading_options(parser, may_skip=False)
    parser.add_argument(
        "--plans",
        type=int,
        metavar="N",
        help="search for floor plans of the first N diagrams, 0.05 s each, and name contradictory "
        "relations where there is none; this needs OR-Tools (default: 100 with it, 0 without)",
    )
    parser.add_argument(
        "--rules",
        default="none",
        metavar="R",
        help="judge floor plans by rules of living: default, irc (sizes of a building code), none, "
        "or a YAML file of your own; status 1 if a plan breaks one (default: %(default)s)",
    )
    parser.add_argument(
        "--json", action="store_true", help="with --rules: print the judgements alone, as JSON"
    )
    parser.add_argument(
        "--report",
        metavar="OUT",
        help="write JSON on floor plans: depth and integration of each room by its doors (space "
        "syntax), and the edit distance from the relations to those of the floors",
    )


def convert_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", metavar="IN", help="a file or folder of plans")
    parser.add_argument(
        "target",
        metavar="OUT",
        help="its suffix sets the format: .jsonl (one plan a line), .json (one list), .graphml "
        "(several plans: a folder of that name, a file each), .svg or .png (one picture); of plans "
        "with boxes, .dxf, .ifc, .pdf or .geojson (several: a folder)",
    )
    _reading_options(parser)
    parser.add_argument(
        "--codes", action="store_true", help=".jsonl and .json: codes instead of names"
    )

    parser.add_argument(
        "--format",
        choices=DIALECTS,
        help=".json, of plans with boxes: the format of House-GAN++ (houseganpp) or of "
        "floor-plan-rlvr (rlvr); several plans: a folder, a file each",
    )
    parser.add_argument(
        "--each", action="store_true", help=".svg and .png: a folder of that name, a file each"
    )
    parser.add_argument("--first", type=int, metavar="K", help="only the first K plans")
    parser.add_argument("--overwrite", action="store_true", help="replace OUT if it is there")


def brief_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``brief check``: the brief, and the plans that it is compared with."""
    parser.add_argument("file", metavar="FILE")
    parser.add_argument(
        "--plans",
        metavar="PLANS",
        help="a file or folder of plans, to count the share that meets the brief (default: the "
        "embedded plans, data=bubble_diagrams); none: no plans",
    )
    _add_max_nodes(parser)
    parser.add_argument(
        "--relations",
        default=DIRECTIONS.name,
        metavar="WORDS",
        help=f"the vocabulary of the plans, {' or '.join(VOCABULARIES)} (default: %(default)s)",
    )


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


def _print_schema(options: argparse.Namespace) -> None:
    """Print the JSON Schema of a brief, with an example of each key."""
    print(json.dumps(schema.json_schema(), indent=1))


COMMANDS = {
    "describe": SubCommand(
        "[FILE]   counts of its plans; without FILE, of the embedded plans",
        describe_options,
        _describe,
    ),
    "check": SubCommand(
        "FILE        plans that cannot be read, and why; with --rules, broken rules",
        check_options,
        _check,
    ),
    "convert": SubCommand(
        "IN OUT    write it in another format: .jsonl, .json, .graphml, .dxf, .svg, ...",
        convert_options,
        _convert,
        writes_file="target",
    ),
    "realise": SubCommand(
        "FILE out=DIR   dimensioned floor plans of diagrams",
        realise_options,
        _realise,
        writes_folder="out",
    ),
    "make": SubCommand(
        "out=DIR   floor plans from a brief: sampled, realised, ranked",
        make_options,
        _make,
        writes_folder="out",
    ),
}
"""Sub-commands of ``discrete-diffusion data`` and ``plans``."""

BRIEF_COMMANDS = {
    "check": SubCommand(
        "FILE   what it means, whether it can be met, how rare it is in plans",
        brief_options,
        _check_brief,
    ),
    "schema": SubCommand("       JSON Schema of a brief", lambda parser: None, _print_schema),
}
"""Sub-commands of ``discrete-diffusion brief``."""
