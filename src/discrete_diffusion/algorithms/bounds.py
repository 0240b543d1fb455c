"""The continuous-time bound of any interpolating process."""

from __future__ import annotations

import torch
from torch import Tensor

from discrete_diffusion.categorical import log_one_hot, neg_inf
from discrete_diffusion.forward_process import ForwardProcess


def general_bound(
    process: ForwardProcess, xt: Tensor, x0: Tensor, log_d0: Tensor, t: Tensor, real: Tensor
) -> Tensor:
    """The integrand of the NELBO at (xt, t), Float[B]; its mean over t ~ U(0, 1) is the bound.

    With z = xt_l, Q = alpha D + b_t and, for y != z, r_theta(y) = rate(z) Q(y) / Q(z) and
    r_hat(y) = rate(z) q_t(y | x0) / q_t(z | x0):

        sum_l sum_{y != z} [ r_theta - r_hat + r_hat log(r_hat / r_theta) ]

    each term evaluated as r_hat (expm1(u) - u) with u = log r_theta - log r_hat. Tight for the
    exact leave-one-out D, for every prior and schedule (Campbell et al., arXiv 2205.14987).
    """
    z = xt.unsqueeze(-1)
    vocab_size = log_d0.shape[-1]
    log_clean = log_one_hot(x0, vocab_size, log_d0.dtype)
    log_model = process.marginal_log_probs(log_d0, t)
    log_truth = process.marginal_log_probs(log_clean, t)
    rate = process.jump_rates(t).expand_as(log_model).gather(-1, z)
    log_rate = rate.clamp(min=torch.finfo(rate.dtype).tiny).log()
    log_r_theta = log_rate + log_model - log_model.gather(-1, z)
    log_r_hat = log_rate + log_truth - log_truth.gather(-1, z)
    possible = log_truth > neg_inf(log_truth.dtype) / 2
    u = torch.where(possible, log_r_theta - log_r_hat, 0.0)
    terms = torch.where(possible, log_r_hat.exp() * (torch.expm1(u) - u), log_r_theta.exp())
    terms = terms.scatter(-1, z, 0.0).sum(dim=-1)
    return torch.where(real & (rate.squeeze(-1) > 0), terms, 0.0).sum(dim=1)
