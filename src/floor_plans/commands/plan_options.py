"""Options of ``discrete-diffusion plans realise`` and ``plans make``."""

from __future__ import annotations

import argparse

from floor_plans.box import MODEL
from floor_plans.drawings import FORMAT_NAMES


def realise_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``plans realise``, without those of reading plans."""
    parser.add_argument("file", metavar="FILE", help="diagrams, as sample writes them")
    # requests of the plans
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
    # number and strictness
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


def make_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``plans make``."""
    # the model and its diagrams
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
    # the plans to keep
    parser.add_argument(
        "--candidates",
        type=int,
        metavar="N",
        help="diagrams to find plans of, 1 to 30 s each (default: twice --num)",
    )
    parser.add_argument(
        "--habitable",
        action="store_true",
        help="only plans that break none of the rules; there may be fewer than --num",
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
        "--front-door",
        metavar="XY",
        help="its place on the boundary, in metres: [5.5,9]",
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
    # files to write
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
    parser.add_argument(
        "--threads", type=int, metavar="P", help="that share the work (default: one per core)"
    )
    parser.add_argument("--overwrite", action="store_true", help="replace what DIR holds of these")
