"""Bubble diagrams: floor plans as rooms and the spatial relations between them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from discrete_diffusion.domains import register_domain
from discrete_diffusion.domains.bubble_diagrams.briefs.command import BRIEF_COMMANDS
from discrete_diffusion.domains.bubble_diagrams.commands.data_commands import COMMANDS
from discrete_diffusion.domains.bubble_diagrams.studio.command import STUDIO
from discrete_diffusion.domains.bubble_diagrams.vocabulary import DIRECTIONS, vocabulary_named
from discrete_diffusion.domains.domain import Domain
from discrete_diffusion.domains.option import DATA, LIKELIHOOD, ORDERS, TIME_BINS, Option
from discrete_diffusion.domains.sub_command import SubCommand

if TYPE_CHECKING:
    from omegaconf import DictConfig
    from torch import Tensor

    from discrete_diffusion.data.base import Dataset
    from discrete_diffusion.domains.cell_measurement import CellMeasurement, SampleScore
    from discrete_diffusion.evaluation.report import Evaluation, Report, Samples
    from discrete_diffusion.evaluation.requests import EvaluateRequest, SampleRequest
    from discrete_diffusion.evaluation.trained_model import TrainedModel
    from discrete_diffusion.layout.vocab_config import VocabConfig


BUILDABLE = (False, True, "narrowing", "lookahead")
"""Values that ``buildable`` may have."""

_OF_BRIEFS = (
    Option(
        "brief",
        "a file that says what every diagram must have, see docs/briefs.md",
        is_file=True,
    ),
    Option(
        "method",
        "with brief: rejection draws until enough meet it, particles steer towards it; null takes "
        "rejection where that finds one a second",
        words=("rejection", "particles"),
    ),
    Option("particles", "with brief: how many; null is 512, or twice num_samples", least=4),
)
_SAMPLE = (
    Option(
        "num_rooms",
        "rooms of every diagram, or several numbers to draw as often as in the training data among "
        "them, num_rooms=[5,6,7]; null draws all that the training data has",
        least=1,
        listed=True,
        without_given="a partial diagram has as many rooms as it lists, null for unknown ones",
    ),
    *_OF_BRIEFS,
    Option("given", "a file of partial diagrams to complete, see docs/completion.md", is_file=True),
    Option(
        "completions",
        "of each partial diagram; null is 4",
        least=1,
        with_given=True,
        instead_of="num_samples",
    ),
    Option(
        "max_arrangements",
        "ways to arrange a partial diagram's rooms that are kept at each step; null is as many as "
        "60 scoring calls per completion allow",
        least=1,
        with_given=True,
    ),
    Option(
        "codes",
        "what integer room codes of given diagrams mean, rplan | housegan | houseganpp | coarse; "
        "null recognises it",
        with_given=True,
    ),
    Option(
        "buildable",
        "all diagrams have a floor plan: true rejects others, narrowing draws no circle of "
        "relations and rejects the rest, lookahead draws only what still has a plan; see "
        'docs/floor_plans.md. Needs pip install "discrete-diffusion[plans]"',
        words=BUILDABLE,
    ),
    Option(
        "tries",
        "samples drawn for each requested one, at most, with buildable=true or narrowing, null is "
        "50; with brief, null is 2,000, or 200 with given",
        least=1,
    ),
    Option(
        "realise",
        "true: also a floor plan in metres of every sample, plans.jsonl and floor_plans.svg, with "
        "areas as in the training data; plans realise takes areas and outlines of your own",
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
_EVALUATE = (
    DATA,
    *_OF_BRIEFS,
    Option(
        "tries",
        "with brief: samples that method=rejection draws for each requested one, at most; null is "
        "2,000",
        least=1,
    ),
    Option(
        "rejection_calls",
        "with brief: network calls that plain rejection may take beside particles; null is as many "
        "as particles took, 0 leaves it out",
        least=0,
    ),
    Option(
        "gamma",
        "with brief: the power of the look-ahead in soft guidance, which is measured beside the "
        "method; null is 1, 0 is the model itself",
    ),
    Option(
        "reference",
        "real plans to compare with; null takes the data that the checkpoint held out, or without "
        "a checkpoint 2,000 plans that the embedded generator draws with plan_seed=271828182, on "
        "which no recipe trains",
        is_file=True,
        of_files=True,
    ),
    Option(
        "training",
        "plans trained on, for novelty; null takes those of the checkpoint",
        is_file=True,
        of_files=True,
    ),
    Option("seeds", "sampling seeds seed, seed + 1, ...; null is 5", least=1),
    Option(
        "floor_draws",
        "pairs of real sets that the floors are the mean of; null is 20, 0 leaves them out",
        least=0,
        of_files=True,
    ),
    Option(
        "verdicts",
        "samples in all, and real plans, of which a solver decides whether they can be built; "
        "null is 200, of plans past 8 rooms, which take seconds each, 40; 0 leaves it out. Needs "
        'pip install "discrete-diffusion[plans]"',
        least=0,
        of_files=True,
    ),
    TIME_BINS,
    LIKELIHOOD,
    ORDERS,
    Option(
        "n_max",
        "files: rooms a plan may have; with a checkpoint, what it was trained for counts",
        default=8,
        least=1,
        of_files=True,
        reading=True,
    ),
    Option(
        "skip_invalid",
        "files: true leaves out plans that cannot be read, and counts them",
        default=False,
        of_files=True,
        reading=True,
    ),
    Option(
        "codes",
        "files: what integer room codes mean, rplan | housegan | houseganpp | coarse; null "
        "recognises it",
        of_files=True,
        reading=True,
    ),
    Option(
        "names",
        "files: a file of your own names of rooms, each with its room type, see docs/plans.md",
        is_file=True,
        of_files=True,
        reading=True,
    ),
    Option(
        "unit",
        "files: of boxes, pixels (of a 256 x 256 plan) | metres | centimetres | millimetres | "
        "feet | inches",
        default="pixels",
        of_files=True,
        reading=True,
    ),
    Option(
        "threshold",
        "files: boxes closer than this (in their own unit) are related; null is 9 pixels, in that "
        "unit",
        of_files=True,
        reading=True,
    ),
)
_TRAIN = (
    Option(
        "verdicts",
        "samples of which a solver decides whether they can be built, if OR-Tools is there (the "
        "extra plans); null is a fifth of eval.num_samples",
        least=0,
    ),
)


@register_domain
class BubbleDiagrams(Domain):
    """Plans of the embedded generator, or of files."""

    name, title = "bubble_diagrams", "diagrams"
    data_sets = {"bubble_diagrams": "tokens", "plans": "tokens", "cubigraph": "tokens"}
    data_files = ("path", "train_path", "val_path", "test_path", "names")
    data_sets_of_files = {"bubble_diagrams": "plans"}
    fixed_keys = ("n_max", "relations", "condition", "node_order")
    sample_options, evaluate_options, train_options = _SAMPLE, _EVALUATE, _TRAIN
    group_titles = {"node": "rooms", "edge": "relations"}
    streamed_file = "samples.jsonl"
    sample_files = (
        *("plans.jsonl", "plans.partial.jsonl", "plans.json", "floor_plans.svg"),
        *("trajectory.gif", "trajectory.png"),
    )
    quick = {
        **{"num_held_out": 200, "num_samples": 200, "seeds": 1, "floor_draws": 5},
        **{"verdicts": 50, "bound_draws": 1, "time_bins": 5},
    }

    def graph(self, data: Mapping[str, Any]) -> VocabConfig:
        """The vocabularies and slots of its diagrams."""
        if data.get("n_max") is None:
            raise ValueError("data.n_max is not set; give the most rooms of a diagram, such as 8")
        return vocabulary_named(data.get("relations", DIRECTIONS.name)).graph(data["n_max"])

    def conditions(self, data: Mapping[str, Any]) -> tuple[str, ...]:
        return ("condition",) if data.get("condition") else ()

    def condition_sizes(self, data: Mapping[str, Any]) -> tuple[int, ...] | None:
        from discrete_diffusion.domains.bubble_diagrams.conditions.facts import Facts

        facts = Facts.of(data, self.graph(data))
        return None if facts is None else facts.sizes

    def vocabulary(self, data: Mapping[str, Any]) -> dict[str, Any]:
        graph = self.graph(data)
        return {
            "n_max": graph.n_max,
            "room_types": list(graph.node_types),
            "relations": list(graph.edge_types),
        }

    def build(self, data: DictConfig) -> Dataset:
        from discrete_diffusion.domains.bubble_diagrams.work import build_dataset

        return build_dataset(data, self.graph(data))

    def test_data(self, data: DictConfig) -> Dataset:
        from discrete_diffusion.domains.bubble_diagrams.work import build_test_plans

        return build_test_plans(data, self.graph(data))

    def tokens(self, data: Mapping[str, Any], samples: Any) -> Tensor:
        from discrete_diffusion.domains.bubble_diagrams.work import encode

        return encode(samples, self.graph(data)).x0

    def decode(self, data: Mapping[str, Any], tokens: Tensor) -> list[Any]:
        from discrete_diffusion.domains.bubble_diagrams.work import decode

        return decode(tokens, self.graph(data))

    def rewards(
        self, data: Mapping[str, Any], file: str | None = None
    ) -> Mapping[str, SampleScore]:
        from discrete_diffusion.domains.bubble_diagrams.work import diagram_rewards

        return diagram_rewards(self.graph(data), file)

    def report(self, data: Any, split: str, config: DictConfig) -> Report:
        from discrete_diffusion.domains.bubble_diagrams.work import AdjacencyReport, DiagramReport

        of = DiagramReport if data.vocab.edge_directions else AdjacencyReport
        return of(data, split, num_verdicts=config.eval.verdicts)

    def sample(self, request: SampleRequest, trained: TrainedModel) -> Samples:
        from discrete_diffusion.domains.bubble_diagrams.work import (
            answer_brief,
            chosen_by_brief,
            complete_file,
            sample_diagrams,
        )

        vocab = self.graph(trained.data_config)
        if request.given is not None:
            choose = None if request.brief is None else chosen_by_brief(request, trained, vocab)
            return complete_file(request, trained, vocab, choose)
        if request.brief is not None:
            return answer_brief(request, trained, vocab)
        return sample_diagrams(request, trained, vocab)

    def evaluate(self, request: EvaluateRequest, trained: TrainedModel) -> Evaluation:
        from discrete_diffusion.domains.bubble_diagrams.work import (
            evaluate_brief,
            evaluate_model,
            refuse_options,
        )

        refuse_options(request)
        if request.brief is not None:
            return evaluate_brief(request, trained, self.graph(trained.data_config))
        return evaluate_model(request, trained, self.graph(trained.data_config))

    def evaluate_files(self, request: EvaluateRequest) -> Evaluation:
        from discrete_diffusion.domains.bubble_diagrams.work import evaluate_files

        return evaluate_files(request)

    def cell_measurement(self) -> CellMeasurement:
        from discrete_diffusion.domains.bubble_diagrams.work import DiagramCells

        return DiagramCells()

    def commands(self) -> Mapping[str, SubCommand]:
        return COMMANDS

    def own_commands(self) -> Mapping[str, Mapping[str, SubCommand]]:
        return {"brief": BRIEF_COMMANDS, "studio": {"": STUDIO}}
