"""Files of plans as people have them: refused as what they are."""

from __future__ import annotations

import gzip
import os
import re

import pytest

from discrete_diffusion.cli import compose
from discrete_diffusion.domains import build_data, complete_data
from discrete_diffusion.runtime import inputs


def build(path):
    build_data(complete_data(compose("train", ["data=plans", f"data.path={path}"])))


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("plans.json", "smiles,logp\nCCO,1\n", ["not valid JSON"]),
        ("edges.jsonl", "source,target\n1,2\n", ["table of edges", "data=graphs"]),
        ("wide.wkt", "kind,type,wkt\nroom,Kitchen,POINT (0 0),,\n", ["line 2", "3 columns"]),
        ("digits.dxf", 5_000 * "9" + "\nx\n", ["DXF"]),
    ],
    ids=["json", "jsonl", "wkt", "dxf"],
)
def test_a_file_of_something_else_is_refused_as_what_it_is(name, content, words, tmp_path):
    (tmp_path / name).write_text(content)
    with pytest.raises(ValueError, match=re.escape(name)) as refused:
        build(tmp_path / name)
    assert all(word in str(refused.value) for word in words)


def test_plans_that_unpack_to_too_much_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(inputs, "MOST_UNPACKED", 1 << 20)
    (tmp_path / "bomb.jsonl.gz").write_bytes(gzip.compress((1 << 20) * b"1 2\n"))
    with pytest.raises(ValueError, match=r"bomb\.jsonl\.gz.*more than .* unpacked"):
        build(tmp_path / "bomb.jsonl.gz")


def test_a_pipe_of_plans_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe.txt")
    with pytest.raises(ValueError, match=r"pipe\.txt.*write it into a file"):
        build(tmp_path / "pipe.txt")
