"""MATLAB files: the values scipy reads, and a sentence for whatever is damaged."""

from __future__ import annotations

import random
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from mat_files import mat_record, write_mat
from scipy.io import loadmat

from discrete_diffusion.domains.bubble_diagrams import BubbleDiagram, generate_plans
from discrete_diffusion.domains.bubble_diagrams.files.mat_file import (
    MatFileError,
    read_struct_array,
)
from discrete_diffusion.domains.bubble_diagrams.files.readers import read_report

PLAN = BubbleDiagram((0, 2, 3), ((0, 1, 2), (1, 2, 9)))

numbers = arrays.arrays(
    st.sampled_from(["u1", "i2", "u4", "i8", "u8", "f4", "f8"]),
    arrays.array_shapes(min_dims=2, max_dims=3, min_side=0, max_side=3),
)
texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=9)
values = numbers | texts.map(str.rstrip)  # savemat pads text with blanks, loadmat strips them


@given(
    st.lists(st.fixed_dictionaries({"rType": values, "x": values}), min_size=1, max_size=3),
    st.booleans(),
)
def test_values_are_those_that_scipy_reads(tmp_path_factory, records, compress):
    path = tmp_path_factory.getbasetemp() / "values.mat"
    write_mat(path, records, do_compression=compress)
    ours = read_struct_array(path.read_bytes(), "data", ["x", "rType", "absent"])
    theirs = loadmat(path)["data"].ravel()
    assert set(ours) == {"x", "rType"}
    for name, column in ours.items():
        for value, expected in zip(column, theirs[name], strict=True):
            if isinstance(value, str):
                assert value == "".join(expected)
            else:
                assert value.shape == expected.shape
                np.testing.assert_array_equal(value, expected)


def test_values_of_other_kinds_are_none(tmp_path):
    path = tmp_path / "data.mat"
    write_mat(path, [{"a": np.array([1j]), "b": {"c": 1}, "d": np.array([{}], dtype=object)}])
    found = read_struct_array(path.read_bytes(), "data", ["a", "b", "d"])
    assert found == {"a": [None], "b": [None], "d": [None]}


def test_files_of_the_other_byte_order_are_read():
    """A struct with one record whose field x is the double 2.5, written by hand."""

    def element(kind: int, content: bytes) -> bytes:
        return struct.pack(">II", kind, len(content)) + content + bytes(-len(content) % 8)

    def matrix(kind: int, name: bytes, content: bytes) -> bytes:
        flags, shape = struct.pack(">II", kind, 0), struct.pack(">ii", 1, 1)
        return element(14, element(6, flags) + element(5, shape) + element(1, name) + content)

    names = element(5, struct.pack(">i", 8)) + element(1, b"x".ljust(8, b"\0"))
    value = matrix(6, b"", element(9, struct.pack(">d", 2.5)))
    head = b"MATLAB 5.0 MAT-file".ljust(124) + b"\x01\x00MI"
    content = head + matrix(2, b"data", names + value)
    assert read_struct_array(content, "data", ["x"])["x"][0] == [[2.5]]


@pytest.mark.parametrize(
    "content", [b"MATLAB 7.3 MAT-file", b"\x89HDF\r\n\x1a\n", bytes(512) + b"\x89HDF\r\n\x1a\n"]
)
def test_files_of_version_7_3_say_how_to_convert_them(content):
    with pytest.raises(MatFileError, match=r"version 7\.3.*save\('data\.mat', 'data', '-v7'\)"):
        read_struct_array(content + bytes(2000), "data", ["x"])


@pytest.mark.parametrize("compress", [True, False])
def test_cut_and_doubled_files_are_refused(tmp_path, compress):
    path = tmp_path / "data.mat"
    write_mat(path, [mat_record(PLAN)] * 3, do_compression=compress)
    whole = path.read_bytes()
    for content in (b"", whole[:60], whole[:130], whole[:-9], whole[:128] + b"?" * 300):
        with pytest.raises(MatFileError):
            read_struct_array(content, "data", ["rType"])
    with pytest.raises(MatFileError, match="holds 'data' 2 times"):
        read_struct_array(whole + whole[128:], "data", ["rType"])


def test_sizes_that_no_file_could_hold_are_refused_at_once(tmp_path):
    path = tmp_path / "data.mat"
    write_mat(path, [mat_record(PLAN)])
    content = bytearray(path.read_bytes())
    content[160:168] = struct.pack("<ii", 2**31 - 1, 2**31 - 1)  # the shape of the struct array
    with pytest.raises(MatFileError, match="fewer records"):
        read_struct_array(bytes(content), "data", ["rType"])
    fields = content.index(b"rType")
    content[fields - 4 : fields] = bytes(4)  # no field names at all
    with pytest.raises(MatFileError):
        read_struct_array(bytes(content), "data", ["rType"])


def test_mutated_files_are_read_or_refused_with_a_sentence(tmp_path):
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
    for k in range(400):
        compress = k % 2 == 0
        path.write_bytes(mutated(whole[compress], rng))
        report = read_report(path, skip_invalid=True)
        assert report.num_records == len(report.diagrams) + len(report.problems) >= 1
        for problem in report.problems:
            assert problem.sentence().startswith(f"{path}")
            assert "\n" not in problem.sentence()
        if compress and report.diagrams:
            assert report.diagrams == expected
        refused += bool(report.problems)
    assert refused > 200


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
