"""The table of an evaluation: every metric beside its interval and what real data scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from discrete_diffusion.evaluation.bound import BoundBySize
from discrete_diffusion.evaluation.intervals import plus_minus
from discrete_diffusion.evaluation.likelihood import BoundByOrders, OrderLikelihood
from discrete_diffusion.evaluation.model_scores import ModelScores

COLUMNS = ("metric", "value", "real data", "ratio")


@dataclass(frozen=True)
class TableRow:
    """One metric, or what else the section's heads say.

    ``value``: with its 95 % interval over seeds (or standard error), ``real``: the floor of a
    distance, else the reference's own value; ``ratio``: value / floor, of distances. Texts, ""
    where there is nothing. ``others``: further cells, under further heads.
    """

    name: str
    value: str
    real: str = ""
    ratio: str = ""
    meaning: str = ""
    others: tuple[str, ...] = field(default=(), kw_only=True)

    @property
    def cells(self) -> tuple[str, ...]:
        """Texts of the row, one under each head."""
        return (self.name, self.value, self.real, self.ratio, *self.others)


@dataclass(frozen=True)
class TableSection:
    """Rows under a heading. ``heads``: what stands above their cells."""

    title: str
    rows: tuple[TableRow, ...]
    heads: tuple[str, ...] = COLUMNS

    @property
    def columns(self) -> tuple[str, ...]:
        """The heads up to the last that any row fills."""
        filled = [k for row in self.rows for k, cell in enumerate(row.cells) if cell]
        return self.heads[: max(filled, default=1) + 1]


def model_sections(scores: ModelScores | None) -> list[TableSection]:
    """The bound and the calibration errors; the bound by size, if samples differ in size."""
    if scores is None:
        return []
    several = len(scores.by_size.estimates) > 1
    by_size = [_by_size_section(scores.by_size)] if several else []
    by_orders = [] if scores.paths.orders is None else [_by_orders_section(scores.paths.orders)]
    return [_model_section(scores), *by_size, *by_orders]


def _by_orders_section(by_orders: BoundByOrders) -> TableSection:
    rows = []
    for num, bound in by_orders.bounds.items():
        _, value, error = bound.headline
        gain, of_gain = by_orders.below[num]
        below = f"{gain:.3f} ± {of_gain:.3f}" if num > 1 else ""
        rows.append(TableRow(str(num), plus_minus(value, error), below))
    return TableSection(
        "the bound by number of orders",
        tuple(rows),
        heads=("orders", f"nelbo_{by_orders.quantity}", "below one order"),
    )


def _likelihood_rows(found: OrderLikelihood) -> list[TableRow]:
    nll = found.nll
    rows = [
        TableRow(
            f"nll_{nll.quantity}_{found.name}",
            plus_minus(nll.per_sample, nll.standard_error),
            meaning=f"-log p of the sequence under {found.sampler}, nats (± standard error)",
        )
    ]
    if nll.unordered is not None:
        rows.append(
            TableRow(
                f"nelbo_unordered_{found.name}",
                plus_minus(nll.unordered, nll.unordered_standard_error),
                meaning="the bound on -log p of the unordered sample that follows, nats",
            )
        )
    return rows


def _by_size_section(by_size: BoundBySize) -> TableSection:
    rows = []
    for size, estimate in by_size.estimates.items():
        quantity, value, error = estimate.headline
        shown = plus_minus(value, error)
        per_token = f"{estimate.headline_per_token:.4f}"
        rows.append(TableRow(str(size), shown, f"{estimate.num_samples:,}", per_token))
    return TableSection(
        f"the model by number of {by_size.unit}",
        tuple(rows),
        heads=(by_size.unit, f"nelbo_{quantity}", "held-out samples", "per token"),
    )


def _model_section(scores: ModelScores) -> TableSection:
    bound, base = scores.bound, scores.baselines
    quantity, value, error = bound.headline
    of = "the unordered sample" if quantity == "unordered" else "the sequence"
    rows = [
        TableRow(
            f"nelbo_{quantity}",
            plus_minus(value, error),
            meaning=f"held-out bound on -log p of {of}, nats (± standard error)",
        ),
        TableRow(
            f"nelbo_{bound.quantity}_per_token",
            f"{bound.per_token:.4f}",
            meaning="the bound of the sequence in its node order, nats per token",
        ),
    ]
    meanings = {
        "bits_per_character": "the bound per character in bits, each window by itself",
        "bits_per_character_standard_error": "its standard error over windows",
        "bits_per_byte": "the bound per byte in bits",
        "perplexity_per_word": "exp of the bound per word, each window by itself",
        "nelbo_blind": "what knowing only the frequencies of ids costs, nats",
        "nelbo_uniform": "what knowing nothing costs, nats",
        "nelbo_blind_ordered_fixed": "the same in one order, as the bound of the model is, nats",
        "nelbo_uniform_ordered_fixed": "the same in one order: the model before training, nats",
    }
    if scores.tail is not None and scores.tail.is_doubtful:
        meaning = "of the noise draws of the bound, those that its error is made of; see below"
        shown = f"{scores.tail.effective:.1f}"
        rows.append(TableRow("nelbo_effective_draws", shown, meaning=meaning))
    rows += [] if scores.paths.likelihood is None else _likelihood_rows(scores.paths.likelihood)
    rows += [
        TableRow(k, f"{v:.4f}", meaning=meanings.get(k, "")) for k, v in scores.further.items()
    ]
    rows += [TableRow(k, f"{v:.3f}", meaning=meanings.get(k, "")) for k, v in base.items()]
    gaps = scores.calibration.error.nanmean(dim=0)
    rows += [
        TableRow(
            f"calibration_error_{group}",
            f"{float(gaps[g]):.4f}",
            meaning=f"expected gap between predicted and observed ({group}), mean over shares",
        )
        for g, group in enumerate(scores.calibration.groups)
        if not gaps[g].isnan()
    ]
    return TableSection("the model on held-out data", tuple(rows))


def model_notes(scores: ModelScores | None) -> list[str]:
    """Notes on what the numbers of ``model_sections`` are, in sentences."""
    if scores is None:
        return ["bound_draws=0: the samples alone were measured, not the model on held-out data."]
    num = scores.bound.num_samples
    notes = [f"± of the bound is its standard error over {num:,} held-out samples."]
    if scores.tail is not None and scores.tail.is_doubtful:
        notes.append(scores.tail.warning())
    return notes


def markdown(sections: Sequence[TableSection], notes: Sequence[str], head: str = "") -> str:
    """The sections as one table each, with the meaning of every row; then the notes. ``head``: a
    sentence above them."""
    lines = [head, ""] if head else []
    for section in sections:
        lines += [f"## {section.title[0].upper()}{section.title[1:]}", ""]
        width = len(section.columns)
        lines.append("| " + " | ".join((*section.columns, "meaning")) + " |")
        lines.append("|---|" + "---:|" * (width - 1) + "---|")
        lines += [
            "| " + " | ".join((*row.cells[:width], row.meaning)) + " |" for row in section.rows
        ]
        lines.append("")
    return "\n".join([*lines, *(f"* {note}" for note in notes)]) + "\n"
