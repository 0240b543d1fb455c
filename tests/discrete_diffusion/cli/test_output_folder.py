"""What commands have written stays: not replaced unasked, not mixed, not half there."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from discrete_diffusion.cli import main
from discrete_diffusion.runtime.atomic_files import (
    LOCK,
    check_parent,
    claimed_folder,
    locked,
    put_aside,
)
from full_disk import FullDisk, content
from guide_code import DOCS, blocks

TRAIN = ["train", "model=bd_tiny", "debug=smoke", "data.num_plans=100", "logger=none"]
SHORT = [*TRAIN, "trainer.max_steps=1", "callbacks.num_samples=0", "eval.num_samples=2"]
LAST = "run/checkpoints/last.ckpt"
COMMAND = r"^discrete-diffusion .*"
OUTPUT = r"\b(out|hydra\.run\.dir)[= ]([\w./-]+)"


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained") / "run"
    main([*SHORT, f"hydra.run.dir={folder}"])
    return folder


@pytest.fixture
def run(trained, tmp_path) -> Path:
    """A finished run, in ``run``."""
    return Path(shutil.copytree(trained, tmp_path / "run"))


@pytest.mark.slow
def test_a_run_is_not_replaced_by_the_same_command_nor_by_one_that_fails(run, failure):
    before = content(run)
    error = failure(*SHORT, "hydra.run.dir=run", "data.split=[0,0,1]")  # which its data refuses
    for way_on in (f"resume={run}/checkpoints/last.ckpt", "overwrite=true", "hydra.run.dir="):
        assert way_on in error
    assert content(run) == before
    failure(*SHORT, "hydra.run.dir=run", "overwrite=true", "data.split=[0,0,1]")
    assert content(run) == before
    assert not run.with_name("run.replaced-1").exists()


@pytest.mark.slow
def test_overwrite_puts_the_earlier_run_aside(run, capsys):
    before = content(run)
    for number in (1, 2):
        main([*SHORT, "hydra.run.dir=run", f"seed={number}", "overwrite=true"])
        assert f"run.replaced-{number}" in capsys.readouterr().out
        assert (run / "metrics.json").exists()
    assert content(run.with_name("run.replaced-1")) == before
    assert "seed: 1" in (run.with_name("run.replaced-2") / "config.yaml").read_text()


@pytest.mark.slow
def test_of_a_link_its_target_is_put_aside(run, tmp_path):
    (tmp_path / "disk").mkdir()
    (tmp_path / "link").symlink_to(run.rename(tmp_path / "disk" / "run"))
    main([*SHORT, "hydra.run.dir=link", "seed=1", "overwrite=true"])
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "disk" / "run.replaced-1" / "metrics.json").exists()
    assert "seed: 1" in (tmp_path / "disk" / "run" / "config.yaml").read_text()


@pytest.mark.slow
def test_a_resumed_run_stays_in_its_folder_and_takes_no_other(run, failure):
    other = put_aside(shutil.copytree(run, run.with_name("other")))
    longer = ["trainer.max_steps=2", f"resume={LAST}"]
    error = failure(*SHORT, *longer, f"hydra.run.dir={other.name}")
    assert f"{other} holds a run" in error
    assert f"resume={LAST}" in failure(*SHORT, *longer, "hydra.run.dir=run", "overwrite=true")
    main([*SHORT, *longer, "hydra.run.dir=run"])
    assert torch.load(run / "checkpoints" / "last.ckpt", weights_only=True)["global_step"] == 2


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["hydra.run.dir=run", "init.checkpoint=run/checkpoints/best.ckpt"], "init.checkpoint=run"),
        (["hydra.run.dir=."], "current folder"),
    ],
)
def test_what_is_read_or_in_use_is_not_put_aside(run, failure, words, named):
    (run.parent / "config.yaml").write_text("mine: true")
    before = content(run.parent)
    assert named in failure(*SHORT, *words, "overwrite=true")
    assert content(run.parent) == before


@pytest.mark.slow
def test_the_second_of_two_at_once_is_refused_by_name(run, failure):
    model = f"checkpoint={LAST}"
    with locked(run):
        holder = (run / LOCK).read_text().strip()
        assert holder.startswith("process ")
        for words in (
            [*SHORT, "hydra.run.dir=run", "overwrite=true"],
            ["sample", model, "out=run", "overwrite=true"],
            ["evaluate", model, "out=run", "overwrite=true"],
            ["export", model, "out=run/network.onnx"],
            ["compare", *SHORT[1:], "algos=[mdlm]", "out=run"],
        ):
            error = failure(*words)
            assert f"in use by {holder};" in error
            assert "run is in use" in error
    assert not (run / LOCK).exists()


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (["export", "checkpoint=UNTRAINED", "out=network.onnx"], "network.onnx"),
        (["new", "mine"], "mine"),
    ],
)
def test_the_second_writer_of_one_file_is_refused(untrained, failure, words, name):
    words = [word.replace("UNTRAINED", str(untrained)) for word in words]
    with locked(Path(name)):
        assert f"{name} is in use by process " in failure(*words)
        with locked(Path("another.json")):  # beside it others may write
            pass
    assert [path.name for path in Path().iterdir() if path.name != "cache"] == []


def test_the_lock_of_a_folder_that_was_put_aside_is_not_taken_from_its_next_holder(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    first = locked(folder)
    first.__enter__()
    aside = put_aside(folder)
    folder.mkdir()
    with locked(folder):
        first.__exit__(None, None, None)
        assert (folder / LOCK).exists()
        with pytest.raises(ValueError, match="in use by process"), locked(folder):
            pass
    assert not (folder / LOCK).exists()
    assert aside.name == "run.replaced-1"


@pytest.mark.slow
def test_a_second_run_that_is_killed_leaves_the_first_as_it_was(run):
    before = content(run)
    endless = ["trainer.max_steps=100000", "trainer.val_check_interval=100000"]
    words = [*TRAIN, *endless, "hydra.run.dir=run", "seed=7", "overwrite=true"]
    second = subprocess.Popen([sys.executable, "-m", "discrete_diffusion", *words])
    try:
        while not (run.with_name("run.replaced-1").exists() and (run / "config.yaml").exists()):
            assert second.poll() is None
            time.sleep(0.05)
    finally:
        second.send_signal(signal.SIGKILL)
        second.wait()
    assert content(run.with_name("run.replaced-1")) == before
    assert (run / LOCK).exists()  # of a process that is no more
    main([*SHORT, "hydra.run.dir=run", "overwrite=true"])
    assert (run / "metrics.json").exists()
    assert not (run / LOCK).exists()


WITHOUT_FLOCK = """
import errno, fcntl, os, sys

def flock(file, operation):
    raise OSError(errno.ENOSYS, "no flock")

fcntl.flock = flock

from pathlib import Path
from discrete_diffusion.runtime.atomic_files import locked

with locked(Path(".")):
    try:
        locked(Path(".")).__enter__()
    except ValueError as error:
        assert f"in use by process {os.getpid()} on " in str(error), error
    else:
        raise AssertionError("two have the lock")
    os._exit(9)
"""


@pytest.mark.slow
def test_the_lock_of_a_killed_process_is_void_on_a_disk_without_flock(tmp_path):
    for _ in range(2):
        assert subprocess.run([sys.executable, "-c", WITHOUT_FLOCK], cwd=tmp_path).returncode == 9
        assert (tmp_path / LOCK).exists()


@pytest.mark.parametrize(
    "words",
    [
        [*SHORT, "hydra.run.dir=new/run", "data.split=[0,0,1]"],
        [*SHORT, "hydra.run.dir=new/run", "algo.backbone=bd-denoizer"],
        ["sample", "checkpoint=none.ckpt", "out=new/samples"],
        ["evaluate", "checkpoint=none.ckpt", "out=new/evaluation"],
    ],
)
def test_a_failed_command_leaves_no_folder(tmp_path, failure, words):
    failure(*words)
    assert [path.name for path in tmp_path.iterdir() if path.name != "cache"] == []


@pytest.mark.slow
def test_a_misspelt_folder_is_not_made(tmp_path, failure):
    (tmp_path / "runs").mkdir()
    (tmp_path / "a.ckpt").touch()
    for words in (
        [*SHORT, "hydra.run.dir=rnus/a"],
        ["sample", "checkpoint=a.ckpt", "out=rnus/a"],
        ["evaluate", "checkpoint=a.ckpt", "out=rnus/a"],
        ["compare", *SHORT[1:], "algos=[mdlm]", "out=rnus/a"],
    ):
        error = failure(*words)
        assert "=rnus/a: " in error
        assert f"did you mean {tmp_path / 'runs'}?" in error
    assert not (tmp_path / "rnus").exists()


@pytest.mark.parametrize(
    "path", ["runs/tokens", "other/a/b", "corpus2/a", "corpu/a", "corsup/a", "ou/a", "sweep12/a"]
)
def test_a_folder_whose_name_is_not_a_slip_is_made(tmp_path, path):
    for name in ("corpus", "our", "sweep3"):
        (tmp_path / name).mkdir()
    for key in (path, tmp_path / path):
        check_parent("out", key)
    with claimed_folder("out", tmp_path / path):
        assert (tmp_path / path).is_dir()


@pytest.mark.parametrize("name", ["corpsu", "copus", "corrpus", "cormus"])
def test_a_name_one_letter_away_from_a_folder_is_a_slip(tmp_path, name):
    (tmp_path / "corpus").mkdir()
    for path in (f"{name}/a/b", tmp_path / name / "a"):
        with pytest.raises(ValueError, match=rf"did you mean .*corpus\?.*mkdir -p .*{name}"):
            check_parent("out", path)


def test_the_folders_of_a_pages_commands_are_made_one_after_the_other(tmp_path, monkeypatch):
    pages = sorted(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md"))
    codes = [code for page in pages for code in blocks(page, r"\w*")]
    for number, code in enumerate(codes):
        fresh = tmp_path / str(number)
        fresh.mkdir()
        monkeypatch.chdir(fresh)
        for key, folder in re.findall(OUTPUT, "\n".join(re.findall(COMMAND, code, re.MULTILINE))):
            check_parent(key, folder)
            Path(folder).mkdir(parents=True, exist_ok=True)


@pytest.mark.slow
def test_samples_are_not_replaced_unasked(run, failure):
    words = ["sample", f"checkpoint={LAST}", "num_samples=2", "threads=1"]
    main(words)
    before = content(Path("samples"))
    for again in (["sample", f"checkpoint={LAST}"], ["evaluate", f"checkpoint={LAST}"]):
        error = failure(*again, "out=samples")
        for name in ("samples.jsonl", "metrics.json", "overwrite=true", "out=FOLDER"):
            assert name in error
    assert content(Path("samples")) == before
    main([*words, "seed=1", "overwrite=true"])
    assert content(Path("samples"))["samples.jsonl"] != before["samples.jsonl"]


@pytest.mark.slow
def test_a_full_disk_leaves_nothing_half_written(run, failure):
    words = ["sample", f"checkpoint={LAST}", "threads=1"]
    main([*words, "num_samples=2", "out=drawn"])
    before, size = content(Path("drawn")), Path("drawn/samples.jsonl").stat().st_size
    with FullDisk(2000):
        assert "samples/samples.partial.jsonl" in failure(*words, "num_samples=40")
        assert not Path("samples").exists()
        error = failure(*words, "num_samples=200", "batch_size=2", "out=some")
    assert "some/samples.partial.jsonl" in error
    lines = Path("some/samples.partial.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines]  # whole ones
    assert [path.name for path in Path("some").iterdir()] == ["samples.partial.jsonl"]
    with FullDisk(size * 2):
        error = failure(*words, "num_samples=2", "out=drawn", "seed=1", "overwrite=true")
    assert "drawn/samples.png" in error
    assert error.endswith("complete in drawn: samples.jsonl")
    now = content(Path("drawn"))
    new = {name for name in now if now[name] != before.get(name)}
    assert new == {"samples.jsonl", "samples.partial.jsonl"}
    assert before.keys() <= now.keys()


@pytest.mark.slow
def test_a_checkpoint_on_a_full_disk_is_named(run, failure):
    before = (run / "checkpoints" / "last.ckpt").read_bytes()
    longer = ["trainer.max_steps=2", f"resume={LAST}", "hydra.run.dir=run"]
    with FullDisk(len(before) // 2):
        assert "checkpoints/last.ckpt" in failure(*SHORT, *longer)
    assert (run / "checkpoints" / "last.ckpt").read_bytes() == before


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ([*SHORT, "hydra.run.dir=run", "optim.lr=-1"], "optim.lr=-1"),  # before the taken folder
        (["sample", f"checkpoint={LAST}", "out=run", "given=none.jsonl"], "given=none.jsonl"),
        ([*SHORT, "-m", "seed=1", "hydra.sweep.dir=sweep"], "hydra.sweep.dir=FOLDER"),
    ],
)
def test_the_cause_is_named(run, failure, words, named):
    shutil.copytree(run, "sweep/0")
    assert named in failure(*words)


def test_what_is_no_folder_is_named(tmp_path, failure):
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("nowhere")
    for name in ("file", "link"):
        assert f"hydra.run.dir={name}: " in failure(*SHORT, f"hydra.run.dir={name}")
        assert f"out={name}" in failure("evaluate", "samples=file", f"out={name}")
