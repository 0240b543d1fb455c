"""What a command does before torch and Lightning are there, and with output that nobody reads."""

from __future__ import annotations

import os
import platform
import signal
import subprocess
import sys

import pytest

from discrete_diffusion.cli import main
from discrete_diffusion.cli.process_setup import Output, let_threads_sleep


def run(words: list[str], **options: object) -> tuple[int, str]:
    """Exit status and errors of a command whose reader goes away at once."""
    command = [sys.executable, "-m", "discrete_diffusion", *words]
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as output:
        done = subprocess.run(command, stdout=output, stderr=subprocess.PIPE, text=True, **options)
    return done.returncode, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("words", [["list"], ["train", "--cfg", "job"]], ids=["ours", "of Hydra"])
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


def test_later_output_of_the_stream_and_of_its_descriptor_goes_nowhere():
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


CODE = """
import sys
from discrete_diffusion.cli.process_setup import defer_torchmetrics

defer_torchmetrics()
import lightning.pytorch

parts = ("torchmetrics.functional", "torchmetrics.text", "transformers")
assert not set(parts) & set(sys.modules), sorted(set(parts) & set(sys.modules))

import torch
import torchmetrics
from torchmetrics import MeanMetric, Metric
from torchmetrics.classification import MulticlassAccuracy

mean = MeanMetric()
mean.update(torch.tensor([1.0, 3.0]))
assert mean.compute() == 2
assert isinstance(mean, Metric) and isinstance(MulticlassAccuracy(3), torchmetrics.Metric)
assert torchmetrics.functional.accuracy and torchmetrics.__version__
print("whole")
"""


@pytest.mark.slow
def test_torchmetrics_is_whole_for_those_who_use_it():
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=False)
    assert done.stdout == "whole\n", done.stderr


WAITING = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")


def test_threads_that_wait_sleep_unless_the_user_says_otherwise_or_torch_is_there(monkeypatch):
    for name in WAITING:
        monkeypatch.setenv(name, "")  # so that what is set below is undone
        monkeypatch.delenv(name)

    def waiting() -> dict[str, str]:
        let_threads_sleep()
        return {key: os.environ[key] for key in WAITING if key in os.environ}

    assert waiting() == {}  # torch is there
    monkeypatch.delitem(sys.modules, "torch")
    for name in WAITING:
        with monkeypatch.context() as patch:
            patch.setenv(name, "7")
            assert waiting() == {name: "7"}
    main(["--version"])
    assert waiting() == {"OMP_WAIT_POLICY": "PASSIVE"}


FAULTS = """
import ctypes, resource, sys
from discrete_diffusion.cli import main
sys.argv = ["discrete-diffusion", "--version"]
main()
size, libc = 200 << 20, ctypes.CDLL(None)
libc.malloc.restype = libc.memset.restype = ctypes.c_void_p
for _ in range(2):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    block = ctypes.c_void_p(libc.malloc(ctypes.c_size_t(size)))
    libc.memset(block, 1, ctypes.c_size_t(size))
    libc.free(block)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc", reason="what is kept is what glibc would give back"
)
def test_freed_memory_is_kept_unless_the_user_says_otherwise(monkeypatch):
    """Pages that a second block of the same size needs anew."""

    def faults() -> int:
        words = [sys.executable, "-c", FAULTS]
        done = subprocess.run(words, capture_output=True, text=True, check=True)
        return int(done.stdout.splitlines()[-1])

    for name in [name for name in os.environ if name.startswith(("MALLOC_", "GLIBC_TUNABLES"))]:
        monkeypatch.delenv(name)
    assert faults() < 20  # of the 51,200 of a block
    monkeypatch.setenv("MALLOC_TOP_PAD_", "0")
    assert faults() > 50
