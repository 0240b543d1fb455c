"""What ``samplers.py`` measures: samplers at steps and temperatures, and seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

REFERENCE = "first-hitting"
"""The line whose first setting, one token per call, is the one to compare with."""
SEEDS = range(5)
FEW_CALLS = 12
"""Network calls per diagram that the candidates may take."""


@dataclass(frozen=True)
class Cell:
    """One sampler with its options and steps, drawn from one model with one seed.

    ``line``: the name it has in tables, and the curve it belongs to. ``options``: names and values,
    in the order given.
    """

    model: str
    line: str
    name: str
    options: tuple[tuple[str, Any], ...] = ()
    steps: int | None = None
    seed: int = 0

    @property
    def sampling(self) -> dict[str, Any]:
        """What ``build_sampler`` takes."""
        return {"name": self.name, **dict(self.options)}

    @property
    def facts(self) -> dict[str, Any]:
        """What the numbers depend on, weights and sample size aside."""
        return {
            "model": self.model,
            "sampling": self.sampling,
            "steps": self.steps,
            "seed": self.seed,
        }


def _cells(model: str, line: str, name: str, settings: Sequence[Mapping[str, Any]]) -> list[Cell]:
    """A cell per setting: options of the sampler, and ``steps``."""
    cells = []
    for setting in settings:
        options = tuple((key, value) for key, value in setting.items() if key != "steps")
        cells.append(Cell(model, line, name, options, setting.get("steps")))
    return cells


def _steps(*numbers: int, **options: Any) -> list[dict[str, Any]]:
    return [{**options, "steps": number} for number in numbers]


def _budgets(*budgets: float, **options: Any) -> list[dict[str, Any]]:
    return [{**options, "budget": budget} for budget in budgets]


def absorbing_curves() -> list[Cell]:
    """Samplers over their steps, on the absorbing model; the reference first."""
    k1: list[dict[str, Any]] = [{}]
    return [
        *_cells("mdlm", REFERENCE, "first-hitting", k1 + _steps(16, 12, 8, 5)),
        *_cells("mdlm", "ancestral", "ancestral", _steps(100, 32, 16, 8, 5)),
        *_cells("mdlm", "confidence", "confidence", k1 + _steps(12, 8, 5)),
        *_cells("mdlm", "margin", "margin", k1 + _steps(12, 8, 5)),
        *_cells("mdlm", "entropy", "entropy", k1 + _steps(12, 8, 5)),
        *_cells(
            "mdlm",
            "entropy-bounded",
            "entropy-bounded",
            _budgets(0.1, 0.5, 1, 2, 4, order="random"),
        ),
        *_cells(
            "mdlm",
            "entropy-bounded, least entropy first",
            "entropy-bounded",
            _budgets(0.1, 0.5, 1, 2, 4, order="entropy"),
        ),
        *_cells("mdlm", "remdm", "remdm", _steps(48, 24, 12, 8)),
        *_cells("mdlm", "renoise", "renoise", _steps(48, 24, 12, 8, 5)),
        *_cells("mdlm", "predictor-corrector", "predictor-corrector", _steps(24, 12, 7, 4)),
    ]


def variants() -> list[Cell]:
    """Options of single samplers that are no curves of their own."""
    return [
        *_cells(
            "mdlm",
            "entropy-bounded, groups in turn",
            "entropy-bounded",
            _budgets(1.2, order="random", groups_in_turn=True),
        ),
        *_cells("mdlm", "remdm, rescale", "remdm", _steps(24, strategy="rescale", eta=0.1)),
        *_cells("mdlm", "remdm, confidence", "remdm", _steps(24, strategy="confidence", eta=0.5)),
        *_cells("mdlm", "remdm, loop", "remdm", _steps(24, strategy="loop")),
    ]


def sharpened() -> list[Cell]:
    """Temperatures below 1, and a nucleus."""
    temperatures: list[dict[str, Any]] = [{"temperature": t} for t in (0.9, 0.8, 0.7)]
    few: list[dict[str, Any]] = [{"top_p": 0.9}]
    ahead = {"order": "random", "budget": 1.2}
    return [
        *_cells("mdlm", REFERENCE, "first-hitting", temperatures + few),
        *_cells(
            "mdlm",
            "entropy-bounded",
            "entropy-bounded",
            [{**ahead, **change} for change in (temperatures[0], temperatures[1], few[0])],
        ),
        *_cells("mdlm", "renoise", "renoise", _steps(12, temperature=0.8)),
    ]


def other_noise() -> list[Cell]:
    """The model of marginal noise: every step asks the network about every diagram."""
    return [
        *_cells("marginal", "ancestral", "ancestral", _steps(50, 24, 12)),
        *_cells("marginal", "ancestral, uniform grid", "ancestral", _steps(24, grid="uniform")),
        *_cells("marginal", "renoise", "renoise", _steps(24, 12)),
        *_cells("marginal", "predictor-corrector", "predictor-corrector", _steps(12)),
    ]


def candidates() -> list[Cell]:
    """The reference and what comes closest to it in few calls, one seed each."""
    return [
        *_cells("mdlm", REFERENCE, "first-hitting", [{}, {"steps": 12}]),
        *_cells(
            "mdlm",
            "entropy-bounded",
            "entropy-bounded",
            [
                {"order": "random", "budget": 1},
                {"order": "random", "budget": 1.2},
                {"order": "random", "budget": 1.2, "temperature": 0.9},
            ],
        ),
    ]


def all_cells() -> list[Cell]:
    """Each once, the candidates' seeds first."""
    seeded = [replace(cell, seed=seed) for seed in SEEDS for cell in candidates()]
    curves = [*absorbing_curves(), *variants(), *sharpened(), *other_noise()]
    return list(dict.fromkeys([*seeded, *curves]))


def quick_cells() -> list[Cell]:
    """A few of every kind."""
    seeded = [replace(cell, seed=seed) for seed in (0, 1) for cell in candidates()]
    few = [*absorbing_curves()[::3], *variants()[:1], *sharpened()[:1], *other_noise()[-1:]]
    return list(dict.fromkeys([*seeded, *few]))
