"""Ode: images along the flow from noise to data, by Euler, Heun or an adaptive solver."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import torch
from scipy.integrate import RK45
from torch import Tensor

from discrete_diffusion.algorithms.base import Algorithm
from discrete_diffusion.algorithms.flow_matching import SMALLEST_T, FlowMatching
from discrete_diffusion.naming import unknown_name
from discrete_diffusion.options import check_whole_number, is_number
from discrete_diffusion.sampling.guidance import Guidance, check_given
from discrete_diffusion.types import FieldSamples

SOLVERS = ("euler", "heun", "rk45")


class Ode:
    """Solves dx/dt = (x_t - xhat(x_t, t)) / t from noise at t = 1 to data at t = 0.

    ``solver``: ``euler``, one network call per step; ``heun``, two, but for the last step;
    ``rk45``, Dormand and Prince's pair with steps of its own choice (scipy), by ``rtol``/``atol``,
    down to t = 0.05. The last step of all of them returns xhat, exact for a network that is.

    ``guidance`` w: see ``Guidance``; 1 is the model.
    ``default_steps``: of the uniform grid, unless the request says.

    What the network makes of a condition alone is computed once for all steps if it does not read
    the time (``Algorithm.encoded``).
    """

    name: ClassVar[str] = "ode"
    state: ClassVar[str] = "field"

    def __init__(
        self,
        *,
        solver: str = "euler",
        default_steps: int = 20,
        guidance: float = 1.0,
        rtol: float = 1e-3,
        atol: float = 1e-3,
    ) -> None:
        if solver not in SOLVERS:
            raise ValueError(unknown_name("sampling.solver", solver, SOLVERS))
        check_whole_number("sampling.default_steps", default_steps, least=1)
        for key, value in (("rtol", rtol), ("atol", atol)):
            if not (is_number(value) and 0 < value < 1):
                raise ValueError(f"sampling.{key}={value}: expected a number in (0, 1)")
        self.solver, self.default_steps = solver, default_steps
        self.guidance = Guidance(guidance)
        self.rtol, self.atol = float(rtol), float(atol)

    def check(self, algorithm: Algorithm) -> None:
        """Raise ``ValueError`` for guidance of a model that was not trained for it."""
        self.guidance.check(algorithm)

    def check_steps(self, steps: int | None) -> None:
        """Raise ``ValueError`` for a number of ``steps`` that it cannot make."""
        if steps is not None and self.solver == "rk45":
            raise ValueError(
                f"steps={steps}: sampling.solver=rk45 chooses its own steps; set sampling.rtol, or "
                "take sampling.solver=heun"
            )
        if steps is not None and steps < 1:
            raise ValueError(f"steps={steps}: expected at least 1")

    @torch.no_grad()
    def draw(
        self,
        algorithm: FlowMatching,
        shape: tuple[int, ...],
        conditions: Mapping[str, Any],
        *,
        generator: torch.Generator,
        steps: int | None = None,
    ) -> FieldSamples:
        """One image per row of ``conditions``, raw: Float32 of ``shape`` (B, C, H, W).

        The algorithm is in eval mode meanwhile.
        """
        self.check_steps(steps)
        self.check(algorithm)
        check_given(algorithm, conditions)
        self.guidance.check_conditions(algorithm, conditions)
        device = algorithm.scaling.scale.device
        was_training = algorithm.training
        algorithm.eval()
        try:
            clean = _Clean(algorithm, conditions, self.guidance)
            x = torch.randn(shape, generator=generator, device=generator.device).to(device)
            if self.solver == "rk45":
                x = self._adaptive(clean, x)
            else:
                x = self._grid(clean, x, self.default_steps if steps is None else steps)
        finally:
            algorithm.train(was_training)
        nfe = torch.full((shape[0],), clean.calls, dtype=torch.long, device=device)
        return FieldSamples(algorithm.scaling.inverse(x), nfe)

    def _grid(self, clean: Callable[[Tensor, float], Tensor], x: Tensor, steps: int) -> Tensor:
        """Written with ratios of times: x_s = (s / t) x_t + (1 - s / t) xhat is a step of Euler."""
        for t, s in pairwise(np.linspace(1.0, 0.0, steps + 1).tolist()):
            xhat = clean(x, t)
            there = s / t * x + (1 - s / t) * xhat
            if self.solver == "heun" and s > 0:
                slope = (x - xhat) / t + (there - clean(there, s)) / s
                there = x + (s - t) * slope / 2
            x = there
        return x

    def _adaptive(self, clean: Callable[[Tensor, float], Tensor], x: Tensor) -> Tensor:
        shape, like = x.shape, x

        def velocity(t: float, flat: np.ndarray) -> np.ndarray:
            xt = torch.from_numpy(flat).to(like).reshape(shape)
            return ((xt - clean(xt, t)) / t).double().flatten().cpu().numpy()

        start = x.double().flatten().cpu().numpy()
        run = RK45(velocity, 1.0, start, SMALLEST_T, rtol=self.rtol, atol=self.atol)
        while run.status == "running":
            run.step()
        if run.status == "failed":
            raise ValueError("rk45 found no step that is small enough; take sampling.solver=heun")
        return clean(torch.from_numpy(run.y).to(like).reshape(shape), SMALLEST_T)


class _Clean:
    """xhat of scaled images at one time, guided; counts its calls."""

    def __init__(
        self, algorithm: FlowMatching, conditions: Mapping[str, Any], guidance: Guidance
    ) -> None:
        self.algorithm, self.guidance, self.calls = algorithm, guidance, 0
        self.conditions = algorithm.encoded(conditions)

    def __call__(self, x: Tensor, t: float) -> Tensor:
        self.calls += self.guidance.calls
        times = torch.full((len(x),), t, dtype=torch.float64, device=x.device)
        sides = self.guidance.sides(self.conditions, x)
        return self.guidance.mix([self.algorithm.denoise(x, times, side) for side in sides])
