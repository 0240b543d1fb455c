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
from discrete_diffusion.sampling import Exactness, Guidance, Sampler, check_given


def refuse_clamp(sampler: Sampler[Any], clamp: Tensor | None) -> None:
    """Raise ``ValueError`` if a clamp is given."""
    if clamp is not None:
        raise ValueError(f"sampling={sampler.name} cannot hold ids fixed; leave clamp out")


@dataclass
class _Rows:
    """State of sampling. ``x``: Float[B, N, M], scaled rows. ``masked``: Bool[B, N], rows to
    sample. ``conditions``: encoded conditions, one row per sample."""

    algorithm: MaskedFeatures
    x: Tensor
    masked: Tensor
    real: Tensor
    conditions: dict[str, Any]
    generator: torch.Generator
    calls: progress.Calls

    def select_conditions(self, some: Tensor) -> dict[str, Any]:
        """Conditions of the samples ``some``, Int[R] or Bool[B]."""
        return {name: value[some] for name, value in self.conditions.items()}


@dataclass(kw_only=True)
class RowAncestral(Sampler[MaskedFeatures]):
    """Row-ancestral: hidden rows are revealed step by step, observed ones returned unchanged.

    Samples masked rows given the others, from the model that ``MaskedFeatures`` trains.

    ``objective=mask`` reverses absorbing noise. A step of the grid from t to s reveals the rows
    with 1 - alpha(s) <= u < 1 - alpha(t), u uniform, and samples them all from one network call
    that sees the rows revealed before. The network's time is that of the share that is still
    masked. A step that reveals no row of a sample needs no call for this sample.
    ``objective=ddpm``: the posterior q(x_j | x_k, xhat) of ``LinearGaussian`` along ``steps`` of
    its T steps, evenly spread, from T - 1 on; the last step returns xhat.

    Given rows are returned bit for bit.

    ``temperature``: factor of all noise: that of a revealed row N(xhat, I), in scaled units, or
    that of the start and the steps of DDPM. None is 0 for ``mask``, which then fills in conditional
    means, and 1 for ``ddpm``.
    ``steps``: number of steps, unless passed to ``sample``.
    """

    name = "row-ancestral"
    exactness = Exactness.APPROXIMATE
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
        """Fill the NaN rows of ``clamp`` Float[B, N, M], raw values; other rows, and rows that are
        not ``real`` Bool[B, N], are returned unchanged. Raises ``ValueError`` if ``clamp`` is
        missing or has another shape, or if only part of a row is NaN."""
        self.check(algorithm, steps)
        if clamp is None or clamp.ndim != 3 or clamp.shape[:2] != real.shape:
            got = "none" if clamp is None else tuple(clamp.shape)
            raise ValueError(
                f"clamp: expected rows {(*real.shape, 'M')}, NaN where free; got {got}"
            )
        # rows to fill are NaN throughout
        missing = clamp.isnan()
        masked = missing.all(dim=-1) & real
        if (partly := missing.any(dim=-1) & ~missing.all(dim=-1)).any():
            sample, row = partly.nonzero()[0].tolist()
            raise ValueError(f"clamp: row {row} of sample {sample} is NaN in part")
        # scaled rows, 0 where nothing is known, filled step by step
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
        """Sample every masked row of ``rows.x`` once, in place; return the numbers of network
        calls, Int64[B]."""
        algorithm, x, masked = rows.algorithm, rows.x, rows.masked
        # u of a row decides at which step it is revealed
        u = uniform_draws(tuple(masked.shape), rows.generator, x.device)
        nfe = torch.zeros(len(x), dtype=torch.long, device=x.device)
        grid = torch.linspace(1, 0, steps + 1, dtype=torch.float64, device=x.device)
        for k, s in enumerate(grid[1:]):
            rows.calls.come(k / steps, steps - k)
            # samples of which this step reveals rows
            reveal = masked & (u >= algorithm.process.one_minus_alpha(s.expand(len(x))))
            some = reveal.any(dim=1).nonzero().squeeze(1)  # (R,)
            if some.numel() == 0:
                continue
            rows.calls.begin()
            xhat = algorithm.denoise_masked(
                x[some], masked[some], rows.real[some], rows.select_conditions(some)
            )
            sampled = xhat + self._noise(xhat, 0.0, rows.generator)
            x[some] = torch.where(reveal[some].unsqueeze(-1), sampled, x[some])
            masked = masked & ~reveal
            nfe[some] += 1
        return nfe

    def _denoise(self, rows: _Rows, steps: int) -> Tensor:
        """Denoise all masked rows of ``rows.x`` together, in place; return the numbers of network
        calls, Int64[B]."""
        algorithm, some = rows.algorithm, rows.masked.any(dim=1)
        gaussian, last = algorithm.gaussian, algorithm.gaussian.num_timesteps - 1
        grid = torch.linspace(last, -1, min(steps, last + 1) + 1, dtype=torch.float64)
        grid = grid.round().long()
        # noise in the masked rows of the samples that have any
        masked, real, conditions = rows.masked[some], rows.real[some], rows.select_conditions(some)
        x, noisy = rows.x[some], masked.unsqueeze(-1)
        state = torch.where(noisy, self._noise(x, 1.0, rows.generator), x)  # (R, N, M)
        rows.calls.expect(len(grid) - 1)
        for step in pairwise(grid.to(x.device)):
            k, j = (index.expand(len(state)) for index in step)
            rows.calls.begin()
            xhat = algorithm.denoise_noised(state, masked, k, real, conditions)
            # a sample of the posterior of the earlier step
            mean, variance = gaussian.posterior(state, xhat, k, j)
            sampled = mean + variance.sqrt() * self._noise(state, 1.0, rows.generator)
            state = torch.where(noisy, sampled.float(), state)
        rows.x[some] = state
        return some.long() * (len(grid) - 1)

    def _noise(self, like: Tensor, default: float, generator: torch.Generator) -> Tensor:
        """Normal noise scaled by the temperature; a temperature of 0 uses no random numbers."""
        temperature = default if self.temperature is None else self.temperature
        if temperature == 0:
            return torch.zeros_like(like)
        noise = torch.randn(like.shape, generator=generator, device=generator.device)
        return temperature * send(noise, like.device)


Tolerance = Annotated[float, Bounds(above=0, below=1)]


@dataclass(kw_only=True)
class Ode(Sampler[FlowMatching]):
    """Ode: images along the flow from noise to data, by Euler, Heun or an adaptive solver.

    Solves dx/dt = (x_t - xhat(x_t, t)) / t from noise at t = 1 to data at t = 0.

    ``solver``: ``euler``, one network call per step; ``heun``, two per step except the last;
    ``rk45``, Dormand and Prince's pair with adaptive steps (scipy), with ``rtol`` and ``atol``,
    down to t = 0.05. The last step of every solver returns xhat, which is exact for an exact
    network.

    ``guidance``: w in ``Guidance``; 1 means no guidance.
    ``steps``: number of steps of the uniform grid, unless passed to ``sample``.

    Conditions are encoded once for all steps if the encoder does not read the time
    (``Algorithm.encoded``).
    """

    name = "ode"
    exactness = Exactness.APPROXIMATE
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
        """One raw image per row of the conditions, Float32 of the shape of ``real``."""
        self.check(algorithm, steps)
        refuse_clamp(self, clamp)
        check_given(algorithm, conditions)
        self._guidance.check_conditions(algorithm, conditions)
        steps = self.steps if steps is None else steps
        # network calls at most, if that is known before
        most = {"euler": steps, "heun": 2 * steps - 1}.get(self.solver)
        calls = 0
        with eval_mode(algorithm), progress.calls(most, each=self._guidance.calls) as going:
            # conditions are encoded once
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

            # from noise at t = 1 to data
            noise = torch.randn(real.shape, generator=generator, device=generator.device)
            x = noise.to(algorithm.scaling.scale.device)
            rk45 = self.solver == "rk45"
            x = self._solve_adaptive(clean, x) if rk45 else self._solve_grid(clean, x, steps)
        nfe = torch.full((len(x),), calls, dtype=torch.long, device=x.device)
        return SampleOutput(algorithm.scaling.inverse(x), nfe, torch.zeros_like(nfe).double())

    def _solve_grid(
        self, clean: Callable[[Tensor, float], Tensor], x: Tensor, steps: int
    ) -> Tensor:
        for t, s in pairwise(np.linspace(1.0, 0.0, steps + 1).tolist()):
            # a step of Euler in ratios of times: x_s = (s / t) x_t + (1 - s / t) xhat
            xhat = clean(x, t)
            xs = s / t * x + (1 - s / t) * xhat
            # Heun: the mean of the velocities at both ends
            if self.solver == "heun" and s > 0:
                slope = (x - xhat) / t + (xs - clean(xs, s)) / s
                xs = x + (s - t) * slope / 2
            x = xs
        return x

    def _solve_adaptive(self, clean: Callable[[Tensor, float], Tensor], x: Tensor) -> Tensor:
        from scipy.integrate import RK45

        shape, like = x.shape, x

        def velocity(t: float, flat: np.ndarray) -> np.ndarray:
            xt = torch.from_numpy(flat).to(like).reshape(shape)
            return ((xt - clean(xt, t)) / t).double().flatten().cpu().numpy()

        # down to the smallest time, then one step that returns xhat
        start = x.double().flatten().cpu().numpy()
        run = RK45(velocity, 1.0, start, SMALLEST_T, rtol=self.rtol, atol=self.atol)
        while run.status == "running":
            run.step()
        if run.status == "failed":
            raise ValueError("rk45 found no step that is small enough; take sampling.solver=heun")
        return clean(torch.from_numpy(run.y).to(like).reshape(shape), SMALLEST_T)


class Direct(Sampler[Regression]):
    """Direct: the image that a regression expects, in one network call. Returns xhat(condition).
    It is deterministic: the same condition gives the same image."""

    name = "direct"
    exactness = Exactness.APPROXIMATE  # the expectation, not a sample
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
        """One raw image per row of the conditions, Float32 of the shape of ``real``."""
        self.check(algorithm, steps)
        refuse_clamp(self, clamp)
        check_given(algorithm, conditions)
        with eval_mode(algorithm), progress.calls(1) as going:
            going.begin()
            xhat = algorithm.expected(tuple(real.shape), conditions or {})
        nfe = torch.ones(len(xhat), dtype=torch.long, device=xhat.device)
        return SampleOutput(algorithm.scaling.inverse(xhat), nfe, torch.zeros_like(nfe).double())


@dataclass(kw_only=True)
class Generate(Sampler[LatentSeq2Seq]):
    """Generate: a text from latent vectors, token by token.

    Samples a text from left to right, until EOS; the decoder keeps its keys and values.

        p(token) ~ softmax(logits / temperature), restricted to the ``top_k`` likeliest tokens, then
        to the fewest of these with total probability ``top_p`` (arXiv 1904.09751)

    ``temperature``: 0 always takes the likeliest token. ``top_k``: None for all tokens.

    ``stop_similarity``: smallest cos(mean_k y_k, mean_k stop_k), with the latents y of a source
    text, at which the generated text is empty; None turns this off.

    Network calls are one for the latents and one per token, EOS included; finished samples are left
    out.
    """

    name = "generate"
    exactness = Exactness.MODEL
    state = "latent"
    algorithms = ("latent-seq2seq",)

    temperature: NotNegative = 0.7
    top_k: Count | None = 50
    top_p: Share = 0.9
    stop_similarity: Annotated[float, Bounds(least=-1, most=1)] | None = 0.99

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
        """Generate a text for each row of the condition ``source`` Int[B, S], source texts followed
        by PAD. Texts have at most T ids, for ``real`` Bool[B, T], and PAD after EOS."""
        self.check(algorithm, steps)
        refuse_clamp(self, clamp)
        if not conditions or "source" not in conditions:
            raise ValueError("generate samples given source texts; give conditions={'source': ...}")
        with eval_mode(algorithm), progress.calls(1 + real.shape[1]) as counting:
            counting.begin()
            latents = algorithm.target_latents(conditions["source"])
            return self._generate(algorithm, latents, real.shape[1], generator, counting)

    def draw_tokens(self, logits: Tensor, generator: torch.Generator) -> Tensor:
        """Sample a token per row: Float[B, V] -> Int[B]."""
        if self.temperature == 0:
            return logits.argmax(dim=-1)
        # the likeliest tokens, the largest first, tempered and cut to the nucleus
        num_kept = min(self.top_k or logits.shape[-1], logits.shape[-1])
        likeliest, ids = logits.topk(num_kept, dim=-1)  # (B, k)
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
        """Generate texts from latents Float[B, K, D]."""
        model = algorithm.backbone
        num, device = len(latents), latents.device
        # texts of PAD, EOS at once where the latents say stop
        targets = torch.full((num, target_length), algorithm.pad_id, device=device)
        calls = torch.ones(num, dtype=torch.long, device=device)
        stopped = torch.zeros(num, dtype=torch.bool, device=device)
        if self.stop_similarity is not None:
            stop = model.stop_latent().mean(dim=0)  # (D,)
            cosine = F.cosine_similarity(latents.mean(dim=1), stop, dim=-1)  # (B,)
            stopped = cosine >= self.stop_similarity
        targets[stopped, 0] = algorithm.eos_id
        # samples that have not ended, and what the decoder reads of them next
        rows = (~stopped).nonzero().squeeze(1)
        cache, read = model.decoder.new_cache(), model.prefix(latents[rows])
        for position in range(target_length):
            if len(rows) == 0:
                break
            counting.begin()
            # one token per text that has not ended
            logits = model.decoder(read, num_logits=1, cache=cache)[:, -1].float()
            ids = self.draw_tokens(logits, generator)
            targets[rows, position] = ids
            calls[rows] += 1
            # samples that ended leave the batch and the cache
            going = (ids != algorithm.eos_id).nonzero().squeeze(1)
            if len(going) < len(rows):
                rows, ids = rows[going], ids[going]
                cache.batch_select_indices(going)
            read = model.decoder.embed(ids.unsqueeze(1))
        return SampleOutput(targets, calls, torch.zeros_like(calls).double())
