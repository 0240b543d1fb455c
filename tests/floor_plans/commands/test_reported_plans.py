"""Files of plans as people have them: refused as what they are."""

from __future__ import annotations

import os
import re

import pytest

from discrete_diffusion.cli import compose
from discrete_diffusion.domains import build_data, complete_data


def build(path):
    build_data(complete_data(compose("train", ["data=plans", f"data.path={path}"])))


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("plans.json", "smiles,logp\nCCO,1\n", ["not valid JSON"]),
        ("edges.jsonl", "source,target\n1,2\n", ["table of edges", "data=graphs"]),
    ],
)
def test_a_file_of_something_else_is_refused_as_what_it_is(name, content, words, tmp_path):
    (tmp_path / name).write_text(content)
    with pytest.raises(ValueError, match=re.escape(name)) as refused:
        build(tmp_path / name)
    assert all(word in str(refused.value) for word in words)


def test_a_pipe_of_plans_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe.txt")
    with pytest.raises(ValueError, match=r"pipe\.txt.*write it into a file"):
        build(tmp_path / "pipe.txt")
