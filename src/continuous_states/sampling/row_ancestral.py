"""Row-ancestral: hidden rows are revealed step by step, observed ones returned unchanged."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Any

import torch
from torch import Tensor

from continuous_states.algorithms.masked_features import MaskedFeatures
from discrete_diffusion.algorithms import eval_mode
from discrete_diffusion.categorical import send, uniform_draws
from discrete_diffusion.config import Bounds, Count
from discrete_diffusion.contracts import Conditions, SampleOutput
from discrete_diffusion.runtime import progress
from discrete_diffusion.sampling import Law, Sampler


@dataclass
class _Rows:
    """Samples so far: ``x`` Float[B, N, M], scaled, whose ``masked`` Bool[B, N] rows are sampled.

    ``conditions``: encoded, a row each.
    """

    algorithm: MaskedFeatures
    x: Tensor
    masked: Tensor
    real: Tensor
    conditions: dict[str, Any]
    generator: torch.Generator
    calls: progress.Calls

    def conditions_of(self, some: Tensor) -> dict[str, Any]:
        """Those of some samples, Int[R] or Bool[B]."""
        return {name: value[some] for name, value in self.conditions.items()}


@dataclass(kw_only=True)
class RowAncestral(Sampler[MaskedFeatures]):
    """Row-ancestral: hidden rows are revealed step by step, observed ones returned unchanged.

    Draws masked rows given the others, from the model that ``MaskedFeatures`` trains.

    ``objective=mask``: every masked row is sampled when it is revealed, as absorbing noise has it;
    a step of the grid from t to s reveals those with 1 - alpha(s) <= u < 1 - alpha(t), u uniform,
    all from one network call that sees the rows revealed before. The network's time is that of the
    share that is still masked. A sample of which a step reveals nothing costs no call.
    ``objective=ddpm``: the posterior q(x_j | x_k, xhat) of ``LinearGaussian`` along ``steps`` of
    its T steps, evenly spread, T - 1 the first; the last one ends with xhat.

    Rows that are given are never changed: they come back bit for bit.

    ``temperature``: scales all noise that is added, so 0 is the mean: of a revealed row
    N(xhat, I), in scaled units, or of the steps of DDPM, whose start is scaled too. None is 0 for
    ``mask``, which then fills in conditional means, and 1 for ``ddpm``.
    ``steps``: of the grid, unless ``sample`` is given others.
    """

    name = "row-ancestral"
    law = Law.APPROXIMATE
    state = "features"
    algorithms = ("masked-features",)

    steps: Count = 8
    temperature: Annotated[float, Bounds(least=0, below=1e6)] | None = None

    def work(self, num: int, algorithm: MaskedFeatures | None = None) -> int:
        return num * self.steps

    def sample(
        self,
        algorithm: MaskedFeatures,
        real: Tensor,
        *,
        generator: torch.Generator,
        steps: int | None = None,
        clamp: Tensor | None = None,
        conditions: Conditions | None = None,
    ) -> SampleOutput:
        """Fill the rows that ``clamp`` Float[B, N, M], raw values, leaves free: those that are NaN.

        ``real``: Bool[B, N], rows that are there. Others come back as they are, like given ones.

        Raises ``ValueError`` for no ``clamp``, one of another shape, or a row that is NaN in part.
        """
        self.check(algorithm, steps)
        if clamp is None or clamp.ndim != 3 or clamp.shape[:2] != real.shape:
            got = "none" if clamp is None else tuple(clamp.shape)
            raise ValueError(
                f"clamp: expected rows {(*real.shape, 'M')}, NaN where free; got {got}"
            )
        missing = clamp.isnan()
        masked = missing.all(dim=-1) & real
        if (partly := missing.any(dim=-1) & ~missing.all(dim=-1)).any():
            sample, row = partly.nonzero()[0].tolist()
            raise ValueError(f"clamp: row {row} of sample {sample} is NaN in part")
        steps = self.steps if steps is None else steps
        with eval_mode(algorithm), progress.calls() as calls:
            x = algorithm.scaling(clamp).masked_fill((masked | ~real).unsqueeze(-1), 0.0)
            encoded = algorithm.encoded(conditions)
            rows = _Rows(algorithm, x, masked, real, encoded, generator, calls)
            run = self._reveal if algorithm.objective == "mask" else self._denoise
            nfe = run(rows, steps)
        filled = torch.where(masked.unsqueeze(-1), algorithm.scaling.inverse(rows.x), clamp.float())
        return SampleOutput(filled, nfe, torch.zeros_like(nfe).double())

    def _reveal(self, rows: _Rows, steps: int) -> Tensor:
        """Sample every row once, in ``rows.x``; the network calls Int64[B]."""
        algorithm, x, masked = rows.algorithm, rows.x, rows.masked
        u = uniform_draws(tuple(masked.shape), rows.generator, x.device)
        nfe = torch.zeros(len(x), dtype=torch.long, device=x.device)
        grid = torch.linspace(1, 0, steps + 1, dtype=torch.float64, device=x.device)
        for k, s in enumerate(grid[1:]):
            rows.calls.come(k / steps, steps - k)
            reveal = masked & (u >= algorithm.process.one_minus_alpha(s.expand(len(x))))
            some = reveal.any(dim=1).nonzero().squeeze(1)  # (R,)
            if some.numel() == 0:
                continue
            of_some = rows.conditions_of(some)
            rows.calls.begin()
            xhat = algorithm.denoise_masked(x[some], masked[some], rows.real[some], of_some)
            drawn = xhat + self._noise(xhat, 0.0, rows.generator)
            x[some] = torch.where(reveal[some].unsqueeze(-1), drawn, x[some])
            masked = masked & ~reveal
            nfe[some] += 1
        return nfe

    def _denoise(self, rows: _Rows, steps: int) -> Tensor:
        """Denoise all rows together, in ``rows.x``; the network calls Int64[B]."""
        algorithm, some = rows.algorithm, rows.masked.any(dim=1)
        gaussian = algorithm.gaussian
        last = gaussian.num_timesteps - 1
        grid = (
            torch.linspace(last, -1, min(steps, last + 1) + 1, dtype=torch.float64).round().long()
        )
        masked, real, of_some = rows.masked[some], rows.real[some], rows.conditions_of(some)
        x, noisy = rows.x[some], masked.unsqueeze(-1)
        state = torch.where(noisy, self._noise(x, 1.0, rows.generator), x)  # (R, N, M)
        rows.calls.expect(len(grid) - 1)
        for step in pairwise(grid.to(x.device)):
            k, j = (index.expand(len(state)) for index in step)
            rows.calls.begin()
            xhat = algorithm.denoise_noised(state, masked, k, real, of_some)
            mean, variance = gaussian.posterior(state, xhat, k, j)
            drawn = mean + variance.sqrt() * self._noise(state, 1.0, rows.generator)
            state = torch.where(noisy, drawn.float(), state)
        rows.x[some] = state
        return some.long() * (len(grid) - 1)

    def _noise(self, like: Tensor, default: float, generator: torch.Generator) -> Tensor:
        """Normal noise of the temperature's size; zeros cost no random number."""
        temperature = default if self.temperature is None else self.temperature
        if temperature == 0:
            return torch.zeros_like(like)
        drawn = torch.randn(like.shape, generator=generator, device=generator.device)
        return temperature * send(drawn, like.device)
