"""Embedded data set: seeded, vectorised, procedural floor plans.

Room programme -> sites around the living room -> dissection into boxes -> relations by the
geometric rule. Unsound plans (overlapping or disconnected rooms, a bedroom inside a bathroom) are
sampled again with the same programme, large plans with another programme of the same size, so that
room counts keep their distribution.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
import torch

from discrete_diffusion.config import shipped_config
from discrete_diffusion.data import EncodedGraphs, cache_dir, cached_arrays
from discrete_diffusion.layout import RPLAN_VOCAB_CONFIG, VocabConfig
from discrete_diffusion.runtime import progress
from floor_plans.diagrams import geometry
from floor_plans.diagrams.diagram import BubbleDiagram
from floor_plans.diagrams.geometry import Flags, Ints
from floor_plans.diagrams.procedural import programme
from floor_plans.diagrams.procedural.livable import are_livable, dissect_plans, draw_walls
from floor_plans.diagrams.vocabulary import INSIDE, NO_EDGE, SURROUNDING

GENERATOR_VERSION = 1
"""Version of the plans of a seed, part of the names of cached files; raise it with every change."""
LIVABLE_VERSION = 2
"""The same of livable plans, in addition."""

BLOCK_SIZE = 1024  # plans in a block; each block has its own random stream (seed, block)
MIN_ROOM_SIDE = 8  # least side of a room, in pixels
MAX_PLAN_SIDE = 256  # largest width and height of a plan, in pixels
SIDE_PER_ROOM = 16  # pixels, about a metre, added to ``MAX_PLAN_SIDE`` for each room beyond eight
LARGE = (4, 33)  # least and most rooms that ``num_rooms`` may request

_MAX_ROUNDS = 2000
_CONTAINED = 0.1
"""Share of the livable plans with a room inside another that are kept: as many as in real plans."""


@dataclass(frozen=True)
class PlanArrays:
    """Arrays of P plans; room 0 is the living room, other rooms follow by type code.

    ``room_types``: Int64[P, N] codes of ``ROOM_TYPES``, PAD (14) in unused slots.
    ``num_rooms``: Int64[P].
    ``boxes``: Int64[P, N, 4] (x0, y0, x1, y1) in pixels of a 256 x 256 plan, y downwards; 0 in
        unused slots. Large plans reach beyond 256.
    ``relations``: Int64[P, N, N], entry (i, j) for i < j the code r of "room i is
        RELATIONS[r] room j"; "no-edge" (10) everywhere else, unused slots included.
    """

    room_types: Ints
    num_rooms: Ints
    boxes: Ints
    relations: Ints

    def __len__(self) -> int:
        return len(self.num_rooms)

    def encode(self, vocab: VocabConfig = RPLAN_VOCAB_CONFIG) -> EncodedGraphs:
        """Encode the plans as ``encode`` does their diagrams; ``vocab.n_max`` is at least N."""
        num_rooms, width = torch.from_numpy(self.num_rooms), self.room_types.shape[1]
        # tokens of the arrays' own width, moved to the positions of vocab
        pairs = self.relations[:, *np.triu_indices(width, k=1)] + vocab.edge_offset
        tokens = torch.from_numpy(np.concatenate([self.room_types, pairs], axis=1))
        real = vocab.real_positions(num_rooms)
        x0 = torch.full(real.shape, vocab.pad_id)
        x0[real] = tokens[VocabConfig(n_max=width).real_positions(num_rooms)]
        return EncodedGraphs(x0, real, num_rooms)

    def to_diagrams(self) -> list[BubbleDiagram]:
        """Convert the plans to diagrams with boxes."""
        # listed relations, grouped by plan
        plan, i, j = (self.relations != NO_EDGE).nonzero()
        triples = np.stack([i, j, self.relations[plan, i, j]], axis=1)
        listed = np.split(triples, np.searchsorted(plan, np.arange(1, len(self))))
        boxes = self.boxes.astype(float)
        return [
            BubbleDiagram.from_checked(
                rooms=tuple(self.room_types[k, :n].tolist()),
                relations=tuple(map(tuple, listed[k].tolist())),
                boxes=tuple(map(tuple, boxes[k, :n].tolist())),
            )
            for k, n in enumerate(self.num_rooms.tolist())
        ]


def generate_plans(
    num: int, seed: int = 0, num_rooms: tuple[int, int] | None = None, *, livable: bool = False
) -> list[BubbleDiagram]:
    """Generate ``num`` procedural floor plans with boxes, see ``sample_plans``; the living room
    comes first, the other rooms follow by type code."""
    return sample_plans(num, seed, num_rooms, livable=livable).to_diagrams()


def sample_plans(
    num: int, seed: int = 0, num_rooms: tuple[int, int] | None = None, *, livable: bool = False
) -> PlanArrays:
    """Sample ``num`` procedural floor plans as arrays.

    ``num_rooms``: least and most rooms of a plan, uniform between them; None: 4 to 8 rooms with the
    frequencies of real plans. Every plan is connected, has exactly one living room and at most one
    entrance, and no room inside a forbidden type. Plans depend on the seed only, and plan k does
    not depend on ``num``. Global random state is neither read nor changed.

    ``livable``: sample only livable plans, see ``are_livable``, of 4 to 8 rooms. Of those with a
    room inside another most are left out at random, so that 10 % remain, as of real plans.

    Raises ``ValueError`` for a negative ``num`` or ``seed``, for ``num_rooms`` that are not in
    ``LARGE``, and for ``livable`` together with ``num_rooms``.
    """
    # check arguments
    for name, value in (("num", num), ("seed", seed)):
        if value < 0:
            raise ValueError(f"{name}={value}: expected an integer >= 0")
    sizes = None if num_rooms is None else checked_range(num_rooms)
    if livable and sizes is not None:
        reason = "such plans are drawn of 4 to 8 rooms alone"
        remedy = "take data.livable=false, or leave data.num_rooms out"
        both = f"data.livable=true with data.num_rooms={list(sizes)}"
        raise ValueError(f"{both}: {reason}; {remedy}")
    # blocks with their own random streams
    num_blocks = max(1, -(-num // BLOCK_SIZE))
    numbers = progress.track(range(num_blocks), "generating plans", f"blocks of {BLOCK_SIZE:,}")
    blocks = []
    for number in numbers:
        rng = np.random.default_rng([seed, number, *(sizes or ())])
        if sizes is None:
            rooms = programme.sample_programmes(BLOCK_SIZE, rng)
            blocks.append(_sound_plans(rooms, rng, livable=livable))
        else:
            blocks.append(_draw_large_block(rng, *sizes))
    # join the blocks, and cut to the requested number
    names = [each.name for each in fields(PlanArrays)]
    return PlanArrays(*(np.concatenate([getattr(b, n) for b in blocks])[:num] for n in names))


def checked_range(num_rooms: Sequence[int] | int) -> tuple[int, int]:
    """Return the least and most rooms; raise ``ValueError`` unless they lie within ``LARGE``."""
    given = [num_rooms] if isinstance(num_rooms, int) else list(num_rooms)
    if len(given) != 2 or not LARGE[0] <= given[0] <= given[1] <= LARGE[1]:
        expected = f"the least and the most rooms of a plan, from {LARGE[0]} to {LARGE[1]}"
        raise ValueError(f"data.num_rooms={given}: expected {expected}, such as [9,20]")
    return given[0], given[1]


def cache_file(
    num: int, seed: int = 0, num_rooms: tuple[int, int] | None = None, *, livable: bool = False
) -> Path:
    """Path of the cached plans of ``cached_plans``."""
    kind = "" if num_rooms is None else f"-r{num_rooms[0]}-{num_rooms[1]}"
    kind += f"-livable-v{LIVABLE_VERSION}" * livable
    return cache_dir() / f"plans-v{GENERATOR_VERSION}-n{num}-s{seed}{kind}.npz"


def cached_plans(
    num: int, seed: int = 0, num_rooms: tuple[int, int] | None = None, *, livable: bool = False
) -> PlanArrays:
    """Read plans of ``sample_plans`` from the cache, or sample and cache them. An unreadable file
    is written again, and an unwritable folder is ignored; both are logged as warnings."""
    width = programme.N_MAX if num_rooms is None else num_rooms[1]
    expected = {
        "room_types": (np.int16, (num, width)),
        "num_rooms": (np.int16, (num,)),
        "boxes": (np.int16, (num, width, 4)),
        "relations": (np.int16, (num, width, width)),
    }

    def sample() -> dict[str, Ints]:
        return vars(sample_plans(num, seed, num_rooms, livable=livable))

    path = cache_file(num, seed, num_rooms, livable=livable)
    arrays = cached_arrays(path, "plans", expected, sample)
    return PlanArrays(**{name: array.astype(np.int64) for name, array in arrays.items()})


def _draw_large_block(rng: np.random.Generator, least: int, most: int) -> PlanArrays:
    """Sample ``BLOCK_SIZE`` sound plans of ``least`` to ``most`` rooms."""
    # plans with rings of equal length are sampled together
    num_rooms = rng.integers(least, most, size=BLOCK_SIZE, endpoint=True)
    across = np.array([programme.ring_for(n).across for n in num_rooms.tolist()])
    found: dict[str, Ints] = {}
    for length in np.unique(across).tolist():
        rows = np.flatnonzero(across == length)

        def draw(left: Ints, sizes: Ints = num_rooms[rows]) -> Ints:
            return programme.sample_large_programmes(sizes[left], most, rng)

        first = draw(np.arange(len(rows)))
        plans = _sound_plans(first, rng, programme.Ring(across=length), again=draw)
        for name, values in vars(plans).items():
            whole = found.setdefault(name, np.zeros((BLOCK_SIZE, *values.shape[1:]), np.int64))
            whole[rows] = values
    return PlanArrays(**found)


def _sound_plans(
    rooms: Ints,
    rng: np.random.Generator,
    ring: programme.Ring = programme.RING,
    again: Callable[[Ints], Ints] | None = None,
    livable: bool = False,
) -> PlanArrays:
    """Sample plans with the programmes ``rooms`` Int[P, N] until all are sound, and livable if
    requested.

    ``again``: samples new programmes for unsound plans Int[K]; None keeps their programmes.
    """
    num, width = rooms.shape
    boxes = np.zeros((num, width, 4), dtype=np.int64)
    relations = np.full((num, width, width), NO_EDGE, dtype=np.int64)
    todo = np.arange(num)
    for turn in range(_MAX_ROUNDS):
        if turn and again is not None:
            rooms[todo] = again(todo)
        if livable:  # the last plans, of rare programmes, are sampled many times at once
            todo = np.repeat(todo, max(1, BLOCK_SIZE // 8 // len(todo)))
        # sample the plans that are left, and keep the sound ones
        pending = rooms[todo]
        # boxes, drawn in whole pixels
        dissected = dissect_plans(pending, programme.choose_sites(pending, rng, ring), rng, ring)
        drawn = draw_walls(pending, dissected)
        real = pending != programme.PAD
        both_real = real[:, :, None] & real[:, None, :]
        # all conditions on boxes: no room too narrow, no plan too large, ...
        sides = drawn[..., 2:] - drawn[..., :2]
        most = MAX_PLAN_SIDE + SIDE_PER_ROOM * (real.sum(axis=1) - programme.N_MAX).clip(min=0)
        sound = ((sides >= MIN_ROOM_SIDE).all(-1) | ~real).all(-1)
        sound &= (drawn <= most[:, None, None]).all(axis=(1, 2))
        if livable:
            is_kept = rng.random(len(todo)) < _CONTAINED
            sound[sound] = are_livable(pending[sound], dissected[sound])
        sound[sound] = _are_disjoint(drawn[sound], both_real[sound])
        # their relations, and conditions on them
        related = np.where(both_real[sound], geometry.relations_from_boxes(drawn[sound]), NO_EDGE)
        fits = geometry.is_connected(geometry.neighbours(related), real[sound].sum(axis=1))
        fits &= geometry.is_inside_valid(pending[sound], related)
        if livable:
            contained = ((related == INSIDE) | (related == SURROUNDING)).any((1, 2))
            fits &= is_kept[sound] | ~contained
        related, sound[sound] = related[fits], fits
        boxes[todo[sound]], relations[todo[sound]] = drawn[sound], related
        todo = np.setdiff1d(todo, todo[sound])
        if len(todo) == 0:
            break
    assert len(todo) == 0, f"{len(todo)} plans still unsound after {_MAX_ROUNDS} rounds"
    return PlanArrays(rooms, (rooms != programme.PAD).sum(1), boxes, relations)


def _are_disjoint(boxes: Ints, both_real: Flags) -> Flags:
    """Bool[P]: rooms other than the living room are disjoint or nested."""
    # area shared by each pair of rooms
    low = np.maximum(boxes[:, :, None, :2], boxes[:, None, :, :2])
    high = np.minimum(boxes[:, :, None, 2:], boxes[:, None, :, 2:])
    shared = (high - low).clip(0).prod(-1)
    area = (boxes[..., 2:] - boxes[..., :2]).prod(-1)
    nested = shared == np.minimum(area[:, :, None], area[:, None, :])
    clash = (shared > 0) & ~nested & both_real
    return np.all(~clash[:, 1:, 1:], axis=(1, 2))


def embedded_plans() -> tuple[str, list[BubbleDiagram]]:
    """Return a title and the embedded plans, as configured."""
    config = shipped_config("data", "bubble_diagrams")
    plans = cached_plans(config["num_plans"], seed := config["generator_seed"])
    title = f"the embedded plans: {len(plans):,} of seed {seed} (data=bubble_diagrams)"
    return title, plans.to_diagrams()
