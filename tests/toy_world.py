"""A world small enough to enumerate: every probability below is computed, none is estimated.

Three positions with different legal sets; the last one can be PAD. The joint distribution is
random and strictly positive, and the Bayes-optimal leave-one-out denoiser follows from it for
any forward process by summing over all clean sequences.
"""

from __future__ import annotations

import itertools
from collections import OrderedDict
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from discrete_diffusion.categorical import neg_inf
from discrete_diffusion.forward_process import ForwardProcess, InterpolatingProcess, Matrix
from discrete_diffusion.layout import TokenLayout
from discrete_diffusion.models.key_value_cache import KeyValueCache
from discrete_diffusion.noise_schedules import (
    Cosine,
    Geometric,
    Linear,
    LogLinear,
    PerGroup,
    Polynomial,
    Schedule,
)

LEGAL = ((0, 1, 2), (0, 1, 2, 3), (2, 3))
MASK, PAD, VOCAB_SIZE, LENGTH = 4, 5, 6, 3
FULL = torch.tensor([True, True, True])
PADDED = torch.tensor([True, True, False])


def toy_layout() -> TokenLayout:
    support = torch.zeros(LENGTH, VOCAB_SIZE, dtype=torch.bool)
    for position, ids in enumerate(LEGAL):
        support[position, list(ids)] = True
    group = torch.tensor([0, 1, 1])
    return TokenLayout(support, mask_id=MASK, pad_id=PAD, group=group, group_names=("node", "edge"))


def all_schedules(layout: TokenLayout) -> dict[str, Schedule]:
    return {
        "log_linear": LogLinear(),
        "linear": Linear(sigma_max=10.0),
        "cosine": Cosine(),
        "polynomial": Polynomial(exponent=2.5),
        "geometric": Geometric(sigma_min=1e-2, sigma_max=8.0),
        "per_group": PerGroup(layout, exponents={"node": 2.0, "edge": 1.0}),
    }


class FixedPrior(InterpolatingProcess):
    """Any fixed prior pi: what the base class must serve without further code."""

    name = "fixed"

    def __init__(self, layout: TokenLayout, schedule: Schedule, pi: Tensor) -> None:
        super().__init__(layout, schedule)
        self.register_buffer("pi", pi.double(), persistent=False)

    def prior(self) -> Tensor:
        return self.pi


def uniform_process(layout: TokenLayout, schedule: Schedule) -> FixedPrior:
    return FixedPrior(layout, schedule, layout.uniform_log_probs().exp())


def marginal_process(layout: TokenLayout, schedule: Schedule) -> FixedPrior:
    weights = layout.support * torch.arange(1.0, VOCAB_SIZE + 1).double()
    return FixedPrior(layout, schedule, weights / weights.sum(dim=1, keepdim=True))


def chain(process: ForwardProcess, s: Tensor, t: Tensor) -> Tensor:
    """q(x_t | x_s), Float64[B, 3, V, V], rows x_s: from alpha and b_t, or the generator, and not
    through the process's own distributions."""
    if isinstance(process, Matrix):
        passed = (process.log_alpha(s) - process.log_alpha(t)).clamp(max=750.0)
        if float(s.max()) == 0:
            passed = -torch.log1p(-process.one_minus_alpha(t)).clamp(min=-750.0)
        return exponential(process.generators[process.matrix_index()], passed.expand(-1, LENGTH))
    if not isinstance(process, InterpolatingProcess):  # nothing else defines it
        return process.transition(s, t)
    keep = (process.alpha(t) / process.alpha(s)).unsqueeze(-1)
    jump = (process.noise(t) - keep * process.noise(s)).expand(-1, LENGTH, -1)
    same = torch.eye(VOCAB_SIZE, dtype=torch.float64)
    return (keep.unsqueeze(-1) * same + jump.unsqueeze(-2)).clamp(min=0)


def exponential(generator: Tensor, passed: Tensor) -> Tensor:
    """expm(passed R), Float64[B, L, V, V], of R Float64[L, V, V] and passed Float64[B, L]: a plain
    sum of powers of a matrix without negative entries, squared. The latest ones are kept: the times
    of a grid come again and again."""
    key = (passed.shape, passed.numpy().tobytes(), generator.numpy().tobytes())
    if key not in _EXPONENTIALS:
        _EXPONENTIALS[key] = _exponential(generator, passed)
        if len(_EXPONENTIALS) > 500:
            _EXPONENTIALS.popitem(last=False)
    return _EXPONENTIALS[key].clone()


_EXPONENTIALS: OrderedDict[tuple[torch.Size, bytes, bytes], Tensor] = OrderedDict()


def _exponential(generator: Tensor, passed: Tensor) -> Tensor:
    rate = -generator.diagonal(dim1=-2, dim2=-1).amin(dim=-1)
    times = passed * rate
    halvings = 10 if float(times.max()) > 1 else 0
    same = torch.eye(generator.shape[-1], dtype=torch.float64)
    step = (same * rate[:, None, None] + generator).clamp(min=0)
    step = step * (passed / 2**halvings)[..., None, None]
    power, total = same.expand_as(step), torch.zeros_like(step)
    for n in range(40):
        total = total + power
        power = power @ step / (n + 1)
        if float(power.max()) < 1e-20:
            break
    total = total * (-times / 2**halvings).exp()[..., None, None]
    for _ in range(halvings):
        total = total @ total
        total = total / total.sum(dim=-1, keepdim=True)
    return total


@dataclass(frozen=True)
class ToyWorld:
    """``x0``: Int[K, 3] every clean sequence for ``real``; ``prob``: Float64[K]."""

    layout: TokenLayout
    real: Tensor
    x0: Tensor
    prob: Tensor

    @classmethod
    def make(cls, real: Tensor = FULL, seed: int = 0) -> ToyWorld:
        choices = [ids if keep else (PAD,) for ids, keep in zip(LEGAL, real.tolist(), strict=True)]
        x0 = torch.tensor(list(itertools.product(*choices)))
        weights = np.random.default_rng(seed).dirichlet(np.full(len(x0), 0.7)) + 0.002
        return cls(toy_layout(), real, x0, torch.tensor(weights / weights.sum()))

    @property
    def entropy(self) -> float:
        return float(-(self.prob * self.prob.log()).sum())

    @property
    def sum_log_k(self) -> float:
        return float(self.layout.num_legal[self.real].double().log().sum())

    def states(self, alphabet: ForwardProcess) -> Tensor:
        """Int[S, 3]: every noisy sequence the process can reach."""
        reach = self.layout.support | (alphabet.prior() > 0)
        choices = [
            reach[k].nonzero().flatten().tolist() if self.real[k] else [PAD] for k in range(LENGTH)
        ]
        return torch.tensor(list(itertools.product(*choices)))

    def log_q(self, process: ForwardProcess, xt: Tensor, t: Tensor) -> Tensor:
        """log q_t(xt_l | x0_l) per position for every pair: Float64[S, K, 3], 0 at PAD.

        From ``chain``, not through the process's own distributions.
        """
        q = chain(process, torch.zeros_like(t[:1]), t[:1])[0]
        q = q[torch.arange(LENGTH), self.x0, xt.unsqueeze(1)]  # (S, K, 3)
        return q.clamp(min=1e-300).log().masked_fill(~self.real, 0.0)

    def log_d0(self, process: ForwardProcess, xt: Tensor, t: Tensor) -> Tensor:
        """The exact leave-one-out log D(x0_l | xt without l): Float64[S, 3, V]; t is one time."""
        log_q = self.log_q(process, xt, t)
        others = log_q.sum(dim=-1, keepdim=True) - log_q  # (S, K, 3)
        joint = (others + self.prob.log().unsqueeze(-1)).exp()
        d0 = torch.zeros(len(xt), LENGTH, VOCAB_SIZE, dtype=torch.float64)
        d0.scatter_add_(2, self.x0.T.expand(len(xt), -1, -1), joint.transpose(1, 2))
        d0 = d0 / d0.sum(dim=-1, keepdim=True)
        return d0.clamp(min=1e-300).log().masked_fill(d0 == 0, neg_inf(torch.float64))

    def posterior(self, process: ForwardProcess, xt: Tensor, t: Tensor) -> Tensor:
        """The ordinary p(x0_l | xt): Float64[S, 3, V]."""
        joint = (self.log_q(process, xt, t).sum(-1) + self.prob.log()).exp()
        p = torch.zeros(len(xt), LENGTH, VOCAB_SIZE, dtype=torch.float64)
        p.scatter_add_(2, self.x0.T.expand(len(xt), -1, -1), joint.unsqueeze(1).expand(-1, 3, -1))
        return p / p.sum(dim=-1, keepdim=True)

    def distribution(self, tokens: Tensor, weights: Tensor | None = None) -> Tensor:
        """Share of every clean sequence among samples: Float64[K]. Fails on an illegal sample."""
        code = torch.tensor([36, 6, 1])
        index = {int(c): k for k, c in enumerate((self.x0 * code).sum(-1))}
        codes, inverse = (tokens * code).sum(-1).unique(return_inverse=True)
        weights = torch.ones(len(tokens), dtype=torch.float64) if weights is None else weights
        mass = torch.zeros(len(codes), dtype=torch.float64).index_add_(0, inverse, weights)
        share = torch.zeros(len(self.x0), dtype=torch.float64)
        for c, m in zip(codes.tolist(), mass, strict=True):
            share[index[c]] = m
        return share / share.sum()


DROPOUT = 0.1
"""Share of numbers that networks of the tests leave out while they train."""


def turned(logits: Tensor, sigma: Tensor, *, by: float = 4.0) -> Tensor:
    """Logits Float[B, ..., 3, V] that turn with t: the corrupted share tilts them."""
    share = -torch.expm1(-sigma.to(logits))
    ramp = torch.linspace(-1, 1, VOCAB_SIZE) * torch.tensor([[1.0], [-1.0], [0.5]])
    return logits + by * (share - 0.4).view(-1, *[1] * (logits.ndim - 1)) * ramp.to(logits)


class ExactBackbone(nn.Module):
    """The Bayes-optimal denoiser of an absorbing process: it needs no time.

    ``tilt`` bends its logits by a function of sigma (and position), which makes a denoiser that
    is wrong in a time-dependent way; ``real`` is read off the PAD pattern. While training it has
    dropout.
    """

    def __init__(self, process: ForwardProcess, tilt: float = 0.0) -> None:
        super().__init__()
        self.tilt = tilt
        ids = torch.tensor(list(itertools.product(range(VOCAB_SIZE), repeat=LENGTH)))
        half = torch.tensor([0.5], dtype=torch.float64)
        full, padded = (ToyWorld.make(r).log_d0(process, ids, half) for r in (FULL, PADDED))
        self.table = torch.where((ids[:, -1] == PAD)[:, None, None], padded, full)

    def forward(self, x_t: Tensor, sigma: Tensor | None = None) -> Tensor:
        logits = self.table[(x_t * torch.tensor([36, 6, 1])).sum(-1)]
        if self.tilt:
            assert sigma is not None
            logits = turned(logits, sigma, by=self.tilt)
        return nn.functional.dropout(logits, DROPOUT, self.training)


def quadrature(nodes: int = 32) -> list[tuple[Tensor, float]]:
    """Gauss-Legendre in v for t = 1 - (1 - v^3)^3: pairs of t Float64[1] and weight."""
    v, w = np.polynomial.legendre.leggauss(nodes)
    v, w = (v + 1) / 2, w / 2
    t = 1 - (1 - v**3) ** 3
    weight = w * 9 * v**2 * (1 - v**3) ** 2
    return [(torch.tensor([tk]), float(wk)) for tk, wk in zip(t, weight, strict=True)]


def total_variation(p: Tensor, q: Tensor) -> float:
    return float((p - q).abs().sum() / 2)


def noise_floor(prob: Tensor, num: int) -> float:
    """Total variation that ``num`` exact draws stay under: its mean (normal approximation) plus 4
    standard deviations, which bounded differences limit to 1 / (2 sqrt(num)) each."""
    mean = (prob * (1 - prob) * 2 / (torch.pi * num)).sqrt().sum() / 2
    return float(mean) + 4 / (2 * num**0.5)


class ExactBlockBackbone(nn.Module):
    """The Bayes-optimal denoiser that sees its own block of x_t and earlier blocks clean.

    Clean tokens come from ``context`` or, without it, from x_t itself; later blocks are not read.
    """

    def __init__(self, process: ForwardProcess, tilt: float = 0.0) -> None:
        super().__init__()
        self.whole = ExactBackbone(process, tilt)

    def forward(
        self,
        x_t: Tensor,
        sigma: Tensor | None = None,
        group_idxs: Tensor | None = None,
        context: Tensor | None = None,
    ) -> Tensor:
        assert group_idxs is not None
        clean = x_t if context is None else context
        hidden = torch.where(x_t == PAD, PAD, MASK)
        logits = torch.zeros(*x_t.shape, VOCAB_SIZE, dtype=torch.float64)
        for block in group_idxs.unique():
            own, earlier = group_idxs == block, group_idxs < block
            seen = torch.where(earlier, clean, torch.where(own, x_t, hidden))
            logits = torch.where(own.unsqueeze(-1), self.whole(seen, sigma), logits)
        return logits


class ExactRowBackbone(ExactBackbone):
    """The Bayes-optimal denoiser in the signature of a block-wise network without ``context``: it
    reads all of x_t, so it is right only if x_t shows what a block may see."""

    def forward(  # type: ignore[override]
        self, x_t: Tensor, group_idxs: Tensor, sigma: Tensor | None = None
    ) -> Tensor:
        assert group_idxs.shape == x_t.shape
        return super().forward(x_t, sigma)


def all_tokens(cache: KeyValueCache, x_t: Tensor) -> Tensor:
    """The tokens kept in a cache of one layer, and the new ones x_t."""
    column = x_t[:, None, :, None]
    return cache.layers[0].extend(column, column)[0][:, 0, :, 0]


class ExactCausalBackbone(nn.Module):
    """The exact next-token distribution from tokens shifted by one position.

    How many tokens are real is read off sigma, n = (1 - exp(-sigma)) (L + 1): a causal network
    cannot see the PAD that comes last. It has one layer, whose keys are the tokens.
    """

    causal = True

    def __init__(self, process: ForwardProcess) -> None:
        super().__init__()
        self.whole = ExactBackbone(process)

    def new_cache(self, positions: Tensor, groups: Tensor, num_samples: int) -> KeyValueCache:
        return KeyValueCache(positions, groups, num_samples, num_layers=1)

    def forward(
        self, x_t: Tensor, sigma: Tensor | None = None, cache: KeyValueCache | None = None
    ) -> Tensor:
        assert sigma is not None
        num_new = x_t.shape[1]
        x_t = x_t if cache is None else all_tokens(cache, x_t)
        padded = (-torch.expm1(-sigma) * (LENGTH + 1)).round() < LENGTH  # (B,)
        logits = []
        for k in range(x_t.shape[1]):
            seen = torch.full((len(x_t), LENGTH), MASK)
            seen[:, :k] = x_t[:, 1 : k + 1]
            seen[padded, -1] = PAD
            logits.append(self.whole(seen)[:, k])
        return torch.stack(logits, dim=1)[:, -num_new:]
