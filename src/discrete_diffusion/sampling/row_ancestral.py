"""Row-ancestral: hidden rows are revealed step by step, observed ones returned unchanged."""

from __future__ import annotations

from itertools import pairwise
from typing import ClassVar

import torch
from torch import Tensor

from discrete_diffusion.algorithms.masked_features import MaskedFeatures
from discrete_diffusion.categorical import uniform_draws
from discrete_diffusion.options import check_whole_number, is_number
from discrete_diffusion.types import FilledRows


class RowAncestral:
    """Draws masked rows given the others, from the model that ``MaskedFeatures`` trains.

    ``objective=mask``: every masked row draws when it is revealed, as absorbing noise has it; a
    step of the grid from t to s reveals those with 1 - alpha(s) <= u < 1 - alpha(t), u uniform, all
    from one network call that sees the rows revealed before. The network's time is that of the
    share that is still masked. A sample of which a step reveals nothing costs no call.
    ``objective=ddpm``: the posterior q(x_j | x_k, xhat) of ``LinearGaussian`` along ``steps`` of
    its T steps, evenly spread, T - 1 the first; the last one ends with xhat.

    Rows that are given are never changed: they come back bit for bit.

    ``temperature``: scales all noise that is added, so 0 is the mean: of a revealed row
    N(xhat, I), in scaled units, or of the steps of DDPM, whose start is scaled too. None is 0 for
    ``mask``, which then fills in conditional means, and 1 for ``ddpm``.
    ``default_steps``: of the grid, unless the request says.
    """

    name: ClassVar[str] = "row-ancestral"
    state: ClassVar[str] = "features"

    def __init__(self, *, default_steps: int = 8, temperature: float | None = None) -> None:
        check_whole_number("sampling.default_steps", default_steps, least=1)
        if temperature is not None and not (is_number(temperature) and 0 <= temperature < 1e6):
            raise ValueError(f"sampling.temperature={temperature}: expected 0 or more")
        self.default_steps, self.temperature = default_steps, temperature

    def check_steps(self, steps: int | None) -> None:
        """Raise ``ValueError`` for a number of ``steps`` below 1."""
        if steps is not None and steps < 1:
            raise ValueError(f"steps={steps}: expected at least 1")

    @torch.no_grad()
    def fill(
        self,
        algorithm: MaskedFeatures,
        rows: Tensor,
        masked: Tensor,
        real: Tensor,
        *,
        generator: torch.Generator,
        steps: int | None = None,
    ) -> FilledRows:
        """Fill the ``masked`` rows, Bool[B, N], of ``rows`` Float[B, N, M], which are raw values;
        what stands in masked rows is not read. ``real``: Bool[B, N], rows that are there.

        The algorithm is in eval mode meanwhile. Raises ``ValueError`` for shapes that do not fit.
        """
        self.check_steps(steps)
        if rows.ndim != 3 or rows.shape[:2] != masked.shape or masked.shape != real.shape:
            raise ValueError(
                f"expected rows (B, N, M), masked (B, N) and real (B, N); got {tuple(rows.shape)}, "
                f"{tuple(masked.shape)} and {tuple(real.shape)}"
            )
        masked = masked & real
        steps = self.default_steps if steps is None else steps
        was_training = algorithm.training
        algorithm.eval()
        try:
            x = algorithm.scaling(rows).masked_fill((masked | ~real).unsqueeze(-1), 0.0)
            run = self._reveal if algorithm.objective == "mask" else self._denoise
            x, nfe = run(algorithm, x, masked, real, steps, generator)
        finally:
            algorithm.train(was_training)
        filled = torch.where(masked.unsqueeze(-1), algorithm.scaling.inverse(x), rows.float())
        return FilledRows(filled, nfe)

    def _reveal(
        self,
        algorithm: MaskedFeatures,
        x: Tensor,
        masked: Tensor,
        real: Tensor,
        steps: int,
        generator: torch.Generator,
    ) -> tuple[Tensor, Tensor]:
        u = uniform_draws(tuple(masked.shape), generator, x.device)
        nfe = torch.zeros(len(x), dtype=torch.long, device=x.device)
        grid = torch.linspace(1, 0, steps + 1, dtype=torch.float64, device=x.device)
        for s in grid[1:]:
            reveal = masked & (u >= algorithm.process.one_minus_alpha(s.expand(len(x))))
            some = reveal.any(dim=1).nonzero().squeeze(1)  # (R,)
            if some.numel() == 0:
                continue
            xhat = algorithm.denoise_masked(x[some], masked[some], real[some])
            drawn = xhat + self._noise(xhat, 0.0, generator)
            x[some] = torch.where(reveal[some].unsqueeze(-1), drawn, x[some])
            masked = masked & ~reveal
            nfe[some] += 1
        return x, nfe

    def _denoise(
        self,
        algorithm: MaskedFeatures,
        x: Tensor,
        masked: Tensor,
        real: Tensor,
        steps: int,
        generator: torch.Generator,
    ) -> tuple[Tensor, Tensor]:
        gaussian, some = algorithm.gaussian, masked.any(dim=1)
        last = gaussian.num_timesteps - 1
        grid = (
            torch.linspace(last, -1, min(steps, last + 1) + 1, dtype=torch.float64).round().long()
        )
        noisy = masked[some].unsqueeze(-1)
        state = torch.where(noisy, self._noise(x[some], 1.0, generator), x[some])  # (R, N, M)
        for step in pairwise(grid.to(x.device)):
            k, j = (index.expand(len(state)) for index in step)
            xhat = algorithm.denoise_noised(state, masked[some], k, real[some])
            mean, variance = gaussian.posterior(state, xhat, k, j)
            drawn = mean + variance.sqrt() * self._noise(state, 1.0, generator)
            state = torch.where(noisy, drawn.float(), state)
        x[some] = state
        return x, some.long() * (len(grid) - 1)

    def _noise(self, like: Tensor, default: float, generator: torch.Generator) -> Tensor:
        """Normal draws of the temperature's size; zeros cost no draw."""
        temperature = default if self.temperature is None else self.temperature
        if temperature == 0:
            return torch.zeros_like(like)
        drawn = torch.randn(like.shape, generator=generator, device=generator.device)
        return temperature * drawn.to(like.device)
