"""Fixtures of the tests of commands: a folder that is not the checkout, errors as sentences."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

import pytest
from omegaconf import OmegaConf

from discrete_diffusion.cli import compose, evaluate, main, sample


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DISCRETE_DIFFUSION_CACHE", str(tmp_path / "cache"))


@pytest.fixture(autouse=True)
def closed_output_is_not_logged_to() -> Iterator[None]:
    """Take away the handler that Hydra leaves: it writes to output that pytest closes."""
    yield
    for handler in logging.root.handlers[:]:
        if type(handler) is logging.StreamHandler:
            logging.root.removeHandler(handler)


def run_plainly(name: str, *words: str) -> None:
    """``sample`` or ``evaluate``, without Hydra in front of it."""
    config = compose(name)
    OmegaConf.set_struct(config, False)  # what data there is, the checkpoint knows
    commands = {"sample": sample, "evaluate": evaluate}
    commands[name].run(OmegaConf.merge(config, OmegaConf.from_dotlist([*words])))


@pytest.fixture
def refusal(tmp_path) -> Callable[..., str]:
    """Compare what is refused before anything is written, for a reason that is returned."""
    from discrete_diffusion.cli.compare import CompareRequest, run_comparison

    def run(*words: str) -> str:
        with pytest.raises((ValueError, FileNotFoundError)) as found:
            run_comparison(CompareRequest(words))
        assert not (tmp_path / "comparison").exists()
        return str(found.value)

    return run


@pytest.fixture
def failure(capsys) -> Callable[..., str]:
    """Run a command that a user's error ends: with status 1 and a sentence, which is returned."""

    def run(*words: str) -> str:
        capsys.readouterr()
        with pytest.raises(SystemExit) as stop:
            main([*words])
        assert stop.value.code == 1
        error = capsys.readouterr().err.strip()
        assert error.startswith("discrete-diffusion: ")
        several = words[0] == "compare" or "-m" in words  # which have a line per cell or job
        assert "\n" not in error or several
        assert "Traceback" not in error
        return error

    return run
