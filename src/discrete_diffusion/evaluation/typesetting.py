"""A table as Markdown, as LaTeX, and in a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

HEAD_WIDTH = 16
"""Characters of a line of a head, where heads have several lines."""

_WIDTH = 10_000
"""Columns of a printed table at most: more than any row takes."""

_ARROWS = {True: " ↑", False: " ↓", None: ""}
"""Behind a head: which way is better."""

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
    """``name``: what chooses it; ``title``: its head without the arrow that ``up`` gives, True
    where more is better, False where less is; ``is_text``: it stands to the left."""

    name: str
    title: str
    up: bool | None = None
    is_text: bool = False

    @property
    def head(self) -> str:
        return self.title + _ARROWS[self.up]


@dataclass(frozen=True)
class Table:
    """``rows``: texts, one per column; ``groups``: numbers of rows of the groups that a rule parts;
    ``best``: (row, column) of the cells in bold."""

    columns: tuple[TableColumn, ...]
    rows: tuple[tuple[str, ...], ...]
    groups: tuple[int, ...]
    best: frozenset[tuple[int, int]] = frozenset()

    @property
    def heads(self) -> list[str]:
        return [column.head for column in self.columns]

    def markdown(self) -> str:
        """The table, its columns of text to the left."""
        rule = ["---" if column.is_text else "---:" for column in self.columns]
        return "\n".join(f"| {' | '.join(row)} |" for row in (self.heads, rule, *self.rows)) + "\n"

    def latex(self, notes: Sequence[str] = ()) -> str:
        r"""A ``tabular`` for ``\input``, with rules of booktabs and the ``notes`` as comments."""
        comments = [r"\usepackage{booktabs} % in the preamble", *notes]
        widths = "".join("l" if column.is_text else "r" for column in self.columns)
        heads = [_latex_head(column) for column in self.columns]
        lines = [r"\begin{tabular}{" + widths + "}", r"\toprule", _latex_row(heads)]
        first = 0
        for num in filter(None, self.groups):
            lines.append(r"\midrule")
            lines += [
                _latex_row([self._latex_cell(row, k) for k in range(len(self.columns))])
                for row in range(first, first + num)
            ]
            first += num
        lines += [r"\bottomrule", r"\end{tabular}"]
        return "\n".join([*(f"% {' '.join(note.split())}" for note in comments), *lines]) + "\n"

    def _latex_cell(self, row: int, k: int) -> str:
        text = self.rows[row][k]
        minus = text.startswith("-") and not self.columns[k].is_text
        shown = "$-$" + escaped(text[1:]) if minus else escaped(text)
        return rf"\textbf{{{shown}}}" if (row, k) in self.best else shown

    def chosen(self, names: Sequence[str]) -> Table:
        """The columns of these names, in this order; those that there are not are left out."""
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
    """Print to standard output, as wide as it needs to be, whatever it is read on. ``left``: the
    columns of text."""
    from rich import box
    from rich.console import Console
    from rich.table import Table as PrintedTable

    table = PrintedTable(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for k, head in enumerate(heads):
        table.add_column(head, justify="left" if k in left else "right", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    Console(highlight=False, width=_WIDTH).print(table)


def escaped(text: str) -> str:
    """The text as LaTeX sets it."""
    return text.translate(_LATEX)


def _latex_row(cells: Sequence[str]) -> str:
    return " & ".join(cells) + r" \\"


def _latex_head(column: TableColumn) -> str:
    lines = [escaped(line) for line in textwrap.wrap(column.head, HEAD_WIDTH)]
    if len(lines) < 2:
        return "".join(lines)
    stacked, side = "\\\\".join(lines), "l" if column.is_text else "r"
    return rf"\shortstack[{side}]{{{stacked}}}"
