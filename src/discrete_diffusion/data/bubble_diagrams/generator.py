"""The embedded data set: seeded, vectorised, procedural floor plans."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from discrete_diffusion.data.bubble_diagrams.diagram import NUM_RELATIONS, BubbleDiagram
from discrete_diffusion.data.bubble_diagrams.dissection import dissect
from discrete_diffusion.data.bubble_diagrams.geometry import relations_from_boxes
from discrete_diffusion.data.bubble_diagrams.programme import N_MAX, PAD, draw_programmes
from discrete_diffusion.data.bubble_diagrams.siting import choose_sites
from discrete_diffusion.layout import RELATIONS

GENERATOR_VERSION = 1
"""Raised whenever the same seed would give other plans; part of the cache key."""

BLOCK_SIZE = 1024

_NO_EDGE = RELATIONS.index("no-edge")
_INSIDE, _SURROUNDING = RELATIONS.index("inside"), RELATIONS.index("surrounding")
FORBIDDEN_OUTER = {
    0: range(1, 12),
    1: range(2, 12),
    2: (1, 3, 5, 6, 7, 8, 9, 10, 11),
    3: (10,),
    4: (1, 3, 5, 8, 9, 10, 11),
    5: (2, 3, 4, 9, 10, 11),
    6: (3, 9, 10),
    7: (3, 9, 10),
    8: (3, 9, 10),
    9: (2, 3, 6, 10, 11),
    10: (*range(1, 10), 11),
    11: (9,),
}
_FORB = np.zeros((15, 15), bool)
for _i, _o in FORBIDDEN_OUTER.items():
    _FORB[_i, list(_o)] = True


def check_plans(rooms, boxes, rel):
    real = rooms != PAD
    pair_real = real[:, :, None] & real[:, None, :]
    edge = (rel != _NO_EDGE) & pair_real
    adj = edge | edge.transpose(0, 2, 1)
    reach = np.zeros_like(real)
    reach[:, 0] = True
    for _ in range(N_MAX - 1):
        reach |= (adj & reach[:, :, None]).any(1)
    connected = (reach | ~real).all(1)
    u, v = rooms[:, :, None], rooms[:, None, :]
    bad = ((rel == _INSIDE) & _FORB[u, v]) | ((rel == _SURROUNDING) & _FORB[v, u])
    contain = ~(bad & pair_real).any((1, 2))
    lo = np.maximum(boxes[:, :, None, :2], boxes[:, None, :, :2])
    hi = np.minimum(boxes[:, :, None, 2:], boxes[:, None, :, 2:])
    inter = np.clip(hi - lo, 0, None).prod(-1)
    area = (boxes[..., 2:] - boxes[..., :2]).prod(-1)
    small = np.minimum(area[:, :, None], area[:, None])
    iu = np.triu(np.ones((N_MAX, N_MAX), bool), 1)
    iu[0] = False
    nested = inter == small
    overlap = ((inter > 0) & ~nested & pair_real & iu).any((1, 2))
    size = boxes[..., 2:] - boxes[..., :2]
    thin = ((size < 8).any(-1) & real).any(1)
    return connected, contain, ~overlap, ~thin


def draw_block(num, rng):
    rooms = draw_programmes(num, rng)
    boxes = np.zeros((num, N_MAX, 4), np.int64)
    rel = np.full((num, N_MAX, N_MAX), _NO_EDGE)
    todo = np.arange(num)
    stats = []
    while len(todo):
        sites = choose_sites(rooms[todo], rng)
        b = dissect(rooms[todo], sites, rng)
        r = relations_from_boxes(b)
        real = rooms[todo] != PAD
        r = np.where(real[:, :, None] & real[:, None], r, _NO_EDGE)
        oks = check_plans(rooms[todo], b, r)
        stats.append([o.mean() for o in oks])
        ok = np.all(oks, 0)
        boxes[todo[ok]] = b[ok]
        rel[todo[ok]] = r[ok]
        todo = todo[~ok]
    return rooms, boxes, rel, stats[0]
