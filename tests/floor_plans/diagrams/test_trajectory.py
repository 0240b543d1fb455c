"""Film strips and animations: which states are shown, what each one shows, what is refused."""

from pathlib import Path

import numpy as np
import pytest
from matplotlib.collections import LineCollection
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.patches import Circle, FancyBboxPatch
from PIL import Image

from floor_plans.diagrams.diagram import BubbleDiagram
from floor_plans.diagrams.partial import PartialDiagram
from floor_plans.diagrams.pictures import bubbles as styles
from floor_plans.diagrams.pictures import trajectory
from floor_plans.diagrams.pictures.bubbles import ROOM_STYLES, UNKNOWN_ROOM
from floor_plans.diagrams.pictures.diagram_pictures import plot_grid
from floor_plans.diagrams.pictures.trajectory import (
    NUM_COLOURS,
    Palette,
    animate_trajectories,
    plot_film_strip,
    write_gif,
)

# four rooms, a bath inside the living room, and how they come out of masks one token at a time
ROOMS = (0, 1, 2, 3)
RELATIONS = ((0, 1, 9), (0, 2, 2), (0, 3, 5), (1, 2, 0), (1, 3, 10), (2, 3, 10))
NOTHING = PartialDiagram((None,) * 4, ())
FINISHED = PartialDiagram(ROOMS, RELATIONS)
TRAJECTORY = [
    NOTHING,
    *(PartialDiagram((None,) * 4, RELATIONS[:k]) for k in range(1, 7)),
    *(PartialDiagram((*ROOMS[:k], *(None,) * (4 - k)), RELATIONS) for k in range(1, 5)),
]
PLAN = BubbleDiagram(ROOMS, RELATIONS[:4])
SMALL = {"cell": 1.0, "dpi": 50.0}
INNER = np.s_[11:54, 11:54]
"""The pixels of the first small card, without its rim, its bar and the legend."""


def titles_of(figure: Figure) -> list[str]:
    shown = [text.get_text() for text in figure.axes[0].texts]
    return [text for text in shown if text.startswith("state ")]


def cards_of(figure: Figure) -> list[FancyBboxPatch]:
    return [patch for patch in figure.axes[0].patches if isinstance(patch, FancyBboxPatch)]


def bubbles_of(figure: Figure, num_rooms: int = 4) -> list[list[Circle]]:
    """The circles of each card; those of the legend are left out."""
    circles = [patch for patch in figure.axes[0].patches if isinstance(patch, Circle)]
    count = len(cards_of(figure))
    return [circles[k * num_rooms : (k + 1) * num_rooms] for k in range(count)]


def lines_of(figure: Figure, colour: str) -> list[LineCollection]:
    collections = [c for c in figure.axes[0].collections if isinstance(c, LineCollection)]
    return [c for c in collections if len(c.get_color()) and to_hex(c.get_color()[0]) == colour]


def progress_of(figure: Figure) -> list[float]:
    """How far the bar of each card is filled."""
    shares = []
    for bar in lines_of(figure, styles.CARD_EDGE):
        whole, *filled = (points[1, 0] - points[0, 0] for points in bar.get_segments())
        shares.append(filled[0] / whole if filled else 0.0)
    return shares


def read_gif(path: Path) -> tuple[list[np.ndarray], list[int], int]:
    """Its pictures UInt8[H, W, 3], how long each is shown in ms, and how often it loops."""
    pictures, durations = [], []
    with Image.open(path) as gif:
        for k in range(gif.n_frames):
            gif.seek(k)
            pictures.append(np.asarray(gif.convert("RGB")))
            durations.append(gif.info["duration"])
        return pictures, durations, gif.info["loop"]


def has_colour(picture: np.ndarray, colour: str) -> bool:
    """Whether more than a few pixels have exactly this colour: blends at edges may, by chance."""
    wanted = [int(colour[k : k + 2], 16) for k in (1, 3, 5)]
    return int((picture == wanted).all(axis=-1).sum()) >= 8


@pytest.mark.slow
def test_a_strip_shows_the_first_the_last_and_even_steps_between():
    assert titles_of(plot_film_strip(TRAJECTORY)) == [
        f"state {k}" for k in (0, 1, 3, 4, 6, 7, 9, 10)
    ]
    assert titles_of(plot_film_strip(TRAJECTORY[-3:])) == ["state 0", "state 1", "state 2"]
    assert titles_of(plot_film_strip([FINISHED])) == ["state 0"]


@pytest.mark.parametrize(("num_frames", "columns"), [(1, 1), (3, 3), (5, 4), (11, 4)])
def test_a_strip_has_rows_of_four(num_frames, columns):
    figure = plot_film_strip(TRAJECTORY[-num_frames:])
    assert len({card.get_x() for card in cards_of(figure)}) == columns


def test_bubbles_stand_where_those_of_the_finished_diagram_stand():
    def offsets(card: FancyBboxPatch, bubbles: list[Circle]) -> np.ndarray:
        return np.array([b.center for b in bubbles]) - [card.get_x(), card.get_y()]

    alone = plot_grid([PLAN])
    (wanted,) = bubbles_of(alone)
    figure = plot_film_strip(TRAJECTORY)
    assert len(cards_of(figure)) == 8
    for card, bubbles in zip(cards_of(figure), bubbles_of(figure), strict=True):
        assert [b.radius for b in bubbles] == [b.radius for b in wanted]
        assert offsets(card, bubbles) == pytest.approx(offsets(cards_of(alone)[0], wanted))


def test_an_unknown_room_is_a_grey_bubble_with_a_question_mark():
    figure = plot_film_strip([TRAJECTORY[0], TRAJECTORY[8], FINISHED])
    colours = [[to_hex(bubble.get_facecolor()) for bubble in card] for card in bubbles_of(figure)]
    known = [ROOM_STYLES[code].colour for code in ROOMS]
    grey = UNKNOWN_ROOM.colour
    assert colours == [[grey] * 4, [*known[:2], grey, grey], known]
    shown = [text.get_text() for text in figure.axes[0].texts]
    assert shown.count("?") == 6
    assert shown.count("Bath") == 1
    assert "Not known yet" in shown
    assert "Not known yet" not in [t.get_text() for t in plot_film_strip([FINISHED]).axes[0].texts]


def test_pairs_are_dotted_while_unknown_then_a_line_or_nothing():
    figure = plot_film_strip([TRAJECTORY[k] for k in (0, 3, 4, 5, 10)])
    # five pairs can have a line: the bath lies inside the living room
    left = [card.get_x() for card in cards_of(figure)]
    top = [card.get_y() for card in cards_of(figure)]
    ends = [hint.get_segments()[0][0] for hint in lines_of(figure, styles.HINT_LINE)]
    hints = [
        sum(x <= end[0] <= x + 2.1 and y <= end[1] <= y + 2.1 for end in ends)
        for x, y in zip(left, top, strict=True)
    ]
    assert hints == [5, 3, 2, 1, 0]
    lines = lines_of(figure, styles.LINE)
    assert len(lines) == 0 + 2 + 3 + 3 + 3
    assert lines_of(figure, styles.BROKEN_LINE) == []


def rims_of(figure: Figure) -> list[list[str]]:
    """Of the bubbles of each card: solid, dotted, or dashed (and red)."""
    names = {"solid": "solid", styles.DOTS: "dotted", styles.DASHES: "dashed"}
    for bubble in (bubble for card in bubbles_of(figure) for bubble in card):
        red = to_hex(bubble.get_edgecolor()) == styles.BROKEN_LINE
        assert red == (bubble.get_linestyle() == styles.DASHES)
    return [[names[bubble.get_linestyle()] for bubble in card] for card in bubbles_of(figure)]


def test_an_inner_bubble_has_a_dotted_rim_until_it_is_known_that_it_lies_there():
    # the bath lies inside the living room, which the third relation says
    figure = plot_film_strip([TRAJECTORY[k] for k in (0, 2, 3, 10)])
    solid = ["solid"] * 4
    unknown = [*solid[:3], "dotted"]
    assert rims_of(figure) == [unknown, unknown, solid, solid]
    only_pair = plot_film_strip([PartialDiagram(ROOMS, RELATIONS[:2] + RELATIONS[3:]), FINISHED])
    assert rims_of(only_pair) == [unknown, solid]
    assert "Not known yet" in [text.get_text() for text in only_pair.axes[0].texts]


@pytest.mark.parametrize("said", [1, 4, 10])  # left-below, the other way round, no relation
def test_an_inner_bubble_has_a_dashed_rim_where_a_state_says_that_it_lies_elsewhere(said):
    state = PartialDiagram(ROOMS, (*RELATIONS[:2], (0, 3, said), *RELATIONS[3:]))
    figure = plot_film_strip([state, FINISHED])
    assert rims_of(figure) == [[*["solid"] * 3, "dashed"], ["solid"] * 4]
    assert "Contradicts the positions" in [text.get_text() for text in figure.axes[0].texts]


def test_pairs_inside_a_bubble_are_dotted_on_top_of_it():
    inner = PartialDiagram((0, 1, 2), ((0, 1, 5), (0, 2, 5), (1, 2, 2)))
    figure = plot_film_strip([PartialDiagram((None,) * 3, ()), inner])
    (hint,) = lines_of(figure, styles.HINT_LINE)
    living, *others = bubbles_of(figure, 3)[0]
    assert living.get_zorder() < hint.get_zorder() < min(b.get_zorder() for b in others)


def test_a_relation_that_the_finished_diagram_contradicts_is_dashed():
    noise = PartialDiagram((3, 3, 1, 0), ((0, 1, 0), (0, 2, 2), *RELATIONS[2:]))
    figure = plot_film_strip([noise, FINISHED])
    (dashed,) = lines_of(figure, styles.BROKEN_LINE)
    assert dashed.get_linestyles()[0][1] is not None
    assert len(lines_of(figure, styles.LINE)) == 2 + 3
    assert "Contradicts the positions" in [text.get_text() for text in figure.axes[0].texts]
    # rooms that change keep the place and size of the finished ones
    before, after = bubbles_of(figure)
    assert [bubble.radius for bubble in before] == [bubble.radius for bubble in after]


def test_the_bar_is_the_share_that_is_as_in_the_end():
    noise = PartialDiagram((0, 1, 2, 0), (*RELATIONS[:5], (2, 3, 4)))
    figure = plot_film_strip([NOTHING, TRAJECTORY[3], noise, FINISHED])
    assert progress_of(figure) == pytest.approx([0.0, 0.3, 0.8, 1.0])


@pytest.mark.slow
def test_an_animation_shows_every_state_and_holds_the_last(tmp_path):
    path = tmp_path / "new" / "film.gif"
    animate_trajectories([TRAJECTORY], path, **SMALL)
    pictures, durations, loop = read_gif(path)
    assert durations == [120] * 10 + [2000]
    assert loop == 0  # for ever
    assert [p.name for p in path.parent.iterdir()] == ["film.gif"]
    pictures = [picture[INNER] for picture in pictures]
    grey = [has_colour(picture, UNKNOWN_ROOM.colour) for picture in pictures]
    assert grey == [True] * 10 + [False]
    for room, code in enumerate(ROOMS):
        seen = [has_colour(picture, ROOM_STYLES[code].colour) for picture in pictures]
        assert seen == [False] * (7 + room) + [True] * (4 - room)


def test_a_shorter_film_waits_at_its_end(tmp_path):
    path = tmp_path / "film.gif"
    slow = [frame for frame in TRAJECTORY[::5] for _ in range(2)]  # changes at 2 and 4
    quick = [NOTHING, *TRAJECTORY[-2:]]  # changes at 1 and 2, then waits
    animate_trajectories([slow, quick], path, **SMALL)
    pictures, durations, _ = read_gif(path)
    assert durations == [120, 120, 240, 2120]  # states 0, 1, 2 = 3 and 4 = 5
    assert pictures[0].shape[1] > 2 * 50
    left, right = np.s_[:, 10:56], np.s_[:, 62:106]
    first, second, third, last = (picture[8:54] for picture in pictures)
    assert np.array_equal(first[left], second[left])
    assert not np.array_equal(first[right], second[right])
    assert np.array_equal(third[right], last[right])
    assert not np.array_equal(third[left], last[left])


def test_long_trajectories_are_shown_at_even_distances(tmp_path, monkeypatch):
    monkeypatch.setattr(trajectory, "MAX_FRAMES", 4)
    animate_trajectories([TRAJECTORY], tmp_path / "some.gif", **SMALL)
    animate_trajectories([[TRAJECTORY[k] for k in (0, 3, 7, 10)]], tmp_path / "chosen.gif", **SMALL)
    assert (tmp_path / "some.gif").read_bytes() == (tmp_path / "chosen.gif").read_bytes()
    with Image.open(tmp_path / "some.gif") as gif:
        assert gif.n_frames == 4


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
