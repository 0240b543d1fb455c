"""Options of commands for bubble diagrams only, listed in options.yaml."""

from __future__ import annotations

from pathlib import Path
from string import Template

import yaml

from discrete_diffusion.domains import (
    DATA,
    LIKELIHOOD,
    ORDERS,
    REFERENCE_REPEATS,
    SEEDS,
    TIME_BINS,
    Option,
    completions,
)
from discrete_diffusion.runtime import install_command

_text = Path(__file__).with_name("options.yaml").read_text(encoding="utf-8")
_listed = yaml.safe_load(Template(_text).substitute(plans=install_command("plans")))
_framework = (DATA, LIKELIHOOD, ORDERS, REFERENCE_REPEATS, SEEDS, TIME_BINS)
_shared = {
    option.name: option
    for option in (*_framework, completions("of each partial diagram; null is 4"))
}

SAMPLE, EVALUATE, TRAIN = (
    tuple(
        _shared[name]
        if facts is None
        else Option(name, **facts | {"words": tuple(facts.get("words", ()))})
        for name, facts in _listed[command].items()
    )
    for command in ("sample", "evaluate", "train")
)
