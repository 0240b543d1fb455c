"""Phantoms and maps from an ``.npz`` file: what is read, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from eit_configs import build, eit_config
from omegaconf import DictConfig

from continuous_states.eit.dataset import read_phantoms
from continuous_states.eit.simulator import (
    LEVELS,
    SimulationSettings,
    background_map,
    simulate_phantoms,
)
from guide_code import run_python

SIMULATED = simulate_phantoms(
    SimulationSettings(
        num_samples=20, size=16, phantoms="discs", mesh_rings=4, num_boundary=12, phantom_seed=0
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
    assert ours.summary().startswith(f"{path}: 16 train, 2 val, 2 test fields of 16 x 16")
    ids = build(file_config(path, "eit-levels"))
    assert torch.equal(ids.splits["val"].x0, build(eit_config("eit-levels")).splits["val"].x0)


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
        ValueError, match=r"media\[3, 4, 5\] is 1.7; data=eit-levels takes \(1.0, 2"
    ):
        build(file_config(path, "eit-levels"))


def with_value(key: str, place: Any, value: float) -> dict[str, np.ndarray]:
    array = arrays()[key].copy()
    array[place] = value
    return {key: array}


REFUSED = [
    (
        {"media": None},
        r"has no array 'media'; expected media \(M, H, H\), .* found background, dtn",
    ),
    ({"dtn": None}, "has no array 'dtn'"),
    ({"media": np.ones((20, 16))}, r"media has shape \(20, 16\); expected \(M, H, H\)"),
    ({"media": np.ones((20, 16, 15))}, r"media has shape \(20, 16, 15\); expected"),
    ({"dtn": np.ones((20, 12, 11))}, r"dtn has shape \(20, 12, 11\); expected \(20, n, n\)"),
    ({"dtn": np.ones((19, 12, 12))}, r"dtn has shape \(19, 12, 12\); expected \(20, n, n\)"),
    ({"background": np.ones((11, 11))}, r"background has shape \(11, 11\); expected \(12, 12\)"),
    ({"media": np.full((20, 16, 16), "x")}, "media is <U1; expected numbers"),
    ({"dtn": np.full((20, 12, 12), None)}, "dtn holds Python objects, which are never loaded"),
    (with_value("media", (1, 2, 3), 0), r"media\[1, 2, 3\] is 0.0; expected a positive number"),
    (with_value("media", (1, 2, 3), np.inf), r"media\[1, 2, 3\] is inf"),
    (with_value("dtn", (4, 0, 1), np.nan), r"dtn\[4, 0, 1\] is nan; expected a finite number"),
    (with_value("background", (0, 5), 0), r"background\[0, 5\] is 0.0; expected a number other th"),
    (
        {"media": np.ones((20, 18, 18))},
        r"media holds 18 x 18 numbers a sample, but data.size=16; set data.size=18",
    ),
    (
        {"dtn": np.ones((20, 8, 8)), "background": np.ones((8, 8))},
        r"dtn holds 8 x 8 numbers a sample, but data.num_boundary=12; set data.num_boundary=8",
    ),
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
    for name, sentence in [
        ("text.npz", "text.npz is not an .npz file, or damaged"),
        ("table.pt", "table.pt: expected FILE.npz"),
    ]:
        (tmp_path / name).write_bytes(b"text")
        with pytest.raises(ValueError, match=sentence):
            build(file_config(tmp_path / name))
    np.savez(
        tmp_path / "few.npz", **{k: v[:3] if k != "background" else v for k, v in arrays().items()}
    )
    with pytest.raises(
        ValueError, match=r"few.npz: the test share of .* has no sample; give more sam"
    ):
        build(file_config(tmp_path / "few.npz"))


def test_the_code_of_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    scope = run_python("fields.md", word="DtNSolver")
    assert scope["maps"].shape == (3, 32, 32)
    assert len(read_phantoms("phantoms.npz").media) == 3
