"""Procedural floor plans: reproducible, sound, and distributed as promised."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from discrete_diffusion.cli import compose
from discrete_diffusion.data import cache_dir, canonical_orders, relabel
from discrete_diffusion.data.files import cached_files, clear_cache
from discrete_diffusion.domains import domain_of
from discrete_diffusion.layout import (
    RELATION_X_ORDER,
    RELATION_Y_ORDER,
    RELATIONS,
    ROOM_TYPES,
    VocabConfig,
)
from floor_plans.diagrams.geometry import relations_from_boxes
from floor_plans.diagrams.metrics.diagrams import structure_metrics
from floor_plans.diagrams.procedural import generator
from floor_plans.diagrams.procedural.generator import (
    BLOCK_SIZE,
    MAX_PLAN_SIDE,
    MIN_ROOM_SIDE,
    PlanArrays,
    cache_file,
    cached_plans,
    generate_plans,
    sample_plans,
)
from floor_plans.diagrams.procedural.programme import (
    BALCONY,
    BATHROOM,
    DINING,
    KITCHEN,
    LIVING,
    NUM_ROOMS,
    NUM_ROOMS_PROBS,
    PAD,
    RING,
    Ring,
    ring_for,
)
from floor_plans.diagrams.tokens import encode
from floor_plans.diagrams.vocabulary import ADJACENCY, DIRECTIONS, FORBIDDEN_INSIDE, NO_EDGE
from floor_plans.learning.build import DiagramDataset, build_dataset
from floor_plans.learning.report import NUM_LARGE_VERDICTS, DiagramReport

INSIDE, SURROUNDING = RELATIONS.index("inside"), RELATIONS.index("surrounding")
SECOND_ROOM, ENTRANCE = ROOM_TYPES.index("SecondRoom"), ROOM_TYPES.index("Entrance")


@pytest.fixture(scope="module")
def plans() -> PlanArrays:
    return sample_plans(20_000, seed=7)


def closure(adjacent: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Bool[P, n, n]: is there a path of at least one step from i to j?"""
    reach = adjacent
    for _ in range(3):  # paths of up to 2^3 = 8 steps
        reach = reach | (reach[..., :, :, None] & reach[..., None, :, :]).any(-2)
    return reach


def num_distinct(plans: PlanArrays) -> int:
    """Plans that differ by more than a relabelling of their rooms."""
    encoded = plans.encode()
    orders = canonical_orders(encoded.x0, encoded.num_nodes).orders
    return len(torch.unique(relabel(encoded.x0, encoded.num_nodes, orders), dim=0))


def test_no_plans_and_one_plan() -> None:
    assert generate_plans(0) == []
    assert sample_plans(0).boxes.shape == (0, 8, 4)
    (plan,) = generate_plans(1)
    assert plan.rooms[0] == 0
    assert plan.boxes is not None


@pytest.mark.parametrize(
    ("arguments", "named"), [({"num": -1}, "num=-1"), ({"num": 3, "seed": -2}, "seed=-2")]
)
def test_refuses_negative_arguments(arguments: dict[str, int], named: str) -> None:
    with pytest.raises(ValueError, match=f"^{named}: expected an integer >= 0"):
        generate_plans(**arguments)
    least = {name: max(value, 0) for name, value in arguments.items()}
    assert len(generate_plans(**least)) == least["num"]


def test_same_seed_same_plans_whatever_the_number() -> None:
    few, many = sample_plans(BLOCK_SIZE + 1, seed=3), sample_plans(BLOCK_SIZE + 300, seed=3)
    for name in ("room_types", "num_rooms", "boxes", "relations"):
        assert np.array_equal(getattr(few, name), getattr(many, name)[: len(few)])
    assert generate_plans(5, seed=3) == few.to_diagrams()[:5]
    assert not np.array_equal(sample_plans(50, seed=4).boxes, few.boxes[:50])


def test_leaves_global_random_state_alone() -> None:
    before, torch_before = np.random.get_state(), torch.get_rng_state()  # noqa: NPY002
    sample_plans(10, seed=1)
    after = np.random.get_state()  # noqa: NPY002
    assert all(np.array_equal(a, b) for a, b in zip(before, after, strict=True))
    assert torch.equal(torch_before, torch.get_rng_state())


def test_arrays_agree_with_diagrams_and_tokens() -> None:
    plans = sample_plans(200, seed=5)
    diagrams = plans.to_diagrams()
    encoded, expected = plans.encode(), encode(diagrams)
    assert torch.equal(encoded.x0, expected.x0)
    assert torch.equal(encoded.real, expected.real)
    assert torch.equal(encoded.num_nodes, expected.num_nodes)
    for k, diagram in enumerate(diagrams):
        assert diagram.num_rooms == plans.num_rooms[k]
        codes = relations_from_boxes(np.array(diagram.boxes))
        listed = [(i, j, int(codes[i, j])) for i, j in np.argwhere(codes != NO_EDGE)]
        assert diagram.relations == tuple(listed)


@pytest.mark.slow
def test_room_counts(plans: PlanArrays) -> None:
    shares = np.bincount(plans.num_rooms, minlength=9)[4:] / len(plans)
    error = np.sqrt(np.array(NUM_ROOMS_PROBS) / len(plans))
    assert plans.num_rooms.min() == NUM_ROOMS[0]
    assert plans.num_rooms.max() == NUM_ROOMS[-1]
    assert (np.abs(shares - NUM_ROOMS_PROBS) < 5 * error).all()


def test_rooms(plans: PlanArrays) -> None:
    types = plans.room_types
    assert (types[:, 0] == 0).all()
    assert (np.diff(types, axis=1) >= 0).all()  # by type, PAD last
    assert ((types == 0).sum(1) == 1).all()
    assert ((types == ENTRANCE).sum(1) <= 1).all()
    per_type = np.bincount(types[types != PAD], minlength=len(ROOM_TYPES))
    assert (per_type[:12] > 0).all()
    assert per_type[:12].argmax() == SECOND_ROOM
    assert per_type[:12].argmin() == ENTRANCE
    for common in ("MasterRoom", "Kitchen", "Bathroom"):
        assert (types == ROOM_TYPES.index(common)).any(1).mean() > 0.9


def test_number_of_relations(plans: PlanArrays) -> None:
    edges = (plans.relations != NO_EDGE).sum((1, 2))
    assert edges.mean() == pytest.approx(10.2, rel=0.02)
    assert edges.min() >= 3
    assert edges.max() <= 20


def test_every_plan_is_connected(plans: PlanArrays) -> None:
    edge = plans.relations != NO_EDGE
    reach = closure(edge | edge.transpose(0, 2, 1))
    real = plans.room_types != PAD
    assert (reach[:, 0] == real).all()


def test_containment(plans: PlanArrays) -> None:
    assert sum(map(len, FORBIDDEN_INSIDE.values())) == 69
    present = plans.relations[plans.relations != NO_EDGE]
    assert 0.06 <= np.isin(present, [INSIDE, SURROUNDING]).mean() <= 0.08
    for code in (INSIDE, SURROUNDING):
        plan, i, j = (plans.relations == code).nonzero()
        inner, outer = (i, j) if code == INSIDE else (j, i)
        pairs = zip(
            plans.room_types[plan, inner].tolist(),
            plans.room_types[plan, outer].tolist(),
            strict=True,
        )
        assert not [(a, b) for a, b in pairs if b in FORBIDDEN_INSIDE.get(a, ())]


@pytest.mark.parametrize("order", [RELATION_X_ORDER, RELATION_Y_ORDER])
def test_relations_are_transitive(plans: PlanArrays, order: tuple[int, ...]) -> None:
    sign = np.array(order)[plans.relations]
    before = (sign < 0) | (sign > 0).transpose(0, 2, 1)
    assert not closure(before).diagonal(axis1=1, axis2=2).any()


def test_boxes_are_rooms_of_a_plan(plans: PlanArrays) -> None:
    real = plans.room_types != PAD
    sides = plans.boxes[..., 2:] - plans.boxes[..., :2]
    assert (sides[real] >= MIN_ROOM_SIDE).all()
    assert (plans.boxes[~real] == 0).all()
    assert (plans.boxes >= 0).all()
    assert (plans.boxes <= MAX_PLAN_SIDE).all()
    assert np.where(real[..., None], plans.boxes[..., :2], 999).min(1).max() == 0


def test_plans_are_varied(plans: PlanArrays) -> None:
    assert len(np.unique(plans.room_types, axis=0)) >= 500
    assert num_distinct(plans) >= 0.95 * len(plans)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "deep" / "cache"
    monkeypatch.setenv("DISCRETE_DIFFUSION_CACHE", str(path))
    return path


def assert_equal(plans: PlanArrays, expected: PlanArrays) -> None:
    for f in fields(PlanArrays):
        ours, theirs = getattr(plans, f.name), getattr(expected, f.name)
        assert ours.dtype == theirs.dtype == np.int64
        assert np.array_equal(ours, theirs)


def test_second_call_reads_the_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = cached_plans(30, seed=2)
    assert [p.name for p in folder.iterdir()] == [cache_file(30, 2).name]  # no partial file left
    monkeypatch.setattr(generator, "sample_plans", None)
    assert_equal(cached_plans(30, seed=2), drawn)
    assert_equal(drawn, sample_plans(30, seed=2))


def test_files_are_told_apart(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = {cache_file(30, 2), cache_file(30, 3), cache_file(31, 2)}
    monkeypatch.setattr(generator, "GENERATOR_VERSION", generator.GENERATOR_VERSION + 1)
    assert len(names | {cache_file(30, 2)}) == 4


def flip_a_byte(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(bytes(content))


def store_other_plans(path: Path) -> None:
    other = {name: array.astype(np.int16) for name, array in vars(sample_plans(29)).items()}
    np.savez(path, **other)


DAMAGES: dict[str, Callable[[Path], object]] = {
    "cut short": lambda path: path.write_bytes(path.read_bytes()[:-200]),
    "text": lambda path: path.write_text("not an archive"),
    "empty": lambda path: path.write_bytes(b""),
    "a byte flipped": flip_a_byte,
    "an array lost": lambda path: np.savez(path, boxes=np.zeros((30, 8, 4), np.int16)),
    "other plans": store_other_plans,
    "objects": lambda path: np.savez(path, room_types=np.array([{}], dtype=object)),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
def test_damaged_file_is_replaced(
    folder: Path, damage: Callable[[Path], object], caplog: pytest.LogCaptureFixture
) -> None:
    expected = cached_plans(30)
    path = cache_file(30)
    damage(path)
    assert_equal(cached_plans(30), expected)
    assert str(path) in caplog.text
    caplog.clear()
    assert_equal(cached_plans(30), expected)
    assert not caplog.records


def test_works_without_a_writable_folder(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder.parent.mkdir(parents=True)
    folder.write_text("a file stands where the folder should be")
    assert_equal(cached_plans(12), sample_plans(12))
    assert "DISCRETE_DIFFUSION_CACHE" in caplog.text


def test_failed_write_leaves_nothing_behind(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr(np, "savez_compressed", fail)
    cached_plans(12)
    assert "No space left" in caplog.text
    assert not folder.exists()


def test_folder_follows_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DISCRETE_DIFFUSION_CACHE", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert cache_dir() == tmp_path / ".cache" / "discrete_diffusion"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative/is/ignored")
    assert cache_dir() == tmp_path / ".cache" / "discrete_diffusion"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_dir() == tmp_path / "xdg" / "discrete_diffusion"
    monkeypatch.setenv("DISCRETE_DIFFUSION_CACHE", "~/plans")
    assert cache_dir() == tmp_path / "plans"


def test_what_a_killed_process_left_is_shown_and_cleared(folder: Path) -> None:
    cached_plans(3)
    left = folder / f".{cache_file(3).stem}.123.unfinished.npz"
    left.write_bytes(b"half")
    assert cached_files() == sorted([left, cache_file(3)])
    assert clear_cache() == sorted([left, cache_file(3)])
    assert cached_files() == []


@pytest.fixture(scope="module")
def large_plans():
    return sample_plans(1500, 3, (9, 20))


@pytest.mark.slow
def test_large_plans_are_sound_and_plausible(large_plans):
    structure = structure_metrics(large_plans.to_diagrams())
    sound = ("valid", "exactly_one_living_room", "transitive", "inside_valid")
    assert {structure[name] for name in sound} == {1.0}
    real = large_plans.room_types != PAD
    assert (real.sum(axis=1) == large_plans.num_rooms).all()
    counts = {code: (large_plans.room_types == code).sum(axis=1) for code in range(13)}
    assert (counts[LIVING] == 1).all()
    assert ((counts[KITCHEN] >= 1) & (counts[KITCHEN] <= 2)).all()
    assert (counts[DINING] <= 2).all()
    bedrooms = sum(counts[code] for code in (1, 5, 6, 7, 8))
    assert (bedrooms >= 1).all()
    assert (counts[BATHROOM] >= 1).all()
    assert (counts[BALCONY] <= large_plans.num_rooms // 3).all()
    assert np.corrcoef(bedrooms, large_plans.num_rooms)[0, 1] > 0.5
    sides = large_plans.boxes[..., 2:] - large_plans.boxes[..., :2]
    assert sides[real].min() >= MIN_ROOM_SIDE


def test_relations_are_those_of_the_boxes(large_plans):
    measured = relations_from_boxes(large_plans.boxes[:50])
    real = large_plans.room_types[:50] != PAD
    both = np.triu(np.ones((20, 20), dtype=bool), 1) & real[:, :, None] & real[:, None, :]
    assert (large_plans.relations[:50][both] == measured[both]).all()


def test_every_number_of_rooms_is_as_frequent(large_plans):
    counts = np.bincount(large_plans.num_rooms, minlength=21)[9:]
    assert counts.sum() == 1500
    assert abs(counts - 125).max() < 4.5 * 125**0.5


@pytest.mark.slow
def test_a_seed_fixes_the_plans(large_plans):
    again = sample_plans(100, 3, (9, 20))
    for name, values in vars(again).items():
        assert (values == getattr(large_plans, name)[:100]).all()
    other = sample_plans(100, 4, (9, 20))
    assert not np.array_equal(other.boxes, again.boxes)
    text = again.relations.astype(np.int16).tobytes() + again.room_types.astype(np.int16).tobytes()
    assert hashlib.sha256(text).hexdigest()[:12] == "a4eb40c3e561"


@pytest.mark.slow
@pytest.mark.parametrize("n", [4, 33])
def test_the_least_and_the_most(n):
    for plan in generate_plans(4, 0, (n, n)):
        assert plan.num_rooms == n


def test_tokens_of_arrays_and_of_diagrams_agree():
    large_plans, vocab = sample_plans(20, 0, (9, 14)), VocabConfig(n_max=16)
    assert (large_plans.encode(vocab).x0 == encode(large_plans.to_diagrams(), vocab).x0).all()


@pytest.mark.parametrize("asked", [(3, 9), (20, 9), (9, 34), (9,), 9])
def test_ranges_that_cannot_be_are_refused(asked):
    with pytest.raises(ValueError, match=r"data\.num_rooms=\[.*from 4 to 33, such as \[9,20\]"):
        sample_plans(1, 0, asked)


def test_the_data_set_says_its_range(tmp_path, monkeypatch):
    monkeypatch.setenv("DISCRETE_DIFFUSION_CACHE", str(tmp_path))
    words = ["data.max_nodes=12", "data.num_rooms=[9,12]", "data.num_plans=60"]
    data = compose("train", words).data
    built = build_dataset(data, domain_of(data).vocabulary(data))
    sizes = built.sizes(built.splits["train"])
    assert int(sizes.min()) >= 9
    assert int(sizes.max()) <= 12
    data.max_nodes = 10
    with pytest.raises(
        ValueError, match=r"data\.max_nodes=10: the embedded plans have up to 12 rooms"
    ):
        build_dataset(data, domain_of(data).vocabulary(data))


def test_rings():
    assert ring_for(8) == RING
    assert ring_for(33).across > ring_for(20).across > 3
    for ring in (RING, Ring(6, 3), Ring(3, 2)):
        relation = ring.relation[np.ix_(ring.used, ring.used)]
        assert (relation == relation.T).all()
        assert (np.diagonal(relation) == 0).all()
        assert ((relation == 1) | (relation == 2)).sum(axis=1).tolist() == [2] * len(relation)
        assert (relation == 2).sum() == 8  # four corners, from both sides


@pytest.mark.parametrize(
    ("vocabulary", "n_max", "asked", "decided"),
    [
        (DIRECTIONS, 8, None, 200),
        (DIRECTIONS, 20, None, NUM_LARGE_VERDICTS),
        (DIRECTIONS, 20, 70, 70),
        (ADJACENCY, 20, 70, 0),
    ],
)
def test_fewer_large_plans_are_decided(vocabulary, n_max, asked, decided):
    vocab = vocabulary.graph(n_max)
    splits = dict.fromkeys(("train", "val", "test"), encode([], vocab))
    data = DiagramDataset(splits, vocab, node_order="canonical")
    assert DiagramReport(data, num_verdicts=asked).num_decided(1000) == decided
