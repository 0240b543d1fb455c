"""Types that the nodes and edges of a data set of graphs have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from discrete_diffusion.config.values import unknown_name
from discrete_diffusion.layout.vocab_config import VocabConfig


@dataclass(frozen=True)
class GraphTypes:
    """Names, in the order of their ids; the last of ``edges`` says that there is no edge.

    Raises ``ValueError`` naming the key of ``data`` for names that are wrong.
    """

    nodes: tuple[str, ...] = ("node",)
    edges: tuple[str, ...] = ("edge", "none")

    def __post_init__(self) -> None:
        for key, names, least in (("node_types", self.nodes, 1), ("edge_types", self.edges, 2)):
            if len(names) < least or len(set(names)) < len(names):
                raise ValueError(
                    f"data.{key}={[*names]}: expected at least {least}, each once"
                    + (', such as [edge, none]; the last is "no edge"' if least == 2 else "")
                )

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> GraphTypes:
        """Types that a ``config.data`` names; a whole number is a name too, as in TU folders."""
        found = {}
        for key in ("node_types", "edge_types"):
            names = data[key]
            if isinstance(names, str) or not all(_is_name(name) for name in names):
                raise ValueError(f"data.{key}={names}: expected a list of names")
            found[key.removesuffix("_types") + "s"] = tuple(map(str, names))
        return cls(**found)

    def vocabulary(self, n_max: int) -> VocabConfig:
        return VocabConfig(n_max=n_max, node_types=self.nodes, edge_types=self.edges)

    def node(self, name: object) -> int:
        """``ValueError`` for an unknown name."""
        return _id(name, self.nodes, "node type")

    def edge(self, name: object) -> int:
        """``ValueError`` for an unknown name, and for that of no edge."""
        return _id(name, self.edges[:-1], "edge type")


def _is_name(name: object) -> bool:
    return isinstance(name, str) or (isinstance(name, int) and not isinstance(name, bool))


class Untyped(GraphTypes):
    """Types for reading graphs of any types as graphs of none."""

    def node(self, name: object) -> int:
        return 0

    def edge(self, name: object) -> int:
        return 0


def _id(name: object, names: Sequence[str], what: str) -> int:
    if name not in names:
        raise ValueError(unknown_name(what, str(name), names))
    return names.index(name)
