"""All that this kind of data needs torch for, imported as one when ``domain`` first needs it."""

from __future__ import annotations

from discrete_diffusion.domains.dialogue.build import (
    build_dialogue,
    build_test_dialogues,
    complete_dialogue,
)
from discrete_diffusion.domains.dialogue.comparing import DialogueCells
from discrete_diffusion.domains.dialogue.evaluation import evaluate_summaries
from discrete_diffusion.domains.dialogue.sampling import sample_summaries
from discrete_diffusion.domains.dialogue.summary_report import SummaryReport

__all__ = [
    "DialogueCells",
    "SummaryReport",
    "build_dialogue",
    "build_test_dialogues",
    "complete_dialogue",
    "evaluate_summaries",
    "sample_summaries",
]
