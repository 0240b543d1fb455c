"""``discrete-diffusion brief check``: explain a brief and decide if it can be met.

FILE is YAML or JSON, see examples/briefs, or an OAS-Program in JSON.
"""

from __future__ import annotations

import argparse

from discrete_diffusion.domains import SubCommand
from floor_plans.diagrams.vocabulary import DIRECTIONS, VOCABULARIES

_N_MAX = 8  # ``RPLAN_VOCAB_CONFIG.n_max``, repeated because that module imports torch


def _check_options(parser: argparse.ArgumentParser) -> None:
    # the brief, and the plans that it is compared with
    parser.add_argument("file", metavar="FILE")
    parser.add_argument(
        "--plans",
        metavar="PLANS",
        help="a file or folder of plans, to count the share that meets the brief (default: the "
        "embedded plans, data=bubble_diagrams); none: no plans",
    )
    parser.add_argument(
        "--n-max",
        type=int,
        default=_N_MAX,
        metavar="N",
        help="most rooms that a plan may have (default: %(default)s, as in training)",
    )
    parser.add_argument(
        "--relations",
        default=DIRECTIONS.name,
        metavar="WORDS",
        help=f"the vocabulary of the plans, {' or '.join(VOCABULARIES)} (default: %(default)s)",
    )


def _check(options: argparse.Namespace) -> None:
    """Explain a brief, with a sentence for each rule. Decide if any diagram meets it; if none does,
    list the rules that contradict each other (exactly with OR-Tools, of the extra "plans"). Count
    the share of plans that meet it."""
    from floor_plans.briefs.checking import check_brief

    check_brief(options)


BRIEF_COMMANDS = {
    "check": SubCommand(
        "FILE   what it means, whether it can be met, how rare it is in plans",
        _check_options,
        _check,
    )
}
"""Sub-commands of ``discrete-diffusion brief``."""
