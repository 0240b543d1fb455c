"""Samplers of images: along the flow from noise to data, or at once what a regression expects."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Literal

import numpy as np
import torch
from torch import Tensor

from continuous_states.algorithms.flow_matching import SMALLEST_T, FlowMatching
from continuous_states.algorithms.regression import Regression
from discrete_diffusion.algorithms import eval_mode
from discrete_diffusion.config import Bounds, Count, NotNegative
from discrete_diffusion.contracts import Conditions, SampleOutput
from discrete_diffusion.runtime import progress
from discrete_diffusion.sampling import Guidance, Law, Sampler, check_given

Tolerance = Annotated[float, Bounds(above=0, below=1)]


@dataclass(kw_only=True)
class Ode(Sampler[FlowMatching]):
    """Ode: images along the flow from noise to data, by Euler, Heun or an adaptive solver.

    Solves dx/dt = (x_t - xhat(x_t, t)) / t from noise at t = 1 to data at t = 0.

    ``solver``: ``euler``, one network call per step; ``heun``, two, but for the last step;
    ``rk45``, Dormand and Prince's pair with steps of its own choice (scipy), by ``rtol``/``atol``,
    down to t = 0.05. The last step of all of them returns xhat, exact for a network that is.

    ``guidance`` w: see ``Guidance``; 1 is the model.
    ``steps``: of the uniform grid, unless ``sample`` is given others.

    What the network makes of a condition alone is computed once for all steps if it does not read
    the time (``Algorithm.encoded``).
    """

    name = "ode"
    law = Law.APPROXIMATE
    state = "field"
    algorithms = ("flow-matching",)

    solver: Literal["euler", "heun", "rk45"] = "euler"
    steps: Count = 20
    guidance: NotNegative = 1.0
    rtol: Tolerance = 1e-3
    atol: Tolerance = 1e-3

    def __post_init__(self) -> None:
        self._guidance = Guidance(self.guidance)

    def work(self, num: int, algorithm: FlowMatching | None = None) -> int:
        return num * self.steps * (1 if self.solver == "euler" else 2)

    def check(self, algorithm: FlowMatching, steps: int | None = None) -> None:
        if steps is not None and self.solver == "rk45":
            raise ValueError(
                f"steps={steps}: sampling.solver=rk45 chooses its own steps; set sampling.rtol, or "
                "take sampling.solver=heun"
            )
        super().check(algorithm, steps)
        self._guidance.check(algorithm)

    def sample(
        self,
        algorithm: FlowMatching,
        real: Tensor,
        *,
        generator: torch.Generator,
        steps: int | None = None,
        clamp: Tensor | None = None,
        conditions: Conditions | None = None,
    ) -> SampleOutput:
        """One image per row of the conditions, raw: Float32 of the shape of ``real``."""
        self.check(algorithm, steps)
        self.refuse_clamp(clamp)
        check_given(algorithm, conditions)
        self._guidance.check_conditions(algorithm, conditions)
        steps = self.steps if steps is None else steps
        most = {"euler": steps, "heun": 2 * steps - 1}.get(self.solver)
        calls = 0
        with (
            eval_mode(algorithm),
            progress.calls(most, each=self._guidance.calls) as going,
        ):
            given = algorithm.encoded(conditions)

            def clean(x: Tensor, t: float) -> Tensor:
                """xhat of scaled images at one time, guided."""
                nonlocal calls
                calls += self._guidance.calls
                if most is None:
                    going.come((1 - t) / (1 - SMALLEST_T))
                going.begin()
                times = torch.full((len(x),), t, dtype=torch.float64, device=x.device)
                inputs = self._guidance.inputs(given, x)
                return self._guidance.mix(
                    [algorithm.denoise(x, times, conditions) for conditions in inputs]
                )

            noise = torch.randn(real.shape, generator=generator, device=generator.device)
            x = noise.to(algorithm.scaling.scale.device)
            if self.solver == "rk45":
                x = self._adaptive(clean, x)
            else:
                x = self._grid(clean, x, steps)
        nfe = torch.full((len(x),), calls, dtype=torch.long, device=x.device)
        return SampleOutput(algorithm.scaling.inverse(x), nfe, torch.zeros_like(nfe).double())

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
        from scipy.integrate import RK45

        run = RK45(velocity, 1.0, start, SMALLEST_T, rtol=self.rtol, atol=self.atol)
        while run.status == "running":
            run.step()
        if run.status == "failed":
            raise ValueError("rk45 found no step that is small enough; take sampling.solver=heun")
        return clean(torch.from_numpy(run.y).to(like).reshape(shape), SMALLEST_T)


class Direct(Sampler[Regression]):
    """Direct: the image that a regression expects, in one network call.

    Returns xhat(condition). Nothing is random: the same condition gives the same image.
    """

    name = "direct"
    law = Law.APPROXIMATE  # the expectation, not a sample
    state = "field"
    algorithms = ("regression",)

    def work(self, num: int, algorithm: Regression | None = None) -> int:
        return num

    def check(self, algorithm: Regression, steps: int | None = None) -> None:
        if steps not in (None, 1):
            raise ValueError(f"steps={steps}: sampling=direct makes one step; leave steps out")
        super().check(algorithm, steps)

    def sample(
        self,
        algorithm: Regression,
        real: Tensor,
        *,
        generator: torch.Generator,
        steps: int | None = None,
        clamp: Tensor | None = None,
        conditions: Conditions | None = None,
    ) -> SampleOutput:
        """One image per row of the conditions, raw: Float32 of the shape of ``real``."""
        self.check(algorithm, steps)
        self.refuse_clamp(clamp)
        check_given(algorithm, conditions)
        with eval_mode(algorithm), progress.calls(1) as going:
            going.begin()
            xhat = algorithm.expected(tuple(real.shape), conditions or {})
        nfe = torch.ones(len(xhat), dtype=torch.long, device=xhat.device)
        return SampleOutput(algorithm.scaling.inverse(xhat), nfe, torch.zeros_like(nfe).double())
