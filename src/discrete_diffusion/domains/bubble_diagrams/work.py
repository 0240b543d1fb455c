"""All that this kind of data needs torch for, imported as one when ``domain`` first needs it."""

from __future__ import annotations

from discrete_diffusion.domains.bubble_diagrams.briefs.answering import answer_brief
from discrete_diffusion.domains.bubble_diagrams.briefs.evaluating import (
    evaluate_brief,
    refuse_options,
)
from discrete_diffusion.domains.bubble_diagrams.briefs.given import chosen_by_brief
from discrete_diffusion.domains.bubble_diagrams.build import build_dataset, build_test_plans
from discrete_diffusion.domains.bubble_diagrams.comparing import DiagramCells
from discrete_diffusion.domains.bubble_diagrams.completion.given_file import complete_file
from discrete_diffusion.domains.bubble_diagrams.evaluation import evaluate_files, evaluate_model
from discrete_diffusion.domains.bubble_diagrams.report import AdjacencyReport, DiagramReport
from discrete_diffusion.domains.bubble_diagrams.rewards import diagram_rewards
from discrete_diffusion.domains.bubble_diagrams.sampling import sample_diagrams
from discrete_diffusion.domains.bubble_diagrams.tokens import decode, encode

__all__ = [
    "AdjacencyReport",
    "DiagramCells",
    "DiagramReport",
    "answer_brief",
    "build_dataset",
    "build_test_plans",
    "chosen_by_brief",
    "complete_file",
    "decode",
    "diagram_rewards",
    "encode",
    "evaluate_brief",
    "evaluate_files",
    "evaluate_model",
    "refuse_options",
    "sample_diagrams",
]
