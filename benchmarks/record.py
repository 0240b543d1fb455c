"""A benchmark's result: a JSON file of numbers, and the tables and figures made of it.

A script measures and then calls ``publish("name", command=..., seed=..., results=...)``. That
writes ``results/name.json``, and what two functions of the script make of it:

* ``sections(record) -> {(part, name): text}``, tables of ``REPORT.md``, by part and name;
* ``figures(record) -> {file: draw(path)}``, pictures of ``docs/images``; may be left out.

They use the record alone, as it is read from the file (keys are strings): whatever a table says,
threads and machine load included, is in it. The script is the one that ``command`` names.
``make results`` does the same for all files of ``results``, and measures nothing; a test compares
the report and the files. Title, caption and pictures of a table are written by hand under
``"tables"`` of the file, by the table's name; a new measurement keeps them.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

ROOT = Path(__file__).resolve().parents[1]
SCRIPTS, DOCS = ROOT / "benchmarks", ROOT / "docs"
RESULTS, REPORT = SCRIPTS / "results", SCRIPTS / "REPORT.md"


class Part(StrEnum):
    """The parts of the report, in its order."""

    DEMO = "Demo and quality"
    NETWORKS = "Networks on plans"
    ALGORITHMS = "Algorithms"
    SAMPLERS = "Samplers"
    SPEED = "Speed"
    TEXT = "Text"
    GRAPHS = "Graphs and molecules"
    OTHER_DATA = "Regions, images, dialogues"
    PLANS = "Briefs and floor plans"
    LIKELIHOOD = "Likelihood"


Sections = Mapping[tuple[Part, str], str]
"""Texts by part of the report and name of the table."""
Figures = Mapping[str, Callable[[Path], object]]
"""What draws a picture into a path, by its file name in ``docs/images``."""

INTRODUCTION = """\
# All numbers

`make results` writes this page from `benchmarks/results/*.json`; captions alone are written by
hand. Under each title stand the command, seed, processor, commit and date of its numbers. Files
that a command reads, such as `plans.jsonl`, are the reader's own.
[Measure and compare](../docs/measure.md) says what the quantities are. Unless a table says
otherwise, bounds are in nats per diagram whatever the order of its rooms, and ± is one standard
error. *Embedded* plans come from the package's generator, *real* ones from a file of the reader;
the *model in the box* is the pretrained `plans-small`.
"""


@dataclass(frozen=True)
class Record:
    """What ``results/<name>.json`` holds.

    ``date`` and ``commit`` are those of the measurement. ``tables``: by the name of a section, its
    ``title``, ``caption`` and ``images`` (file names in ``docs/images``), each may be missing.
    """

    name: str
    command: str
    seed: int | list[int]
    hardware: str
    results: Any
    date: str = ""
    commit: str = ""
    tables: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @classmethod
    def read(cls, name: str) -> Record:
        return cls(name, **json.loads((RESULTS / f"{name}.json").read_text()))

    @property
    def report(self) -> ModuleType:
        """The script, with ``sections`` and ``figures``."""
        return import_module(Path(self.command.split()[1]).stem)

    def sections(self) -> Sections:
        """Tables by part and name; a script without tables has none."""
        return self.report.sections(self) if hasattr(self.report, "sections") else {}

    def figures(self) -> Figures:
        return self.report.figures(self) if hasattr(self.report, "figures") else {}

    def shown(self, name: str, text: str) -> str:
        """A section of the report: title, source, caption, text and pictures."""
        table = self.tables.get(name, {})
        title = table.get("title") or name[:1].upper() + name[1:].replace("_", " ")
        seeds = self.seed if isinstance(self.seed, list) else [self.seed]
        said = f"seed{'s' * (len(seeds) > 1)} {', '.join(map(str, seeds))}"
        source = f"`{self.command}`, {said}; {self.hardware}; commit `{self.commit}`, {self.date}"
        pictures = [f"![{title}](../docs/images/{file})" for file in table.get("images", [])]
        parts = [f"### {title}", source, table.get("caption", ""), text, *pictures]
        return "\n\n".join(part for part in parts if part)


def records() -> list[Record]:
    return [Record.read(path.stem) for path in sorted(RESULTS.glob("*.json"))]


def report_text(records: Iterable[Record]) -> str:
    """The report: by part, in the order of the names of the files."""
    by_part: dict[Part, list[str]] = {part: [] for part in Part}
    for record in records:
        for (part, name), text in record.sections().items():
            by_part[part].append(record.shown(name, text))
    parts = ["\n\n".join([f"## {part}", *texts]) for part, texts in by_part.items() if texts]
    return "\n\n".join([INTRODUCTION.rstrip(), *parts]) + "\n"


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
    """Write ``results/<name>.json``, the report and the figures; the path of the first. Captions
    that are kept are named on stderr: they were written for other numbers. ``made_on``: the
    hardware, where it is not this one."""
    path = write_result(name, command=command, seed=seed, results=results, made_on=made_on)
    record = Record.read(name)
    for section, table in record.tables.items():
        print(f"{path.name}, {section!r}: is the caption still true? {table}", file=sys.stderr)
    REPORT.write_text(report_text(records()))
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
    words = ["git", "-C", str(ROOT), "rev-parse", "--short=8", "HEAD"]
    commit = subprocess.run(words, capture_output=True, text=True, check=False)
    record = {
        "command": command,
        "seed": seed,
        "hardware": made_on or hardware(),
        "date": datetime.now(UTC).date().isoformat(),
        "commit": commit.stdout.strip() or "unknown",  # outside a repository
    }
    if path.exists() and (tables := json.loads(path.read_text()).get("tables")):
        record["tables"] = tables
    path.write_text(json.dumps(record | {"results": results}, indent=1) + "\n")
    return path


def typed() -> str:
    """The command of this process, its files without their folders."""
    words = [re.sub(r"[^=]*/", "", word) for word in sys.argv[1:]]
    return shlex.join(["python", f"benchmarks/{Path(sys.argv[0]).name}", *words])


def hardware() -> str:
    """Processor with its generation, cores, GPU if any, and the versions that decide the speed."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    said = {key.strip(): value.strip() for key, _, value in (x.partition(":") for x in lines)}
    cpu = said.get("model name") or platform.processor() or platform.machine()
    # a name such as AMD EPYC is that of several generations
    which = [f"{key} {said[key]}" for key in ("cpu family", "model") if key in said]
    which.append(torch.backends.cpu.get_cpu_capability())
    parts = [f"{cpu} ({', '.join(which)}), {os.cpu_count()} cores"]
    if torch.cuda.is_available():
        parts.append(torch.cuda.get_device_name())
    return ", ".join([*parts, f"Python {platform.python_version()}", f"torch {torch.__version__}"])


def command_line(
    doc: str | None, *, threads: int | None = None, keep: bool = False, quick: bool = False
) -> argparse.ArgumentParser:
    """Parser of a script's words, described by the first line of its docstring. ``threads``:
    default of ``--threads``; without it, as without ``keep`` and ``quick``, there is no such
    option."""
    parser = argparse.ArgumentParser(description=(doc or "").splitlines()[0])
    if threads is not None:
        parser.add_argument("--threads", type=int, default=threads)
    if keep:
        parser.add_argument("--keep", type=Path, help="folder of what is kept, and not made again")
    if quick:
        parser.add_argument("--quick", action="store_true", help="only check that it runs")
    return parser


def digest_of_code(*parts: str) -> str:
    """16 hex digits of the modules of the framework, or of those folders of it."""
    package, digest = ROOT / "src" / "discrete_diffusion", hashlib.sha256()
    for folder in parts or ("",):
        for path in sorted((package / folder).rglob("*.py")):
            digest.update(path.relative_to(package).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> str:
    """The first ``left`` columns are words, the others numbers."""
    marks = ["---" if k < left else "---:" for k in range(len(head))]
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, marks, *rows))
