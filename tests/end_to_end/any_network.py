"""Every algorithm on tokens, on any layout, with a network that wants what it must not have."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from discrete_diffusion.algorithms import ALGORITHMS, TokenAlgorithm
from discrete_diffusion.categorical import make_generator
from discrete_diffusion.forward_process.registry import PROCESSES
from discrete_diffusion.layout import TokenLayout
from discrete_diffusion.models.key_value_cache import KeyValueCache
from discrete_diffusion.noise_schedules import Learned, LogLinear

TOKEN_ALGORITHMS = {
    name: build
    for name, build in ALGORITHMS.all().items()
    if build.state == "tokens"  # type: ignore[attr-defined]
}
PROCESSES_OF = [
    (name, process)
    for name, build in TOKEN_ALGORITHMS.items()
    for process in build.processes  # type: ignore[attr-defined]
]


COMPONENTS = 4


class TableNetwork(nn.Module):
    """Random logits per position, token and noise level, read off a table; ``scale`` spreads them.

    MASK, PAD and every foreign id have the largest logits of all. It takes every condition and
    offers a cache, so that it serves every algorithm.
    """

    def __init__(self, layout: TokenLayout, *, scale: float, seed: int) -> None:
        super().__init__()
        shape = (layout.length, layout.vocab_size, layout.vocab_size)
        table = scale * torch.randn(shape, generator=make_generator(seed))
        table += (2 + 4 * scale) * ~layout.support.unsqueeze(1)
        self.register_buffer("table", table)

    def new_cache(self, positions: Tensor, groups: Tensor, num_samples: int) -> KeyValueCache:
        return KeyValueCache(positions, groups, num_samples, num_layers=0)

    def forward(
        self, x_t, sigma=None, *, cache=None, group_idxs=None, context=None, component=None
    ):
        num = x_t.shape[1]
        positions = torch.arange(num) if cache is None else cache.columns
        logits = self.table[positions, x_t]
        if sigma is not None:
            logits = logits * (0.5 + torch.exp(-sigma))[:, None, None]
        if component is None:
            return logits
        spread = 1 + torch.arange(COMPONENTS) / COMPONENTS
        if isinstance(component, str):
            return logits.unsqueeze(1) * spread[:, None, None]
        return logits * spread[component][:, None, None]


def algorithm_on(
    layout: TokenLayout, name: str, process: str, *, scale: float, seed: int
) -> TokenAlgorithm:
    """A registered algorithm with a random network, its exponents (if learned) and prior too."""
    build = TOKEN_ALGORITHMS[name]
    generator = make_generator(seed, 1)
    schedule = LogLinear()
    if build.learns_schedule:  # type: ignore[attr-defined]
        schedule = Learned(layout, exponent_per="token").requires_grad_(False)
        schedule.theta.normal_(generator=generator)
    noise = PROCESSES.find(process)(layout, schedule)
    x0 = torch.multinomial(layout.support.double(), 5, True, generator=generator).T
    noise.fit(x0, torch.rand(x0.shape, generator=generator) < 0.5)
    few = {"calls": min(3, layout.length), "components": COMPONENTS} if name == "distill" else {}
    algorithm = build(TableNetwork(layout, scale=scale, seed=seed), noise, **few)
    if algorithm.has_reward:
        algorithm.score = lambda x0: (x0[:, 0] == x0[0, 0]).double()
    return algorithm


def random_layout(
    length: int, num_ids: int, num_groups: int, *, padded: bool, seed: int
) -> TokenLayout:
    """Supports drawn per position, never empty; MASK and PAD are any two ids."""
    generator = make_generator(seed, 2)
    ids = torch.randperm(num_ids, generator=generator).tolist()
    mask_id, pad_id = ids[0], ids[1] if padded else None
    legal = torch.tensor(ids[2 if padded else 1 :])
    chosen = torch.rand((length, len(legal)), generator=generator) < 0.5
    chosen[torch.arange(length), torch.randint(len(legal), (length,), generator=generator)] = True
    support = torch.zeros(length, num_ids, dtype=torch.bool)
    support[:, legal] = chosen
    group = torch.arange(length) * num_groups // length
    names = [f"group {g}" for g in range(num_groups)]
    return TokenLayout(support, mask_id=mask_id, pad_id=pad_id, group=group, group_names=names)


def narrowings(
    layout: TokenLayout, real: Tensor, generator: torch.Generator
) -> Iterator[tuple[Tensor | None, Tensor | None]]:
    """(clamp, support) pairs: none, legal ids held at random places, a random narrowing, both."""
    yield None, None
    legal = layout.support.expand(*real.shape, -1)
    kept = legal & (torch.rand(legal.shape, generator=generator) < 0.6)
    some = torch.multinomial(legal.flatten(0, 1).double(), 1, generator=generator)
    some = some.view(real.shape)
    kept = kept.scatter(-1, some.unsqueeze(-1), True)
    held = real & (torch.rand(real.shape, generator=generator) < 0.4)
    clamp = torch.where(held, some, -1)
    yield clamp, None
    yield None, kept
    yield clamp, kept
