"""The studio under load: its latency alone, then many clients at once, and its memory.

    python benchmarks/serving.py [--checkpoint plans-small] [--clients 32] [--seconds 60]

Starts ``discrete-diffusion studio`` on a free port of this machine. Every request completes a
diagram of eight rooms, four of them given with their relations, four times.
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
import statistics
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import httpx

from discrete_diffusion.domains.bubble_diagrams import generate_plans
from record import Page, Record, markdown_table, publish

ALONE = 30
"""Requests one after the other."""

COMPLETIONS = 4


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checkpoint", default="plans-small")
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    bodies = partial_bodies(64, options.seed)
    address, server = started(options.checkpoint, options.threads)
    try:
        with httpx.Client(base_url=address, timeout=120) as client:
            for body in bodies[:5]:
                client.post("/api/complete", json=body).raise_for_status()
            alone = [timed(client, body)[1] for body in bodies[:ALONE]]
        load = under_load(address, server.pid, bodies, options.clients, options.seconds)
    finally:
        server.send_signal(signal.SIGTERM)
        stopped = time.perf_counter()
        server.wait(60)
    results = {
        "model": options.checkpoint,
        "threads": options.threads,
        "load_average": os.getloadavg()[0],
        "alone": {"num": ALONE, **quantiles(alone)},
        "load": load,
        "seconds_to_stop": time.perf_counter() - stopped,
    }
    command = (
        f"python benchmarks/serving.py --checkpoint {options.checkpoint} --clients "
        f"{options.clients} --seconds {options.seconds:g} --threads {options.threads}"
    )
    publish("serving", command=command, seed=options.seed, results=results)


def partial_bodies(num: int, seed: int) -> list[dict[str, Any]]:
    """Requests to complete plans of the generator of which half of the rooms are known."""
    random = Random(seed)
    plans = [plan for plan in generate_plans(10 * num, seed=seed) if plan.num_rooms == 8][:num]
    bodies = []
    for number, plan in enumerate(plans):
        kept = set(random.sample(range(8), 4))
        known = [(i, j, name) for i, j, name in plan.to_json()["relations"] if {i, j} <= kept]
        rooms = [name if k in kept else None for k, name in enumerate(plan.room_names)]
        given = {"rooms": rooms, "relations": known}
        bodies.append({"given": given, "completions": COMPLETIONS, "seed": number})
    return bodies


def started(checkpoint: str, threads: int) -> tuple[str, subprocess.Popen[bytes]]:
    """A studio that answers."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = [f"checkpoint={checkpoint}", f"port={port}", f"threads={threads}", "open=false"]
    server = subprocess.Popen(
        [sys.executable, "-m", "discrete_diffusion", "studio", *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    address = f"http://127.0.0.1:{port}"
    for _ in range(300):
        try:
            httpx.get(f"{address}/healthz").raise_for_status()
            return address, server
        except httpx.HTTPError:
            time.sleep(0.2)
            if server.poll() is not None:
                break
    raise RuntimeError("the studio did not start")


def timed(client: httpx.Client, body: dict[str, Any]) -> tuple[int, float]:
    """Status and seconds of a request."""
    start = time.perf_counter()
    answer = client.post("/api/complete", json=body)
    return answer.status_code, time.perf_counter() - start


@dataclass
class Seen:
    """What the clients saw."""

    seconds: list[float] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)


def under_load(
    address: str, pid: int, bodies: list[dict[str, Any]], clients: int, seconds: float
) -> dict[str, Any]:
    """Each client asks again as soon as it is answered; one who is sent away waits as told."""
    seen, end = Seen(), time.perf_counter() + seconds

    def work(number: int) -> None:
        turn = number
        with httpx.Client(base_url=address, timeout=120) as client:
            while time.perf_counter() < end:
                try:
                    status, took = timed(client, bodies[turn % len(bodies)])
                except httpx.HTTPError as error:
                    seen.failures.append(repr(error))
                    continue
                seen.statuses.append(status)
                if status == 200:
                    seen.seconds.append(took)
                elif status == 429:
                    time.sleep(2)
                turn += clients

    threads = [threading.Thread(target=work, args=(k,)) for k in range(clients)]
    start = time.perf_counter()
    for thread in threads:
        thread.start()
    memory, batches = [], []
    while time.perf_counter() < end:
        time.sleep(2)
        memory.append(resident_megabytes(pid))
        batches.append(httpx.get(f"{address}/healthz", timeout=60).json()["last_batch"])
    for thread in threads:
        thread.join()
    took = time.perf_counter() - start
    third = max(1, len(memory) // 3)
    return {
        "clients": clients,
        "seconds": took,
        "answered": len(seen.seconds),
        "sent_away": seen.statuses.count(429),
        "errors": len(seen.failures) + sum(s not in (200, 429) for s in seen.statuses),
        "per_second": len(seen.seconds) / took,
        **quantiles(seen.seconds),
        "mean_batch": statistics.mean(batches),
        "megabytes": {
            "first third": statistics.mean(memory[:third]),
            "last third": statistics.mean(memory[-third:]),
            "most": max(memory),
        },
    }


def quantiles(seconds: list[float]) -> dict[str, float]:
    cuts = statistics.quantiles(seconds, n=20, method="inclusive")
    return {"median": cuts[9], "p95": cuts[18], "largest": max(seconds)}


def resident_megabytes(pid: int) -> float:
    (line,) = (x for x in Path(f"/proc/{pid}/status").read_text().splitlines() if "VmRSS" in x)
    return int(line.split()[1]) / 1024


def sections(record: Record) -> dict[tuple[str, str], str]:
    r = record.results
    alone, load, memory = r["alone"], r["load"], r["load"]["megabytes"]
    rows = [
        ["one client", f"{alone['median']:.2f}", f"{alone['p95']:.2f}", f"{alone['largest']:.2f}"],
        [
            f"{load['clients']} clients for {load['seconds']:.0f} s",
            *(f"{load[key]:.2f}" for key in ("median", "p95", "largest")),
        ],
    ]
    head = ["seconds to an answer", "median", "95 %", "largest"]
    text = [
        f"`{record.command}`, {record.hardware}: {r['model']}, threads={r['threads']}, load "
        f"average {r['load_average']:.1f}. Each request asks for {COMPLETIONS} "
        "completions of eight rooms, four of them given with their relations.",
        "",
        markdown_table(head, rows),
        "",
        f"{load['answered']:,} requests were answered, {load['per_second']:.1f} a second, "
        f"{load['mean_batch']:.1f} at once in the mean; {load['sent_away']} were sent away and "
        f"{load['errors']} failed. Memory: {memory['first third']:.0f} MB in the first third of "
        f"the time, {memory['last third']:.0f} MB in the last. Stopping took "
        f"{r['seconds_to_stop']:.1f} s.",
    ]
    return {(Page.STUDIO, "serving"): "\n".join(text)}


if __name__ == "__main__":
    main()
