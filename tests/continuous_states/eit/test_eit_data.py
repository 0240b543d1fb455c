"""``data=eit`` and ``data=eit_quantised``: the same phantoms and maps, as fields and as ids."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from omegaconf import DictConfig, OmegaConf

from continuous_states.eit import simulator
from continuous_states.eit.dataset import FieldDataset, read_phantoms
from continuous_states.eit.domain import EIT
from continuous_states.eit.simulator import (
    LEVELS,
    SimulationSettings,
    background_map,
    cached_phantoms,
    conductivity_to_levels,
    levels_to_conductivity,
    phantom_cache_file,
    simulate_phantoms,
)
from continuous_states.regions.dataset import RegionDataset
from discrete_diffusion.config.files import shipped_files
from discrete_diffusion.data import Dataset, Examples
from discrete_diffusion.data.files import cached_files, clear_cache
from discrete_diffusion.domains import build_layout
from guide_code import run_python

build = EIT().build


def eit_config(name: str = "eit", **changes: Any) -> DictConfig:
    """``configs/data/NAME.yaml`` with few samples on a coarse mesh; not completed."""
    config = OmegaConf.load(shipped_files("data")[name])
    small = {"num_samples": 20, "size": 16, "mesh_rings": 4, "num_boundary": 12}
    return OmegaConf.merge(config, small, {"split": [0.8, 0.1, 0.1]}, changes)


SETTINGS = SimulationSettings(
    num_samples=5, size=16, phantoms="discs", mesh_rings=3, num_boundary=12, generator_seed=0
)


def maps_of(data: Dataset) -> torch.Tensor:
    return torch.cat([data.splits[name].conditions["dtn"] for name in ("train", "val", "test")])


def test_fields() -> None:
    data = build(eit_config())
    assert (data.state, data.bound) == ("field", "gaussian")
    assert data.levels == LEVELS
    assert [len(data.splits[name]) for name in ("train", "val", "test")] == [16, 2, 2]
    for examples in data.splits.values():
        num = len(examples)
        assert examples.x0.shape == (num, 1, 16, 16)
        assert examples.x0.dtype == torch.float32
        assert set(examples.x0.unique().tolist()) <= {1, 2, 2.75, 3.5, 4.25, 5}
        assert (examples.x0[:, 0, 0] == 1).all()  # a row at the edge is background
        assert examples.real.shape == (num, 1)
        assert examples.real.all()
        assert tuple(examples.conditions) == ("dtn",)
        assert examples.conditions["dtn"].shape == (num, 12, 12)
        assert examples.conditions["dtn"].dtype == torch.float32
    left_out = build(eit_config(split=[0.9, 0.1, 0.0]))
    assert [len(examples) for examples in left_out.splits.values()] == [18, 2, 0]


@pytest.mark.parametrize("phantoms", ["discs", "tubes"])
def test_ids_are_the_same_phantoms(phantoms: str) -> None:
    fields = build(eit_config(phantoms=phantoms))
    ids = build(eit_config("eit_quantised", phantoms=phantoms))
    assert (ids.state, ids.bound) == ("tokens", "plain")
    assert ids.levels == fields.levels
    for name, examples in ids.splits.items():
        theirs = fields.splits[name]
        num = len(examples)
        assert examples.x0.shape == (num, 256)
        assert examples.x0.dtype == torch.int64
        images = levels_to_conductivity(examples.x0).reshape(num, 1, 16, 16)
        assert torch.equal(images, theirs.x0)
        assert torch.equal(conductivity_to_levels(theirs.x0).reshape(num, 256), examples.x0)
        assert torch.equal(examples.conditions["dtn"], theirs.conditions["dtn"])
        assert examples.real.shape == (num, 256)
        assert examples.real.all()
        ids.layout.check(examples.x0, examples.real)
    assert ids.real_positions(torch.tensor([256, 256])).all()
    assert ids.fingerprint() != fields.fingerprint()


def test_the_layout_of_a_completed_config_is_that_of_the_data() -> None:
    config = eit_config("eit_quantised")
    EIT().complete(config)
    layout = build_layout(config)
    assert (layout.length, layout.vocab_size, layout.mask_id, layout.pad_id) == (256, 7, 6, None)
    assert torch.equal(layout.support, build(config).layout.support)
    EIT().complete(config)  # right ones stay
    with pytest.raises(ValueError, match=r"data.mask_id=0, .* 6; leave it out"):
        EIT().complete(eit_config("eit_quantised", mask_id=0))


def test_a_field_config_states_its_size() -> None:
    raw = OmegaConf.load(shipped_files("data")["eit"])
    assert (raw.field_size, raw.channels) == (32, 1)
    config = eit_config(size=20)
    EIT().complete(config)
    assert OmegaConf.to_container(config, resolve=False)["field_size"] == 20
    for changes, sentence in [
        ({"field_size": 30}, "data.field_size=30, .* 16; leave it out"),
        ({"channels": 3}, "data.channels=3, .* 1;"),
    ]:
        with pytest.raises(ValueError, match=sentence):
            EIT().complete(eit_config(**changes))


def test_maps_are_compared_with_that_of_the_background() -> None:
    background = torch.from_numpy(background_map(4, 12)).float()
    none, ratio, difference = (
        maps_of(build(eit_config(dtn_transform=name))) for name in ("none", "ratio", "difference")
    )
    assert torch.allclose(ratio * background, none, rtol=1e-6)
    assert torch.allclose(difference + background, none, atol=1e-6)
    assert torch.equal(none, none.mT)
    assert torch.linalg.eigvalsh(difference.double()).min() > -1e-5  # no conductivity is below 1


@pytest.mark.slow
def test_noise_multiplies_the_entries_and_follows_the_seed() -> None:
    def maps(**changes: object) -> torch.Tensor:
        return maps_of(build(eit_config(num_samples=60, **changes)))

    clean, noisy = maps(), maps(noise_level=0.1)
    e = (noisy / clean - 1) / 0.1
    assert e.mean().abs() < 0.05
    assert (e.std() - 1).abs() < 0.05
    assert (e - e.mT).std() > 1.3  # every entry has its own: sqrt 2
    assert torch.equal(noisy, maps(noise_level=0.1))
    raw = maps(dtn_transform="none")
    assert torch.allclose(maps(noise_level=0.1, dtn_transform="none") / raw, 1 + 0.1 * e, rtol=1e-4)
    fewer = maps_of(build(eit_config(num_samples=20, noise_level=0.1)))
    assert torch.allclose(fewer, noisy[:20], rtol=1e-5)


def test_the_fingerprint_is_that_of_the_data() -> None:
    def fingerprint(**changes: object) -> str:
        return build(eit_config(**changes)).fingerprint()

    first = fingerprint()
    assert fingerprint(batch_size=7) == first
    others = [
        {"generator_seed": 1},
        {"phantoms": "tubes"},
        {"num_boundary": 16},
        {"mesh_rings": 5},
        {"dtn_transform": "none"},
        {"noise_level": 0.1},
        {"split": [0.7, 0.2, 0.1]},
    ]
    assert len({first, *(fingerprint(**changes) for changes in others)}) == len(others) + 1


def test_maps_that_were_read_count_and_simulated_ones_follow_from_settings() -> None:
    """Their last bits need not be the same on every machine."""
    data = build(eit_config())
    nudged = {
        name: replace(e, conditions={"dtn": e.conditions["dtn"] * (1 + 1e-6)})
        for name, e in data.splits.items()
    }
    made = FieldDataset(nudged, source=data.source, made_by=data.made_by)
    assert made.fingerprint() == data.fingerprint()
    other = {**nudged, "test": replace(nudged["test"], x0=nudged["test"].x0 + 0.01)}
    assert FieldDataset(other, source="a file").levels is None
    read = [FieldDataset(s, source="a file").fingerprint() for s in (data.splits, nudged)]
    assert len({*read, data.fingerprint()}) == 3


def test_fingerprints_of_data_without_conditions_stay() -> None:
    """Checkpoints hold them."""
    x0 = torch.arange(24, dtype=torch.float32).reshape(2, 3, 4)
    examples = Examples(x0, torch.ones(2, 3, dtype=torch.bool))
    splits = dict.fromkeys(("train", "val", "test"), examples)
    data = RegionDataset(splits, feature_names=("a", "b", "c", "d"), source="made up")
    assert data.fingerprint() == "2cfef3712bc5caa7"


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"split": [0.5, 0.6, 0.1]}, r"data.split=\[0.5, 0.6, 0.1\]: expected three shares"),
        ({"num_samples": 3}, r"discs of seed 0: the test share .* has no sample; give more"),
        ({"dtn_transform": "ration"}, "unknown data.dtn_transform 'ration'; did you mean 'ratio'"),
        ({"noise_level": -0.1}, "data.noise_level=-0.1: expected a number, at least 0"),
        ({"noise_level": "much"}, "data.noise_level=much: expected a number"),
    ],
)
def test_settings_that_cannot_be_are_refused(changes: dict, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        build(eit_config("eit_quantised", **changes))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder, with everything worth caching."""
    monkeypatch.setenv("DISCRETE_DIFFUSION_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(simulator, "NODES_WORTH_CACHING", 0)
    return tmp_path / "cache"


def assert_same_phantoms(ours: object, theirs: object) -> None:
    for name in ("levels", "dtn"):
        assert np.array_equal(getattr(ours, name), getattr(theirs, name))
        assert getattr(ours, name).dtype == getattr(theirs, name).dtype


def test_large_simulations_are_made_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = cached_phantoms(SETTINGS)
    assert cached_files() == [phantom_cache_file(SETTINGS)]
    monkeypatch.setattr(simulator, "simulate_phantoms", None)
    assert_same_phantoms(cached_phantoms(SETTINGS), made)
    assert clear_cache() == [phantom_cache_file(SETTINGS)]
    monkeypatch.undo()
    monkeypatch.setenv("DISCRETE_DIFFUSION_CACHE", str(folder))
    monkeypatch.setattr(simulator, "NODES_WORTH_CACHING", 5 * 12 + 1)
    cached_phantoms(SETTINGS)  # small ones are not kept
    assert cached_files() == []
    monkeypatch.setattr(simulator, "NODES_WORTH_CACHING", 0)
    for changes in ({}, {"dtn_transform": "none"}, {"noise_level": 0.1}):
        build(eit_config(**changes))
    build(eit_config("eit_quantised"))
    assert len(cached_files()) == 1  # it serves every transform, noise and both data sets


def test_every_setting_has_a_file_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    others = {"num_samples": 6, "size": 17, "phantoms": "tubes", "mesh_rings": 4}
    others |= {"num_boundary": 16, "generator_seed": 1}
    assert others.keys() == vars(SETTINGS).keys()
    names = {phantom_cache_file(replace(SETTINGS, **{key: value})) for key, value in others.items()}
    monkeypatch.setattr(simulator, "SIMULATOR_VERSION", simulator.SIMULATOR_VERSION + 1)
    assert len(names | {phantom_cache_file(SETTINGS)}) == len(others) + 1


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_bytes(path.read_bytes()[:-100]),
        lambda path: np.savez(path, levels=np.zeros((5, 16, 15), np.uint8)),
    ],
    ids=["cut", "other arrays"],
)
def test_a_damaged_cache_file_is_replaced(
    folder: Path, damage: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    expected = cached_phantoms(SETTINGS)
    damage(phantom_cache_file(SETTINGS))
    assert_same_phantoms(cached_phantoms(SETTINGS), expected)
    assert "its phantoms are generated again" in caplog.text
    assert_same_phantoms(cached_phantoms(SETTINGS), expected)


SIMULATED = simulate_phantoms(
    SimulationSettings(
        num_samples=20, size=16, phantoms="discs", mesh_rings=4, num_boundary=12, generator_seed=0
    )
)


def arrays() -> dict[str, np.ndarray]:
    media = np.asarray(LEVELS)[SIMULATED.levels]
    return {"media": media, "dtn": SIMULATED.dtn, "background": background_map(4, 12)}


def file_config(path: Path, name: str = "eit", **changes: Any) -> DictConfig:
    return eit_config(name, path=str(path), **changes)


@pytest.mark.parametrize("transform", ["ratio", "difference", "none"])
def test_a_file_gives_the_data_set_that_was_simulated(transform: str, tmp_path: Path) -> None:
    path = tmp_path / "p.npz"
    np.savez(path, **arrays())
    ours = build(file_config(path, dtn_transform=transform, noise_level=0.01))
    theirs = build(eit_config(dtn_transform=transform, noise_level=0.01))
    for name, examples in ours.splits.items():
        assert torch.equal(examples.x0, theirs.splits[name].x0)
        assert torch.equal(examples.conditions["dtn"], theirs.splits[name].conditions["dtn"])
    ids = build(file_config(path, "eit_quantised"))
    assert torch.equal(ids.splits["val"].x0, build(eit_config("eit_quantised")).splits["val"].x0)


def test_maps_alone_do_where_nothing_is_compared(tmp_path: Path) -> None:
    path = tmp_path / "p.npz"
    np.savez(path, media=arrays()["media"], dtn=SIMULATED.dtn)
    assert read_phantoms(path).background is None
    assert build(file_config(path, dtn_transform="none")).made_by is None
    with pytest.raises(ValueError, match=r"p.npz has no array 'background'.*dtn_transform=none"):
        build(file_config(path))


def test_fields_may_hold_any_conductivity_and_ids_may_not(tmp_path: Path) -> None:
    path, changed = tmp_path / "p.npz", arrays()
    changed["media"][3, 4, 5] = 1.7
    np.savez(path, **changed)
    assert build(file_config(path)).splits["train"].x0[3, 0, 4, 5] == pytest.approx(1.7)
    with pytest.raises(
        ValueError, match=r"media\[3, 4, 5\] is 1.7; data=eit_quantised takes \(1.0, 2"
    ):
        build(file_config(path, "eit_quantised"))


def with_value(key: str, place: Any, value: float) -> dict[str, np.ndarray]:
    array = arrays()[key].copy()
    array[place] = value
    return {key: array}


REFUSED = [
    ({"media": None}, r"has no array 'media'; expected media \(M, H, H\), .* found background,"),
    ({"dtn": None}, "has no array 'dtn'"),
    ({"media": np.ones((20, 16))}, r"media has shape \(20, 16\); expected \(M, H, H\)"),
    ({"media": np.ones((20, 16, 15))}, r"media has shape \(20, 16, 15\); expected"),
    ({"dtn": np.ones((20, 12, 11))}, r"dtn has shape \(20, 12, 11\); expected \(20, n, n\)"),
    ({"dtn": np.ones((19, 12, 12))}, r"dtn has shape \(19, 12, 12\); expected \(20, n, n\)"),
    ({"background": np.ones((11, 11))}, r"background has shape \(11, 11\); expected \(12, 12\)"),
    (with_value("media", (1, 2, 3), 0), r"media\[1, 2, 3\] is 0.0; expected a positive number"),
    (with_value("media", (1, 2, 3), np.inf), r"media\[1, 2, 3\] is inf"),
    (with_value("dtn", (4, 0, 1), np.nan), r"dtn\[4, 0, 1\] is nan; expected a finite number"),
    (with_value("background", (0, 5), 0), r"background\[0, 5\] is 0.0; expected a number other th"),
    ({"media": np.ones((20, 18, 18))}, "but data.size=16; set data.size=18"),
    ({"dtn": np.ones((20, 8, 8)), "background": np.ones((8, 8))}, "set data.num_boundary=8"),
]


@pytest.mark.parametrize(("change", "sentence"), REFUSED)
def test_wrong_files_are_refused(change: dict, sentence: str, tmp_path: Path) -> None:
    merged = {**arrays(), **change}
    path = tmp_path / "wrong.npz"
    np.savez(path, **{key: array for key, array in merged.items() if array is not None})
    with pytest.raises(ValueError, match=sentence) as error:
        build(file_config(path))
    assert str(error.value).startswith(str(path))


def test_paths_that_hold_no_phantoms_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no phantoms at .*no\.npz; data.path=null simula"):
        build(file_config(tmp_path / "no.npz"))
    (tmp_path / "table.pt").touch()
    with pytest.raises(ValueError, match=r"table.pt: expected FILE.npz"):
        build(file_config(tmp_path / "table.pt"))
    few = {k: v[:3] if k != "background" else v for k, v in arrays().items()}
    np.savez(tmp_path / "few.npz", **few)
    with pytest.raises(ValueError, match=r"few.npz: the test share of .* has no sample; give more"):
        build(file_config(tmp_path / "few.npz"))


def test_the_code_of_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    scope = run_python("fields.md", word="DtNSolver")
    assert scope["maps"].shape == (3, 32, 32)
    assert len(read_phantoms("phantoms.npz").media) == 3
