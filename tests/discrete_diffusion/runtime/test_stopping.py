"""Signals: the first one asks, the second one kills, and the former handlers come back."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading

import pytest

from discrete_diffusion.runtime.processes import Stop, StopSignals

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
