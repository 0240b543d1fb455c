"""Texts to complete: their blanks, their files, and what is refused."""

from __future__ import annotations

import itertools
import json

import pytest
import torch
from torch import Tensor, nn

from discrete_diffusion.algorithms import MDLM
from discrete_diffusion.categorical import make_generator
from discrete_diffusion.domains.text.sampling import UNKNOWN, SampleLength, read_prompts
from discrete_diffusion.domains.text.vocabulary import IdVocabulary, TextVocabulary
from discrete_diffusion.forward_process import Absorbing
from discrete_diffusion.layout import TokenLayout
from discrete_diffusion.noise_schedules import LogLinear
from discrete_diffusion.runtime.inputs import GivenObjects
from discrete_diffusion.sampling import build_sampler
from discrete_diffusion.sampling.model import Model, sample_in_batches
from toy_world import noise_floor, total_variation

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


MASK, LENGTH, NUM = 2, 3, 20_000
WINDOWS = torch.tensor(list(itertools.product(range(2), repeat=LENGTH)))
LAW = torch.rand(2, 2, 2, generator=make_generator(7)).double() + 0.1
LAW /= LAW.sum()


class ExactBits(nn.Module):
    """Log-probabilities of each bit of ``LAW``, given those that are not MASK."""

    def forward(self, x_t: Tensor, sigma: Tensor | None = None) -> Tensor:
        seen = x_t.unsqueeze(1)
        agrees = ((seen == WINDOWS) | (seen == MASK)).all(dim=2).double()  # (B, 8)
        weights = agrees * LAW.flatten()
        ones = weights @ WINDOWS.double()
        prob = torch.stack([weights.sum(dim=1, keepdim=True) - ones, ones], dim=2)
        logits = torch.full((*x_t.shape, MASK + 1), -1e9)
        logits[..., :2] = prob.log().float()
        return logits


def model() -> Model:
    support = torch.tensor([True, True, False]).expand(LENGTH, -1)
    process = Absorbing(TokenLayout(support, mask_id=MASK), LogLinear())
    return Model(MDLM(ExactBits(), process), build_sampler({"name": "first-hitting"}))


def samples(size: SampleLength, given: list[int] | None = None) -> Tensor:
    clamp = None if given is None else torch.tensor(given).expand(NUM, -1)
    output = sample_in_batches(
        size.model(model()), size.real(NUM), generator=make_generator(1), clamp=clamp
    )
    assert output.x0.shape == (NUM, size.num)
    return output.x0


def probability(bits: tuple[int, ...], context: int) -> Tensor:
    """p of a long sample, from its definition."""
    last = len(bits) - LENGTH
    starts = [*range(0, last, LENGTH - context), last]
    prob, seen = torch.ones((), dtype=torch.float64), 0
    for start in starts:
        window = bits[start : start + LENGTH]
        known = window[: seen - start]
        prob = prob * LAW[window] / LAW[known].sum()
        seen = start + LENGTH
    return prob


def frequencies(rows: Tensor) -> Tensor:
    code = (rows * 2 ** torch.arange(rows.shape[1] - 1, -1, -1)).sum(dim=1)
    return torch.bincount(code, minlength=2 ** rows.shape[1]).double() / len(rows)


@pytest.mark.slow
@pytest.mark.parametrize(("num", "context"), [(3, 1), (4, 1), (6, 2)])
def test_longer_samples_have_the_law_of_their_windows(num, context):
    every = [*itertools.product(range(2), repeat=num)]
    law = torch.stack([probability(bits, context) for bits in every])
    assert float(law.sum()) == pytest.approx(1)
    found = frequencies(samples(SampleLength(num, LENGTH, context)))
    assert total_variation(found, law) < noise_floor(law, NUM)


@pytest.mark.slow
def test_shorter_samples_are_begins_of_windows():
    law = LAW.sum(dim=2).flatten()
    found = frequencies(samples(SampleLength(2, LENGTH, 1)))
    assert total_variation(found, law) < noise_floor(law, NUM)


def test_a_prompt_is_kept_and_conditions_its_window():
    """0 ? 1 | 1 ? with one token of context: the blanks, each given its window."""
    rows = samples(SampleLength(5, LENGTH, 1), [0, UNKNOWN, 1, 1, UNKNOWN])
    assert (rows[:, [0, 2, 3]] == torch.tensor([0, 1, 1])).all()
    first, last = LAW[0, :, 1] / LAW[0, :, 1].sum(), LAW[1, 1] / LAW[1, 1].sum()
    law = torch.outer(first, last).flatten()
    found = frequencies(rows[:, [1, 4]])
    assert total_variation(found, law) < noise_floor(law, NUM)


def test_calls_of_all_windows_are_counted():
    size = SampleLength(5, LENGTH, 1)
    output = size.model(model()).sample_batch(size.real(4), generator=make_generator(0))
    assert output.nfe.tolist() == [3 + 2] * 4
