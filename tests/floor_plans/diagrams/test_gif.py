"""GIFs: colours kept, colours replaced, frames merged, files whole."""

import numpy as np
import pytest
from PIL import Image

from floor_plans.diagrams.pictures.trajectory import NUM_COLOURS, Palette, write_gif


def rainbow(num_colours: int) -> np.ndarray:
    """A strip of distinct colours, UInt8[1, num_colours, 3]."""
    k = np.arange(num_colours)
    return np.stack([k % 256, k // 256 * 40, 255 - k % 256], axis=-1).astype(np.uint8)[None]


def test_up_to_255_colours_are_kept_as_they_are():
    picture = rainbow(NUM_COLOURS)
    assert np.array_equal(np.asarray(Palette([picture]).apply(picture).convert("RGB")), picture)


def test_rare_colours_become_the_nearest_common_one():
    common = np.concatenate([rainbow(NUM_COLOURS)] * 2, axis=1)
    rare = np.array([[[0, 0, 250], [255, 0, 0], [3, 30, 252]]], dtype=np.uint8)
    mapped = np.asarray(Palette([common, rare]).apply(rare).convert("RGB")).astype(int)
    away = ((rare.astype(int)[0, :, None] - common.astype(int)[0]) ** 2).sum(axis=-1)
    assert ((mapped - rare) ** 2).sum(axis=-1).tolist() == [away.min(axis=1).tolist()]


def test_pictures_come_back_with_their_times(tmp_path):
    pictures = [np.roll(rainbow(200), k, axis=1) for k in (0, 1, 1, 5)]
    path = tmp_path / "a.gif"
    write_gif(path, iter(pictures), Palette(pictures), [0.1, 0.2, 0.3, 0.4])
    with Image.open(path) as gif:
        assert gif.n_frames == 3
        for k, (picture, milliseconds) in enumerate(
            [(pictures[0], 100), (pictures[1], 500), (pictures[3], 400)]
        ):
            gif.seek(k)
            assert np.array_equal(np.asarray(gif.convert("RGB")), picture)
            assert gif.info["duration"] == milliseconds


def test_a_file_that_cannot_be_finished_leaves_the_old_one(tmp_path):
    def failing():
        yield rainbow(9)
        raise RuntimeError("no more pictures")

    path = tmp_path / "a.gif"
    path.write_bytes(b"old")
    with pytest.raises(RuntimeError, match="no more pictures"):
        write_gif(path, failing(), Palette([rainbow(9)]), [0.1, 0.1])
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["a.gif"]
