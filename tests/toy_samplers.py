"""Every algorithm and sampler of the enumerable world, by name, and a record of network calls."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from discrete_diffusion.algorithms import AR, BD3LM, TokenAlgorithm, build_algorithm
from discrete_diffusion.algorithms.base import Algorithm
from discrete_diffusion.categorical import make_generator
from discrete_diffusion.cli import compose
from discrete_diffusion.contracts import SampleOutput
from discrete_diffusion.forward_process import Absorbing
from discrete_diffusion.sampling import build_sampler
from discrete_diffusion.sampling.ancestral import GridSampler
from discrete_diffusion.sampling.registry import SAMPLERS, check_sampler
from toy_algorithms import TOYS
from toy_world import (
    FULL,
    LENGTH,
    PAD,
    VOCAB_SIZE,
    ExactBlockBackbone,
    ExactCausalBackbone,
    all_schedules,
    toy_layout,
)

BLOCKS = {"groups": [1, 2], "pairs": [2, 1], "ones": [1, 1, 1]}
CODE = torch.tensor([VOCAB_SIZE**2, VOCAB_SIZE, 1])
EVERY_STATE = torch.tensor(list(itertools.product(range(VOCAB_SIZE), repeat=LENGTH)))


def fitting_samplers(algorithm: Algorithm) -> list[str]:
    """Names of the samplers that sample the model that an algorithm trains, in the order of the
    registry."""

    def fits(name: str) -> bool:
        try:
            check_sampler(SAMPLERS.find(name)(), algorithm)
        except ValueError:
            return False
        return True

    return [name for name in SAMPLERS.all() if fits(name)]


def absorbing(schedule: str = "log_linear") -> Absorbing:
    layout = toy_layout()
    return Absorbing(layout, all_schedules(layout)[schedule])


def bd3lm(schedule: str = "log_linear", blocks: str = "groups", tilt: float = 0.0) -> BD3LM:
    process = absorbing(schedule)
    return BD3LM(
        ExactBlockBackbone(process, tilt),
        process,
        block_lengths=BLOCKS[blocks],
        time_conditioning=tilt != 0,
    ).eval()


def ar(schedule: str = "cosine") -> AR:
    process = absorbing(schedule)
    return AR(ExactCausalBackbone(process), process).eval()


def random_ar(*overrides: str) -> AR:
    """Of diagrams, with a small dit of random parameters: fresh ones see no neighbour."""
    config = compose("train", ["algo=ar", "model=dit_tiny", *overrides])
    algorithm, generator = build_algorithm(config).eval(), make_generator(0)
    assert isinstance(algorithm, AR)
    with torch.no_grad():
        for parameter in algorithm.parameters():
            noise = torch.empty_like(parameter).normal_(generator=generator)
            parameter.copy_(noise / parameter.shape[-1] ** 0.5 if parameter.ndim > 1 else 1 + noise)
    return algorithm


_TABLES: dict[tuple[str, str], dict[float, Tensor]] = {}


def exact(name: str = "mdlm", schedule: str = "log_linear") -> TokenAlgorithm:
    """An algorithm with the Bayes-optimal denoiser: a row of ``TOYS``, ``bd3lm`` or ``ar``.

    The denoiser is tabulated once per time: without noise that leaves doubt it needs no time, and
    on a grid all samples of a call share one.
    """
    if name in ("bd3lm", "ar"):
        return bd3lm(schedule) if name == "bd3lm" else ar(schedule)
    algorithm = TOYS[name].exact(all_schedules(toy_layout())[schedule])
    of_rows, tables = algorithm.logits, _TABLES.setdefault((name, schedule), {})
    timeless = algorithm.process.absorbing
    whole = EVERY_STATE != PAD

    def logits(
        x_t: Tensor, t: Tensor, real: Tensor, conditions: Mapping[str, Tensor] | None = None
    ) -> Tensor:
        if not timeless and (t != t[0]).any():
            return of_rows(x_t, t, real)
        moment = 0.5 if timeless else float(t[0])
        if moment not in tables:
            if len(tables) > 200:
                tables.clear()
            time = torch.full((len(EVERY_STATE),), moment).double()
            tables[moment] = of_rows(EVERY_STATE, time, whole)
        return tables[moment][(x_t * CODE).sum(-1)]

    algorithm.logits = logits  # type: ignore[method-assign]
    return algorithm


ALGORITHMS = (
    *("mdlm", "udlm", "marginal", "gidd", "matrix"),
    *("d3pm-absorbing", "d3pm-uniform", "bd3lm", "ar"),
)
CASES = [(name, sampler) for name in ALGORITHMS for sampler in fitting_samplers(exact(name))]
"""(algorithm, sampler) for every sampler in the registry with all that it draws from."""


def takes_steps(algorithm: TokenAlgorithm | str, sampler: str) -> bool:
    one_by_one = algorithm == "ar" or isinstance(algorithm, AR)
    return not (one_by_one or getattr(SAMPLERS.find(sampler), "takes_no_steps", ""))


def runs_a_grid(sampler: str) -> bool:
    return isinstance(build_sampler({"name": sampler}), GridSampler)


def draw_from(
    algorithm: TokenAlgorithm | str,
    sampler: str,
    num: int,
    *,
    real: Tensor = FULL,
    seed: int = 1,
    clamp: Tensor | None = None,
    support: Tensor | None = None,
    steps: int | None = None,
    keep_trajectory: bool = False,
    **options: object,
) -> SampleOutput:
    """``num`` samples; ``real``, ``clamp`` [L] and ``support`` [L, V] are the same for each."""
    return build_sampler({"name": sampler, **options}).sample(
        exact(algorithm) if isinstance(algorithm, str) else algorithm,
        real.expand(num, -1),
        generator=make_generator(seed),
        steps=steps,
        clamp=None if clamp is None else clamp.expand(num, -1),
        support=None if support is None else support.expand(num, -1, -1),
        keep_trajectory=keep_trajectory,
    )


@dataclass(frozen=True)
class Call:
    """What the network was asked: ``x_t`` Int[R, L], ``t`` Float64[R], ``real`` Bool[R, L]."""

    x_t: Tensor
    t: Tensor
    real: Tensor


def record_calls(algorithm: TokenAlgorithm) -> list[Call]:
    """A list that every later call of the network adds to."""
    calls: list[Call] = []
    answer: Callable[..., Tensor] = algorithm.logits

    def logits(
        x_t: Tensor, t: Tensor, real: Tensor, conditions: Mapping[str, Tensor] | None = None
    ) -> Tensor:
        calls.append(Call(x_t.clone(), t.clone(), real.clone()))
        return answer(x_t, t, real, conditions)

    algorithm.logits = logits  # type: ignore[method-assign]
    return calls
