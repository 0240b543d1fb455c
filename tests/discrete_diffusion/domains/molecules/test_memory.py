"""How much memory there is: of the machine, or of a container that has less."""

from __future__ import annotations

import logging

import pytest

from discrete_diffusion.domains.molecules import metrics as cost


@pytest.fixture
def system(tmp_path, monkeypatch):
    (tmp_path / "meminfo").write_text("MemTotal: 9000 kB\nMemAvailable:    4000 kB\n")
    monkeypatch.setattr(cost, "_SYSTEM", tmp_path / "meminfo")
    monkeypatch.setattr(cost, "_GROUP", tmp_path)
    return tmp_path


def test_the_smaller_of_machine_and_container(system):
    assert cost.available_memory() == 4000 * 1024
    (system / "memory.current").write_text("1000\n")
    (system / "memory.max").write_text("max\n")
    assert cost.available_memory() == 4000 * 1024
    (system / "memory.max").write_text("5000\n")
    assert cost.available_memory() == 4000
    for name in ("meminfo", "memory.max"):
        (system / name).unlink()
    assert cost.available_memory() is None


def test_a_warning_names_what_takes_it_and_what_helps(system, caplog):
    with caplog.at_level(logging.WARNING):
        cost.warn_if_short(4e6, "measuring", "take fewer")
        assert not caplog.text
        cost.warn_if_short(5e9, "measuring", "take fewer")
    assert "measuring takes about 5.0 GB" in caplog.text
    assert "take fewer" in caplog.text
