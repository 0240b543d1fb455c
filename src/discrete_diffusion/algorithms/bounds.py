"""The continuous-time bound of any interpolating process."""

from __future__ import annotations

import torch
from torch import Tensor

from discrete_diffusion.forward_process import ForwardProcess


def general_bound(
    process: ForwardProcess, xt: Tensor, x0: Tensor, log_d0: Tensor, t: Tensor, real: Tensor
) -> Tensor:
    """The integrand of the NELBO at (xt, t) per position, Float64[B, L]; 0 where real is False.

    Its sum over positions, averaged over t ~ U(0, 1), is the bound. With z = xt_l, the model's
    marginal Q = alpha D + b_t, the truth's q = alpha [y = x0] + b_t, and jumps y -> z reversed at
    the rates r_theta(y) = rate(z) Q(y) / Q(z) and r_hat(y) = rate(z) q(y) / q(z):

        sum_{y != z} [ r_theta - r_hat + r_hat log(r_hat / r_theta) ]
          = rate(z) / q(z) [ sum_y q log(q / Q) + q(z) / Q(z) sum_y Q - 1 - log(q(z) / Q(z)) ]

    Tight for the exact leave-one-out D, for every prior and schedule (Campbell et al., arXiv
    2205.14987; the second form is von Ruette et al.'s, arXiv 2503.04482, with sum Q = 1).

    ``log_d0``: Float[B, L, V], log D; a score model passes any positive G(y) in its place, since
    the formula never uses that D is normalised.
    """
    z, alpha, noise = xt.unsqueeze(-1), process.alpha(t).unsqueeze(-1), process.noise(t)
    rate_z = process.rate_at(xt, t)
    counted = real & (rate_z > 0)  # nothing jumps into a token that absorbing noise left alone
    model = alpha * log_d0.double().exp() + noise  # Q, (B, L, V)
    untouched = alpha.expand(*x0.shape, 1).to(noise.dtype)
    truth = noise.expand(model.shape).scatter_add(-1, x0.unsqueeze(-1), untouched)  # q
    possible = (truth > 0) & counted.unsqueeze(-1)
    log_ratio = truth.where(possible, 1.0).log() - model.where(possible, 1.0).log()
    divergence = (truth * log_ratio).sum(dim=-1)

    truth_z, log_ratio_z = truth.gather(-1, z).squeeze(-1), log_ratio.gather(-1, z).squeeze(-1)
    model_z = model.gather(-1, z).squeeze(-1).where(counted, 1.0)
    weight = torch.where(counted, rate_z / truth_z, 0.0)
    return weight * (divergence + truth_z / model_z * model.sum(dim=-1) - 1 - log_ratio_z)
