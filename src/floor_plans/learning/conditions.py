"""Facts of a plan as conditions of a model: counts of rooms, area, outline, front door.

Facts are numbers, NaN if unknown. ``data.condition_on`` names the facts that a model is conditioned
on; a brief states their values, see docs/floor_plans/briefs.md.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from discrete_diffusion.data import EncodedGraphs
from discrete_diffusion.layout import VocabConfig
from discrete_diffusion.runtime import install_command, progress
from floor_plans.diagrams import vocabulary
from floor_plans.diagrams.files.fields import DiagramError
from floor_plans.diagrams.geometry import UNITS, boxes_in_metres, check_metres, threshold_of
from floor_plans.plans.floor_plan import FloorPlan, Point
from floor_plans.plans.outline import fill_gaps

if TYPE_CHECKING:
    from shapely.geometry.base import BaseGeometry

    from floor_plans.diagrams.diagram import BubbleDiagram

logger = logging.getLogger(__name__)

FACTS_VERSION = 1  # version of cached facts; raise it with every change of their numbers
_SCALE = 10.0  # unit of lengths in facts, in metres; that of areas is its square
_HALF_A_WALL = threshold_of("metres", None) / 2  # half the gap of related rooms


@dataclass(frozen=True)
class Facts:
    """The facts ``names``, in the order of ``OF_ROOMS`` and ``OF_PLANS``, of diagrams of ``vocab``.

    num_rooms     number of rooms in 0..n_max, one-hot
    counts        number of rooms of each type and each group of types, one-hot
    area          area inside the outline, in 100 m^2
    outline       mask of the cells of a grid inside it, width and height in 10 m; of the boundary,
                  or of the union of rooms in a plan without boundary
    front_door    (x, y) of its middle relative to the middle of the outline, in 10 m
    """

    names: tuple[str, ...]
    vocab: VocabConfig

    @classmethod
    def of(cls, data: Mapping[str, Any], vocab: VocabConfig) -> Facts | None:
        """Return the facts that ``data.condition_on`` names, or None if it names none. Raises
        ``ValueError`` for an unknown fact."""
        names = vocabulary.fact_names(data)
        return cls(names, vocab) if names else None

    @cached_property
    def kinds(self) -> dict[str, tuple[int, ...]]:
        """Type ids of every room type and every group of room types, by name."""
        return vocabulary.room_kinds(self.vocab.node_types)

    def sizes_of(self, *names: str) -> tuple[int, ...]:
        """Number of values that encode each fact of these ``names``."""
        types = self.vocab.node_types
        return tuple(
            size for name in names for size in vocabulary.sizes_of(name, self.vocab.n_max, types)
        )

    @property
    def labels(self) -> tuple[str, ...]:
        """Label of every fact: its name, or, for a count, the counted room type or group."""
        parts = {"counts": tuple(self.kinds)}
        return tuple(label for name in self.names for label in parts.get(name, (name,)))

    def columns(self, name: str) -> Tensor:
        """Bool[S]: True for columns of the facts of one of the ``names``."""
        return torch.cat([torch.full((sum(self.sizes_of(n)),), n == name) for n in self.names])

    def known(self, numbers: Tensor) -> list[str]:
        """Labels of the facts that are known in all rows of ``numbers`` Float[B, S]."""
        parts = zip(self.labels, numbers.split(self.sizes_of(*self.names), dim=1), strict=True)
        return [label for label, part in parts if not part.isnan().any()]

    @property
    def plan_names(self) -> tuple[str, ...]:
        """Names of the facts that need plans with boxes."""
        return tuple(name for name in self.names if name in vocabulary.OF_PLANS)

    def graph_facts(self, graphs: EncodedGraphs) -> Tensor:
        """All facts of graphs, Float32[B, S]; facts of their plans are in ``graphs.facts``."""
        parts = []
        if "num_rooms" in self.names:
            parts.append(F.one_hot(graphs.num_nodes, self.vocab.n_max + 1).float())
        if "counts" in self.names:
            n_max, types = self.vocab.n_max, self.vocab.num_node_types
            # rooms of each type, summed by kind
            rooms = graphs.x0[:, :n_max].masked_fill(~graphs.real[:, :n_max], types)
            of_type = F.one_hot(rooms, types + 1).sum(dim=1)  # (B, T + 1)
            counts = [of_type[:, list(ids)].sum(dim=1) for ids in self.kinds.values()]
            parts.append(F.one_hot(torch.stack(counts, 1), n_max + 1).flatten(1).float())
        if self.plan_names:
            unknown = torch.full((len(graphs), sum(self.sizes_of(*self.plan_names))), torch.nan)
            parts.append(unknown if graphs.facts is None else graphs.facts)
        return torch.cat(parts, dim=1)

    def plan_facts(self, diagrams: Sequence[BubbleDiagram], unit: str) -> Tensor:
        """Facts of plans, Float32[B, S'], of diagrams with boxes in ``unit``; NaN without boxes.
        Raises ``ValueError`` naming a plan with a wrong door or outline, and for boxes in another
        unit, see ``check_metres``."""
        boxed = [diagram for diagram in diagrams if diagram.boxes is not None]
        units = [str(diagram.metadata.get("unit", unit)) for diagram in boxed]
        known = [k for k, each in enumerate(units) if each in UNITS]  # others are refused below
        check_metres(
            [boxes_in_metres(boxed[k].boxes or (), units[k]) for k in known],
            [units[k] for k in known],
        )
        found = []
        for number, diagram in enumerate(progress.track(diagrams, "measuring plans", "plans")):
            if diagram.boxes is None:
                found.append(self._numbers(None, None, None))
                continue
            try:
                plan = FloorPlan.of(diagram, unit)
            except DiagramError as error:
                raise ValueError(
                    f"data.condition_on={','.join(self.names)} reads boxes and doors; plan "
                    f"{number} of the data, counted from 0, has a wrong {error}"
                ) from error
            # front door and outline, if the plan has them
            front = next((door for door in plan.doors if door.is_front), None)
            outline = plan.outline
            if plan.boundary is None:  # around all rooms, with the walls between them
                outline = fill_gaps(_shapely().union_all(plan.boxes), _HALF_A_WALL)
            door = None if front is None else front.middle
            found.append(self._numbers(outline.area, outline, door))
        return torch.stack(found)

    def _numbers(
        self, area: float | None, outline: BaseGeometry | None, front_door: Point | None
    ) -> Tensor:
        """Numbers of known facts, Float32[S']; a front door without an outline is unknown."""
        middle, cells = (np.nan, np.nan), np.full(vocabulary.GRID * vocabulary.GRID + 2, np.nan)
        # lengths are relative to the middle of the outline
        if outline is not None:
            middle, cells = _middle_and_cells(outline)
        parts = {
            "area": [np.nan if area is None else area / _SCALE**2],
            "outline": cells,
            "front_door": np.subtract(front_door or (np.nan, np.nan), middle) / _SCALE,
        }
        found = [np.asarray(parts[name], dtype=np.float32) for name in self.plan_names]
        return torch.from_numpy(np.concatenate([np.zeros(0, np.float32), *found]))

    def check_known(self, graphs: EncodedGraphs) -> None:
        """Raise ``ValueError`` for a fact that is unknown in all training plans; log the number of
        plans in which other facts are unknown."""
        if not self.plan_names or graphs.facts is None:
            return
        parts = graphs.facts.split([sum(self.sizes_of(n)) for n in self.plan_names], dim=1)
        for name, part in zip(self.plan_names, parts, strict=True):
            unknown = int(part.isnan().any(dim=1).sum())
            if unknown == len(graphs):
                raise ValueError(
                    f"data.condition_on: no training plan has a known {name}; leave {name} out, or "
                    "give plans with boxes" + " and doors" * (name == "front_door")
                )
            if unknown:
                said = "the %s of %d of %d training plans is not known"
                logger.warning(said, name, unknown, len(graphs))

    def stated(
        self,
        *,
        num_rooms: int | None,
        counts: Mapping[frozenset[int], int | None],
        area: float | None,
        outline: Sequence[Point] | None,
        front_door: Point | None,
    ) -> Tensor:
        """Numbers of stated facts, Float32[1, S]; None is unknown. ``counts``: number of rooms by
        the codes of the types that are counted together. ``outline``: corners of the outline."""
        one_hot, parts = self.vocab.n_max + 1, []
        if "num_rooms" in self.names:
            parts.append(_exactly(num_rooms, one_hot))
        # a count applies to the kind with the same types
        if "counts" in self.names:
            known = frozenset(map(vocabulary.ROOM_TYPES.index, self.vocab.node_types))
            for ids in self.kinds.values():
                codes = frozenset(
                    vocabulary.ROOM_TYPES.index(self.vocab.node_types[k]) for k in ids
                )
                stated = [n for types, n in counts.items() if types & known == codes]
                least = min((n for n in stated if n is not None), default=None)
                parts.append(_exactly(least, one_hot))
        inside = None if outline is None else _shapely().Polygon(outline)
        parts.append(self._numbers(area, inside, front_door))
        return torch.cat(parts).unsqueeze(0)


def _exactly(number: int | None, size: int) -> Tensor:
    """One-hot vector of a number; NaN if unknown."""
    if number is None or number >= size:
        return torch.full((size,), torch.nan)
    return F.one_hot(torch.tensor(number), size).float()


def _middle_and_cells(outline: BaseGeometry) -> tuple[Point, Any]:
    """Return the middle of the box around an outline; and a mask of the cells whose middle is
    inside, row by row from the top, with width and height."""
    x0, y0, x1, y1 = outline.bounds
    centre = (x0 + x1) / 2, (y0 + y1) / 2
    # middles of the cells, around the middle of the outline
    steps = (np.arange(vocabulary.GRID) + 0.5 - vocabulary.GRID / 2) * vocabulary.CELL
    x, y = np.meshgrid(*(steps + middle for middle in centre))
    inside = _shapely().contains_xy(outline, x.ravel(), y.ravel())
    return centre, np.concatenate([inside, [(x1 - x0) / _SCALE, (y1 - y0) / _SCALE]])


def _shapely() -> Any:
    """Import shapely; ``ValueError`` if it is not installed."""
    try:
        import shapely
    except ImportError as error:
        raise ValueError(
            f"facts of plans take shapely: {install_command('plans')}, or leave "
            f"{', '.join(vocabulary.OF_PLANS)} out of data.condition_on and of the brief"
        ) from error
    return shapely
