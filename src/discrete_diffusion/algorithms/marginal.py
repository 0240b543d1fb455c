"""Diffusion with noise that follows the data's token frequencies."""

from __future__ import annotations

from discrete_diffusion.algorithms.interpolating import Interpolating


class MarginalDiffusion(Interpolating):
    """The bound of the marginal process: noise as frequent as the data (DiGress, arXiv 2209.14734),
    in continuous time and with every position kept to its legal ids."""

    name = "marginal"
    processes = ("marginal",)
