"""MATLAB files, whole and damaged: read in a process of its own, or refused with a sentence."""

from __future__ import annotations

import random
import struct
import subprocess
import sys

import pytest
from mat_files import mat_record, write_mat

from floor_plans import BubbleDiagram, generate_plans, read_diagrams
from floor_plans.diagrams.files import graph2plan
from floor_plans.drawings.readers import ReadOptions, read_report

PLAN = BubbleDiagram((0, 2, 3), ((0, 1, 2), (1, 2, 9)))


@pytest.fixture
def refused(tmp_path):
    """Checks that a file of some bytes is refused in one sentence, which is returned."""

    def read(content: bytes) -> str:
        path = tmp_path / "damaged.mat"
        path.write_bytes(content)
        with pytest.raises(ValueError, match=f"^{path}: ") as caught:
            read_report(path)
        assert "\n" not in str(caught.value)
        return str(caught.value)

    return read


def test_files_of_the_other_byte_order_are_read(tmp_path):
    """A struct with one plan of one room, whose code is the double 2, written by hand."""

    def element(kind: int, content: bytes) -> bytes:
        return struct.pack(">II", kind, len(content)) + content + bytes(-len(content) % 8)

    def matrix(kind: int, name: bytes, content: bytes, size: int = 1) -> bytes:
        flags, shape = struct.pack(">II", kind, 0), struct.pack(">ii", size, size)
        return element(14, element(6, flags) + element(5, shape) + element(1, name) + content)

    names = element(5, struct.pack(">i", 8)) + element(1, b"rType\0\0\0rEdge\0\0\0")
    rooms = matrix(6, b"", element(9, struct.pack(">d", 2)))
    relations = matrix(6, b"", element(9, b""), size=0)
    path = tmp_path / "data.mat"
    head = b"MATLAB 5.0 MAT-file".ljust(124) + b"\x01\x00MI"
    path.write_bytes(head + matrix(2, b"data", names + rooms + relations))
    assert read_diagrams(path) == [BubbleDiagram((2,), ())]


@pytest.mark.parametrize(
    "content", [b"MATLAB 7.3 MAT-file", b"\x89HDF\r\n\x1a\n", bytes(512) + b"\x89HDF\r\n\x1a\n"]
)
def test_files_of_version_7_3_say_how_to_convert_them(refused, content):
    sentence = refused(content + bytes(2000))
    for word in ("version 7.3", "save('data.mat', 'data', '-v7')"):
        assert word in sentence


@pytest.mark.slow
@pytest.mark.parametrize("compress", [True, False])
def test_cut_and_doubled_files_are_refused(tmp_path, refused, compress):
    path = tmp_path / "data.mat"
    write_mat(path, [mat_record(PLAN)] * 3, do_compression=compress)
    whole = path.read_bytes()
    for content in (whole[:60], whole[:130], whole[:-9], whole[:128] + b"?" * 300):
        sentence = refused(content)
        assert "damaged, or cut short" in sentence
        assert "save('data.mat', 'data', '-v7')" in sentence
    assert "it holds 'data' 2 times" in refused(whole + whole[128:])


def test_a_file_on_which_scipy_crashes_is_refused(tmp_path, refused):
    path = tmp_path / "data.mat"
    write_mat(path, [mat_record(BubbleDiagram((0, 1, 2, 3, 5), ()))])
    content = path.read_bytes()
    shorter = content.replace(b"\x02\0\0\0\x05\0\0\0", b"\x05\0\0\0", 1)
    assert len(shorter) == len(content) - 4
    assert "damaged, or cut short" in refused(shorter)


@pytest.mark.slow
def test_sizes_that_no_file_could_hold_are_refused_at_once(tmp_path, refused):
    path = tmp_path / "data.mat"
    write_mat(path, [mat_record(PLAN)])
    content = bytearray(path.read_bytes())
    content[160:168] = struct.pack("<ii", 2**31 - 1, 2**31 - 1)  # the shape of the struct array
    assert "cannot hold" in refused(bytes(content))
    fields = content.index(b"rType")
    content[fields - 4 : fields] = bytes(4)  # no field names at all
    assert "cannot hold" in refused(bytes(content))


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such limit")
def test_no_file_takes_gigabytes_of_memory():
    script = f"""
import runpy, numpy
runpy.run_path({str(graph2plan.READER)!r})["limit_resources"](1_000)
numpy.empty(2**27)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stderr.splitlines()[-1].startswith(("MemoryError", "numpy._core._exceptions"))


@pytest.mark.parametrize("num", [10, pytest.param(40, marks=pytest.mark.slow)])
def test_mutated_files_are_read_or_refused_with_a_sentence(tmp_path, num):
    """Compressed files carry a checksum: what is accepted of them is what was written."""
    plans = generate_plans(6, seed=3)
    path, rng = tmp_path / "data.mat", random.Random(0)
    whole = {}
    for compress in (True, False):
        write_mat(
            path, [mat_record(plan) | {"name": "a"} for plan in plans], do_compression=compress
        )
        whole[compress] = path.read_bytes()
    expected = read_report(path).diagrams
    refused = 0
    for k in range(num):
        compress = k % 2 == 0
        path.write_bytes(mutated(whole[compress], rng))
        report = read_report(path, ReadOptions(skip_invalid=True))
        assert report.num_records == len(report.diagrams) + len(report.problems) >= 1
        for problem in report.problems:
            assert problem.sentence().startswith(f"{path}")
            assert "\n" not in problem.sentence()
        if compress and report.diagrams:
            assert report.diagrams == expected
        refused += bool(report.problems)
    assert refused > num // 2


def mutated(content: bytes, rng: random.Random) -> bytes:
    """One to five bytes flipped, set, deleted or inserted, often near the start; or cut off."""
    changed = bytearray(content)
    for _ in range(rng.choice([1, 1, 1, 2, 5])):
        at = rng.randrange(len(changed) if rng.random() < 0.5 else min(len(changed), 400))
        kind = rng.randrange(5)
        if kind == 0:
            changed[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            changed[at] = rng.randrange(256)
        elif kind == 2:
            del changed[at : at + rng.randrange(1, 9)]
        elif kind == 3:
            changed[at:at] = rng.randbytes(rng.randrange(1, 9))
        else:
            del changed[at + 1 :]
        changed = changed or bytearray(1)
    return bytes(changed)
