"""Animated GIFs of pictures that share a few flat colours."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from discrete_diffusion.runtime import atomic_write

Pixels = NDArray[np.uint8]

NUM_COLOURS = 255
"""One less than a GIF can hold: the last one marks the pixels that stay as they are."""


class Palette:
    """The commonest colours of ``pictures`` UInt8[H, W, 3], at most 255 of them.

    The flat colours of a plot are among them as they are; the blends along its edges, which are
    many and rare, become the nearest colour by Euclidean distance in RGB.
    """

    def __init__(self, pictures: Sequence[Pixels]) -> None:
        packed = np.concatenate([_packed(picture).ravel() for picture in pictures])
        colours, counts = np.unique(packed, return_counts=True)
        self._colours = _channels(colours[np.argsort(-counts, kind="stable")[:NUM_COLOURS]])
        self._index = np.full(2**24, -1, dtype=np.int16)  # of every colour, -1 until it is needed

    def apply(self, picture: Pixels) -> Image.Image:
        """``picture`` in these colours, mode P."""
        packed = _packed(picture)
        new = np.unique(packed[self._index[packed] < 0])
        if len(new):
            from scipy.cluster.vq import vq  # slow

            self._index[new], _ = vq(_channels(new), self._colours)
        indices = self._index[packed].astype(np.uint8)
        image = Image.frombytes("P", (indices.shape[1], indices.shape[0]), indices.tobytes())
        image.putpalette(self._colours.astype(np.uint8).tobytes())
        return image


def write_gif(
    path: Path, pictures: Iterable[Pixels], palette: Palette, seconds: Sequence[float]
) -> None:
    """Write pictures UInt8[H, W, 3] of one size as a GIF that loops, whole or not at all.

    ``seconds``: how long each is shown. Pictures that look the same one after the other become one,
    shown for the sum of their times. Pictures are taken one at a time.
    """
    images = map(palette.apply, pictures)
    with atomic_write(path) as unfinished:
        next(images).save(
            unfinished,
            format="GIF",
            save_all=True,
            append_images=images,
            duration=[round(1000 * each) for each in seconds],
            loop=0,
        )


def _packed(picture: Pixels) -> NDArray[np.int32]:
    """Int32[H, W]: each colour as one number."""
    red, green, blue = np.moveaxis(picture.astype(np.int32), -1, 0)
    return (red << 16) | (green << 8) | blue


def _channels(packed: NDArray[np.int32]) -> NDArray[np.float64]:
    """Float[..., 3]: the inverse of ``_packed``."""
    return np.stack([packed >> 16, (packed >> 8) & 255, packed & 255], axis=-1).astype(np.float64)
