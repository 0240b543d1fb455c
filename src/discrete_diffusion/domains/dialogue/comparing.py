"""Summaries of dialogues, through latent vectors or as ids: bounds, and what is written of
held-out dialogues."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discrete_diffusion.domains.cell_measurement import (
    CellMeasurement,
    FigureAxis,
    forms_of,
    samples_beside,
)
from discrete_diffusion.evaluation.comparison import Column, Comparison, Measure
from discrete_diffusion.naming import counted
from discrete_diffusion.whole_files import written_whole

if TYPE_CHECKING:
    from discrete_diffusion.algorithms import Algorithm
    from discrete_diffusion.cli.compare.cells import Cell
    from discrete_diffusion.cli.compare.folder import CellFolder
    from discrete_diffusion.evaluation.comparison import Baseline
    from discrete_diffusion.evaluation.equal_terms import EqualTerms
    from discrete_diffusion.evaluation.trained_model import Model

_SUMMARIES = "summaries.md"
_DRAWN_WITH = ("temperature", "top_k", "top_p")
"""Options of samplers that summaries differ by."""


def _note(comparison: Comparison, split: str) -> str:
    num = comparison.reference("rouge_l").values["rouge_l"].shape[1]
    return (
        f"A summary is drawn of each of the first {counted(num, 'dialogue')} of the {split} "
        "split, and of the dialogue of another pair; ROUGE-L is F1 of the longest common "
        "subsequence of words with the reference."
    )


class DialogueCells(CellMeasurement):
    """The bound on -log p(summary | dialogue), and ROUGE-L of a summary of each dialogue."""

    measures = ("bounds", "rouge_l")
    measured = {"rouge_l": Measure("ROUGE-L", lambda comparison: "ROUGE-L", _note, up=True)}
    columns = (
        Column("exact match", "exact_match", 1, up=True, share=True, of_samples=True),
        Column("slots right", "slot_accuracy", 1, up=True, share=True),
        Column("ROUGE-L with dialogues of others", "shuffled_rouge_l", 3, up=None),
        Column("rise with dialogues of others, nats", "nelbo_source_gap", 2, up=True),
    )
    axes = (FigureAxis("rouge_l", "ROUGE-L", up=True),)

    def refusal(self, algorithm: Algorithm, num_samples: int) -> str | None:
        if algorithm.bound is None:  # else it is of something else than what the data holds
            return None
        stage = getattr(algorithm, "stage", None)
        trained = algorithm.name if stage is None else f"algo.stage={stage}"
        return (
            f"{trained} has no bound on -log p(summary | dialogue), by which models of dialogues "
            "are compared" + ("" if stage is None else "; leave algo.stage at joint")
        )

    def check_same(self, one: Any, other: Any) -> None:
        from discrete_diffusion.domains.dialogue.equal_summaries import check_same_pairs

        check_same_pairs(one, other)

    def measure(self, model: Model, data: Any, terms: EqualTerms, folder: Path) -> dict[str, Any]:
        from discrete_diffusion.domains.dialogue.equal_summaries import (
            held_out_summary_bounds,
            score_summaries_drawn,
        )

        found = held_out_summary_bounds(model.algorithm, data, terms, device=model.device)
        found.bounds.check()
        out = {**found.bounds.as_dict(), "metrics": found.rise}
        if terms.num_samples:
            drawn = score_summaries_drawn(
                model.algorithm,
                model.sampler,
                data,
                terms,
                device=model.device,
                folder=folder,
            )
            out |= {"rouge_l": drawn.rouge_l.tolist(), "metrics": {**found.rise, **drawn.metrics}}
        return out

    def baselines(self, data: Any, num: int) -> tuple[Baseline, ...]:
        from discrete_diffusion.domains.dialogue.equal_summaries import score_baselines

        return score_baselines(data, num)

    def notes(self, cells: Sequence[Cell]) -> list[str]:
        ids = [cell for cell in cells if cell.state == "tokens"]
        names = ", ".join(dict.fromkeys(cell.algorithm for cell in ids))
        as_ids = (
            f" As ids ({names}) the dialogue is given and clamped, and the bound is of all "
            f"{cells[0].config.data.target_length} positions of the summary, EOS behind its text "
            "included; what is there follows from the text, so the event is the same."
        )
        exact = ", ".join(dict.fromkeys(c.algorithm for c in cells if _has_exact_bound(c)))
        return [
            f"The same pairs for all: {forms_of(cells, _DRAWN_WITH)}.",
            "The bound is on -log p(summary | dialogue), per summary and never per token"
            + (f"; exact for {exact}" if exact else "")
            + "."
            + (as_ids if ids else ""),
            "Its rise is how much more a summary costs beside the dialogue of another pair, with "
            "the same noise; 0 if dialogues are not used.",
        ]

    def show(
        self,
        comparison: Comparison,
        cells: Sequence[Cell],
        folders: Mapping[str, CellFolder],
        out: Path,
    ) -> list[str]:
        """Dialogues with their references and the summaries of every model, trained with the first
        seed."""
        from discrete_diffusion.domains.dialogue.equal_summaries import summaries_side_by_side
        from discrete_diffusion.domains.dialogue.summarising import SUMMARIES, read_summaries

        path = out / _SUMMARIES
        if "rouge_l" not in comparison.measures:
            path.unlink(missing_ok=True)
            return []
        written = {
            label: read_summaries(file.parent)
            for label, file in samples_beside(comparison, cells, folders, SUMMARIES, path).items()
        }
        if not written:
            return []
        with written_whole(path) as unfinished:
            unfinished.write_text(summaries_side_by_side(written), encoding="utf-8")
        return [path.name]


def _has_exact_bound(cell: Cell) -> bool:
    from discrete_diffusion.algorithms import ALGORITHMS

    return getattr(ALGORITHMS.find(cell.config.algo.name), "evaluation_draw", "") == "exact"
