"""The studio under load: its latency alone, then many clients at once, and its memory.

    python benchmarks/serving.py [--checkpoint plans-small] [--clients 32] [--seconds 60]
        [--workers 2]

Starts ``discrete-diffusion studio`` on a free port of this machine. Alone, a client completes
diagrams of eight rooms, four of them given with their relations, four times. Of the many each does
the same again and again, beginning at another place: complete, a brief as a job, a plan as a job,
and a check before each of these. At half time a process that looks for a plan is killed.
"""

from __future__ import annotations

import os
import signal
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import httpx

from floor_plans import generate_plans
from record import Part, Record, command_line, markdown_table, publish

ALONE = 15
"""Requests one after the other."""

COMPLETIONS = 4

BRIEF = {
    "num_rooms": "5-6",
    "rooms": {"Bathroom": "at least 1"},
    "relations": ["Kitchen adjacent LivingRoom"],
}

PLOT = [[0, 0], [11, 0], [11, 9], [0, 9]]

STEPS = ("complete", "brief", "plan")

CLIENTS_APART = 32
"""Bodies by which a client goes on."""

POLL = 0.5
"""Seconds between two questions how far a job is."""

SAY = {
    "complete": "complete, 4 diagrams",
    "check": "check, throughout",
    "brief": "brief, a job of 1 diagram",
    "plan": "plan, a job of the better of 2",
    "job": "state of a job",
}


def main() -> None:
    parser = command_line(__doc__, threads=1)
    parser.add_argument("--checkpoint", default="plans-small")
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    bodies = partial_bodies(64, options.seed)
    words = [f"{name}={getattr(options, name)}" for name in ("checkpoint", "threads", "workers")]
    before = os.getloadavg()[0]
    address, server = started(words)
    try:
        with httpx.Client(base_url=address, timeout=120) as client:
            for body in bodies[:5]:
                client.post("/api/complete", json=body).raise_for_status()
            seen = Seen()
            for body in bodies[:ALONE]:
                seen.ask(client, "complete", "POST", "/api/complete", body)
        load = under_load(address, server.pid, bodies, options.clients, options.seconds)
    finally:
        server.send_signal(signal.SIGTERM)
        stopped = time.perf_counter()
        server.wait(60)
    results = {
        "model": options.checkpoint,
        "threads": options.threads,
        "workers": options.workers,
        "load_average_before": before,
        "alone": {"num": ALONE, **quantiles(seen.seconds["complete"])},
        "load": load,
        "seconds_to_stop": time.perf_counter() - stopped,
    }
    command = (
        f"python benchmarks/serving.py --checkpoint {options.checkpoint} --clients "
        f"{options.clients} --seconds {options.seconds:g} --threads {options.threads} --workers "
        f"{options.workers}"
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


def started(words: list[str]) -> tuple[str, subprocess.Popen[bytes]]:
    """A studio that answers."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = [*words, f"port={port}", "open=false"]
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


@dataclass
class Seen:
    """What the clients saw, by what they asked for."""

    seconds: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    sent_away: int = 0
    time_outs: int = 0
    errors: list[str] = field(default_factory=list)

    def ask(
        self, client: httpx.Client, name: str, method: str, path: str, body: Any = None
    ) -> dict[str, Any] | None:
        """The answer; None where there is none, which is noted."""
        start = time.perf_counter()
        try:
            answer = client.request(method, path, json=body)
        except httpx.TimeoutException:
            self.time_outs += 1
            return None
        except httpx.HTTPError as error:
            self.errors.append(f"{name}: {error!r}")
            return None
        if answer.status_code == 429:
            self.sent_away += 1
            time.sleep(2)
        elif answer.status_code == 504:
            self.time_outs += 1
        elif answer.status_code not in (200, 202):
            self.errors.append(f"{name}: {answer.status_code} {answer.text[:200]}")
        else:
            self.seconds[name].append(time.perf_counter() - start)
            return dict(answer.json())
        return None

    def job(self, client: httpx.Client, name: str, body: Any, end: float) -> None:
        """Wait for the answer of a job; cancel it where the time is over."""
        start = time.perf_counter()
        accepted = self.ask(client, "job", "POST", f"/api/{name}", body)
        if accepted is None:
            return
        path = f"/api/jobs/{accepted['job']}"
        while time.perf_counter() < end:
            state = self.ask(client, "job", "GET", path)
            if state is None or state["status"] in ("waiting", "working"):
                time.sleep(POLL)
                continue
            if state["status"] == "done":
                self.seconds[name].append(time.perf_counter() - start)
            else:
                self.errors.append(f"{name}: {state}")
            return
        self.ask(client, "job", "DELETE", path)


def one_client(
    seen: Seen, client: httpx.Client, bodies: list[dict[str, Any]], number: int, end: float
) -> None:
    """Ask for one after the other until the time is over."""
    turn = number
    while time.perf_counter() < end:
        body = bodies[turn % len(bodies)]
        for name in (*STEPS[number % 3 :], *STEPS[: number % 3]):
            if time.perf_counter() >= end:
                return
            seen.ask(client, "check", "POST", "/api/check", {"diagram": body["given"]})
            if name == "complete":
                seen.ask(client, name, "POST", "/api/complete", body)
            elif name == "brief":
                asked = {"brief": BRIEF, "num": 1, "seed": turn, "job": True}
                seen.job(client, name, asked, end)
            else:
                wish = {"brief": BRIEF, "boundary": PLOT, "num": 1, "candidates": 2}
                seen.job(client, name, wish | {"seed": turn}, end)
        turn += CLIENTS_APART


def under_load(
    address: str, pid: int, bodies: list[dict[str, Any]], clients: int, seconds: float
) -> dict[str, Any]:
    """What all clients saw, the memory, and what came of a process that was killed."""
    # without certificates, which take each client's first tenths of a second to load
    asking = [httpx.Client(base_url=address, timeout=120, verify=False) for _ in range(clients)]
    seen, start = Seen(), time.perf_counter()
    end, killed = start + seconds, None
    threads = [
        threading.Thread(target=one_client, args=(seen, client, bodies, k, end))
        for k, client in enumerate(asking)
    ]
    for thread in threads:
        thread.start()
    memory: list[tuple[float, float]] = []
    while (now := time.perf_counter()) < end:
        memory.append(resident_megabytes(pid))
        if killed is None and now > start + seconds / 2:
            busy = httpx.get(f"{address}/healthz", timeout=60).json()["workers"]
            if busy:
                killed = busy[0]
                os.kill(killed, signal.SIGKILL)
        time.sleep(2)
    for thread, client in zip(threads, asking, strict=True):
        thread.join()
        client.close()
    took, third = time.perf_counter() - start, max(1, len(memory) // 3)
    return {
        "clients": clients,
        "seconds": took,
        "load_average": os.getloadavg()[0],
        "sent_away": seen.sent_away,
        "time_outs": seen.time_outs,
        "errors": len(seen.errors),
        "first_errors": seen.errors[:5],
        "killed": killed is not None,
        "routes": {
            name: {"num": len(found), **quantiles(found)} for name, found in seen.seconds.items()
        },
        "megabytes": {
            name: [statistics.mean(part) for part in (of[:third], of[third:-third], of[-third:])]
            for name, of in zip(("studio", "workers"), zip(*memory, strict=True), strict=True)
        },
    }


def quantiles(seconds: list[float]) -> dict[str, float]:
    if len(seconds) < 2:
        return dict.fromkeys(("median", "p95", "largest"), max(seconds, default=0.0))
    cuts = statistics.quantiles(seconds, n=20, method="inclusive")
    return {"median": cuts[9], "p95": cuts[18], "largest": max(seconds)}


def resident_megabytes(pid: int) -> tuple[float, float]:
    """Memory of a process, and of its children together."""
    children = Path(f"/proc/{pid}/task").glob("*/children")
    pids = [int(word) for file in children for word in file.read_text().split()]
    return _resident(pid), sum(map(_resident, pids))


def _resident(pid: int) -> float:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:  # it has just ended
        return 0.0
    return sum(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS"))


def sections(record: Record) -> dict[tuple[str, str], str]:
    r = record.results
    load = r["load"]
    rows = [["complete, one client alone", str(r["alone"]["num"]), *_seconds(r["alone"])]]
    for name, words in SAY.items():
        if name in load["routes"]:
            found = load["routes"][name]
            rows.append([words, f"{found['num']:,}", *_seconds(found)])
    memory = [
        f"{name} {', '.join(f'{part:.0f}' for part in parts)} MB"
        for name, parts in load["megabytes"].items()
    ]
    killed = "A process that looked for a plan was killed with SIGKILL at half time. "
    text = [
        f"{load['clients']} clients for "
        f"{load['seconds']:.0f} s, each in turn complete, brief and plan, and a check before each; "
        f"load average {r['load_average_before']:.1f} before, of other work, and "
        f"{load['load_average']:.1f} at the end.",
        "",
        markdown_table(["seconds to an answer", "answers", "median", "95 %", "largest"], rows),
        "",
        f"{load['errors']} errors, {load['time_outs']} time-outs, {load['sent_away']} sent away. "
        f"{killed if load['killed'] else ''}Memory in the thirds of the time: "
        f"{'; '.join(memory)}. Stopping took {r['seconds_to_stop']:.1f} s.",
    ]
    return {(Part.PLANS, "serving"): "\n".join(text)}


def _seconds(found: dict[str, float]) -> list[str]:
    return [f"{found[key]:.2f}" for key in ("median", "p95", "largest")]


if __name__ == "__main__":
    main()
