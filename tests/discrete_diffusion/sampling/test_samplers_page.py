"""The page of samplers and the configs say what the classes do."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from discrete_diffusion.config.files import shipped_files
from discrete_diffusion.sampling import build_sampler
from discrete_diffusion.sampling.registry import SAMPLERS

COMMON = {"temperature", "top_p", "guidance", "refresh"}
PAGE = Path(__file__).parents[3] / "docs" / "samplers.md"


def defaults_of(name: str) -> dict[str, object]:
    parameters = inspect.signature(SAMPLERS.find(name)).parameters
    return {key: parameter.default for key, parameter in parameters.items()}


def sections() -> dict[str, str]:
    first, *others = re.split(r"^## ", PAGE.read_text(), flags=re.MULTILINE)
    return {"": first, **{part.partition("\n")[0]: part for part in others}}


@pytest.mark.parametrize("name", list(SAMPLERS.names()))
def test_a_config_spells_out_the_defaults(name):
    config = OmegaConf.to_container(OmegaConf.load(shipped_files("sampling")[name]))
    assert config == {"name": name, **defaults_of(name)}
    build_sampler(config)


def test_the_page_has_every_sampler():
    named = re.findall(r"\[`([\w-]+)`\]\(\.\./src", sections()["The table"])
    assert len(named) == len({*named})
    assert {*SAMPLERS.names()} <= {*named}


def test_the_page_has_every_option_with_its_default():
    lines = [x for x in sections()["Options"].splitlines() if x.startswith("|") and "`" in x]
    rows = [line.split("|")[1:3] for line in lines]
    samplers, said = [], {name: set() for name in SAMPLERS.names()}
    for who, options in rows:
        samplers = who.strip().split(", ") if who.strip() else samplers
        for option in re.findall("`([^`]+)`", options):
            key, _, value = option.partition("=")
            for name in {*samplers} & {*said}:
                said[name].add(key)
                # the text of the row has the other default
                if value and (name, key) != ("predictor-corrector", "steps"):
                    assert OmegaConf.create({"value": defaults_of(name)[key]}).value == (
                        OmegaConf.from_dotlist([f"value={value}"]).value
                    ), f"{name} {option}"
    for name, options in said.items():
        assert options == set(defaults_of(name)) - COMMON, name
    assert defaults_of("predictor-corrector")["steps"] == 50


@pytest.mark.parametrize("name", list(SAMPLERS.names()))
def test_the_page_says_what_steps_are(name):
    """Named in what follows ``steps=N``, be it that they refuse it."""
    _, _, said = sections()["Steps"].partition("`steps=N`, short")
    assert f"`{name}`" in said or (name == "autoregressive" and "`algo=ar`" in said)
