"""Tables as Markdown, as LaTeX and in a terminal; numbers as JSON, which has no NaN."""

from __future__ import annotations

import json
import logging
import math
import textwrap
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from pathlib import Path
from typing import Any

from torch import Tensor

from discrete_diffusion.runtime.atomic_files import write_text

COLUMNS = ("metric", "value", "real data", "ratio")


@dataclass(frozen=True)
class TableRow:
    """Row of a table: one metric, or other texts under the heads of the section.

    ``value``: value with its standard error; ``real``: the real-vs-real value of a distance, else
    the value of the reference; ``ratio``: value / real for distances. A missing text is empty.
    ``others``: cells under further heads. ``detail``: True if shown only in ``table.md``, not in
    the terminal.
    """

    name: str
    value: str
    real: str = ""
    ratio: str = ""
    meaning: str = ""
    others: tuple[str, ...] = field(default=(), kw_only=True)
    detail: bool = field(default=False, kw_only=True)

    @property
    def cells(self) -> tuple[str, ...]:
        """Texts of the row, one for each head."""
        return (self.name, self.value, self.real, self.ratio, *self.others)


@dataclass(frozen=True)
class TableSection:
    """Rows under a title; ``heads``: heads of the columns."""

    title: str
    rows: tuple[TableRow, ...]
    heads: tuple[str, ...] = COLUMNS

    @property
    def columns(self) -> tuple[str, ...]:
        """Heads up to the last column that is not empty."""
        filled = [k for row in self.rows for k, cell in enumerate(row.cells) if cell]
        return self.heads[: max(filled, default=1) + 1]


def markdown(sections: Sequence[TableSection], notes: Sequence[str], head: str = "") -> str:
    """Format each section as a table with the meaning of every row; then the notes.

    ``head``: a sentence above them.
    """
    lines = [head, ""] if head else []
    # a table per section
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


HEAD_WIDTH = 16
"""Characters per line of a head."""

_ARROWS = {True: " ↑", False: " ↓", None: ""}
"""Arrow behind a head: the direction that is better."""

_LATEX = str.maketrans(
    {
        **{sign: f"\\{sign}" for sign in "&%$#_{}"},
        **{sign: f"${sign}$" for sign in "<>|"},
        **{"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"},
        **{"±": r"$\pm$", "–": "--", "↑": r"$\uparrow$", "↓": r"$\downarrow$"},
    }
)


@dataclass(frozen=True)
class TableColumn:
    """Column of a table.

    ``name``: name by which it is chosen; ``title``: head without the arrow; ``up``: gives the
    arrow, True if more is better, False if less is; ``is_text``: True if aligned to the left.
    """

    name: str
    title: str
    up: bool | None = None
    is_text: bool = False

    @property
    def head(self) -> str:
        return self.title + _ARROWS[self.up]


@dataclass(frozen=True)
class Table:
    """Table of texts.

    ``rows``: one text per column; ``groups``: numbers of rows between horizontal rules; ``best``:
    (row, column) of the cells in bold.
    """

    columns: tuple[TableColumn, ...]
    rows: tuple[tuple[str, ...], ...]
    groups: tuple[int, ...]
    best: frozenset[tuple[int, int]] = frozenset()

    @property
    def heads(self) -> list[str]:
        return [column.head for column in self.columns]

    def markdown(self) -> str:
        """Format as Markdown, with columns of text aligned to the left."""
        rule = ["---" if column.is_text else "---:" for column in self.columns]
        return "\n".join(f"| {' | '.join(row)} |" for row in (self.heads, rule, *self.rows)) + "\n"

    def latex(self, notes: Sequence[str] = ()) -> str:
        r"""Format as a ``tabular`` for ``\input``, with booktabs and ``notes`` as comments."""
        comments = [r"\usepackage{booktabs} % in the preamble", *notes]
        widths = "".join("l" if column.is_text else "r" for column in self.columns)
        # long heads have several lines
        heads = []
        for side, column in zip(widths, self.columns, strict=True):
            stacked = [escape_latex(line) for line in textwrap.wrap(column.head, HEAD_WIDTH)]
            head = r"\\".join(stacked)
            heads.append(rf"\shortstack[{side}]{{{head}}}" if len(stacked) > 1 else head)
        # cells: a minus sign for numbers, the best in bold
        rows = []
        for row, cells in enumerate(self.rows):
            shown = []
            for k, text in enumerate(cells):
                minus = text.startswith("-") and not self.columns[k].is_text
                cell = "$-$" + escape_latex(text[1:]) if minus else escape_latex(text)
                shown.append(rf"\textbf{{{cell}}}" if (row, k) in self.best else cell)
            rows.append(" & ".join(shown) + r" \\")
        # heads, then groups of rows between rules
        lines = [r"\begin{tabular}{" + widths + "}", r"\toprule", " & ".join(heads) + r" \\"]
        for num, end in zip(self.groups, accumulate(self.groups), strict=True):
            lines += [r"\midrule", *rows[end - num : end]] if num else []
        lines += [r"\bottomrule", r"\end{tabular}"]
        return "\n".join([*(f"% {' '.join(note.split())}" for note in comments), *lines]) + "\n"

    def chosen(self, names: Sequence[str]) -> Table:
        """Choose the columns of these names, in this order; unknown names are left out."""
        places = {column.name: k for k, column in enumerate(self.columns)}
        kept = [places[name] for name in names if name in places]
        return replace(
            self,
            columns=tuple(self.columns[k] for k in kept),
            rows=tuple(tuple(row[k] for k in kept) for row in self.rows),
            best=frozenset((row, kept.index(k)) for row, k in self.best if k in kept),
        )


def print_table(
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    left: Collection[int] = (0,),
    title: str | None = None,
) -> None:
    """Print a table to standard output, as wide as its rows.

    ``left``: columns aligned to the left.
    """
    from rich import box
    from rich.console import Console
    from rich.table import Table as PrintedTable

    # no line breaks in cells, nor in rows, which are all shorter than the console
    table = PrintedTable(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for k, head in enumerate(heads):
        table.add_column(head, justify="left" if k in left else "right", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    Console(highlight=False, width=10_000).print(table)


def escape_latex(text: str) -> str:
    """Escape a text for LaTeX."""
    return text.translate(_LATEX)


logger = logging.getLogger(__name__)


def rounded(values: Tensor, digits: int = 6) -> list[float | None]:
    """List the numbers of a vector with ``digits`` significant digits; None if not finite."""
    return [
        float(f"{value:.{digits}g}") if math.isfinite(value) else None for value in values.tolist()
    ]


def finite_or_none(value: Any) -> Any:
    """Replace every NaN and infinity by None, in dicts and lists too."""
    if isinstance(value, dict):
        return {key: finite_or_none(item) for key, item in value.items()}
    if isinstance(value, list):
        return [finite_or_none(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def write_metrics(folder: Path, metrics: dict[str, Any]) -> None:
    """Write ``metrics.json`` into ``folder`` in one piece; warn of names whose value is null."""
    written = finite_or_none(metrics)
    if lost := [name for name in metrics if written[name] != metrics[name]]:
        logger.warning("not finite, so null in metrics.json: %s", ", ".join(lost))
    write_json(folder / "metrics.json", written, indent=2)


def write_json(path: Path, content: Mapping[str, Any], *, indent: int = 1) -> None:
    """Write a JSON object in one piece, so that no reader sees half of it."""
    write_text(path, json.dumps(content, indent=indent, allow_nan=False) + "\n")


def read_json(path: Path, keys: Collection[str]) -> dict[str, Any] | None:
    """Read a JSON object; None if the file is missing, or lacks one of ``keys``."""
    try:
        content = json.loads(path.read_text())
    except (FileNotFoundError, ValueError):
        return None
    return content if isinstance(content, dict) and {*keys} <= content.keys() else None
