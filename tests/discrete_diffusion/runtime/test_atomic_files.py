"""Every writer of the package, on a disk that is full: the old file or the new one, never half."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import discrete_diffusion
from discrete_diffusion import load
from discrete_diffusion.checkpoints.files import write_weights_file
from discrete_diffusion.cli import compose
from discrete_diffusion.evaluation.tables import write_json, write_metrics
from discrete_diffusion.runtime.atomic_files import (
    append_text,
    atomic_folder,
    atomic_write,
    growing_file,
    note_of_complete_files,
    write_text,
    written_together,
)
from discrete_diffusion.training import MetricsLog
from discrete_diffusion.training.run_checkpoints import CheckpointFiles, _copy_checkpoint
from discrete_diffusion.viz import chart_style
from full_disk import FullDisk, check_old_or_new, content
from made_checkpoints import training_state

PACKAGE = Path(discrete_diffusion.__file__).parent
SOURCES = Path(__file__).parents[3] / "src"

STATE = training_state(compose("train", ["model=bd_tiny", "model.d_model=16", "model.cond_dim=16"]))
NOISE = np.random.default_rng(0)


def draw_chart(path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure()
    figure.subplots().plot(NOISE.random(50))
    chart_style.save_figure(figure, path)


def plot_molecules(path: Path) -> None:
    pytest.importorskip("rdkit")
    from discrete_diffusion.domains.molecules import samples
    from discrete_diffusion.domains.molecules.reading import molecule_of

    found = [molecule_of(smiles, keep_charges=False)[0] for smiles in ("CCO", "c1ccccc1", "CC")]
    samples.plot_molecules(found, path)


def save_pretrained(path: Path) -> None:
    """Its own ``model.safetensors`` at ``path``."""
    source = path.with_name("source.safetensors")
    if not source.exists():
        write_weights_file(source, STATE)
    load(source).save_pretrained(path.parent, overwrite=True, name=f"of {NOISE.random()}")


def log_metrics(path: Path) -> None:
    log = MetricsLog(path.parent, "", "", first_step=9, former_run=path.parent)
    log.log_metrics({f"loss{NOISE.integers(1000)}": 0.5}, step=3)
    log.save()


def numbered(write: Callable[[Path, Any], object]) -> Callable[[Path], object]:
    """A writer whose content changes from call to call."""
    return lambda path: write(path, [str(x) for x in NOISE.random(300)])


WRITERS: dict[str, Callable[[Path], object]] = {
    "a.txt": numbered(lambda path, words: write_text(path, " ".join(words))),
    "metrics.json": numbered(lambda path, words: write_metrics(path.parent, {"a": words})),
    "cell.json": numbered(lambda path, words: write_json(path, {"a": words})),
    "weights.safetensors": lambda path: write_weights_file(path, STATE),
    "model.safetensors": save_pretrained,
    "config.json": save_pretrained,
    "README.md": save_pretrained,
    "last.ckpt": lambda path: CheckpointFiles().save_checkpoint(STATE, path),
    "best.ckpt": lambda path: _copy_checkpoint(Path(__file__), path),
    "metrics.csv": log_metrics,
    "chart.png": draw_chart,
    "molecules.png": plot_molecules,
    "molecules.svg": plot_molecules,
}


@pytest.mark.parametrize("late", [False, True], ids=["no room", "told late"])
@pytest.mark.parametrize("name", WRITERS)
def test_the_old_file_or_the_new_one(tmp_path, name, late):
    check_old_or_new(tmp_path / name, WRITERS[name], late=late)


_RAW = re.compile(
    r"\.write_(text|bytes)\(|open\([^)]*[\"'](w|wb|a|ab|x)[\"']|savez\w*\(|savefig\(|copyfile\("
    r"|(?<!report)(?<!made)(?<!self)(?<!sets)\.save\(|OmegaConf\.save|safetensors.*save_file"
)
_BY_ITSELF = {
    "runtime/atomic_files.py": "the mechanism",
    "cli/process_setup.py": "the null device",
    "training/trainer.py": "no file is meant",
}


def test_no_writer_does_without_the_mechanism():
    """Whatever writes a file by itself stands below the path that ``atomic_write`` gave it."""
    packages = [SOURCES / name for name in ("floor_plans", "continuous_states")]
    paths = [(path, folder) for folder in packages for path in sorted(folder.rglob("*.py"))]
    paths += [(path, PACKAGE) for path in sorted(PACKAGE.rglob("*.py"))]
    for path, folder in paths:
        name = str(path.relative_to(folder))
        lines = path.read_text().splitlines()
        if name in _BY_ITSELF or name.startswith("template/"):
            continue
        for number, line in enumerate(lines):
            if _RAW.search(line) and not re.match(r" *f?\"", line):
                above = "\n".join(lines[max(0, number - 12) : number + 1])
                said = f"{name}, line {number + 1}: {line.strip()}"
                assert re.search(
                    r"unfinished|np\.savez|StringIO|BytesIO|\.save\(.*folder", above
                ), said


def test_what_belongs_together_is_replaced_together(tmp_path):
    paths = [tmp_path / name for name in ("a", "b", "c")]
    for path in paths:
        path.write_text("old")

    def write(sizes: tuple[int, ...]) -> None:
        with written_together(paths) as unfinished:
            for part, size in zip(unfinished, sizes, strict=True):
                part.write_text("n" * size)

    with FullDisk(100), pytest.raises(OSError, match="File too large"):
        write((10, 200, 10))
    assert content(tmp_path) == {"a": b"old", "b": b"old", "c": b"old"}
    write((1, 2, 3))
    assert content(tmp_path) == {"a": b"n", "b": b"nn", "c": b"nnn"}


def test_the_content_is_on_the_disk_before_it_has_its_name(tmp_path, monkeypatch):
    """Else a power cut leaves the name and not the bytes."""
    order, sync, replace = [], os.fsync, Path.replace

    def synced(number: int) -> None:
        order.append(("fsync", os.fstat(number).st_ino))
        sync(number)

    def replaced(self: Path, target: Path) -> Path:
        order.append(("replace", self.stat().st_ino))
        return replace(self, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "replace", replaced)
    with written_together([tmp_path / "a", tmp_path / "b"]) as (a, b):
        a.write_text("1")
        b.write_text("2")
    first, second = ((tmp_path / name).stat().st_ino for name in "ab")
    assert [what for what, _ in order] == ["fsync", "fsync", "replace", "replace"]
    assert [number for _, number in order] == [first, second] * 2


def test_threads_that_write_one_path_do_not_mix(tmp_path):
    path, start, errors = tmp_path / "shared.txt", threading.Barrier(8), []

    def write(letter: str) -> None:
        start.wait()
        try:
            for _ in range(20):
                with atomic_write(path) as unfinished, unfinished.open("w") as file:
                    for _ in range(50):
                        file.write(letter * 100)
                        file.flush()
                assert len({*path.read_text()}) == 1
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=write, args=(letter,)) for letter in "abcdefgh"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert len(path.read_text()) == 5000
    assert [each.name for each in tmp_path.iterdir()] == ["shared.txt"]


def test_a_folder_is_whole_or_as_it_was(tmp_path):
    folder, asides = tmp_path / "plans", []

    def write(size: int) -> None:
        with atomic_folder(folder, replaced=asides.append) as unfinished:
            write_text(unfinished / "1.txt", "1")
            write_text(unfinished / "sub" / "2.txt", "2" * size)

    write(3)
    with FullDisk(50), pytest.raises(OSError, match=r"plans/sub/2\.txt'"):
        write(100)
    assert content(tmp_path) == {"plans/1.txt": b"1", "plans/sub/2.txt": b"222"}
    assert asides == []
    write(4)
    assert asides == [tmp_path / "plans.replaced-1"]
    assert content(folder)["sub/2.txt"] == b"2222"
    with atomic_folder(tmp_path / "nothing"):
        pass
    assert not (tmp_path / "nothing").exists()
    with pytest.raises(OSError, match=r"plans'$|plans"), atomic_folder(folder) as unfinished:
        write_text(unfinished / "1.txt", "1")


def test_lines_are_appended_whole(tmp_path):
    path = tmp_path / "samples.partial.jsonl"
    with FullDisk(100):
        append_text(path, "a" * 60 + "\n")
        with pytest.raises(OSError, match=r"samples\.partial"):
            append_text(path, "b" * 60 + "\n")
        assert path.read_text() == "a" * 60 + "\n"
        with (
            pytest.raises(OSError, match=r"new\.partial"),
            growing_file(tmp_path / "new.jsonl") as append,
        ):
            append("c" * 200)
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


def test_a_full_disk_says_which_files_are_complete(tmp_path):
    write_text(tmp_path / "old.txt", "old")
    names = ["samples.jsonl", "old.txt", "picture.png", "samples.partial.jsonl"]

    def write(*files: str) -> None:
        with note_of_complete_files(tmp_path, names):
            append_text(tmp_path / "samples.partial.jsonl", "1")
            for name in files:
                write_text(tmp_path / name, "1" * (1 if name == "samples.jsonl" else 100))

    with FullDisk(50):
        with pytest.raises(OSError, match=r"picture\.png'; complete in .*: samples\.jsonl$"):
            write("samples.jsonl", "picture.png")
        with pytest.raises(OSError, match=r"old\.txt'; nothing else in .* is new$"):
            write("old.txt")
    assert (tmp_path / "old.txt").read_text() == "old"


def test_a_cache_that_cannot_be_written_is_as_it_was(tmp_path, monkeypatch, caplog):
    from discrete_diffusion.data.files import cached_arrays

    expected = {"a": (np.float64, (None,))}
    path = tmp_path / "plans-v1.npz"
    with FullDisk(50):
        found = cached_arrays(path, "plans", expected, lambda: {"a": NOISE.random(100)})
    assert len(found["a"]) == 100
    assert [*tmp_path.iterdir()] == []
    assert "could not be cached" in caplog.text
    assert torch.tensor(found["a"]).isfinite().all()
