"""Texts to complete: their blanks, their files, and what is refused."""

from __future__ import annotations

import json

import pytest
import torch

from discrete_diffusion.domains.text.sampling import UNKNOWN, read_prompts
from discrete_diffusion.domains.text.vocabulary import IdVocabulary, TextVocabulary
from discrete_diffusion.runtime.inputs import GivenObjects

LETTERS = TextVocabulary("".join(sorted("abc_ [MASK]\n")))
BYTES = TextVocabulary(None)


def shown(ids: torch.Tensor, vocabulary: TextVocabulary = LETTERS) -> str:
    """A character for each token, ? for one that is to be sampled."""
    known = vocabulary.decode(ids.clamp(min=0).unsqueeze(1))
    return "".join(
        "?" if each == UNKNOWN else one for each, one in zip(ids.tolist(), known, strict=True)
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("abc", "abc???????"),
        ("[MASK]", "??????????"),
        ("a[MASK]c", "a?c???????"),
        ("a____b_____c", None),  # two blanks of 4 and 5
        ("a___b", "a___b?????"),  # three underscores are text
        ("[MASK]a[MASK][MASK]b", "?a??b?????"),
        ("a b____", "a b???????"),
        ("abcabcabca", "abcabcabca"),
    ],
)
def test_blanks_are_tokens_and_what_follows_is_free(text, expected):
    num = 12 if expected is None else 10
    found = read_prompts(GivenObjects("prompt", (text,)), LETTERS, num)
    assert shown(found[1]) == (expected or "a????b?????c")


def test_a_blank_is_one_byte_where_tokens_are_bytes():
    (found,) = read_prompts(GivenObjects("prompt", ("ä[MASK]b",)), BYTES, 6).values()
    assert found.tolist() == [*"ä".encode(), UNKNOWN, ord("b"), UNKNOWN, UNKNOWN]


def test_ids_stand_with_spaces_between():
    ids = IdVocabulary(12, 11)
    (found,) = read_prompts(GivenObjects("prompt", ("10 [MASK] 7 ____",)), ids, 8).values()
    assert found.tolist() == [10, UNKNOWN, 7, *[UNKNOWN] * 5]
    for text, named in {"10 x": "'x'", "10 12": "12", "11": "11"}.items():
        with pytest.raises(ValueError, match=named):
            read_prompts(GivenObjects("prompt", (text,)), ids, 8)


def test_lines_of_text_and_of_json(tmp_path):
    plain, lines = tmp_path / "texts.txt", tmp_path / "texts.jsonl"
    plain.write_text("ab\nb[MASK]c\n")
    lines.write_text(json.dumps("ab") + "\n\n" + json.dumps({"text": "a\nb"}) + "\n")
    found = read_prompts(str(plain), LETTERS, 4)
    assert {line: shown(ids) for line, ids in found.items()} == {1: "ab??", 2: "b?c?"}
    found = read_prompts(str(lines), LETTERS, 4)
    assert {line: shown(ids) for line, ids in found.items()} == {1: "ab??", 3: "a\nb?"}


def test_lines_end_where_files_say(tmp_path):
    """Not at U+2028 inside of a JSON string, nor at a form feed; at every line feed and return."""
    lines, plain = tmp_path / "texts.jsonl", tmp_path / "texts.txt"
    lines.write_text('"a\u2028b"\n{"text": "c\x85"}\n', encoding="utf-8")
    found = read_prompts(str(lines), BYTES, 6)
    assert {line: bytes(ids[ids >= 0].tolist()).decode() for line, ids in found.items()} == {
        **{1: "a\u2028b", 2: "c\x85"}
    }
    plain.write_bytes(b"a\x0cb\r\nc\rd\n")
    found = read_prompts(str(plain), BYTES, 6)
    assert [bytes(ids[ids >= 0].tolist()) for ids in found.values()] == [b"a\x0cb", b"c", b"d"]


@pytest.mark.parametrize(
    ("name", "content", "named"),
    [
        ("a.txt", "abc\nabcabc\n", ["a.txt, line 2", "6 tokens", "5"]),
        ("a.txt", "abc\nab____\n", ["a.txt, line 2", "6 tokens", "5"]),
        ("a.txt", "abc\n\nb\n", ["a.txt, line 2", "empty"]),
        ("a.txt", "abc\nabd\n", ["a.txt, line 2", "'d'", "[MASK]"]),
        ("a.jsonl", '"ab"\n{"txt": "b"}\n', ["a.jsonl, line 2", '"text"']),
        ("a.jsonl", '"ab"\n"b\n', ["a.jsonl, line 2", "not JSON"]),
        ("a.jsonl", "\n\n", ["a.jsonl", "no text"]),
    ],
)
def test_what_cannot_be_completed_is_named(tmp_path, name, content, named):
    (tmp_path / name).write_text(content)
    with pytest.raises(ValueError, match=r"\S") as caught:
        read_prompts(str(tmp_path / name), LETTERS, 5)
    assert all(word in str(caught.value) for word in named)


def test_objects_have_names():
    with pytest.raises(ValueError, match=r"given\[1\]"):
        read_prompts(GivenObjects("given", ("ab", {"other": 1})), LETTERS, 5)
