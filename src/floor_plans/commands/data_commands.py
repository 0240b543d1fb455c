"""Commands ``data describe | check | convert``, ``plans realise | make``, ``brief check | schema``.

FILE may be JSON lines (rooms and relations, or rooms and boxes), a JSON file, a House-GAN++ plan,
Graph2Plan's data.mat, a GraphML file, a drawing (.dxf, .geojson), or a folder of such files.
A brief is YAML or JSON, see examples/briefs, or an OAS-Program in JSON.
"""

from __future__ import annotations

from functools import partial

from discrete_diffusion.config import LazyEntry
from discrete_diffusion.domains import SubCommand
from floor_plans.box import MODEL
from floor_plans.diagrams.files.code_tables import CODE_TABLES
from floor_plans.diagrams.geometry import DEFAULT_THRESHOLD, UNITS
from floor_plans.diagrams.vocabulary import DIRECTIONS, VOCABULARIES
from floor_plans.drawings import FORMAT_NAMES
from floor_plans.typed_options import add_options, argument, option

DIALECTS = ("houseganpp", "rlvr")  # formats of dimensioned plans in .json, which share this suffix


class _SizeOption:
    # the default is ``RPLAN_VOCAB_CONFIG.n_max``, repeated because that module imports torch
    max_nodes: int = option("N: most rooms that a plan may have, by default as in training", 8)


class _ReadingOptions(_SizeOption):
    """Options of every file that is read."""

    room_codes: str | None = option(
        "TABLE: table of integer room codes, where neither a plan nor its format names one: "
        f"{', '.join(CODE_TABLES)} (default: recognised file by file)"
    )
    room_names: str | None = option(
        "FILE: room types of your own names of rooms, a YAML or JSON object such as "
        "{Schlafzimmer: MasterRoom}"
    )
    unit: str = option(
        f"U: plans given as boxes: {', '.join(UNITS)}, by default of a plan drawn on 256 x 256; "
        "also of a DXF drawing that says none",
        UNITS[0],
    )
    adjacency_threshold: float | None = option(
        "T: plans given as boxes: boxes closer than this are related, in their own unit "
        f"(default: {DEFAULT_THRESHOLD:g} pixels, in that unit)"
    )


class _SkippingOptions(_ReadingOptions):
    skip_invalid: bool = option(
        "leave out and count plans that cannot be read, instead of ending at the first"
    )


class _FileOptions:
    """Options of the files that plans are written to."""

    formats: str = option(
        f"NAMES: also a file of each plan, in a folder for each format: {','.join(FORMAT_NAMES)}",
        "",
    )
    language: str = option("L: of the names of rooms: en, de", "en")
    layers: str = option("L: of DXF: plain or aia", "plain")
    storey: float = option("M: metres from the floor to the ceiling, in IFC", 2.5)
    picture: str = option("NAME: .svg or .png", "plans.svg")
    overwrite: bool = option("replace what DIR holds of these")


class _PlanOptions(_FileOptions):
    """Options of plans: their areas, their outline and rules of living."""

    out: str = option("DIR: the folder to write into")
    total_area: float | None = option("M2: of all rooms; drawn areas are scaled to it")
    tolerance: float = option("T: how far an area may be off its target, a share", 0.1)
    ratio: float | None = option("R: the outline is a rectangle R times as wide as high")
    boundary: str | None = option(
        "XY: the outline, a polygon in metres: [[0,0],[12,0],[12,8],[0,8]], or a JSON file with "
        'such a list; a line\'s own "boundary" counts first'
    )
    front_door: str | None = option("XY: its place on the boundary, in metres: [5.5,9]")
    north: float | None = option(
        "DEG: degrees clockwise from up; plans with living rooms further south cost less"
    )
    rules: str = option(
        "R: rules of living that plans keep as far as relations and outline allow: default, irc "
        "(sizes of a building code), none, or a YAML file of your own",
        "default",
    )
    hall: str = option(
        "auto: a hall is added behind the front door of five rooms and more if one fits, or where "
        "the solver meets more rules on access with one; never",
        "auto",
        choices=("auto", "never"),
    )
    seed: int = option("N: another one gives other plans", 0)
    threads: int | None = option("P: that share the work (default: one per core)")


class _RealiseOptions(_PlanOptions, _SkippingOptions):
    """Find a dimensioned floor plan for every diagram of FILE: boxes whose relations are exactly
    the diagram's, with doors and areas near their targets. Writes plans.jsonl, a line for each
    diagram in their order, a picture, and numbers."""

    file: str = argument("FILE: diagrams, as sample writes them")
    areas: str | None = option(
        "FILE: plans with boxes (in --unit), of whose rooms target areas are drawn, of the same "
        "types; without it areas are typical of their types. A line's own "
        '"areas": [m2 or null, ...] count first'
    )
    near: str | None = option(
        "FILE: plans.jsonl, a plan for each line of FILE, or one: new plans change as little of "
        'them as the line\'s "areas", "locked" and "moved" need'
    )
    variants: int = option(
        "K: different plans of each diagram, ranked by their scores, best first", 1
    )
    strict: bool = option(
        "end with status 1, naming plan and rule, where a plan breaks one of the rules or there "
        "is none"
    )


class _MakeOptions(_PlanOptions):
    """Make floor plans: sample diagrams, of a brief if given, find a dimensioned plan of each under
    the rules of living, and keep the best, ranked by their scores. Writes plans.jsonl, best first,
    a picture, numbers, and files of other programs."""

    checkpoint: str = option(
        "RUN: the model that diagrams are sampled from: a run folder, a file of weights, a name",
        MODEL,
    )
    brief: str | None = option("FILE: what every diagram must have")
    num_rooms: int | None = option("N: of every diagram (default: as in training)")
    num: int = option("K: plans to keep", 6)
    candidates: int | None = option(
        "N: diagrams to find plans of, 1 to 30 s each (default: twice --num); as many others, up "
        "to twice, while fewer than --num keep the rules"
    )
    strict: str = option(
        "true: plans that break a rule are written into withheld/; false: they are ranked too",
        "true",
        choices=("true", "false"),
    )


class _DescribeOptions(_SkippingOptions):
    """Describe a file of plans: counts of rooms, relations and types, repeats, sound plans."""

    file: str | None = argument("FILE: default: the embedded plans", nargs="?")
    json: bool = option("print JSON instead of tables")


class _CheckOptions(_ReadingOptions):
    """Read every plan and print the invalid ones with file, line, field and reason. Then warn of
    valid plans with relations that no arrangement of rooms has. With --rules, judge floor plans by
    named rules, and print remedies."""

    file: str = argument("FILE")
    plans: int | None = option(
        "N: search for floor plans of the first N diagrams, 0.05 s each, and name contradictory "
        "relations where there is none; this needs OR-Tools (default: 100 with it, 0 without)"
    )
    rules: str = option(
        "R: judge floor plans by rules of living: default, irc (sizes of a building code), none, "
        "or a YAML file of your own; status 1 if a plan breaks one",
        "none",
    )
    json: bool = option("with --rules: print the judgements alone, as JSON")
    report: str | None = option(
        "OUT: write JSON on floor plans: depth and integration of each room by its doors (space "
        "syntax), and the edit distance from the relations to those of the floors"
    )


class _ConvertOptions(_SkippingOptions):
    """Write plans in another format; without --skip-invalid, only if all of IN can be read."""

    source: str = argument("IN: a file or folder of plans")
    target: str = argument(
        "OUT: its suffix sets the format: .jsonl (one plan a line), .json (one list), .graphml "
        "(several plans: a folder of that name, a file each), .svg or .png (one picture); of plans "
        "with boxes, .dxf, .ifc, .pdf or .geojson (several: a folder)"
    )
    codes: bool = option(".jsonl and .json: codes instead of names")
    format: str | None = option(
        ".json, of plans with boxes: the format of House-GAN++ (houseganpp) or of "
        "floor-plan-rlvr (rlvr); several plans: a folder, a file each",
        choices=DIALECTS,
    )
    each: bool = option(".svg and .png: a folder of that name, a file each")
    first: int | None = option("K: only the first K plans")
    overwrite: bool = option("replace OUT if it is there")


class _BriefOptions(_SizeOption):
    """Explain a brief, with a sentence for each rule. Decide if any diagram meets it; if none does,
    list the rules that contradict each other (exactly with OR-Tools, of the extra "plans"). Count
    the share of plans that meet it."""

    file: str = argument("FILE")
    plans: str | None = option(
        "PLANS: a file or folder of plans, to count the share that meets the brief (default: the "
        "embedded plans, data=bubble_diagrams); none: no plans"
    )
    relations: str = option(
        f"WORDS: the vocabulary of the plans, {' or '.join(VOCABULARIES)}", DIRECTIONS.name
    )


class _SchemaOptions:
    """Print the JSON Schema of a brief, with an example of each key."""


def _command(usage: str, options: type, run: str, **writes: str) -> SubCommand:
    """Build a command, whose help is the docstring of its ``options``. ``run``: its function."""
    entry = LazyEntry(run, __doc__=options.__doc__)  # these modules import torch
    return SubCommand(usage, partial(add_options, options=options), entry, **writes)


COMMANDS = {
    "describe": _command(
        "[FILE]   counts of its plans; without FILE, of the embedded plans",
        _DescribeOptions,
        "floor_plans.commands.runs:describe_file",
    ),
    "check": _command(
        "FILE        plans that cannot be read, and why; with --rules, broken rules",
        _CheckOptions,
        "floor_plans.commands.runs:check_file",
    ),
    "convert": _command(
        "IN OUT    write it in another format: .jsonl, .json, .graphml, .dxf, .svg, ...",
        _ConvertOptions,
        "floor_plans.commands.runs:convert_file",
        writes_file="target",
    ),
    "realise": _command(
        "FILE out=DIR   dimensioned floor plans of diagrams",
        _RealiseOptions,
        "floor_plans.commands.runs:realise_file",
        writes_folder="out",
    ),
    "make": _command(
        "out=DIR   floor plans from a brief: sampled, realised, ranked",
        _MakeOptions,
        "floor_plans.briefs.making:run_make",
        writes_folder="out",
    ),
}
"""Sub-commands of ``discrete-diffusion data`` and ``plans``."""

BRIEF_COMMANDS = {
    "check": _command(
        "FILE   what it means, whether it can be met, how rare it is in plans",
        _BriefOptions,
        "floor_plans.briefs.checking:check_brief",
    ),
    "schema": _command(
        "       JSON Schema of a brief", _SchemaOptions, "floor_plans.briefs.schema:print_schema"
    ),
}
"""Sub-commands of ``discrete-diffusion brief``."""
