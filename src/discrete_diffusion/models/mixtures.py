"""Backbones that are mixtures: a discrete latent of each sample, ``component``, shifts the logits.

``GraphMixture`` and ``DiTMixture`` are backbones of few-step students, see ``Distill``.
"""

from __future__ import annotations

from typing import Any, Literal

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor, nn

from discrete_diffusion.models.bd_denoiser import BDDenoiserBackbone, GraphDenoiser
from discrete_diffusion.models.calling import ColumnPacking
from discrete_diffusion.models.dit import DiT
from discrete_diffusion.models.transformer import corrupted_share

Component = Tensor | Literal["all"] | None
"""Component of the mixture: Int[B], one for each sample; ``all`` of them; or None, the network
without components."""


class ComponentHead(nn.Module):
    """Head that changes the logits by component z of M, at first by 0:

        logits_z = logits + scale (W_z + gate R_z) features,     W = 0, gate = 0 at the start

    so that a new network has the same outputs with components as without, bit for bit.

    R, ``directions``, is random, fixed, and saved with the weights. Equal components would always
    get equal gradients; the gate, whose gradient is not 0, makes them differ from the second step
    on. ``scale``: lets components learn faster than the network whose features they read.

    ``num``: M; ``dim``: width of the features; ``num_ids``: number of logits.
    """

    zero_initialised = True
    """A network with this layer can start from the weights of a network without."""

    scale = 4.0
    directions: Tensor

    def __init__(self, num: int, dim: int, num_ids: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(num, num_ids, dim))
        self.gate = nn.Parameter(torch.zeros(()))
        self.register_buffer("directions", self._sample_directions())

    @classmethod
    def like(cls, head: nn.Linear, num: int) -> ComponentHead:
        """Build a head of ``num`` components with the sizes of ``head``."""
        return cls(num, head.in_features, head.out_features)

    def _sample_directions(self) -> Tensor:
        """Sample R in float32, as another type would give other numbers."""
        generator = torch.Generator().manual_seed(len(self.weight))
        return torch.randn(self.weight.shape, generator=generator, dtype=torch.float32)

    def _load_from_state_dict(self, state: dict[str, Any], prefix: str, *options: Any) -> None:
        """Load weights, also those of earlier versions, which lack R."""
        state.setdefault(f"{prefix}directions", self._sample_directions())
        super()._load_from_state_dict(state, prefix, *options)

    def forward(self, logits: Tensor, features: Tensor, component: Component) -> Tensor:
        """Map logits (B, N, V) and features (B, N, D) to logits (B, N, V).

        For ``all`` components (B M, N, V); those of a sample follow each other.
        """
        if component is None:
            return logits
        # weights of all components, (M, V, D)
        weight = self.scale * (self.weight + self.gate * self.directions)  # (M, V, D)
        if not isinstance(component, str):
            return logits + torch.einsum("bnd,bvd->bnv", features, weight[component])
        # one product for the changes by all components
        changes = F.linear(features, rearrange(weight, "m v d -> (m v) d"))
        every = rearrange(changes, "b n (m v) -> b m n v", m=len(weight)) + logits.unsqueeze(1)
        return rearrange(every, "b m n v -> (b m) n v")


class GraphMixture(BDDenoiserBackbone):
    """A ``BDDenoiserBackbone`` with M components that change the logits of nodes and edges.

    ``components``: M. Their weights are parameters of the denoiser, as in checkpoints of students.
    """

    denoiser: Any

    def __init__(
        self, denoiser: GraphDenoiser, *, components: int, legal_only: bool = True
    ) -> None:
        super().__init__(denoiser, legal_only=legal_only)
        self.denoiser.node_components = ComponentHead.like(denoiser.node_head, components)
        self.denoiser.edge_components = ComponentHead.like(denoiser.edge_head, components)

    def forward(
        self,
        x_t: Tensor,
        sigma: Tensor | None = None,
        *,
        condition: Tensor | None = None,
        keep: Tensor | None = None,
        component: Component = None,
        packing: ColumnPacking | None = None,
    ) -> Tensor:
        """Logits Float[B, L, V], or Float[B, M, L, V] for ``all`` components.

        The other arguments are those of ``BDDenoiserBackbone.forward``.
        """
        denoiser, t = self.denoiser, corrupted_share(sigma)
        # features of the denoiser, read by heads and components
        tokens, packing = self.read(x_t, packing)
        nodes, edges, revealed = denoiser.features(tokens, t, packing, condition, keep=keep)
        node_logits, edge_logits = denoiser.head(nodes, edges, revealed)
        logits = self.write(
            denoiser.node_components(node_logits, nodes, component),
            denoiser.edge_components(edge_logits, edges, component),
            packing,
        )
        return component_logits(logits, x_t.shape[0], component)


class DiTMixture(DiT):
    """A ``DiT`` with M components that change the logits.

    ``components``: M; ``options``: the arguments of ``DiT``.
    """

    def __init__(self, *, components: int, **options: Any) -> None:
        super().__init__(**options)
        self.components = ComponentHead.like(self.head, components)

    def forward(  # type: ignore[override]  # a student generates neither in blocks nor in order
        self,
        x_t: Tensor,
        sigma: Tensor | None = None,
        *,
        component: Component = None,
        packing: ColumnPacking | None = None,
        document_idxs: Tensor | None = None,
    ) -> Tensor:
        """Map x_t Int[B, L] and sigma Float[B] or None to logits, as ``GraphMixture`` does.

        ``document_idxs`` Int[B, L]: see ``DiT``.
        """
        packing = self.packed(x_t, packing)
        x = self.features(x_t, sigma, packing, document_idxs=document_idxs)
        logits = self.components(self.head(x), x, component)
        return component_logits(self.scatter(logits, packing), x_t.shape[0], component)


def component_logits(logits: Tensor, batch_size: int, component: Component) -> Tensor:
    """Reshape logits of ``all`` components, (B M, L, V) -> (B, M, L, V); else leave them."""
    if not isinstance(component, str):
        return logits
    return rearrange(logits, "(b m) l v -> b m l v", b=batch_size)
