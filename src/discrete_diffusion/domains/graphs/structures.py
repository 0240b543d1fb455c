"""Structures that graphs can be required to have while they are sampled, by name.

Another one is a ``Narrowing`` made from a ``VocabConfig``: an entry point of the group
``discrete_diffusion.graph_structures``, or registered in a module that ``plugins=[...]`` names:

    @register_structure("bipartite")
    class Bipartite(GraphNarrowing): ...
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from discrete_diffusion.config.plugins import LazyEntry, Registry

if TYPE_CHECKING:
    from discrete_diffusion.layout.vocab_config import VocabConfig
    from discrete_diffusion.sampling.narrowing import Narrowing


def _lazy(name: str) -> LazyEntry:
    return LazyEntry(f"discrete_diffusion.sampling.graph_structures:{name}")


STRUCTURES: Registry[Callable[[VocabConfig], Narrowing]] = Registry(
    "structure",
    "discrete_diffusion.graph_structures",
    {
        "tree": _lazy("Tree"),
        "forest": _lazy("Forest"),
        "connected": _lazy("Connected"),
        "planar": _lazy("Planar"),
    },
)
register_structure = STRUCTURES.register
