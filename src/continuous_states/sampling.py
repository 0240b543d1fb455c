"""Samplers of rows of numbers, images and texts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from continuous_states.algorithms.fields import SMALLEST_T, FlowMatching, Regression
from continuous_states.algorithms.latent_seq2seq import LatentSeq2Seq
from continuous_states.algorithms.masked_features import MaskedFeatures
from discrete_diffusion.algorithms import eval_mode
from discrete_diffusion.categorical import nucleus, sample_categorical, send, uniform_draws
from discrete_diffusion.config import Bounds, Count, NotNegative, Share
from discrete_diffusion.contracts import Conditions, SampleOutput
from discrete_diffusion.runtime import progress
from discrete_diffusion.sampling import Guidance, Law, Sampler, check_given


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
        with eval_mode(algorithm), progress.calls(most, each=self._guidance.calls) as going:
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


@dataclass(kw_only=True)
class Generate(Sampler[LatentSeq2Seq]):
    """Generate: a text from latent vectors, token by token.

    Draws a text from left to right, until EOS; the decoder keeps its keys and values.

        p(token) ~ softmax(logits / temperature), of the ``top_k`` likeliest tokens, and of those
        the fewest that have the share ``top_p`` (arXiv 1904.09751)

    ``temperature`` 0: the likeliest token, nothing is drawn. ``top_k`` None: all tokens.

    ``stop_cosine``: if cos(mean_k y_k, mean_k stop_k) of the latents y of a source text is as
    large, the text is empty. None: never.

    One call for the latents and one per token, EOS included; samples that have ended are left out.
    """

    name = "generate"
    law = Law.MODEL
    state = "latent"
    algorithms = ("latent-seq2seq",)

    temperature: NotNegative = 0.7
    top_k: Count | None = 50
    top_p: Share = 0.9
    stop_cosine: Annotated[float, Bounds(least=-1, most=1)] | None = 0.99

    def check(self, algorithm: LatentSeq2Seq, steps: int | None = None) -> None:
        if steps is not None:
            raise ValueError(
                f"steps={steps}: sampling=generate makes one call per token; leave steps out"
            )
        super().check(algorithm, steps)

    def work(self, num: int, algorithm: LatentSeq2Seq | None = None) -> int:
        return num

    def sample(
        self,
        algorithm: LatentSeq2Seq,
        real: Tensor,
        *,
        generator: torch.Generator,
        steps: int | None = None,
        clamp: Tensor | None = None,
        conditions: Conditions | None = None,
    ) -> SampleOutput:
        """One text per row of the condition ``source`` Int[B, S], source texts with PAD behind: at
        most as many ids as the T columns of ``real`` Bool[B, T], PAD behind EOS."""
        self.check(algorithm, steps)
        self.refuse_clamp(clamp)
        if not conditions or "source" not in conditions:
            raise ValueError("generate samples given source texts; give conditions={'source': ...}")
        with eval_mode(algorithm), progress.calls(1 + real.shape[1]) as counting:
            counting.begin()
            latents = algorithm.target_latents(conditions["source"])
            return self._generate(algorithm, latents, real.shape[1], generator, counting)

    def draw_tokens(self, logits: Tensor, generator: torch.Generator) -> Tensor:
        """Float[B, V] -> Int[B]."""
        if self.temperature == 0:
            return logits.argmax(dim=-1)
        num_kept = min(self.top_k or logits.shape[-1], logits.shape[-1])
        likeliest, ids = logits.topk(num_kept, dim=-1)  # (B, k), the largest first
        tempered = (likeliest - likeliest[:, :1]).double() / self.temperature
        chosen = sample_categorical(nucleus(tempered.log_softmax(dim=-1), self.top_p), generator)
        return ids.gather(1, chosen.unsqueeze(1)).squeeze(1)

    def _generate(
        self,
        algorithm: LatentSeq2Seq,
        latents: Tensor,
        target_length: int,
        generator: torch.Generator,
        counting: progress.Calls,
    ) -> SampleOutput:
        """Generate from latents Float[B, K, D]."""
        model = algorithm.backbone
        num, device = len(latents), latents.device
        targets = torch.full((num, target_length), algorithm.pad_id, device=device)
        calls = torch.ones(num, dtype=torch.long, device=device)
        stopped = self._is_stop(latents, model.stop_latent())
        targets[stopped, 0] = algorithm.eos_id
        rows = (~stopped).nonzero().squeeze(1)  # samples that have not ended
        cache, read = model.decoder.new_cache(), model.prefix(latents[rows])
        for position in range(target_length):
            if len(rows) == 0:
                break
            counting.begin()
            logits = model.decoder(read, num_logits=1, cache=cache)[:, -1].float()
            ids = self.draw_tokens(logits, generator)
            targets[rows, position] = ids
            calls[rows] += 1
            going = (ids != algorithm.eos_id).nonzero().squeeze(1)
            if len(going) < len(rows):
                rows, ids = rows[going], ids[going]
                cache.batch_select_indices(going)
            read = model.decoder.embed(ids.unsqueeze(1))
        return SampleOutput(targets, calls, torch.zeros_like(calls).double())

    def _is_stop(self, latents: Tensor, stop: Tensor) -> Tensor:
        """Bool[B], of latents Float[B, K, D] and stop Float[K, D]."""
        if self.stop_cosine is None:
            return torch.zeros(len(latents), dtype=torch.bool, device=latents.device)
        cosine = F.cosine_similarity(latents.mean(dim=1), stop.mean(dim=0), dim=-1)
        return cosine >= self.stop_cosine
