"""All that this kind of data needs torch for, imported as one when ``domain`` first needs it."""

from __future__ import annotations

from discrete_diffusion.domains.text.build import build_test_text, build_text, complete_text
from discrete_diffusion.domains.text.evaluation import evaluate_text
from discrete_diffusion.domains.text.report import TextCells, TextReport
from discrete_diffusion.domains.text.sampling import complete_texts, encode_texts, sample_texts
from discrete_diffusion.domains.text.tokenizing import tokenize

__all__ = [
    "TextCells",
    "TextReport",
    "build_test_text",
    "build_text",
    "complete_text",
    "complete_texts",
    "encode_texts",
    "evaluate_text",
    "sample_texts",
    "tokenize",
]
