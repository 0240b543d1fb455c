"""From text to text through a few latent vectors.

    source ids -> encoder -> compression -> middle -> adapter -> decoder -> target ids
     (B, L)      (B, L, C)    (B, K, D)    (B, K, D)  (B, P, E)  (B, T, V)

Encoder and decoder are ``text_models``; the parts between are here and need no library but torch.
"""

from continuous_states.networks.latent_space.model import LatentOutput, LatentSpaceModel, unit_rows
from continuous_states.networks.latent_space.parts import (
    LatentEncoder,
    MiddleTransformer,
    PrefixAdapter,
    StopLatent,
)

__all__ = [
    "LatentEncoder",
    "LatentOutput",
    "LatentSpaceModel",
    "MiddleTransformer",
    "PrefixAdapter",
    "StopLatent",
    "unit_rows",
]
