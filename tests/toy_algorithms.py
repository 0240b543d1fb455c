"""Every algorithm on the enumerable world, with the Bayes-optimal denoiser in its network's place.

A row of ``TOYS`` says how an algorithm is built from a schedule of the toy layout; the tests of
``test_every_algorithm.py`` then hold it to the same exact checks. The exact denoiser replaces
``TokenAlgorithm.logits``, so that it sees t in float64 and everything after the network is the
shipped code.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from discrete_diffusion.algorithms import (
    D3PM,
    GIDD,
    MDLM,
    MELD,
    SEDD,
    UDLM,
    MarginalDiffusion,
    MatrixDiffusion,
    TokenAlgorithm,
)
from discrete_diffusion.categorical import make_generator, neg_inf
from discrete_diffusion.forward_process import (
    Absorbing,
    ForwardProcess,
    Hybrid,
    Marginal,
    Matrix,
    Uniform,
)
from discrete_diffusion.noise_schedules import Learned, Schedule
from toy_world import DROPOUT, FULL, LENGTH, PADDED, VOCAB_SIZE, ToyWorld, chain, toy_layout, turned


class ToyBackbone(nn.Module):
    """Random logits of every state of the toy world, which turn with t and have dropout, as
    networks in use; takes any condition."""

    def __init__(self) -> None:
        super().__init__()
        shape = (VOCAB_SIZE**LENGTH, LENGTH, VOCAB_SIZE)
        self.table = nn.Parameter(torch.randn(shape, generator=make_generator(11)))

    def forward(self, x_t: Tensor, sigma: Tensor, **conditions: Tensor) -> Tensor:
        logits = self.table[(x_t * VOCAB_SIZE ** torch.arange(LENGTH)).sum(dim=-1)]
        return nn.functional.dropout(turned(logits, sigma), DROPOUT, self.training)


class ZeroBackbone(nn.Module):
    """All logits 0; takes any condition."""

    def __init__(self, vocab_size: int = VOCAB_SIZE) -> None:
        super().__init__()
        self.vocab_size = vocab_size

    def forward(self, x_t: Tensor, sigma: Tensor | None = None, **conditions: Tensor) -> Tensor:
        return torch.zeros(*x_t.shape, self.vocab_size)


def toy_marginal(layout, schedule: Schedule) -> Marginal:
    """A marginal process, fitted to the toy world's frequencies if it is on that world."""
    process = Marginal(layout, schedule, smoothing=0.5)
    if layout.length != LENGTH:
        return process
    world = ToyWorld.make()
    x0 = world.x0[torch.multinomial(world.prob, 500, True, generator=torch.Generator())]
    process.fit(x0, torch.ones_like(x0, dtype=torch.bool))
    return process


def own_rates(layout, schedule: Schedule) -> Matrix:
    """Random rates among the legal ids of each position and MASK, which nothing reverses."""
    generator = make_generator(7)
    shape = (layout.length, layout.vocab_size, layout.vocab_size)
    rates = 0.2 + torch.rand(shape, generator=generator, dtype=torch.float64)
    alphabet = layout.support.clone()
    alphabet[:, layout.mask_id] = True
    rates = rates * alphabet.unsqueeze(-1) * alphabet.unsqueeze(-2)
    rates.diagonal(dim1=1, dim2=2).zero_()
    rates.diagonal(dim1=1, dim2=2).copy_(-rates.sum(dim=-1))
    return Matrix(layout, schedule, generator=rates)


PROCESSES: dict[str, Callable[..., ForwardProcess]] = {
    "absorbing": Absorbing,
    "uniform": Uniform,
    "marginal": toy_marginal,
    "hybrid": lambda layout, schedule: Hybrid(layout, schedule, p_uniform=0.3),
    "matrix": Matrix,
    "matrix of a gaussian": lambda layout, schedule: Matrix(layout, schedule, kind="gaussian"),
    "matrix of one's own": own_rates,
}


def toy_meld(backbone: nn.Module, process: ForwardProcess) -> MELD:
    """With a learned schedule in the place of the given one, another for each of those."""
    spread = {"LogLinear": 0.7, "Cosine": -0.7, "Linear": 0.2, "PerGroup": 1.2}
    most = spread[type(process.schedule).__name__]
    schedule = Learned(process.layout, exponent_per="token").requires_grad_(False)
    schedule.theta.copy_(torch.linspace(-most, most, process.layout.length))
    return MELD(backbone, Absorbing(process.layout, schedule))


@dataclass(frozen=True)
class Toy:
    """``build(backbone, process)`` makes the algorithm; ``process`` names its forward process.

    ``steps``: the bound is that of T discrete steps, which nears H only as T grows.
    ``posterior``: the network's logits stand for the ordinary posterior P, not for D.
    ``scaled``: scores are (1 + alpha) G + b, which has the ratios of the exact G.
    """

    process: str
    build: Callable[[nn.Module, ForwardProcess], TokenAlgorithm]
    steps: bool = False
    posterior: bool = False
    scaled: bool = False

    def make(
        self, schedule: Schedule, backbone: nn.Module | None = None, layout=None
    ) -> TokenAlgorithm:
        process = PROCESSES[self.process](layout or toy_layout(), schedule)
        return self.build(backbone or ToyBackbone(), process)

    def exact(self, schedule: Schedule, tilt: float = 0.0) -> TokenAlgorithm:
        """With the exact denoiser, or one bent away from it by a time-dependent ``tilt``, in eval
        mode, as while training it has dropout."""
        algorithm = self.make(schedule)
        process = algorithm.process

        def logits(x_t: Tensor, t: Tensor, real: Tensor, conditions=None) -> Tensor:
            log_d0 = leave_one_out(process, x_t, t, real, posterior=self.posterior)
            if self.scaled:
                scores = (1 + process.alpha(t).unsqueeze(-1)) * log_d0.exp() + process.noise(t)
                log_d0 = scores.clamp(min=1e-300).log()
            # a constant per position, which makes D the scores G of SEDD and changes nothing else
            log_d0 = log_d0 + algorithm.layout.num_legal.double().log().unsqueeze(-1)
            ramp = torch.linspace(-1, 1, VOCAB_SIZE) * torch.tensor([[1.0], [-1.0], [0.5]])
            log_d0 = log_d0 + tilt * (t - 0.4)[:, None, None] * ramp
            return nn.functional.dropout(log_d0, DROPOUT, algorithm.training)

        algorithm.logits = logits  # type: ignore[method-assign]
        return algorithm.eval()


TOYS: dict[str, Toy] = {
    "mdlm": Toy("absorbing", MDLM),
    "meld": Toy("absorbing", toy_meld),
    "udlm": Toy("uniform", UDLM),
    "udlm-posterior": Toy(
        "uniform", lambda b, p: UDLM(b, p, parameterization="posterior"), posterior=True
    ),
    "marginal": Toy("marginal", MarginalDiffusion),
    "matrix": Toy("matrix", MatrixDiffusion),
    "matrix-posterior": Toy(
        "matrix", lambda b, p: MatrixDiffusion(b, p, parameterization="posterior"), posterior=True
    ),
    "matrix-gaussian": Toy("matrix of a gaussian", MatrixDiffusion),
    "matrix-own": Toy("matrix of one's own", MatrixDiffusion),
    "gidd": Toy("hybrid", GIDD),
    "gidd-posterior": Toy(
        "hybrid", lambda b, p: GIDD(b, p, parameterization="posterior"), posterior=True
    ),
    "sedd-absorbing": Toy("absorbing", SEDD),
    "sedd-uniform": Toy("uniform", SEDD),
    "sedd-uniform-scaled": Toy("uniform", SEDD, scaled=True),
    "d3pm-absorbing": Toy("absorbing", lambda b, p: D3PM(b, p, num_steps=64), steps=True),
    "d3pm-uniform": Toy("uniform", lambda b, p: D3PM(b, p, num_steps=64), steps=True),
    "d3pm-marginal": Toy("marginal", lambda b, p: D3PM(b, p, num_steps=64), steps=True),
    "d3pm-hybrid": Toy("hybrid", lambda b, p: D3PM(b, p, num_steps=64), steps=True),
    "d3pm-matrix": Toy("matrix", lambda b, p: D3PM(b, p, num_steps=64), steps=True),
}


def leave_one_out(
    process: ForwardProcess, xt: Tensor, t: Tensor, real: Tensor, *, posterior: bool = False
) -> Tensor:
    """The exact log D(x0_l | xt without l) at each sample's own t: Float64[B, 3, V].

    ``posterior``: the ordinary log P(x0_l | xt) instead. Written out by enumeration.
    """
    out = torch.empty(*xt.shape, VOCAB_SIZE, dtype=torch.float64)
    for pattern in (FULL, PADDED):
        rows = (real == pattern).all(dim=1).nonzero().squeeze(1)
        if len(rows):
            out[rows] = _enumerate(process, WORLDS[pattern], xt[rows], t[rows], posterior)
    return out


WORLDS = {pattern: ToyWorld.make(pattern) for pattern in (FULL, PADDED)}


def _enumerate(
    process: ForwardProcess, world: ToyWorld, xt: Tensor, t: Tensor, posterior: bool
) -> Tensor:
    num, position = len(xt), torch.arange(LENGTH)
    q = chain(process, torch.zeros_like(t), t).expand(num, -1, -1, -1)  # (B, 3, V, V)
    sample = torch.arange(num)[:, None, None]
    q = q[sample, position, world.x0, xt.unsqueeze(1)]  # (B, K, 3)
    log_q = q.clamp(min=1e-300).log().masked_fill(~world.real, 0.0)
    evidence = log_q.sum(dim=-1, keepdim=True) - (0.0 if posterior else log_q)
    log_joint = evidence.expand_as(log_q) + world.prob.log().unsqueeze(-1)
    joint = (log_joint - log_joint.amax(dim=1, keepdim=True)).exp()  # (B, K, 3)
    d0 = torch.zeros(num, LENGTH, VOCAB_SIZE, dtype=torch.float64)
    d0.scatter_add_(2, world.x0.T.expand(num, -1, -1), joint.transpose(1, 2))
    d0 = d0 / d0.sum(dim=-1, keepdim=True)
    return d0.clamp(min=1e-300).log().masked_fill(d0 == 0, neg_inf(torch.float64))
