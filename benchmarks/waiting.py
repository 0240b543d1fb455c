"""How threads wait for each other: spinning, as OpenMP does by itself, or asleep, on a processor
that is idle and on one that is busy with other work.

    python benchmarks/waiting.py [--repeats 3]

Training and sampling run as commands, in turn. Busy means one endless loop per core beside them.
What other programs took of the processor meanwhile is measured too, from ``/proc/stat``: of a
machine that is shared, "idle" is what that column says. Writes ``benchmarks/results/waiting.json``
and a section of ``docs/speed.md``.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from statistics import median
from typing import Any

from record import Record, Sections, markdown_table, publish

WAYS = {
    "spinning": {"GOMP_SPINCOUNT": "300000"},  # what libgomp takes if nothing is set
    "asleep": {"OMP_WAIT_POLICY": "PASSIVE"},  # what the commands set
    "one thread": {"OMP_NUM_THREADS": "1"},
}
WORK = {
    "train": "train trainer.max_steps=10 data.num_plans=500 callbacks.num_samples=0 "
    "eval.num_samples=2 eval.bound_draws=1 logger=none hydra.run.dir={out}",
    "sample": "sample num_samples=40 out={out}",
}
_OTHERS = "OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME", "OMP_NUM_THREADS"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    repeats = parser.parse_args().repeats
    results: dict[str, Any] = {"repeats": repeats, "cores": os.cpu_count()}
    for state, num in (("idle", 0), ("busy", os.cpu_count() or 1)):
        with endless_loops(num):
            results[state] = {name: in_turn(words, repeats) for name, words in WORK.items()}
    command = f"python benchmarks/waiting.py --repeats {repeats}"
    publish("waiting", command=command, seed=0, results=results)


@contextmanager
def endless_loops(num: int) -> Iterator[None]:
    """That many processes that compute all the time, inside the block."""
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(num)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def in_turn(words: str, repeats: int) -> dict[str, dict[str, list[float]]]:
    """Seconds of wall clock and of all cores, of every way to wait; ``others``: cores that other
    programs kept busy."""
    found: dict[str, dict[str, list[float]]]
    found = {way: {"wall": [], "cpu": [], "others": []} for way in WAYS}
    for _ in range(repeats):
        for way, variables in WAYS.items():
            env = {k: v for k, v in os.environ.items() if k not in _OTHERS} | variables
            with tempfile.TemporaryDirectory() as folder:
                command = words.format(out=Path(folder) / "out").split()
                wall, cpu, busy = time.perf_counter(), _cpu(), _machine()
                program = [sys.executable, "-m", "discrete_diffusion", *command]
                subprocess.run(program, env=env, check=True, capture_output=True)
                wall, cpu, busy = time.perf_counter() - wall, _cpu() - cpu, _machine() - busy
            found[way]["wall"].append(wall)
            found[way]["cpu"].append(cpu)
            found[way]["others"].append(max(0.0, busy - cpu) / wall)
            print(f"{command[0]}, {way}: {wall:.1f} s", flush=True)
    return found


def _cpu() -> float:
    """Seconds of all cores that the commands took."""
    used = getrusage(RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _machine() -> float:
    """Seconds of all cores that anything took since the machine started."""
    line = Path("/proc/stat").read_text().partition("\n")[0]
    user, nice, system, _, _, irq, softirq, steal = map(int, line.split()[1:9])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def sections(record: Record) -> Sections:
    """The table of ``docs/speed.md``."""
    rows = []
    for state in ("idle", "busy"):
        for name in WORK:
            ways = record.results[state][name]
            cells = [
                f"{median(ways[way]['wall']):.1f} ({median(ways[way]['cpu']):.1f})" for way in WAYS
            ]
            others = [cores for way in WAYS for cores in ways[way]["others"]]
            rows.append([state, name, *cells, f"{min(others):.1f} to {max(others):.1f}"])
    heads = ["processor", "command", *WAYS, "cores that other programs took"]
    said = (
        f"Seconds of wall clock, in brackets of all cores, start-up included; median of "
        f"{record.results['repeats']} runs in turn. Busy is with {record.results['cores']} endless "
        f"loops beside (`{record.command}`; {record.hardware})."
    )
    return {("speed.md", "waiting"): f"{markdown_table(heads, rows, left=2)}\n\n{said}"}


if __name__ == "__main__":
    main()
