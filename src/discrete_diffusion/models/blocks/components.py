"""Components of a mixture: what a latent of each sample changes about its logits."""

from __future__ import annotations

from typing import Any, Literal

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor, nn

Component = Tensor | Literal["all"] | None
"""Which component of the mixture a network is asked for: Int[B], one of each sample; ``all`` of
them; or None, the network as it is without any."""


class ComponentHead(nn.Module):
    """Adds to logits what component z of M changes about them, at first nothing:

        logits_z = logits + scale (W_z + gate R_z) features,     W = 0, gate = 0 at the start

    so that a network with components begins as the same function as without, bit for bit.

    R, ``directions``, is random, fixed, and kept with the weights. Components that are all equal
    would get the same gradient for ever; the gate, whose gradient is not 0, tells them apart from
    the second step on. ``scale``: components learn faster than the network whose features they
    read.

    ``num``: M; ``dim``: width of the features; ``num_ids``: of the logits.
    """

    starts_as_nothing = True
    """Weights of a network without it are all that a network with it needs to start from."""

    scale = 4.0
    directions: Tensor

    def __init__(self, num: int, dim: int, num_ids: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(num, num_ids, dim))
        self.gate = nn.Parameter(torch.zeros(()))
        self.register_buffer("directions", self._drawn())

    def _drawn(self) -> Tensor:
        """R, in float32 whatever the default type is: of another it would be another draw."""
        generator = torch.Generator().manual_seed(len(self.weight))
        return torch.randn(self.weight.shape, generator=generator, dtype=torch.float32)

    def _load_from_state_dict(self, state: dict[str, Any], prefix: str, *options: Any) -> None:
        """Weights of earlier versions have no R: theirs is the one that is drawn."""
        state.setdefault(f"{prefix}directions", self._drawn())
        super()._load_from_state_dict(state, prefix, *options)

    def forward(self, logits: Tensor, features: Tensor, component: Tensor | None) -> Tensor:
        """logits (B, N, V), features (B, N, D), component Int[B] -> (B, N, V); of all components,
        None, (B M, N, V): those of a sample follow each other."""
        weight = self.scale * (self.weight + self.gate * self.directions)  # (M, V, D)
        if component is not None:
            return logits + torch.einsum("bnd,bvd->bnv", features, weight[component])
        changes = F.linear(features, rearrange(weight, "m v d -> (m v) d"))
        every = rearrange(changes, "b n (m v) -> b m n v", m=len(weight)) + logits.unsqueeze(1)
        return rearrange(every, "b m n v -> (b m) n v")


def of_component(
    head: ComponentHead | None, logits: Tensor, features: Tensor, component: Component
) -> Tensor:
    """Logits (B, N, V) as ``component`` has them, see ``ComponentHead``; as they are for None.

    Raises ``ValueError`` for a network without components that is asked for one.
    """
    if component is None:
        return logits
    if head is None:
        raise ValueError(
            "this network has no components; build it with components=64, or pass component=None"
        )
    return head(logits, features, None if isinstance(component, str) else component)


def by_component(logits: Tensor, batch_size: int, component: Component) -> Tensor:
    """(B, L, V) as they are, or those of all components, (B M, L, V), as (B, M, L, V)."""
    if not isinstance(component, str):
        return logits
    return rearrange(logits, "(b m) l v -> b m l v", b=batch_size)
