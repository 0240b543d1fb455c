"""Ctrl-C at a known moment of ``sample`` and ``evaluate``."""

from __future__ import annotations

import signal

import pytest

from discrete_diffusion.cli import main
from discrete_diffusion.evaluation import model_evaluation


def stop_at_call(patch: pytest.MonkeyPatch, sampler: type, call: int, number=signal.SIGINT) -> None:
    """Raise a signal when samplers of a class begin their ``call``-th batch, from 1."""
    whole, begun = sampler.sample, []

    def sample(self, *arguments, **options):
        begun.append(1)
        if len(begun) == call:
            signal.raise_signal(number)
        return whole(self, *arguments, **options)

    patch.setattr(sampler, "sample", sample)


def stop_when_measuring(patch: pytest.MonkeyPatch) -> None:
    """Raise Ctrl-C when ``evaluate`` begins to measure a model of tokens."""

    def measure(*arguments: object) -> None:
        signal.raise_signal(signal.SIGINT)

    patch.setattr(model_evaluation, "measure_model", measure)


def stopped(capsys, *words: str, status: int = 130) -> str:
    """What a command, which a signal ends with a ``status``, writes to standard error."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as stop:
        main([*words])
    assert stop.value.code == status
    return capsys.readouterr().err
