"""Output that nobody reads: no trace, and the exit status that a shell knows."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from discrete_diffusion.cli.process_setup import Output


def run(words: list[str], **options: object) -> tuple[int, str]:
    """Exit status and errors of a command whose reader goes away at once."""
    command = [sys.executable, "-m", "discrete_diffusion", *words]
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as output:
        done = subprocess.run(command, stdout=output, stderr=subprocess.PIPE, text=True, **options)
    return done.returncode, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    "words", [["--version"], ["list"], ["train", "--help"], ["train", "--cfg", "job"], ["new", "x"]]
)
def test_a_reader_that_is_gone_is_no_error_of_ours(words):
    assert run(words) == (128 + signal.SIGPIPE, "")


@pytest.mark.slow
def test_the_work_is_done_all_the_same(untrained, tmp_path):
    words = ["sample", f"checkpoint={untrained}", "num_samples=2", "threads=1", "out=drawn"]
    assert run(words) == (128 + signal.SIGPIPE, "")
    assert (tmp_path / "drawn" / "samples.jsonl").is_file()


@pytest.mark.slow
def test_output_may_be_closed_from_the_start():
    command = f"{sys.executable} -m discrete_diffusion list >&-"
    done = subprocess.run(["sh", "-c", command], stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_what_comes_after_goes_nowhere():
    """From the stream and, by its number, from child processes."""
    reading, writing = os.pipe()
    output = Output(os.fdopen(writing, "w"))
    print("seen", file=output, flush=True)
    assert os.read(reading, 100) == b"seen\n"
    os.close(reading)
    assert not output.is_closed
    for _ in range(2):
        print("unseen", file=output, flush=True)
        assert output.is_closed
    assert os.write(output.fileno(), b"unseen") == 6
    output.close()
