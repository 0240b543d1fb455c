"""Signals, and further processes of a command: none is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

import pytest
import torch

from discrete_diffusion.cli.process_setup import command_line
from discrete_diffusion.runtime.processes import (
    CommandSignals,
    LostProcessError,
    Stop,
    StopSignals,
    all_processes,
    connected,
    rank,
)

SIGNALS = (signal.SIGINT, signal.SIGTERM)


@pytest.mark.parametrize("number", SIGNALS)
def test_between_steps_a_signal_is_answered_on_the_spot(number):
    with pytest.raises(Stop, match=f"stopped by {number.name}") as stop, StopSignals() as signals:
        signal.raise_signal(number)
    assert stop.value.exit_status == 128 + number
    assert signals.received == number
    assert not isinstance(stop.value, Exception)


def test_within_a_step_it_is_only_noted(capfd):
    with StopSignals() as signals:
        signals.finish_step = True
        signal.raise_signal(signal.SIGTERM)
        assert signals.received == signal.SIGTERM
    assert "as soon as the run can go on from there" in capfd.readouterr().err


def test_the_former_handlers_come_back_and_ignored_signals_stay_ignored():
    former = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        before = [signal.getsignal(number) for number in SIGNALS]
        with StopSignals() as signals:
            assert signal.getsignal(signal.SIGINT) == signals._handle
            signal.raise_signal(signal.SIGTERM)
            assert signals.received is None
        assert [signal.getsignal(number) for number in SIGNALS] == before
    finally:
        signal.signal(signal.SIGTERM, former)


def test_elsewhere_than_in_the_main_thread_nothing_happens():
    before = [signal.getsignal(number) for number in SIGNALS]
    seen = []

    def work():
        with StopSignals() as signals:
            signals.install()
            seen.extend(signal.getsignal(number) for number in SIGNALS)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == before


def test_the_second_signal_kills_at_once():
    number = signal.SIGTERM
    code = f"""
import signal
from discrete_diffusion.runtime.processes import StopSignals
signal.signal(signal.SIGINT, signal.default_int_handler)
with StopSignals() as signals:
    signals.finish_step = True
    signal.raise_signal({int(number)})
    print("going on", flush=True)
    signal.raise_signal({int(number)})
    print("still there")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "going on\n"
    assert done.returncode == -number


def test_sigterm_is_answered_before_a_command_has_begun_but_not_in_copies_of_it():
    code = """
import os, signal, sys
from discrete_diffusion.cli.process_setup import raise_stop_on_signals
from discrete_diffusion.runtime.processes import Stop
raise_stop_on_signals()
if (child := os.fork()) == 0:
    signal.raise_signal(signal.SIGTERM)
    os._exit(0)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
try:
    signal.raise_signal(signal.SIGTERM)
except Stop as stop:
    print(stop.exit_status)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == f"{-signal.SIGTERM}\n{128 + signal.SIGTERM}\n"


@pytest.mark.parametrize("of_this_program", [True, False])
def test_the_command_line_names_the_sub_command_and_the_program(of_this_program):
    main = sys.modules["__main__"]
    former = sys.argv, getattr(main, "__spec__", None)
    with command_line(["sample", "seed=1"], of_this_program=of_this_program):
        assert sys.argv == [former[0][0], "sample", "seed=1"]
        if of_this_program:
            assert main.__spec__ is former[1]
        else:
            assert main.__spec__.name == "discrete_diffusion.__main__"
    assert (sys.argv, getattr(main, "__spec__", None)) == former


@pytest.fixture
def launched():
    """Lightning's engine as it is after it has started a process, and that process."""
    from lightning.fabric import Fabric  # seconds

    fabric = Fabric(accelerator="cpu", strategy="ddp", devices=2)
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    fabric.strategy.launcher.procs.append(process)
    yield fabric, process
    process.kill()
    process.communicate()


def test_the_end_waits_for_the_others_and_leaves_no_variables_and_threads(launched, monkeypatch):
    fabric, process = launched
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    before, threads_before = dict(os.environ), torch.get_num_threads()
    with all_processes(fabric, threads=3):
        os.environ["LOCAL_RANK"] = "0"
        torch.set_num_threads(threads_before + 1)  # as Lightning's division of the cores does
        assert os.environ["OMP_NUM_THREADS"] == "3"
        process.stdin.write(b"\n")
        process.stdin.flush()
    assert process.returncode == 0
    assert dict(os.environ) == before
    assert torch.get_num_threads() == threads_before
    assert fabric.strategy.launcher.procs == []


def test_once_connected_lightning_does_not_watch_the_others(launched):
    """It would kill this process a few seconds after one of them is killed."""
    fabric, process = launched

    def fail_when_connected():
        with all_processes(fabric, None) as take_over:
            take_over()
            assert fabric.strategy.launcher.procs == []
            raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        fail_when_connected()
    assert process.returncode == -signal.SIGKILL


@pytest.mark.parametrize("error", [ValueError("mine"), Stop(signal.SIGTERM)])
def test_an_error_kills_the_others_and_lightning_does_not_learn_of_it(launched, error):
    """It would kill this process as soon as it sees one that has failed."""
    fabric, process = launched
    with pytest.raises(type(error)), all_processes(fabric, threads=None):
        raise error
    assert process.returncode == -signal.SIGKILL
    assert fabric.strategy.launcher.procs == []


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (BrokenPipeError("the reader left"), BrokenPipeError),
        (LostProcessError(), ChildProcessError),
    ],
)
def test_only_a_lost_process_is_told_as_one(error, raised, monkeypatch):
    monkeypatch.setattr(os, "environ", os.environ.copy())  # Lightning adds its variables
    try:
        with pytest.raises(raised), connected(1, 1, threads=None):
            raise error
    finally:
        torch.distributed.destroy_process_group()


def test_a_process_that_was_started_leaves_the_end_to_the_first(monkeypatch):
    with pytest.raises(Stop), CommandSignals():
        os.kill(os.getpid(), signal.SIGTERM)
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert rank() == 1
    with CommandSignals() as signals:
        os.kill(os.getpid(), signal.SIGTERM)
        assert signals.received == signal.SIGTERM
