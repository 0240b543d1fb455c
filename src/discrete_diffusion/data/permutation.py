"""A random permutation that is computed, not stored."""

from __future__ import annotations

import torch
from torch import Tensor

from discrete_diffusion.categorical import make_generator

_ROUNDS = 6


class Permutation:
    """A random permutation of 0..M-1 in O(1) memory, a function of (M, seeds).

    A balanced Feistel network permutes 0..4^k-1, the least such number above M; a number outside
    goes through it again until it falls below M (cycle walking: Black & Rogaway, "Ciphers with
    arbitrary finite domains", CT-RSA 2002). Not for secrets.

    ``num``: M. ``seeds``: as of ``make_generator``.
    """

    def __init__(self, num: int, *seeds: int) -> None:
        self.num = num
        self._half = max(1, -(-max(num - 1, 1).bit_length() // 2))  # bits
        generator = make_generator(*seeds)
        self._keys = torch.randint(1 << 31, (_ROUNDS,), generator=generator).tolist()

    def __call__(self, places: Tensor) -> Tensor:
        """Int64[B] places in 0..M-1 -> what stands there, Int64[B]."""
        found = self._once(places)
        while bool((outside := found >= self.num).any()):
            found = torch.where(outside, self._once(found), found)
        return found

    def _once(self, x: Tensor) -> Tensor:
        mask = (1 << self._half) - 1
        left, right = x >> self._half, x & mask
        for key in self._keys:
            left, right = right, left ^ (_mixed(right ^ key) & mask)
        return (left << self._half) | right


def _mixed(x: Tensor) -> Tensor:
    """Bits of 32-bit numbers, mixed (the finaliser of MurmurHash3), as Int64."""
    x = (x ^ (x >> 16)) * 0x85EBCA6B & 0xFFFFFFFF
    x = (x ^ (x >> 13)) * 0xC2B2AE35 & 0xFFFFFFFF
    return x ^ (x >> 16)
