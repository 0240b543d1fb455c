"""``discrete-diffusion studio`` as a user types it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request

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


def test_it_has_help(capsys):
    with pytest.raises(SystemExit):
        main(["studio", "--help"])
    assert "--checkpoint RUN" in capsys.readouterr().out


def started(checkpoint) -> tuple[subprocess.Popen, int]:
    """A studio that answers, and its port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = ["studio", f"checkpoint={checkpoint}", f"port={port}", "open=false", "threads=1"]
    server = subprocess.Popen(
        [sys.executable, "-m", "discrete_diffusion", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONWARNINGS": ""},
    )
    assert server.stdout is not None
    assert (
        server.stdout.readline() == f"the studio is at http://127.0.0.1:{port}/; Ctrl-C ends it\n"
    )
    for _ in range(300):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz") as answer:
                assert json.load(answer)["status"] == "ok"
            return server, port
        except OSError:
            time.sleep(0.1)
    raise AssertionError("the studio does not answer")


def log_of(server: subprocess.Popen) -> list[dict]:
    """Lines of the log of a studio that is stopped."""
    server.send_signal(signal.SIGTERM)
    _, log = server.communicate(timeout=60)
    lines = [json.loads(line) for line in log.splitlines()]
    assert not any("trace" in line or line["level"] == "error" for line in lines), log
    return lines


@pytest.mark.slow
def test_it_serves_until_it_is_stopped(studio_run):
    server, _ = started(studio_run)
    lines = log_of(server)
    assert [line["path"] for line in lines if line["message"] == "request"] == ["/healthz"]


@pytest.mark.slow
def test_the_client_of_the_page_gets_its_plans():
    (code,) = [code for code in blocks("studio.md", "python") if "urllib" in code]
    assert len(code.strip().splitlines()) <= 25
    server, port = started("plans-small")
    shorter = code.replace("8765", str(port)).replace('"num": 3', '"num": 1')
    client = subprocess.run(
        [sys.executable, "-c", shorter],
        capture_output=True,
        text=True,
        timeout=500,
    )
    log_of(server)
    assert client.returncode == 0, client.stderr
    *progress, last = client.stdout.splitlines()
    assert json.loads(progress[0])["status"] == "waiting"
    assert "num_broken" in last
