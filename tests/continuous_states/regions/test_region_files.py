"""Tables of regions in files: round trips, both formats alike, and what is refused."""

from __future__ import annotations

import json
import logging
import os
import pickle
import sys
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from toy_regions import made_table, table_config

from continuous_states.arrays import write_npz
from continuous_states.regions.dataset import build_regions
from continuous_states.regions.files import (
    RegionTable,
    read_motif_names,
    read_regions,
    write_regions,
)
from discrete_diffusion.data import files as data_files
from full_disk import check_old_or_new
from guide_code import run_python


def arrays_of(table: RegionTable) -> dict[str, np.ndarray]:
    names = {key: np.array(getattr(table, key)) for key in ("peak_names", "motif_names")}
    return {"data": table.scores, **names, **{f"atpm/{k}": v for k, v in table.atpm.items()}}


def write_zarr(path: Path, arrays: dict[str, np.ndarray], zarr_format: int = 2) -> None:
    zarr = pytest.importorskip("zarr")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # version 3 has no standard for text of one length
        group = zarr.open_group(path, mode="w", zarr_format=zarr_format)
        for key, array in arrays.items():
            group.create_array(key, data=array)


def assert_equal(ours: RegionTable, theirs: RegionTable) -> None:
    assert np.array_equal(ours.scores, theirs.scores)
    assert ours.scores.dtype == np.float32
    assert (ours.peak_names, ours.motif_names) == (theirs.peak_names, theirs.motif_names)
    assert list(ours.atpm) == list(theirs.atpm)
    assert all(np.array_equal(ours.atpm[name], theirs.atpm[name]) for name in theirs.atpm)


@pytest.mark.parametrize("cell_types", [(), ("b_cell", "cd8 t")])
def test_npz_round_trip(cell_types: tuple[str, ...], tmp_path: Path) -> None:
    path, table = tmp_path / "deep" / "t.npz", made_table(cell_types)
    write_regions(path, table)
    assert_equal(read_regions(path), table)
    assert read_regions(path).source == str(path)
    assert read_motif_names(path) == table.motif_names


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_zarr_gives_the_data_set_of_the_npz(zarr_format: int, tmp_path: Path) -> None:
    table = made_table()
    write_regions(tmp_path / "t.npz", table)
    write_zarr(tmp_path / "t.zarr", arrays_of(table), zarr_format)
    assert_equal(read_regions(tmp_path / "t.zarr"), table)
    assert read_motif_names(tmp_path / "t.zarr") == table.motif_names
    first, second = (build_regions(table_config(tmp_path / n)) for n in ("t.npz", "t.zarr"))
    assert first.fingerprint() == second.fingerprint()


def test_names_may_be_bytes_or_of_any_length_and_numbers_of_any_kind(tmp_path: Path) -> None:
    """GET's own files hold text of any length (vlen-utf8), others bytes."""
    table, keys = made_table(("b_cell",)), ("peak_names", "motif_names")
    table = replace(table, scores=np.round(table.scores * 10))
    encoded = {key: np.array([name.encode() for name in getattr(table, key)]) for key in keys}
    arrays = arrays_of(table) | encoded | {"data": table.scores.astype(np.int16)}
    arrays["atpm/b_cell"] = table.atpm["b_cell"].astype(np.float64)
    np.savez(tmp_path / "t.npz", **arrays)
    assert_equal(read_regions(tmp_path / "t.npz"), table)
    write_zarr(tmp_path / "t.zarr", arrays)
    assert_equal(read_regions(tmp_path / "t.zarr"), table)
    group = pytest.importorskip("zarr").open_group(tmp_path / "t.zarr", mode="a")
    for key in keys:
        del group[key]
        names = np.array(getattr(table, key), dtype=object)
        group.create_array(key, shape=names.shape, dtype=str)[...] = names
    assert_equal(read_regions(tmp_path / "t.zarr"), table)


def test_cell_types_are_chosen_by_name(tmp_path: Path) -> None:
    table = made_table(("a", "b", "c"))
    write_regions(tmp_path / "t.npz", table)
    assert list(read_regions(tmp_path / "t.npz", cell_types=["c", "a", "c"]).atpm) == ["c", "a"]
    with pytest.raises(ValueError, match=r"t.npz: unknown cell type 'd'.* Available: a, b, c"):
        read_regions(tmp_path / "t.npz", cell_types=["a", "d"])
    write_regions(tmp_path / "none.npz", made_table(()))
    with pytest.raises(ValueError, match=r"none.npz .*atpm/CELLTYPE .*data.cell_types"):
        read_regions(tmp_path / "none.npz", cell_types=["a"])


def changed(key: str, place: Any, value: float) -> dict[str, np.ndarray]:
    arrays = arrays_of(made_table())
    arrays[key] = arrays[key].copy()
    arrays[key][place] = value
    return {key: arrays[key]}


PEAKS = np.array(made_table().peak_names)


def with_name(line: int, name: str) -> dict[str, np.ndarray]:
    names = PEAKS.astype("<U40")
    names[line - 1] = name
    return {"peak_names": names}


REFUSED = [
    ({"data": None}, r"'data'.* found .*atpm/b_cell, atpm/cd8 t, motif_n"),
    ({"motif_names": None}, "'motif_names'"),
    ({"peak_names": None}, "'peak_names'"),
    ({"data": np.ones((60, 4))}, r"data .*\(60, 4\); expected \(60, 3\)"),
    ({"data": np.full((60, 3), "x")}, "data is <U1; expected numbers"),
    ({"atpm/b_cell": np.ones(59)}, r"atpm/b_cell .*\(59,\); expected \(60,\)"),
    (changed("data", (4, 1), np.nan), rf"data is nan .*{PEAKS[4]} \(row 5\), motif 'GATA/1'"),
    (changed("data", (59, 0), np.inf), r"data is inf .*\(row 60\), motif 'CTCF'"),
    (changed("data", (2, 2), -1.5), r"data is -1.5 .*\(row 3\), motif 'SPI1 α'"),
    ({"data": np.full((60, 3), 1e39)}, "data is inf at peak"),
    (changed("atpm/cd8 t", 7, -1), r"atpm/cd8 t is -1.0 .*\(row 8\), cell type 'cd8 t'"),
    ({"motif_names": np.array(["a", "b", "a"])}, "motif_names has 'a' twice"),
    ({"motif_names": np.array(["a", "b", "accessibility"])}, "'accessibility'.*rename the motif"),
    ({"motif_names": np.zeros(0, "<U3"), "data": np.zeros((60, 0))}, "motif_names is empty"),
    ({"motif_names": np.arange(3)}, r"motif_names is int64 of shape \(3,\)"),
    ({"motif_names": np.array([b"\xff", b"b", b"c"])}, "motif_names is not UTF-8"),
    (with_name(17, "chr1_100"), "peak_names, line 17: 'chr1_100' .*CHROMOSOME:START-END"),
    (with_name(3, "chr1:600-100"), "line 3: 'chr1:600-100' .*START < END"),
    (with_name(60, PEAKS[0]), f"line 60: '{PEAKS[0]}' .*line 1 "),
]


def written(path: Path, arrays: dict[str, np.ndarray]) -> Path:
    """As the ending says."""
    np.savez(path, **arrays) if path.suffix == ".npz" else write_zarr(path, arrays)
    return path


@pytest.mark.parametrize(("change", "sentence"), REFUSED)
def test_wrong_tables_are_refused(change: dict, sentence: str, tmp_path: Path) -> None:
    merged = {**arrays_of(made_table()), **change}
    arrays = {key: array for key, array in merged.items() if array is not None}
    path = written(tmp_path / "wrong.npz", arrays)
    with pytest.raises(ValueError, match=sentence) as error:
        build_regions(table_config(path))
    assert str(error.value).startswith(str(path))


def test_paths_that_hold_no_table_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"/no\.npz; check data.path"):
        build_regions(table_config(tmp_path / "no.npz"))
    write_regions(tmp_path / "t.npz", made_table())
    for name, content, sentence in [
        ("text.npz", b"chr1:1-2", "text.npz .*damaged"),
        ("empty.npz", b"", "empty.npz .*damaged"),
        ("cut.npz", (tmp_path / "t.npz").read_bytes()[:-200], "cut.npz .*damaged"),
        ("table.csv", b"a,b", "table.csv: expected FILE.npz or a folder DIR.zarr"),
        ("t.zarr.tar", b"x", "t.zarr.tar: expected .*unpack"),
    ]:
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ValueError, match=sentence):
            build_regions(table_config(tmp_path / name))
    with (tmp_path / "one.npz").open("wb") as file:
        np.save(file, np.ones(3))
    with pytest.raises(ValueError, match=r"one.npz holds one array"):
        read_regions(tmp_path / "one.npz")
    pytest.importorskip("zarr")
    (tmp_path / "empty.zarr").mkdir()
    with pytest.raises(ValueError, match=r"empty.zarr .*\.zgroup or zarr\.json"):
        read_regions(tmp_path / "empty.zarr")


@pytest.mark.parametrize("ending", ["npz", "zarr"])
def test_accessibility_without_a_cell_type_is_refused(ending: str, tmp_path: Path) -> None:
    path = written(tmp_path / f"t.{ending}", {**arrays_of(made_table(())), "atpm": np.ones(60)})
    with pytest.raises(ValueError, match=rf"{path}: array 'atpm' .*atpm/CELLTYPE.*np\.savez"):
        read_regions(path)


@pytest.mark.parametrize("ending", ["npz", "zarr"])
def test_arrays_that_are_not_used_are_named(
    ending: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path, arrays = tmp_path / f"t.{ending}", arrays_of(made_table())

    def said(**more: np.ndarray) -> list[str]:
        written(path, {**arrays, **more})
        caplog.clear()
        with caplog.at_level(logging.INFO):
            assert_equal(read_regions(path), made_table())
        return caplog.messages

    assert said() == []
    assert said(**{"tss/b_cell": np.zeros(2), "notes": np.zeros(1)}) == [
        f"{path}: not used: notes, tss/b_cell"
    ]


def test_pickles_are_never_loaded(tmp_path: Path) -> None:
    arrays = arrays_of(made_table())
    arrays["motif_names"] = np.array(["a", "b", "c"], dtype=object)
    np.savez(tmp_path / "t.npz", **arrays)
    with pytest.raises(ValueError, match=r"t.npz: motif_names holds Python objects"):
        read_regions(tmp_path / "t.npz")


class Payload:
    """A pickle of it makes the folder ``path`` when it is read."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return (os.mkdir, (str(self.path),))


def nested(codec: dict[str, Any]) -> dict[str, Any]:
    inner = {"chunk_shape": [1, 1], "codecs": [codec], "index_codecs": [{"name": "bytes"}]}
    return {"name": "sharding_indexed", "configuration": inner}


TEXTS = {"dtype": "|O", "fill_value": "", "filters": [{"id": "vlen-utf8"}]}
PICKLE = {"id": "pickle", "protocol": 4}
AS_BYTES = {"name": "bytes", "configuration": {"endian": "little"}}
NAMING_PICKLE = {
    "filter": (2, {**TEXTS, "filters": [*TEXTS["filters"], PICKLE]}),
    "compressor": (2, {**TEXTS, "compressor": PICKLE}),
    "only filter": (2, {"filters": [PICKLE]}),
    "wrapped": (3, {"codecs": [AS_BYTES, {"name": "numcodecs.pickle", "configuration": {}}]}),
    "by itself": (3, {"codecs": [AS_BYTES, "numcodecs.pickle"]}),
    "of another name": (
        *(3, {"codecs": [AS_BYTES, {"name": "numcodecs.zlib", "configuration": PICKLE}]}),
    ),
    "in a shard": (3, {"codecs": [nested({"name": "numcodecs.pickle", "configuration": {}})]}),
    "without a name": (2, {"filters": [{}]}),
    "no codec": (2, {"filters": 7}),
    "an unknown one": (2, {"compressor": {"id": "of_an_installed_package"}}),
}


@pytest.mark.parametrize(
    ("case", "encoding"),
    [*((case, "utf-8") for case in NAMING_PICKLE), ("filter", "escaped"), ("wrapped", "utf-16")],
)
def test_a_codec_that_unpickles_is_never_run(
    case: str, encoding: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it ran with numcodecs before 0.16.6, which this switch brings back."""
    pickles = pytest.importorskip("numcodecs.pickles")
    monkeypatch.setattr(pickles, "ALLOW_UNSAFE_PICKLE_DECODE", True, raising=False)
    zarr_format, change = NAMING_PICKLE[case]
    path, ran = tmp_path / "t.zarr", tmp_path / "ran"
    write_zarr(path, arrays_of(made_table()), zarr_format)
    file = path / "data" / {2: ".zarray", 3: "zarr.json"}[zarr_format]
    text = json.dumps(
        {**json.loads(file.read_text()), "compressor": None, "filters": None} | change
    )
    if encoding == "escaped":
        text = text.replace("pickle", r"p\u0069ckle")
    file.write_bytes(text.encode("utf-16" if encoding == "utf-16" else "utf-8"))
    chunk = path / "data" / {2: "0.0", 3: "c/0/0"}[zarr_format]
    chunk.write_bytes(pickle.dumps(Payload(ran)))
    with pytest.raises(ValueError, match=r"t\.zarr: data .* names the codec .* write it anew"):
        read_regions(path)
    assert not ran.exists()


def test_damaged_arrays_are_named(tmp_path: Path) -> None:
    path = tmp_path / "t.npz"
    write_regions(path, made_table())
    content = bytearray(path.read_bytes())
    content[300] ^= 0xFF
    path.write_bytes(bytes(content))
    with pytest.raises(ValueError, match=r"t.npz: data is damaged"):
        read_regions(path)
    write_zarr(tmp_path / "t.zarr", arrays_of(made_table()))
    (tmp_path / "t.zarr" / "data" / "0.0").write_bytes(b"nonsense")
    with pytest.raises(ValueError, match=r"t.zarr: data cannot be read"):
        read_regions(tmp_path / "t.zarr")
    write_zarr(tmp_path / "u.zarr", {"data/inner": np.ones(3)})
    with pytest.raises(ValueError, match=r"u.zarr has no array 'data'; .* found data/inner"):
        read_regions(tmp_path / "u.zarr")


def test_without_zarr_the_error_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_zarr(tmp_path / "t.zarr", arrays_of(made_table()))
    monkeypatch.setitem(sys.modules, "zarr", None)
    with pytest.raises(ValueError, match=r"pip install .*\[regions\]"):
        read_regions(tmp_path / "t.zarr")


def test_the_code_of_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_python("features.md", word="write_regions")["table"].motif_names == ("CTCF",)
    assert (tmp_path / "peaks.npz").is_file()


@pytest.mark.parametrize("change", [{"shape": [10**12, 4]}, {"chunks": [0, 0]}], ids=str)
def test_a_zarr_array_that_claims_what_cannot_be_is_named(change: dict, tmp_path: Path) -> None:
    write_zarr(tmp_path / "t.zarr", arrays_of(made_table()))
    file = tmp_path / "t.zarr" / "data" / ".zarray"
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    with pytest.raises(ValueError, match=r"t\.zarr: data cannot be read"):
        read_regions(tmp_path / "t.zarr")


def test_an_array_that_would_fill_memory_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data_files, "_MOST", 1 << 16)
    names = {"peak_names": np.array(["p"]), "motif_names": np.array(["m"])}
    np.savez_compressed(tmp_path / "t.npz", data=np.zeros((1 << 10, 1 << 10)), **names)
    with pytest.raises(ValueError, match=r"t\.npz: data\.npy is stored in .* without compression"):
        read_regions(tmp_path / "t.npz")


def test_a_group_nested_too_deeply_is_no_group(tmp_path: Path) -> None:
    (tmp_path / "t.zarr").mkdir()
    (tmp_path / "t.zarr" / "zarr.json").write_text(100_000 * "[")
    with pytest.raises(ValueError, match=r"t\.zarr is not a zarr group"):
        read_regions(tmp_path / "t.zarr")


@pytest.mark.parametrize("late", [False, True], ids=["no room", "told late"])
def test_arrays_are_written_whole(tmp_path: Path, late: bool) -> None:
    noise = np.random.default_rng(0)
    check_old_or_new(
        tmp_path / "a.npz", lambda p: write_npz(p, {"a": noise.random(300)}), late=late
    )
