"""The continuous-time bound of any process, from its transition matrices and rates."""

from __future__ import annotations

import torch
from torch import Tensor

from discrete_diffusion.categorical import neg_inf
from discrete_diffusion.forward_process.base import ForwardProcess
from discrete_diffusion.forward_process.mixtures import log_entries, log_mixture


def jump_bound(
    process: ForwardProcess, xt: Tensor, x0: Tensor, log_d0: Tensor, t: Tensor, real: Tensor
) -> Tensor:
    """The integrand of the NELBO at (xt, t) per position, Float64[B, L]; 0 where real is False.

    With z = xt_l, the truth's ratios a(y) = q_t(y | x0) / q_t(z | x0), the model's
    s(y) = Q(y) / Q(z), Q(y) = sum_x D(x) q_t(y | x), and R_t(y, z) the rate of jumping from y to z,

        sum_{y != z} R_t(y, z) [ s - a + a log(a / s) ] = sum R_t a [ expm1(u) - u ],  u = log s/a

    over the ids y that z can be jumped into from (``process.sources``): two for a chain of nearest
    neighbours, all others in general. Ratios are differences of logarithms (Campbell et al., arXiv
    2205.14987, with the leave-one-out D; Lou et al., arXiv 2310.16834).

    ``log_d0``: Float[B, L, V], log D, or the log of positive scores; the gradient goes to it alone.
    """
    cells, zero = process.cells(), torch.zeros_like(t)
    log_q = process.log_transition(zero, t)
    sources = process.sources().expand(int(log_q.shape[1]), -1, -1)[cells, xt]  # (B, L, W)
    into = torch.cat([xt.unsqueeze(-1), sources], dim=-1)
    log_truth = log_entries(log_q, cells, x0, into)
    log_model = log_mixture(log_d0, log_q, cells, into)
    log_a = log_truth[..., 1:] - log_truth[..., :1]
    log_s = log_model[..., 1:] - log_model[..., :1]

    sample = torch.arange(len(xt), device=xt.device)[:, None, None]
    rates = process.rates(t).expand(len(xt), -1, -1, -1)
    rate = rates[sample, cells.unsqueeze(-1), sources, xt.unsqueeze(-1)].double()
    counted = real.unsqueeze(-1) & (sources != xt.unsqueeze(-1)) & (rate > 0)
    log_rate = torch.where(counted, rate, 1.0).log()
    u = torch.where(counted, log_s - log_a, 0.0)
    right = torch.where(counted, (log_rate + log_a).exp(), 0.0)  # the true rate of going back
    near = u.clamp(max=1.0)
    outflow = torch.where(counted & (u >= 1), log_rate + log_s, neg_inf(u.dtype)).exp()
    cost = torch.where(u < 1, right * (near.expm1() - near), outflow - right * (1 + u))
    return cost.sum(dim=-1)
