"""``check_process``: checks the properties of a process that algorithms and samplers rely on."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from discrete_diffusion.categorical import log_softmax_on, make_generator
from discrete_diffusion.forward_process.base import ForwardProcess
from discrete_diffusion.forward_process.interpolating import InterpolatingProcess

EXACT, DERIVED, ROUNDING = 1e-9, 1e-4, 1e-11
"""Largest errors: of a probability, of a jump rate as a share of it, and of the probability of a
jump within a short time."""
STAYING, SHORTEST, LONGEST = 1e-3, 1e-10, 1e-5
"""Expected jumps of the fastest id in the time over which rates are compared; limits of that
time."""
TIMES = ((0.0, 0.3), (0.3, 0.7), (0.05, 0.98), (0.0, 1.0), (0.6, 1.0), (0.4, 0.4))
"""Pairs of times (s, t) to check, s <= t."""
NUM_SAMPLES = 4000


def check_process(process: ForwardProcess, *, seed: int = 0) -> None:
    """Check a process by enumeration over all ids of its layout, for tests of new processes.

    * ``prior`` and ``transition`` are distributions on legal ids and MASK, ``transition`` is the
      identity over no time, the prior at t = 1, and its steps compose (Chapman-Kolmogorov);
    * ``rates`` are not negative, ``transition`` over a short time is their exponential, and
      ``sources`` has all of them;
    * ``alpha`` falls from 1 to 0, and ``sigma`` is finite;
    * ``marginal_log_probs``, ``posterior_log_probs`` (Bayes' rule) and ``leave_one_out`` follow
      from ``transition``, for a random D; so do the noise mass and jump rates of an
      ``InterpolatingProcess``, in all their forms;
    * ``corrupt``, ``corrupt_further`` and ``prior_sample`` have these distributions in 4,000
      samples with a fixed ``seed``, and leave positions that are not real untouched.

    Args:
        process: a process with any schedule, on a layout of few positions and ids; best with a PAD
            and with positions that differ in their legal ids.
        seed: seed of the random D and of the samples.

    Raises:
        ValueError: a property does not hold; the message names the first one, its times, position
            and ids, the value and what was expected. Also if the layout is too large to enumerate.
    """
    layout = process.layout
    if layout.length * layout.vocab_size**2 > 2**24:  # entries of the matrices of all positions
        raise ValueError(
            f"{process.name}: {layout.length} positions of {layout.vocab_size} ids are too many to "
            "enumerate; check the process on a smaller layout, such as TokenLayout.flat(3, 6, "
            "mask_id=4, pad_id=5)"
        )
    with torch.no_grad():
        check = _Check(process, seed)
        check.prior()
        check.alpha()
        for s, t in TIMES:
            check.transition(s, t)
        check.composition()
        for t in (0.02, 0.5, 0.95):
            check.rates(t)
        if isinstance(process, InterpolatingProcess):
            for t in (0.02, 0.5, 0.95):
                check.noise(process, t)
        for s, t in ((0.0, 0.4), (0.3, 0.7), (0.0, 0.98), (0.5, 1.0)):
            check.distributions(s, t)
        check.samples()


@dataclass(frozen=True)
class _Tolerance:
    """Names of the axes, the allowed errors, and the entries to compare.

    ``exact``: allowed absolute error; ``share``: allowed share of the expected value. ``only``:
    Bool, broadcastable, True at entries to compare.
    """

    axes: tuple[str, ...]
    exact: float = EXACT
    share: float = 0.0
    only: Tensor | None = None


SAMPLE, TOKEN = _Tolerance(("sample", "position")), _Tolerance(("token", "position"))
PAIR = _Tolerance(("position", "from id", "to id"))
ENTRY = _Tolerance(("position", "id"))


class _Check:
    """Checks of ``check_process``; ``alphabet``: Bool[L, V], ids that occur at each position."""

    def __init__(self, process: ForwardProcess, seed: int) -> None:
        self.process, self.layout, self.seed = process, process.layout, seed
        self.length, self.size = self.layout.length, self.layout.vocab_size
        self.device = self.layout.support.device
        self.pad = self.layout.mask_id if self.layout.pad_id is None else self.layout.pad_id
        self.position = torch.arange(self.length, device=self.device)
        self.allowed = self.layout.support.clone()
        self.allowed[:, self.layout.mask_id] = True
        self.alphabet = self.layout.support | (process.prior() > 0)
        # rows of transition matrices that can be reached
        self.rows = replace(PAIR, only=self.alphabet.unsqueeze(-1))
        # a random D, Float64[1, L, V]
        shape = (1, self.length, self.size)
        logits = torch.randn(shape, generator=make_generator(seed), dtype=torch.float64)
        self.log_d0 = log_softmax_on(logits.to(self.device), self.layout.support)

    # -- tools -----------------------------------------------------------------------------------

    def times(self, t: float, num: int = 1) -> Tensor:
        return torch.full((num,), t, dtype=torch.float64, device=self.device)

    def same(
        self, what: str, value: Tensor, expected: Tensor | float, tolerance: _Tolerance
    ) -> None:
        """Raise ``ValueError`` for the first number with an error above the tolerance."""
        expected = torch.as_tensor(expected).to(value).expand_as(value)
        error = (value - expected).abs()
        wrong = ~(error <= tolerance.exact + tolerance.share * expected.abs())
        if tolerance.only is not None:
            wrong &= tolerance.only
        if wrong.any():
            index = wrong.nonzero()[0].tolist()
            place = ", ".join(f"{axis} {k}" for axis, k in zip(tolerance.axes, index, strict=True))
            got, right = float(value[tuple(index)]), float(expected[tuple(index)])
            raise ValueError(
                f"{self.process.name}: {what}{', ' if place else ''}{place}: got {got:.10g}, "
                f"expected {right:.10g}"
            )

    def shaped(self, what: str, value: Tensor, *shape: int) -> None:
        if tuple(value.shape) != shape:
            raise ValueError(
                f"{self.process.name}: {what} has shape {tuple(value.shape)}, expected {shape}"
            )

    def matrices(self, s: float, t: float) -> Tensor:
        """Q_{s,t}, Float64[L, V, V], with rows of 0 for ids outside the alphabet."""
        process, index = self.process, self.process.matrix_index()
        q = process.transition(self.times(s), self.times(t))
        self.shaped("transition(s, t)", q, 1, int(index.max()) + 1, self.size, self.size)
        return q[0, index] * self.alphabet.unsqueeze(-1)

    def every_token(self) -> Tensor:
        """Int[V, L]: row v has id v at every position where it occurs, elsewhere a legal id."""
        ids = torch.arange(self.size, device=self.device).unsqueeze(1)
        other = self.layout.support.long().argmax(dim=1).expand(self.size, -1)
        return torch.where(self.alphabet.T, ids, other)

    # -- checks ----------------------------------------------------------------------------------

    def prior(self) -> None:
        pi = self.process.prior()
        self.shaped("prior()", pi, self.length, self.size)
        self.same("prior() outside the legal ids and MASK", pi * ~self.allowed, 0, ENTRY)
        self.same("prior() below 0", pi.clamp(max=0), 0, ENTRY)
        self.same("the sum of prior()", pi.sum(dim=-1), 1, _Tolerance(("position",)))

    def alpha(self) -> None:
        process, t = self.process, torch.linspace(0, 1, 65).to(self.log_d0)
        alpha, share = process.alpha(t), process.one_minus_alpha(t)
        times, ends = _Tolerance(("k, t = k / 64, k =", "column")), _Tolerance(("column",))
        self.same("one_minus_alpha(t) and 1 - alpha(t)", share, 1 - alpha, times)
        self.same("alpha(0)", alpha[0], 1, ends)
        self.same("alpha(1)", alpha[-1], 0, ends)
        rise = alpha.diff(dim=0).clamp(min=0)
        self.same("alpha(t + 1/64) - alpha(t), which may not rise", rise, 0, times)
        real = torch.ones(len(t), self.length, dtype=torch.bool, device=t.device)
        sigma = process.sigma(t, real)
        self.shaped("sigma(t, real)", sigma, len(t))
        finite = sigma.nan_to_num(0, 0, 0)
        self.same("sigma(t, real) that is finite", sigma, finite, _Tolerance(("k",)))

    def transition(self, s: float, t: float) -> None:
        q, what = self.matrices(s, t), f"transition({s:g}, {t:g})"
        self.same(f"{what} below 0", q.clamp(max=0), 0, PAIR)
        outside = q * ~self.alphabet.unsqueeze(-2)
        self.same(f"{what} into ids that may not occur there", outside, 0, PAIR)
        total, rows = q.sum(dim=-1), _Tolerance(PAIR.axes[:2])
        self.same(f"the sum of {what}", total, self.alphabet.double(), rows)
        log_q = self.process.log_transition(self.times(s), self.times(t))[
            0, self.process.matrix_index()
        ]
        self.same(f"exp of log_transition({s:g}, {t:g})", log_q.exp(), q, self.rows)
        if s == t:
            self.same(f"{what}, the identity", q, torch.eye(self.size), self.rows)
        if t == 1:
            prior = self.process.prior().unsqueeze(-2)
            self.same(f"{what}, the prior,", q, prior, self.rows)

    def composition(self) -> None:
        for s, u, t in ((0.0, 0.3, 0.7), (0.2, 0.5, 0.9), (0.1, 0.6, 1.0)):
            product = self.matrices(s, u) @ self.matrices(u, t)
            what = f"transition({s:g}, {u:g}) transition({u:g}, {t:g}) and transition({s:g}, {t:g})"
            self.same(f"{what} (Chapman-Kolmogorov)", product, self.matrices(s, t), PAIR)

    def rates(self, t: float) -> None:
        process, index = self.process, self.process.matrix_index()
        num, others = int(index.max()) + 1, ~torch.eye(self.size, dtype=torch.bool)
        others = others.to(self.device)
        rates = process.rates(self.times(t))[0].expand(num, -1, -1)[index] * others
        rates = rates * self.alphabet.unsqueeze(-1)
        self.same(f"rates({t:g}) that are finite", rates, rates.nan_to_num(0, 0, 0), PAIR)
        self.same(f"rates({t:g}) below 0", rates.clamp(max=0), 0, PAIR)
        # every rate is among the sources of the id that it leads to
        known = torch.zeros_like(rates, dtype=torch.bool)
        sources = process.sources().expand(num, -1, -1)[index]
        known.transpose(-1, -2).scatter_(-1, sources, True)
        self.same(f"rates({t:g}) that sources() leaves out", rates * ~known, 0, PAIR)

        # a time in which the fastest id stays, so that no rate is hidden by jumps that follow it;
        # second jumps are part of both sides, and fast ids are no error of slow ones
        leaving = rates.sum(dim=-1)
        h = min(max(STAYING / max(float(leaving.max()), 1.0), SHORTEST), LONGEST)
        s, u = t - h / 2, t + h / 2
        h = u - s  # as rounded
        jumps = torch.matrix_exp(h * (rates - torch.diag_embed(leaving)))
        self.same(
            f"expm(h rates({t:g})) / h and transition(t - h/2, t + h/2) / h, h = {h:.0e}",
            jumps * others / h,
            self.matrices(s, u) * others / h,
            replace(PAIR, exact=ROUNDING / h, share=DERIVED),
        )

    def distributions(self, s: float, t: float) -> None:
        process, d0 = self.process, self.log_d0.exp()[0]
        # the marginal is D times the transition matrix
        at_s = torch.einsum("lx,lxy->ly", d0, self.matrices(0.0, s))
        at_t = torch.einsum("lx,lxy->ly", d0, self.matrices(0.0, t))
        marginal = process.marginal_log_probs(self.log_d0, self.times(t))[0].exp()
        self.same(f"marginal_log_probs at t = {t:g}", marginal, at_t, ENTRY)

        # the posterior is Q_{s,t}(xs, xt) times the marginal at s, normalised
        xt, log_d0 = self.every_token(), self.log_d0.expand(self.size, -1, -1)  # (V, L)
        ends = self.times(t, self.size), self.times(s, self.size)
        joint = self.matrices(s, t).transpose(-1, -2)[self.position, xt] * at_s  # (V, L, V)
        total = joint.sum(dim=-1, keepdim=True)
        log_p, expected = (
            process.posterior_log_probs(xt, log_d0, *ends),
            joint / total.clamp(1e-300),
        )
        possible = _Tolerance(("token", *ENTRY.axes), only=total > 1e-12)
        what = f"posterior_log_probs from t = {t:g} to s = {s:g} (Bayes)"
        self.same(what, log_p.exp(), expected, possible)

        # P at s = 0 leads back to D, where xt does not rule out a legal id
        if s == 0 and t < 1:
            back = process.leave_one_out(log_p, xt, ends[0]).exp()
            seen = self.matrices(0.0, t).transpose(-1, -2)[self.position, xt] > 1e-9
            sure = (seen | ~self.layout.support).all(dim=-1, keepdim=True)
            loose = replace(possible, exact=1e-5, only=sure)
            self.same(f"leave_one_out at t = {t:g}, of D", back, d0, loose)

    def noise(self, process: InterpolatingProcess, time: float) -> None:
        t, xt = self.times(time, self.size), self.every_token()
        ids, noise = xt.unsqueeze(-1), process.noise(t)
        share = process.one_minus_alpha(t).expand(-1, self.length)
        self.same(f"the sum of noise({time:g})", noise.sum(dim=-1), share, TOKEN)
        here = noise.gather(-1, ids).squeeze(-1)
        at_xt = process.log_noise_at(xt, t).exp()
        self.same(f"exp of log_noise_at, t = {time:g}", at_xt, here, TOKEN)
        log_noise = process.log_noise(t).expand_as(noise).gather(-1, ids).squeeze(-1)
        self.same(f"exp of log_noise, t = {time:g}", log_noise.exp(), here, TOKEN)
        rate = process.jump_rates(t).expand_as(noise).gather(-1, ids).squeeze(-1)
        at_xt, relative = process.log_rate_at(xt, t).exp(), replace(TOKEN, share=1e-9)
        self.same(f"exp of log_rate_at, t = {time:g}", at_xt, rate, relative)

    def samples(self) -> None:
        process, generator = self.process, make_generator(self.seed, 1, device=self.device)
        some = self.layout.support.long().argmax(dim=1)
        for row in self.every_token()[: 2 * self.length : 2][:3]:
            x0 = torch.where(self.layout.support[self.position, row], row, some)
            for s, t in ((0.3, 0.8), (0.1, 1.0)):
                # every fifth sample is one position shorter
                real = torch.ones(NUM_SAMPLES, self.length, dtype=torch.bool, device=self.device)
                real[::5, -1] = False
                start = torch.where(real, x0, self.pad)
                times = self.times(s, NUM_SAMPLES), self.times(t, NUM_SAMPLES)
                xs = process.corrupt(start, times[0], real, generator)
                at_s, at_t = (self.matrices(0.0, time)[self.position, x0] for time in (s, t))
                self.sampled(f"corrupt at t = {s:g}", xs, real, at_s)
                xt = process.corrupt_further(xs, *times, real, generator)
                self.sampled(f"corrupt_further from s = {s:g} to t = {t:g}", xt, real, at_t)
        x1 = process.prior_sample(real, generator)
        self.sampled("prior_sample", x1, real, process.prior())

    def sampled(self, what: str, x: Tensor, real: Tensor, probs: Tensor) -> None:
        """Check that x Int[B, L] follows probs [L, V], and has PAD where ``real`` is False."""
        self.shaped(what, x, *real.shape)
        self.same(f"{what} where real is False", torch.where(real, self.pad, x), self.pad, SAMPLE)
        # shares of ids within six standard errors of their probabilities
        num = real.sum(dim=0).unsqueeze(-1)
        ids = torch.arange(self.size, device=self.device)
        share = ((x.unsqueeze(-1) == ids) & real.unsqueeze(-1)).sum(dim=0) / num
        spread = (probs * (1 - probs)).clamp(min=0).sqrt() / num.sqrt()
        off = (share - probs).abs() - 6 * spread - 6 * (probs > 0) / num
        expected = torch.where(off <= 0, share.double(), probs)
        self.same(f"share of {what}", share.double(), expected, ENTRY)
