"""Structures that molecules can be required to have while they are sampled, by name.

Another one is a ``Narrowing`` made from a ``VocabConfig``: an entry point of the group
``discrete_diffusion.molecule_structures``, or registered in a module that ``plugins=[...]`` names:

    @register_structure("no-rings")
    class NoRings(Narrowing): ...
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from discrete_diffusion.config.plugins import LazyEntry, Registry

if TYPE_CHECKING:
    from discrete_diffusion.layout.vocab_config import VocabConfig
    from discrete_diffusion.sampling.partial_samples import Narrowing

STRUCTURES: Registry[Callable[[VocabConfig], Narrowing]] = Registry(
    "structure",
    "discrete_diffusion.molecule_structures",
    {
        "valence": LazyEntry("discrete_diffusion.domains.molecules.valence:Valence"),
        "connected": LazyEntry("discrete_diffusion.domains.molecules.valence:ConnectedValence"),
    },
)
register_structure = STRUCTURES.register
