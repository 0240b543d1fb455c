"""``check_process``: holds a forward process to what algorithms and samplers take for granted."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from discrete_diffusion.categorical import log_softmax_on, make_generator
from discrete_diffusion.forward_process.base import ForwardProcess
from discrete_diffusion.forward_process.interpolating import InterpolatingProcess

EXACT, DERIVED, ROUNDING = 1e-9, 1e-4, 1e-11
"""Largest error of a probability, of the rate of a jump as a share of it, and of the probability of
a jump within a short time."""
STAYING, SHORTEST, LONGEST = 1e-3, 1e-10, 1e-5
"""Jumps of the fastest id in the time over which rates are compared, and limits of that time."""
MOST_NUMBERS = 2**24
"""Largest number of entries in the transition matrices of all positions."""
TIMES = ((0.0, 0.3), (0.3, 0.7), (0.05, 0.98), (0.0, 1.0), (0.6, 1.0), (0.4, 0.4))
"""(s, t), s <= t."""
NUM_DRAWS = 4000


def check_process(process: ForwardProcess, *, seed: int = 0) -> None:
    """Check a process by enumeration over all ids of its layout; for one's own, in a test.

    * ``prior`` and ``transition`` are distributions on legal ids and MASK, ``transition`` is the
      identity over no time, the prior at t = 1, and its steps compose (Chapman-Kolmogorov);
    * ``rates`` are not negative, ``transition`` over a short time is their exponential, and
      ``sources`` has all of them;
    * ``alpha`` falls from 1 to 0, and ``sigma`` is finite;
    * ``marginal_log_probs``, ``posterior_log_probs`` (Bayes' rule) and ``leave_one_out`` follow
      from ``transition``, for a random D; of an ``InterpolatingProcess`` the noise mass and jump
      rates in all their forms too;
    * ``corrupt``, ``corrupt_further`` and ``prior_sample`` sample from these, 4,000 times with a
      fixed ``seed``, and leave positions that are not real untouched.

    Args:
        process: Of any schedule, on a layout of few positions and ids, with a PAD and positions of
            different legal ids at best.
        seed: Of the random D and of what is drawn.

    Raises:
        ValueError: For the first promise that is broken: which, at what times, position and ids,
            what was found and what was expected. Also if the layout is too large to enumerate.
    """
    layout = process.layout
    if layout.length * layout.vocab_size**2 > MOST_NUMBERS:
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
        check.draws()


class _Check:
    """The checks in turn; ``alphabet``: Bool[L, V], the ids that occur at each position."""

    def __init__(self, process: ForwardProcess, seed: int) -> None:
        self.process, self.layout, self.seed = process, process.layout, seed
        self.length, self.size = self.layout.length, self.layout.vocab_size
        self.allowed = self.layout.support.clone()
        self.allowed[:, self.layout.mask_id] = True
        self.alphabet = self.layout.support | (process.prior() > 0)
        logits = torch.randn(
            1, self.length, self.size, generator=make_generator(seed), dtype=torch.float64
        ).to(self.layout.support.device)
        self.log_d0 = log_softmax_on(logits, self.layout.support)

    def at(self, t: float, num: int = 1) -> Tensor:
        return torch.full((num,), t, dtype=torch.float64, device=self.layout.support.device)

    def same(self, what: str, found: Tensor, expected: Tensor, where: Where) -> None:
        """Raise ``ValueError`` for the first number that is off."""
        expected = expected.to(found).expand_as(found)
        wrong = ~((found - expected).abs() <= where.exact + where.share * expected.abs())
        if where.only is not None:
            wrong &= where.only
        if wrong.any():
            index = wrong.nonzero()[0].tolist()
            place = ", ".join(f"{axis} {k}" for axis, k in zip(where.axes, index, strict=True))
            got, right = float(found[tuple(index)]), float(expected[tuple(index)])
            raise ValueError(
                f"{self.process.name}: {what}{', ' if place else ''}{place}: got {got:.10g}, "
                f"expected {right:.10g}"
            )

    def shaped(self, what: str, found: Tensor, *shape: int) -> None:
        if tuple(found.shape) != shape:
            raise ValueError(
                f"{self.process.name}: {what} has shape {tuple(found.shape)}, expected {shape}"
            )

    def prior(self) -> None:
        pi, at = self.process.prior(), Where(("position", "id"))
        self.shaped("prior()", pi, self.length, self.size)
        self.same("prior() outside the legal ids and MASK", pi * ~self.allowed, 0 * pi, at)
        self.same("prior() below 0", pi.clamp(max=0), 0 * pi, at)
        total = pi.sum(dim=-1)
        self.same("the sum of prior()", total, torch.ones_like(total), Where(("position",)))

    def alpha(self) -> None:
        process, t = self.process, torch.linspace(0, 1, 65).to(self.log_d0)
        alpha, share = process.alpha(t), process.one_minus_alpha(t)
        at = Where(("k, t = k / 64, k =", "column"))
        self.same("one_minus_alpha(t) beside alpha(t)", share, 1 - alpha, at)
        ends = Where(("column",))
        self.same("alpha(0)", alpha[0], torch.ones_like(alpha[0]), ends)
        self.same("alpha(1)", alpha[-1], torch.zeros_like(alpha[-1]), ends)
        rise = alpha.diff(dim=0).clamp(min=0)
        self.same("alpha(t + 1/64) - alpha(t), which may not rise", rise, 0 * rise, at)
        real = torch.ones(len(t), self.length, dtype=torch.bool, device=t.device)
        sigma = process.sigma(t, real)
        self.shaped("sigma(t, real)", sigma, len(t))
        self.same("sigma(t, real) that is finite", sigma, sigma.nan_to_num(0, 0, 0), Where(("k",)))

    def matrices(self, s: float, t: float) -> Tensor:
        """Float64[L, V, V]: Q_{s,t}, with rows of the alphabet only."""
        found, cells = self.process.transition(self.at(s), self.at(t)), self.process.cells()
        num = int(cells.max()) + 1
        self.shaped("transition(s, t)", found, 1, num, self.size, self.size)
        return found[0, cells] * self.alphabet.unsqueeze(-1)

    def transition(self, s: float, t: float) -> None:
        q, what = self.matrices(s, t), f"transition({s:g}, {t:g})"
        at = Where(("position", "from id", "to id"))
        self.same(f"{what} below 0", q.clamp(max=0), 0 * q, at)
        outside = q * ~self.alphabet.unsqueeze(-2)
        self.same(f"{what} into ids that may not occur there", outside, 0 * q, at)
        self.same(f"the sum of {what}", q.sum(dim=-1), self.alphabet.double(), Where(at.axes[:2]))
        log_q = self.process.log_transition(self.at(s), self.at(t))[0, self.process.cells()]
        self.same(f"exp of log_transition({s:g}, {t:g})", log_q.exp(), q, at.rows(self.alphabet))
        if s == t:
            same = torch.eye(self.size).to(q).expand_as(q)
            self.same(f"{what}, the identity", q, same, at.rows(self.alphabet))
        if t == 1:
            prior = self.process.prior().unsqueeze(-2).expand_as(q)
            self.same(f"{what}, the prior,", q, prior, at.rows(self.alphabet))

    def composition(self) -> None:
        for s, u, t in ((0.0, 0.3, 0.7), (0.2, 0.5, 0.9), (0.1, 0.6, 1.0)):
            found = self.matrices(s, u) @ self.matrices(u, t)
            self.same(
                f"transition({s:g}, {u:g}) transition({u:g}, {t:g}) beside transition({s:g}, "
                f"{t:g}) (Chapman-Kolmogorov)",
                found,
                self.matrices(s, t),
                Where(("position", "from id", "to id")),
            )

    def rates(self, t: float) -> None:
        process, at = self.process, Where(("position", "from id", "to id"))
        rates = process.rates(self.at(t))[0].expand(int(process.cells().max()) + 1, -1, -1)
        rates = rates[process.cells()] * ~torch.eye(self.size, dtype=torch.bool).to(rates.device)
        rates = rates * self.alphabet.unsqueeze(-1)
        self.same(f"rates({t:g}) that are finite", rates, rates.nan_to_num(0, 0, 0), at)
        self.same(f"rates({t:g}) below 0", rates.clamp(max=0), 0 * rates, at)
        sources = process.sources().expand(int(process.cells().max()) + 1, -1, -1)
        known = torch.zeros_like(rates, dtype=torch.bool)
        known.transpose(-1, -2).scatter_(-1, sources[process.cells()], True)
        self.same(f"rates({t:g}) that sources() leaves out", rates * ~known, 0 * rates, at)

        # a time in which the fastest id stays, so that no rate is hidden by jumps that follow it;
        # second jumps are part of both sides, and fast ids are no error of slow ones
        leaving = rates.sum(dim=-1)
        h = min(max(STAYING / max(float(leaving.max()), 1.0), SHORTEST), LONGEST)
        s, u = t - h / 2, t + h / 2
        h = u - s  # as rounded
        jumps = torch.matrix_exp(h * (rates - torch.diag_embed(leaving)))
        others = (1 - torch.eye(self.size)).to(jumps)
        self.same(
            f"expm(h rates({t:g})) / h beside transition(t - h/2, t + h/2) / h, h = {h:.0e}",
            jumps * others / h,
            self.matrices(s, u) * others / h,
            Where(at.axes, exact=ROUNDING / h, share=DERIVED),
        )

    def every_token(self) -> Tensor:
        """Int[V, L]: row v has id v wherever it may occur, another that may elsewhere."""
        ids = torch.arange(self.size, device=self.alphabet.device).unsqueeze(1)
        other = self.layout.support.long().argmax(dim=1).expand(self.size, -1)
        return torch.where(self.alphabet.T, ids, other)

    def distributions(self, s: float, t: float) -> None:
        process, d0 = self.process, self.log_d0.exp()[0]
        at_s = torch.einsum("lx,lxy->ly", d0, self.matrices(0.0, s))
        at_t = torch.einsum("lx,lxy->ly", d0, self.matrices(0.0, t))
        found = process.marginal_log_probs(self.log_d0, self.at(t))[0].exp()
        self.same(f"marginal_log_probs at t = {t:g}", found, at_t, Where(("position", "id")))

        xt = self.every_token()  # (V, L)
        log_d0 = self.log_d0.expand(self.size, -1, -1)
        times = self.at(t, self.size), self.at(s, self.size)
        position = torch.arange(self.length, device=xt.device)
        joint = self.matrices(s, t).transpose(-1, -2)[position, xt] * at_s  # (V, L, V)
        total = joint.sum(dim=-1, keepdim=True)
        at = Where(("token", "position", "id"), only=(total > 1e-12).expand_as(joint))
        found = process.posterior_log_probs(xt, log_d0, *times).exp()
        expected = joint / total.clamp(min=1e-300)
        self.same(f"posterior_log_probs from t = {t:g} to s = {s:g} (Bayes)", found, expected, at)
        if s == 0 and t < 1:
            log_p = process.posterior_log_probs(xt, log_d0, *times)
            back = process.leave_one_out(log_p, xt, times[0]).exp()
            seen = self.matrices(0.0, t).transpose(-1, -2)[position, xt] > 1e-9
            sure = (seen | ~self.layout.support).all(dim=-1, keepdim=True).expand_as(back)
            loose = Where(at.axes, exact=1e-5, only=sure)
            self.same(f"leave_one_out at t = {t:g}, of D", back, d0.expand_as(back), loose)

    def noise(self, process: InterpolatingProcess, time: float) -> None:
        t, xt = self.at(time, self.size), self.every_token()
        noise, at = process.noise(t), Where(("token", "position"))
        share = process.one_minus_alpha(t).expand(-1, self.length)
        self.same(f"the sum of noise({time:g})", noise.sum(dim=-1), share, at)
        ids = xt.unsqueeze(-1)
        here = noise.gather(-1, ids).squeeze(-1)
        self.same(f"exp of log_noise_at, t = {time:g}", process.log_noise_at(xt, t).exp(), here, at)
        log_noise = process.log_noise(t).expand_as(noise).gather(-1, ids).squeeze(-1)
        self.same(f"exp of log_noise, t = {time:g}", log_noise.exp(), here, at)
        rate = process.jump_rates(t).expand_as(noise).gather(-1, ids).squeeze(-1)
        found = process.log_rate_at(xt, t).exp()
        self.same(f"exp of log_rate_at, t = {time:g}", found, rate, Where(at.axes, share=1e-9))

    def draws(self) -> None:
        process, position = self.process, torch.arange(self.length, device=self.log_d0.device)
        pad = self.layout.pad_id if self.layout.pad_id is not None else self.layout.mask_id
        generator = make_generator(self.seed, 1, device=self.log_d0.device)
        some = self.layout.support.long().argmax(dim=1)
        for row in self.every_token()[: 2 * self.length : 2][:3]:
            x0 = torch.where(self.layout.support[position, row], row, some)
            for s, t in ((0.3, 0.8), (0.1, 1.0)):
                real = torch.ones(NUM_DRAWS, self.length, dtype=torch.bool, device=x0.device)
                real[::5, -1] = False
                start = torch.where(real, x0, pad)
                times = self.at(s, NUM_DRAWS), self.at(t, NUM_DRAWS)
                xs = process.corrupt(start, times[0], real, generator)
                self.drawn(f"corrupt at t = {s:g}", xs, real, self.matrices(0.0, s)[position, x0])
                xt = process.corrupt_further(xs, *times, real, generator)
                what = f"corrupt_further from s = {s:g} to t = {t:g}"
                self.drawn(what, xt, real, self.matrices(0.0, t)[position, x0])
        x1 = process.prior_sample(real, generator)
        self.drawn("prior_sample", x1, real, process.prior())

    def drawn(self, what: str, x: Tensor, real: Tensor, probs: Tensor) -> None:
        """``x`` Int[B, L] holds PAD where ``real`` is False and else follows probs Float[L, V]."""
        pad = self.layout.pad_id if self.layout.pad_id is not None else self.layout.mask_id
        self.shaped(what, x, *real.shape)
        kept = torch.where(real, pad, x)
        self.same(f"{what} where real is False", kept, torch.full_like(kept, pad), PLACE)
        num = real.sum(dim=0).unsqueeze(-1)
        ids = torch.arange(self.size, device=x.device)
        share = ((x.unsqueeze(-1) == ids) & real.unsqueeze(-1)).sum(dim=0) / num
        spread = (probs * (1 - probs)).clamp(min=0).sqrt() / num.sqrt()
        off = (share - probs).abs() - 6 * spread - 6 * (probs > 0) / num
        expected = torch.where(off <= 0, share.double(), probs)
        self.same(f"share of {what}", share.double(), expected, Where(("position", "id")))


@dataclass(frozen=True)
class Where:
    """Names of the axes, the error that is let pass, and the entries that count."""

    axes: tuple[str, ...]
    exact: float = EXACT
    share: float = 0.0
    only: Tensor | None = None

    def rows(self, alphabet: Tensor) -> Where:
        """Rows of ids that occur, Bool[L, V], only."""
        return Where(self.axes, self.exact, self.share, alphabet.unsqueeze(-1))


PLACE = Where(("sample", "position"))
