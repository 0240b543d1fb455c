"""What ``compare`` measures of each of its cells, by the kind of data."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from discrete_diffusion.naming import counted

if TYPE_CHECKING:
    from discrete_diffusion.algorithms import Algorithm
    from discrete_diffusion.cli.compare.cells import Cell
    from discrete_diffusion.cli.compare.folder import CellFolder
    from discrete_diffusion.domains.domain import Report
    from discrete_diffusion.evaluation.comparison import Baseline, Column, Comparison, Measure
    from discrete_diffusion.evaluation.equal_terms import EqualTerms
    from discrete_diffusion.evaluation.trained_model import Model

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class FigureAxis:
    """What the figure shows of samples: ``name`` of a metric, or of a measure of held-out samples.

    ``title``: what it is called; ``up``: whether more is better; ``share``: shown as percent.
    """

    name: str
    title: str
    up: bool = False
    share: bool = False


class CellMeasurement(ABC):
    """What is measured of the cells of a comparison, and what stands beside their numbers.

    ``measures``: keys of ``cell.json`` with a number per held-out sample, in the order of the
    table; ``bounds`` is the bound, ``measured`` says what the others are. ``columns``: metrics of
    the table. ``axes``: the figure shows the first that was measured.
    """

    measures: ClassVar[tuple[str, ...]] = ("bounds",)
    measured: ClassVar[Mapping[str, Measure]] = {}
    columns: ClassVar[tuple[Column, ...]] = ()
    axes: ClassVar[tuple[FigureAxis, ...]] = ()

    def refusal(self, algorithm: Algorithm, num_samples: int) -> str | None:
        """Why nothing that compares can be measured of an algorithm with so many samples; None if
        it can. ``algorithm``: built without memory for its weights."""
        return None

    def check_same(self, one: Any, other: Any) -> None:
        """``ValueError`` unless two data sets hold the same samples."""
        if one.fingerprint() != other.fingerprint():
            raise ValueError(f"two data sets: {one.summary()}; {other.summary()}; expected one")

    def draws(self, asked: int) -> int:
        """Samples from each condition, ``asked`` with ``eval.draws``; 0 without conditions."""
        return 0

    @abstractmethod
    def measure(self, model: Model, data: Any, terms: EqualTerms, folder: Path) -> dict[str, Any]:
        """What ``cell.json`` holds of a trained model: ``metrics``, the ``measures``, with
        ``bounds`` their ``quantity``, ``ordering`` and ``rows``. Samples may go into ``folder``.

        Raises ``ValueError`` if what was measured is that of a training gone wrong.
        """

    def baselines(self, data: Any, num: int) -> tuple[Baseline, ...]:
        """What is guessed without a network, of the first ``num`` held-out samples."""
        return ()

    def real_data(self, data: Any, num_samples: int) -> dict[str, float]:
        """Metrics of real data in the place of ``num_samples`` samples of a model."""
        return {}

    def notes(self, cells: Sequence[Cell]) -> list[str]:
        """Sentences under the table."""
        return []

    def show(
        self,
        comparison: Comparison,
        cells: Sequence[Cell],
        folders: Mapping[str, CellFolder],
        out: Path,
    ) -> list[str]:
        """Write samples of all models side by side into ``out``; names of the files written."""
        return []


def forms_of(cells: Sequence[Cell], options: Sequence[str] = ()) -> str:
    """In which data set each algorithm has the samples, and how it draws: ``mdlm: data=eit-levels,
    sampling=ancestral with 20 steps; flow-matching: ...``. ``options``: of samplers, said too."""
    ways: dict[str, list[str]] = {}
    for cell in cells:
        sampling = cell.config.sampling
        steps = sampling.get("default_steps")
        said = [] if steps is None else [counted(steps, "step")]
        said += [f"{key} {sampling[key]}" for key in options if sampling.get(key) is not None]
        way = " with ".join([sampling.name, ", ".join(said)] if said else [sampling.name])
        names = ways.setdefault(f"data={cell.data}, sampling={way}", [])
        if cell.algorithm not in names:
            names.append(cell.algorithm)
    return "; ".join(f"{', '.join(names)}: {way}" for way, names in ways.items())


def has_one_backbone_each(cells: Sequence[Cell]) -> bool:
    """True if no algorithm is there with several backbones."""
    pairs = {(cell.algorithm, cell.backbone) for cell in cells}
    return len({algorithm for algorithm, _ in pairs}) == len(pairs)


def of_first_seed(comparison: Comparison, cells: Sequence[Cell]) -> dict[str, Cell]:
    """The cells trained with the first seed, by what they are called beside each other: the
    algorithm, with the backbone where an algorithm has several."""
    first = [cell for cell in cells if cell.seed == comparison.seeds[0]]
    plain = has_one_backbone_each(first)
    return {c.algorithm if plain else f"{c.algorithm} ({c.backbone})": c for c in first}


def samples_beside(
    comparison: Comparison,
    cells: Sequence[Cell],
    folders: Mapping[str, CellFolder],
    file: str,
    shown_in: Path,
) -> dict[str, Path]:
    """``file`` of every cell of ``of_first_seed`` that has it; a log line names those that do not,
    which ``shown_in`` lacks."""
    first = of_first_seed(comparison, cells)
    paths = {label: folders[cell.name].path / file for label, cell in first.items()}
    there = {label: path for label, path in paths.items() if path.is_file()}
    if lost := [first[label].name for label in paths if label not in there]:
        what = f"left out of {shown_in.name}" if there else f"{shown_in.name} is not written anew"
        logger.warning(
            "%s: no %s, %s; without cell.json too, they are drawn again",
            ", ".join(lost),
            file,
            what,
        )
    return there


class TokenCells(CellMeasurement):
    """Of tokens by themselves: the bound of held-out samples, and metrics of fresh samples."""

    def measure(self, model: Model, data: Any, terms: EqualTerms, folder: Path) -> dict[str, Any]:
        from discrete_diffusion.evaluation.equal_terms import held_out_bounds, score_samples_drawn

        bounds = held_out_bounds(model.algorithm, data, terms, device=model.device)
        bounds.check()
        report = self.report(data)
        metrics = score_samples_drawn(
            model.algorithm, model.sampler, data, terms, report, device=model.device
        )
        return {**bounds.as_dict(), "metrics": metrics}

    @abstractmethod
    def report(self, data: Any) -> Report:
        """What measures samples beside the split that is held out."""

    def real_data(self, data: Any, num_samples: int) -> dict[str, float]:
        from discrete_diffusion.evaluation.equal_terms import score_real_data

        return score_real_data(data, num_samples, self.report(data))
