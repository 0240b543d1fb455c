"""Plans files: read bubble diagrams from JSON lines, write them back."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from discrete_diffusion.data.bubble_diagrams.diagram import BubbleDiagram
from discrete_diffusion.data.bubble_diagrams.fields import DiagramError
from discrete_diffusion.data.bubble_diagrams.geometry import DEFAULT_THRESHOLD
from discrete_diffusion.data.bubble_diagrams.line_formats import parse_plan
from discrete_diffusion.data.bubble_diagrams.whole_files import written_whole
from discrete_diffusion.layout import RPLAN_VOCAB_CONFIG

logger = logging.getLogger(__name__)


class SkippedLine(NamedTuple):
    """A line (numbered from 1) that was left out, the field that is wrong in it, and why."""

    line: int
    field: str
    reason: str

    def sentence(self, path: Path) -> str:
        where = "" if self.field == "line" else f", field '{self.field}'"
        return f"{path}, line {self.line}{where}: {self.reason}"


@dataclass(frozen=True)
class ReadReport:
    """What ``read_report`` returns.

    ``diagrams``: in file order. ``num_lines``: lines in the file, so that
    ``num_lines = len(diagrams) + len(skipped) + num_duplicates``.
    ``skipped``: the lines left out as invalid. ``num_duplicates``: lines the file itself flags as
    duplicates.
    """

    path: Path
    diagrams: tuple[BubbleDiagram, ...]
    num_lines: int
    skipped: tuple[SkippedLine, ...]
    num_duplicates: int

    def summary(self) -> str:
        """One sentence: how many diagrams were read, what was left out, the first reason."""
        text = f"{self.path}: {len(self.diagrams)} diagrams from {self.num_lines} lines"
        if self.num_duplicates:
            text += f"; {self.num_duplicates} flagged as duplicates left out"
        if self.skipped:
            first = self.skipped[0].sentence(self.path)
            text += f"; {len(self.skipped)} invalid left out, the first: {first}"
        return text


def read_diagrams(
    path: str | os.PathLike[str],
    *,
    skip_invalid: bool = False,
    n_max: int = RPLAN_VOCAB_CONFIG.n_max,
    threshold: float = DEFAULT_THRESHOLD,
) -> list[BubbleDiagram]:
    """The diagrams of a JSON lines file, in file order; see ``read_report``.

    Lines left out (invalid ones under ``skip_invalid``, flagged duplicates) are logged.
    """
    report = read_report(path, skip_invalid=skip_invalid, n_max=n_max, threshold=threshold)
    if report.skipped or report.num_duplicates:
        logger.log(logging.WARNING if report.skipped else logging.INFO, "%s", report.summary())
    return list(report.diagrams)


def read_report(
    path: str | os.PathLike[str],
    *,
    skip_invalid: bool = False,
    n_max: int = RPLAN_VOCAB_CONFIG.n_max,
    threshold: float = DEFAULT_THRESHOLD,
) -> ReadReport:
    """Read a JSON lines file of plans and account for every line.

    The format is told line by line: our interchange format ({"rooms", "relations"}), plans given
    as boxes ({"rooms" or "room_type", "boxes"}: relations by the geometric rule with ``threshold``
    in the boxes' unit), or rendered plans with coarse room codes ({"room_type", "boxes", "rel"}).

    Raises ``FileNotFoundError`` naming the path looked for, and ``ValueError`` naming file, line,
    field and reason for the first invalid line (unless ``skip_invalid``: then the report lists
    it), a diagram with more than ``n_max`` rooms, or an empty file.
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"no plans file at {path.absolute()}")
    if path.is_dir():
        raise ValueError(f"{path} is a folder; give the path of a JSON lines file in it")
    diagrams: list[BubbleDiagram] = []
    skipped: list[SkippedLine] = []
    num_lines = num_duplicates = 0
    with path.open("rb") as lines:
        for num_lines, line in enumerate(lines, start=1):
            try:
                diagram = parse_plan(
                    _load_json(line.removeprefix(b"\xef\xbb\xbf")), n_max=n_max, threshold=threshold
                )
            except DiagramError as error:
                found = SkippedLine(num_lines, error.field, error.reason)
                if not skip_invalid:
                    raise ValueError(found.sentence(path)) from error
                skipped.append(found)
                continue
            if diagram is None:
                num_duplicates += 1
            else:
                diagrams.append(diagram)
    if num_lines == 0:
        raise ValueError(f"{path}: the file is empty; expected one JSON object per line")
    return ReadReport(path, tuple(diagrams), num_lines, tuple(skipped), num_duplicates)


def _load_json(line: bytes) -> Any:
    """The JSON value of one line; ``DiagramError`` about the "line" if there is none."""
    if not line.strip():
        raise DiagramError("line", "the line is empty; expected a JSON object")
    try:
        return json.loads(line.decode("utf-8"))
    except UnicodeDecodeError as error:
        byte = line[error.start]
        raise DiagramError(
            "line", f"not UTF-8 text: byte 0x{byte:02x} at position {error.start}"
        ) from error
    except json.JSONDecodeError as error:
        raise DiagramError(
            "line", f"not valid JSON, or cut short: {error.msg} at character {error.pos}"
        ) from error
    except ValueError as error:  # an integer of more digits than Python reads
        raise DiagramError("line", f"not valid JSON: {error}") from error
    except RecursionError as error:
        raise DiagramError("line", "not valid JSON: nested too deeply") from error


def write_diagrams(path: str | os.PathLike[str], diagrams: Iterable[BubbleDiagram]) -> None:
    """Write diagrams as JSON lines with names; the file appears whole or not at all.

    Missing folders are made. ``read_diagrams`` reads the file back to equal diagrams. Raises
    ``ValueError`` naming the diagram whose metadata cannot be written as JSON.
    """
    with (
        written_whole(Path(path)) as unfinished,
        unfinished.open("w", encoding="utf-8", newline="\n") as file,
    ):
        for k, diagram in enumerate(diagrams):
            try:
                line = json.dumps(diagram.to_json(), allow_nan=False)
            except (TypeError, ValueError, RecursionError) as error:
                raise ValueError(
                    f"diagram {k}: its metadata cannot be written as JSON ({error})"
                ) from error
            file.write(line + "\n")
