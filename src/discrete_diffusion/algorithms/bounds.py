"""The continuous-time bound of any process, in closed form for interpolating processes."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from discrete_diffusion.categorical import log_prob_at, neg_inf
from discrete_diffusion.forward_process.base import EVERYWHERE, ForwardProcess, chunks, log_mixture
from discrete_diffusion.forward_process.interpolating import InterpolatingProcess


def general_bound(
    process: ForwardProcess,
    xt: Tensor,
    x0: Tensor,
    log_d0: Tensor,
    t: Tensor,
    real: Tensor,
    *,
    positions: slice = EVERYWHERE,
) -> Tensor:
    """The integrand of the NELBO at (xt, t) per position, Float64[B, L]; 0 where real is False.

    Its sum over positions, averaged over t ~ U(0, 1), is the bound. For a process of transition
    matrices it is ``jump_bound``; for an interpolating process, with z = xt_l, the model's marginal
    Q = alpha D + b_t, the truth's q = alpha [y = x0] + b_t, and jumps y -> z reversed at the rates
    r_theta(y) = rate(z) Q(y) / Q(z) and r_hat(y) = rate(z) q(y) / q(z):

        sum_{y != z} [ r_theta - r_hat + r_hat log(r_hat / r_theta) ]
          = rate(z) / q(z) [ sum_y q log(q / Q) + q(z) / Q(z) sum_y Q - 1 - log(q(z) / Q(z)) ]

    Tight for the exact leave-one-out D, for every prior and schedule (Campbell et al., arXiv
    2205.14987; the second form is von Ruette et al.'s, arXiv 2503.04482, with sum Q = 1).

    ``xt``, ``x0``: Int[B, L], noisy and clean ids. ``t``: Float[B]. ``real``: Bool[B, L].
    ``log_d0``: Float[B, L, V], log D; a score model passes any positive G(y) instead of D, since
    the formula never uses that D is normalised. The gradient goes to ``log_d0`` alone, and is
    finite where the bound is. With an interpolating process, ``log_d0`` and the result may be
    restricted to ``positions``; the ids never are.
    """
    if not isinstance(process, InterpolatingProcess):
        return jump_bound(process, xt, x0, log_d0, t, real)
    bound: Tensor = _GeneralBound.apply(log_d0, _Noised.of(process, xt, x0, t, real, positions))
    return bound


class _Noised(NamedTuple):
    """Parts of the bound that do not depend on D, at N positions: log alpha, log b at z and at x0,
    and the log rate of jumps into z, Float64[B, N] each.

    ``xt``, ``x0``: Int[B, N]. ``counted``: Bool[B, N]. ``process``, ``positions`` and ``t``
    Float[B] give the noise b at all ids.
    """

    process: InterpolatingProcess
    positions: slice
    t: Tensor
    xt: Tensor
    x0: Tensor
    counted: Tensor
    log_alpha: Tensor
    log_b_z: Tensor
    log_b_x: Tensor
    log_rate: Tensor

    @classmethod
    def of(
        cls,
        process: InterpolatingProcess,
        xt: Tensor,
        x0: Tensor,
        t: Tensor,
        real: Tensor,
        positions: slice,
    ) -> _Noised:
        # at all positions, then at the chosen ones
        log_alpha = process.log_alpha(t).double().expand(xt.shape)
        log_b_z, log_b_x = process.log_noise_at(xt, t), process.log_noise_at(x0, t)
        log_rate = process.log_rate_at(xt, t)
        counted = real & (log_rate > neg_inf(log_rate.dtype) / 2)  # nothing jumps into visible ids
        values = (xt, x0, counted, log_alpha, log_b_z, log_b_x, log_rate)
        return cls(process, positions, t, *(value[:, positions] for value in values))

    def noise(self, samples: slice, positions: slice) -> Tensor:
        """b_t(y) at some samples and positions, Float64[b, n, V]."""
        begin = self.positions.start or 0
        within = slice(begin + positions.start, begin + min(positions.stop, self.xt.shape[1]))
        # the term of a smaller b(y) is 0 in any sum
        return self.process.noise(self.t[samples], within).clamp(min=1e-280)


class _Terms(NamedTuple):
    """Quantities of the bound at z and x0, in logarithms except W and R; Float64[B, N] each.

    ``rise``: log(Q / b). ``log_ratio``: log(q / Q). ``w``, ``r``: 0 at positions that do not count.
    """

    log_d_z: Tensor
    log_d_x: Tensor
    rise_z: Tensor
    rise_x: Tensor
    log_ratio_z: Tensor
    log_ratio_x: Tensor
    w: Tensor
    r: Tensor

    @classmethod
    def of(cls, log_d0: Tensor, noised: _Noised) -> _Terms:
        log_alpha, log_b_z, log_b_x = noised.log_alpha, noised.log_b_z, noised.log_b_x
        stays = noised.xt == noised.x0
        log_d_z, log_d_x = (log_prob_at(ids, log_d0) for ids in (noised.xt, noised.x0))
        # log(Q / b) = softplus(log(alpha D / b))
        rise_z = _softplus(log_alpha + log_d_z - log_b_z)
        rise_x = _softplus(log_alpha + log_d_x - log_b_x)
        # log(q / Q): q is alpha + b at x0, where the ratio is softplus(x) - softplus(y), precise
        # also where x and y are much larger than their difference, or it than they
        x = log_alpha - log_b_x
        y = x + log_d_x
        linear = (-log_d_x).clamp(-y.relu(), x.relu())
        log_ratio_x = linear + torch.log1p((-x.abs()).exp()) - torch.log1p((-y.abs()).exp())
        # q is b elsewhere
        log_ratio_z = torch.where(stays, log_ratio_x, -rise_z)
        truth_rise = torch.where(stays, _softplus(log_alpha - log_b_z), 0.0)  # log q(z) / b(z)
        log_rate, counted = noised.log_rate, noised.counted
        return cls(
            *(log_d_z, log_d_x, rise_z, rise_x, log_ratio_z, log_ratio_x),
            w=torch.where(counted, (log_rate - log_b_z - truth_rise).exp(), 0.0),
            r=torch.where(counted, (log_rate - log_b_z - rise_z).exp(), 0.0),
        )


class _GeneralBound(torch.autograd.Function):
    """The bound of an interpolating process.

    With W = rate(z) / q(z), R = rate(z) / Q(z) and rise(y) = log(Q(y) / b(y)),

        bound = W (KL - log(q(z) / Q(z)) - 1) + R sum_y Q
        KL    = alpha log(q(x0) / Q(x0)) + b(x0) log(q(x0) / b(x0)) - sum_y b(y) rise(y)

    in which nothing cancels as alpha nears 0. With share = alpha D / Q the derivative by log D(y),
    which is kept divided by W + R for it to fit log D's type, is

        R alpha D(y) - W b(y) share(y)      -  W alpha share(x0)                  at x0
                                            +  (W - R sum_y Q) share(z)           at z

    Divisions by b or Q at z or x0 are in logarithms: b and Q may be too small for a float.
    """

    @staticmethod
    def forward(ctx: Any, log_d0: Tensor, noised: _Noised) -> Tensor:
        terms = _Terms.of(log_d0, noised)
        w, r, log_alpha = terms.w, terms.r, noised.log_alpha
        scale = (w + r).clamp(min=torch.finfo(w.dtype).tiny)
        from_w, from_r = ((one / scale).unsqueeze(-1) for one in (w, r))
        slope = torch.empty_like(log_d0) if ctx.needs_input_grad[0] else None

        # sums over ids: of alpha D, and of b rise; the slopes at all ids on the way
        data, risen = torch.empty_like(w), torch.empty_like(w)
        for part in chunks(*log_d0.shape):
            model = (log_d0[part].double() + log_alpha[part].unsqueeze(-1)).exp_()  # alpha D
            noise = noised.noise(*part)
            ratio = model / noise
            data[part] = model.sum(dim=-1)
            risen[part] = noise.mul_(ratio.log1p()).sum(dim=-1)
            if slope is not None:
                slope[part] = model.mul_(from_r[part] - from_w[part] / ratio.add_(1))

        # KL, and R - W, which may cancel
        alpha, b_x = log_alpha.exp(), noised.log_b_x.exp()
        divergence = alpha * terms.log_ratio_x + b_x * _softplus(log_alpha - noised.log_b_x) - risen
        near = w * torch.expm1(terms.log_ratio_z.clamp(max=1.0))
        beyond = torch.where(terms.log_ratio_z < 1, near, r - w)
        if slope is not None:
            # slopes at x0 and at z, from the shares alpha D / Q there
            d_x, d_z = terms.log_d_x.exp(), terms.log_d_z.exp()
            share_x = (log_alpha + terms.log_d_x - noised.log_b_x - terms.rise_x).exp()
            share_z = (log_alpha + terms.log_d_z - noised.log_b_z - terms.rise_z).exp()
            at_x0 = r * alpha * d_x - w * (b_x + alpha) * share_x
            q_z = noised.log_b_z.exp() + alpha * (noised.xt == noised.x0)
            at_z = r * alpha * d_z + (w * (1 - q_z) - r * (data + 1 - alpha)) * share_z
            for ids, one in ((noised.x0, at_x0), (noised.xt, at_z)):
                slope.scatter_(-1, ids.unsqueeze(-1), (one / scale).unsqueeze(-1).to(slope))
            ctx.save_for_backward(slope, scale)
        return w * (divergence - terms.log_ratio_z) + beyond + r * (data - alpha)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        slope, scale = ctx.saved_tensors
        factor = (grad * scale).unsqueeze(-1)
        by_log_d0 = torch.empty_like(slope)
        for part in chunks(*slope.shape):
            by_log_d0[part] = factor[part] * slope[part]
        return by_log_d0, None


def _softplus(x: Tensor) -> Tensor:
    """log(1 + exp(x)) in full precision; torch's softplus returns x above 20."""
    return torch.logaddexp(x, torch.zeros_like(x))


def jump_bound(
    process: ForwardProcess, xt: Tensor, x0: Tensor, log_d0: Tensor, t: Tensor, real: Tensor
) -> Tensor:
    """The integrand of the NELBO at (xt, t) per position, Float64[B, L]; 0 where real is False.

    With z = xt_l, the truth's ratios a(y) = q_t(y | x0) / q_t(z | x0), the model's
    s(y) = Q(y) / Q(z), Q(y) = sum_x D(x) q_t(y | x), and R_t(y, z) the rate of jumping from y to z,

        sum_{y != z} R_t(y, z) [ s - a + a log(a / s) ] = sum R_t a [ expm1(u) - u ],  u = log s/a

    over the ids y that may jump into z (``process.sources``): two for a chain of nearest
    neighbours, all others in general. Ratios are differences of logarithms (Campbell et al., arXiv
    2205.14987, with the leave-one-out D; Lou et al., arXiv 2310.16834).

    ``log_d0``: Float[B, L, V], log D, or the log of positive scores; the gradient goes to it alone.
    """
    # log a and log s of the W sources of each z, Float64[B, L, W]
    index, zero = process.matrix_index(), torch.zeros_like(t)
    log_q = process.log_transition(zero, t)
    sources = process.sources().expand(int(log_q.shape[1]), -1, -1)[index, xt]
    into = torch.cat([xt.unsqueeze(-1), sources], dim=-1)
    sample = torch.arange(len(xt), device=xt.device)[:, None, None]
    log_rows = log_q.expand(len(xt), -1, -1, -1)
    log_truth = log_rows[sample, index.unsqueeze(-1), x0.unsqueeze(-1), into]
    log_model = log_mixture(log_d0, log_q, index, into)
    log_a = log_truth[..., 1:] - log_truth[..., :1]
    log_s = log_model[..., 1:] - log_model[..., :1]

    # rates R_t(y, z); z itself, which fills up its sources, does not count
    rates = process.rates(t).expand(len(xt), -1, -1, -1)
    rate = rates[sample, index.unsqueeze(-1), sources, xt.unsqueeze(-1)].double()
    counted = real.unsqueeze(-1) & (sources != xt.unsqueeze(-1)) & (rate > 0)
    log_rate = torch.where(counted, rate, 1.0).log()

    # R a (expm1(u) - u) for small u, R s - R a (1 + u) for large ones
    u = torch.where(counted, log_s - log_a, 0.0)
    reverse = torch.where(counted, (log_rate + log_a).exp(), 0.0)  # R a
    near = u.clamp(max=1.0)
    outflow = torch.where(counted & (u >= 1), log_rate + log_s, neg_inf(u.dtype)).exp()  # R s
    cost = torch.where(u < 1, reverse * (near.expm1() - near), outflow - reverse * (1 + u))
    return cost.sum(dim=-1)
