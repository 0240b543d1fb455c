"""How a benchmark's result is kept: command, seed and hardware beside the numbers."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"


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


def write_result(name: str, *, command: str, seed: int | Sequence[int], results: Any) -> Path:
    """Write ``results/<name>.json``."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    record = {"command": command, "seed": seed, "hardware": hardware(), "results": results}
    path.write_text(json.dumps(record, indent=1) + "\n")
    return path


def write_section(page: str, name: str, text: str) -> None:
    """Put ``text`` between ``<!-- name: start -->`` and ``<!-- name: end -->`` of ``docs/page``."""
    path, start, end = ROOT / "docs" / page, f"<!-- {name}: start -->", f"<!-- {name}: end -->"
    before, found, rest = path.read_text().partition(start)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise ValueError(f"docs/{page} has no section {start} ... {end}")
    path.write_text(f"{before}{start}\n{text}\n{end}{after}")


def percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> str:
    """The first ``left`` columns are words, the others numbers."""
    marks = ["---" if k < left else "---:" for k in range(len(head))]
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, marks, *rows))
