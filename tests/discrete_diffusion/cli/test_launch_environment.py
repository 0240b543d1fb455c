"""What the command tells the libraries that it starts."""

from __future__ import annotations

import os
import sys

import pytest

from discrete_diffusion.cli import main
from discrete_diffusion.cli.process_setup import let_threads_sleep

WAITING = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")


@pytest.fixture
def before_torch(monkeypatch):
    """As in a process that has not imported torch, with no word on how threads wait."""
    for name in WAITING:
        monkeypatch.setenv(name, "")  # so that what is set below is undone
        monkeypatch.delenv(name)
    monkeypatch.delitem(sys.modules, "torch")


@pytest.mark.usefixtures("before_torch")
def test_threads_that_wait_sleep():
    let_threads_sleep()
    assert os.environ["OMP_WAIT_POLICY"] == "PASSIVE"


@pytest.mark.usefixtures("before_torch")
@pytest.mark.parametrize("name", WAITING)
def test_the_user_s_own_value_is_obeyed(monkeypatch, name):
    monkeypatch.setenv(name, "7")
    let_threads_sleep()
    assert {key: os.environ[key] for key in WAITING if key in os.environ} == {name: "7"}


def test_once_torch_is_there_nothing_is_set(monkeypatch):
    for name in WAITING:
        monkeypatch.delenv(name, raising=False)
    let_threads_sleep()
    assert not {*WAITING} & {*os.environ}


@pytest.mark.usefixtures("before_torch")
def test_every_command_begins_with_it(capsys):
    main(["--version"])
    assert os.environ["OMP_WAIT_POLICY"] == "PASSIVE"
    assert capsys.readouterr().out
