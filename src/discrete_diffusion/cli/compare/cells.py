"""A cell of a comparison: one run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from omegaconf import DictConfig

from discrete_diffusion.cli.compare.folder import CellFolder
from discrete_diffusion.domains import domain_of

if TYPE_CHECKING:
    from discrete_diffusion.domains.cell_measurement import CellMeasurement


@dataclass(frozen=True)
class Cell:
    """One run: ``overrides`` compose its ``train`` config, ``config``.

    ``instead_of``: the requested backbone, if ``backbone`` replaces it; ``scaled``: the keys of its
    preset that were changed for its number of parameters.
    """

    algorithm: str
    backbone: str
    seed: int
    overrides: tuple[str, ...]
    config: DictConfig
    parameters: int
    out: Path
    instead_of: str | None = None
    scaled: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Name of its folder."""
        return f"{self.algorithm}-{self.backbone}-seed{self.seed}"

    @property
    def folder(self) -> CellFolder:
        return CellFolder(self.out / "cells" / self.name)

    @property
    def preset(self) -> str | None:
        """Name of its model preset; None if its backbone reads none."""
        fits = self.config.model.get("backbones")
        fitting = fits is None or self.backbone in fits
        return str(self.config.model.get("name", self.backbone)) if fitting else None

    @property
    def model(self) -> str:
        """The preset, and what was changed of it: ``mine, width=72``."""
        return ", ".join([self.preset or "no preset", *self.scaled])

    @property
    def data(self) -> str:
        """Name of its data set."""
        return str(self.config.data.name)

    @property
    def measurement(self) -> CellMeasurement:
        """Its measurements; the same for all cells."""
        return domain_of(self.config.data).cell_measurement()
