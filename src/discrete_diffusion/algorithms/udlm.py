"""UDLM: diffusion with uniform noise (Schiff et al., arXiv 2412.10193)."""

from __future__ import annotations

from discrete_diffusion.algorithms.interpolating import Interpolating


class UDLM(Interpolating):
    """The bound of the uniform process: every token may turn into any legal one, at any time.

    Deviation: any schedule, per group too (the paper's is log-linear), K_l legal ids per position
    instead of one vocabulary, and the network predicts a token from all *others* (D) unless
    ``parameterization: posterior`` asks for the paper's.
    """

    name = "udlm"
    processes = ("uniform",)
