"""Options of commands for bubble diagrams only."""

from __future__ import annotations

from functools import partial

from discrete_diffusion import domains
from discrete_diffusion.domains import Option
from discrete_diffusion.runtime import install_command

_reading_option = partial(Option, of_files=True, reading=True)

_OF_BRIEFS = (
    Option(
        "brief",
        "a file of requirements on every diagram, see docs/floor_plans/briefs.md",
        is_file=True,
    ),
    Option(
        "method",
        "with brief: rejection draws until enough meet it, smc steers particles towards it; null "
        "takes rejection where that finds one a second",
        words=("rejection", "smc"),
    ),
    Option("particles", "with brief: how many; null is 512, or twice num_samples", least=4),
)
SAMPLE = (
    Option(
        "num_rooms",
        "rooms of every diagram, or several numbers to draw as often as in the training data among "
        "them, num_rooms=[5,6,7]; null draws all sizes of the training data",
        least=1,
        listed=True,
        without_given="a partial diagram has as many rooms as it lists, null for unknown ones",
    ),
    *_OF_BRIEFS,
    Option(
        "given",
        "a file of partial diagrams to complete, see docs/floor_plans/briefs.md",
        is_file=True,
    ),
    domains.completions("of each partial diagram; null is 4"),
    Option(
        "max_arrangements",
        "ways to arrange a partial diagram's rooms that are kept at each step; null is as many as "
        "60 scoring calls per completion allow",
        least=1,
        with_given=True,
    ),
    Option(
        "room_codes",
        "what integer room codes of given diagrams mean, rplan | housegan | houseganpp | coarse; "
        "null recognises it",
        with_given=True,
    ),
    Option(
        "buildable",
        "all diagrams have a floor plan: true rejects others, narrowing draws no circle of "
        "relations and rejects the rest, lookahead draws only what still has a plan; see "
        f"docs/floor_plans/solver.md. Needs {install_command('plans')}",
        words=(False, True, "narrowing", "lookahead"),
    ),
    Option(
        "livable",
        "all diagrams have a floor plan that keeps rules of living, which the solver finds for "
        "each, about 7 CPU-seconds a drawn sample; others are rejected: true for the rules "
        "default, or irc, or a YAML file; see docs/floor_plans/solver.md. Needs "
        f"{install_command('plans')}",
    ),
    Option(
        "max_tries",
        "samples drawn for each requested one, at most, with buildable=true, narrowing or "
        "livable, null is 50; with brief, null is 2,000, or 200 with given",
        least=1,
    ),
    Option(
        "realise",
        "true: also a floor plan in metres of every sample, plans.jsonl and floor_plans.svg, with "
        "areas as in the training data, or the plan by which it is livable; plans realise takes "
        "areas and outlines of your own",
        default=False,
        written=True,
    ),
    Option(
        "trajectory",
        "the first N samples are shown coming out of the noise: trajectory.gif, .png",
        default=0,
        least=0,
        most=36,  # more could not be distinguished
        written=True,
    ),
)
EVALUATE = (
    domains.DATA,
    *_OF_BRIEFS,
    Option(
        "max_tries",
        "with brief: samples that method=rejection draws for each requested one, at most; null is "
        "2,000",
        least=1,
    ),
    Option(
        "rejection_calls",
        "with brief: network calls of plain rejection, for comparison with particles; null is as "
        "many as particles took, 0 leaves it out",
        least=0,
    ),
    Option(
        "lookahead_power",
        "with brief: the power of the look-ahead in soft guidance, which is measured for "
        "comparison; null is 1, 0 is the model itself",
    ),
    Option(
        "reference",
        "real plans to compare with; null takes the data that the checkpoint held out, or without "
        "a checkpoint 2,000 plans that the embedded generator draws with generator_seed=271828182, "
        "livable or not, on which no recipe trains",
        is_file=True,
        of_files=True,
    ),
    Option(
        "training_data",
        "plans trained on, for novelty; null takes those of the checkpoint",
        is_file=True,
        of_files=True,
    ),
    domains.SEEDS,
    domains.REFERENCE_REPEATS,
    Option(
        "num_solver_checks",
        "samples in all, and real plans, of which a solver decides whether they can be built; "
        "null is 200, of plans past 8 rooms, which take seconds each, 40; 0 leaves it out. Needs "
        f"{install_command('plans')}",
        least=0,
        of_files=True,
    ),
    domains.TIME_BINS,
    domains.LIKELIHOOD,
    domains.ORDERS,
    _reading_option(
        "max_nodes",
        "files: rooms a plan may have; with a checkpoint, what it was trained for counts",
        default=8,
        least=1,
    ),
    _reading_option(
        "skip_invalid",
        "files: true leaves out plans that cannot be read, and counts them",
        default=False,
    ),
    _reading_option(
        "room_codes",
        "files: what integer room codes mean, rplan | housegan | houseganpp | coarse; null "
        "recognises it",
    ),
    _reading_option(
        "room_names",
        "files: a file of your own names of rooms, each with its room type, see "
        "docs/floor_plans/files.md",
        is_file=True,
    ),
    _reading_option(
        "unit",
        "files: of boxes, pixels (of a 256 x 256 plan) | metres | centimetres | millimetres | "
        "feet | inches",
        default="pixels",
    ),
    _reading_option(
        "adjacency_threshold",
        "files: boxes closer than this (in their own unit) are related; null is 9 pixels, in that "
        "unit",
    ),
)
TRAIN = (
    Option(
        "num_solver_checks",
        "samples of which a solver decides whether they can be built, if OR-Tools is there (the "
        "extra plans); null is a fifth of eval.num_samples",
        least=0,
    ),
)
