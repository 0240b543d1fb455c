"""How threads wait for each other: spinning, as OpenMP does by itself, or asleep, on a processor
that is left alone and on one that endless loops keep busy.

    python benchmarks/waiting.py [--repeats 3] [--commands train sample]

Training and sampling run as commands, in turn, without loops beside them and with one per core.
What other programs, loops included, took of the processor meanwhile is measured, from
``/proc/stat``, since a machine may be shared. Every round is published in
``benchmarks/results/waiting.json`` and a table of the report.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from statistics import median
from typing import Any

from record import Part, Record, Sections, command_line, markdown_table, publish

WAYS = {
    "spinning": {"GOMP_SPINCOUNT": "300000"},  # what libgomp takes if nothing is set
    "asleep": {"OMP_WAIT_POLICY": "PASSIVE"},  # what the commands set
    "one thread": {"OMP_NUM_THREADS": "1"},
}
WORK = {
    "train": "train trainer.max_steps=10 data.num_plans=500 callbacks.num_samples=0 "
    "eval.num_samples=2 eval.noise_samples=1 logger=none hydra.run.dir={out}",
    "sample": "sample num_samples=40 out={out}",
}
_OTHERS = "OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME", "OMP_NUM_THREADS"


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--commands", nargs="+", choices=WORK, default=list(WORK))
    given, cores = parser.parse_args(), os.cpu_count() or 1
    states = {"alone": 0, "busy": cores}
    found: dict[str, Any]
    found = {s: {name: {way: [] for way in WAYS} for name in given.commands} for s in states}
    for repeat in range(given.repeats):
        for state, num in states.items():
            with endless_loops(num):
                for name, way in product(given.commands, WAYS):
                    found[state][name][way].append(times := measured(WORK[name], way))
                    print(f"{state}, {name}, {way}: {times}", flush=True)
        options = f"--repeats {repeat + 1} --commands {' '.join(given.commands)}"
        command = f"python benchmarks/waiting.py {options}"
        publish("waiting", command=command, seed=0, results={"cores": cores, **found})


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


def measured(words: str, way: str) -> dict[str, float]:
    """Seconds of wall clock and of all cores that a command takes; ``others``: cores that other
    programs kept busy meanwhile."""
    env = {k: v for k, v in os.environ.items() if k not in _OTHERS} | WAYS[way]
    with tempfile.TemporaryDirectory() as folder:
        command = words.format(out=Path(folder) / "out").split()
        wall, cpu, busy = time.perf_counter(), _cpu(), _machine()
        program = [sys.executable, "-m", "discrete_diffusion", *command]
        subprocess.run(program, env=env, check=True, capture_output=True)
        wall, cpu, busy = time.perf_counter() - wall, _cpu() - cpu, _machine() - busy
    return {"wall": wall, "cpu": cpu, "others": max(0.0, busy - cpu) / wall}


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
    """Seconds of each command, threads asleep or spinning."""
    rows, cores = [], record.results["cores"]
    for state, loops in (("alone", "none"), ("busy", str(cores))):
        for name, ways in record.results[state].items():
            cells = [
                "{:.1f} ({:.1f})".format(
                    *(median(each[key] for each in ways[way]) for key in ("wall", "cpu"))
                )
                for way in WAYS
            ]
            others = [each["others"] for way in WAYS for each in ways[way]]
            rows.append([loops, name, *cells, f"{min(others):.1f} to {max(others):.1f}"])
    heads = ["endless loops beside", "command", *WAYS, "cores that all other programs took"]
    num = len(ways["asleep"])  # of every row
    said = (
        f"Seconds of wall clock, in brackets of all cores, start-up included"
        f"{f', median of {num} runs in turn' if num > 1 else ', one run each'}; of {cores} cores."
    )
    return {(Part.SPEED, "waiting"): f"{markdown_table(heads, rows, left=2)}\n\n{said}"}


if __name__ == "__main__":
    main()
