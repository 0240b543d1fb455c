"""``discrete-diffusion studio`` as a user types it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, NamedTuple

import pytest

from discrete_diffusion.cli import main
from guide_code import blocks


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["checkpoint=plans-smal"], "did you mean 'plans-small'"),
        (["checkpoint=nowhere"], "nowhere"),
        (["checkpoint=x", "host=0.0.0.0"], "it needs token=WORD"),
        (["checkpoint=x", "token=two\nlines"], "token='two\\nlines': expected a word"),
        (["checkpoint=x", "token= blank"], "token=' blank'"),
        (["checkpoint=x", "token=\udcff"], "token='\\udcff'"),
        (["checkpoint=x", "port=70000"], "port=70000: expected a number from 1 to 65535"),
        (["checkpoint=x", "threads=0"], "threads=0: expected at least 1"),
        (["checkpoint=x", "workers=0"], "workers=0: expected at least 1"),
        (["checkpoint=x", "prt=8"], "did you mean 'port'"),
        (["checkpoint=x", "open=maybe"], "open=maybe: expected true or false"),
    ],
)
def test_what_cannot_be_served_is_refused(words, sentence, capsys):
    with pytest.raises(SystemExit):
        main(["studio", *words])
    assert sentence in capsys.readouterr().err


class Served(NamedTuple):
    process: subprocess.Popen[str]
    port: int
    log: IO[str]


@contextmanager
def started(checkpoint) -> Iterator[Served]:
    """Start a studio and wait until it answers. Its log is a file: a pipe would be full after
    64 KiB, and the studio would wait for a reader. At the end it is killed unless it has ended."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = ["studio", f"checkpoint={checkpoint}", f"port={port}", "open=false", "threads=1"]
    with (
        tempfile.TemporaryFile("a+", encoding="utf-8") as log,
        subprocess.Popen(
            [sys.executable, "-m", "discrete_diffusion", *words],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env={**os.environ, "PYTHONWARNINGS": ""},
        ) as server,
    ):
        try:
            assert server.stdout is not None
            said = server.stdout.readline()
            assert said == f"the studio is at http://127.0.0.1:{port}/; Ctrl-C ends it\n"
            _wait_until_it_answers(port)
            yield Served(server, port, log)
        finally:
            server.kill()


def _wait_until_it_answers(port: int) -> None:
    for _ in range(300):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz") as answer:
                assert json.load(answer)["status"] == "ok"
            return
        except OSError:
            time.sleep(0.1)
    raise AssertionError("the studio does not answer")


def log_of(served: Served) -> list[dict]:
    """Stop a studio and return the lines of its log."""
    served.process.send_signal(signal.SIGTERM)
    served.process.wait(60)
    served.log.seek(0)
    log = served.log.read()
    lines = [json.loads(line) for line in log.splitlines()]
    assert not any("trace" in line or line["level"] == "error" for line in lines), log
    return lines


@pytest.mark.slow
def test_it_serves_until_it_is_stopped(studio_run):
    paths = [f"/page/{'x' * 8000}{k}" for k in range(20)]  # more than a pipe holds
    with started(studio_run) as served:
        for path in paths:
            with pytest.raises(urllib.error.HTTPError, match="404") as refused:
                urllib.request.urlopen(f"http://127.0.0.1:{served.port}{path}", timeout=60)
            refused.value.close()
        lines = log_of(served)
    logged = [line["path"] for line in lines if line["message"] == "request"]
    assert logged == ["/healthz", *paths]


@pytest.mark.slow
def test_the_client_of_the_page_gets_its_plans():
    (code,) = [code for code in blocks("floor_plans/studio.md", "python") if "urllib" in code]
    assert len(code.strip().splitlines()) <= 25
    with started("plans-small") as served:
        shorter = code.replace("8765", str(served.port)).replace('"num": 3', '"num": 1')
        client = subprocess.run(
            [sys.executable, "-c", shorter], capture_output=True, text=True, timeout=500
        )
        log_of(served)
    assert client.returncode == 0, client.stderr
    *progress, last = client.stdout.splitlines()
    assert json.loads(progress[0])["status"] == "waiting"
    assert "num_broken" in last
