"""Animated GIFs of pictures with few flat colours."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from discrete_diffusion.runtime import atomic_write

Pixels = NDArray[np.uint8]

NUM_COLOURS = 255
"""Most colours of a palette: a GIF has 256, of which one marks unchanged pixels."""


class Palette:
    """Most frequent colours of ``pictures`` UInt8[H, W, 3], at most 255.

    The flat colours of a plot are kept; rare blends along edges become the nearest colour by
    Euclidean distance in RGB.
    """

    def __init__(self, pictures: Sequence[Pixels]) -> None:
        packed = np.concatenate([_packed(picture).ravel() for picture in pictures])
        colours, counts = np.unique(packed, return_counts=True)
        self._colours = _channels(colours[np.argsort(-counts, kind="stable")[:NUM_COLOURS]])
        self._index = np.full(2**24, -1, dtype=np.int16)  # index by colour, -1: not yet

    def apply(self, picture: Pixels) -> Image.Image:
        """Convert a picture to these colours, mode P."""
        packed = _packed(picture)
        # nearest palette colour of colours that were not seen before
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
    """Write pictures UInt8[H, W, 3] of one size as a looping GIF, complete or not at all.

    ``seconds``: duration of each picture. Equal consecutive pictures are merged. Pictures are
    consumed one at a time.
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
    """Int32[H, W]: each colour packed into one integer."""
    red, green, blue = np.moveaxis(picture.astype(np.int32), -1, 0)
    return (red << 16) | (green << 8) | blue


def _channels(packed: NDArray[np.int32]) -> NDArray[np.float64]:
    """Float[..., 3]: channels of packed colours, the inverse of ``_packed``."""
    return np.stack([packed >> 16, (packed >> 8) & 255, packed & 255], axis=-1).astype(np.float64)
