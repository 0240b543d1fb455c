"""A benchmark's result: a JSON file of numbers, and the tables and figures of the docs made of it.

A script measures and then calls ``publish("name", command=..., seed=..., results=...)``. That
writes ``results/name.json``, and what two functions of the script make of it:

* ``sections(record) -> {(page, section): text}``, what stands in a ``Page`` of the docs between
  ``<!-- section: start -->`` and ``<!-- section: end -->``;
* ``figures(record) -> {file: draw(path)}``, pictures of ``docs/images``; may be left out.

They use the record alone, as it is read from the file (keys are strings): whatever a table says,
threads and machine load included, is in it. The script is the one that ``command`` names.
``make results`` does the same for all files of ``results``, and measures nothing; a test compares
pages and files. A new table is one line in a page,
``<!-- section: start --><!-- section: end -->``, and its text comes by itself.
"""

from __future__ import annotations

import json
import os
import platform
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

ROOT = Path(__file__).resolve().parents[1]
SCRIPTS, DOCS = ROOT / "benchmarks", ROOT / "docs"
RESULTS = SCRIPTS / "results"


class Page(StrEnum):
    """The pages of ``docs`` that show results."""

    ALGORITHMS = "results_algorithms.md"
    BOXED = "sharing.md"
    BRIEFS = "briefs.md"
    FLOOR_PLANS = "floor_plans.md"
    GENERATOR = "generator.md"
    LIKELIHOOD = "likelihood.md"
    MOLECULES = "molecules.md"
    NETWORKS = "results_networks.md"
    OTHER_DATA = "results_other_data.md"
    PAIR_DENOISER = "pair_denoiser.md"
    RESULTS = "results.md"
    SAMPLERS = "results_samplers.md"
    SPEED = "results_speed.md"
    STANDARD_SETS = "standard_sets.md"
    STUDIO = "studio.md"
    TEXT = "text.md"


Sections = Mapping[tuple[str, str], str]
"""Texts by page of ``docs`` and name of the section."""
Figures = Mapping[str, Callable[[Path], object]]
"""What draws a picture into a path, by its file name in ``docs/images``."""


@dataclass(frozen=True)
class Record:
    """What ``results/<name>.json`` holds."""

    name: str
    command: str
    seed: int | list[int]
    hardware: str
    results: Any

    @classmethod
    def read(cls, name: str) -> Record:
        return cls(name, **json.loads((RESULTS / f"{name}.json").read_text()))

    @property
    def report(self) -> ModuleType:
        """The script, with ``sections`` and ``figures``."""
        return import_module(Path(self.command.split()[1]).stem)

    def sections(self) -> Sections:
        """None of a script without tables."""
        return self.report.sections(self) if hasattr(self.report, "sections") else {}

    def figures(self) -> Figures:
        return self.report.figures(self) if hasattr(self.report, "figures") else {}


def earlier(name: str) -> Any:
    """What ``results/<name>.json`` holds so far: its results, nothing where there is no file."""
    return Record.read(name).results if (RESULTS / f"{name}.json").exists() else {}


def publish(
    name: str,
    *,
    command: str,
    seed: int | Sequence[int],
    results: Any,
    made_on: str | None = None,
) -> Path:
    """Write ``results/<name>.json``, its sections and its figures; the path of the first. A page
    without such a section is named on stderr: what is yet to be measured goes on. ``made_on``: the
    hardware, where it is not this one."""
    path = write_result(name, command=command, seed=seed, results=results, made_on=made_on)
    record = Record.read(name)
    for (page, section), text in record.sections().items():
        try:
            write_section(page, section, text)
        except ValueError as error:
            print(error, file=sys.stderr)
    for file, draw in record.figures().items():
        draw(DOCS / "images" / file)
    return path


def write_result(
    name: str,
    *,
    command: str,
    seed: int | Sequence[int],
    results: Any,
    made_on: str | None = None,
) -> Path:
    """Write ``results/<name>.json`` alone, as long as some of the numbers are to come."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    on = made_on or hardware()
    record = {"command": command, "seed": seed, "hardware": on, "results": results}
    path.write_text(json.dumps(record, indent=1) + "\n")
    return path


def typed() -> str:
    """The command of this process, its files without their folders."""
    words = [re.sub(r"[^=]*/", "", word) for word in sys.argv[1:]]
    return shlex.join(["python", f"benchmarks/{Path(sys.argv[0]).name}", *words])


def hardware() -> str:
    """Processor, cores, GPU if any, and the versions that decide the speed."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    cpu = names[0] if names else platform.processor() or platform.machine()
    parts = [f"{cpu}, {os.cpu_count()} cores"]
    if torch.cuda.is_available():
        parts.append(torch.cuda.get_device_name())
    return ", ".join([*parts, f"Python {platform.python_version()}", f"torch {torch.__version__}"])


def read_section(page: str, name: str) -> str | None:
    """What stands between the marks of a section of ``docs/page``; None without them."""
    parts = _around(page, name)
    return None if parts is None else parts[1].removeprefix("\n").removesuffix("\n")


def write_section(page: str, name: str, text: str) -> None:
    """Put ``text`` between ``<!-- name: start -->`` and ``<!-- name: end -->`` of ``docs/page``.

    Raises ``ValueError`` without them.
    """
    parts = _around(page, name)
    if parts is None:
        marks = " ... ".join(_marks(name))
        raise ValueError(f"docs/{page} has no section {marks}: write these marks into it")
    (DOCS / page).write_text(f"{parts[0]}\n{text}\n{parts[2]}")


def _marks(name: str) -> tuple[str, str]:
    return f"<!-- {name}: start -->", f"<!-- {name}: end -->"


def _around(page: str, name: str) -> tuple[str, str, str] | None:
    """Up to the start mark, between the marks, from the end mark on."""
    start, end = _marks(name)
    before, found, rest = (DOCS / page).read_text().partition(start)
    inside, closed, after = rest.partition(end)
    return (before + start, inside, end + after) if found and closed else None


def percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> str:
    """The first ``left`` columns are words, the others numbers."""
    marks = ["---" if k < left else "---:" for k in range(len(head))]
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, marks, *rows))
